"""One turn at work: the engine is followed, and what the turn makes of it is recorded."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import aclosing
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.engine import (
    Alive,
    Approver,
    Assignment,
    Engine,
    Place,
    Progress,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.turn import Defer, End, Instruction, Keep, Say, Show, Turn
from agentd.chats.approval import Wait
from agentd.chats.shelf import AGENT
from agentd.chats.turns import Turns
from agentd.clock import Clock, Timestamp, iso, parse_iso
from agentd.errors import Unavailable
from agentd.events import Bus, MessageDelta
from agentd.proxy.dialects.failure import wait_in_words

log = logging.getLogger(__name__)

SHUTDOWN = "Interrupted: agentd was stopped while this prompt was being carried out."
RETRY_SECONDS = 2.0
"""How long to wait before trying again when the disk takes nothing: full, say."""
FIRST_LIMIT_SECONDS = 60.0
"""How long a limit is waited for at first when nothing tells how long it lasts; each further try
that ends at a limit doubles it ..."""
LONGEST_LIMIT_SECONDS = 15 * 60.0
"""... up to this."""
SPREAD_SECONDS = 30.0
"""Chats that waited for the same limit do not come back in the same moment."""
SHOW_SECONDS = 0.04
"""A growing reply is shown in steps no shorter than this."""


class Evidence(Struct, frozen=True):
    """What shows that a turn is really at work."""

    turn: int
    engine: str
    model: str
    since: Timestamp
    last_sign: Timestamp
    """When the engine said anything last."""
    process: int = 0
    """The id of its program; 0 when it has none."""
    last_tool: str = ""


class Work:
    """Carries out one turn of a chat, from its start to its end on disk."""

    def __init__(
        self,
        turns: Turns,
        clock: Clock,
        bus: Bus,
        chat_id: int,
        evidence: Evidence,
        turn: Turn,
        deferrals: int = 0,
    ) -> None:
        self.evidence = evidence
        self.stopped_by = ""
        """Who wants the turn to end; empty: nobody does."""
        self._turns = turns
        self._clock = clock
        self._chat_id = chat_id
        self._turn = turn
        self._deferrals = deferrals
        """How many turns of the chat in a row a limit ended before this one."""
        self._show = _Shown(bus, chat_id, evidence.turn)

    async def follow(
        self, engine: Engine, assignment: Assignment, approver: Approver, place: Place
    ) -> None:
        """Have the engine carry out the assignment, whatever comes of it."""
        try:
            async with aclosing(engine.run(assignment, approver)) as progress:
                await self._hear_out(progress, place)
            await self.carry_out(self._turn.finished(), place)
        except asyncio.CancelledError:
            await self.cancelled()
            raise
        except Exception as error:  # a task boundary: an engine's bug ends its turn, not the daemon
            log.exception("the engine %s failed in chat %d", engine.name, self._chat_id)
            reason = f"The engine failed: {type(error).__name__}: {error}"
            await self.carry_out(self._turn.failed(reason), place)
        finally:
            self._show.end()

    async def _hear_out(self, progress: AsyncGenerator[Progress, None], place: Place) -> None:
        """Record what the engine tells to the end of its turn.

        A stop reaches the engine as ``CancelledError``, also when it comes while a step is being
        recorded: so it can tell what was used and what it leaves undone.
        """
        coming: Awaitable[Progress] = anext(progress)
        while True:
            try:
                step = await coming
            except StopAsyncIteration:
                return
            try:
                self._note(step)
                await self.carry_out(self._turn.handle(step), None if _is_stopped() else place)
            except asyncio.CancelledError as stop:
                coming = progress.athrow(stop)
                continue
            if self._turn.over:
                return
            coming = anext(progress)

    async def cancelled(self) -> None:
        """The turn was ended from outside: by a person, or because the daemon stops."""
        ending = self._turn.stopped() if self.stopped_by else self._turn.interrupted(SHUTDOWN)
        await self.carry_out(ending)

    async def carry_out(
        self, instructions: Iterator[Instruction], place: Place | None = None
    ) -> None:
        """Record what the turn says.

        What an engine did is not forgotten because the disk is full: who gives a ``place`` waits.
        For a chat that became read-only there is nothing to wait for: it raises ``Unavailable``.
        """
        for instruction in instructions:
            while True:
                try:
                    await self._record(instruction)
                    break
                except Unavailable as error:
                    log.warning("chat %d waits for the disk: %s", self._chat_id, error.message)
                    if place is None:
                        return
                    if (await self._turns.look(self._chat_id)).damage:
                        raise
                    place(False)
                    await asyncio.sleep(RETRY_SECONDS)
                    place(True)

    def _record(self, instruction: Instruction) -> Awaitable[None]:
        match instruction:
            case Say(role=role, text=text, tool=tool, tokens=tokens, cost=cost):
                self._show.whole()
                return self._turns.add(
                    self._chat_id, role, text, tool=tool, tokens=tokens, cost=cost
                )
            case Show(text=text):
                return self._show.more(text)
            case Keep(memory=memory):
                return self._turns.keep(self._chat_id, self.evidence.engine, memory)
            case Defer(reason=reason, tokens=tokens, cost=cost):
                wait = Wait(self._until(instruction), reason)
                return self._turns.defer(self._chat_id, wait, tokens, cost)
            case End(outcome=outcome, reason=reason, tokens=tokens, cost=cost):
                by = self.stopped_by if outcome == "stopped" else AGENT
                return self._turns.end(
                    self._chat_id, outcome, reason, tokens=tokens, cost=cost, by=by
                )

    def _note(self, step: Progress) -> None:
        changed: dict[str, object] = {"last_sign": self._clock.now()}
        match step:
            case Alive(process=process):
                changed["process"] = process
            case ToolStarted(name=name) | ToolUsed(name=name):
                changed["last_tool"] = name
        self.evidence = replace(self.evidence, **changed)

    def _until(self, limit: Defer) -> Timestamp:
        """When to try again: never in the past, and not all chats at once."""
        now = parse_iso(self._clock.now())
        try:
            until = max(parse_iso(limit.until), now)
        except ValueError:
            until = now + timedelta(seconds=self._limit_seconds(limit))
        return iso(until + timedelta(seconds=1 + self._chat_id * 7 % SPREAD_SECONDS))

    def _limit_seconds(self, limit: Defer) -> float:
        """How long a limit lasts: as it is told, in its words if nowhere else, or a guess."""
        told = limit.seconds or wait_in_words(limit.reason)
        guess = FIRST_LIMIT_SECONDS * 2.0 ** min(self._deferrals, 8)
        return told or min(guess, LONGEST_LIMIT_SECONDS)


def _is_stopped() -> bool:
    """Return whether this task is to end: then it waits for nothing any more."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _Shown:
    """Tells how a reply grows, not more often than a reader can see."""

    def __init__(self, bus: Bus, chat_id: int, turn: int) -> None:
        self._bus = bus
        self._chat_id = chat_id
        self._turn = turn
        self._waiting = ""
        self._timer: asyncio.TimerHandle | None = None

    async def more(self, text: str) -> None:
        """The reply has this more."""
        self._waiting += text
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SHOW_SECONDS, self._tell)

    def whole(self) -> None:
        """The message is about to be told whole: its rest needs no telling."""
        self._waiting = ""

    def end(self) -> None:
        """Tell no more."""
        self._waiting = ""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._timer = None
        if self._waiting:
            self._bus.publish(MessageDelta(self._chat_id, self._turn, self._waiting))
            self._waiting = ""
