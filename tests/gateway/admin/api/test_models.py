"""Models of the gateway, managed by a program."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client, Serving

ALL = "/api/agent/models"
NEW = {
    "name": "deepseek/chat:v3",
    "routes": [{"channel": "chat", "model": "scripted-large", "weight": 2}],
    "prices": {"input": 0.27, "output": "1.10", "above": [{"tokens": 1, "input": 1, "output": 2}]},
    "maxOutput": 1000,
}
HERE = f"{ALL}/deepseek%2Fchat:v3"


def test_a_model_is_created_read_and_deleted_by_its_name(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, sections 1 and 2: models are created."""
    reply = manager.post(ALL, NEW)
    assert reply.status == 201, reply.body
    shown = manager.get(reply.headers["Location"])
    assert shown.json() == manager.get(HERE).json() == reply.json()
    assert shown.headers["ETag"] == reply.headers["ETag"]
    assert shown["routes"][0] == {**NEW["routes"][0], "priority": 0, "prices": None}  # type: ignore[index]
    assert (shown["prices"]["input"], shown["prices"]["output"]) == (0.27, 1.10)
    assert "1.10" in Path(setup.layout.models).read_text()
    assert manager.delete(HERE).status == 204
    assert manager.get(HERE).status == 404


def test_a_patch_replaces_ways_and_null_takes_prices_away(manager: Client) -> None:
    """The proxy specification, section 2: models are edited."""
    manager.post(ALL, NEW)
    reply = manager.patch(HERE, {"routes": [{"channel": "gemini"}], "prices": None})
    assert reply.status == 200, reply.body
    assert [way["channel"] for way in reply["routes"]] == ["gemini"]
    assert reply["prices"] is None
    assert reply["maxOutput"] == 1000


def test_a_way_leads_through_a_channel_that_there_is(manager: Client) -> None:
    for reply in (
        manager.post(ALL, {**NEW, "routes": [{"channel": "chatt"}]}),
        manager.patch(f"{ALL}/by-chat", {"routes": [{"channel": "chatt"}]}),
    ):
        assert reply.status == 400
        assert 'did you mean "chat"?' in reply["message"]


def test_a_channel_is_never_deleted_beside_a_model_that_comes_to_need_it(
    manager: Client, setup: GatewaySetup
) -> None:
    """The proxy specification, section 7: conflict, an object that is still in use."""
    channel = {"name": "brief", "dialects": ["openai-chat"], "url": "https://api.example.com"}
    first, second = (Manager(manager.url, manager.key) for _ in range(2))
    with closing(first), closing(second), ThreadPoolExecutor(2) as pool:
        for number in range(20):
            assert manager.post("/api/agent/channels", channel).status == 201
            model = {"name": f"m{number}", "routes": [{"channel": "brief"}]}
            deletion = pool.submit(first.delete, "/api/agent/channels/brief")
            creation = pool.submit(second.post, ALL, model)
            outcome = deletion.result().status, creation.result().status
            assert outcome in ((204, 400), (409, 201))
            if outcome == (409, 201):
                manager.delete(f"{ALL}/m{number}")
                assert manager.delete("/api/agent/channels/brief").status == 204


def test_undoing_brings_back_no_model_whose_channel_is_gone(manager: Client) -> None:
    channel = {"name": "brief", "dialects": ["openai-chat"], "url": "https://api.example.com"}
    manager.post("/api/agent/channels", channel)
    manager.post(ALL, {"name": "m", "routes": [{"channel": "brief"}]})
    manager.delete(f"{ALL}/m")
    assert manager.delete("/api/agent/channels/brief").status == 204
    reply = manager.send("POST", "/api/agent/changes/3/undo")
    assert (reply.status, '"brief"' in reply["message"]) == (409, True)
    assert manager.get(f"{ALL}/m").status == 404


def test_what_a_model_cannot_be_is_refused(manager: Client) -> None:
    for wrong in (
        {"routes": []},
        {"prices": {"input": -1, "output": 1}},
        {"maxOutput": 0},
        {"routes": [{"channel": "chat"}, {"channel": "chat"}]},
        {"name": "a b"},
    ):
        assert manager.post(ALL, {**NEW, **wrong}).status == 400


