"""Cursors: positions in the order of all events, from which a client can resume.

``17~3f9a12cd`` is the position after record 17, as written by the run ``3f9a12cd`` of the daemon;
``17.0~3f9a12cd`` is after the first of several events of that record. Without a run, any run is
meant.
"""

import re
from typing import NamedTuple

WHOLE_RECORD = 1 << 30
"""The part of a record's last event: a client that has it has the whole record."""

CURSOR_PATTERN = r"([0-9]{1,16})(\.[0-9]{1,4})?(~[0-9a-f]{8})?"
"""The text form of a cursor."""

_CURSOR = re.compile(CURSOR_PATTERN)


class EventCursor(NamedTuple):
    """A position in the order of all events, and the run of the daemon that issued it."""

    seq: int
    part: int = WHOLE_RECORD
    run_id: str = ""

    def __str__(self) -> str:
        """Return ``17`` after the whole record 17, ``17.0`` after its first event; with the run."""
        position = f"{self.seq}" if self.part == WHOLE_RECORD else f"{self.seq}.{self.part}"
        return f"{position}~{self.run_id}" if self.run_id else position

    def precedes(self, other: "EventCursor") -> bool:
        """Return whether it is before another one, whatever runs issued them."""
        return self[:2] < other[:2]


def parse_cursor(text: str) -> EventCursor:
    """Parse the text form of a cursor; raises ``ValueError``."""
    found = _CURSOR.fullmatch(text)
    if not found:
        raise ValueError("not the cursor of an event")
    seq, part, run = found.groups("")
    return EventCursor(int(seq), int(part[1:]) if part else WHOLE_RECORD, run[1:])
