"""The time by which things are destroyed for their age: it does not follow a jump of the clock.

A machine whose battery is empty, or that comes back from a snapshot, may have a wrong time until
it is corrected. What is too old only by such a time must not be lost. So a jump of more than a day
counts only once the daemon has run for a day since, over as many starts as that takes; a jump that
is taken back before counts never. The machine being off looks the same, and only delays.
"""

import asyncio
import logging
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import read_document, replace_document

log = logging.getLogger(__name__)

BELIEVED = timedelta(days=1)
"""A jump of the clock that is followed at once."""
PROBATION = timedelta(days=1)
"""The time that the daemon runs before it follows a larger one."""
_LIMIT = 4096


class ClockJson(Struct, frozen=True, omit_defaults=True):
    """The content of ``clock.json``."""

    settled: Timestamp
    """The time that counts, when this was written."""
    jumped: Timestamp = ""
    """The time to which the clock has jumped since, advanced by ``ran``; empty: it has not."""
    ran: float = 0.0
    """Seconds that the daemon has run since it jumped."""


class SettledClock:
    """Keeps the time that counts. Call ``load``, which blocks, before anything else."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._seen = clock.monotonic()
        self._settled = parse_iso(clock.now())
        self._jumped: datetime | None = None
        self._ran = timedelta()
        self._saved: ClockJson | None = None
        self._problem = ""

    def load(self) -> None:
        """Continue from what is stored; without it, the time of now is believed."""
        try:
            found = read_document(self._path, _LIMIT)
            if found:
                content = msgspec.json.decode(decode_checksummed(found.data), type=ClockJson)
                self._settled = parse_iso(content.settled)
                self._jumped = parse_iso(content.jumped) if content.jumped else None
                self._ran = timedelta(seconds=content.ran)
        except (AgentdError, ChecksumMismatch, msgspec.DecodeError, ValueError) as error:
            log.warning("%s is not used, the clock is believed: %s", self._path, error)

    def now(self) -> Timestamp:
        """Return the time that counts; it is never after that of the clock."""
        wall = self._advance()
        return format_iso(min(wall, self._settled))

    async def save(self) -> None:
        """Store it, if it has changed; a failure is only logged."""
        self._advance()
        jumped = format_iso(self._jumped) if self._jumped else ""
        content = ClockJson(format_iso(self._settled), jumped, self._ran.total_seconds())
        if content == self._saved:
            return
        try:
            await asyncio.to_thread(self._write, content)
        except AgentdError as error:
            if error.message != self._problem:  # it is retried, and logged once
                log.warning("the time is not stored: %s", error.message)
            self._problem = error.message
        else:
            self._saved, self._problem = content, ""

    def _write(self, content: ClockJson) -> None:
        replace_document(self._path, encode_checksummed(content))

    def _advance(self) -> datetime:
        """Count the time since the last look, and return that of the clock."""
        wall, seen = parse_iso(self._clock.now()), self._clock.monotonic()
        ran = timedelta(seconds=seen - self._seen)
        self._seen = seen
        self._settled += ran
        if self._jumped:
            self._jumped += ran
            self._ran += ran
        if abs(wall - self._settled) <= BELIEVED:
            self._settled, self._jumped = wall, None
        elif self._jumped is None or wall < self._jumped - BELIEVED:
            self._jumped, self._ran = wall, timedelta()
            log.info("the clock went from %s to %s", self._settled, wall)
        elif self._ran >= PROBATION:
            self._settled, self._jumped = self._jumped, None
        if self._jumped is None:
            self._ran = timedelta()
        return wall
