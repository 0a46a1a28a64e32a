"""The dispatcher: prompts leave their queues and become turns, by themselves.

One turn at a time in a chat, a few at once over all chats, the longest waiting chat first. A
prompt is handed to an engine only after its ``turn.started`` is on disk, so it is handed over
at most once, whatever dies when.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from functools import partial

from agentd.agent.engine import Assignment, Engine, Progress
from agentd.agent.turn import End, Instruction, Say, Turn
from agentd.chats.fold import Summary
from agentd.chats.service import INTERRUPTED, ChatService
from agentd.errors import NotFound, Unavailable
from agentd.events import Bus, ChatUpdate, Event

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
"""How long to wait before trying again when the disk takes nothing: full, say."""
SHUTDOWN = "Interrupted: agentd was stopped while this prompt was being carried out."


class Dispatcher:
    """Finds work in the queues and has the engine do it."""

    def __init__(self, chats: ChatService, engine: Engine, bus: Bus, parallel: int) -> None:
        self._chats = chats
        self._engine = engine
        self._bus = bus
        self._parallel = parallel
        self._ready: dict[int, str] = {}
        """Chats with work and none going on, and since when it waits."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._busy: set[int] = set()
        """Chats whose turn takes one of the places; one that waits for the disk does not."""
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Take up all that waits, and whatever comes."""
        self._unsubscribe = self._bus.subscribe(self._heard)
        for chat in self._chats.summaries():
            if _waits(chat):
                self._ready[chat.id] = chat.ready_since
            elif chat.working:  # since a crash, and the disk did not take its end so far
                end = End("interrupted", INTERRUPTED)
                self._begin(chat.id, self._carry_out(chat.id, iter([end])))
        self._dispatch()

    async def stop(self, drain_seconds: float) -> None:
        """Take nothing new, give running turns that long to end, then interrupt them."""
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        self._ready.clear()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=drain_seconds)
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def _heard(self, event: Event) -> None:
        if not isinstance(event, ChatUpdate):
            return
        chat = event.chat
        if _waits(chat) and chat.id not in self._tasks:
            self._ready[chat.id] = chat.ready_since
            self._dispatch()
        else:
            self._ready.pop(chat.id, None)

    def _dispatch(self) -> None:
        while self._ready and len(self._busy) < self._parallel:
            chat_id = min(self._ready, key=lambda chat: (self._ready[chat], chat))
            del self._ready[chat_id]
            self._busy.add(chat_id)
            self._begin(chat_id, self._work(chat_id))

    def _begin(self, chat_id: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(partial(self._done, chat_id))
        self._tasks[chat_id] = task

    def _done(self, chat_id: int, task: "asyncio.Task[None]") -> None:
        del self._tasks[chat_id]
        self._busy.discard(chat_id)
        if not task.cancelled() and (error := task.exception()):
            log.error("the turn of chat %d broke down", chat_id, exc_info=error)
        if self._unsubscribe is None:
            return
        chat = self._chats.summary(chat_id)
        if _waits(chat):
            self._ready[chat_id] = chat.ready_since
        self._dispatch()

    async def _work(self, chat_id: int) -> None:
        """Carry out the next prompt of a chat, from its queue to the end of its turn."""
        try:
            started = await self._chats.start_turn(chat_id, self._engine.name)
        except NotFound:
            return
        except Unavailable as error:
            log.warning("chat %d cannot start its turn: %s", chat_id, error.message)
            self._busy.discard(chat_id)
            self._dispatch()
            await asyncio.sleep(RETRY_SECONDS)
            return
        if started is None:
            return
        chat, prompt = started
        assignment = Assignment(
            chat_id=chat_id,
            prompt=prompt.text,
            model=prompt.model or chat.model,
            skill=chat.skill,
            system_prompt=chat.system_prompt,
        )
        turn = Turn()
        try:
            async with aclosing(self._engine.run(assignment)) as progress:
                await self._follow(chat_id, turn, progress)
        except asyncio.CancelledError:
            await self._carry_out(chat_id, turn.stopped(SHUTDOWN), patient=False)
            raise
        except Exception as error:  # a task boundary: an engine's bug ends its turn, not the daemon
            log.exception("the engine %s failed in chat %d", self._engine.name, chat_id)
            reason = f"The engine failed: {type(error).__name__}: {error}"
            await self._carry_out(chat_id, turn.failed(reason))

    async def _follow(
        self, chat_id: int, turn: Turn, progress: AsyncGenerator[Progress, None]
    ) -> None:
        async for step in progress:
            await self._carry_out(chat_id, turn.handle(step))
            if turn.over:
                return
        await self._carry_out(chat_id, turn.finished())

    async def _carry_out(
        self, chat_id: int, instructions: Iterator[Instruction], *, patient: bool = True
    ) -> None:
        """Record what the turn says.

        What an engine did is not forgotten because the disk is full: a ``patient`` caller waits.
        For a chat that became read-only there is nothing to wait for: it raises ``Unavailable``.
        """
        for instruction in instructions:
            while True:
                try:
                    await self._record(chat_id, instruction)
                    break
                except Unavailable as error:
                    log.warning("chat %d waits for the disk: %s", chat_id, error.message)
                    if not patient:
                        return
                    if (await self._chats.get(chat_id)).damage:
                        raise
                    self._busy.discard(chat_id)
                    self._dispatch()
                    await asyncio.sleep(RETRY_SECONDS)
                    self._busy.add(chat_id)

    async def _record(self, chat_id: int, instruction: Instruction) -> None:
        if isinstance(instruction, Say):
            await self._chats.add(
                chat_id,
                instruction.role,
                instruction.text,
                tool=instruction.tool,
                tokens=instruction.tokens,
                cost=instruction.cost,
            )
        else:
            await self._chats.end_turn(chat_id, instruction.outcome, instruction.reason)


def _waits(chat: Summary) -> bool:
    """True for a chat with a prompt to send and nothing in the way."""
    return chat.ready > 0 and not chat.working and not chat.damage
