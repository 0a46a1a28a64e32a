"""The clients that people have, as they are, against a whole daemon."""

import pytest

from tests.web.live.conftest import Listen
from tests.web.live.support import JAVASCRIPT, PYSIGNALR, SIGNALRCORE, delete_by_hand
from tests.web.support import Client, Serving

SOCKET, STREAM, POLLING = "WebSockets", "ServerSentEvents", "LongPolling"

CLIENTS = pytest.mark.parametrize(
    ("name", "transport"),
    [
        (JAVASCRIPT, SOCKET),
        (JAVASCRIPT, STREAM),
        (JAVASCRIPT, POLLING),
        (PYSIGNALR, SOCKET),
        (SIGNALRCORE, SOCKET),
        (SIGNALRCORE, STREAM),
        (SIGNALRCORE, POLLING),
    ],
)


@CLIENTS
def test_a_client_connects_and_is_told_of_new_messages(
    listen: Listen, client: Client, name: str, transport: str
) -> None:
    """Specification 6, 'messageUpdate': chatId, message."""
    listening = listen(name, transport=transport)
    listening.wait("open")
    chat = client.chat(prompt="Hello")
    listening.hears("Hello", "echo: Hello")
    told = listening.events()
    assert [one for one, _ in told] == [chat] * len(told)
    assert [message for _, message in told] == client.messages(chat)


@CLIENTS
def test_a_client_with_a_wrong_key_is_refused(listen: Listen, name: str, transport: str) -> None:
    """Specification 5.8 and 6."""
    refused = listen(name, transport=transport, key="agent_" + "x" * 32).wait("refused")
    assert "401" in refused["error"]


@CLIENTS
def test_a_client_whose_key_is_deleted_by_hand_is_cut_and_told_nothing_more(
    daemon: Serving, listen: Listen, client: Client, name: str, transport: str
) -> None:
    """Specification 5.3 and 6."""
    lost, kept = daemon.new_key("lost"), daemon.new_key("kept")
    cut = listen(name, transport=transport, key=lost)
    other = listen(name, transport=transport, key=kept)
    cut.wait("open")
    other.wait("open")
    client.chat(prompt="before")
    cut.hears("echo: before")
    delete_by_hand(daemon.layout, "lost")
    if (name, transport) != (SIGNALRCORE, POLLING):  # which notices only after 15 s
        cut.wait("closed")
    client.chat(prompt="after")
    other.hears("echo: after")
    assert "after" not in cut.contents()
