"""The scope ``answers`` of API keys: who may decide what agents ask people."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.support import AskingEngine
from tests.support.daemon import KEY, PATIENCE, Client, Serving, until

MESSAGE = 'This needs an API key with the scope "answers"'


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, AskingEngine()) as serving:
        yield serving


def ask_for_ls(client: Client) -> tuple[int, str]:
    """Create a chat that asks, and return it with the path of its question."""
    chat = client.create_chat(prompt="run ls")
    path = f"/api/chat/{chat}/approvals"
    until(lambda: client.get(path)["approvals"])
    return chat, f"{path}/{client.get(path)['approvals'][0]['id']}"


def assert_refused(reply: Any) -> None:
    assert (reply.status, reply["message"]) == (403, MESSAGE)


def test_every_key_may_answer_unless_that_was_withdrawn(house: Serving) -> None:
    """Specification 5.6: a key has the rights of a manager's login."""
    made = house.client().post("/api/keys", {"name": "laptop"})["key"]
    silent = house.client().post("/api/keys", {"name": "ci", "answers": False})["key"]
    for key in (KEY, house.new_key("by-hand"), made):
        _, question = ask_for_ls(house.client(silent))
        refused = house.client(silent).post(question, {"decision": "allow"})
        assert_refused(refused)
        assert '"ci"' in refused["details"]
        assert house.client(key).post(question, {"decision": "allow"}).status == 200
    listed = house.client().get("/api/keys")["keys"]
    assert {one["name"]: one["answers"] for one in listed} == {
        "laptop": True,
        "ci": False,
        "by-hand": True,
    }


def test_the_scope_cannot_be_got_around(house: Serving) -> None:
    silent = house.client(house.new_key("ci", answers=False))
    house.new_key("laptop")
    chat = silent.create_chat()
    for mode in ("auto", ""):
        assert_refused(silent.put(f"/api/chat/{chat}/settings", {"approvals": mode}))
    assert silent.put(f"/api/chat/{chat}/settings", {"approvals": "deny"}).status == 200
    assert_refused(silent.post("/api/keys", {"name": "more"}))
    assert_refused(silent.post("/api/keys/laptop/regenerate", None))
    assert silent.post("/api/keys", {"name": "more", "answers": False}).status == 201
    own = silent.post("/api/keys/ci/regenerate", None)["key"]
    _, question = ask_for_ls(house.client(own))
    assert_refused(house.client(own).post(question, {"decision": "allow"}))


def test_what_was_decided_for_a_chat_is_listed_and_withdrawn_with_the_scope_alone(
    house: Serving,
) -> None:
    """Without a denial that stands, the mode auto would allow what it denied."""
    owner, silent = house.client(), house.client(house.new_key("ci", answers=False))
    chat, question = ask_for_ls(owner)
    owner.post(question, {"decision": "deny", "session": True, "note": "never"})
    until(lambda: silent.get(f"/api/chat/{chat}")["state"] == "completed")
    assert_refused(silent.delete(question))
    (standing,) = silent.get(f"/api/chat/{chat}")["standingDecisions"]
    assert (standing["subject"], standing["state"]) == ("ls", "denied")
    assert (standing["session"], standing["note"]) == (True, "never")
    silent.post(f"/api/remote/chats/{chat}/queue", {"prompt": "run ls"})
    until(lambda: silent.get(f"/api/chat/{chat}")["chat"]["status"] == "completed")
    assert silent.get(f"/api/chat/{chat}/approvals")["approvals"] == []
    assert owner.delete(question)["state"] == "withdrawn"
    assert silent.get(f"/api/chat/{chat}")["standingDecisions"] == []
    assert owner.delete(question).status == 404
    silent.post(f"/api/remote/chats/{chat}/queue", {"prompt": "run ls"})
    until(lambda: silent.get(f"/api/chat/{chat}/approvals")["approvals"])


def test_a_queue_held_for_a_budget_is_released_with_the_scope_alone(tmp_path: Path) -> None:
    with Serving(tmp_path, budget_per_chat=0) as house:
        silent = house.client(house.new_key("ci", answers=False))
        chat = silent.create_chat(prompt="Hello")
        until(lambda: silent.get(f"/api/chat/{chat}")["held"])
        assert_refused(silent.post(f"/api/MessageQueue/{chat}/release", None))
        (question,) = silent.get(f"/api/chat/{chat}/approvals")["approvals"]
        path = f"/api/chat/{chat}/approvals/{question['id']}"
        assert_refused(silent.post(path, {"decision": "allow"}))
        assert silent.get(f"/api/chat/{chat}")["held"]
        other = silent.create_chat()
        silent.post(f"/api/MessageQueue/{other}/hold", {"reason": "Later"})
        assert silent.post(f"/api/MessageQueue/{other}/release", None)["held"] == ""
        assert house.client().post(path, {"decision": "allow"}).status == 200
        until(lambda: house.client().status(chat)["status"] == "completed")


def test_a_scope_withdrawn_by_hand_holds_from_the_next_request_and_ends_connections(
    house: Serving,
) -> None:
    key = house.new_key("laptop")
    client = house.client(key)
    _, question = ask_for_ls(client)
    stream = HTTPConnection("127.0.0.1", house.port, timeout=PATIENCE)
    stream.request("GET", "/api/events", headers={"X-API-Key": key})
    heard = stream.getresponse()
    file = Path(house.layout.keys)
    text = file.read_text()
    file.write_text(text.rstrip("\n") + "\n    answers: false\n")
    assert_refused(client.post(question, {"decision": "allow"}))
    heard.read()  # returns only because the daemon ended it
    stream.close()
    file.write_text(text)
    assert client.post(question, {"decision": "allow"}).status == 200
