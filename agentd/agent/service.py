"""The dispatcher: prompts leave their queues and become turns, by themselves.

One turn at a time in a chat, a few at once over all chats, the longest waiting chat first. A
prompt is handed to an engine only after its ``turn.started`` is on disk, so it is handed over
at most once, whatever dies when; only a supplier's limit brings it back.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial

from agentd.agent.approvals import Approvals
from agentd.agent.assigning import Assigner
from agentd.agent.turn import End, Turn
from agentd.agent.work import RETRY_SECONDS, Evidence, Work
from agentd.chats.fold import Chat, Summary
from agentd.chats.turns import INTERRUPTED, Turns
from agentd.clock import Clock, parse_iso
from agentd.errors import AgentdError, NotFound, Unavailable
from agentd.events import Bus, Event, Last

log = logging.getLogger(__name__)

LONGEST_SLEEP = 60.0
"""Seconds after which a wait is looked at anew: the machine's clock may have jumped."""
STOP_SECONDS = 15.0
"""How long to wait for a stopped turn; an engine is given ten."""


class Dispatcher:
    """Finds work in the queues and has an engine do it."""

    def __init__(
        self,
        turns: Turns,
        assigner: Assigner,
        approvals: Approvals,
        clock: Clock,
        bus: Bus,
        parallel: Callable[[], int],
    ) -> None:
        self._turns = turns
        self._assigner = assigner
        self._approvals = approvals
        self._clock = clock
        self._bus = bus
        self._parallel = parallel
        self._ready: dict[int, str] = {}
        """Chats with work and none going on, and since when it waits."""
        self._later: dict[int, asyncio.TimerHandle] = {}
        """Chats that wait for a limit to end."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[asyncio.Task[None]] = set()
        self._works: dict[int, Work] = {}
        self._busy: set[int] = set()
        """Chats whose turn takes one of the places."""
        self._resting: dict[int, int] = {}
        """Chats whose turn waits for the disk or for persons, and for how many of them."""
        self._held: set[int] = set()
        """Chats with work whose queue is held, maybe for a budget that will be lifted."""
        self._releasing: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self, chats: Iterable[Summary]) -> None:
        """Take up all that waits in these, and whatever comes."""
        self._unsubscribe = self._bus.subscribe(self._heard)
        for chat in chats:
            if chat.working:  # since a crash, and the disk did not take its end so far
                self._begin(chat.id, self._end_interrupted(chat.id))
            else:
                self._consider(chat)
        self._dispatch()

    def look(self) -> None:
        """The settings may allow more than before: turns at once, or money."""
        if self._unsubscribe:
            self._release_held(0.0)
            self._dispatch()

    async def stop(self, drain_seconds: float) -> None:
        """Take nothing new, give running turns that long to end, then interrupt them."""
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        self._ready.clear()
        if self._releasing:
            self._releasing.cancel()
        for timer in self._later.values():
            timer.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=drain_seconds)
        for task in self._tasks.values():
            self._cancel(task)
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        await self._approvals.close()

    def evidence(self, chat_id: int) -> Evidence | None:
        """What shows that the agent is at work on this chat; None when it is not."""
        work = self._works.get(chat_id)
        return work.evidence if work else None

    async def stop_turn(self, chat_id: int, by: str) -> bool:
        """End the running turn, and hold the queue; False when there is none.

        It returns once the engine has ended with all that it started, or says so in the log.
        """
        work, task = self._works.get(chat_id), self._tasks.get(chat_id)
        if work is None or task is None:
            return False
        if not work.stopped_by:
            work.stopped_by = by
            self._cancel(task)
        _, late = await asyncio.wait([task], timeout=STOP_SECONDS)
        if late:
            log.error("the stopped turn of chat %d has not ended yet", chat_id)
        return True

    def _heard(self, event: Event) -> None:
        if isinstance(event, Last) and event.chat.id not in self._tasks:
            self._consider(event.chat)
            self._dispatch()

    def _consider(self, chat: Summary) -> None:
        """Note whether the chat has work: now, later, or none."""
        self._ready.pop(chat.id, None)
        self._held.discard(chat.id)
        if timer := self._later.pop(chat.id, None):
            timer.cancel()
        if not chat.ready or chat.working or chat.damage or chat.deleted_at:
            return
        if chat.held:
            self._held.add(chat.id)
            if self._releasing is None:
                self._release_held(LONGEST_SLEEP)
            return
        if not chat.waits_until or chat.waits_until <= self._clock.now():
            self._ready[chat.id] = chat.ready_since
            return
        left = (parse_iso(chat.waits_until) - parse_iso(self._clock.now())).total_seconds()
        loop = asyncio.get_running_loop()
        self._later[chat.id] = loop.call_later(min(left, LONGEST_SLEEP), self._wake, chat)

    def _release_held(self, seconds: float) -> None:
        """Look after so long, and then again and again, which queues need not be held any more."""
        if self._releasing:
            self._releasing.cancel()
        self._releasing = asyncio.create_task(self._keep_releasing(seconds))

    async def _keep_releasing(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            for chat_id in list(self._held):
                with suppress(AgentdError):  # it may be deleted by now, or the disk be full
                    if not await self._assigner.release_within_budget(chat_id):
                        self._held.discard(chat_id)
            seconds = LONGEST_SLEEP

    def _wake(self, chat: Summary) -> None:
        self._consider(chat)
        self._dispatch()

    def _dispatch(self) -> None:
        while self._ready and len(self._busy) < self._parallel():
            chat_id = min(self._ready, key=lambda chat: (self._ready[chat], chat))
            del self._ready[chat_id]
            self._busy.add(chat_id)
            self._begin(chat_id, self._work(chat_id))

    def _begin(self, chat_id: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(partial(self._done, chat_id))
        self._tasks[chat_id] = task

    def _cancel(self, task: "asyncio.Task[None]") -> None:
        """Once: the second time it would cut off the writing down of its end."""
        if task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def _done(self, chat_id: int, task: "asyncio.Task[None]") -> None:
        del self._tasks[chat_id]
        self._cancelled.discard(task)
        self._works.pop(chat_id, None)
        self._busy.discard(chat_id)
        self._resting.pop(chat_id, None)
        if not task.cancelled() and (error := task.exception()):
            log.error("the turn of chat %d broke down", chat_id, exc_info=error)
        if self._unsubscribe is None:
            return
        with suppress(AgentdError):  # it may be deleted by now, or not be readable any more
            self._consider(self._turns.summary(chat_id))
        self._dispatch()

    async def _work(self, chat_id: int) -> None:
        """Carry out the next prompt of a chat, from its queue to the end of its turn."""
        try:
            if await self._assigner.over_budget(chat_id):
                return
            chat = await self._turns.start(chat_id, self._assigner.choose)
        except NotFound:
            return
        except Unavailable as error:
            log.warning("chat %d cannot start its turn: %s", chat_id, error.message)
            self._busy.discard(chat_id)
            self._dispatch()
            await asyncio.sleep(RETRY_SECONDS)
            return
        if chat:
            await self._carry_out(chat)

    async def _carry_out(self, chat: Chat) -> None:
        started = chat.agent.turn
        assert started
        choice = self._assigner.choice(chat, started.given)
        now = self._clock.now()
        model = choice.model.name if choice.model else ""
        evidence = Evidence(started.id, choice.name, model, now, now)
        turn = Turn(choice.model.prices if choice.model else None)
        deferrals = chat.agent.deferrals
        work = Work(self._turns, self._clock, self._bus, chat.id, evidence, turn, deferrals)
        self._works[chat.id] = work
        place = partial(self._place, chat.id, asyncio.current_task())
        problem, assignment = choice.problem, None
        if not problem:
            try:
                assignment, problem = await self._assigner.assignment(chat, choice)
            except asyncio.CancelledError:
                await work.cancelled()
                raise
        if choice.engine and assignment:
            approver = self._approvals.of(chat.id, place)
            await work.follow(choice.engine, assignment, approver, place)
        else:
            await work.carry_out(turn.failed(problem), place)

    async def _end_interrupted(self, chat_id: int) -> None:
        now = self._clock.now()
        evidence = Evidence(0, "none", "", now, now)
        work = Work(self._turns, self._clock, self._bus, chat_id, evidence, Turn())
        place = partial(self._place, chat_id, asyncio.current_task())
        await work.carry_out(iter([End("interrupted", INTERRUPTED)]), place)

    def _place(self, chat_id: int, task: "asyncio.Task[None] | None", wanted: bool) -> None:
        """Give the place of a turn that waits for the disk or a person to another, or take it back.

        It is taken back at once: who answers a question sees its turn go on, though for a while
        one more is at work than the settings say.
        """
        if self._tasks.get(chat_id) is not task:
            return  # it has ended by now
        self._resting[chat_id] = self._resting.get(chat_id, 0) + (-1 if wanted else 1)
        if self._resting[chat_id] > 0:
            self._busy.discard(chat_id)
            self._dispatch()
        else:
            self._busy.add(chat_id)
