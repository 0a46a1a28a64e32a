"""What befell the gateway as a service, for whoever looks after it: channels, keys, files."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.clock import Timestamp

Level: TypeAlias = Literal["info", "warning", "error"]


class Note(Struct, frozen=True, omit_defaults=True):
    """One line of the service log. It never holds a secret."""

    n: int
    """Rises from line to line."""
    at: Timestamp
    """When."""
    level: Level
    """How bad it is."""
    kind: str
    """What it is about, such as ``channel_down`` or ``sign_in_failed``."""
    text: str
    """What happened, in English."""
    channel: str = ""
    """Which channel it is about; empty: none."""
    key: str = ""
    """An access key's id."""
    remote: str = ""
    """The address that somebody called from."""


class NoteFilter(Struct, frozen=True):
    """What is wanted; what is empty is not asked for."""

    level: str = ""
    kind: str = ""
    channel: str = ""
    key: str = ""

    def fits(self, note: Note) -> bool:
        """Whether the line is wanted."""
        return (
            (not self.level or note.level == self.level)
            and (not self.kind or note.kind == self.kind)
            and (not self.channel or note.channel == self.channel)
            and (not self.key or note.key == self.key)
        )


class NotePage(Struct, frozen=True):
    """Some lines, the newest first."""

    notes: list[Note]
    next: str
    """Where to go on; empty at the end."""
