"""The messages of one chat that contain a text (specification 4, extended surface)."""

import unicodedata
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest

from agentd.chats import history_api
from tests.support.daemon import Client, Serving


def search_chat(client: Client, chat: int, text: str, place: int = 0) -> list[str]:
    """Return the excerpt around the text from each message that contains it."""
    reply = client.get(f"/api/chat/{chat}/search?text={text}&place={place}")
    assert reply.status == 200, reply.body
    return [one["excerpt"] for one in reply["matches"]]


@pytest.fixture
def chat(client: Client) -> int:
    """A chat of eight messages."""
    chat = client.create_chat(prompt="The Kettle boils")
    for text in ("no such word", "kettles and KETTLES", "straße"):
        client.messages(chat)
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": text})
    client.messages(chat)
    return chat


def test_all_messages_that_contain_a_text_are_found_in_their_order(
    client: Client, chat: int
) -> None:
    other = client.create_chat(prompt="another kettle")
    client.messages(other)
    reply = client.get(f"/api/chat/{chat}/search?text=kettle").json()
    assert reply["next"] is None
    whole = client.get(f"/api/chat/{chat}/messages")["messages"]
    wanted = [one["id"] for one in whole if "kettle" in one["content"].casefold()]
    assert [one["messageId"] for one in reply["matches"]] == wanted
    assert len(wanted) == 4
    assert search_chat(client, chat, "STRASSE") == ["straße", "echo: straße"]
    assert search_chat(client, chat, "nobody") == []


def test_what_asks_for_nothing_or_nowhere_is_refused(client: Client, chat: int) -> None:
    for query in ("", "?text=", "?text=x&place=-1", "?text=x&place=y"):
        assert client.get(f"/api/chat/{chat}/search{query}").status == 400
    assert client.get("/api/chat/999999/search?text=x").status == 404


def test_a_search_goes_on_where_it_ended_and_misses_nothing(
    client: Client, chat: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = client.get(f"/api/chat/{chat}/search?text=kettle")["matches"]
    for name, value in (("MOST_MATCHES", 1), ("SEARCHED_BYTES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(history_api, name, value)
            matches, place, pages = [], 0, 0
            while place is not None:
                reply = client.get(f"/api/chat/{chat}/search?text=kettle&place={place}").json()
                matches += reply["matches"]
                place = reply["next"]
                pages += 1
        assert matches == whole
        assert pages > 3


def test_any_place_is_searched_from_without_harm(client: Client, chat: int) -> None:
    """A place within a line, or behind the end, is where nobody was sent: it finds less."""
    whole = search_chat(client, chat, "kettle")
    for place in (1, 99, 1000, 10**12):
        assert set(search_chat(client, chat, "kettle", place)) <= set(whole)


def test_a_journal_that_cannot_be_read_is_told(client: Client, chat: int, daemon: Serving) -> None:
    Path(daemon.layout.get_journal_path(chat)).rename(
        Path(daemon.layout.get_journal_path(chat) + ".away")
    )
    assert client.get(f"/api/chat/{chat}/search?text=kettle").status == 503


def test_an_excerpt_is_plain_text_unless_the_words_are_in_the_marks(client: Client) -> None:
    said = "The **kettle** is in [the kitchen](https://example.com/pantry)."
    chat = client.create_chat(prompt=said)
    client.messages(chat)
    plain = "The kettle is in the kitchen."
    assert search_chat(client, chat, "kettle%20is") == []
    assert search_chat(client, chat, "kettle") == [plain, f"echo: {plain}"]
    assert search_chat(client, chat, "pantry")[0] == said


@pytest.mark.parametrize("said", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_a_text_is_found_however_its_accents_are_written(
    client: Client, said: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"]
) -> None:
    words, title = ("Ökonomie", "한국어"), f"Café {said} {asked}"
    prompt = unicodedata.normalize(said, f"{words[0]} und {words[1]}")
    chat = client.create_chat(prompt=prompt, title=unicodedata.normalize(said, title))
    client.messages(chat)
    for word in words:
        text = quote(unicodedata.normalize(asked, word.lower()))
        assert search_chat(client, chat, text) == [prompt, f"echo: {prompt}"]
    found = client.get(f"/api/chats?text={quote(unicodedata.normalize(asked, title.upper()))}")
    assert [one["chatId"] for one in found["chats"]] == [chat]


@pytest.mark.parametrize("before", ["Maß und Größe. ", "eﬃcient oﬀers. ", "cafe\u0301. "])
def test_an_excerpt_has_the_words_behind_many_letters_that_fold_to_others(
    client: Client, before: str
) -> None:
    chat = client.create_chat(prompt=f"{before * 300}A kettle. {before * 300}")
    client.messages(chat)
    for excerpt in search_chat(client, chat, "KETTLE"):
        begin, _, end = excerpt.partition("kettle")
        assert 70 < len(begin) < 90
        assert 70 < len(end) < 90
