"""One client of the hub: its protocol, its timer, and the carrying out of what the protocol says.

A client may come by several links, one after the other: sockets, streams, polls.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from agentd.access.gate import Caller
from agentd.wire.signalr.connection import Action, Connection, Cut, Forget, Write
from agentd.wire.signalr.hub import Subscribe
from agentd.wire.signalr.negotiate import Terms
from agentd.wire.signalr.polls import Answer
from agentd.wire.signalr.records import COME_BACK, Event, Record, closing


class Link(Protocol):
    """What carries records to a client."""

    def write(self, *records: Record) -> None:
        """Send records, some time soon."""
        ...

    def cut(self, last: Record | None) -> None:
        """Send ``last`` if there is one, and end."""
        ...

    def answer(self, status: int, body: bytes) -> None:
        """Answer, where the link is a poll."""
        ...


Actions: TypeAlias = Iterable[Action[Link]]


class Home(Protocol):
    """What a client asks of the hub that it belongs to."""

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        ...

    def forget(self, client: "Client") -> None:
        """Its token is to be found no more."""
        ...

    async def catch_up(self, client: "Client", wish: Subscribe) -> None:
        """Tell it what it missed."""
        ...


class Client:
    """One client: its protocol, its timer, and the carrying out of what the protocol says."""

    __slots__ = ("_catching", "_home", "_room", "_timer", "caller", "connection", "token")

    def __init__(self, home: Home, token: str, agreed: Terms, caller: Caller) -> None:
        self.token = token
        self.caller = caller
        self.connection: Connection[Link] = Connection(agreed, home.now())
        self._home = home
        self._timer: asyncio.TimerHandle | None = None
        self._catching: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        self._set_timer()

    @property
    def now(self) -> float:
        """Seconds of the hub's clock."""
        return self._home.now()

    def drive(self, actions: Actions) -> None:
        """Carry out, in order, and set the timer anew."""
        self._carry_out(actions)
        self._set_timer()
        if self._room and self.connection.has_room:
            self._room.set()

    async def catch_up(self, missed: Sequence[Event]) -> None:
        """Tell it a part of what it missed; return once it has taken that."""
        self._carry_out_together(self.connection.catch_up(missed, self.now))
        self._set_timer()
        while not self.connection.has_room:
            self._room = asyncio.Event()
            await self._room.wait()
        self._room = None

    def tell(self, events: Sequence[Event], now: float) -> None:
        """These things changed, in order; what of it is written is written at once.

        It makes nothing due sooner but the wait for a slow link.
        """
        self._carry_out_together(
            [action for event in events for action in self.connection.tell(event, now)]
        )
        if self.connection.paused:
            self._set_timer()

    def _carry_out_together(self, actions: Sequence[Action[Link]]) -> None:
        """Carry out; records that follow one another are one write, for each costs a call."""
        writes = [action for action in actions if isinstance(action, Write)]
        if writes and len(writes) == len(actions):  # a connection has but one link at a time
            writes[0].link.write(*(write.record for write in writes))
        else:
            self._carry_out(actions)

    def _carry_out(self, actions: Actions) -> None:
        for action in actions:
            match action:
                case Write(link=link, record=record):
                    link.write(record)
                case Cut(link=link, last=last):
                    link.cut(last)
                case Answer(link=link, status=status, body=body):
                    link.answer(status, body)
                case Subscribe(since=since) if since is not None:
                    self._catching = asyncio.ensure_future(self._home.catch_up(self, action))
                case Forget():
                    self._over()
                case _:
                    pass

    def end(self, reason: str) -> None:
        """End it for good with a reason; without one the client may come back."""
        last = closing(reason) if reason else COME_BACK
        self.drive(self.connection.end(self.now, last))

    def _over(self) -> None:
        self._home.forget(self)
        if self._catching:
            self._catching.cancel()

    def _set_timer(self) -> None:
        """Wake when something is due; a timer that is set too early wakes for nothing, rarely."""
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
        self.drive(self.connection.tick(self.now))
