"""Channels and models created together, and undone together."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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


@contextmanager
def _failing_call(
    patch: pytest.MonkeyPatch, at: int, *, lasts: bool = False
) -> Iterator[list[str]]:
    """Let one of the calls that make a file safe fail, and with ``lasts`` all after it.

    The calls so far are in the list.
    """
    made: list[str] = []

    def wrap(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any, **named: Any) -> None:
            made.append(name)
            if len(made) == at or (lasts and len(made) > at):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(*args, **named)

        return call

    with patch.context() as inner:
        for name in ("fsync", "rename"):
            inner.setattr(os, name, wrap(name, getattr(os, name)))
        yield made


@pytest.mark.parametrize("is_undone", [False, True], ids=["import", "undo"])
def test_on_a_failing_disk_all_is_written_or_nothing(
    setup: GatewaySetup, manager: Client, monkeypatch: pytest.MonkeyPatch, *, is_undone: bool
) -> None:
    request = {**build_request(), "budgets": BUDGETS}

    def find_parts() -> list[bool]:
        files = (setup.layout.budgets, setup.layout.channels, setup.layout.models)
        texts = [Path(file).read_text() if Path(file).exists() else "" for file in files]
        names = ("team", "moved-1", "model-2")
        return [name in text for name, text in zip(names, texts, strict=True)]

    outcomes, at, made = set(), 0, ["a call"]
    while at <= len(made):
        at += 1
        number = manager.post(PATH, request)["change"] if is_undone else 0
        with _failing_call(monkeypatch, at) as made:
            reply = undo_change(manager, number) if is_undone else manager.post(PATH, request)
        parts = find_parts()
        assert parts in ([True] * 3, [False] * 3), (at, made, reply.status, parts)
        assert reply.status == 503 or parts == [not is_undone] * 3, (at, made, reply.body)
        outcomes.add((reply.status, parts[0]))
        assert not Path(setup.layout.import_intent).exists()
        if parts[0]:
            _remove_import(manager)
    expected = 200 if is_undone else 201
    assert outcomes >= {(503, True), (503, False), (expected, not is_undone)}


def test_an_import_that_cannot_be_taken_back_is_noted_for_the_next_start(
    setup: GatewaySetup, manager: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the start takes it back is tested with a kill (``tests.crash.test_killed_import``)."""
    channels, models, intent = (
        Path(path)
        for path in (setup.layout.channels, setup.layout.models, setup.layout.import_intent)
    )
    at, made, halves = 0, ["a call"], 0
    while at <= len(made) and not halves:
        at += 1
        with _failing_call(monkeypatch, at, lasts=True) as made:
            reply = manager.post(PATH, build_request())
        assert reply.status == 503, reply.body
        is_half = ("moved-1" in channels.read_text()) != ("model-2" in models.read_text())
        assert intent.exists() is is_half, (at, made)
        halves += is_half
    assert halves


def _remove_import(manager: Client) -> None:
    for path in (
        *(f"models/model-{number}" for number in (2, 1, 0)),
        *(f"channels/moved-{number}" for number in (0, 1)),
        "budgets/team",
        "budgets/ann",
    ):
        reply = manager.send("DELETE", f"/api/agent/{path}")
        assert reply.status == 204, (path, reply.body)


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


FILE = f"{PATH}/file"
LITELLM = f"""
model_list:
- model_name: moved-large
  litellm_params: {{model: openai/gpt-4.1, api_key: {KEY}}}
- model_name: moved-small
  litellm_params: {{model: anthropic/claude-haiku-4-5, api_key: os.environ/HOME}}
router_settings: {{num_retries: 3}}
"""
NEW_API = json.dumps([{"type": 1, "models": "gpt-4.1,gpt-4.1-mini", "name": "work", "key": KEY}])


def test_a_litellm_file_is_planned_created_and_undone(setup: GatewaySetup, manager: Client) -> None:
    """A variable is never looked up, for it would be one of the daemon's own."""
    request = {"name": "config.yaml", "text": LITELLM}
    before = read_files(setup)
    plan = manager.post(f"{FILE}?dry_run=true", request)
    assert plan.status == 201, plan.body
    channels = {one["name"]: one["enabled"] for one in plan["channels"]}
    assert channels == {"openai": True, "anthropic": False}
    assert [one["name"] for one in plan["models"]] == ["moved-large", "moved-small"]
    places = {one["place"]: one["why"] for one in plan["notTaken"]}
    assert "fill in" in places["config.yaml:6: model_list[1].litellm_params.api_key"]
    assert any(place.endswith("router_settings.num_retries") for place in places)
    assert (plan["change"], read_files(setup)) == (None, before)
    made = manager.post(FILE, request)
    assert {**made.json(), "change": None} == plan.json()
    assert manager.get("/api/agent/channels/anthropic")["key"] == ""
    assert manager.get("/api/agent/channels/openai")["key"].endswith(KEY[-4:])
    assert KEY.encode() not in plan.body + made.body
    again = manager.post(FILE, request)
    assert (again["channels"], again["models"], again["change"]) == ([], [], None)
    assert undo_change(manager, made["change"]).status == 200
    assert read_files(setup) == before


def test_the_origin_is_found_by_the_content_or_given(manager: Client) -> None:
    found = manager.post(f"{FILE}?dry_run=true", {"text": NEW_API})
    assert [one["name"] for one in found["models"]] == ["gpt-4.1", "gpt-4.1-mini"]
    given = manager.post(f"{FILE}?dry_run=true", {"text": LITELLM, "origin": "new-api"})
    assert (given.status, "JSON" in given["message"]) == (400, True)


@pytest.mark.parametrize(
    ("text", "status"),
    [("", 400), ("model_list: [", 400), ("just text", 400), ("[]", 400), ("x" * 1_100_000, 413)],
)
def test_a_file_that_is_none_is_refused_and_changes_nothing(
    setup: GatewaySetup, manager: Client, text: str, status: int
) -> None:
    before = read_files(setup)
    assert manager.post(FILE, {"text": text}).status == status
    assert read_files(setup) == before
    assert manager.get("/api/agent/changes")["items"] == []


def test_a_file_of_more_than_one_import_holds_is_refused(manager: Client) -> None:
    parameters = {"model": "openai/" + "x" * 150, "api_key": "k"}
    entries = [{"model_name": f"m{number}", "litellm_params": parameters} for number in range(1001)]
    reply = manager.post(FILE, {"text": json.dumps({"model_list": entries})})
    assert reply.status == 400
