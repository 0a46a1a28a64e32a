"""A mark: a place in the order of all events, which a listener comes back with.

``17~3f9a12cd`` is the record 17 as the life ``3f9a12cd`` of the daemon wrote it, ``17.0~3f9a12cd``
the first of several events of it. Without a life it is that of whoever wrote it.
"""

import re
from typing import NamedTuple

WHOLE = 1 << 30
"""The part of a record's last event: whoever has it has the whole record."""

PATTERN = r"([0-9]{1,16})(\.[0-9]{1,4})?(~[0-9a-f]{8})?"
"""A mark as it is written."""

_MARK = re.compile(PATTERN)


class Mark(NamedTuple):
    """A place in the order of all events, and the life of the daemon that told it."""

    seq: int
    part: int = WHOLE
    life: str = ""

    def __str__(self) -> str:
        """``17`` after the whole record 17, ``17.0`` after the first of its events; the life."""
        place = f"{self.seq}" if self.part == WHOLE else f"{self.seq}.{self.part}"
        return f"{place}~{self.life}" if self.life else place

    def precedes(self, other: "Mark") -> bool:
        """Whether it comes before another one, whoever told them."""
        return self[:2] < other[:2]


def read_mark(text: str) -> Mark:
    """A mark as it is written; raises ``ValueError``."""
    found = _MARK.fullmatch(text)
    if not found:
        raise ValueError("no mark of an event")
    seq, part, life = found.groups("")
    return Mark(int(seq), int(part[1:]) if part else WHOLE, life[1:])
