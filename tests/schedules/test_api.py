"""Schedules over HTTP and at a terminal, with a real daemon."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import ReplyCompleted
from agentd.cli.main import main
from agentd.schedules.model import MAX_SCHEDULES
from tests.support.daemon import Client, Engine, Serving, until

SCHEDULES = "/api/schedules"
NIGHTLY = {"name": "nightly", "cron": "0 3 * * 1-5", "zone": "Europe/Berlin", "prompt": "test it"}


def get_file(daemon: Serving) -> Path:
    return Path(daemon.layout.schedules)


def list_names(client: Client) -> list[str]:
    return [one["name"] for one in client.get(SCHEDULES)["schedules"]]


def test_a_schedule_is_added_shown_changed_paused_and_removed(client: Client) -> None:
    added = client.post(SCHEDULES, NIGHTLY)
    assert added.status == 201
    assert added["description"] == "At 03:00 on Monday through Friday"
    assert added["next"].endswith(("01:00:00.000Z", "02:00:00.000Z"))
    assert (added["last"], added["missed"], added["overlap"]) == (None, "skip", "skip")
    paused = client.post(f"{SCHEDULES}/nightly/pause", None)
    assert (paused["paused"], paused["next"]) == (True, None)
    assert client.post(f"{SCHEDULES}/nightly/resume", None)["next"]
    changed = client.put(f"{SCHEDULES}/nightly", {**NIGHTLY, "missed": "once", "model": "m"})
    assert (changed["missed"], changed["model"]) == ("once", "m")
    assert client.put(f"{SCHEDULES}/nightly", NIGHTLY)["model"] == ""
    assert client.put(f"{SCHEDULES}/nightly", {**NIGHTLY, "budget": 0.5})["budget"] == 0.5
    assert client.put(f"{SCHEDULES}/nightly", NIGHTLY)["budget"] is None
    assert client.delete(f"{SCHEDULES}/nightly").status == 204
    assert list_names(client) == []


def test_a_version_that_is_no_longer_the_current_one_changes_nothing(client: Client) -> None:
    before = client.get(SCHEDULES).headers["ETag"]
    client.post(SCHEDULES, NIGHTLY)
    for reply in (
        client.post(SCHEDULES, {**NIGHTLY, "name": "b"}, {"If-Match": before}),
        client.put(f"{SCHEDULES}/nightly", NIGHTLY, {"If-Match": before}),
        client.send("DELETE", f"{SCHEDULES}/nightly", None, {"If-Match": before}),
        client.send("DELETE", f"{SCHEDULES}/nightly", None, {"If-Match": "7"}),
    ):
        assert reply.status == 412
    now = client.get(SCHEDULES).headers["ETag"]
    kept = client.send("DELETE", f"{SCHEDULES}/nightly", None, {"If-Match": now})
    assert kept.status == 204


def test_the_description_of_the_version_fits_the_one_that_is_sent(client: Client) -> None:
    version = client.get(SCHEDULES).headers["ETag"]
    paths = client.get("/api/openapi.json")["paths"]
    described = [
        parameter["schema"]["pattern"]
        for path, methods in paths.items()
        if path.startswith(SCHEDULES)
        for method in methods.values()
        for parameter in method.get("parameters", ())
        if parameter["name"] == "If-Match"
    ]
    assert len(described) == 5
    assert all(re.fullmatch(pattern, version) for pattern in described)


def test_schedules_can_be_paused_at_the_same_time(client: Client, daemon: Serving) -> None:
    names = [f"s{number}" for number in range(8)]
    for name in names:
        client.post(SCHEDULES, NIGHTLY | {"name": name})

    def pause(name: str) -> int:
        return daemon.client().post(f"{SCHEDULES}/{name}/pause", None).status

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(pause, names)) == [200] * len(names)
    assert all(one["paused"] for one in client.get(SCHEDULES)["schedules"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cron": "61 * * * *"}, "cron: bad minute"),
        ({"zone": "Mars/X"}, "zone: there is no time zone 'Mars/X'"),
        ({"prompt": " "}, "prompt: the prompt is empty"),
        ({"prompt": "no\0chat takes it"}, "prompt: the prompt holds a NUL character"),
        ({"prompt": "é" * 150_000}, "prompt: the prompt has 300000 bytes"),
        ({"name": "No Name"}, "The body is not valid"),
        ({"chat": 1, "worktree": True}, "chat: "),
        ({"missed": "twice"}, "The body is not valid"),
        ({"budget": 0}, "budget: found 0; expected USD, more than 0"),
        ({"budget": 1e300}, "schedules.yml would not be valid with this change"),
        ({"output_schema": "city"}, "The body is not valid"),
    ],
)
def test_a_mistake_is_a_bad_request_that_changes_nothing(
    client: Client, wrong: dict[str, Any], said: str
) -> None:
    reply = client.post(SCHEDULES, NIGHTLY | wrong)
    assert reply.status == 400
    assert said in reply["message"]
    assert list_names(client) == []


def test_the_file_takes_no_more_than_it_may_hold(client: Client) -> None:
    prompt = "x" * 250_000
    *taken, refused = (
        client.post(SCHEDULES, NIGHTLY | {"name": f"s{number}", "prompt": prompt})
        for number in range(5)
    )
    assert [reply.status for reply in taken] == [201] * 4
    assert refused.status == 400
    assert "would not be valid" in refused["message"]
    assert "is larger than" in refused["details"]
    assert list_names(client) == ["s0", "s1", "s2", "s3"]


def test_there_are_no_more_schedules_than_may_be(client: Client, daemon: Serving) -> None:
    entries = "".join(
        f"  - {{name: s{number}, cron: '0 3 * * *', prompt: look}}\n"
        for number in range(MAX_SCHEDULES)
    )
    get_file(daemon).write_text(f"schedules:\n{entries}")
    until(lambda: len(list_names(client)) == MAX_SCHEDULES)
    refused = client.post(SCHEDULES, NIGHTLY)
    assert refused.status == 400
    assert "found 201 items; expected at most 200" in refused["details"]
    assert len(list_names(client)) == MAX_SCHEDULES


def test_an_unknown_schedule_and_a_taken_name_are_told(client: Client) -> None:
    client.post(SCHEDULES, NIGHTLY)
    assert client.post(SCHEDULES, NIGHTLY).status == 409
    for reply in (
        client.put(f"{SCHEDULES}/nigthly", NIGHTLY),
        client.post(f"{SCHEDULES}/nigthly/run", None),
        client.get(f"{SCHEDULES}/nigthly/runs"),
        client.delete(f"{SCHEDULES}/nigthly"),
    ):
        assert reply.status == 404
        assert "nightly" in reply["message"]


def test_a_run_by_hand_is_a_chat_whose_end_and_cost_the_history_has(
    client: Client, engine: Engine
) -> None:
    client.post(SCHEDULES, NIGHTLY | {"title": " \n"})
    run = client.post(f"{SCHEDULES}/nightly/run", None)
    assert run.status == 201
    path = f"{SCHEDULES}/nightly/runs"
    until(lambda: client.get(path)["runs"][0]["state"] == "completed")
    (kept,) = client.get(path)["runs"]
    assert (kept["chatId"], kept["cause"]) == (run["chatId"], "hand")
    status = client.get(f"/api/remote/chats/{run['chatId']}/status")
    assert (status["title"], status["totalCost"]) == ("nightly", kept["cost"])


def test_an_edit_by_hand_takes_effect_and_a_broken_one_is_told_by_line(
    daemon: Serving, client: Client
) -> None:
    client.post(SCHEDULES, NIGHTLY)
    text = get_file(daemon).read_text()
    get_file(daemon).write_text(f"# mine\n{text}  - {{name: two, cron: '@daily', prompt: x}}\n")
    assert list_names(client) == ["nightly", "two"]
    client.post(f"{SCHEDULES}/two/pause", None)
    assert get_file(daemon).read_text().startswith("# mine\n")
    good = get_file(daemon).read_text()
    get_file(daemon).write_text(good.replace("@daily", "@dayly"))
    assert list_names(client) == ["nightly", "two"]
    (problem,) = client.get("/api/settings/all")["problems"]
    line = 1 + next(n for n, one in enumerate(good.splitlines()) if "@daily" in one)
    assert problem["line"] == line
    assert "expected five fields" in problem["what"]
    refused = client.post(f"{SCHEDULES}/two/resume", None)
    assert refused.status == 409
    assert "has mistakes" in refused["message"]


def test_the_command_adds_lists_runs_pauses_and_removes(
    daemon: Serving, client: Client, engine: Engine, tmp_path: Path
) -> None:
    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "agentd", "schedules", "--url", daemon.url, *words],
            env={"AGENTD_KEY": str(client.key), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert command() == "no schedules\n"
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    Path(daemon.layout.models).write_text("models:\n  - {name: able, engine: codex}\n")
    until(lambda: client.get("/api/models")["models"])
    chosen = ("--model", "able", "--mode", "plan")
    command("add", "typed", "--cron", "@daily", "--schema", str(schema), *chosen, "test it")
    (typed,) = json.loads(command("--json"))
    assert (typed["output_schema"], typed["mode"]) == ({"type": "object"}, "plan")
    command("remove", "typed")
    added = command("add", "nightly", "--cron", "0 3 * * *", "--missed", "once", "test it")
    assert "0 3 * * * (UTC)  next 2" in added
    assert "hand  " in command("run", "nightly")
    until(lambda: "  completed  chat " in command("runs", "nightly"))
    assert "  paused; last completed" in command("pause", "nightly")
    assert json.loads(command("--json"))[0]["missed"] == "once"
    command("remove", "nightly")
    assert list_names(client) == []


def test_options_of_the_command_may_come_before_the_action_and_after_it(
    daemon: Serving,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AGENTD_KEY", str(client.key))

    def command(*words: str) -> Any:
        assert main(["schedules", *words]) == 0
        return json.loads(capsys.readouterr().out)

    to = ("--url", daemon.url)
    assert command("add", "tidy", "--cron", "@yearly", "tidy up", *to, "--json")["name"] == "tidy"
    assert command("--json", "pause", "tidy", *to)["paused"]
    assert command(*to, "remove", "tidy", "--json") == {"name": "tidy", "removed": True}
    assert list_names(client) == []


def test_each_run_has_the_output_schema_of_its_schedule(
    daemon: Serving, client: Client, engine: Engine
) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")
    Path(daemon.layout.models).write_text("models:\n  - {name: able, engine: codex}\n")
    until(lambda: client.get("/api/models")["models"])
    engine.says = lambda given: [ReplyCompleted(given.prompt)]
    schema = {
        "type": "object",
        "properties": {"rate": {"type": "number", "minimum": 0.5}, "$ref it": {"maxLength": 3}},
        "required": ["rate"],
    }
    chat = client.create_chat(model="able")
    fits, fails = '{"rate": 0.75}', '{"rate": 0.25}'
    wishes: list[dict[str, Any]] = [
        {"prompt": fits, "model": "able"},
        {"prompt": fits, "chat": chat},
        {"prompt": fails, "model": "able"},
        {"prompt": fits, "model": ""},
    ]
    runs = [run_with_schema(client, wish | {"output_schema": schema}) for wish in wishes]
    assert [run["state"] for run in runs] == ["completed", "completed", "failed", "failed"]
    assert [json.loads(one.output_schema) for one in engine.given] == [schema] * 3
    assert "does not fit the output schema" in runs[2]["note"]
    assert "The engine offline cannot hold its reply to an output schema" in runs[3]["note"]
    for run in runs[:2]:
        history = client.get(f"/api/chat/{run['chatId']}/messages")["messages"]
        assert history[-1]["output"] == {"rate": 0.75}


def run_with_schema(client: Client, wish: dict[str, Any]) -> dict[str, Any]:
    """Add a schedule, run it once, take its schema away, and delete it; return the run."""
    client.post(SCHEDULES, NIGHTLY | wish)
    assert client.get(SCHEDULES)["schedules"][0]["output_schema"] == wish["output_schema"]
    client.post(f"{SCHEDULES}/nightly/run", None)
    until(lambda: client.get(f"{SCHEDULES}/nightly/runs")["runs"][0]["endedAt"])
    run: dict[str, Any] = client.get(f"{SCHEDULES}/nightly/runs")["runs"][0]
    assert client.put(f"{SCHEDULES}/nightly", NIGHTLY)["output_schema"] is None
    client.delete(f"{SCHEDULES}/nightly")
    return run


def test_new_chats_work_in_the_mode_of_their_schedule(
    daemon: Serving, client: Client, engine: Engine
) -> None:
    Path(daemon.layout.models).write_text("models:\n  - {name: able, engine: codex}\n")
    until(lambda: client.get("/api/models")["models"])
    plans = NIGHTLY | {"model": "able", "mode": "plan"}
    assert client.post(SCHEDULES, plans)["mode"] == "plan"
    run = client.post(f"{SCHEDULES}/nightly/run", None)
    assert client.get(f"/api/chat/{run['chatId']}")["settings"]["mode"] == "plan"
    until(lambda: engine.given)
    assert engine.given[0].mode == "plan"
    assert client.put(f"{SCHEDULES}/nightly", NIGHTLY)["mode"] == ""


def test_a_schedule_continues_a_chat_that_is_there(client: Client) -> None:
    refused = client.post(SCHEDULES, NIGHTLY | {"chat": 4711})
    assert (refused.status, refused["message"]) == (400, "chat: Chat 4711 not found")
    assert client.get(SCHEDULES)["schedules"] == []
    chat = client.create_chat()
    assert client.post(SCHEDULES, NIGHTLY | {"chat": chat}).status == 201
    assert client.delete(f"/api/chats/{chat}").status == 200
    changed = client.put(f"{SCHEDULES}/nightly", NIGHTLY | {"chat": chat, "paused": True})
    assert (changed.status, changed["paused"]) == (200, True)  # it may be restored


def test_a_mode_needs_a_program_that_has_it_a_new_chat_and_the_right_to_answer_questions(
    daemon: Serving, client: Client
) -> None:
    """What a program does unasked in a mode is not decided by who may not decide it in a chat."""
    Path(daemon.layout.models).write_text("models:\n  - {name: able, engine: codex}\n")
    until(lambda: client.get("/api/models")["models"])
    unknown = client.post(SCHEDULES, NIGHTLY | {"model": "able", "mode": "swift"})
    assert unknown.status == 409
    assert "The engine codex has no mode 'swift'" in unknown["message"]
    continued = client.post(SCHEDULES, NIGHTLY | {"chat": 1, "mode": "plan"})
    assert continued.status == 400
    assert "mode and worktree are of new chats" in continued["message"]
    limited = daemon.client(daemon.new_key("limited", answers=False))
    refused = limited.post(SCHEDULES, NIGHTLY | {"model": "able", "mode": "swift"})
    assert refused.status == 403
    assert list_names(client) == []


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "output_schema: the schema must describe an object"),
        ({"type": "object", "properties": 3}, "output_schema: the schema is no JSON Schema"),
    ],
)
def test_a_schema_that_is_none_is_refused_and_in_the_file_told_by_its_line(
    daemon: Serving, client: Client, schema: dict[str, Any], why: str
) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")
    refused = client.post(SCHEDULES, NIGHTLY | {"output_schema": schema})
    assert refused.status == 400
    assert why in refused["message"]
    client.post(SCHEDULES, NIGHTLY)
    text = get_file(daemon).read_text()
    get_file(daemon).write_text(f"{text}    output_schema: {json.dumps(schema)}\n")
    assert list_names(client) == ["nightly"]
    (problem,) = client.get("/api/settings/all")["problems"]
    assert problem["line"] == len(text.splitlines()) + 1
    assert why.partition(": ")[2] in problem["what"]
