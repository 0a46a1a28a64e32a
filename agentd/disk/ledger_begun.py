"""Calls under way: each is marked on disk before a supplier is asked, so that no crash forgives it.

A mark is the entry that counts unless another one of the same id is booked. Marks stand in files of
their own, ``begun-<n>.jsonl``, beside the days'. Where lines are to be safe at once, what is booked
is written here, too, so that one file is synced and not two. A file goes once every call in it is
booked. What a start finds and the days lack was cut off, and is booked then: exactly once, however
often that is interrupted, because what is booked already is known by its id.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from os.path import exists, join

from msgspec import structs

from agentd.clock import Timestamp
from agentd.disk.document import sync_folder, told
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import days_in, entry_in, lines_of
from agentd.disk.ledger_open import OpenFile, OpenFiles
from agentd.disk.lines import Broken, seal
from agentd.proxy.entry import CRASH, Entry

log = logging.getLogger(__name__)

MARKS_PER_FILE = 10_000
"""Some 6 MB, which a start after a crash reads in a fraction of a second."""

_FILE = re.compile(r"begun-([0-9]{1,15})\.jsonl")
_LINE_BEGIN = b'{"id":"'
"""How each line of the ledger begins."""


class Marks:
    """Which calls are marked and not booked yet, and in which file each mark stands."""

    def __init__(self, first: int) -> None:
        self._number = first
        """Of the file in use."""
        self._written = 0
        """Marks in it."""
        self._files = {first}
        """The numbers of the files that are there."""
        self._places: dict[str, int] = {}
        """The file's number of each call's last mark."""
        self._open: Counter[int] = Counter()
        """Calls under way by the file's number; never 0."""

    def begin(self, id_: str) -> str:
        """Return the name of the file that the call's mark is to be appended to."""
        if self._written >= MARKS_PER_FILE:
            self._number, self._written = self._number + 1, 0
            self._files.add(self._number)
        self._written += 1
        self.end(id_)
        self._places[id_] = self._number
        self._open[self._number] += 1
        return name_of(self._number)

    def place(self, id_: str) -> str:
        """Return the name of the file in use if the call is marked, else nothing."""
        return name_of(self._number) if id_ in self._places else ""

    def end(self, id_: str) -> None:
        """Forget a call: it is booked, or could not be marked."""
        number = self._places.pop(id_, None)
        if number is not None:
            self._open[number] -= 1
            if not self._open[number]:
                del self._open[number]

    def finished(self, *, closing: bool = False) -> list[str]:
        """Return the names of the files that nobody needs any more; each once.

        The one in use is among them only when no more calls are to come.
        """
        if len(self._files) == 1 and not closing:  # nearly always
            return []
        over = {one for one in self._files - self._open.keys() if closing or one != self._number}
        self._files -= over
        return [name_of(number) for number in over]


def name_of(number: int) -> str:
    """The name of a file of marks, without its ending."""
    return f"begun-{number}"


def holds_marks(name: str) -> bool:
    """Whether a file of the ledger, by its name without its ending, is one of marks."""
    return name.startswith("begun-")


def next_number(layout: Layout) -> int:
    """A number above those of all files of marks that are there. Blocking."""
    return max((number for number, _ in _files(layout)), default=0) + 1


def book_unfinished(layout: Layout, now: Timestamp) -> int:
    """Book what the days lack of all that is marked; return how many calls were cut off. Blocking.

    To be called before anything else is booked, on day files that end with a whole line. Raises
    ``Unavailable`` where that cannot be done: nothing is lost then, and the next start does it.
    """
    with told(layout.ledger, "write"):
        files = sorted(_files(layout))
        lacking = {entry.id: entry for _, path in files for entry in _marks_in(path)}
        if lacking:
            for id_ in _booked(layout, min(entry.at for entry in lacking.values())[:10]):
                lacking.pop(id_, None)
            _append(layout, _placed(layout, lacking.values(), now))
        for _, path in files:
            os.unlink(path)
    cut_off = sum(_is_cut_off(entry) for entry in lacking.values())
    if cut_off:
        log.warning("%d calls that a crash cut off are booked at what was reserved", cut_off)
    return cut_off


def _files(layout: Layout) -> Iterator[tuple[int, str]]:
    with suppress(FileNotFoundError):
        for name in os.listdir(layout.ledger):
            if match := _FILE.fullmatch(name):
                yield int(match[1]), join(layout.ledger, name)


def _marks_in(path: str) -> Iterator[Entry]:
    """The lines of a file of marks; one that a crash cut short was never acknowledged."""
    for line in lines_of(path):
        try:
            yield entry_in(line)
        except Broken as error:
            log.warning("%s: a mark is passed over: %s", path, error)


def _booked(layout: Layout, since: str) -> Iterator[str]:
    """The ids of all entries from a day on, and of the day before: the clock may be put back."""
    first = (date.fromisoformat(since) - timedelta(days=1)).isoformat()
    for day in days_in(layout.ledger):
        if day >= first:
            for line in lines_of(layout.ledger_day(day)):
                if line.startswith(_LINE_BEGIN):
                    begin = len(_LINE_BEGIN)
                    yield line[begin : line.find(b'"', begin)].decode("ascii", "replace")


def _placed(layout: Layout, entries: Iterable[Entry], now: Timestamp) -> Iterator[Entry]:
    """The entries as they are booked, each on its day while the requests of that day are kept.

    Where only the sums of the day are, what ended is in them; what did not is booked now.
    """
    for entry in entries:
        day = entry.at[:10]
        if exists(layout.ledger_day(day)) or not exists(layout.ledger_report(day)):
            yield entry
        elif _is_cut_off(entry):
            yield structs.replace(entry, at=now)


def _is_cut_off(entry: Entry) -> bool:
    return entry.error == CRASH


def _append(layout: Layout, entries: Iterable[Entry]) -> None:
    days: dict[str, list[bytes]] = {}
    for entry in entries:
        days.setdefault(entry.at[:10], []).append(seal(entry))
    files = OpenFiles(layout, _close)
    try:
        for day, lines in days.items():
            os.fdatasync(files.append(day, b"".join(lines)).fd)
        sync_folder(layout.ledger)
    finally:
        files.forget_all()


def _close(file: OpenFile) -> None:
    os.close(file.fd)
