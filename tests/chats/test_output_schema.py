"""Prompts whose replies have to fit a schema, over the API."""

import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import ReplyCompleted, ToolUsed
from agentd.llm.price import Usage
from tests.support.daemon import Client, Engine, Serving, until
from tests.support.fixtures import Serve

pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")

CHATS = "/api/remote/chats"
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
MODELS = """\
models:
  - {name: able, engine: codex}
  - {name: other, engine: acp, command: [opencode, acp]}
"""


@pytest.fixture
def daemon(serve: Serve) -> Serving:
    return serve_models(serve)


def serve_models(serve: Serve) -> Serving:
    serving = serve()
    Path(serving.layout.models).write_text(MODELS)
    client = serving.client()
    until(lambda: len(client.get("/api/models")["models"]) == 2)
    return serving


def reply_with(engine: Engine, *replies: str) -> None:
    engine.says = lambda _: [ReplyCompleted(reply) for reply in replies]


def read_history(client: Client, chat: int) -> list[dict[str, Any]]:
    client.messages(chat)
    found: list[dict[str, Any]] = client.get(f"/api/chat/{chat}/messages")["messages"]
    return found


def test_a_reply_that_fits_is_an_object_in_the_history_also_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    daemon = serve_models(serve)
    engine, client = daemon.engine, daemon.client()
    reply_with(engine, "I look it up.", '{"name": "Riga"}')
    chat = client.create_chat(prompt="Which city?", model="able", outputSchema=CITY)
    question, first, last = read_history(client, chat)
    assert [one["output"] for one in (question, first, last)] == [None, None, {"name": "Riga"}]
    assert json.loads(engine.given[0].output_schema) == CITY
    daemon.stop()
    assert read_history(serve().client(), chat)[-1]["output"] == {"name": "Riga"}


def test_a_chat_exported_as_markdown_has_diffs_costs_and_structured_replies(
    daemon: Serving, engine: Engine, client: Client
) -> None:
    used = Usage(input=1200, output=30)
    engine.says = lambda _: [
        ToolUsed("edit_file", "a.md", "Replaced once.", diff="--- a.md\n+++ a.md\n-```\n+x\n"),
        ReplyCompleted('{"name": "Riga"}', used, Decimal("0.0125")),
    ]
    chat = client.create_chat(prompt="Which city?", model="able", outputSchema=CITY)
    read_history(client, chat)
    text = client.get(f"/api/chats/{chat}/export").body.decode()
    assert "\n````diff\n--- a.md\n+++ a.md\n-```\n+x\n````\n" in text
    assert '\n```json\n{"name": "Riga"}\n```\n' in text
    assert " · 1200 tokens in, 30 out · 0.0125 USD\n" in text


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        (("Riga.",), "The reply is not JSON"),
        (('{"city": "Riga"}',), "The reply does not fit the output schema."),
        (('{"name": "Riga"}', "That is it."), "The reply is not JSON"),
    ],
)
def test_a_turn_whose_last_reply_does_not_fit_has_failed_with_the_reason(
    daemon: Serving, engine: Engine, client: Client, replies: tuple[str, ...], why: str
) -> None:
    reply_with(engine, *replies)
    chat = client.create_chat(prompt="Which city?", model="able", outputSchema=CITY)
    last = read_history(client, chat)[-1]
    assert last["role"] == "error"
    assert why in last["content"]


def test_the_schema_of_a_waiting_prompt_is_shown_and_kept_when_it_is_rewritten(
    daemon: Serving, engine: Engine, client: Client
) -> None:
    reply_with(engine, '{"name": "Riga"}')
    engine.hold()
    chat = client.create_chat(prompt="Wait.", model="able")
    path = f"{CHATS}/{chat}/queue"
    added = client.post(path, {"prompt": "Which city?", "outputSchema": CITY})
    assert (added.status, added["outputSchema"]) == (201, CITY)
    changed = client.put(f"{path}/{added['id']}", {"prompt": "Which town?"})
    assert (changed.status, changed["outputSchema"]) == (200, CITY)
    assert [one.get("outputSchema") for one in client.get(path)["prompts"]] == [CITY]
    engine.release()
    assert read_history(client, chat)[-1]["output"] == {"name": "Riga"}


@pytest.mark.parametrize(
    ("model", "schema", "why"),
    [
        ("able", {"type": "array"}, "must describe an object"),
        ("able", {"type": "object", "properties": 3}, "is no JSON Schema"),
        ("able", "a schema", "outputSchema"),
        ("other", CITY, "The engine acp cannot hold its reply to an output schema"),
        ("", CITY, "The engine offline cannot hold its reply to an output schema"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    daemon: Serving, engine: Engine, client: Client, model: str, schema: object, why: str
) -> None:
    wish = {"prompt": "Which city?", "model": model, "outputSchema": schema}
    refused = client.post(CHATS, wish)
    assert refused.status == 400
    assert why in refused.body.decode()
    chat = client.create_chat(model=model)
    refused = client.post(f"{CHATS}/{chat}/queue", {**wish, "model": None})
    assert refused.status == 400
    assert why in refused.body.decode()
    assert client.get(f"{CHATS}/{chat}/queue")["prompts"] == []
    assert engine.given == []


def test_a_prompt_whose_chat_has_changed_to_such_a_model_fails_with_the_reason(
    daemon: Serving, engine: Engine, client: Client
) -> None:
    engine.hold()
    chat = client.create_chat(prompt="Wait.", model="able")
    path = f"{CHATS}/{chat}/queue"
    assert client.post(path, {"prompt": "Which city?", "outputSchema": CITY}).status == 201
    assert client.put(f"/api/chat/{chat}/settings", {"model": "other"}).status == 200
    engine.release()
    last = read_history(client, chat)[-1]
    assert last["role"] == "error"
    assert "The engine acp cannot" in last["content"]


def test_a_reply_stays_that_is_checked_while_its_turn_is_stopped(
    daemon: Serving, engine: Engine, client: Client
) -> None:
    backtracking = {"type": "object", "properties": {"name": {"pattern": "^(a+)+$"}}}
    reply = json.dumps({"name": "a" * 60 + "!"})
    reply_with(engine, reply)
    chat = client.create_chat(prompt="Which city?", model="able", outputSchema=backtracking)
    until(is_reply_checked)
    assert client.get(f"{CHATS}/{chat}/status").status == 200, "nothing waits for the check"
    assert client.post(f"/api/chat/{chat}/stop", None).status == 200
    _, kept, end = read_history(client, chat)
    assert (kept["role"], kept["content"], kept["output"]) == ("assistant", reply, None)
    assert "stopped by" in end["content"]
    assert not is_reply_checked()


def is_reply_checked() -> bool:
    """Return whether this process has a child that checks a reply."""
    return any(b"output_schema_child" in read_command(child) for child in list_children())


def list_children() -> list[str]:
    children: list[str] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it ended meanwhile
            children += (thread / "children").read_text().split()
    return children


def read_command(process: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
