"""An access key with a list of addresses is accepted from them alone, also behind proxies."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from agentd.gateway.keys.model import AccessKey, issue
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
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
from tests.supplier.steps import Say


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway behind a proxy on this machine."""
    folder: Path = tmp_path_factory.mktemp("gateway")

    def prepare(setup: GatewaySetup) -> None:
        Path(setup.layout.config).mkdir(parents=True, exist_ok=True)
        Path(setup.layout.config, "agentd.yml").write_text("trusted_proxies: [127.0.0.1]\n")

    with running_gateway(folder, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def ask_from(
    gateway: RunningGateway, caller: Caller, client: str, dialect: ChannelDialect = "openai-chat"
) -> CallResult:
    """Ask through the proxy, which says that the client has this address; empty: not through it."""
    gateway.supplier.forget()
    gateway.supplier.script(Say("well"))
    lines = [f"X-Forwarded-For: {client}"] if client else []
    with caller.connect() as line:
        request = build_call(dialect, f"by-{CHANNELS[dialect]}")
        line.sendall(caller.build_request(*request, *lines))
        return read_answer(line, dialect)


@every_dialect
def test_a_request_from_elsewhere_is_forbidden_in_its_dialect(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    caller = gateway.add_caller(addresses=["10.1.0.0/16", "2001:db8::/32", "192.0.2.7"])
    before = len(gateway.supplier.requests)
    for client in ("10.2.0.1", "192.0.2.8", "2001:db9::1", "unknown", ""):
        answer = ask_from(gateway, caller, client, dialect)
        assert answer.status == 403
        assert "may not be used from" in answer.error()["message"]
    assert len(gateway.supplier.requests) == before
    for client in ("10.1.2.3", "192.0.2.7", "2001:db8::1", "::ffff:10.1.2.3"):
        assert ask_from(gateway, caller, client, dialect).status == 200


def test_what_a_client_says_of_itself_does_not_count(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(addresses=["10.1.0.0/16"])
    assert ask_from(gateway, caller, "10.1.2.3, 203.0.113.9").status == 403
    assert ask_from(gateway, caller, "203.0.113.9, 10.1.2.3").status == 200


def test_without_a_list_a_key_is_accepted_from_everywhere_and_with_an_empty_one_from_nowhere(
    gateway: RunningGateway,
) -> None:
    assert ask_from(gateway, gateway.add_caller(), "203.0.113.9").status == 200
    assert ask_from(gateway, gateway.add_caller(addresses=[]), "127.0.0.1").status == 403


def test_the_list_is_changed_by_the_api_for_the_next_request_and_refusals_are_noted(
    gateway: RunningGateway,
) -> None:
    caller = gateway.add_caller()
    path = f"/api/agent/keys/{caller.key.split('-')[2]}"
    with closing(Manager(gateway.daemon.url, MANAGEMENT_KEY)) as manager:
        wrong = manager.patch(path, {"addresses": ["10.0.0.0/33"]})
        assert (wrong.status, wrong["error"]) == (400, "BadRequest")
        assert "10.0.0.0/33" in wrong["details"]
        wanted = {"addresses": ["203.0.113.0/24"]}
        assert manager.patch(f"{path}?dry_run=true", wanted)["addresses"] == ["203.0.113.0/24"]
        assert ask_from(gateway, caller, "10.1.2.3").status == 200
        assert manager.patch(path, wanted)["addresses"] == ["203.0.113.0/24"]
        assert ask_from(gateway, caller, "10.1.2.3").status == 403
        assert ask_from(gateway, caller, "203.0.113.9").status == 200
        key_id = path.rpartition("/")[2]
        (note,) = manager.get(f"/api/agent/service-log?kind=address_refused&key={key_id}")["items"]
        assert "10.1.2.3" in note["text"]
        number = manager.get("/api/agent/changes?limit=1")["items"][0]["number"]
        assert manager.send("POST", f"/api/agent/changes/{number}/undo").status < 300
    assert ask_from(gateway, caller, "10.1.2.3").status == 200


def test_other_calls_with_the_key_are_refused_too(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(addresses=["10.1.0.0/16"])
    headers = {"Authorization": f"Bearer {caller.key}"}
    for path in ("/v1/models", "/v1/quota", "/v1beta/models"):
        assert httpx.get(f"{gateway.daemon.url}{path}", headers=headers).status_code == 403


@pytest.mark.parametrize("address", ["", "here", "fe80::2%eth0", "10.0.0.1"])
def test_an_address_that_is_none_is_on_no_list(address: str) -> None:
    _, key = issue("a", "2026-01-01T00:00:00.000Z")
    fields = {name: getattr(key, name) for name in key.__struct_fields__}
    narrow = AccessKey(**fields | {"addresses": ("10.0.0.0/30", "fe80::1/128")})
    assert key.may_come_from(address)
    assert narrow.may_come_from(address) == (address == "10.0.0.1")
