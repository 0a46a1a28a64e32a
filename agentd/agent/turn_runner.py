"""Runs one turn: feeds the engine's events to the turn and records the instructions."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.engine import (
    Approver,
    Engine,
    EngineEvent,
    EngineStarted,
    EngineStateSaved,
    ModesListed,
    OccupySlot,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnRequest,
    UsageReported,
    UsageWindowsReported,
)
from agentd.agent.reset_time import parse_reset_time
from agentd.agent.turn import (
    AddMessage,
    DeferTurn,
    EndTurn,
    Instruction,
    RecordToolStart,
    ResendPrompt,
    SaveEngineState,
    StreamDelta,
    StreamThinking,
    TurnMachine,
)
from agentd.chats.approval import QueueWait
from agentd.chats.events import MessageDelta, ThinkingDeltaEvent
from agentd.chats.model import Delivery
from agentd.chats.repository import AGENT
from agentd.chats.turns import TurnRecorder, TurnUsage, compute_wait_seconds
from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import Unavailable
from agentd.core.events import EventBus
from agentd.llm.dialects.supplier_errors import parse_wait
from agentd.llm.output_schema_check import explain_mismatch
from agentd.models.program_state import ProgramAccess, ProgramStates

log = logging.getLogger(__name__)

_NO_REPLY = "The engine ended without a reply that fits the output schema."
SHUTDOWN = "Interrupted: agentd was stopped while this prompt was running."
RETRY_SECONDS = 2.0
"""The seconds before a retry when a write to the disk fails, such as when it is full."""
SPREAD_SECONDS = 30.0
"""Chats that waited for the same limit are spread over this many seconds."""
SHOW_SECONDS = 0.04
"""Minimum time between two published pieces of a growing reply."""


class TurnStatus(Struct, frozen=True):
    """The status of a running turn."""

    turn: int
    engine: str
    model: str
    since: Timestamp
    last_activity: Timestamp
    """The time of the engine's last report."""
    pid: int = 0
    """The process id of its program; 0 when it has none."""
    last_tool: str = ""


class RunningReply(Struct, frozen=True):
    """The unfinished reply of a turn, as far as it was published."""

    turn: int
    text: str
    number: int
    """The number of the last published piece of the turn; 0 if none was."""
    thinking: str = ""
    """What the model thought since the last message, as far as it was published."""
    thinking_number: int = 0
    """The number of the last published piece of thinking; 0 if none was."""


