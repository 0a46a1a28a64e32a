"""Endpoint 3 of the remote API: the messages of a chat, all or since a moment."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest

from agentd.agent.engine import ReplyCompleted, ToolUsed, TurnFailed
from agentd.chats.model import Message, Tokens
from agentd.chats.records import ChatCreated, JournalEntry, MessageAdded
from agentd.llm.price import Usage
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.document import make_folder
from agentd.storage.layout import Layout
from tests.support.daemon import Client, Engine, Serving, build_request, send_raw

CHATS = "/api/remote/chats"
LONG = 5000
LAST = LONG - 1


def read_messages(
    client: Client, chat: int, since: str | None = None, *, quoted: bool = True
) -> Any:
    """Return the whole answer of endpoint 3."""
    query = "" if since is None else f"?since={quote(since) if quoted else since}"
    reply = client.get(f"{CHATS}/{chat}/messages{query}")
    assert reply.status == 200
    return reply.json()


def test_a_message_has_the_specified_fields(client: Client, engine: Engine) -> None:
    """Specification 2, 'Message object'; 4, endpoint 3."""
    engine.says = lambda _: [
        ReplyCompleted("hello", Usage(input=12, output=34), Decimal("0.000125"))
    ]
    chat = client.create_chat(prompt="hi")
    user, assistant = client.messages(chat)
    for message in (user, assistant):
        assert set(message) == {"id", "role", "content", "createdAt", "tokens", "cost"}
    assert 0 < user["id"] < assistant["id"]
    assert (user["role"], user["content"], user["cost"]) == ("user", "hi", 0)
    assert user["tokens"] == {"input": 0, "output": 0}
    assert (assistant["role"], assistant["content"]) == ("assistant", "hello")
    assert (assistant["tokens"], assistant["cost"]) == ({"input": 12, "output": 34}, 0.000125)


def test_content_is_simplified_by_type(client: Client, engine: Engine) -> None:
    """Specification 2, 'Message object', content: each of its four kinds."""
    engine.says = lambda _: [
        ToolUsed("read_file", "secret.txt", "its content"),
        ReplyCompleted("Done.\n\n[[Yes]] [[No|do not]]"),
        TurnFailed("The engine lost its way."),
    ]
    chat = client.create_chat(prompt="hi [[Yes]]")
    assert [(one["role"], one["content"]) for one in client.messages(chat)] == [
        ("user", "hi [[Yes]]"),
        ("tool", "Tool: read_file"),
        ("assistant", "Done."),
        ("error", "The engine lost its way."),
    ]


def test_without_since_the_full_history_is_returned(client: Client) -> None:
    """Specification 4, rules of endpoint 3, rule 3."""
    chat = client.create_chat(prompt="hi")
    messages = client.messages(chat)
    assert read_messages(client, chat) == {"chatId": chat, "messages": messages, "since": None}


def test_a_chat_without_messages_has_an_empty_history(client: Client) -> None:
    chat = client.create_chat()
    assert read_messages(client, chat) == {"chatId": chat, "messages": [], "since": None}


def test_since_is_inclusive_and_echoed(history: "History") -> None:
    """Specification 4, rules of endpoint 3, rule 1."""
    for index in (0, 1, LAST // 2, LAST - 10, LAST):
        since = history.messages[index]["createdAt"]
        found = read_messages(history.client, 1, since)
        assert found["messages"] == history.messages[index:]
        assert found["since"] == since


@pytest.mark.parametrize(
    "since",
    ["", "x", "yesterday", "2026-13-01", "2026-01-01T25:00:00", "1", "null", "9" * 5000, "\0"],
)
def test_an_invalid_since_is_silently_ignored(history: "History", since: str) -> None:
    """Specification 4, rules of endpoint 3, rule 2: the full history is returned."""
    found = read_messages(history.client, 1, since)
    assert found["messages"] == history.messages
    assert found["since"] is None


@pytest.mark.parametrize("index", [3, LAST - 3])
def test_a_moment_may_be_written_in_any_way_of_iso_8601(history: "History", index: int) -> None:
    """Specification 4, rules of endpoint 3, rule 1: ``since`` is ISO 8601."""
    at = datetime.fromisoformat(history.messages[index]["createdAt"])
    east = at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    west = at.astimezone(timezone(-timedelta(hours=8)))
    spellings = [
        at.isoformat(),
        east.isoformat(),
        west.isoformat(),
        at.replace(tzinfo=None).isoformat(),
        at.strftime("%Y%m%dT%H%M%S.") + f"{at.microsecond // 1000:03d}Z",
        at.isoformat(" "),
        at.isoformat().lower(),
    ]
    for since in spellings:
        found = read_messages(history.client, 1, since)
        assert found["messages"] == history.messages[index:], since
        assert found["since"] == since
    for since in (east.isoformat(), str(east).replace(" ", "%20")):
        unquoted = read_messages(history.client, 1, since, quoted=False)
        assert unquoted["messages"] == history.messages[index:], "a + that arrived as a space"


def test_what_is_finer_than_a_millisecond_counts(history: "History") -> None:
    at = history.messages[7]["createdAt"]
    assert read_messages(history.client, 1, at[:-1] + "001Z")["messages"][0] == history.messages[8]
    assert read_messages(history.client, 1, at[:-1] + "000Z")["messages"][0] == history.messages[7]


def test_a_day_alone_is_its_beginning_and_the_future_is_empty(history: "History") -> None:
    assert read_messages(history.client, 1, "2026-01-01")["messages"] == history.messages
    assert read_messages(history.client, 1, "9999-12-31T23:59:59.999999Z")["messages"] == []
    assert read_messages(history.client, 1, "0001-01-01T00:00:00+14:00")["since"] is None


def test_the_last_of_two_since_counts(history: "History") -> None:
    last = history.messages[-1]["createdAt"]
    reply = history.client.get(f"{CHATS}/1/messages?since=2026-01-01&since={last}")
    assert reply["messages"] == history.messages[-1:]


# A long history, which comes in portions.


class History:
    """A chat of many messages, as the journal has it."""

    def __init__(self, serving: Serving, messages: list[dict[str, Any]]) -> None:
        self.serving = serving
        self.client = serving.client()
        self.messages = messages


def write_history(layout: Layout, count: int) -> list[dict[str, Any]]:
    """Chat 1 on disk; its messages as the remote API must show them."""
    make_folder(layout.state)
    make_folder(layout.chats)
    make_folder(layout.get_chat_folder(1))
    began = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    lines = [
        encode_checksummed(
            JournalEntry(1, 1, "2026-01-01T00:00:00.000Z", "test", ChatCreated("Long"))
        )
    ]
    shown = []
    for number in range(1, count + 1):
        moment = began + timedelta(milliseconds=7 * number)
        at = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
        text = f"message {number} \u00e4\U0001f600\n" * 20
        message = Message(number, "assistant", text, at, tokens=Tokens(1, 2), cost=Decimal("0.1"))
        lines.append(
            encode_checksummed(
                JournalEntry(number + 1, number + 1, at, "agent", MessageAdded(message))
            )
        )
        shown.append(
            {
                "id": number,
                "role": "assistant",
                "content": text,
                "createdAt": at,
                "tokens": {"input": 1, "output": 2},
                "cost": 0.1,
            }
        )
    with open(layout.get_journal_path(1), "xb") as file:
        file.writelines(lines)
    return shown


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A daemon with a chat of many messages."""
    folder = tmp_path_factory.mktemp("history")
    serving = Serving(folder)
    messages = write_history(serving.layout, LONG)
    with serving:
        yield History(serving, messages)


