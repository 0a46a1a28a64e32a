"""Endpoints 4 to 8 of the remote API: the queue of prompts that wait."""

import re

import pytest

from agentd.chats.remote_api import QUEUE_PORTION
from tests.support.daemon import Client, Engine, Serving, read_journals, until
from tests.support.fixtures import Serve

CHATS = "/api/remote/chats"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def chat(client: Client, engine: Engine) -> int:
    """A chat whose first prompt, ``sent``, is being carried out until the engine is released."""
    engine.hold()
    chat = client.create_chat(prompt="sent")
    until(lambda: engine.given)
    return chat


@pytest.fixture
def queue(client: Client, chat: int) -> list[int]:
    """The ids of three prompts that wait in the chat: a, b and c; b is for model m."""
    path = f"{CHATS}/{chat}/queue"
    wishes = [{"prompt": "a"}, {"prompt": "b", "model": "m"}, {"prompt": "c"}]
    return [client.post(path, wish)["id"] for wish in wishes]


def list_waiting(client: Client, chat: int) -> list[str]:
    """Return the waiting prompts in order."""
    return [prompt["prompt"] for prompt in client.prompts(chat)]


# Endpoint 4.


def test_the_queue_lists_prompts_in_dispatch_order(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 4; 2, 'Queue prompt object'."""
    reply = client.get(f"{CHATS}/{chat}/queue")
    assert reply.status == 200
    assert reply["chatId"] == chat
    assert [prompt["id"] for prompt in reply["prompts"]] == queue
    second = reply["prompts"][1]
    assert TIME.fullmatch(second.pop("createdAt"))
    assert second == {"id": queue[1], "prompt": "b", "isPaused": False, "model": "m"}


def test_paused_prompts_are_listed_and_flagged(client: Client, chat: int) -> None:
    """Specification 2, 'Queue prompt object', isPaused; 4, endpoint 4."""
    client.put(f"{CHATS}/{chat}/queue", {"prompts": [{"prompt": "p", "isPaused": True}]})
    assert [prompt["isPaused"] for prompt in client.prompts(chat)] == [True]


def test_an_empty_queue_is_an_empty_list(client: Client) -> None:
    """Specification 4, endpoint 4."""
    assert client.prompts(client.create_chat()) == []


def test_a_long_queue_is_answered_in_portions_as_a_short_one_in_one(
    client: Client, chat: int
) -> None:
    """A queue of pasted files kept all other requests waiting while it was encoded."""
    texts = [f"{number} \N{SNOWMAN}" + "x" * (QUEUE_PORTION // 4) for number in range(7)]
    wanted = [{"prompt": text, "isPaused": True} for text in texts]
    for reply in (
        client.put(f"{CHATS}/{chat}/queue", {"prompts": wanted}),
        client.get(f"{CHATS}/{chat}/queue"),
        client.get(f"/api/MessageQueue/{chat}"),
    ):
        assert reply.headers["Transfer-Encoding"] == "chunked"
        assert re.fullmatch('"[0-9]+"', reply.headers["ETag"])
        assert reply["chatId"] == chat
        assert [prompt["prompt"] for prompt in reply["prompts"]] == texts


# Endpoint 5.


def test_an_appended_prompt_is_answered_whole(client: Client, chat: int) -> None:
    """Specification 4, endpoint 5: 201, the added prompt with its id."""
    reply = client.post(f"{CHATS}/{chat}/queue", {"prompt": "p", "model": "m"})
    assert reply.status == 201
    assert reply["id"] > 0
    assert reply.json() == client.prompts(chat)[0]


@pytest.mark.parametrize("field", ["isPaused", "model", "notBefore", "outputSchema"])
def test_an_optional_field_of_an_appended_prompt_that_is_null_is_as_if_absent(
    client: Client, chat: int, field: str
) -> None:
    added = client.post(f"{CHATS}/{chat}/queue", {"prompt": "p", field: None})
    assert added.status == 201
    assert client.prompts(chat) == [added.json()]
    assert set(added.json()) == {"id", "prompt", "isPaused", "model", "createdAt"}
    assert (added["isPaused"], added["model"]) == (False, "")


def test_the_text_of_a_prompt_is_kept_as_it_was_written(
    client: Client, engine: Engine, chat: int
) -> None:
    """Specification 2, 'Queue prompt object' and 'Message object': the text of the user."""
    path, text = f"{CHATS}/{chat}/queue", "  \u05d0 \U0001f469\u200d\U0001f467\r\n\tb \n"
    added = client.post(path, {"prompt": text})
    assert added["prompt"] == text
    other = client.post(path, {"prompt": "x"})
    assert client.put(f"{path}/{other['id']}", {"prompt": text + "1"})["prompt"] == text + "1"
    kept = [{"id": one["id"], "prompt": one["prompt"]} for one in client.prompts(chat)]
    client.put(path, {"prompts": [*kept, {"prompt": text + "2"}]})
    assert list_waiting(client, chat) == [text, text + "1", text + "2"]
    engine.release()
    client.messages(chat)
    first = client.create_chat(prompt=text)
    assert client.messages(first)[0]["content"] == text
    given = [text, text + "1", text + "2", text]
    assert [assignment.prompt for assignment in engine.given[1:]] == given
    said = [one["content"] for one in client.messages(chat) if one["role"] == "user"]
    assert said[1:] == given[:3]


def test_an_appended_prompt_is_processed_automatically(client: Client) -> None:
    """Specification 1 and 3: prompts are sent in queue order."""
    chat = client.create_chat()
    for text in "abc":
        assert client.post(f"{CHATS}/{chat}/queue", {"prompt": text}).status == 201
    said = [message["content"] for message in client.messages(chat)]
    assert said == ["a", "echo: a", "b", "echo: b", "c", "echo: c"]


def test_a_model_for_one_prompt_beats_the_chats(client: Client, engine: Engine) -> None:
    """Specification 2, 'Queue prompt object', model: a per-message override."""
    chat = client.create_chat(model="chats")
    for wish in ({"prompt": "a", "model": "mine"}, {"prompt": "b", "model": ""}, {"prompt": "c"}):
        client.post(f"{CHATS}/{chat}/queue", wish)
    client.messages(chat)
    assert [given.model for given in engine.given] == ["the mine", "the chats", "the chats"]


@pytest.mark.parametrize("text", ["", " ", "\n\t\r ", "\u2003"])
def test_blank_text_is_a_bad_request_on_each_endpoint_that_takes_text(
    client: Client, chat: int, queue: list[int], daemon: Serving, text: str
) -> None:
    """Specification 4, queue rules: empty or whitespace-only text answers 400."""
    before = read_journals(daemon.layout)
    path = f"{CHATS}/{chat}/queue"
    replies = [
        client.post(path, {"prompt": text}),
        client.put(f"{path}/{queue[0]}", {"prompt": text}),
        client.put(path, {"prompts": [{"prompt": "good"}, {"prompt": text}]}),
    ]
    for reply in replies:
        assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert "prompts[1].prompt" in replies[2]["message"]
    assert read_journals(daemon.layout) == before


@pytest.mark.parametrize("body", [{}, {"prompt": None}, {"prompt": 7}, [], "p", None, 7])
def test_a_prompt_must_be_there_and_be_text(client: Client, chat: int, body: object) -> None:
    """Specification 4, endpoints 5 and 6; 7, row 'BadRequest'."""
    for method, path in (("POST", "queue"), ("PUT", "queue/1")):
        wish = b"null" if body is None else body
        assert client.send(method, f"{CHATS}/{chat}/{path}", wish).status == 400


@pytest.mark.parametrize(
    ("method", "path", "bad"),
    [
        ("POST", "queue", {"prompt": " "}),
        ("PUT", "queue/1", {"prompt": ""}),
        ("PUT", "queue", {"prompts": [{"prompt": ""}]}),
        ("PUT", "queue", {"prompts": [{"prompt": "a", "id": 1}, {"prompt": "b", "id": 1}]}),
    ],
)
@pytest.mark.parametrize("chat_id", ["999999", "x"])
def test_a_bad_request_is_reported_before_an_unknown_chat(
    client: Client, method: str, path: str, bad: object, chat_id: str
) -> None:
    assert client.send(method, f"{CHATS}/{chat_id}/{path}", bad).status == 400


# Endpoints 6 and 7.


def test_a_rewrite_changes_the_text_and_nothing_else(client: Client, chat: int) -> None:
    """Specification 4, rules of endpoint 6: id, position, model and pause state are kept."""
    path = f"{CHATS}/{chat}/queue"
    for wish in ({"prompt": "a"}, {"prompt": "b", "model": "m"}, {"prompt": "c"}):
        client.post(path, wish)
    first, second, third = client.prompts(chat)
    kept = [{"id": one["id"], "prompt": one["prompt"]} for one in (first, second, third)]
    client.put(path, {"prompts": [kept[0], {**kept[1], "isPaused": True}, kept[2]]})
    reply = client.put(f"{path}/{second['id']}", {"prompt": "B", "model": "x", "isPaused": False})
    changed = {**second, "isPaused": True, "prompt": "B"}
    assert (reply.status, reply.json()) == (200, changed)
    assert client.prompts(chat) == [first, changed, third]


def test_a_deleted_prompt_is_gone_and_never_sent(
    client: Client, engine: Engine, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 7: 204 No Content."""
    reply = client.delete(f"{CHATS}/{chat}/queue/{queue[1]}")
    assert (reply.status, reply.body) == (204, b"")
    assert list_waiting(client, chat) == ["a", "c"]
    engine.release()
    client.messages(chat)
    assert [given.prompt for given in engine.given] == ["sent", "a", "c"]


def test_a_sent_prompt_is_no_longer_in_the_queue(
    client: Client, engine: Engine, chat: int, queue: list[int]
) -> None:
    """Specification 3, 'Queued prompt lifecycle': edit and delete on it answer 404."""
    engine.release()
    client.messages(chat)
    assert client.prompts(chat) == []
    for prompt in queue:
        path = f"{CHATS}/{chat}/queue/{prompt}"
        for reply in (client.put(path, {"prompt": "x"}), client.delete(path)):
            assert (reply.status, reply["error"]) == (404, "NotFound")


def test_a_prompt_that_is_not_in_this_chats_queue_is_not_found(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, queue rules: never existed, another chat's, deleted."""
    other = client.create_chat()
    client.delete(f"{CHATS}/{chat}/queue/{queue[2]}")
    wrong = [(other, queue[0]), (chat, queue[2]), (chat, 999999), (chat, 0), (chat, 2**53)]
    for where, prompt in [*wrong, (chat, "x"), (chat, "-1"), (chat, "9" * 5000)]:
        path = f"{CHATS}/{where}/queue/{prompt}"
        for reply in (client.put(path, {"prompt": "x"}), client.delete(path)):
            assert (reply.status, reply["error"]) == (404, "NotFound")
    assert list_waiting(client, chat) == ["a", "b"]


# Endpoint 8.


def test_the_passed_array_becomes_the_entire_queue(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 8, rule 1."""
    reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": [{"prompt": "x"}, {"prompt": "y"}]})
    assert (reply.status, reply["chatId"]) == (200, chat)
    assert reply["prompts"] == client.prompts(chat)
    assert list_waiting(client, chat) == ["x", "y"]


def test_an_element_with_an_id_keeps_its_row_model_and_pause_state(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 8, rule 2."""
    path = f"{CHATS}/{chat}/queue"
    _, second, _ = client.prompts(chat)
    client.put(path, {"prompts": [{"id": queue[1], "prompt": "b", "isPaused": True}]})
    client.put(path, {"prompts": [{"id": queue[1], "prompt": "B"}]})
    assert client.prompts(chat) == [{**second, "prompt": "B", "isPaused": True}]
    client.put(path, {"prompts": [{"id": queue[1], "prompt": "B", "isPaused": False}]})
    assert client.prompts(chat) == [{**second, "prompt": "B"}]
    client.put(path, {"prompts": [{"id": queue[1], "prompt": "B", "isPaused": None}]})
    assert client.prompts(chat) == [{**second, "prompt": "B"}]


@pytest.mark.parametrize("id_field", [{}, {"id": 0}, {"id": None}])
def test_an_element_without_an_id_or_with_0_is_a_new_prompt(
    client: Client, chat: int, queue: list[int], id_field: dict[str, object]
) -> None:
    """Specification 4, endpoint 8, rule 3; two new ones are not duplicates."""
    wish = {"prompts": [{**id_field, "prompt": "x"}, {**id_field, "prompt": "x"}]}
    first, second = client.put(f"{CHATS}/{chat}/queue", wish)["prompts"]
    assert max(queue) < first["id"] < second["id"]
    assert (first["isPaused"], first["model"]) == (False, "")


def test_prompts_absent_from_the_array_are_deleted(
    client: Client, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 8, rule 4: last writer wins."""
    path = f"{CHATS}/{chat}/queue"
    read = [{"id": one["id"], "prompt": one["prompt"]} for one in client.prompts(chat)]
    late = client.post(path, {"prompt": "by another source"})["id"]
    assert client.put(path, {"prompts": read[1:]}).status == 200
    assert list_waiting(client, chat) == ["b", "c"]
    for gone in (queue[0], late):
        assert client.delete(f"{path}/{gone}").status == 404


def test_the_arrays_order_becomes_the_dispatch_order(
    client: Client, engine: Engine, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 8, rule 5."""
    a, b, c = queue
    wish = [{"id": c, "prompt": "c"}, {"prompt": "x"}, {"id": a, "prompt": "a"}]
    client.put(f"{CHATS}/{chat}/queue", {"prompts": [*wish, {"id": b, "prompt": "b"}]})
    assert list_waiting(client, chat) == ["c", "x", "a", "b"]
    engine.release()
    client.messages(chat)
    assert [given.prompt for given in engine.given] == ["sent", "c", "x", "a", "b"]


def test_an_empty_array_clears_the_queue(client: Client, chat: int, queue: list[int]) -> None:
    """Specification 4, endpoint 8, rule 6."""
    reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": []})
    assert (reply.status, reply.json()) == (200, {"chatId": chat, "prompts": []})
    assert client.prompts(chat) == []


def test_the_id_of_a_sent_prompt_is_skipped_and_not_recreated(
    client: Client, engine: Engine, chat: int, queue: list[int]
) -> None:
    """Specification 4, endpoint 8, rule 7; 3, 'Queued prompt lifecycle'."""
    engine.release()
    client.messages(chat)
    engine.hold()
    wish = [{"id": queue[0], "prompt": "again"}, {"prompt": "new", "isPaused": True}]
    reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": wish})
    assert reply.status == 200
    assert list_waiting(client, chat) == ["new"]
    engine.release()
    assert [given.prompt for given in engine.given] == ["sent", "a", "b", "c"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompts": None},
        {"prompts": {}},
        {"prompts": "x"},
        {"prompts": 7},
        [],
        {"prompts": [None]},
        {"prompts": ["x"]},
        {"prompts": [{}]},
        {"prompts": [{"id": 1}]},
        {"prompts": [{"prompt": "ok"}, {"prompt": ""}]},
        {"prompts": [{"prompt": " \n"}]},
        {"prompts": [{"prompt": None}]},
    ],
)
def test_a_replacement_without_an_array_or_with_empty_text_is_a_bad_request(
    client: Client, chat: int, queue: list[int], daemon: Serving, body: object
) -> None:
    """Specification 4, endpoint 8, rule 8: the array is not passed; any element has empty text."""
    before = read_journals(daemon.layout)
    reply = client.put(f"{CHATS}/{chat}/queue", body)
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert read_journals(daemon.layout) == before


def test_the_same_positive_id_twice_is_a_bad_request(
    client: Client, chat: int, queue: list[int], daemon: Serving
) -> None:
    """Specification 4, endpoint 8, rule 8; of a sent or unknown prompt too."""
    before = read_journals(daemon.layout)
    for prompt in (queue[0], 1, 999999):
        wish = [{"id": prompt, "prompt": "x"}, {"id": prompt, "prompt": "y"}]
        reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": wish})
        assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert read_journals(daemon.layout) == before


@pytest.mark.parametrize("bad", [True, 1.0, 1.5, "1", -1, 2**53, 2**64, [], {}])
def test_an_id_that_is_none_is_a_bad_request(client: Client, chat: int, bad: object) -> None:
    """Specification 2, 'Queue prompt object': a positive integer, or 0."""
    reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": [{"id": bad, "prompt": "x"}]})
    assert (reply.status, reply["error"]) == (400, "BadRequest")


def test_an_id_that_is_not_of_this_queue_changes_nothing(
    client: Client, engine: Engine, chat: int, queue: list[int], daemon: Serving
) -> None:
    """Specification 4, queue rules, for endpoint 8: 404 for all but a prompt already sent."""
    client.delete(f"{CHATS}/{chat}/queue/{queue[2]}")
    other = client.create_chat()
    (elsewhere,) = client.put(
        f"{CHATS}/{other}/queue", {"prompts": [{"prompt": "p", "isPaused": True}]}
    )["prompts"]
    before = read_journals(daemon.layout)
    for prompt in (queue[2], elsewhere["id"], 999999, 2**53 - 1):
        wish = [{"prompt": "new"}, {"id": prompt, "prompt": "x"}]
        reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": wish})
        assert (reply.status, reply["error"]) == (404, "NotFound")
        assert str(prompt) in reply["message"]
    assert read_journals(daemon.layout) == before


def test_paused_prompts_are_passed_over_and_do_not_block(client: Client, engine: Engine) -> None:
    """Specification 3, 'Queued prompt lifecycle': pending (may be paused)."""
    chat = client.create_chat()
    wish = [{"prompt": "a", "isPaused": True}, {"prompt": "b"}, {"prompt": "c", "isPaused": True}]
    client.put(f"{CHATS}/{chat}/queue", {"prompts": wish})
    client.messages(chat)
    assert [given.prompt for given in engine.given] == ["b"]
    assert list_waiting(client, chat) == ["a", "c"]
    resumed = [{"id": one["id"], "prompt": one["prompt"]} for one in client.prompts(chat)]
    resumed[1]["isPaused"] = False
    client.put(f"{CHATS}/{chat}/queue", {"prompts": resumed})
    client.messages(chat)
    assert [given.prompt for given in engine.given] == ["b", "c"]


# ETag and If-Match.


def test_a_replacement_may_name_the_version_that_it_replaces(
    client: Client, chat: int, queue: list[int]
) -> None:
    path = f"{CHATS}/{chat}/queue"
    tag = client.get(path).headers["ETag"]
    assert client.get(path).headers["ETag"] == tag
    client.post(path, {"prompt": "d"})
    stale = client.put(path, {"prompts": []}, {"If-Match": tag})
    assert (stale.status, stale["error"]) == (412, "PreconditionFailed")
    assert len(list_waiting(client, chat)) == 4
    fresh = client.get(path).headers["ETag"]
    assert fresh != tag
    replaced = client.put(path, {"prompts": []}, {"If-Match": fresh})
    assert replaced.status == 200
    assert replaced.headers["ETag"] == client.get(path).headers["ETag"] != fresh


def test_each_change_of_a_queue_is_another_version(
    client: Client, engine: Engine, chat: int, queue: list[int]
) -> None:
    path = f"{CHATS}/{chat}/queue"
    seen = {client.get(path).headers["ETag"]}
    client.put(f"{path}/{queue[0]}", {"prompt": "A"})
    seen.add(client.get(path).headers["ETag"])
    client.delete(f"{path}/{queue[0]}")
    seen.add(client.get(path).headers["ETag"])
    engine.release()
    client.messages(chat)
    seen.add(client.get(path).headers["ETag"])
    assert len(seen) == 4


@pytest.mark.parametrize("tag", ["*", None])
def test_without_a_version_the_last_writer_wins(
    client: Client, chat: int, queue: list[int], tag: str | None
) -> None:
    """Specification 4, endpoint 8, rule 4."""
    headers = {"If-Match": tag} if tag else {}
    assert client.put(f"{CHATS}/{chat}/queue", {"prompts": []}, headers).status == 200


@pytest.mark.parametrize("tag", ["", "x", '"x"', 'W/"1"', '"1', '"' + "9" * 5000 + '"'])
def test_a_version_that_is_none_never_matches(client: Client, chat: int, tag: str) -> None:
    reply = client.put(f"{CHATS}/{chat}/queue", {"prompts": []}, {"If-Match": tag})
    assert reply.status == 412


def test_a_queue_is_as_it_was_after_a_restart(serve: Serve) -> None:
    first = serve()
    client = first.client()
    chat = client.create_chat()
    wish = [{"prompt": "a", "isPaused": True}, {"prompt": "b", "isPaused": True}]
    before = client.put(f"{CHATS}/{chat}/queue", {"prompts": wish})
    first.stop()
    first.join()
    after = serve().client().get(f"{CHATS}/{chat}/queue")
    assert after.json() == before.json()
    assert after.headers["ETag"] == before.headers["ETag"]


# The time of a prompt.

LATER = "2999-01-01T09:00:00+01:00"
LATER_UTC = "2999-01-01T08:00:00.000Z"


def test_a_prompt_may_have_a_time_which_edits_keep_until_it_is_taken_away(
    client: Client, chat: int
) -> None:
    path = f"{CHATS}/{chat}/queue"
    added = client.post(path, {"prompt": "later", "notBefore": LATER})
    assert added["notBefore"] == LATER_UTC
    client.put(f"{path}/{added['id']}", {"prompt": "edited"})
    client.put(path, {"prompts": [{"id": added["id"], "prompt": "again"}]})
    assert client.prompts(chat)[0]["notBefore"] == LATER_UTC
    edited = client.put(f"/api/MessageQueue/{chat}/{added['id']}", {"notBefore": ""})
    assert "notBefore" not in edited.json()
    put = {"prompts": [{"prompt": "x", "notBefore": LATER}, {"prompt": "y"}]}
    first, second = client.put(path, put)["prompts"]
    assert first["notBefore"] == LATER_UTC
    assert "notBefore" not in second


@pytest.mark.parametrize("time", ["2999-01-01T09:00:00", "soon", "2999-01-01"])
def test_a_time_without_a_zone_is_a_bad_request_that_changes_nothing(
    client: Client, chat: int, time: str
) -> None:
    path = f"{CHATS}/{chat}/queue"
    for reply in (
        client.post(path, {"prompt": "x", "notBefore": time}),
        client.put(path, {"prompts": [{"prompt": "x", "notBefore": time}]}),
        client.post(CHATS, {"prompt": "x", "notBefore": time}),
    ):
        assert reply.status == 400
        assert "notBefore is" in reply["message"]
    assert list_waiting(client, chat) == []


def test_a_prompt_for_later_is_not_sent_and_one_whose_time_has_come_is(
    client: Client, engine: Engine
) -> None:
    late = client.create_chat(prompt="later", notBefore=LATER)
    due = client.create_chat(prompt="due", notBefore="2001-01-01T00:00:00Z")
    until(lambda: client.get(f"{CHATS}/{due}/status")["status"] == "completed")
    assert client.get(f"{CHATS}/{late}/status?wait=60")["status"] == "queued"
    assert [prompt["prompt"] for prompt in client.prompts(late)] == ["later"]
