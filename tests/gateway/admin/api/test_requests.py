"""The request log of the management: its filters, as CSV, and one request in detail."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import Client, Serving

STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"

Ask = Callable[..., int]


@pytest.fixture
def ask(setup: GatewaySetup, manager: Client) -> Iterator[Ask]:
    """Send a request and return its status; the supplier's chat channel can refuse."""
    setup.supplier.answer_always(Answer((Say("Hello."),), Tokens(input=1000, output=100)))
    key = manager.post("/api/agent/keys", {"name": "ann"})["key"]
    with httpx.Client(base_url=manager.url, timeout=60) as client:

        def send(model: str = "by-chat", text: str = "Hi") -> int:
            body = {"model": model, "messages": [{"role": "user", "content": text}]}
            headers = {"Authorization": f"Bearer {key}"}
            return client.post("/v1/chat/completions", json=body, headers=headers).status_code

        yield send


def find_requests(manager: Client, query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = manager.get(f"/api/agent/requests?{query}")["items"]
    return items


def test_requests_are_narrowed_down_by_their_success_and_their_secrets(
    manager: Client, ask: Ask
) -> None:
    assert ask() == 200
    assert ask(model="none") == 404
    assert ask(text=f"The key is {STRIPE}.") == 200
    assert [one["outcome"] for one in find_requests(manager, "ok=false")] == ["refused"]
    assert [one["outcome"] for one in find_requests(manager, "ok=true")] == ["ok", "ok"]
    [hidden] = find_requests(manager, "hidden=true")
    assert hidden["hidden"] == {"stripe": 1}
    assert find_requests(manager, "rule=stripe") == [hidden]
    assert find_requests(manager, "rule=strip") == []
    assert len(find_requests(manager, "hidden=false")) == 2
    assert manager.get("/api/agent/requests?ok=perhaps").status == 400


def test_the_log_is_told_as_csv_page_by_page(manager: Client, ask: Ask) -> None:
    for _ in range(3):
        assert ask() == 200
    first = manager.get("/api/agent/requests?format=csv&limit=2")
    head, *lines = first.body.decode().splitlines()
    assert head.startswith("id,at,outcome,status,error,key,key_name,")
    assert len(lines) == 2
    link = first.headers["Link"]
    assert link.endswith('>; rel="next"')
    last = manager.get(link[1 : link.index(">")])
    assert len(last.body.decode().splitlines()) == 2
    assert "Link" not in last.headers


def test_one_request_tells_what_each_kind_of_token_cost(manager: Client, ask: Ask) -> None:
    """As long as the prices are those that were used."""
    assert ask() == 200
    [one] = find_requests(manager, "")
    detail = manager.get(f"/api/agent/requests/{one['id']}")
    assert detail["costs"] == [
        {"bucket": "input", "tokens": 1000, "cost": 0.003},
        {"bucket": "output", "tokens": 100, "cost": 0.0015},
    ]
    assert one["cost"] == 0.0045
    manager.patch("/api/agent/models/by-chat", {"prices": {"input": 4, "output": 15}})
    assert manager.get(f"/api/agent/requests/{one['id']}")["costs"] == []


def test_the_channels_that_failed_before_another_answered_are_recorded(
    setup: GatewaySetup, manager: Client, ask: Ask
) -> None:
    routes = [{"channel": "responses"}, {"channel": "chat", "priority": 1}]
    for route in routes:
        route["model"] = "scripted-large"
    manager.patch("/api/agent/models/by-chat", {"routes": routes})
    setup.supplier._always.insert(0, refuse_responses)
    assert ask() == 200
    [one] = find_requests(manager, "")
    [failed] = one["failedTries"]
    assert (failed["channel"], failed["error"]) == ("responses", "rate_limit")
    assert failed["ms"] > 0
    assert (one["tries"], one["channel"]) == (2, "chat")
    assert ask(model="none") == 404
    assert find_requests(manager, "")[0]["failedTries"] == []


def refuse_responses(request: Any) -> Any:
    """Refuse what comes in the dialect of one channel."""
    return Refuse(429, "Slow down") if request.path.endswith("/responses") else None


def test_a_check_and_a_change_are_told_to_administrators(serving_events: Any) -> None:
    """The steps of a check in their order, and the file that was changed."""
    steps, files = serving_events
    assert [one["step"]["name"] for one in steps] == ["secret", "name", "connect", "tls", "models"]
    assert {one["channel"] for one in steps} == {"chat"}
    assert "channels.yml" in files


@pytest.fixture
def serving_events(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], manager: Client
) -> tuple[list[dict[str, Any]], list[str]]:
    """The events of a stream about a check and a change."""
    daemon = start_gateway()
    token = daemon.administrator().headers["Authorization"]
    steps: list[dict[str, Any]] = []
    files: list[str] = []
    url = f"{daemon.url}/api/events"
    with httpx.stream("GET", url, headers={"Authorization": token}, timeout=60) as stream:
        lines = stream.iter_lines()
        next(line for line in lines if line.startswith("event: resumed"))
        manager.send("POST", "/api/agent/channels/chat/check")
        manager.patch("/api/agent/channels/gemini", {"timeout": 100})
        name = ""
        while not files:
            line = next(lines)
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if line.startswith("data: ") and name in ("checkStep", "gatewayConfigUpdate"):
                values = httpx.Response(200, text=line.removeprefix("data: ")).json()
                (steps if name == "checkStep" else files).append(values[0])
    return steps, files


def test_without_a_limit_the_csv_has_all_requests_and_the_filters_apply(
    manager: Client, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.gateway.admin.api.requests.MAX_LIMIT", 2)
    for _ in range(5):
        ask()
    reply = manager.get("/api/agent/requests?format=csv")
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"].startswith("text/csv")
    assert "Link" not in reply.headers
    head, *rows = reply.body.decode().splitlines()
    assert head.startswith("id,at,outcome")
    ids = [row.partition(",")[0] for row in rows]
    assert ids == [one["id"] for one in manager.get("/api/agent/requests")["items"]]
    (only,) = manager.get(f"/api/agent/requests?format=csv&id={ids[3]}").body.decode().split()[1:]
    assert only.startswith(ids[3])
    empty = manager.get("/api/agent/requests?format=csv&outcome=refused")
    assert empty.body.decode() == f"{head}\r\n"
