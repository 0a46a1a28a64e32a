"""A process that books requests as fast as it can, and says of each that it is booked.

``python -m tests.crash.booking FOLDER LIFE [LIMIT]`` appends to the ledger in ``FOLDER`` until it
is killed; the ids of requests that were booked go to standard output, one ``+id`` a line, and
``-id`` of those that were refused. It prices a day anew now and then, all the while. With
``LIMIT`` no file may grow beyond so many bytes, and it ends after 2,000 requests.
"""

import asyncio
import os
import random
import resource
import signal
import sys
from decimal import Decimal

from agentd.clock import FrozenClock
from agentd.disk import ledger_days, ledger_open, ledger_writer
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.errors import Unavailable
from agentd.proxy.entry import Entry
from agentd.proxy.price import Prices, Usage

DAYS = ("2026-01-01", "2026-01-02")
KEYS = ("a" * 12, "b" * 12)
WORKERS = 20


def request(life: str, number: int) -> Entry:
    """The number-th request of a life."""
    return Entry(
        id=f"{life}-{number}",
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


async def book(ledger: Ledger, life: str, worker: int, last: int) -> None:
    """Book every request of one worker."""
    for number in range(worker, last, WORKERS):
        entry = request(life, number)
        try:
            await ledger.book(entry)
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


async def main(folder: str, life: str, limit: int) -> None:
    """Live until killed, or with a limit until all is said."""
    ledger_days.KEEP_LINES = 200
    ledger = Ledger(Layout(folder, folder), FrozenClock(f"{DAYS[1]}T12:00:00.000Z"))
    await ledger.open()
    last = 2000 if limit else 10**9
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    else:
        repricing = asyncio.create_task(reprice(ledger))
        repricing.add_done_callback(lambda task: task.exception() and os.abort())
    await asyncio.gather(*(book(ledger, life, worker, last) for worker in range(WORKERS)))
    await ledger.close()


def build_in(plant: str) -> None:
    """A bug, for the checker to find."""
    if plant == "acknowledged_too_early":
        tell = ledger_writer.Writer.append

        def early(
            self: ledger_writer.Writer, day: str, line: bytes, *, safe: bool = False
        ) -> asyncio.Future[None]:
            if random.random() < 0.5:  # noqa: S311
                tell(self, day, line, safe=safe)
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                done.set_result(None)
                return done
            return tell(self, day, line, safe=safe)

        ledger_writer.Writer.append = early  # type: ignore[method-assign]
    elif plant == "written_twice":
        write = ledger_open.OpenFiles.append

        def twice(self: ledger_open.OpenFiles, day: str, data: bytes) -> ledger_open.OpenFile:
            return write(self, day, data * (1 + (random.random() < 0.1)))  # noqa: S311

        ledger_open.OpenFiles.append = twice  # type: ignore[method-assign]
    elif plant == "left_uncut":
        ledger_open.OpenFiles._cut = lambda self, day: self._uncut.clear()  # type: ignore[method-assign]


if __name__ == "__main__":
    build_in(os.environ.get("PLANT", ""))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else 0))
