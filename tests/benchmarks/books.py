"""State folders of a model gateway with a long history: its ledger, and what the ledger tells of.

Ten million requests would take the daemon hours to book. So a week of days is made line by line,
sealed and added up by the daemon's own code; the other days are the same requests with their own
dates and checksums, and their reports bear the same sums. A gigabyte takes some ten seconds.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import structs

from agentd.gateway.ledger.day_file import ReadPosition
from agentd.gateway.ledger.day_report import DayFold, DayReportHead, write_report
from agentd.gateway.ledger.record import Outcome, RequestRecord, Timings
from agentd.gateway.ledger.sliced_table import read_header
from agentd.llm.price import Usage
from agentd.storage.checksummed_json import CHECKSUM_SIZE, encode_checksummed
from tests.benchmarks.large_gateway import LargeGateway

DAYS = 90
WEEK = 7
HOURS = 24
AT_ONCE = 3
"""A key works in one of so many parts of a day."""
PIECE = 1000
"""Lines that are written at once."""
_DAY = "2000-01-01"
"""Stands in a line for the day, which is there twice: in the id, and in the moment."""


class _Line(NamedTuple):
    """A line without its seal: what stands before, between and behind the day."""

    before: bytes
    between: bytes
    behind: bytes

    def on(self, day: bytes) -> bytes:
        """Return the record's line with its checksum."""
        body = day.join(self)
        return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


class Books:
    """The ledger of a large gateway: ``lines`` requests over 90 closed days, and half of today."""

    def __init__(self, gateway: LargeGateway, lines: int) -> None:
        self.last = datetime.now(UTC).date() - timedelta(days=1)
        """The last closed day."""
        self.first = self.last - timedelta(days=DAYS - 1)
        self.layout = gateway.layout
        self._gateway = gateway
        self._a_day = lines // DAYS
        self._random = Random(lines)  # noqa: S311 - nothing is to be kept secret

    def fill(self) -> None:
        """Write the history."""
        for number in range(WEEK):
            days = [day for day in self._days() if day.toordinal() % WEEK == number]
            entries = list(self._requests())
            lines = [_split_line(one) for one in entries]
            self._report(days[0], entries, self._write(days[0], lines))
            for day in days[1:]:
                self._copy_report(days[0], day, self._write(day, lines))
        half, today = len(lines) // 2, self.last + timedelta(days=1)
        self._report(today, entries[:half], self._write(today, lines[:half]))

    def _days(self) -> Iterator[date]:
        for number in range(DAYS):
            yield self.first + timedelta(days=number)

    def _write(self, day: date, lines: list[_Line]) -> ReadPosition:
        standing, dated = ReadPosition(lines=len(lines)), day.isoformat().encode()
        with open(self.layout.get_ledger_day_path(day.isoformat()), "wb") as file:
            for begin in range(0, len(lines), PIECE):
                piece = b"".join(line.on(dated) for line in lines[begin : begin + PIECE])
                standing.size += len(piece)
                standing.sum = crc32(piece, standing.sum)
                file.write(piece)
        os.chmod(file.name, 0o600)
        return standing

    def _report(self, day: date, entries: Iterable[RequestRecord], standing: ReadPosition) -> None:
        made = DayFold(day.isoformat())
        for entry in entries:
            made.totals.add_record(entry)
        made.position, made.mtime_ns = standing, self._changed(day)
        write_report(self.layout, made)

    def _copy_report(self, like: date, day: date, standing: ReadPosition) -> None:
        path = self.layout.get_ledger_report_path(like.isoformat())
        head, size = read_header(path, msgspec.json.Decoder(DayReportHead))
        changed = self._changed(day)
        own = structs.replace(head, day=day.isoformat(), position=standing, mtime_ns=changed)
        with open(path, "rb") as one:
            one.seek(size)
            with open(self.layout.get_ledger_report_path(day.isoformat()), "wb") as other:
                other.write(encode_checksummed(own) + one.read())

    def _changed(self, day: date) -> int:
        return os.stat(self.layout.get_ledger_day_path(day.isoformat())).st_mtime_ns

    def _requests(self) -> Iterator[RequestRecord]:
        """Return a day's requests in order of time."""
        keys = self._gateway.keys
        for number in range(self._a_day):
            hour = number * HOURS // self._a_day
            at_work = keys[hour * AT_ONCE // HOURS :: AT_ONCE] or keys
            key = self._random.randrange(len(at_work))
            yield self._request(number, at_work[key].id, at_work[key].name, key)

    def _request(self, number: int, key: str, name: str, way: int) -> RequestRecord:
        """Make a request of a key, which calls one of two models, each through one channel."""
        random, gateway = self._random, self._gateway
        second = number * 86400 // self._a_day
        model = (way + random.randrange(2)) % len(gateway.models)
        outcome: Outcome = "ok" if random.random() < 0.98 else "failed"
        return RequestRecord(
            id=f"{_DAY}-{number:08x}",
            at=f"{_DAY}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z",
            key=key,
            key_name=name,
            endpoint="/v1/chat/completions",
            model=gateway.models[model],
            channel=gateway.channels[model % len(gateway.channels)],
            supplier_model="large",
            tries=1,
            status=200 if outcome == "ok" else 429,
            outcome=outcome,
            error="" if outcome == "ok" else "rate_limit",
            usage=Usage(input=random.randrange(4000), cache_read=300, output=random.randrange(900)),
            cost=Decimal(random.randrange(10**8)).scaleb(-9),
            priced="0123456789ab",
            timings=Timings(1.5, 200.25, *self._waits()),
            received=4000,
            sent=1200,
            hidden={"jwt": 1} if random.random() < 0.0005 else {},
        )

    def _waits(self) -> tuple[float, float]:
        """Until the first piece, and until the end."""
        first = round(self._random.lognormvariate(6, 0.8), 2)
        return first, first + round(self._random.lognormvariate(8, 0.8), 2)


def _split_line(entry: RequestRecord) -> _Line:
    return _Line(*encode_checksummed(entry)[: -CHECKSUM_SIZE - 1].split(_DAY.encode()))
