"""The subscription of one connection: its calls, and catching up after an interruption."""

from collections.abc import Iterable, Iterator

from agentd.core.errors import BadRequest
from agentd.live.signalr.backlog import Backlog
from agentd.live.signalr.hub import HubCommand, Subscribe, Subscription, parse_command
from agentd.live.signalr.messages import Call
from agentd.live.signalr.records import EventRecord, Record, make_completion


class HubListener:
    """Answers calls and selects events; live events never overtake missed ones."""

    def __init__(self) -> None:
        self._subscription = Subscription()
        self._waiting: Backlog[EventRecord] | None = None
        self._caller: str | None = None

    @property
    def is_full(self) -> bool:
        """True if too many live events wait for the end of catching up."""
        return self._waiting is not None and self._waiting.is_full

    def handle_call(self, call: Call) -> Iterator[Record | HubCommand]:
        """Yield the command to execute and the Completion, if the call has an id.

        An invalid call with an id is completed with an error; one without is ignored.
        """
        try:
            request = parse_command(call)
            catches_up = isinstance(request, Subscribe) and request.since is not None
            if catches_up and self._waiting is not None:
                raise BadRequest("Still catching up with an earlier Subscribe; call again later")
            self._subscription.change(request)
        except BadRequest as error:
            yield from _answer(call.id, error.message)
            return
        yield request
        if catches_up:
            self._waiting, self._caller = Backlog(), call.id
        else:
            yield from _answer(call.id)

    def accepts(self, event: EventRecord) -> bool:
        """Return whether to send a live event now; while catching up it is held back."""
        if not self._subscription.wants(event.chat):
            return False
        if self._waiting is None:
            return True
        self._waiting.append(event)
        return False

    def catch_up(self, missed: Iterable[EventRecord]) -> Iterator[Record]:
        """Yield the subscribed events of a part of the missed ones."""
        if self._waiting is not None:
            yield from (event for event in missed if self._subscription.wants(event.chat))

    def finish_catch_up(self, missed: Iterable[EventRecord], upto: int) -> Iterator[Record]:
        """Yield the rest of the missed events, the Completion, then the held-back live events."""
        yield from self.catch_up(missed)
        waited, self._waiting = self._waiting, None
        if waited is None:
            return
        yield from _answer(self._caller)
        yield from (event for event in waited if event.seq is None or event.seq > upto)

    def reset(self) -> None:
        """Forget the pending call: after another handshake its response is not expected."""
        self._caller = None


def _answer(call: str | None, error: str = "") -> Iterator[Record]:
    if call is not None:
        yield make_completion(call, error)
