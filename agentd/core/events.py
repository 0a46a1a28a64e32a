"""The event bus and the base classes of all events.

An event is a statement about the disk: it is published only after its write is durable, in
``seq`` order. Several events share one ``seq`` when one record changed several things.
Each subject defines its own events. Source: the remote-control specification, section 6.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

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


E = TypeVar("E", bound=Event)
Listener: TypeAlias = Callable[[Event], None]


class EventBus:
    """Delivers each event to its listeners: synchronously, in order, on the loop's thread."""

    def __init__(self) -> None:
        self._subscriptions: list[tuple[Callable[[Any], None], tuple[type[Event], ...]]] = []
        self._by_kind: dict[type[Event], tuple[Listener, ...]] = {}
        """The listeners of an event, by its class; filled as events are published."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event until the returned function is called."""
        return self.subscribe_to((Event,), listener)

    def subscribe_to(
        self, kinds: tuple[type[E], ...], listener: Callable[[E], None]
    ) -> Callable[[], None]:
        """Call ``listener`` with each event of these classes, and of those derived from them.

        It ends when the returned function is called.
        """
        subscription = (listener, kinds)
        self._subscriptions.append(subscription)
        self._by_kind.clear()

        def unsubscribe() -> None:
            self._subscriptions.remove(subscription)
            self._by_kind.clear()

        return unsubscribe

    def publish(self, event: Event) -> None:
        """Deliver an event to its listeners; a listener's exception is logged, not raised."""
        kind = type(event)
        listeners = self._by_kind.get(kind)
        if listeners is None:
            found = (one for one, kinds in self._subscriptions if issubclass(kind, kinds))
            listeners = self._by_kind[kind] = tuple(found)
        for listener in listeners:
            try:
                listener(event)
            except Exception:  # a task boundary: the other listeners must hear of it, too
                log.exception("a listener failed on %s", event.name)