def test_a_model_that_a_key_names_is_not_deleted(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    """The proxy specification, section 7: what is in use is a conflict."""
    setup.add_key(name="ours", models=["by-chat"])
    manager = start_gateway(environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)
    reply = manager.delete(f"{ALL}/by-chat")
    assert (reply.status, 'access key "ours"' in reply["message"]) == (409, True)
    assert manager.delete(f"{ALL}/by-gemini").status == 204


def test_a_model_is_copied_and_switched(manager: Client) -> None:
    """The proxy specification, section 2: models are copied, enabled and disabled."""
    reply = manager.post(f"{ALL}/by-chat/copy", {"name": "twin"})
    assert (reply.status, reply["routes"][0]["model"]) == (201, "scripted-large")
    assert manager.send("POST", f"{ALL}/twin/disable")["enabled"] is False
    assert [one["name"] for one in manager.get(f"{ALL}?enabled=false")["items"]] == ["twin"]
    assert manager.send("POST", f"{ALL}/twin/enable")["enabled"] is True
    assert manager.post(f"{ALL}/by-chat/copy", {"name": "twin"}).status == 409


def build_model(name: str, **lists: list[str]) -> dict[str, object]:
    """Build a model with these fallbacks."""
    return {"name": name, "routes": [{"channel": "chat"}], **lists}


def test_fallbacks_are_created_read_changed_and_reset(manager: Client, setup: GatewaySetup) -> None:
    lists = {"fallbacks": ["by-chat"], "contextFallbacks": ["by-gemini", "by-messages"]}
    reply = manager.post(ALL, build_model("m", **lists))
    assert reply.status == 201, reply.body
    shown = manager.get(f"{ALL}/m").json()
    assert {name: shown[name] for name in lists} == lists
    assert shown["contentFallbacks"] == []
    changed = manager.patch(f"{ALL}/m", {"fallbacks": None, "contentFallbacks": ["by-responses"]})
    assert (changed["fallbacks"], changed["contentFallbacks"]) == ([], ["by-responses"])
    assert changed["contextFallbacks"] == lists["contextFallbacks"]
    assert "content_fallbacks" in Path(setup.layout.models).read_text()


def test_fallbacks_that_lead_in_a_circle_are_refused_and_nothing_is_changed(
    manager: Client, setup: GatewaySetup
) -> None:
    for name in ("c", "b", "a"):
        after = [chr(ord(name) + 1)] if name != "c" else []
        assert manager.post(ALL, build_model(name, fallbacks=after)).status == 201
    before = Path(setup.layout.models).read_bytes()
    for query in ("?dry_run=true", ""):
        reply = manager.patch(f"{ALL}/c{query}", {"fallbacks": ["a"]})
        assert reply.status == 400
        assert "c → a → b → c" in reply["details"]
    reply = manager.post(ALL, build_model("d", contentFallbacks=["d"]))
    assert (reply.status, "d → d" in reply["details"]) == (400, True)
    reply = manager.post(ALL, build_model("d", fallbacks=["by-chatt"]))
    assert (reply.status, 'did you mean "by-chat"' in reply["details"]) == (400, True)
    assert Path(setup.layout.models).read_bytes() == before


def test_a_dry_run_of_fallbacks_changes_nothing_and_a_change_is_undone(
    manager: Client, setup: GatewaySetup
) -> None:
    manager.post(ALL, build_model("m"))
    before = Path(setup.layout.models).read_bytes()
    would = manager.patch(f"{ALL}/m?dry_run=true", {"fallbacks": ["by-chat"]})
    assert (would.status, would["fallbacks"]) == (200, ["by-chat"])
    assert Path(setup.layout.models).read_bytes() == before
    assert manager.patch(f"{ALL}/m", {"fallbacks": ["by-chat"]}).status == 200
    assert manager.send("POST", "/api/agent/changes/2/undo").status == 200
    assert manager.get(f"{ALL}/m")["fallbacks"] == []


def test_a_model_that_is_a_fallback_is_neither_deleted_nor_renamed(manager: Client) -> None:
    """The proxy specification, section 7: what is in use is a conflict."""
    manager.post(ALL, build_model("last"))
    manager.post(ALL, build_model("m", contextFallbacks=["last"]))
    for reply in (
        manager.delete(f"{ALL}/last"),
        manager.patch(f"{ALL}/last", {"name": "end"}),
        manager.send("POST", "/api/agent/changes/1/undo"),
    ):
        assert (reply.status, 'model "m"' in reply["message"]) == (409, True)
    assert manager.patch(f"{ALL}/m", {"contextFallbacks": []}).status == 200
    assert manager.delete(f"{ALL}/last").status == 204
    reply = manager.send("POST", "/api/agent/changes/3/undo")
    assert (reply.status, '"last"' in f"{reply['message']}{reply['details']}") == (409, True)


def test_a_model_has_headers_and_parameters_of_its_own(manager: Client) -> None:
    wanted = {"headers": {"X-Team": "blue"}, "parameters": {"set": {"seed": 7}}}
    made = manager.patch("/api/agent/models/by-chat", wanted)
    assert (made.status, made["headers"]) == (200, {"X-Team": "blue"})
    assert made["parameters"] == {"set": {"seed": 7}, "default": {}, "remove": []}


@pytest.mark.parametrize(
    "wrong",
    [
        {"headers": {"Authorization": "x"}},
        {"headers": {"x-api-key": "x"}},
        {"headers": {"X-Upstream": "Bearer x"}},
        {"headers": {"Content-Type": "text/plain"}},
        {"headers": {"Host": "x"}},
        {"parameters": {"set": {"model": "other"}}},
    ],
)
def test_a_model_cannot_send_credentials_or_change_what_is_counted(
    manager: Client, wrong: dict[str, object]
) -> None:
    reply = manager.patch("/api/agent/models/by-chat", wrong)
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert manager.get("/api/agent/models/by-chat")["headers"] == {}
