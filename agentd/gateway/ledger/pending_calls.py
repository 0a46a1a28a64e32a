"""Pending calls: each is written to disk before its supplier is called, so no crash loses its cost.

A pending call becomes a record unless a record with its id exists. Pending calls have files of
their own, ``begun-<n>.jsonl``, beside the days'. With immediate syncs, records are written here as
well, so that one file is synced instead of two. A file is deleted once every call in it is
recorded. Calls that a start finds here but not in the day files were interrupted; it records them,
exactly once however often that is interrupted, because existing records are known by their ids.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from os.path import exists, join

import msgspec
from msgspec import structs

from agentd.core.clock import Timestamp
from agentd.gateway.ledger.day_file import check_amounts, decode_record, iter_lines, list_days
from agentd.gateway.ledger.open_files import OpenFile, OpenFiles
from agentd.gateway.ledger.record import CRASH, PendingCall, RequestRecord
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import sync_folder, translate_os_errors
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

CALLS_PER_FILE = 10_000
"""About 4 MB, which a start after a crash reads in a fraction of a second."""

_FILE = re.compile(r"begun-([0-9]{1,15})\.jsonl")
_RECORD_PREFIX = b'{"id":"'
"""Prefix of every record's line."""
_PENDING_PREFIX = b'{"begun":"'
"""Prefix of a pending call's line; these files contain records too."""

_decoder = msgspec.json.Decoder(PendingCall)


class PendingCalls:
    """Calls that are written down and not recorded yet, and the file of each."""

    def __init__(self, first: int) -> None:
        self._number = first
        """Number of the file in use."""
        self._calls_in_file = 0
        """Pending calls in it."""
        self._files = {first}
        """Numbers of all files."""
        self._file_of: dict[str, int] = {}
        """Number of the file of each call, by its id."""
        self._open_calls: Counter[int] = Counter()
        """Calls under way by file number; never 0."""

    def begin(self, id_: str) -> str:
        """Return the name of the file to append the call to."""
        if self._calls_in_file >= CALLS_PER_FILE:
            self._number, self._calls_in_file = self._number + 1, 0
            self._files.add(self._number)
        self._calls_in_file += 1
        self.end(id_)
        self._file_of[id_] = self._number
        self._open_calls[self._number] += 1
        return format_name(self._number)

    def get_current_file(self, id_: str) -> str:
        """Return the name of the file in use if the call is pending, else an empty string."""
        return format_name(self._number) if id_ in self._file_of else ""

    def end(self, id_: str) -> None:
        """Forget a call: it is recorded, or could not be written down."""
        number = self._file_of.pop(id_, None)
        if number is not None:
            self._open_calls[number] -= 1
            if not self._open_calls[number]:
                del self._open_calls[number]

    def pop_finished(self, *, closing: bool = False) -> list[str]:
        """Return the names of files that are no longer needed; each once.

        The file in use is among them only when ``closing``.
        """
        if len(self._files) == 1 and not closing:  # nearly always
            return []
        over = {
            one for one in self._files - self._open_calls.keys() if closing or one != self._number
        }
        self._files -= over
        return [format_name(number) for number in over]


def format_name(number: int) -> str:
    """Return the name of a file of pending calls, without its extension."""
    return f"begun-{number}"


def is_pending_file(name: str) -> bool:
    """Return whether a file name, without its extension, is that of pending calls."""
    return name.startswith("begun-")


def find_next_number(layout: Layout) -> int:
    """Return a number above those of all files of pending calls. Blocking."""
    return max((number for number, _ in _list_files(layout)), default=0) + 1


def record_interrupted_calls(layout: Layout, now: Timestamp) -> int:
    """Record what the day files lack; return the number of interrupted calls. Blocking.

    Must be called before anything else is recorded, on day files that end with a complete line.
    Raises ``Unavailable`` if that fails: nothing is lost then, and the next start does it.
    """
    with translate_os_errors(layout.ledger, "write"):
        files = sorted(_list_files(layout))
        lacking = {entry.id: entry for _, path in files for entry in _read_file(path)}
        if lacking:
            for id_ in _iter_recorded_ids(layout, min(entry.at for entry in lacking.values())[:10]):
                lacking.pop(id_, None)
            _append_records(layout, _assign_days(layout, lacking.values(), now))
        for _, path in files:
            os.unlink(path)
    cut_off = sum(_is_interrupted(entry) for entry in lacking.values())
    if cut_off:
        log.warning("%d calls interrupted by a crash were recorded at their reserved cost", cut_off)
    return cut_off


def _list_files(layout: Layout) -> Iterator[tuple[int, str]]:
    with suppress(FileNotFoundError):
        for name in os.listdir(layout.ledger):
            if match := _FILE.fullmatch(name):
                yield int(match[1]), join(layout.ledger, name)


def _read_file(path: str) -> Iterator[RequestRecord]:
    """Read a file of pending calls; a line that a crash cut short was never acknowledged."""
    for line in iter_lines(path):
        try:
            yield _decode_pending(line) if line.startswith(_PENDING_PREFIX) else decode_record(line)
        except ChecksumMismatch as error:
            log.warning("%s: skipped a corrupt pending call: %s", path, error)


def _decode_pending(line: bytes) -> RequestRecord:
    try:
        entry = _decoder.decode(decode_checksummed(line)).to_record()
    except msgspec.DecodeError as error:
        raise ChecksumMismatch(
            f"checksum is valid but the record type is unknown: {error}"
        ) from error
    check_amounts(entry)
    return entry


def _iter_recorded_ids(layout: Layout, since: str) -> Iterator[str]:
    """Iterate over the ids of all records since the day before: the clock may be set back."""
    first = (date.fromisoformat(since) - timedelta(days=1)).isoformat()
    for day in list_days(layout.ledger):
        if day >= first:
            for line in iter_lines(layout.get_ledger_day_path(day)):
                if line.startswith(_RECORD_PREFIX):
                    begin = len(_RECORD_PREFIX)
                    yield line[begin : line.find(b'"', begin)].decode("ascii", "replace")


def _assign_days(
    layout: Layout, entries: Iterable[RequestRecord], now: Timestamp
) -> Iterator[RequestRecord]:
    """Put each record on its day, if the requests of that day are still there.

    If only the day's report is left, finished requests are in it; interrupted ones move to now.
    """
    for entry in entries:
        day = entry.at[:10]
        if exists(layout.get_ledger_day_path(day)) or not exists(
            layout.get_ledger_report_path(day)
        ):
            yield entry
        elif _is_interrupted(entry):
            yield structs.replace(entry, at=now)


def _is_interrupted(entry: RequestRecord) -> bool:
    return entry.error == CRASH


def _append_records(layout: Layout, entries: Iterable[RequestRecord]) -> None:
    days: dict[str, list[bytes]] = {}
    for entry in entries:
        days.setdefault(entry.at[:10], []).append(encode_checksummed(entry))
    files = OpenFiles(layout, _close_file)
    try:
        for day, lines in days.items():
            os.fdatasync(files.append(day, b"".join(lines)).fd)
        sync_folder(layout.ledger)
    finally:
        files.release_all()


def _close_file(file: OpenFile) -> None:
    os.close(file.fd)
