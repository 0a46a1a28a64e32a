"""The secrets of channels stay with agentd, even if a supplier repeats one in its error."""

import json
from collections.abc import Iterator
from itertools import product

import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    RunningGateway,
    every_dialect,
    running_gateway,
)
from tests.supplier.steps import Answer, Fail, Refuse, Say
from tests.support.processor import busy_for_less_than

KEY = "sk-supplier/0123456789+abcdef"
TOKEN = "proxy-token/0123456789"
"""It is in a header of each channel, for a proxy in front of the supplier."""
ESCAPED = KEY.replace("/", "\\/").replace("+", "\\u002B")
"""The key as PHP and .NET write it in JSON."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        for channel in setup.channels:
            channel |= {
                "cool_down": 0,
                "key": KEY,
                "headers": {"Proxy-Auth": f"Bearer {TOKEN}", "X-Mode-Token": "on"},
            }

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


SAID = "The key %s may not do this"
STATUSES = (200, 400, 401, 403, 500)
every_supplier = pytest.mark.parametrize("supplier", DIALECTS)


def list_errors() -> list[Refuse]:
    """List errors that repeat the key, in plain letters and in escapes, with every status."""
    text = json.dumps({"error": {"message": SAID % KEY, "type": "server_error"}})
    bodies = (text, text.replace(KEY, ESCAPED))
    return [Refuse(status, body=body) for status in STATUSES for body in bodies]


@every_supplier
@every_dialect
def test_an_error_of_a_supplier_is_passed_on_without_the_key_of_the_channel(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    for error, stream in product(list_errors(), (False, True)):
        gateway.supplier.script(error)
        reply = caller.ask(dialect, f"by-{CHANNELS[supplier]}", stream=stream)
        assert reply.status >= 400
        assert SAID % "***" in json.loads(reply.body)["error"]["message"]


@every_supplier
@every_dialect
def test_so_is_an_error_with_which_a_stream_begins(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    gateway.supplier.script(Answer((Say("well"),), faults=(Fail(0, message=SAID % KEY),)))
    reply = gateway.add_caller().ask(dialect, f"by-{CHANNELS[supplier]}", stream=True)
    assert reply.status >= 400
    assert SAID % "***" in reply.error()["message"]


@every_supplier
@every_dialect
def test_so_is_an_error_in_the_middle_of_a_stream(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    for secret in (KEY, TOKEN):
        said = Say("one two three four five six seven")
        broken = Answer((said,), faults=(Fail(6, message=SAID % secret),), pause=0.02)
        gateway.supplier.script(broken)
        reply = caller.ask(dialect, f"by-{CHANNELS[supplier]}", stream=True)
        assert reply.status == 200
        assert b"one" in reply.body
        assert (SAID % "***").encode() in reply.body
        assert secret.encode() not in reply.body


def test_so_is_an_error_after_the_end_of_a_reply(gateway: RunningGateway) -> None:
    """Gemini's reply is complete with its last word."""
    late = Answer((Say("one"),), faults=(Fail(1, message=SAID % KEY),), pause=0.02)
    gateway.supplier.script(late)
    reply = gateway.add_caller().ask("gemini", f"by-{CHANNELS['gemini']}", stream=True)
    assert reply.status == 200
    assert (SAID % "***").encode() in reply.body
    assert KEY.encode() not in reply.body


@every_supplier
@every_dialect
def test_an_error_is_passed_on_without_what_the_secret_headers_of_the_channel_hold(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    for status, shown in product(STATUSES, (TOKEN, f"Bearer {TOKEN}")):
        body = json.dumps({"error": {"message": f"Turned on: {shown}.", "type": "server_error"}})
        gateway.supplier.script(Refuse(status, body=body))
        reply = caller.ask(dialect, f"by-{CHANNELS[supplier]}")
        assert reply.status >= 400
        assert "Turned on: ***." in json.loads(reply.body)["error"]["message"]


@every_supplier
@every_dialect
def test_no_part_of_the_key_is_passed_on_where_a_long_error_is_cut(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    for status, before in product(STATUSES, range(570, 600, 7)):
        message = "x" * before + KEY
        body = json.dumps({"error": {"message": message, "type": "server_error"}})
        gateway.supplier.script(Refuse(status, body=body))
        reply = caller.ask(dialect, f"by-{CHANNELS[supplier]}")
        assert reply.status >= 400
        assert KEY[:5].encode() not in reply.body


def test_an_error_that_is_not_json_is_searched_in_linear_time(gateway: RunningGateway) -> None:
    """In a string that never ends, each quote could be the beginning of one."""
    body = '{"error": "' + '\\"' * 15_000 + KEY
    gateway.supplier.script(Refuse(500, body=body))
    caller = gateway.add_caller()
    with busy_for_less_than(1.0):
        reply = caller.ask("openai-chat", f"by-{CHANNELS['openai-chat']}")
    assert reply.status >= 400
    assert KEY.encode() not in reply.body
