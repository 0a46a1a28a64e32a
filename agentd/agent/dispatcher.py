"""The dispatcher: takes prompts from the queues and runs them as turns.

One turn at a time per chat, a few at once over all chats, the longest waiting chat first. A
prompt is handed to an engine only after its ``turn.started`` is on disk, so it is handed over
at most once, whatever crashes when; only a supplier's rate limit requeues it, and an end of the
daemon if the settings say so.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial

from agentd.agent.approvals import ApprovalService
from agentd.agent.planner import TurnPlanner
from agentd.agent.turn import TurnMachine, end_after_bug, end_after_crash
from agentd.agent.turn_runner import RETRY_SECONDS, RunningReply, TurnRunner, TurnStatus
from agentd.agent.turn_slots import TurnSlots
from agentd.agent.waiting_chats import LONGEST_SLEEP, WaitingChats, get_start
from agentd.chats.events import ChatStateEvent
from agentd.chats.state import Chat, ChatSummary
from agentd.chats.turns import TurnRecorder
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, NotFound, Unavailable
from agentd.core.events import EventBus
from agentd.models.program_state import ProgramStates

log = logging.getLogger(__name__)

BUG_SECONDS = 30.0
"""The seconds until a turn is tried again that an unexpected error kept from starting."""
STOP_SECONDS = 15.0
"""The seconds to wait for a stopped turn; an engine has ten seconds to stop."""


class Dispatcher:
    """Takes prompts from the queues and has engines run them."""

    def __init__(
        self,
        turns: TurnRecorder,
        planner: TurnPlanner,
        approvals: ApprovalService,
        clock: Clock,
        bus: EventBus,
        programs: ProgramStates,
        parallel: Callable[[], int],
        resends_interrupted: Callable[[], bool],
    ) -> None:
        self._turns = turns
        self._planner = planner
        self._approvals = approvals
        self._clock = clock
        self._bus = bus
        self._make_runner = partial(TurnRunner, turns, clock, bus, programs, resends_interrupted)
        self._slots = TurnSlots(parallel)
        self._ready: dict[int, str] = {}
        """Idle chats with a prompt to run, and since when it waits."""
        self._waiting = WaitingChats(clock, self._on_wait_over)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[asyncio.Task[None]] = set()
        self._runners: dict[int, TurnRunner] = {}
        self._held: set[int] = set()
        """Chats with prompts whose queue is held, perhaps for a budget that will be raised."""
        self._releasing: asyncio.Task[None] | None = None
        self._outdated: set[int] = set()
        """Chats whose task began before settings changed: it may apply an old budget."""
        self._unsubscribe: Callable[[], None] | None = None

    def start(self, chats: Iterable[ChatSummary]) -> None:
        """Schedule the prompts that wait in these chats, and all that follow."""
        self._unsubscribe = self._bus.subscribe_to((ChatStateEvent,), self._on_chat_changed)
        for chat in chats:
            if chat.working:  # left open by a crash, and its end could not be written so far
                self._start_task(chat.id, self._end_open_turn(chat.id))
            else:
                self._update_schedule(chat)
        self._dispatch()

    def on_settings_changed(self) -> None:
        """Use new settings, which may allow more parallel turns or a larger budget."""
        if self._unsubscribe:
            self._outdated.update(self._tasks)
            self._schedule_release(0.0)
            self._dispatch()

    async def stop(self, drain_seconds: float) -> None:
        """Start nothing new, give turns at work that long to end, then interrupt all that run."""
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        self._ready.clear()
        if self._releasing:
            self._releasing.cancel()
        self._waiting.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(drain_seconds):
                await self._slots.wait_until(lambda: all(map(self._waits_for_person, self._tasks)))
        for task in self._tasks.values():
            self._cancel(task)
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        await self._approvals.close()

    def _waits_for_person(self, chat_id: int) -> bool:
        with suppress(AgentdError):  # it may be deleted by now
            return bool(self._turns.get_summary(chat_id).asking)
        return False

    def get_turn_status(self, chat_id: int) -> TurnStatus | None:
        """Return the status of this chat's running turn; None when none runs."""
        work = self._runners.get(chat_id)
        return work.status if work else None

    def get_running_reply(self, chat_id: int) -> RunningReply | None:
        """Return the unfinished reply of this chat's running turn; None when none runs."""
        work = self._runners.get(chat_id)
        return work.reply if work else None

    async def stop_turn(self, chat_id: int, by: str) -> bool:
        """End the running turn, and hold the queue; False when there is none.

        Returns once the engine and all that it started have ended; a delay is logged.
        """
        work, task = self._runners.get(chat_id), self._tasks.get(chat_id)
        if work is None or task is None:
            return False
        if not work.stopped_by:
            work.stopped_by = by
            self._cancel(task)
        _, late = await asyncio.wait([task], timeout=STOP_SECONDS)
        if late:
            log.error("the stopped turn of chat %d has not ended yet", chat_id)
        return True

    def _on_chat_changed(self, event: ChatStateEvent) -> None:
        if event.chat.id not in self._tasks:
            self._update_schedule(event.chat)
            self._dispatch()

    def _update_schedule(self, chat: ChatSummary) -> None:
        """Update whether the chat has work now, later or not at all."""
        self._ready.pop(chat.id, None)
        self._held.discard(chat.id)
        self._waiting.discard(chat.id)
        if not chat.ready or chat.working or chat.damage or chat.deleted_at:
            return
        if chat.held:
            self._held.add(chat.id)
            if self._releasing is None:
                self._schedule_release(LONGEST_SLEEP)
            return
        if get_start(chat) <= self._clock.now():
            self._ready[chat.id] = chat.ready_since
            return
        self._waiting.add(chat)

    def _schedule_release(self, seconds: float) -> None:
        """Check after so many seconds, then periodically, which held queues may go on."""
        if self._releasing:
            self._releasing.cancel()
        self._releasing = asyncio.create_task(self._release_periodically(seconds))

    async def _release_periodically(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            for chat_id in list(self._held):
                with suppress(AgentdError):  # it may be deleted by now, or the disk may be full
                    if not await self._planner.release_within_budget(chat_id):
                        self._held.discard(chat_id)
            seconds = LONGEST_SLEEP

    def _on_wait_over(self, chats: list[ChatSummary]) -> None:
        for chat in chats:
            self._ready[chat.id] = chat.ready_since
        self._dispatch()

    def _dispatch(self) -> None:
        while self._ready and self._slots.has_room:
            chat_id = min(self._ready, key=lambda chat: (self._ready[chat], chat))
            del self._ready[chat_id]
            self._slots.take(chat_id)
            self._start_task(chat_id, self._run_next_turn(chat_id))

    def _start_task(self, chat_id: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(partial(self._on_task_done, chat_id))
        self._tasks[chat_id] = task

    def _cancel(self, task: "asyncio.Task[None]") -> None:
        """Cancel the task once: a second time would interrupt the writing of its end."""
        if task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def _on_task_done(self, chat_id: int, task: "asyncio.Task[None]") -> None:
        del self._tasks[chat_id]
        self._cancelled.discard(task)
        work = self._runners.pop(chat_id, None)
        self._slots.free(chat_id)
        if error := None if task.cancelled() else task.exception():
            log.error("the turn of chat %d failed unexpectedly", chat_id, exc_info=error)
        if self._unsubscribe is None:
            return
        if task.cancelled() and work and work.is_unfinished:
            self._runners[chat_id] = work
            self._start_task(chat_id, work.finish())
        with suppress(AgentdError):  # it may be deleted or unreadable by now
            chat = self._turns.get_summary(chat_id)
            if error and not chat.damage:
                self._start_task(chat_id, self._recover(chat_id, error))
            else:
                self._update_schedule(chat)
        if chat_id in self._outdated:
            self._outdated.discard(chat_id)
            if chat_id in self._held:
                self._schedule_release(0.0)
        self._dispatch()

    async def _run_next_turn(self, chat_id: int) -> None:
        """Run the next prompt of a chat, from its queue to the end of its turn."""
        try:
            if await self._planner.hold_if_over_budget(chat_id):
                return
            await self._planner.read_command(chat_id)
            chat = await self._turns.start_turn(chat_id, self._planner.get_engine_and_model)
        except NotFound:
            return
        except Unavailable as error:
            log.warning("chat %d cannot start its turn: %s", chat_id, error.message)
            self._slots.free(chat_id)
            self._dispatch()
            await asyncio.sleep(RETRY_SECONDS)
            return
        if chat:
            await self._run_turn(chat)

    async def _run_turn(self, chat: Chat) -> None:
        started = chat.agent.turn
        assert started
        choice = self._planner.choose_engine(chat, started.given)
        now = self._clock.now()
        model = choice.model.name if choice.model else ""
        status = TurnStatus(started.id, choice.name, model, now, now)
        prices = choice.model.prices if choice.model else None
        turn = TurnMachine(prices, self._clock.monotonic, started.given.budget)
        work = self._make_runner(chat.id, status, turn, chat.agent.deferrals)
        self._runners[chat.id] = work
        place = partial(self._occupy_slot, chat.id, asyncio.current_task())
        problem, assignment = choice.problem, None
        try:
            if not problem:
                assignment, problem = await self._planner.build_request(chat, choice)
            if choice.engine and assignment:
                approver = self._approvals.for_chat(chat.id, place, assignment.folder)
                await work.run(choice.engine, assignment, approver, place)
            else:
                await work.apply(turn.fail(problem), place)
        except asyncio.CancelledError:
            await work.on_cancelled()
            raise

    async def _end_open_turn(self, chat_id: int, error: BaseException | None = None) -> None:
        """End a turn that an unexpected error left open, or a crash."""
        work = self._make_runner(chat_id, TurnStatus(0, "none", "", "", ""), TurnMachine())
        place = partial(self._occupy_slot, chat_id, asyncio.current_task())
        tools = await self._turns.list_running_tools(chat_id)
        await self._turns.withdraw_questions(chat_id)
        await work.apply(end_after_bug(tools, error) if error else end_after_crash(tools), place)

    async def _recover(self, chat_id: int, error: BaseException) -> None:
        """End the turn that an unexpected error left open; without one, delay the next attempt."""
        await asyncio.sleep(RETRY_SECONDS)
        if self._turns.get_summary(chat_id).working:
            await self._end_open_turn(chat_id, None if isinstance(error, Unavailable) else error)
        else:
            await asyncio.sleep(BUG_SECONDS)

    def _occupy_slot(self, chat_id: int, task: "asyncio.Task[None] | None", wanted: bool) -> None:
        """Free the slot of a turn that waits for the disk or a person, or take it back."""
        if self._tasks.get(chat_id) is not task:
            return  # the turn has ended by now
        if wanted:
            self._slots.end_wait(chat_id)
        else:
            self._slots.begin_wait(chat_id)
            self._dispatch()