class TurnRunner:
    """Runs one turn of a chat, from its start to its end on disk."""

    def __init__(
        self,
        turns: TurnRecorder,
        clock: Clock,
        bus: EventBus,
        programs: ProgramStates,
        resends_interrupted: Callable[[], bool],
        chat_id: int,
        status: TurnStatus,
        turn: TurnMachine,
        deferrals: int = 0,
    ) -> None:
        self.status = status
        self.stopped_by = ""
        """The person who stopped the turn; empty if none did."""
        self._turns = turns
        self._clock = clock
        self._programs = programs
        self._resends_interrupted = resends_interrupted
        self._access = ProgramAccess(status.engine)
        self._chat_id = chat_id
        self._turn = turn
        self._deferrals = deferrals
        """The number of consecutive turns of the chat that ended at a limit before this one."""
        self._delivered: Delivery = "no"
        self._schema = self._mismatch = ""
        self._unwritten: deque[Instruction] = deque()
        self._show = _DeltaPublisher(bus, MessageDelta, chat_id, status.turn)
        self._thinking = _DeltaPublisher(bus, ThinkingDeltaEvent, chat_id, status.turn)

    @property
    def is_unfinished(self) -> bool:
        """True after the disk did not take the end of a turn that was ended from outside."""
        return bool(self._unwritten)

    @property
    def reply(self) -> RunningReply:
        """The unfinished reply; its text is empty once its message is being recorded."""
        reply, thought = self._show, self._thinking
        return RunningReply(
            self.status.turn, reply.text, reply.number, thought.text, thought.number
        )

    async def run(
        self, engine: Engine, assignment: TurnRequest, approver: Approver, place: OccupySlot
    ) -> None:
        """Run the engine and record its turn, however it ends by itself."""
        self._delivered = "perhaps"
        self._access = ProgramAccess(self.status.engine, assignment.supplier, assignment.command)
        self._schema = assignment.output_schema
        self._mismatch = _NO_REPLY if self._schema else ""
        try:
            async with aclosing(engine.run(assignment, approver)) as progress:
                await self._consume(progress, place)
            ending = self._turn.fail(self._mismatch) if self._mismatch else self._turn.finish()
            await self.apply(ending, place)
        except Exception as error:  # a task boundary: an engine's bug ends its turn, not the daemon
            log.exception("the engine %s failed in chat %d", engine.name, self._chat_id)
            reason = f"The engine failed: {type(error).__name__}: {error}"
            await self.apply(self._turn.fail(reason), place)
        finally:
            self._show.close()
            self._thinking.close()

    async def _consume(
        self, progress: AsyncGenerator[EngineEvent, None], place: OccupySlot
    ) -> None:
        """Record the engine's events until its turn ends.

        A stop reaches the engine as ``CancelledError``, even while an event is being recorded, so
        that it can report usage and interrupted tools.
        """
        coming: Awaitable[EngineEvent] = anext(progress)
        while True:
            try:
                step = await coming
            except StopAsyncIteration:
                return
            if self._turn.ends_at(step):
                await self._end_engine(progress, place)
            try:
                self._update_status(step)
                await self.apply(self._turn.handle(step), None if _is_stopped() else place)
            except asyncio.CancelledError as stop:
                coming = progress.athrow(stop)
                continue
            if self._turn.over:
                return
            coming = anext(progress)

    async def _end_engine(
        self, progress: AsyncGenerator[EngineEvent, None], place: OccupySlot
    ) -> None:
        """End an engine that would go on, and record what it used and which of its tools ended.

        Its reply stays as far as it was shown: the whole one may be the endless one.
        """
        coming: Awaitable[EngineEvent] = progress.athrow(asyncio.CancelledError())
        try:
            while True:
                step = await coming
                if isinstance(step, ReplyCompleted):
                    step = UsageReported(step.usage, step.cost, step.engine_state)
                if isinstance(step, UsageReported | EngineStateSaved | ToolUsed):
                    await self.apply(self._turn.handle(step), place)
                coming = anext(progress)
        except StopAsyncIteration:
            pass
        except asyncio.CancelledError:
            if _is_stopped():
                raise

    async def on_cancelled(self) -> None:
        """Record a turn ended from outside: by a person or a stop of the daemon.

        An end that is not on disk yet becomes that of the person: the queue is then held. If the
        settings say so, a prompt that a stop interrupts is sent again at the next start.
        """
        if self.stopped_by:
            self._unwritten = deque(map(_stop_instead, self._unwritten))
            await self.apply(self._turn.stop())
        elif self._resends_interrupted():
            await self.apply(self._turn.resend())
        else:
            await self.apply(self._turn.interrupt(SHUTDOWN))

    async def finish(self) -> None:
        """Record what is left of an unfinished turn, once the disk takes it."""
        try:
            await self.apply(place=lambda _: None)
        except asyncio.CancelledError:
            await self.on_cancelled()
            raise

    async def apply(
        self, instructions: Iterable[Instruction] = (), place: OccupySlot | None = None
    ) -> None:
        """Record instructions of the turn, after those that the disk did not take before.

        What an engine did is not lost because the disk is full: with ``place`` it waits, else it
        is left to the next call. For a chat that became read-only there is nothing to wait for: it
        raises ``Unavailable``.
        """
        self._unwritten.extend(instructions)
        while self._unwritten:
            instruction = self._unwritten.popleft()
            try:
                await self._record(instruction)
            except Unavailable as error:
                log.warning("chat %d waits for the disk: %s", self._chat_id, error.message)
                self._unwritten.appendleft(instruction)
                if await self._is_read_only():
                    self._unwritten.clear()
                    if place:
                        raise
                if place is None:
                    return
                place(False)
                await asyncio.sleep(RETRY_SECONDS)
                place(True)

    async def _is_read_only(self) -> bool:
        with suppress(Unavailable):  # it cannot be read at this moment
            return bool((await self._turns.get_latest(self._chat_id)).damage)
        return False

    def _record(self, instruction: Instruction) -> Awaitable[None]:
        match instruction:
            case AddMessage():
                self._thinking.discard()
                if instruction.role == "assistant":
                    self._show.discard()
                return self._add_message(instruction)
            case RecordToolStart(use=began):
                return self._turns.record_tool_start(self._chat_id, began)
            case StreamDelta() | StreamThinking():
                is_reply = isinstance(instruction, StreamDelta)
                return (self._show if is_reply else self._thinking).add(instruction.text)
            case SaveEngineState(engine_state=memory):
                return self._turns.save_memory(self._chat_id, self.status.engine, memory)
            case DeferTurn() | ResendPrompt():
                return self._requeue_prompt(instruction)
            case EndTurn(outcome=outcome, reason=reason):
                by = self.stopped_by if outcome == "stopped" else AGENT
                booking = _to_booking(instruction)
                return self._turns.end_turn(self._chat_id, outcome, reason, usage=booking, by=by)

    def _requeue_prompt(self, instruction: DeferTurn | ResendPrompt) -> Awaitable[None]:
        usage = _to_booking(instruction)
        if isinstance(instruction, ResendPrompt):
            return self._turns.resend_prompt(self._chat_id, usage, delivered=self._delivered)
        wait = QueueWait(self._compute_retry_time(instruction), instruction.reason)
        return self._turns.defer_turn(self._chat_id, wait, usage)

    async def _add_message(self, added: AddMessage) -> None:
        """Add a message; note of a reply whether it fits the output schema of the prompt."""
        structured = False
        if self._schema and added.role == "assistant":
            try:
                why = await explain_mismatch(self._schema, added.text)
            except asyncio.CancelledError:  # the reply is not lost: it is recorded unchecked
                self._schema = ""
                self._unwritten.appendleft(added)
                raise
            self._mismatch = f"The reply does not fit the output schema. {why}" if why else ""
            structured = not why
        await self._turns.add_message(
            self._chat_id,
            added.role,
            added.text,
            tool=added.tool,
            usage=_to_booking(added),
            tool_use=added.tool_use,
            report=added.report,
            structured=structured,
        )

    def _update_status(self, step: EngineEvent) -> None:
        changed: dict[str, object] = {"last_activity": self._clock.now()}
        match step:
            case EngineStarted(pid=process):
                changed["pid"] = process
            case ToolStarted(name=name) | ToolUsed(name=name):
                changed["last_tool"] = name
            case UsageWindowsReported(windows=windows):
                self._programs.note_limits(self._access, windows)
            case ModesListed(modes=modes):
                self._programs.note_modes(self._access, modes)
        self.status = replace(self.status, **changed)

    def _compute_retry_time(self, limit: DeferTurn) -> Timestamp:
        """Return when to try again: not in the past, and spread over the chats."""
        now = parse_iso(self._clock.now())
        try:
            until = max(parse_iso(limit.until), now)
        except ValueError:
            until = self._estimate_limit_end(limit, now)
        return format_iso(until + timedelta(seconds=1 + self._chat_id * 7 % SPREAD_SECONDS))

    def _estimate_limit_end(self, limit: DeferTurn, now: datetime) -> datetime:
        """Return when a limit ends: as reported, as its text says, or a guess."""
        if seconds := limit.seconds or parse_wait(limit.reason):
            return now + timedelta(seconds=seconds)
        guessed = now + timedelta(seconds=compute_wait_seconds(self._deferrals))
        return parse_reset_time(limit.reason, now) or guessed


