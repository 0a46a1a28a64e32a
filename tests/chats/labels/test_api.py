"""``/api/chat-labels``, the file ``labels.yml`` behind it, and the chats that bear labels."""

import json
from pathlib import Path

import pytest

from tests.chats.test_api import list_chats
from tests.live.test_sse_api import listening
from tests.support.daemon import Client, Serving, until
from tests.support.fixtures import Serve

LABELS = "/api/chat-labels"
BY_HAND = """\
# what we sort by
labels:
  # it is broken
  - name: bug       # or is it
    color: '#cc0000'
  - {name: "nice to have"}
"""


@pytest.fixture
def file(daemon: Serving) -> Path:
    """The daemon's ``labels.yml``, which is not there yet."""
    return Path(daemon.layout.labels)


def list_names(client: Client) -> list[str]:
    """Return the labels in their order."""
    return [label["name"] for label in client.get(LABELS)["labels"]]


def test_a_label_is_created_changed_and_deleted(client: Client, file: Path) -> None:
    """Specification 4, 'Extended surface': list, create, change; file ``labels.yml``."""
    made = client.post(LABELS, {"name": "bug", "color": "#cc0000"})
    assert (made.status, made.json()) == (201, {"name": "bug", "color": "#cc0000"})
    client.post(LABELS, {"name": "später"})
    assert client.put(f"{LABELS}/bug", {"color": "#00cc00"}).json()["color"] == "#00cc00"
    assert client.put(f"{LABELS}/sp%C3%A4ter", {"name": "later on"})["name"] == "later on"
    assert list_names(client) == ["bug", "later on"]
    assert client.delete(f"{LABELS}/later%20on").status == 204
    assert client.delete(f"{LABELS}/later%20on").status == 404
    assert list_names(client) == ["bug"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_only_the_line_that_says_something_else_is_written(client: Client, file: Path) -> None:
    file.write_text(BY_HAND)
    assert client.put(f"{LABELS}/bug", {"color": "#00cc00"}).status == 200
    before, after = BY_HAND.splitlines(), file.read_text().splitlines()
    assert [line for line in before if line not in after] == ["    color: '#cc0000'"]


@pytest.mark.parametrize(
    "name",
    [
        "งานด่วน", "हिन्दी", "cafe\u0301", "שָׁלוֹם", "می\u200cخواهم", "緊急", "C++", "#12", "_x", "²",
    ],
)  # fmt: skip
def test_a_name_may_have_the_letters_of_any_script_with_their_marks(
    client: Client, file: Path, name: str
) -> None:
    assert client.post(LABELS, {"name": "first"}).status == 201
    assert client.put(f"{LABELS}/first", {"name": name})["name"] == name
    assert client.post(LABELS, {"name": name}).status == 409
    chat = client.post("/api/chats", {"title": "a"})["chatId"]
    assert client.put(f"/api/chats/{chat}/labels", {"labels": [name]})["labels"] == [name]
    file.write_text(f"labels: [{{name: '{name}'}}, {{name: b}}]\n")
    assert list_names(client) == [name, "b"]


def test_a_name_is_taken_however_its_accents_are_written(client: Client) -> None:
    client.post(LABELS, {"name": "Caf\xe9"})
    assert client.post(LABELS, {"name": "cafe\u0301"}).status == 409


def test_what_is_wrong_with_a_name_is_told_in_words(client: Client) -> None:
    answer = client.post(LABELS, {"name": "a, b"})
    assert "name: expected letters, digits, blanks and . : / + # & - _" in answer["details"]


@pytest.mark.parametrize(
    "label",
    [{}, {"name": ""}, {"name": " x"}, {"name": "x" * 41}, {"name": "a\nb"}, {"name": "..."},
     {"name": "\u0301a"}, {"name": "a\u200d"}, {"name": "a\u202eb"}, {"name": "a\xa0b"},
     {"name": "x", "color": "red"}, {"name": 1}],
)  # fmt: skip
def test_what_can_be_no_label_is_reported(caller: Client, label: object) -> None:
    assert caller.post(LABELS, label).status == 400


def test_a_name_is_there_once_in_whatever_case(client: Client) -> None:
    client.post(LABELS, {"name": "bug"})
    client.post(LABELS, {"name": "idea"})
    assert client.post(LABELS, {"name": "BUG"}).status == 409
    assert client.put(f"{LABELS}/idea", {"name": "Bug"}).status == 409
    assert client.put(f"{LABELS}/idea", {"name": "Idea"}).status == 200
    assert client.put(f"{LABELS}/idea", {"color": ""}).status == 404
    assert client.put(f"{LABELS}/Idea", {}).json() == {"name": "Idea", "color": ""}


def test_a_hand_written_file_keeps_its_comments(client: Client, file: Path) -> None:
    file.write_text(BY_HAND)
    assert list_names(client) == ["bug", "nice to have"]
    client.post(LABELS, {"name": "idea", "color": "#0000cc"})
    client.put(f"{LABELS}/bug", {"color": "#ff0000"})
    text = file.read_text()
    for comment in ("# what we sort by", "# it is broken", "# or is it"):
        assert comment in text
    assert list_names(client) == ["bug", "nice to have", "idea"]


def test_a_broken_edit_takes_nothing_down_and_is_not_written_over(
    client: Client, file: Path
) -> None:
    file.write_text(BY_HAND)
    assert list_names(client) == ["bug", "nice to have"]
    broken = "labels:\n  - {name: bug, colour: red}\n"
    file.write_text(broken)
    answer = client.post(LABELS, {"name": "x"})
    assert (answer.status, answer["error"]) == (409, "Conflict")
    assert "labels.yml:2" in answer["details"]
    assert "color" in answer["details"]
    assert file.read_text() == broken
    assert list_names(client) == ["bug", "nice to have"]


def test_an_edit_by_another_hand_in_between_is_a_conflict(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentd.storage.yaml.editor import YamlEditor

    file.write_text(BY_HAND)
    append = YamlEditor.append_item

    def append_meanwhile(text: YamlEditor, path: tuple[str | int, ...], item: object) -> None:
        file.write_text(BY_HAND + "# mine\n")
        append(text, path, item)

    monkeypatch.setattr(YamlEditor, "append_item", append_meanwhile)
    assert client.post(LABELS, {"name": "x"}).status == 409
    assert file.read_text() == BY_HAND + "# mine\n"


def test_edits_by_hand_and_by_the_api_are_published_live(
    client: Client, daemon: Serving, file: Path
) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        client.post(LABELS, {"name": "bug"})
        [event] = stream.count(1)
        assert (event.name, json.loads(event.data)) == (
            "labelsUpdate", [[{"name": "bug", "color": ""}]],
        )  # fmt: skip
        file.write_text(BY_HAND)
        stream.read_until(lambda: any("nice to have" in event.data for event in stream.events))


# Chats and their labels.


def test_chats_bear_labels_and_are_found_by_them(client: Client) -> None:
    """Specification 4, 'Extended surface': assign."""
    one, two, three = (client.create_chat() for _ in range(3))
    for name in ("bug", "idea"):
        client.post(LABELS, {"name": name})
    assert client.post(f"{LABELS}/bug/assign", {"chatIds": [one, two]}).status == 204
    assert client.put(f"/api/chats/{three}/labels", {"labels": ["idea", "bug", "idea"]})[
        "labels"
    ] == ["idea", "bug"]
    assert list_chats(client, "label=bug") == [three, two, one]
    assert client.post(f"{LABELS}/bug/unassign", {"chatIds": [two]}).status == 204
    assert list_chats(client, "label=bug") == [three, one]
    assert list_chats(client, "label=idea") == [three]
    counted = {label["name"]: label["chats"] for label in client.get(LABELS)["labels"]}
    assert counted == {"bug": 2, "idea": 1}
    assert client.put(f"/api/chats/{three}/labels", {"labels": []})["labels"] == []
    copy = client.post(f"/api/chats/{one}/duplicate", {})
    assert copy["labels"] == ["bug"]


def test_unknown_labels_and_chats_are_refused_before_anything_changes(client: Client) -> None:
    chat = client.create_chat()
    client.post(LABELS, {"name": "bug"})
    assert client.put(f"/api/chats/{chat}/labels", {"labels": ["bug", "bgu"]}).status == 400
    assert client.post(f"{LABELS}/idea/assign", {"chatIds": [chat]}).status == 404
    assert client.post(f"{LABELS}/bug/assign", {"chatIds": [chat, 999999]}).status == 404
    assert client.post(f"{LABELS}/bug/assign", {"chatIds": []}).status == 400
    assert client.get(f"/api/chats/{chat}")["labels"] == []


def test_a_chat_has_at_most_twenty_labels(client: Client) -> None:
    chat = client.create_chat()
    many = [f"l{number}" for number in range(21)]
    for name in many:
        client.post(LABELS, {"name": name})
    assert client.put(f"/api/chats/{chat}/labels", {"labels": many}).status == 400
    assert client.put(f"/api/chats/{chat}/labels", {"labels": many[:20]}).status == 200
    assert client.post(f"{LABELS}/{many[20]}/assign", {"chatIds": [chat]}).status == 400


def test_a_renamed_label_is_followed_by_its_chats_and_a_deleted_one_leaves_them(
    client: Client, daemon: Serving
) -> None:
    made = [client.create_chat() for _ in range(3)]
    for name in ("bug", "idea"):
        client.post(LABELS, {"name": name})
        client.post(f"{LABELS}/{name}/assign", {"chatIds": made})
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        client.put(f"{LABELS}/bug", {"name": "defect"})
        events = stream.count(4)
    rows = [json.loads(event.data)[0] for event in events if event.name == "chatUpdate"]
    assert [(row["labels"], row["reason"]) for row in rows] == [
        (["idea", "defect"], "chat.changed")
    ] * 3
    assert list_chats(client, "label=defect") == made[::-1]
    assert list_chats(client, "label=bug") == []
    client.delete(f"{LABELS}/idea")
    assert client.get(f"/api/chats/{made[0]}")["labels"] == ["defect"]


def test_a_chat_is_restored_with_the_new_name_of_a_label_and_without_a_deleted_one(
    client: Client, daemon: Serving
) -> None:
    chat = client.create_chat()
    for name in ("fault", "wish"):
        client.post(LABELS, {"name": name})
        client.post(f"{LABELS}/{name}/assign", {"chatIds": [chat]})
    client.delete(f"/api/chats/{chat}")
    client.put(f"{LABELS}/fault", {"name": "flaw"})
    client.delete(f"{LABELS}/wish")
    assert client.get(f"/api/chats/{chat}").status == 404
    (trashed,) = [
        row["chat"]
        for row in client.get("/api/chats/trash")["chats"]
        if row["chat"]["chatId"] == chat
    ]
    assert trashed["labels"] == ["flaw"]
    assert client.post(f"/api/chats/{chat}/restore", {})["labels"] == ["flaw"]
    assert list_chats(client, "label=flaw") == [chat]


def test_labels_outlive_a_restart_and_an_edit_by_hand_changes_no_chat(serve: Serve) -> None:
    first = serve()
    client = first.client()
    chat = client.create_chat()
    client.post(LABELS, {"name": "bug"})
    client.put(f"/api/chats/{chat}/labels", {"labels": ["bug"]})
    first.stop()
    first.join()
    Path(first.layout.labels).unlink()
    client = serve().client()
    until(lambda: client.get(LABELS)["labels"] == [])
    assert client.get(f"/api/chats/{chat}")["labels"] == ["bug"]
    client.post(LABELS, {"name": "idea"})
    kept = client.put(f"/api/chats/{chat}/labels", {"labels": ["bug", "idea"]})
    assert kept["labels"] == ["bug", "idea"]


@pytest.mark.parametrize(
    ("left", "listed"),
    [
        ({"name": "a", "label": {"name": "b", "color": "#cc0000"}}, ["b"]),
        ({"name": "a", "label": None}, []),
        ({"name": "gone", "label": {"name": "a"}}, ["a"]),  # the crash came after the last step
    ],
    ids=str,
)
def test_a_change_that_was_interrupted_is_finished_at_the_start(
    serve: Serve, left: dict[str, object], listed: list[str]
) -> None:
    first = serve()
    first.client().post(LABELS, {"name": "a"})
    chat = first.client().create_chat()
    first.client().put(f"/api/chats/{chat}/labels", {"labels": ["a"]})
    first.stop()
    first.join()
    intent = Path(first.layout.label_rename)
    intent.write_text(json.dumps({**left, "by": "key:laptop", "format": 1}))
    client = serve().client()
    assert list_names(client) == listed
    assert client.get("/api/chats")["chats"][0]["labels"] == listed
    assert not intent.exists()


@pytest.mark.parametrize("new_name", ["b", None], ids=["renamed", "deleted"])
def test_a_chat_that_is_read_only_keeps_its_label_and_keeps_no_other_chat_from_the_new_one(
    serve: Serve, new_name: str | None
) -> None:
    first = serve()
    client = first.client()
    client.post(LABELS, {"name": "a"})
    damaged, sound = client.create_chat(), client.create_chat()
    client.post(f"{LABELS}/a/assign", {"chatIds": [damaged, sound]})
    first.stop()
    first.join()
    journal = Path(first.layout.get_journal_path(damaged))
    journal.write_bytes(journal.read_bytes() * 2)
    client = serve().client()
    if new_name:
        assert client.put(f"{LABELS}/a", {"name": new_name}).status == 200
    else:
        assert client.delete(f"{LABELS}/a").status == 204
    names = [new_name] if new_name else []
    assert list_names(client) == names
    assert client.get(f"/api/chats/{sound}")["labels"] == names
    assert client.get(f"/api/chats/{damaged}")["labels"] == ["a"]


def test_a_damaged_note_of_an_interrupted_change_is_named_and_ends_nothing(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    first = serve()
    first.client().post(LABELS, {"name": "a"})
    first.stop()
    first.join()
    Path(first.layout.label_rename).write_text("{")
    client = serve().client()
    assert f"{first.layout.label_rename}: is damaged" in caplog.text
    assert client.put(f"{LABELS}/a", {"name": "b"}).status == 200
    assert not Path(first.layout.label_rename).exists()
