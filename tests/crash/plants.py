"""Bugs to build into a daemon on purpose: a checker that does not find them checks nothing."""

import asyncio
import time
from collections.abc import Callable

from agentd.agent.engine import Assignment
from agentd.agent.service import Dispatcher
from agentd.chats.fold import Chat
from agentd.chats.records import TurnStarted
from agentd.chats.service import INTERRUPTED, ChatService
from agentd.disk import journal, state
from agentd.disk.journal import Committer, Journal
from agentd.ids import Marks, Sequences


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
    end = ChatService.end_interrupted

    async def again(self: ChatService) -> None:
        for chat in [chat for chat in self.summaries() if chat.working]:
            last = [said for said in (await self.get(chat.id)).recent if said.role == "user"][-1]
            await self.end_turn(chat.id, "interrupted", INTERRUPTED)
            await self.append(chat.id, last.text, "", "agent")
        await end(self)

    ChatService.end_interrupted = again  # type: ignore[method-assign]


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
    work = Dispatcher._follow
    turns = iter(range(10**9))

    async def twice(self: Dispatcher, chat_id: int, turn: object, progress: object) -> None:
        if next(turns) % 3 == 2:
            chat = await self._chats.get(chat_id)
            text = [said.text for said in chat.recent if said.role == "user"][-1]
            async for _ in self._engine.run(Assignment(chat_id, text)):
                pass
        await work(self, chat_id, turn, progress)  # type: ignore[arg-type]

    Dispatcher._follow = twice  # type: ignore[method-assign]


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


DISK = {plant.__name__: plant for plant in (failed_writes_are_acknowledged, nothing_is_cut_back)}
"""Bugs that only a failing disk shows."""


def build_in(name: str) -> None:
    """Build this one in; the empty name is none."""
    if name:
        {**ALL, **DISK}[name]()