def _to_booking(instruction: AddMessage | DeferTurn | ResendPrompt | EndTurn) -> TurnUsage:
    return TurnUsage(instruction.tokens, instruction.cost, instruction.engine_state)


def _stop_instead(instruction: Instruction) -> Instruction:
    """Return the end of a stopped turn in place of another end; other instructions as they are."""
    if not isinstance(instruction, DeferTurn | ResendPrompt | EndTurn):
        return instruction
    tokens, cost, engine_state = instruction.tokens, instruction.cost, instruction.engine_state
    return EndTurn("stopped", "", tokens, cost, engine_state)


def _is_stopped() -> bool:
    """Return whether this task is being cancelled: then it does not wait for the disk."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _DeltaPublisher:
    """Publishes a growing reply or thinking, at most every ``SHOW_SECONDS``."""

    def __init__(
        self,
        bus: EventBus,
        event: type[MessageDelta] | type[ThinkingDeltaEvent],
        chat_id: int,
        turn: int,
    ) -> None:
        self._bus = bus
        self._event = event
        self._chat_id = chat_id
        self._turn = turn
        self._waiting = ""
        self._shown: list[str] = []
        self.number = 0
        """The number of the last published piece; 0 if none was."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        """What was published since the last ``discard``."""
        return "".join(self._shown)

    async def add(self, text: str) -> None:
        """Add a piece."""
        self._waiting += text
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SHOW_SECONDS, self._publish)

    def discard(self) -> None:
        """Drop what is pending and what was shown: the complete message follows."""
        self._waiting = ""
        self._shown.clear()

    def close(self) -> None:
        """Drop what is pending and stop the timer."""
        self._waiting = ""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _publish(self) -> None:
        self._timer = None
        if self._waiting:
            piece, self._waiting = self._waiting, ""
            self.number += 1
            self._shown.append(piece)
            self._bus.publish(self._event(self._chat_id, self._turn, piece, self.number))
