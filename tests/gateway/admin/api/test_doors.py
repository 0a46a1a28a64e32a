"""Every kind of key, sent to every address of every surface."""

import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentd.gateway.service_log.note import ServiceLogFilter
from agentd.gateway.service_log.store import read_page
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.supplier.supplier import Supplier
from tests.support.daemon import KEY, PATIENCE, Serving, build_request, send_raw, until

DATA = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("POST", "/v1beta/models/m:generateContent"),
]
REMOTE = [("GET", "/api/remote/bots"), ("POST", "/api/remote/chats")]
EXTENDED = [("GET", "/api/chats"), ("GET", "/api/settings/all"), ("GET", "/api/bots")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewaySetup, Serving, str]]:
    """A gateway for all tests here, and an access key of it."""
    with ExitStack() as stack:
        supplier = stack.enter_context(Supplier())
        setup = GatewaySetup(tmp_path_factory.mktemp("doors"), supplier)
        key = setup.add_key()
        setup.write()
        serving = Serving(setup.folder, environ={"PROXY_APP_HASH": HASH})
        yield setup, stack.enter_context(serving), key


def list_addresses(serving: Serving) -> list[tuple[str, str]]:
    """List every address of the management, from its own description."""
    result = serving.client(MANAGEMENT_KEY).get("/api/agent/openapi.json").json()["paths"]
    found = [
        (method.upper(), re.sub("{.*?}", "1", path))
        for path, methods in result.items()
        for method in methods
        if path.startswith("/api/agent")
    ]
    assert len(found) > 30
    return [*found, ("GET", "/api/agent/nowhere"), ("GET", "/api/agent/")]


def get_status(serving: Serving, method: str, path: str, *lines: str) -> int:
    body = b"{}" if method in ("POST", "PATCH", "PUT") else b""
    more = ["Content-Type: application/json"] if body else []
    sent = build_request(method, path, *more, *lines, "Connection: close", body=body, key=None)
    (reply,) = send_raw(serving.port, sent)
    return reply.status


def test_only_the_management_key_in_its_own_header_opens_the_management(
    shared: tuple[GatewaySetup, Serving, str],
) -> None:
    """The proxy specification, sections 1 and 5."""
    _, serving, access = shared
    for method, path in list_addresses(serving):
        for line in (
            f"X-API-Key: {access}",
            f"X-API-Key: {KEY}",
            f"X-API-Key: {HASH}",
            f"X-API-Key: {MANAGEMENT_KEY}x",
            f"X-API-Key: {MANAGEMENT_KEY[:-1]}",
            f"Authorization: Bearer {MANAGEMENT_KEY}",
            f"x-goog-api-key: {MANAGEMENT_KEY}",
            f"Cookie: agentd={MANAGEMENT_KEY}",
            "X-Other: 1",
        ):
            assert get_status(serving, method, path, line) == 401, (method, path, line)
        assert get_status(serving, method, f"{path}?api_key={MANAGEMENT_KEY}") == 401


def test_the_management_key_opens_nothing_else(shared: tuple[GatewaySetup, Serving, str]) -> None:
    """Not model requests, not the remote control, not the extended addresses."""
    _, serving, _ = shared
    for method, path in (*DATA, *REMOTE, *EXTENDED):
        for line in (
            f"X-API-Key: {MANAGEMENT_KEY}",
            f"Authorization: Bearer {MANAGEMENT_KEY}",
            f"api-key: {MANAGEMENT_KEY}",
            f"x-goog-api-key: {MANAGEMENT_KEY}",
        ):
            assert get_status(serving, method, path, line) == 401, (method, path, line)
    assert get_status(serving, "POST", f"/liveChatHub/negotiate?api_key={MANAGEMENT_KEY}") == 401
    assert get_status(serving, "GET", f"/api/events?api_key={MANAGEMENT_KEY}") == 401


