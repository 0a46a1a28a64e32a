"""Operational events of the gateway: channels, keys, files."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp

Level: TypeAlias = Literal["info", "warning", "error"]


class ServiceLogEntry(Struct, frozen=True, omit_defaults=True):
    """A line of the service log. It never holds a secret."""

    n: int
    """Number of the entry, ascending."""
    at: Timestamp
    """Time of the event."""
    level: Level
    """The severity."""
    kind: str
    """The topic, such as ``channel_cooldown`` or ``sign_in_failed``."""
    text: str
    """The message, in English."""
    channel: str = ""
    """The channel concerned; empty: none."""
    key: str = ""
    """An access key's id."""
    remote: str = ""
    """The caller's address."""


class ServiceLogFilter(Struct, frozen=True):
    """The filter; empty fields match everything."""

    level: str = ""
    kind: str = ""
    channel: str = ""
    key: str = ""

    def matches(self, note: ServiceLogEntry) -> bool:
        """Return whether the line meets all conditions."""
        return (
            (not self.level or note.level == self.level)
            and (not self.kind or note.kind == self.kind)
            and (not self.channel or note.channel == self.channel)
            and (not self.key or note.key == self.key)
        )


class ServiceLogPage(Struct, frozen=True):
    """A page of entries, the newest first."""

    entries: list[ServiceLogEntry]
    next: str
    """The cursor of the next page; empty at the end."""
