"""``/api/chats``: list, rename, duplicate, delete and restore, export; and whole histories."""

import json
import threading
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import ReplyCompleted
from agentd.core.clock import parse_iso
from tests.live.test_sse_api import listening
from tests.support.daemon import PATIENCE, Client, Engine, Serving, read_journals, until
from tests.support.fixtures import Serve


def list_chats(client: Client, query: str = "") -> list[int]:
    """Return the ids of a page of the list."""
    reply = client.get(f"/api/chats?{query}")
    assert reply.status == 200, reply.body
    return [chat["chatId"] for chat in reply["chats"]]


def list_contents(messages: list[dict[str, Any]]) -> list[str]:
    """Return the texts of messages."""
    return [message["content"] for message in messages]


# The list.


@pytest.mark.parametrize(
    "address",
    ["/api/chats?lable=bug", "/api/analytics?form=2026-01-01", "/api/events?sicne=0",
     "/api/chat/1/messages?befor=2", "/api/git/log?limt=1"],
)  # fmt: skip
def test_a_misspelt_query_parameter_is_refused_with_the_nearest_name(
    caller: Client, address: str
) -> None:
    reply = caller.get(address)
    assert reply.status == 400
    name = address.partition("?")[2].partition("=")[0]
    assert name in reply["message"]
    assert "did you mean" in reply["message"]


def test_the_newest_chats_come_first(client: Client) -> None:
    made = [client.create_chat(title=f"chat {number}") for number in range(3)]
    assert list_chats(client) == made[::-1]
    row = client.get("/api/chats")["chats"][0]
    assert row == {**client.get(f"/api/chats/{made[-1]}").json(), "match": None}
    assert (row["title"], row["state"], row["status"]) == ("chat 2", "created", "completed")
    assert row["labels"] == []


def test_a_text_is_found_in_titles_and_messages_and_reported_with_its_place(
    client: Client, engine: Engine
) -> None:
    said = 'The kettle said "Straße", and\nwent on to boil.'
    engine.says = lambda turn: [ReplyCompleted(said if "ask" in turn.prompt else "nothing")]
    by_title, by_prompt, by_reply, neither = (
        client.create_chat(title=title, prompt=prompt)
        for title, prompt in (
            ("A kettle", "hello"),
            ("One", "Where is the KETTLE?"),
            ("Two", "ask it"),
            ("Three", "hello"),
        )
    )
    for chat in (by_title, by_prompt, by_reply, neither):
        client.get(f"/api/remote/chats/{chat}/status?wait=30")
    assert list_chats(client, "text=kettle") == [by_reply, by_prompt, by_title]
    rows = client.get("/api/chats?text=kettle")["chats"]
    assert rows[2]["match"] is None
    for row in rows[:2]:
        history = client.get(f"/api/chat/{row['chatId']}/messages")["messages"]
        content = {one["id"]: one["content"] for one in history}[row["match"]["messageId"]]
        assert "kettle" in content.lower()
        assert "kettle" in row["match"]["excerpt"].lower()
    for text in ("STRASSE", "%22Stra%C3%9Fe%22", "went%20on"):
        assert list_chats(client, f"text={text}") == [by_reply]
    assert list_chats(client, "text=nobody+said+this") == []


def test_a_search_that_has_read_enough_shows_where_to_go_on(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [client.create_chat(title=f"chat {number}", prompt="hello") for number in range(30)]
    wanted = [made[2], made[17]]
    for chat in wanted:
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "find the needle"})
    for chat in made:
        client.get(f"/api/remote/chats/{chat}/status?wait=30")
    monkeypatch.setattr("agentd.chats.api.SEARCHED_BYTES", 30_000)
    found: list[int] = []
    asked, before = 0, ""
    while before is not None:
        page = client.get(f"/api/chats?text=needle&limit=1{before and f'&before={before}'}")
        found += [chat["chatId"] for chat in page["chats"]]
        asked, before = asked + 1, page["next"]
    assert found == wanted[::-1]
    assert asked > 3


