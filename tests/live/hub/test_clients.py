"""The clients that people have, as they are, against a whole daemon."""

import pytest

from tests.live.hub.conftest import Listen
from tests.live.hub.support import JAVASCRIPT, PYSIGNALR, SIGNALRCORE, delete_by_hand
from tests.support.daemon import Client, Serving

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
def test_a_client_connects_and_is_informed_of_new_messages(
    listen: Listen, client: Client, name: str, transport: str
) -> None:
    """Specification 6, 'messageUpdate': chatId, message."""
    listening = listen(name, transport=transport)
    listening.wait("open")
    chat = client.create_chat(prompt="Hello")
    listening.wait_for_texts("Hello", "echo: Hello")
    result = listening.list_events()
    assert [one for one, _ in result] == [chat] * len(result)
    assert [message for _, message in result] == client.messages(chat)


@CLIENTS
def test_a_client_with_a_wrong_key_is_refused(listen: Listen, name: str, transport: str) -> None:
    """Specification 5.8 and 6."""
    refused = listen(name, transport=transport, key="agent_" + "x" * 32).wait("refused")
    assert "401" in refused["error"]


@CLIENTS
def test_a_client_whose_key_is_deleted_by_hand_is_cut_and_reported_nothing_more(
    daemon: Serving, listen: Listen, client: Client, name: str, transport: str
) -> None:
    """Specification 5.3 and 6."""
    lost, kept = daemon.new_key("lost"), daemon.new_key("kept")
    cut = listen(name, transport=transport, key=lost)
    other = listen(name, transport=transport, key=kept)
    cut.wait("open")
    other.wait("open")
    client.create_chat(prompt="before")
    cut.wait_for_texts("echo: before")
    delete_by_hand(daemon.layout, "lost")
    if (name, transport) != (SIGNALRCORE, POLLING):  # which notices only after 15 s
        cut.wait("closed")
    client.create_chat(prompt="after")
    other.wait_for_texts("echo: after")
    assert "after" not in cut.list_contents()
