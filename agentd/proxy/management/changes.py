"""The journal of changes: who changed what of the gateway, from where, and when."""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.clock import Timestamp

Shown: TypeAlias = dict[str, Any]
"""A resource as it may be told to anybody who manages: its secrets are masked."""


class Doing(Struct, frozen=True):
    """One request to change something."""

    by: str
    """As ``access.gate.Caller.by``."""
    remote: str = ""
    """The address that it came from."""
    dry_run: bool = False
    """Whether it is only to be tried: then nothing is changed, and nothing noted."""
    expects: frozenset[str] | None = None
    """The tags of which the resource must have one (``If-Match``); ``None``: any."""


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change, as everybody who manages may read it."""

    number: int
    """From 1, in the order of the changes."""
    at: Timestamp
    """When."""
    by: str
    """Who did it."""
    remote: str
    """From which address; empty: at a terminal."""
    action: str
    """Such as ``create``, ``change``, ``delete``, ``undo``."""
    resource: str
    """Such as ``channels``: as in the addresses."""
    name: str
    """Of what was changed; the id of an access key or rule."""
    before: Shown | None = None
    """None: there was none."""
    after: Shown | None = None
    """None: there is none any more."""
    undoes: int | None = None
    """The number of the change that this one took back."""


class Kept(Struct, frozen=True, kw_only=True):
    """What a change can be taken back by: the same as it is written down, secrets too."""

    resource: str
    before: msgspec.Raw = msgspec.Raw(b"null")
    """JSON; ``null``: there was none."""
    after: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:
        """Without what it keeps."""
        return f"Kept({self.resource!r})"


class ChangeFilter(Struct, frozen=True):
    """What is wanted; what is empty is not asked for."""

    resource: str = ""
    name: str = ""
    action: str = ""
    by: str = ""

    def fits(self, change: Change) -> bool:
        """Whether the change is wanted."""
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
    """Some changes, the newest first."""

    items: list[Change]
    next: str
    """Where to go on; empty at the end."""
