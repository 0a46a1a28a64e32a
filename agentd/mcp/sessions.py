"""The sessions of clients of earlier revisions: what was agreed on, and what is under way."""

import asyncio
from collections.abc import Callable
from itertools import count

from agentd.core.ids import generate_connection_id
from agentd.mcp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    JsonObject,
    McpError,
    McpReply,
    MessageId,
    make_notification,
    make_request,
)
from agentd.mcp.protocol import MAX_SUBSCRIPTIONS
from agentd.mcp.revisions import ClientProfile
from agentd.mcp.streams import StreamSignal
from agentd.mcp.subscriptions import LIST, ChangeQueue, SubscriptionIndex

MAX_SESSIONS = 1000
"""Sessions of one key; another one ends the one that was used the longest ago."""
IDLE_SECONDS = 24 * 3600.0
"""Seconds without a request or stream after which a session may be ended."""


class ClientQuestion:
    """A request to the client, and its answer once it has come."""

    def __init__(self, number: int, method: str, params: JsonObject) -> None:
        self.id = f"agentd-{number}"
        self.request = make_request(self.id, method, params)
        self.cancellation = make_notification("notifications/cancelled", {"requestId": self.id})
        self.reply: McpReply | None = None


class McpSession:
    """A client from ``initialize`` to its end; ``owner`` is the key that began it."""

    def __init__(self, owner: str, profile: ClientProfile) -> None:
        self.id = generate_connection_id()
        self.owner = owner
        self.profile = profile
        self.changes = ChangeQueue()
        self.used = 0.0
        self.streams: set[StreamSignal] = set()
        """The streams of changes that the client has open."""
        self.calls: dict[MessageId, StreamSignal] = {}
        """The requests that can be cancelled."""
        self._questions: dict[MessageId, tuple[ClientQuestion, Callable[[], None]]] = {}
        self._numbers = count(1)

    def ask(self, method: str, params: JsonObject, on_reply: Callable[[], None]) -> ClientQuestion:
        """Return a new request to the client, to be sent; ``on_reply`` is called at its answer."""
        question = ClientQuestion(next(self._numbers), method, params)
        self._questions[question.id] = question, on_reply
        return question

    def forget(self, question: ClientQuestion) -> None:
        """Expect no answer to a request to the client any more."""
        self._questions.pop(question.id, None)

    def take_reply(self, reply: McpReply) -> None:
        """Take the client's answer to a request; an unexpected one is ignored."""
        if found := self._questions.pop(reply.id, None):
            question, on_reply = found
            question.reply = reply
            on_reply()

    def cancel_call(self, request_id: object) -> None:
        """End a request that the client cancelled, if it can be ended and runs yet."""
        if isinstance(request_id, str | int) and (signal := self.calls.get(request_id)):
            signal.end()

    def check_room_for_subscription(self) -> None:
        """Raise ``McpError`` if the session has too many subscriptions already."""
        if len(self.changes.subscribed) > MAX_SUBSCRIPTIONS:
            raise McpError(
                INVALID_PARAMS, f"A session has at most {MAX_SUBSCRIPTIONS} subscriptions"
            )

    def wake_streams(self) -> None:
        """Let one of the streams send what changed."""
        if signal := next(iter(self.streams), None):
            signal.wake()


class McpSessionRegistry:
    """All sessions."""

    def __init__(self, subscriptions: SubscriptionIndex) -> None:
        self._subscriptions = subscriptions
        self._sessions: dict[str, McpSession] = {}

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    def begin(self, owner: str, profile: ClientProfile) -> McpSession:
        """Begin a session; ends those of the owner that are too many or long unused."""
        self._end_unused(owner)
        session = McpSession(owner, profile)
        session.used = asyncio.get_running_loop().time()
        session.changes.on_change = session.wake_streams
        self._sessions[session.id] = session
        self._subscriptions.subscribe(session.changes, [LIST])
        return session

    def get(self, session_id: str | None, owner: str) -> McpSession:
        """Return a session of this key; raises ``McpError``."""
        if session_id is None:
            raise McpError(INVALID_REQUEST, "Send initialize first, and then its Mcp-Session-Id")
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise McpError(
                INVALID_REQUEST, "There is no such session; send initialize again", status=404
            )
        session.used = asyncio.get_running_loop().time()
        return session

    def end(self, session: McpSession) -> None:
        """End a session with its streams."""
        self._sessions.pop(session.id, None)
        self._subscriptions.remove(session.changes)
        for signal in (*session.streams, *session.calls.values()):
            signal.end()

    def _end_unused(self, owner: str) -> None:
        now = asyncio.get_running_loop().time()
        for session in list(self._sessions.values()):
            if now - session.used > IDLE_SECONDS and not (session.streams or session.calls):
                self.end(session)
        own = [one for one in self._sessions.values() if one.owner == owner]
        if len(own) >= MAX_SESSIONS:
            self.end(min(own, key=lambda one: one.used))