def test_an_access_key_opens_models_and_nothing_else(
    shared: tuple[GatewaySetup, Serving, str],
) -> None:
    _, serving, access = shared
    for method, path in (*REMOTE, *EXTENDED):
        for line in (f"X-API-Key: {access}", f"Authorization: Bearer {access}"):
            assert get_status(serving, method, path, line) == 401, (method, path, line)
    for line in (f"X-API-Key: {access}", f"Authorization: Bearer {access}"):
        assert get_status(serving, "GET", "/v1/models", line) == 200


def test_a_remote_key_opens_neither_models_nor_the_management(
    shared: tuple[GatewaySetup, Serving, str],
) -> None:
    _, serving, _ = shared
    named = serving.new_key("laptop")
    for key in (KEY, named):
        for method, path in DATA:
            for line in (f"X-API-Key: {key}", f"Authorization: Bearer {key}"):
                assert get_status(serving, method, path, line) == 401, (method, path, line)
        assert get_status(serving, "GET", "/api/agent/channels", f"X-API-Key: {key}") == 401
        assert get_status(serving, "GET", "/api/remote/bots", f"X-API-Key: {key}") == 200


def test_without_the_variable_it_is_disabled_and_all_else_is_as_usual(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    """The proxy specification, section 5.3."""
    key = setup.add_key()
    serving = start_gateway()
    for line in (f"X-API-Key: {MANAGEMENT_KEY}", f"X-API-Key: {KEY}", "X-Other: 1"):
        for path in ("/api/agent", "/api/agent/channels", "/api/agent/nowhere"):
            (reply,) = send_raw(
                serving.port, build_request("GET", path, line, "Connection: close", key=None)
            )
            assert (reply.status, reply["error"]) == (503, "Disabled")
            assert "PROXY_APP_HASH" in reply["message"]
    assert get_status(serving, "GET", "/v1/models", f"Authorization: Bearer {key}") == 200
    assert serving.client().get("/api/remote/bots").status == 200
    assert read_page(serving.layout, ServiceLogFilter(kind="sign_in_failed")).entries == []


def test_failed_sign_ins_are_noted_with_their_address_and_never_a_key(
    setup: GatewaySetup,
    start_gateway: Callable[..., Serving],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The proxy specification, section 5.5."""
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    serving = start_gateway(environ={"PROXY_APP_HASH": HASH})
    wrong = "wrong-management-key-0123456789"
    serving.client(wrong).get("/api/agent/channels")
    serving.client(None).get("/api/agent")
    serving.client(MANAGEMENT_KEY).get("/api/agent/channels")
    serving.client("bad").get("/api/remote/bots")
    notes = until(
        lambda: (
            len(found := read_page(setup.layout, ServiceLogFilter(kind="sign_in_failed")).entries)
            >= 2
            and found
        )
    )
    assert [(one.remote, one.level) for one in notes] == [("127.0.0.1", "warning")] * 2
    assert "wrong management key" in notes[1].text
    text = Path(setup.layout.service_log).read_text()
    serving.stop()
    serving.join()
    result = text + said.getvalue() + caplog.text
    assert "/api/agent/channels 401" in result
    for secret in (wrong, MANAGEMENT_KEY, HASH):
        assert secret not in result


def test_a_client_that_guesses_is_slowed_and_who_knows_the_key_is_not(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = start_gateway(environ={"PROXY_APP_HASH": HASH})
    monkeypatch.setattr("agentd.http.throttle.DELAY_SECONDS", 1.0)
    monkeypatch.setattr("agentd.http.throttle.WINDOW_SECONDS", 1000.0)
    guesser = serving.client("wrong")
    for _ in range(5):
        guesser.get("/api/agent/channels")
    began = time.monotonic()
    assert guesser.get("/api/agent/channels").status == 401
    assert time.monotonic() - began >= 1
    monkeypatch.setattr("agentd.http.throttle.DELAY_SECONDS", 2 * PATIENCE)
    assert serving.client(MANAGEMENT_KEY).get("/api/agent/channels").status == 200
