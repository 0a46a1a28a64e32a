"""A client of the hub: its protocol state, its timer, and the execution of protocol actions.

A client may use several links, one after the other: WebSockets, streams, polls.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from agentd.http.access import Caller
from agentd.live.signalr.connection import Action, CloseLink, Connection, RemoveConnection, Write
from agentd.live.signalr.hub import Subscribe
from agentd.live.signalr.negotiate import Terms
from agentd.live.signalr.polls import AnswerPoll
from agentd.live.signalr.records import COME_BACK, UNAUTHORIZED, EventRecord, Record, make_close


class ClientLink(Protocol):
    """Carries records to a client."""

    def write(self, *records: Record) -> None:
        """Send records soon."""
        ...

    def close(self, last: Record | None) -> None:
        """Send ``last`` if there is one, and close."""
        ...

    def respond(self, status: int, body: bytes) -> None:
        """Answer a link that is a poll."""
        ...


Actions: TypeAlias = Iterable[Action[ClientLink]]


class HubServices(Protocol):
    """The services that a client needs of its hub."""

    def now(self) -> float:
        """Return the seconds of the monotonic clock."""
        ...

    def remove_client(self, client: "HubClient") -> None:
        """Forget a client whose connection has ended."""
        ...

    async def catch_up(self, client: "HubClient", request: Subscribe) -> None:
        """Send a client the events that it missed."""
        ...


class HubClient:
    """A client: its protocol state, its timer, and the execution of protocol actions."""

    __slots__ = ("_catching", "_room", "_services", "_timer", "caller", "connection", "token")

    def __init__(self, services: HubServices, token: str, agreed: Terms, caller: Caller) -> None:
        self.token = token
        self.caller = caller
        self.connection: Connection[ClientLink] = Connection(agreed, services.now())
        self._services = services
        self._timer: asyncio.TimerHandle | None = None
        self._catching: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        self._set_timer()

    @property
    def now(self) -> float:
        """Seconds of the hub's clock."""
        return self._services.now()

    def apply(self, actions: Actions) -> None:
        """Execute actions in order, and reset the timer."""
        self._execute(actions)
        self._set_timer()
        if self._room and self.connection.has_room:
            self._room.set()

    async def send_missed(self, missed: Sequence[EventRecord]) -> None:
        """Send a part of the missed events; return once the client has read it."""
        self._execute_as_one_write(self.connection.catch_up(missed, self.now))
        self._set_timer()
        while not self.connection.has_room:
            self._room = asyncio.Event()
            await self._room.wait()
        self._room = None

    def send_events(self, events: Sequence[EventRecord], now: float) -> None:
        """Send live events, in one write.

        Only the timeout of a slow link can become due sooner by this.
        """
        self._execute_as_one_write(
            [action for event in events for action in self.connection.send_event(event, now)]
        )
        if self.connection.paused:
            self._set_timer()

    def _execute_as_one_write(self, actions: Sequence[Action[ClientLink]]) -> None:
        """Execute actions; consecutive records become one write, since each costs a system call."""
        writes = [action for action in actions if isinstance(action, Write)]
        if writes and len(writes) == len(actions):  # a connection has but one link at a time
            writes[0].link.write(*(write.record for write in writes))
        else:
            self._execute(actions)

    def _execute(self, actions: Actions) -> None:
        for action in actions:
            match action:
                case Write(link=link, record=record):
                    link.write(record)
                case CloseLink(link=link, last=last):
                    link.close(last)
                case AnswerPoll(link=link, status=status, body=body):
                    link.respond(status, body)
                case Subscribe(since=since) if since is not None:
                    self._catching = asyncio.ensure_future(self._services.catch_up(self, action))
                case RemoveConnection():
                    self._on_removed()
                case _:
                    pass

    def close(self, reason: str) -> None:
        """End the connection: its access has ended for a reason; without one it may reconnect."""
        last = make_close(reason, UNAUTHORIZED) if reason else COME_BACK
        self.apply(self.connection.end(self.now, last))

    def _on_removed(self) -> None:
        self._services.remove_client(self)
        if self._catching:
            self._catching.cancel()

    def _set_timer(self) -> None:
        """Set the timer to the connection's deadline; firing too early is harmless."""
        due = self.connection.due
        if due == math.inf:
            if self._timer:
                self._timer.cancel()
            self._timer = None
            return
        delay = max(due - self.now, 0.0)
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        if self._timer is None or self._timer.when() > when:
            if self._timer:
                self._timer.cancel()
            self._timer = loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.apply(self.connection.tick(self.now))
