"""A queue that a budget holds, released over HTTP."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.daemon import Client, Serving, until


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Serving(tmp_path, budget_per_chat=0) as house:
        yield house.client()


def hold_for_budget(client: Client) -> tuple[int, int]:
    """Create a chat whose prompt waits for a budget; return it with the id of its question."""
    chat = client.create_chat(prompt="Hello")
    until(lambda: client.get(f"/api/chat/{chat}")["held"])
    (question,) = client.get(f"/api/chat/{chat}/approvals")["approvals"]
    return chat, question["id"]


def test_a_queue_that_a_budget_holds_goes_on_once_it_is_released(client: Client) -> None:
    """The question of the budget is answered by that, and asked no second time."""
    chat, question = hold_for_budget(client)
    assert client.post(f"/api/MessageQueue/{chat}/release", None)["held"] == ""
    until(lambda: client.status(chat)["status"] == "completed")
    messages = client.get(f"/api/chat/{chat}/messages")["messages"]
    roles = sorted(message["role"] for message in messages)
    assert roles == ["assistant", "tool", "tool", "user"]
    (decided,) = (message["decision"] for message in messages if message["decision"])
    assert (decided["state"], decided["by"]) == ("allowed", "key:environment")
    again = client.post(f"/api/chat/{chat}/approvals/{question}", {"decision": "allow"})
    assert again.status == 404


def test_a_released_queue_whose_budget_was_denied_asks_again(client: Client) -> None:
    chat, question = hold_for_budget(client)
    path = f"/api/chat/{chat}/approvals"
    assert client.post(f"{path}/{question}", {"decision": "deny"}).status == 200
    assert client.get(path)["approvals"] == []
    client.post(f"/api/MessageQueue/{chat}/release", None)
    until(lambda: client.get(path)["approvals"])
    assert client.get(path)["approvals"][0]["id"] != question
    assert client.status(chat)["messageCount"] == 3, "nothing is sent before it is allowed"


def test_an_answer_to_a_budgets_question_does_not_release_what_a_person_holds(
    tmp_path: Path,
) -> None:
    with Serving(tmp_path, budget_per_chat=0) as house:
        client = house.client()
        chat, question = hold_for_budget(client)
        client.post(f"/api/MessageQueue/{chat}/hold", {"reason": "I think."})
        client.post(f"/api/chat/{chat}/approvals/{question}", {"decision": "allow"})
        assert client.get(f"/api/chat/{chat}")["held"] == "I think."
        assert client.get(f"/api/chat/{chat}/approvals")["approvals"] == []
    with Serving(tmp_path, budget_per_chat=0) as house:
        client = house.client()
        assert client.get(f"/api/chat/{chat}")["held"] == "I think."
        assert client.post(f"/api/MessageQueue/{chat}/release", None)["held"] == ""
        until(lambda: client.status(chat)["status"] == "completed")


def test_a_budgets_question_is_answered_by_a_release_whatever_holds_the_queue(
    client: Client,
) -> None:
    """Somebody has held the queue since; else the question would go without a word."""
    chat, question = hold_for_budget(client)
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    key = client.post("/api/keys", {"name": "ci", "answers": False})["key"]
    with closing(Client(client.url, key)) as silent:
        assert silent.post(f"/api/MessageQueue/{chat}/release", None).status == 403
    (asked,) = client.get(f"/api/chat/{chat}/approvals")["approvals"]
    assert asked["id"] == question
    assert client.post(f"/api/MessageQueue/{chat}/release", None)["held"] == ""
    until(lambda: client.status(chat)["status"] == "completed")
    messages = client.get(f"/api/chat/{chat}/messages")["messages"]
    (decided,) = (message["decision"] for message in messages if message["decision"])
    assert (decided["state"], decided["by"]) == ("allowed", "key:environment")
