"""Adapters of a streamed reply: the supplier's bytes in, the caller's bytes out.

``PassthroughAdapter`` serves a caller and a supplier of the same dialect, ``TranslatingAdapter``
those of different ones. Both know how the reply ended and what it counted before they return the
bytes that end it, so that the request is recorded first; and both take the channel's own secrets
out of an error that ends it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from agentd.gateway.relay.error_masking import mask_in_events
from agentd.llm.conversation import ReplyEvent, ReplyFinished, SupplierError, UsageUpdated
from agentd.llm.dialects.caller import StreamWriter, UsageObserver
from agentd.llm.dialects.callers import CallerDialect
from agentd.llm.dialects.dialect import ReplyReader
from agentd.llm.dialects.stream_observers import EVENT_ENDS
from agentd.llm.price import Usage


class StreamAdapter(Protocol):
    """Converts one streamed reply."""

    @property
    def usage(self) -> Usage | None:
        """The usage counted so far."""
        ...

    @property
    def end(self) -> ReplyFinished | SupplierError | None:
        """The end of the reply; None: not reached."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the caller that these bytes of the supplier become."""
        ...

    def close(self) -> bytes:
        """End the reply as the supplier did; without a proper end, return an error event."""
        ...

    def abort(self, error: SupplierError) -> bytes:
        """End the reply early: return an error event, unless the end was already sent."""
        ...

    def render_error(self, error: SupplierError) -> bytes:
        """Return an error event instead of the reply's end."""
        ...


class PassthroughAdapter:
    """Passes the supplier's bytes unchanged, and reads usage and end from them.

    Only in an error, and in what follows the end of a reply, our own secrets are masked.
    Our error event takes the place of an event that the supplier did not finish: clients parse what
    stands between two blank lines as one.
    """

    def __init__(
        self, tap: UsageObserver, caller: CallerDialect, request_id: str, secrets: Sequence[str]
    ) -> None:
        self._tap = tap
        self._secrets = secrets
        self._caller = caller
        self._request_id = request_id
        self._error: SupplierError | None = None
        self._is_in_event = False
        """The beginning of an event was passed on, and its end was not."""

    @property
    def usage(self) -> Usage | None:
        """The usage counted so far."""
        return self._tap.usage

    @property
    def end(self) -> ReplyFinished | SupplierError | None:
        """The end of the reply; None: not reached."""
        end = self._tap.end
        return self._error or (end.mask(self._secrets) if isinstance(end, SupplierError) else end)

    def feed(self, data: bytes) -> bytes:
        """Process bytes as ``StreamAdapter.feed`` does."""
        had_ended = self._tap.end is not None
        passed = self._tap.feed(data)
        if passed:
            self._is_in_event = not passed.endswith(EVENT_ENDS)
        if had_ended or isinstance(self._tap.end, SupplierError):
            return mask_in_events(passed, self._secrets)
        return passed

    def close(self) -> bytes:
        """End the reply as ``StreamAdapter.close`` does."""
        had_ended = self._tap.end is not None
        rest = self._tap.close()
        if had_ended:
            return mask_in_events(rest, self._secrets)
        end = self.end
        return self.render_error(end) if isinstance(end, SupplierError) else rest

    def abort(self, error: SupplierError) -> bytes:
        """End the reply early, as ``StreamAdapter.abort`` does."""
        if self.end:
            return b""
        self._error = error
        self._tap.close()
        return self.render_error(error)

    def render_error(self, error: SupplierError) -> bytes:
        """Return an error event; a giant event of which a part was passed on ends before it."""
        event = self._caller.render_error_event(error.kind, error.message, self._request_id)
        return b"\n\n" + event if self._is_in_event else event


class TranslatingAdapter:
    """Translates the reply event by event; ``keep`` gets the items of a complete one."""

    def __init__(
        self,
        reader: ReplyReader,
        writer: StreamWriter,
        caller: CallerDialect,
        request_id: str,
        secrets: Sequence[str],
        keep: Callable[[Sequence[Mapping[str, object]]], None],
    ) -> None:
        self._caller = caller
        self._request_id = request_id
        self._reader = reader
        self._writer = writer
        self._secrets = secrets
        self._keep = keep
        self.usage: Usage | None = None
        self.end: ReplyFinished | SupplierError | None = None

    def feed(self, data: bytes) -> bytes:
        """Process bytes as ``StreamAdapter.feed`` does."""
        return self._write_events(self._reader.feed(data))

    def close(self) -> bytes:
        """End the reply as ``StreamAdapter.close`` does."""
        return self._write_events(self._reader.close())

    def abort(self, error: SupplierError) -> bytes:
        """End the reply early, as ``StreamAdapter.abort`` does."""
        if self.end:
            return b""
        self.end = error
        return self._writer.write(error)

    def render_error(self, error: SupplierError) -> bytes:
        """Return an error event."""
        return self._caller.render_error_event(error.kind, error.message, self._request_id)

    def _mask(self, event: ReplyEvent) -> ReplyEvent:
        return event.mask(self._secrets) if isinstance(event, SupplierError) else event

    def _write_events(self, events: Iterable[ReplyEvent]) -> bytes:
        written = []
        for event in map(self._mask, events):
            if isinstance(event, UsageUpdated):
                self.usage = event.usage
            elif isinstance(event, ReplyFinished | SupplierError):
                self.end = event
            written.append(self._writer.write(event))
            if isinstance(event, ReplyFinished):
                self._keep(self._writer.items)
        return b"".join(written)
