"""Channels, managed by a program."""

from tests.web.gateway.conftest import SECRET, House
from tests.web.support import Client


def test_channels_are_listed_with_their_models_and_masked_secrets(
    house: House, manager: Client
) -> None:
    reply = manager.get("/api/agent/channels")
    assert [one["name"] for one in reply["items"]] == ["chat", "gemini", "messages", "responses"]
    chat = reply["items"][0]
    assert (chat["models"], chat["key"]) == (["by-chat"], f"****{SECRET[-4:]}")
    assert manager.get("/api/agent/channels/chat").json() == chat
    assert SECRET.encode() not in reply.body


def test_a_channel_that_is_not_there_tells_the_nearest_name(manager: Client) -> None:
    reply = manager.get("/api/agent/channels/chatt")
    assert (reply.status, reply["error"]) == (404, "NotFound")
    assert 'did you mean "chat"?' in reply["message"]
