"""Sessions: whose they are, how many there are, and what ends with them."""

import pytest

from agentd.core.events import EventBus
from agentd.mcp import sessions
from agentd.mcp.messages import McpError, McpReply
from agentd.mcp.protocol import MAX_SUBSCRIPTIONS
from agentd.mcp.revisions import WITH_SESSIONS, ClientProfile
from agentd.mcp.sessions import McpSession, McpSessionRegistry
from agentd.mcp.streams import StreamSignal
from agentd.mcp.subscriptions import SubscriptionIndex

pytestmark = pytest.mark.gen_test(timeout=60)
PROFILE = ClientProfile(WITH_SESSIONS[0], True)


def make_registry() -> McpSessionRegistry:
    return McpSessionRegistry(SubscriptionIndex(EventBus()))


def is_there(registry: McpSessionRegistry, session: McpSession) -> bool:
    try:
        return registry.get(session.id, session.owner) is session
    except McpError as error:
        assert error.status == 404
        return False


async def test_one_owner_cannot_have_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    registry = make_registry()
    other = registry.begin("key:b", PROFILE)
    first, *rest = [registry.begin("key:a", PROFILE) for _ in range(3)]
    rest[0].used, first.used = first.used - 1, first.used
    registry.begin("key:a", PROFILE)
    assert [is_there(registry, one) for one in (other, first, *rest)] == [True, True, False, True]
    assert len(registry) == 4


async def test_what_is_long_unused_ends_unless_it_streams() -> None:
    registry = make_registry()
    old, streaming = registry.begin("key:a", PROFILE), registry.begin("key:a", PROFILE)
    streaming.streams.add(StreamSignal())
    for session in (old, streaming):
        session.used -= sessions.IDLE_SECONDS + 1
    registry.begin("key:b", PROFILE)
    assert is_there(registry, streaming)
    assert not is_there(registry, old)


async def test_streams_and_calls_end_with_their_session() -> None:
    registry = make_registry()
    session = registry.begin("key:a", PROFILE)
    stream, call = StreamSignal(), StreamSignal()
    session.streams.add(stream)
    session.calls["x"] = call
    session.cancel_call("y")
    assert not call.ended
    registry.end(session)
    # They end by themselves: the test's own task is not to be cancelled.
    for signal in (stream, call):
        assert signal.ended
        signal.cancel_timer()
    registry.end(session)


async def test_only_what_was_asked_is_answered_and_once() -> None:
    session = make_registry().begin("key:a", PROFILE)
    heard: list[int] = []
    asked = session.ask("elicitation/create", {}, lambda: heard.append(1))
    session.take_reply(McpReply("another", {}))
    session.take_reply(McpReply(asked.id, {"action": "accept"}))
    session.take_reply(McpReply(asked.id, {"action": "decline"}))
    assert (heard, asked.reply) == ([1], McpReply(asked.id, {"action": "accept"}))
    withdrawn = session.ask("elicitation/create", {}, lambda: heard.append(2))
    session.forget(withdrawn)
    session.take_reply(McpReply(withdrawn.id, {}))
    assert (heard, withdrawn.id != asked.id) == ([1], True)


async def test_subscriptions_of_a_session_are_limited() -> None:
    session = make_registry().begin("key:a", PROFILE)
    session.check_room_for_subscription()
    session.changes.subscribed |= {f"u{number}" for number in range(MAX_SUBSCRIPTIONS)}
    with pytest.raises(McpError, match="at most"):
        session.check_room_for_subscription()