def test_a_long_history_comes_whole(history: History) -> None:
    """Specification 4, rules of endpoint 3, rule 3."""
    reply = history.client.get(f"{CHATS}/1/messages")
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert reply.json() == {"chatId": 1, "messages": history.messages, "since": None}
    assert history.client.status(1)["totalCost"] == 500.0


def test_paging_with_since_meets_every_message_once(history: History) -> None:
    """Specification 4, rules of endpoint 3, rule 1: a caller reads on where it left off."""
    met, since = [], "2026-01-01"
    for index in range(0, LONG, 977):
        page = read_messages(history.client, 1, since)["messages"]
        assert page == history.messages[index:]
        met += page[:977]
        if len(page) > 977:
            since = page[977]["createdAt"]
    assert met == history.messages


def test_a_long_history_has_a_head_and_leaves_the_connection_usable(history: History) -> None:
    client = history.serving.client()
    for _ in range(2):
        head = client.send("HEAD", f"{CHATS}/1/messages")
        assert (head.status, head.body) == (200, b"")
    first = client.connection.sock
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.connection.sock is first


def test_a_caller_of_http_1_0_gets_a_long_history_unchunked(history: History) -> None:
    line = build_request("GET", f"{CHATS}/1/messages").replace(b"HTTP/1.1", b"HTTP/1.0")
    (answer,) = send_raw(history.serving.port, line)
    assert "Transfer-Encoding" not in answer.headers
    assert answer.json()["messages"] == history.messages
