"""Bugs to build into a daemon on purpose: a checker that does not find them checks nothing."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agentd.agent.engine import Approver, Engine, TurnRequest
from agentd.agent.turn_runner import OccupySlot, TurnRunner
from agentd.app import state
from agentd.chats.records import TurnStarted
from agentd.chats.service import ChatService
from agentd.chats.state import Chat
from agentd.chats.turns import INTERRUPTED, TurnRecorder
from agentd.core.errors import Unavailable
from agentd.core.ids import HighWaterMarks, Sequences
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour
from agentd.storage import document, journal
from agentd.storage.journal import GroupCommitter, Journal


def acknowledged_too_early() -> None:
    """Changes of a chat are answered before they are written."""
    append, commit = GroupCommitter.append, GroupCommitter._commit

    def append_early(
        self: GroupCommitter, journal: Journal, line: bytes, result: Callable[[], None]
    ) -> "asyncio.Future[None]":
        safe = append(self, journal, line, result)
        if journal.fresh:
            return safe
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def commit_late(self: GroupCommitter, *args: object) -> None:
        time.sleep(0.02)
        commit(self, *args)  # type: ignore[arg-type]

    GroupCommitter.append, GroupCommitter._commit = append_early, commit_late  # type: ignore[method-assign]


def sent_again() -> None:
    """A prompt that was being carried out when the daemon died is put into the queue again."""
    end = TurnRecorder.end_interrupted

    async def send_again(self: TurnRecorder, *, again: bool = False) -> None:
        chats = ChatService(self._chats)
        for chat in [chat for chat in chats.list_summaries() if chat.working]:
            last = [said for said in (await chats.get(chat.id)).recent if said.role == "user"][-1]
            await self.end_turn(chat.id, "interrupted", INTERRUPTED)
            await chats.append_prompt(chat.id, last.text, "", "agent")
        await end(self, again=again)

    TurnRecorder.end_interrupted = send_again  # type: ignore[method-assign]


def left_in_the_queue() -> None:
    """A prompt enters the history, but only a restart would know that it left the queue."""
    apply = Chat.apply

    def keep_in_queue(self: Chat, entry: object, size: int) -> None:
        queue = self.queue
        apply(self, entry, size)  # type: ignore[arg-type]
        if isinstance(entry.body, TurnStarted):  # type: ignore[attr-defined]
            self.queue = queue

    Chat.apply = keep_in_queue  # type: ignore[assignment, method-assign]


def ids_from_the_start() -> None:
    """After a restart, prompts are numbered from 1 again."""
    state.Sequences = lambda marks: Sequences(  # type: ignore[assignment, misc]
        HighWaterMarks(marks.chat, 0, marks.message, marks.seq)
    )


def handed_over_twice() -> None:
    """Every third prompt reaches the engine twice."""
    follow = TurnRunner.run
    turns = iter(range(10**9))

    async def hand_over_twice(
        self: TurnRunner, engine: Engine, given: TurnRequest, approver: Approver, place: OccupySlot
    ) -> None:
        if next(turns) % 3 == 2:
            async for _ in engine.run(given, approver):
                pass
        await follow(self, engine, given, approver, place)

    TurnRunner.run = hand_over_twice  # type: ignore[method-assign]


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
    journal._make_error = lambda path, error: None  # type: ignore[assignment, return-value]


def nothing_is_cut_back() -> None:
    """The remains of a failed write stay where they are."""
    journal._cut_back = lambda fd, size: True


def failed_documents_are_acknowledged() -> None:
    """The error of a document that was not written is lost on its way to the caller."""
    replace = document.replace_document

    def write_carelessly(*args: Any, **named: Any) -> None:
        with suppress(Unavailable):
            replace(*args, **named)

    document.replace_document = write_carelessly


def written_behind_the_answer() -> None:
    """A document is written some time after its change was acknowledged."""
    replace = document.replace_document

    def replace_late(*args: Any, **named: Any) -> None:
        threading.Timer(0.3, replace, args, named).start()

    document.replace_document = replace_late


MIXED = {written_behind_the_answer.__name__: written_behind_the_answer}
"""Bugs that only the mixed load shows."""

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
    book = Ledger.add_record
    writing: set[asyncio.Task[None]] = set()

    async def record_late(self: Ledger, entry: RequestRecord) -> None:
        await asyncio.sleep(0.02)
        await book(self, entry)

    async def record_behind(self: Ledger, entry: RequestRecord) -> None:
        task = asyncio.create_task(record_late(self, entry))
        writing.add(task)
        task.add_done_callback(writing.discard)

    Ledger.add_record = record_behind  # type: ignore[method-assign]


def booked_twice() -> None:
    """Every tenth call is in the ledger twice."""
    book, calls = Ledger.add_record, iter(range(10**9))

    async def record_twice(self: Ledger, entry: RequestRecord) -> None:
        await book(self, entry)
        if next(calls) % 10 == 9:
            await book(self, entry)

    Ledger.add_record = record_twice  # type: ignore[method-assign]


def limits_begin_anew() -> None:
    """After a restart, what limits enforce knows nothing of what was spent before."""
    take = KeyMeters.reset_to
    KeyMeters.reset_to = lambda self, sums, zone: take(self, SpendByQuarterHour(()), zone)  # type: ignore[method-assign]


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
        {**ALL, **MIXED, **DISK, **GATEWAY}[name]()
