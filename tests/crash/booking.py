"""A process that books requests as fast as it can, and says of each that it is booked.

``python -m tests.crash.booking FOLDER RUN [LIMIT]`` appends to the ledger in ``FOLDER`` until it
is killed; the ids of requests that were booked go to standard output, one ``+id`` a line, and
``-id`` of those that were refused. It prices a day anew now and then, all the while. With
``MAX_SECRET_FILE_SIZE`` no file may grow beyond so many bytes, and it ends after 2,000 requests.
"""

import asyncio
import os
import random
import resource
import signal
import sys
from decimal import Decimal

from agentd.core.clock import FrozenClock
from agentd.core.errors import Unavailable
from agentd.gateway.ledger import daily_reports, open_files, writer
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.record import RequestRecord
from agentd.llm.price import Prices, Usage
from agentd.storage.layout import Layout

DAYS = ("2026-01-01", "2026-01-02")
KEYS = ("a" * 12, "b" * 12)
WORKERS = 20


def build_record(run: str, number: int) -> RequestRecord:
    """Build the number-th record of a run."""
    return RequestRecord(
        id=f"{run}-{number}",
        at=f"{DAYS[number % 7 == 0]}T00:{number % 60:02d}:00.000Z",
        key=KEYS[number % 2],
        endpoint="/v1/messages",
        model="large",
        channel="one",
        status=200,
        outcome="ok",
        usage=Usage(input=number),
        cost=Decimal(number).scaleb(-3),
    )


async def book(ledger: Ledger, run: str, worker: int, last: int) -> None:
    """Book every request of one worker."""
    for number in range(worker, last, WORKERS):
        entry = build_record(run, number)
        try:
            await ledger.add_record(entry)
        except Unavailable:
            os.write(1, f"-{entry.id}\n".encode())
        else:
            os.write(1, f"+{entry.id}\n".encode())


async def reprice(ledger: Ledger) -> None:
    """Price the first day anew, again and again."""
    for turn in range(10**9):
        prices = Prices(input=Decimal(1000 + turn), output=Decimal(0))
        await ledger.reprice(DAYS[0], DAYS[0], lambda _, now=prices: (now, "v"))  # type: ignore[misc]
        await asyncio.sleep(0.01)


async def main(folder: str, run: str, limit: int) -> None:
    """Live until killed, or with a limit until all is said."""
    daily_reports.MAX_UNSAVED_LINES = 200
    ledger = Ledger(Layout(folder, folder), FrozenClock(f"{DAYS[1]}T12:00:00.000Z"))
    await ledger.open()
    last = 2000 if limit else 10**9
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    else:
        repricing = asyncio.create_task(reprice(ledger))
        repricing.add_done_callback(lambda task: task.exception() and os.abort())
    await asyncio.gather(*(book(ledger, run, worker, last) for worker in range(WORKERS)))
    await ledger.close()


def build_in(plant: str) -> None:
    """Build a bug in, for the checker to find."""
    if plant == "acknowledged_too_early":
        tell = writer.LedgerWriter.append

        def append_early(
            self: writer.LedgerWriter, day: str, line: bytes, *, safe: bool = False
        ) -> asyncio.Future[None]:
            if random.random() < 0.5:  # noqa: S311
                tell(self, day, line, safe=safe)
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                done.set_result(None)
                return done
            return tell(self, day, line, safe=safe)

        writer.LedgerWriter.append = append_early  # type: ignore[method-assign]
    elif plant == "written_twice":
        write = open_files.OpenFiles.append

        def write_twice(self: open_files.OpenFiles, day: str, data: bytes) -> open_files.OpenFile:
            return write(self, day, data * (1 + (random.random() < 0.1)))  # noqa: S311

        open_files.OpenFiles.append = write_twice  # type: ignore[method-assign]
    elif plant == "left_uncut":
        open_files.OpenFiles._truncate = (  # type: ignore[method-assign]
            lambda self, day: self._untruncated.clear()
        )


if __name__ == "__main__":
    build_in(os.environ.get("PLANT", ""))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else 0))
