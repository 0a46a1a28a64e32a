"""Channels and models created together, and undone together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client, Serving

PATH = "/api/agent/import"
KEY = "sk-moved-0123456789abcdef"


def build_request(channels: int = 2, models: int = 3) -> dict[str, Any]:
    return {
        "channels": [
            {
                "name": f"moved-{number}",
                "dialects": ["openai-chat"],
                "url": "https://api.example.com/v1",
                "key": KEY,
            }
            for number in range(channels)
        ],
        "models": [
            {
                "name": f"model-{number}",
                "routes": [{"channel": f"moved-{number % channels}"}, {"channel": "chat"}],
                "prices": {"input": 0.15, "output": "0.60"},
                "fallbacks": [f"model-{number - 1}"] if number else ["by-chat"],
            }
            for number in range(models)
        ],
    }


def read_files(setup: GatewaySetup) -> tuple[bytes, bytes]:
    return Path(setup.layout.channels).read_bytes(), Path(setup.layout.models).read_bytes()


def undo_change(manager: Client, number: int) -> Any:
    return manager.send("POST", f"/api/agent/changes/{number}/undo")


def test_all_are_created_as_one_change_that_shows_no_secret(
    setup: GatewaySetup, manager: Client
) -> None:
    reply = manager.post(PATH, build_request())
    assert reply.status == 201, reply.body
    assert reply["channels"] == ["moved-0", "moved-1"]
    assert reply["models"] == ["model-0", "model-1", "model-2"]
    assert manager.get("/api/agent/channels/moved-1")["models"] == ["model-1"]
    assert manager.get("/api/agent/models/model-2")["fallbacks"] == ["model-1"]
    (change,) = manager.get("/api/agent/changes")["items"]
    assert change["number"] == reply["change"]
    assert (change["resource"], change["name"]) == ("import", "2 channels, 3 models")
    assert change["after"] == {"channels": reply["channels"], "models": reply["models"]}
    assert KEY[-8:].encode() not in Path(setup.layout.changes).read_bytes() + reply.body


def test_the_import_is_undone_as_one_and_the_undo_too(setup: GatewaySetup, manager: Client) -> None:
    before = [manager.get(f"/api/agent/{what}").json() for what in ("channels", "models")]
    number = manager.post(PATH, build_request())["change"]
    after = read_files(setup)
    undone = undo_change(manager, number)
    assert undone.status == 200, undone.body
    assert [manager.get(f"/api/agent/{what}").json() for what in ("channels", "models")] == before
    assert undo_change(manager, undone["number"]).status == 200
    assert read_files(setup) == after


def test_a_dry_run_changes_nothing(setup: GatewaySetup, manager: Client) -> None:
    files = read_files(setup)
    reply = manager.post(f"{PATH}?dry_run=true", build_request())
    assert (reply.status, reply["change"], len(reply["models"])) == (201, None, 3)
    assert read_files(setup) == files
    assert manager.get("/api/agent/changes")["items"] == []


def test_of_a_request_with_a_problem_nothing_is_created(
    setup: GatewaySetup, manager: Client
) -> None:
    files, good = read_files(setup), build_request()
    channel, model = good["channels"][1], good["models"][1]
    wrong: list[tuple[int, dict[str, Any]]] = [
        (409, {"channels": [*good["channels"], {**channel, "name": "chat"}]}),
        (409, {"models": [*good["models"], {**model, "name": "by-chat"}]}),
        (409, {"channels": [*good["channels"], channel]}),
        (400, {"models": [{**model, "routes": [{"channel": "none"}]}]}),
        (400, {"models": [{**model, "fallbacks": ["none"]}]}),
        (400, {"channels": [*good["channels"], {**channel, "name": "c", "key": "env:HOME"}]}),
        (400, {"channels": [good["channels"][0], {**channel, "url": "http://127.0.0.1:1"}]}),
        (400, {"channels": [good["channels"][0], {**channel, "key": "****cdef"}]}),
        (400, {"channels": [], "models": []}),
    ]
    for status, change in wrong:
        reply = manager.post(PATH, good | change)
        assert reply.status == status, (change, reply.body)
        assert read_files(setup) == files
    assert manager.get("/api/agent/changes")["items"] == []


def test_an_import_is_not_undone_when_a_part_was_changed_or_is_in_use(
    setup: GatewaySetup, manager: Client
) -> None:
    number = manager.post(PATH, build_request())["change"]
    manager.patch("/api/agent/models/model-1", {"maxOutput": 5})
    manager.post("/api/agent/models", {"name": "own", "routes": [{"channel": "moved-0"}]})
    files = read_files(setup)
    in_use = undo_change(manager, number)
    assert (in_use.status, 'model "own"' in in_use["message"]) == (409, True)
    manager.delete("/api/agent/models/own")
    changed = undo_change(manager, number)
    assert (changed.status, '"model-1" was changed' in changed["message"]) == (409, True)
    manager.post("/api/agent/models", {"name": "own", "routes": [{"channel": "moved-0"}]})
    assert read_files(setup) == files


def test_a_hundred_channels_and_hundreds_of_models_fit(
    start_gateway: Callable[..., Serving], manager: Client
) -> None:
    number = manager.post(PATH, build_request(100, 400))["change"]
    assert undo_change(manager, number).status == 200
    assert manager.get("/api/agent/channels/moved-99").status == 404


BUDGETS = [{"name": "team", "tag": "team", "limits": {"day": "3"}}, {"name": "ann", "owner": "ann"}]


def test_budgets_are_created_and_undone_with_the_rest(manager: Client) -> None:
    reply = manager.post(PATH, {**build_request(), "budgets": BUDGETS})
    assert (reply.status, reply["budgets"]) == (201, ["team", "ann"])
    team = manager.get("/api/agent/budgets/team")
    assert (team["limits"]["day"], team["created"] is None) == (3, False)
    change = manager.get("/api/agent/changes")["items"][0]
    assert change["name"] == "2 channels, 3 models, 2 budgets"
    assert change["after"]["budgets"] == ["team", "ann"]
    undone = undo_change(manager, reply["change"])
    assert undone.status == 200
    for what in ("channels/moved-0", "models/model-0", "budgets/team"):
        assert manager.get(f"/api/agent/{what}").status == 404
    assert undo_change(manager, undone["number"]).status == 200
    assert manager.get("/api/agent/budgets/team").status == 200


def test_a_taken_budget_lets_nothing_be_created(setup: GatewaySetup, manager: Client) -> None:
    manager.post("/api/agent/budgets", {"name": "mine", "tag": "team"})
    before = read_files(setup)
    reply = manager.post(PATH, {**build_request(), "budgets": BUDGETS})
    assert reply.status in (400, 409)
    assert read_files(setup) == before
    items = manager.get("/api/agent/budgets")["items"]
    assert [one["name"] for one in items] == ["mine"]


def test_an_import_whose_budget_was_changed_since_is_not_undone(manager: Client) -> None:
    number = manager.post(PATH, {"budgets": BUDGETS})["change"]
    manager.patch("/api/agent/budgets/team", {"limits": {"day": 4}})
    assert undo_change(manager, number).status == 409
    assert manager.get("/api/agent/budgets/ann").status == 200