def test_pages_follow_one_another_though_chats_are_added(client: Client) -> None:
    made = [client.create_chat() for _ in range(5)]
    first = client.get("/api/chats?limit=2").json()
    assert [chat["chatId"] for chat in first["chats"]] == made[:2:-1]
    client.create_chat()
    second = client.get(f"/api/chats?limit=2&before={first['next']}").json()
    assert [chat["chatId"] for chat in second["chats"]] == made[2:0:-1]
    last = client.get(f"/api/chats?limit=2&before={second['next']}").json()
    assert [chat["chatId"] for chat in last["chats"]] == made[:1]
    assert last["next"] is None


def test_the_list_is_filtered(client: Client, engine: Engine) -> None:
    empty, done = (
        client.create_chat(title="An EMPTY one"),
        client.create_chat(title="done", prompt="x"),
    )
    client.status(done, 20)
    engine.hold()
    busy = client.create_chat(title="Straße", prompt="x")
    until(lambda: list_chats(client, "status=processing") == [busy])
    assert list_chats(client, "state=created") == [empty]
    assert list_chats(client, "status=completed") == [done, empty]
    assert list_chats(client, "text=empty") == [empty]
    assert list_chats(client, "text=STRASSE") == [busy]
    assert list_chats(client, "label=none") == []
    engine.release()


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "before=0", "before=-1", "status=x", "state=x"]
)
def test_a_wrong_filter_is_reported(caller: Client, query: str) -> None:
    assert caller.get(f"/api/chats?{query}").status == 400


# Rename.


def test_a_chat_is_renamed(client: Client) -> None:
    chat = client.create_chat(title="old")
    answer = client.put(f"/api/chats/{chat}", {"title": " new "})
    assert (answer.status, answer["title"]) == (200, "new")
    assert client.status(chat)["title"] == "new"
    for title in ("", " ", None, 1, "x" * 1001):
        assert client.put(f"/api/chats/{chat}", {"title": title}).status == 400


# Duplicate.


def test_a_duplicate_has_settings_and_history_and_goes_its_own_way(
    client: Client, engine: Engine
) -> None:
    chat = client.create_chat(title="one", model="m", systemPrompt="be short", prompt="hello")
    client.messages(chat)
    client.put(f"/api/chat/{chat}/settings", {"approvals": "deny"})
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    client.post(f"/api/chat/{chat}/send", {"prompt": "waits"})
    answer = client.post(f"/api/chats/{chat}/duplicate", {})
    copy = answer["chatId"]
    assert (answer.status, answer["title"]) == (201, "one (copy)")
    settings = [client.get(f"/api/chat/{number}")["settings"] for number in (chat, copy)]
    assert settings[0] == settings[1]
    assert client.prompts(copy) == []
    old, new = (client.get(f"/api/chat/{one}/messages")["messages"] for one in (chat, copy))
    assert list_contents(new) == list_contents(old) == ["hello", "echo: hello"]
    assert [message["createdAt"] for message in new] == [message["createdAt"] for message in old]
    assert not {message["id"] for message in new} & {message["id"] for message in old}
    client.post(f"/api/chat/{copy}/send", {"prompt": "more"})
    assert list_contents(client.messages(copy))[2:] == ["more", "echo: more"]
    assert len(client.get(f"/api/chat/{chat}/messages")["messages"]) == 2
    assert [turn.prompt for turn in engine.given] == ["hello", "more"]


def test_a_duplicate_costs_nothing_and_may_start_again(client: Client, engine: Engine) -> None:
    engine.says = lambda _: [ReplyCompleted("dear", cost=Decimal("0.5"))]
    chat = client.create_chat(prompt="hello")
    client.messages(chat)
    assert client.status(chat)["totalCost"] == 0.5
    copy = client.post(f"/api/chats/{chat}/duplicate", {"title": "t"})
    assert (copy["title"], copy["totalCost"], copy["messageCount"]) == ("t", 0, 2)
    fresh = client.post(f"/api/chats/{chat}/duplicate", {"history": False})
    assert fresh["messageCount"] == 0
    assert client.post("/api/chats/999999/duplicate", {}).status == 404


