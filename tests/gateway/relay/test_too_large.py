"""Bodies that are larger than they may be: whoever sends one hears so, however he sends it."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from agentd.http import request_handler
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    Caller,
    CallResult,
    RunningGateway,
    build_call,
    every_dialect,
    read_answer,
    running_gateway,
)

MOST = 2**20
FIFTY = 50 * 2**20
PIECE = b" " * 2**18


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["max_body"] = MOST

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that takes more than what is passed over of any body."""

    def prepare(setup: GatewaySetup) -> None:
        setup.settings["max_body"] = 20 * MOST

    with running_gateway(tmp_path_factory.mktemp("roomy"), prepare) as made:
        yield made


def build_chunked_head(caller: Caller, dialect: ChannelDialect) -> bytes:
    path, _ = build_call(dialect, f"by-{CHANNELS[dialect]}")
    return caller.build_request(path, b"").replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )


@pytest.mark.parametrize("chunked", [False, True])
@every_dialect
def test_a_body_that_is_too_large_is_refused_in_the_dialect(
    gateway: RunningGateway, dialect: ChannelDialect, chunked: bool
) -> None:
    caller = gateway.add_caller()
    path, _ = build_call(dialect, f"by-{CHANNELS[dialect]}")
    size = MOST + 1
    body = b" " * size
    request = caller.build_request(path, body)
    if chunked:
        request = build_chunked_head(caller, dialect) + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    with caller.connect() as line:
        line.sendall(request)
        result = read_answer(line, dialect)
    check_refused(gateway, result)


def send_fifty_megabytes(caller: Caller, dialect: ChannelDialect, *, chunked: bool) -> CallResult:
    """Send fifty megabytes, and read only after that."""
    path, _ = build_call(dialect, f"by-{CHANNELS[dialect]}")
    with caller.connect() as line:
        if chunked:
            line.sendall(build_chunked_head(caller, dialect))
            for _ in range(FIFTY // len(PIECE)):
                line.sendall(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
            line.sendall(b"0\r\n\r\n")
        else:
            line.sendall(caller.build_request(path, b" " * FIFTY))
        return read_answer(line, dialect)


def check_refused(gateway: RunningGateway, result: CallResult) -> None:
    assert (result.status, result.whole) == (413, True)
    assert "too large. At most " in result.error()["message"]
    assert not gateway.supplier.requests


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
@every_dialect
def test_who_sends_fifty_megabytes_before_he_listens_hears_the_refusal_in_his_dialect(
    gateway: RunningGateway, roomy: RunningGateway, dialect: ChannelDialect, chunked: bool
) -> None:
    for one in (gateway, roomy):
        check_refused(one, send_fifty_megabytes(one.add_caller(), dialect, chunked=chunked))


@every_dialect
def test_a_client_that_sends_fifty_megabytes_with_invalid_key_receives_so_in_its_dialect(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    result = send_fifty_megabytes(
        Caller(gateway.daemon.port, "sk-agentd-none"), dialect, chunked=True
    )
    assert (result.status, result.whole) == (401, True)
    assert result.error()["message"]


def test_a_client_that_sends_without_end_and_never_listens_is_cut_off(
    gateway: RunningGateway,
) -> None:
    piece, sent = b"%x\r\n%b\r\n" % (len(PIECE), PIECE), 0
    with gateway.add_caller().connect() as line:
        line.sendall(build_chunked_head(gateway.add_caller(), "anthropic"))
        with pytest.raises(ConnectionError):
            while sent < 2 * request_handler.MAX_DISCARDED_BEFORE_CLOSE:
                line.sendall(piece)
                sent += len(piece)
    assert sent < 1.5 * request_handler.MAX_DISCARDED_BEFORE_CLOSE


@pytest.mark.parametrize("size", [2 * MOST, 80 * MOST])
def test_the_vendors_clients_understand_the_refusal(gateway: RunningGateway, size: int) -> None:
    key, said = gateway.setup.add_key(), [{"role": "user", "content": "x" * size}]
    url = gateway.daemon.url
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        pytest.raises(openai.APIStatusError) as refused,
    ):
        client.chat.completions.create(model="by-chat", messages=said)
    assert refused.value.status_code == 413
    with (
        anthropic.Anthropic(base_url=url, api_key=key, max_retries=0) as other,
        pytest.raises(anthropic.APIStatusError) as refused_too,
    ):
        other.messages.create(model="by-messages", max_tokens=9, messages=said)
    assert refused_too.value.status_code == 413
