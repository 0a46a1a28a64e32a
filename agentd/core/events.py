"""The event bus and the base classes of all events.

An event is a statement about the disk: it is published only after its write is durable, in
``seq`` order. Several events share one ``seq`` when one record changed several things.
Each subject defines its own events. Source: the remote-control specification, section 6.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

from msgspec import Struct

log = logging.getLogger(__name__)


class JournalState(Protocol):
    """The end of one chat's journal."""

    @property
    def id(self) -> int:
        """The chat's id."""
        ...

    @property
    def seq(self) -> int:
        """The ``seq`` of the last record."""
        ...

    @property
    def size(self) -> int:
        """Size of the journal in bytes, up to the end of that record."""
        ...


class Event(Struct, frozen=True):
    """Base class of events; only a ``StoredEvent`` can be replayed after a restart."""

    name: ClassVar[str]
    """The event's name on the wire."""
    for_administrators: ClassVar[bool] = False
    """True if only administrators receive it."""

    @property
    def about_chat(self) -> int | None:
        """The chat that the event concerns; ``None``: it goes to every listener."""
        return None

    @property
    def for_user(self) -> str:
        """The user whose logins alone receive it; empty: it goes to every listener."""
        return ""

    @property
    def weight(self) -> int:
        """Approximate memory that the event keeps alive, in bytes."""
        return 400

    @abstractmethod
    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments on the wire; ``run`` names the daemon run that published it."""


class StoredEvent(Event, frozen=True):
    """An event that can be replayed from the journals, with the ``seq`` of its record."""

    seq: int


class LastEventOfRecord(StoredEvent, frozen=True):
    """The last event of a record: a client that received it has all events of its ``seq``."""

    @property
    @abstractmethod
    def journal(self) -> JournalState:
        """The end of the journal, including this record."""


Listener: TypeAlias = Callable[[Event], None]


class EventBus:
    """Delivers each event to all listeners: synchronously, in order, on the loop's thread."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, event: Event) -> None:
        """Deliver an event to all listeners; a listener's exception is logged, not raised."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # a task boundary: the other listeners must hear of it, too
                log.exception("a listener failed on %s", event.name)
