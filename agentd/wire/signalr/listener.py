"""What one connection listens to: its calls, its subscription, and catching up after a break."""

from collections.abc import Iterable, Iterator

from agentd.errors import BadRequest
from agentd.wire.signalr.backlog import Backlog
from agentd.wire.signalr.hub import Command, Subscribe, Subscription, command
from agentd.wire.signalr.messages import Call
from agentd.wire.signalr.records import Event, Record, completion


class Listener:
    """Answers calls, and says which events go out; live ones never overtake those caught up."""

    def __init__(self) -> None:
        self._subscription = Subscription()
        self._waiting: Backlog[Event] | None = None
        self._caller: str | None = None

    @property
    def full(self) -> bool:
        """Whether more waits for the end of catching up than may be kept."""
        return self._waiting is not None and self._waiting.full

    def called(self, call: Call) -> Iterator[Record | Command]:
        """The command to carry out, and the one Completion, if an answer was wanted.

        A call with an id that cannot be done gets an error; without one, never an answer.
        """
        try:
            wish = command(call)
            catches_up = isinstance(wish, Subscribe) and wish.since is not None
            if catches_up and self._waiting is not None:
                raise BadRequest("Still catching up with an earlier Subscribe; call again later")
            self._subscription.change(wish)
        except BadRequest as error:
            yield from _answer(call.id, error.message)
            return
        yield wish
        if catches_up:
            self._waiting, self._caller = Backlog(), call.id
        else:
            yield from _answer(call.id)

    def takes(self, event: Event) -> bool:
        """Whether a live event goes out now: it is wanted, and nothing is being caught up."""
        if not self._subscription.wants(event.chat):
            return False
        if self._waiting is None:
            return True
        self._waiting.append(event)
        return False

    def catch_up(self, missed: Iterable[Event]) -> Iterator[Record]:
        """The first or next part of what was missed."""
        if self._waiting is not None:
            yield from (event for event in missed if self._subscription.wants(event.chat))

    def caught_up(self, missed: Iterable[Event], upto: int) -> Iterator[Record]:
        """The rest of what was missed, the Completion, then the live events that waited."""
        yield from self.catch_up(missed)
        waited, self._waiting = self._waiting, None
        if waited is None:
            return
        yield from _answer(self._caller)
        yield from (event for event in waited if event.seq is None or event.seq > upto)

    def renew(self) -> None:
        """Another handshake: whoever called before it no longer waits for an answer."""
        self._caller = None


def _answer(call: str | None, error: str = "") -> Iterator[Record]:
    if call is not None:
        yield completion(call, error)
