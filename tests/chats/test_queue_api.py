"""``/api/MessageQueue``: the remote queue's rules, and pause, resume and move."""

import pytest

from agentd.storage.layout import Layout
from tests.support.daemon import Client, Engine, Serving, read_journals, until
from tests.support.fixtures import Serve

CHATS = "/api/remote/chats"


@pytest.fixture
def chat(client: Client, engine: Engine) -> int:
    """A chat at work until the engine is released."""
    engine.hold()
    chat = client.create_chat(prompt="sent")
    until(lambda: engine.given)
    return chat


@pytest.fixture
def queue(client: Client, chat: int) -> list[int]:
    """The ids of the prompts a, b and c, which wait."""
    path = f"/api/chat/{chat}/send"
    return [client.post(path, {"prompt": text})["id"] for text in "abc"]


def list_waiting(client: Client, chat: int) -> list[str]:
    """Return the waiting prompts in order."""
    return [prompt["prompt"] for prompt in client.prompts(chat)]


def list_paused(client: Client, chat: int) -> list[str]:
    """Return the waiting prompts that are paused."""
    return [prompt["prompt"] for prompt in client.prompts(chat) if prompt["isPaused"]]


def count_records(layout: Layout) -> int:
    """Return the number of records."""
    return sum(data.count(b"\n") for data in read_journals(layout).values())


def test_sent_prompts_wait_at_the_end_with_the_rules_of_the_remote_queue(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 5."""
    assert list_waiting(client, chat) == ["a", "b", "c"]
    path = f"/api/chat/{chat}/send"
    assert client.post(path, {"prompt": " "}).status == 400
    assert client.post("/api/chat/999999/send", {"prompt": "x"}).status == 404
    made = client.post(path, {"prompt": "d", "model": "m"})
    assert (made.status, made.json()) == (201, client.prompts(chat)[-1])
    key = {"Idempotency-Key": "k"}
    twice = [client.post(path, {"prompt": "e"}, key)["id"] for _ in range(2)]
    assert len(set(twice)) == 1


def test_the_list_is_the_remote_one(client: Client, chat: int, queue: list[int]) -> None:
    one, other = client.get(f"/api/MessageQueue/{chat}"), client.get(f"{CHATS}/{chat}/queue")
    assert one.json() == other.json()
    assert one.headers["ETag"] == other.headers["ETag"]


def test_a_prompt_is_edited_and_deleted_by_the_remote_rules(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoints 6 and 7."""
    path = f"/api/MessageQueue/{chat}/{queue[1]}"
    assert client.put(path, {"prompt": ""}).status == 400
    assert client.put(path, {"prompt": "B"})["prompt"] == "B"
    assert client.delete(f"/api/MessageQueue/{chat}/{queue[0]}").status == 204
    assert client.delete(f"/api/MessageQueue/{chat}/{queue[0]}").status == 404
    assert list_waiting(client, chat) == ["B", "c"]


def test_a_prompt_that_waits_gets_another_model_with_or_without_another_text(
    client: Client, chat: int, queue: list[int], engine: Engine
) -> None:
    path = f"/api/MessageQueue/{chat}/{queue[1]}"
    before = client.prompts(chat)
    reply = client.put(path, {"model": "m"})
    assert (reply.status, reply.json()) == (200, {**before[1], "model": "m"})
    assert client.put(path, {"prompt": "B"}).json() == {**before[1], "prompt": "B", "model": "m"}
    assert client.put(path, {"prompt": "C", "model": None})["model"] == "m"
    assert client.put(f"/api/MessageQueue/{chat}/{queue[0]}", {"model": "n"})["model"] == "n"
    assert client.put(f"/api/MessageQueue/{chat}/{queue[0]}", {"model": ""}).json() == before[0]
    assert [prompt["id"] for prompt in client.prompts(chat)] == queue
    engine.release()
    until(lambda: len(engine.given) == 4)
    assert [given.model for given in engine.given][1:] == ["", "the m", ""]


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({}, 200),
        ({"prompt": None, "model": None}, 200),
        ({"model": 5}, 400),
        ({"model": "x" * 10_000}, 400),
        ({"prompt": " ", "model": "m"}, 400),
    ],
)
def test_an_edit_that_changes_nothing_or_cannot_be_writes_nothing(
    client: Client,
    layout: Layout,
    chat: int,
    queue: list[int],
    wish: dict[str, object],
    status: int,
) -> None:
    before = read_journals(layout)
    assert client.put(f"/api/MessageQueue/{chat}/{queue[0]}", wish).status == status
    assert read_journals(layout) == before


def test_a_paused_prompt_is_passed_over_until_it_is_resumed(
    client: Client, chat: int, queue: list[int], engine: Engine
) -> None:
    """Specification 2, 'isPaused'."""
    answer = client.post(f"/api/MessageQueue/{chat}/{queue[0]}/pause", None)
    assert answer.json() == client.get(f"/api/MessageQueue/{chat}").json()
    assert list_paused(client, chat) == ["a"]
    engine.release()
    until(lambda: list_waiting(client, chat) == ["a"])
    until(lambda: len(engine.given) == 3)
    client.post(f"/api/MessageQueue/{chat}/{queue[0]}/resume", None)
    until(lambda: [given.prompt for given in engine.given] == ["sent", "b", "c", "a"])


