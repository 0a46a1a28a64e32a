"""A streamed answer on its way: supplier's bytes in, caller's bytes out.

``Passing`` where both speak one dialect, ``Translating`` where they do not. Both know, before the
piece that ends the reply is given away, how it ended and what it counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from agentd.proxy.dialects.caller import Tap, Writer
from agentd.proxy.dialects.callers import CallerDialect
from agentd.proxy.dialects.conversation import Event, Finished, SupplierError, UsageSeen
from agentd.proxy.dialects.dialect import Reader
from agentd.proxy.price import Usage


class Line(Protocol):
    """One streamed answer."""

    @property
    def usage(self) -> Usage | None:
        """What was counted up to now."""
        ...

    @property
    def end(self) -> Finished | SupplierError | None:
        """How the reply ended; None as long as it goes on."""
        ...

    def feed(self, data: bytes) -> bytes:
        """What the caller is told of these bytes."""
        ...

    def close(self) -> bytes:
        """The supplier says no more; a reply without an end is told as broken."""
        ...

    def broken(self, error: SupplierError) -> bytes:
        """The supplier cannot be heard any more: an error event, unless the end was told."""
        ...

    def event(self, error: SupplierError) -> bytes:
        """An error event instead of the reply's end."""
        ...


class Passing:
    """The supplier's own bytes."""

    def __init__(self, tap: Tap, caller: CallerDialect, request_id: str) -> None:
        self._tap = tap
        self._caller = caller
        self._request_id = request_id
        self._broken: SupplierError | None = None

    @property
    def usage(self) -> Usage | None:
        """As ``Line.usage``."""
        return self._tap.usage

    @property
    def end(self) -> Finished | SupplierError | None:
        """As ``Line.end``."""
        return self._broken or self._tap.end

    def feed(self, data: bytes) -> bytes:
        """As ``Line.feed``."""
        return self._tap.feed(data)

    def close(self) -> bytes:
        """As ``Line.close``."""
        ended = self._tap.end is not None
        rest = self._tap.close()
        end = self._tap.end
        return rest if ended or not isinstance(end, SupplierError) else rest + self.event(end)

    def broken(self, error: SupplierError) -> bytes:
        """As ``Line.broken``."""
        if self.end:
            return b""
        self._broken = error
        return self._tap.close() + self.event(error)

    def event(self, error: SupplierError) -> bytes:
        """As ``Line.event``."""
        return self._caller.error_event(error.kind, error.message, self._request_id)


class Translating:
    """The reply told anew, event by event; ``keep`` has the items of one that is whole."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        caller: CallerDialect,
        request_id: str,
        keep: Callable[[Sequence[Mapping[str, object]]], None],
    ) -> None:
        self._caller = caller
        self._request_id = request_id
        self._reader = reader
        self._writer = writer
        self._keep = keep
        self.usage: Usage | None = None
        self.end: Finished | SupplierError | None = None

    def feed(self, data: bytes) -> bytes:
        """As ``Line.feed``."""
        return self._told(self._reader.feed(data))

    def close(self) -> bytes:
        """As ``Line.close``."""
        return self._told(self._reader.close())

    def broken(self, error: SupplierError) -> bytes:
        """As ``Line.broken``."""
        return b"" if self.end else self._told([error])

    def event(self, error: SupplierError) -> bytes:
        """As ``Line.event``."""
        return self._caller.error_event(error.kind, error.message, self._request_id)

    def _told(self, events: Iterable[Event]) -> bytes:
        told = []
        for event in events:
            if isinstance(event, UsageSeen):
                self.usage = event.usage
            elif isinstance(event, Finished | SupplierError):
                self.end = event
            told.append(self._writer.write(event))
            if isinstance(event, Finished):
                self._keep(self._writer.items)
        return b"".join(told)