def test_a_duplicate_is_one_record_and_outlives_a_restart(serve: Serve) -> None:
    first = serve()
    client = first.client()
    chat = client.create_chat(prompt="hello")
    client.messages(chat)
    copy = client.post(f"/api/chats/{chat}/duplicate", {})["chatId"]
    before = client.get(f"/api/chat/{copy}/messages").json()
    assert Path(first.layout.get_journal_path(copy)).read_bytes().count(b"\n") == 1
    first.stop()
    first.join()
    client = serve().client()
    assert client.get(f"/api/chat/{copy}/messages").json() == before
    assert list_contents(client.messages(copy)) == ["hello", "echo: hello"]


def test_a_history_that_is_too_long_is_not_copied(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.chats.commands.HISTORY_LIMIT", 10)
    chat = client.create_chat(prompt="hello")
    client.messages(chat)
    assert client.post(f"/api/chats/{chat}/duplicate", {}).status == 413
    assert client.post(f"/api/chats/{chat}/duplicate", {"history": False}).status == 201


# Delete and restore.


def list_paths(chat: int) -> list[tuple[str, str, Any]]:
    """Return each remote path of a chat."""
    path = f"/api/remote/chats/{chat}"
    return [
        ("GET", f"{path}/status", None),
        ("GET", f"{path}/messages", None),
        ("GET", f"{path}/queue", None),
        ("POST", f"{path}/queue", {"prompt": "x"}),
        ("PUT", f"{path}/queue", {"prompts": []}),
        ("PUT", f"{path}/queue/1", {"prompt": "x"}),
        ("DELETE", f"{path}/queue/1", None),
        ("GET", f"/api/chats/{chat}", None),
        ("PUT", f"/api/chats/{chat}", {"title": "x"}),
        ("DELETE", f"/api/chats/{chat}", None),
        ("GET", f"/api/chats/{chat}/export", None),
        ("POST", f"/api/chats/{chat}/duplicate", {}),
        ("GET", f"/api/chat/{chat}", None),
        ("GET", f"/api/chat/{chat}/messages", None),
        ("POST", f"/api/chat/{chat}/send", {"prompt": "x"}),
        ("POST", f"/api/MessageQueue/{chat}/pause", None),
        ("POST", f"/api/MessageQueue/{chat}/hold", {}),
    ]


def test_a_deleted_chat_is_nowhere_any_more(client: Client, daemon: Serving) -> None:
    """Specification 7: ``Chat <chatId> not found``."""
    chat, other = client.create_chat(prompt="hello"), client.create_chat()
    client.messages(chat)
    answer = client.delete(f"/api/chats/{chat}")
    assert (answer.status, answer["chatId"]) == (200, chat)
    for method, path, body in list_paths(chat):
        reply = client.send(method, path, body)
        assert (reply.status, reply["message"]) == (404, f"Chat {chat} not found"), path
    assert list_chats(client) == [other]
    assert Path(daemon.layout.get_journal_path(chat)).is_file()
    assert client.create_chat() > other


def test_a_deleted_chat_is_restored_as_it_was(client: Client, daemon: Serving) -> None:
    chat = client.create_chat(prompt="hello", title="t")
    client.messages(chat)
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    client.post(f"/api/chat/{chat}/send", {"prompt": "waits"})
    before = [client.get(f"/api/chat/{chat}/messages").json(), client.prompts(chat)]
    gone = client.delete(f"/api/chats/{chat}")
    [row] = client.get("/api/chats/trash")["chats"]
    assert (row["chat"]["chatId"], row["chat"]["title"]) == (chat, "t")
    assert gone["restorableUntil"] == row["restorableUntil"]
    kept = parse_iso(row["restorableUntil"]) - parse_iso(row["deletedAt"])
    assert kept == timedelta(days=30)
    assert client.post(f"/api/chats/{chat}/restore", None).status == 200
    assert client.post(f"/api/chats/{chat}/restore", None).status == 404
    assert [client.get(f"/api/chat/{chat}/messages").json(), client.prompts(chat)] == before
    assert client.get("/api/chats/trash")["chats"] == []
    assert list_chats(client) == [chat]
    client.post(f"/api/MessageQueue/{chat}/release", None)
    until(lambda: client.prompts(chat) == [])


def test_a_chat_in_the_trash_is_deleted_for_good(client: Client, daemon: Serving) -> None:
    alive, gone = client.create_chat(title="alive"), client.create_chat(prompt="hello")
    client.messages(gone)
    assert client.delete(f"/api/chats/trash/{gone}").status == 404
    client.delete(f"/api/chats/{gone}")
    assert client.delete(f"/api/chats/trash/{gone}").status == 204
    assert client.delete(f"/api/chats/trash/{gone}").status == 404
    assert client.delete(f"/api/chats/trash/{alive}").status == 404
    assert client.post(f"/api/chats/{gone}/restore", None).status == 404
    assert client.get("/api/chats/trash")["chats"] == []
    assert list_chats(client) == [alive]
    assert not Path(daemon.layout.get_chat_folder(gone)).exists()


def test_a_chat_at_work_is_stopped_before_it_is_deleted(client: Client, engine: Engine) -> None:
    engine.hold()
    chat = client.create_chat(prompt="hello")
    until(lambda: engine.given)
    answer = client.delete(f"/api/chats/{chat}")
    assert (answer.status, answer["error"]) == (409, "Conflict")
    assert f"/api/chat/{chat}/stop" in answer["details"]
    client.post(f"/api/chat/{chat}/stop", None)
    assert client.delete(f"/api/chats/{chat}").status == 200
    engine.release()


def test_a_chat_that_waits_for_the_agent_may_be_deleted_and_its_prompt_is_never_sent(
    serve: Serve,
) -> None:
    engine = Engine()
    engine.hold()
    daemon = serve(engine=engine, max_parallel_turns=1)
    client = daemon.client()
    client.create_chat(prompt="busy")
    until(lambda: engine.given)
    chat = client.create_chat(prompt="never")
    assert client.delete(f"/api/chats/{chat}").status == 200
    engine.release()
    last = client.create_chat(prompt="last")
    assert list_contents(client.messages(last)) == ["last", "echo: last"]
    assert [turn.prompt for turn in engine.given] == ["busy", "last"]


def test_a_client_that_waits_for_a_chat_receives_that_it_is_gone(serve: Serve) -> None:
    engine = Engine()
    engine.hold()
    daemon = serve(engine=engine, max_parallel_turns=1)
    client, other = daemon.client(), daemon.client()
    client.create_chat(prompt="busy")
    until(lambda: engine.given)
    chat = client.create_chat(prompt="waits")
    answers: list[int] = []
    path = f"/api/remote/chats/{chat}/status?wait=20"
    waiting = threading.Thread(target=lambda: answers.append(other.get(path).status))
    waiting.start()
    client.delete(f"/api/chats/{chat}")
    waiting.join(PATIENCE)
    assert answers == [404]
    engine.release()


def test_trash_and_lists_outlive_a_restart(serve: Serve) -> None:
    first = serve()
    client = first.client()
    kept, gone = client.create_chat(title="kept"), client.create_chat(title="gone", prompt="x")
    client.messages(gone)
    client.delete(f"/api/chats/{gone}")
    before = client.get("/api/chats/trash").json()
    first.stop()
    first.join()
    Path(first.layout.index).unlink()
    client = serve().client()
    assert client.get("/api/chats/trash").json() == before
    assert list_chats(client) == [kept]
    assert client.post(f"/api/chats/{gone}/restore", None)["title"] == "gone"
    assert client.create_chat() > gone


def test_ids_of_the_trash_are_not_used_again_though_index_and_ids_are_lost(serve: Serve) -> None:
    first = serve()
    client = first.client()
    chat = client.create_chat(prompt="x")
    highest = client.messages(chat)[-1]["id"]
    client.delete(f"/api/chats/{chat}")
    first.stop()
    first.join()
    Path(first.layout.index).unlink()
    Path(first.layout.ids).unlink()
    client = serve().client()
    another = client.create_chat(prompt="y")
    assert another > chat
    assert client.messages(another)[0]["id"] > highest


def test_an_idempotency_key_whose_chat_was_deleted_makes_no_other(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    chat = client.post("/api/remote/chats", {}, key)["chatId"]
    client.delete(f"/api/chats/{chat}")
    answer = client.post("/api/remote/chats", {}, key)
    assert (answer.status, answer["message"]) == (404, f"Chat {chat} not found")
    assert list_chats(client) == []


def test_deleting_and_restoring_are_published_live_and_to_a_client_that_comes_back(
    serve: Serve,
) -> None:
    first = serve()
    client = first.client()
    chat = client.create_chat(title="t", prompt="x")
    client.messages(chat)
    with listening(first) as stream:
        stream.read_until(lambda: stream.events)
        client.delete(f"/api/chats/{chat}")
        [live] = stream.count(1)
        assert (live.name, json.loads(live.data)) == ("chatDeleted", [chat])
    first.stop()
    first.join()
    again = serve()
    client = again.client()
    client.post(f"/api/chats/{chat}/restore", None)
    events = read_events(again, "chat.restored")
    assert [name for name, _ in events if name == "messageUpdate"] == ["messageUpdate"] * 2
    assert events[-2] == ("chatDeleted", [chat])
    name, [row] = events[-1]
    assert (name, row["title"]) == ("chatUpdate", "t")


def read_events(daemon: Serving, last: str) -> list[tuple[str, Any]]:
    """Return all events from the beginning to the first with this in its data."""
    with listening(daemon, "/api/events?since=0") as stream:
        stream.read_until(lambda: any(last in event.data for event in stream.events))
        return [(event.name, json.loads(event.data)) for event in stream.events[1:]]


# Whole histories.


def test_messages_come_whole_in_pages_both_ways(client: Client, engine: Engine) -> None:
    engine.says = lambda given: [ReplyCompleted(f"{given.prompt}\n[[Go]]")]
    chat = client.create_chat()
    for number in range(4):
        client.post(f"/api/chat/{chat}/send", {"prompt": f"p{number}"})
    client.status(chat, 20)
    path = f"/api/chat/{chat}/messages"
    everything = client.get(path)
    whole = everything["messages"]
    assert list_contents(whole)[:2] == ["p0", "p0\n[[Go]]"]
    assert (everything["earlier"], everything["later"]) == (False, False)
    ids = [message["id"] for message in whole]
    last = client.get(f"{path}?limit=3").json()
    assert [message["id"] for message in last["messages"]] == ids[-3:]
    assert (last["earlier"], last["later"]) == (True, False)
    middle = client.get(f"{path}?limit=3&before={ids[-3]}").json()
    assert [message["id"] for message in middle["messages"]] == ids[-6:-3]
    assert (middle["earlier"], middle["later"]) == (True, True)
    first = client.get(f"{path}?limit=3&after=0").json()
    assert [message["id"] for message in first["messages"]] == ids[:3]
    assert (first["earlier"], first["later"]) == (False, True)
    nothing = client.get(f"{path}?after={ids[-1]}").json()
    assert (nothing["messages"], nothing["earlier"], nothing["later"]) == ([], True, False)
    for query in ("limit=201", "before=x", f"before={ids[1]}&after={ids[0]}"):
        assert client.get(f"{path}?{query}").status == 400


# Export.


def test_a_chat_is_exported_as_markdown_and_json(client: Client) -> None:
    chat = client.create_chat(title="My chat", prompt="hello ```there```")
    messages = client.messages(chat)
    text = client.get(f"/api/chats/{chat}/export")
    assert text.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert text.headers["Content-Disposition"] == f'attachment; filename="chat-{chat}.md"'
    shown = text.body.decode()
    assert shown.startswith("# My chat\n")
    assert [message["content"] in shown for message in messages] == [True, True]
    document = client.get(f"/api/chats/{chat}/export?format=json").json()
    assert document["chat"] == client.get(f"/api/chats/{chat}").json()
    assert document["messages"] == client.get(f"/api/chat/{chat}/messages")["messages"]
    empty = client.get(f"/api/chats/{client.create_chat()}/export?format=json").json()
    assert empty["messages"] == []
    assert client.get(f"/api/chats/{chat}/export?format=pdf").status == 400


def test_every_change_names_who_made_it(client: Client, daemon: Serving) -> None:
    chat = client.create_chat()
    client.put(f"/api/chats/{chat}", {"title": "t"})
    copy = client.post(f"/api/chats/{chat}/duplicate", {})["chatId"]
    lines = read_journals(daemon.layout)[daemon.layout.get_journal_path(copy)]
    assert b'"by":"key:environment"' in lines
