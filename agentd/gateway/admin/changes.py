"""Records of the change journal: who changed what, from where and when."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.http.access import stay_admitted

MaskedFields: TypeAlias = dict[str, Any]
"""A resource with masked secrets."""


class ChangeRequest(Struct, frozen=True):
    """A request to change something."""

    by: str
    """The caller, as in ``http.access.Caller.identity``."""
    remote: str = ""
    """The caller's address."""
    dry_run: bool = False
    """True to only validate: nothing is changed or logged."""
    expects: frozenset[str] | None = None
    """Tags of which the resource must have one (``If-Match``); ``None``: any."""
    confirm_caller: Callable[[], Awaitable[None]] = stay_admitted
    """Raises ``Unauthorized`` or ``Forbidden`` unless the caller may still change something."""


class ChangeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change in the journal."""

    number: int
    """Number of the change, from 1."""
    at: Timestamp
    """Time of the change."""
    by: str
    """The author of the change."""
    remote: str
    """The caller's address; empty: at a terminal."""
    action: str
    """Kind of change, such as ``create``, ``change``, ``delete`` or ``undo``."""
    resource: str
    """Kind of resource, such as ``channels``, as in paths."""
    name: str
    """Name of the resource; the id of an access key or rule."""
    before: MaskedFields | None = None
    """The resource before; null: it did not exist."""
    after: MaskedFields | None = None
    """The resource after; null: it was deleted."""
    undoes: int | None = None
    """Number of the change that this one undid."""


class UndoRecord(Struct, frozen=True, kw_only=True):
    """The data needed to undo a change: the resource as stored, including secrets."""

    resource: str
    before: msgspec.Raw = msgspec.Raw(b"null")
    """JSON; ``null``: it did not exist."""
    after: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:
        """Return a representation without the contents."""
        return f"UndoRecord({self.resource!r})"


class ChangeFilter(Struct, frozen=True):
    """Conditions on changes; an empty field matches everything."""

    resource: str = ""
    name: str = ""
    action: str = ""
    by: str = ""

    def matches(self, change: ChangeRecord) -> bool:
        """Return whether a change meets all conditions."""
        return all(
            not wanted or getattr(change, field) == wanted
            for field, wanted in (
                ("resource", self.resource),
                ("name", self.name),
                ("action", self.action),
                ("by", self.by),
            )
        )


class ChangePage(Struct, frozen=True):
    """A page of changes, newest first."""

    items: list[ChangeRecord]
    next: str
    """Cursor of the next page; empty if this is the last page."""
    undoable: frozenset[int] = frozenset()
    """The numbers of those that can be undone."""
