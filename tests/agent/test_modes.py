"""The mode of a chat: one that its engine's program has, and that is handed to each turn."""

from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import ModesListed, ReplyCompleted
from agentd.models.program_state import ProgramMode
from tests.settings.test_api import Events
from tests.support.daemon import Client, Serving
from tests.support.fixtures import Serve

MODELS = """
models:
  - {name: codex, engine: codex}
  - {name: claude, engine: claude-code}
  - {name: editor, engine: acp, command: [opencode, acp]}
  - {name: offline, engine: offline}
"""
BUILD = ProgramMode("build", "Build", "Changes files.")


@pytest.fixture
def daemon(tmp_path: Path, serve: Serve) -> Serving:
    """A daemon with models of all kinds of programs."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "models.yml").write_text(MODELS)
    return serve()


def set_mode(client: Client, chat: int, mode: str, **more: Any) -> Any:
    return client.put(f"/api/chat/{chat}/settings", {"mode": mode, **more})


@pytest.mark.parametrize("model", ["codex", "claude"])
def test_a_mode_is_handed_to_each_turn_until_none_is_chosen(
    daemon: Serving, client: Client, model: str
) -> None:
    chat = client.create_chat(model=model, mode="plan", prompt="one")
    client.status(chat, 20)
    assert client.get(f"/api/chat/{chat}")["settings"]["mode"] == "plan"
    assert set_mode(client, chat, "")["mode"] == ""
    client.post(f"/api/chat/{chat}/send", {"prompt": "two"})
    client.status(chat, 20)
    assert [one.mode for one in daemon.engine.given] == ["plan", ""]


def test_a_mode_that_the_program_has_not_is_refused_and_changes_nothing(client: Client) -> None:
    chat = client.create_chat(model="codex")
    for mode, more, has in (
        ("dream", {}, "The engine codex has no mode 'dream'; it has plan."),
        ("plan", {"model": "offline"}, "The engine offline has no mode 'plan'; it has none."),
        ("plan", {"model": ""}, "The engine offline has no mode 'plan'; it has none."),
    ):
        reply = set_mode(client, chat, mode, **more)
        assert (reply.status, reply["message"]) == (409, has)
    settings = client.get(f"/api/chat/{chat}")["settings"]
    assert (settings["mode"], settings["model"]) == ("", "codex")
    reply = client.post("/api/remote/chats", {"model": "offline", "mode": "plan"})
    assert reply.status == 409
    assert len(client.get("/api/chats")["chats"]) == 1


def test_a_turn_of_a_model_without_the_mode_is_not_run_without_it(
    daemon: Serving, client: Client
) -> None:
    chat = client.create_chat(model="codex", mode="plan")
    client.post(f"/api/chat/{chat}/send", {"prompt": "go", "model": "offline"})
    client.status(chat, 20)
    assert daemon.engine.given == []
    last = client.get(f"/api/chat/{chat}/messages")["messages"][-1]
    assert "The engine offline has no mode 'plan'" in last["content"]


def test_the_modes_of_an_acp_agent_are_known_once_it_has_told_them(
    daemon: Serving, client: Client
) -> None:
    daemon.engine.says = lambda _: [ModesListed((BUILD,)), ReplyCompleted("Done.")]
    chat = client.create_chat(model="editor", mode="anything")
    events = Events(daemon)
    client.post(f"/api/chat/{chat}/send", {"prompt": "go"})
    shown = {"id": "build", "name": "Build", "description": "Changes files."}
    assert events.read_next("engineUpdate")["program"]["modes"] == [shown]
    client.status(chat, 20)
    assert daemon.engine.given[-1].mode == "anything"
    [editor] = [one for one in client.get("/api/models")["models"] if one["name"] == "editor"]
    assert editor["program"]["modes"] == [shown]
    assert set_mode(client, chat, "plan").status == 409
    assert set_mode(client, chat, "build").status == 200


def test_a_key_without_the_scope_answers_may_only_let_an_agent_plan(
    daemon: Serving, client: Client
) -> None:
    chat = client.create_chat(model="editor")
    key = daemon.client(daemon.new_key("reader", answers=False))
    assert set_mode(key, chat, "full-access").status == 403
    assert key.post("/api/remote/chats", {"model": "editor", "mode": "full-access"}).status == 403
    assert client.get(f"/api/chat/{chat}")["settings"]["mode"] == ""
    assert set_mode(key, chat, "plan").status == 200
    assert key.create_chat(model="editor", mode="plan")
    assert set_mode(client, chat, "full-access").status == 200


def test_a_mode_outlasts_a_restart_and_goes_with_a_duplicate(
    serve: Serve, daemon: Serving, client: Client
) -> None:
    chat = client.create_chat(model="codex")
    set_mode(client, chat, "plan")
    copy = client.post(f"/api/chats/{chat}/duplicate", {})["chatId"]
    daemon.stop()
    daemon.join()
    again = serve().client()
    for one in (chat, copy):
        assert again.get(f"/api/chat/{one}")["settings"]["mode"] == "plan"