def test_a_whole_queue_is_paused_and_resumed(
    client: Client, chat: int, queue: list[int], engine: Engine
) -> None:
    client.post(f"/api/MessageQueue/{chat}/pause", None)
    assert list_paused(client, chat) == ["a", "b", "c"]
    client.post(f"/api/chat/{chat}/send", {"prompt": "d"})
    assert list_paused(client, chat) == ["a", "b", "c"]
    client.post(f"/api/MessageQueue/{chat}/resume", None)
    assert list_paused(client, chat) == []
    engine.release()
    until(lambda: [given.prompt for given in engine.given] == ["sent", "a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("position", "order"), [(0, "cab"), (1, "acb"), (2, "abc"), (7, "abc"), (2**31 - 1, "abc")]
)
def test_a_prompt_is_moved(
    client: Client, chat: int, queue: list[int], position: int, order: str
) -> None:
    path = f"/api/MessageQueue/{chat}/{queue[2]}/move"
    answer = client.post(path, {"position": position})
    assert [prompt["prompt"] for prompt in answer["prompts"]] == list(order)
    assert list_waiting(client, chat) == list(order)


def test_what_changes_nothing_is_not_written(
    client: Client, daemon: Serving, chat: int, queue: list[int]
) -> None:
    before, etag = (
        count_records(daemon.layout),
        client.get(f"/api/MessageQueue/{chat}").headers["ETag"],
    )
    assert client.post(f"/api/MessageQueue/{chat}/resume", None).status == 200
    assert client.post(f"/api/MessageQueue/{chat}/{queue[0]}/resume", None).status == 200
    answer = client.post(f"/api/MessageQueue/{chat}/{queue[0]}/move", {"position": 0})
    assert (answer.status, answer.headers["ETag"]) == (200, etag)
    assert count_records(daemon.layout) == before


@pytest.mark.parametrize("what", ["pause", "resume", "move"])
def test_only_what_waits_in_this_chat_can_be_changed(
    client: Client, chat: int, queue: list[int], what: str
) -> None:
    """Specification 4, 'Queue rules'."""
    body = {"position": 0} if what == "move" else None
    other = client.create_chat()
    for path in (f"{chat}/999999", f"999999/{queue[0]}", f"{other}/{queue[0]}", f"{chat}/x"):
        assert client.post(f"/api/MessageQueue/{path}/{what}", body).status == 404
    if what != "move":
        answer = client.post(f"/api/MessageQueue/999999/{what}", None)
        assert (answer.status, answer["message"]) == (404, "Chat 999999 not found")


@pytest.mark.parametrize("body", [{}, {"position": -1}, {"position": "1"}, {"position": 1.5}])
def test_a_position_is_a_whole_number(
    client: Client, chat: int, queue: list[int], body: object
) -> None:
    assert client.post(f"/api/MessageQueue/{chat}/{queue[0]}/move", body).status == 400


def test_pausing_moving_and_another_model_outlive_a_restart(serve: Serve) -> None:
    engine = Engine()
    engine.hold()
    first = serve(engine=engine)
    client = first.client()
    chat = client.create_chat(prompt="sent")
    until(lambda: engine.given)
    ids = [client.post(f"/api/chat/{chat}/send", {"prompt": text})["id"] for text in "abc"]
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    client.post(f"/api/MessageQueue/{chat}/{ids[1]}/pause", None)
    client.post(f"/api/MessageQueue/{chat}/{ids[2]}/move", {"position": 0})
    client.put(f"/api/MessageQueue/{chat}/{ids[0]}", {"model": "mine"})
    before = client.prompts(chat)
    first.stop()
    engine.release()
    first.join()
    assert serve().client().prompts(chat) == before
    assert [(prompt["prompt"], prompt["model"]) for prompt in before] == [
        ("c", ""),
        ("a", "mine"),
        ("b", ""),
    ]


def test_an_edit_of_another_version_of_the_queue_changes_nothing(
    client: Client, chat: int, queue: list[int]
) -> None:
    path = f"/api/MessageQueue/{chat}/{queue[0]}"
    read = client.get(f"/api/MessageQueue/{chat}").headers["ETag"]
    assert client.put(path, {"prompt": "elsewhere"}, {"If-Match": read}).status == 200
    for wrong in (read, "other"):
        assert client.put(path, {"prompt": "mine"}, {"If-Match": wrong}).status == 412
    assert list_waiting(client, chat) == ["elsewhere", "b", "c"]
    again = client.get(f"/api/MessageQueue/{chat}").headers["ETag"]
    for right in (again, "*"):
        assert client.put(path, {"prompt": "mine"}, {"If-Match": right}).status == 200
    assert list_waiting(client, chat) == ["mine", "b", "c"]
