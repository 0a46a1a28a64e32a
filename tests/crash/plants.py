"""Bugs to build into a daemon on purpose: a checker that does not find them checks nothing."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agentd.agent.engine import Approver, Assignment, Engine
from agentd.agent.work import Place, Work
from agentd.chats.fold import Chat
from agentd.chats.records import TurnStarted
from agentd.chats.service import ChatService
from agentd.chats.turns import INTERRUPTED, Turns
from agentd.disk import document, journal, state
from agentd.disk.journal import Committer, Journal
from agentd.disk.ledger import Ledger
from agentd.errors import Unavailable
from agentd.ids import Marks, Sequences
from agentd.proxy.entry import Entry
from agentd.proxy.meters import Meters
from agentd.proxy.sums import Sums


def acknowledged_too_early() -> None:
    """Changes of a chat are answered before they are written."""
    append, commit = Committer.append, Committer._commit

    def early(
        self: Committer, journal: Journal, line: bytes, told: Callable[[], None]
    ) -> "asyncio.Future[None]":
        safe = append(self, journal, line, told)
        if journal.fresh:
            return safe
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def late(self: Committer, *args: object) -> None:
        time.sleep(0.02)
        commit(self, *args)  # type: ignore[arg-type]

    Committer.append, Committer._commit = early, late  # type: ignore[method-assign]


def sent_again() -> None:
    """A prompt that was being carried out when the daemon died is put into the queue again."""
    end = Turns.end_interrupted

    async def sending(self: Turns, *, again: bool = False) -> None:
        chats = ChatService(self._shelf)
        for chat in [chat for chat in chats.summaries() if chat.working]:
            last = [said for said in (await chats.get(chat.id)).recent if said.role == "user"][-1]
            await self.end(chat.id, "interrupted", INTERRUPTED)
            await chats.append(chat.id, last.text, "", "agent")
        await end(self, again=again)

    Turns.end_interrupted = sending  # type: ignore[method-assign]


def left_in_the_queue() -> None:
    """A prompt enters the history, but only a restart would know that it left the queue."""
    apply = Chat.apply

    def keeping(self: Chat, entry: object, size: int) -> None:
        queue = self.queue
        apply(self, entry, size)  # type: ignore[arg-type]
        if isinstance(entry.body, TurnStarted):  # type: ignore[attr-defined]
            self.queue = queue

    Chat.apply = keeping  # type: ignore[assignment, method-assign]


def ids_from_the_start() -> None:
    """After a restart, prompts are numbered from 1 again."""
    state.Sequences = lambda marks: Sequences(  # type: ignore[assignment, misc]
        Marks(marks.chat, 0, marks.message, marks.seq)
    )


def handed_over_twice() -> None:
    """Every third prompt reaches the engine twice."""
    follow = Work.follow
    turns = iter(range(10**9))

    async def twice(
        self: Work, engine: Engine, given: Assignment, approver: Approver, place: Place
    ) -> None:
        if next(turns) % 3 == 2:
            async for _ in engine.run(given, approver):
                pass
        await follow(self, engine, given, approver, place)

    Work.follow = twice  # type: ignore[method-assign]


ALL = {
    plant.__name__: plant
    for plant in (
        acknowledged_too_early,
        sent_again,
        left_in_the_queue,
        ids_from_the_start,
        handed_over_twice,
    )
}


def failed_writes_are_acknowledged() -> None:
    """The error of a write is lost on its way to the caller."""
    journal._failure = lambda path, error: None  # type: ignore[assignment, return-value]


def nothing_is_cut_back() -> None:
    """What a failed write left stays where it is."""
    journal._cut_back = lambda fd, size: True


def failed_documents_are_acknowledged() -> None:
    """The error of a document that was not written is lost on its way to the caller."""
    replace = document.replace

    def careless(*args: Any, **named: Any) -> None:
        with suppress(Unavailable):
            replace(*args, **named)

    document.replace = careless


DISK = {
    plant.__name__: plant
    for plant in (
        failed_writes_are_acknowledged,
        nothing_is_cut_back,
        failed_documents_are_acknowledged,
    )
}
"""Bugs that only a failing disk shows."""


def booked_behind_the_answer() -> None:
    """A model's answer is given away before its line is written."""
    book = Ledger.book
    writing: set[asyncio.Task[None]] = set()

    async def late(self: Ledger, entry: Entry) -> None:
        await asyncio.sleep(0.02)
        await book(self, entry)

    async def behind(self: Ledger, entry: Entry) -> None:
        task = asyncio.create_task(late(self, entry))
        writing.add(task)
        task.add_done_callback(writing.discard)

    Ledger.book = behind  # type: ignore[method-assign]


def booked_twice() -> None:
    """Every tenth call is in the ledger twice."""
    book, calls = Ledger.book, iter(range(10**9))

    async def twice(self: Ledger, entry: Entry) -> None:
        await book(self, entry)
        if next(calls) % 10 == 9:
            await book(self, entry)

    Ledger.book = twice  # type: ignore[method-assign]


def limits_begin_anew() -> None:
    """After a restart, what limits enforce knows nothing of what was spent before."""
    take = Meters.take
    Meters.take = lambda self, sums, zone: take(self, Sums(()), zone)  # type: ignore[method-assign]


GATEWAY = {
    plant.__name__: plant
    for plant in (
        booked_behind_the_answer,
        booked_twice,
        limits_begin_anew,
    )
}
"""Bugs of the model gateway."""


def build_in(name: str) -> None:
    """Build this one in; the empty name is none."""
    if name:
        {**ALL, **DISK, **GATEWAY}[name]()
