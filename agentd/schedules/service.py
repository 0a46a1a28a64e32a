"""Begins the runs of schedules when they are due, and follows them to their end.

A firing is decided once. Before its prompt is queued, the run is written down with a key; the
chat's journal keeps that key with the prompt. So what a crash leaves shows whether the run was
begun: it is neither begun twice nor, with ``missed: once``, forgotten.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Protocol

from msgspec.structs import replace

from agentd.chats.events import ChatDeletedUpdate, ChatStateEvent, ChatUpdate
from agentd.chats.service import ChatService
from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError, NotFound
from agentd.core.events import EventBus
from agentd.core.tasks import BackgroundTasks, cancel_task
from agentd.schedules.cron import DueFiring, find_due, find_next_firing, find_soonest
from agentd.schedules.events import SchedulesUpdate
from agentd.schedules.model import (
    RunCause,
    Schedule,
    ScheduleProgress,
    ScheduleRun,
    find_index,
    judge_run,
    keep_listed,
)
from agentd.schedules.run_prompts import RunPrompts

log = logging.getLogger(__name__)

LONGEST_SLEEP = 60.0
"""Seconds after which the time is looked at again: the machine's clock may have jumped."""
RETRY_SECONDS = 5.0
"""Seconds after which a disk that took or gave nothing is tried again."""
MOST_AHEAD = 3600.0
"""Seconds by which a decided firing may be ahead of the clock, which was set back."""
MISSED = "It was missed: agentd, or the machine, was off."
BUSY = "The run before it had not ended."
LOST = "agentd ended before it had begun."
DELETED = "Its chat was deleted."


class ScheduleStore(Protocol):
    """The schedules (``schedules.store.ScheduleFile``)."""

    async def get_schedules(self) -> tuple[Schedule, ...]:
        """Return all of them, in their order."""
        ...

    @property
    def is_complete(self) -> bool:
        """False where schedules may be missing, since their file is not valid."""
        ...

    @property
    def new_names(self) -> dict[str, str]:
        """The new names of renamed schedules, by the old ones."""
        ...


class ProgressStore(Protocol):
    """What is remembered (``schedules.store.ProgressFile``). Its methods block."""

    def load(self) -> dict[str, ScheduleProgress]:
        """Return it, by name. ``ConfigError``."""
        ...

    def save(self, schedules: dict[str, ScheduleProgress]) -> None:
        """Store it durably. ``Unavailable``."""
        ...


class ScheduleService:
    """The schedules at work."""

    def __init__(
        self,
        schedules: ScheduleStore,
        progress_store: ProgressStore,
        chats: ChatService,
        prompts: RunPrompts,
        clock: Clock,
        bus: EventBus,
    ) -> None:
        self._schedules = schedules
        self._progress_store = progress_store
        self._chats = chats
        self._prompts = prompts
        self._clock = clock
        self._bus = bus
        self._progress: dict[str, ScheduleProgress] = {}
        self._unfollowed: set[tuple[str, str]] = set()
        """Schedules and keys of runs whose state could not be read or kept: it is tried again."""
        self._working = asyncio.Lock()
        """Held while firings are decided and runs begun."""
        self._saving = asyncio.Lock()
        self._changed = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._keeper: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Settle what a crash left, and begin what is due from now on."""
        try:
            self._progress = await asyncio.to_thread(self._progress_store.load)
        except AgentdError as error:
            log.error("schedules begin anew: %s", error.message)
        self._unsubscribe = self._bus.subscribe_to((ChatStateEvent,), self._on_chat_changed)
        for name in list(self._progress):
            await self._recover(name)
        self._keeper = asyncio.create_task(self._keep_time())

    async def stop(self) -> None:
        """Begin nothing more."""
        self._unsubscribe()
        if self._keeper:
            await cancel_task(self._keeper)
        await self._tasks.wait()

    def on_changed(self) -> None:
        """Use schedules that changed."""
        self._changed.set()
        self._bus.publish(SchedulesUpdate(""))

    async def list_schedules(self) -> tuple[Schedule, ...]:
        """Return all schedules."""
        return await self._schedules.get_schedules()

    async def check_chat(self, schedule: Schedule) -> None:
        """Do as ``RunPrompts.check_chat``."""
        self._prompts.check_chat(schedule, await self._schedules.get_schedules())

    def list_runs(self, name: str) -> tuple[ScheduleRun, ...]:
        """Return the latest runs of a schedule, the newest last."""
        known = self._progress.get(name)
        return known.runs if known else ()

    async def find_next(self, schedule: Schedule) -> Timestamp:
        """Return the next firing; empty: it is paused, or there is none."""
        if schedule.paused:
            return ""
        now, known = self._clock.now(), self._progress.get(schedule.name)
        after = max(f"{now[:17]}00.000Z", _find_considered(known, schedule, now))
        return await asyncio.to_thread(find_next_firing, schedule.cron, schedule.zone, after)

    async def run_now(self, name: str) -> ScheduleRun:
        """Begin a run by hand, whatever the schedule says; ``NotFound``."""
        listed = await self._schedules.get_schedules()
        schedule = listed[find_index(listed, name)]
        async with self._working:
            await self._anchor(schedule)
            return await self._begin(schedule, self._clock.now(), "hand", 0)

    async def _keep_time(self) -> None:
        while True:
            self._changed.clear()
            try:
                seconds = await self._check()
            except AgentdError as error:
                log.warning("the schedules wait: %s", error.message)
                seconds = RETRY_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def _check(self) -> float | None:
        """Begin what is due; return the seconds until the next look, None: after a change."""
        now = self._clock.now()  # the time that all are decided at, however long that takes
        listed = await self._schedules.get_schedules()
        async with self._working:
            if self._schedules.is_complete:
                await self._forget_others(listed)
            await self._follow_again()
            for schedule in listed:
                await self._anchor(schedule)
                if not schedule.paused:
                    await self._decide(schedule, now)
        if self._unfollowed:
            return RETRY_SECONDS
        active = [(one, self._progress[one.name].considered) for one in listed if not one.paused]
        soonest = await asyncio.to_thread(find_soonest, active)
        if not soonest:
            return None
        left = parse_iso(soonest) - parse_iso(self._clock.now())
        return min(max(left.total_seconds(), 0.0), LONGEST_SLEEP)

    async def _forget_others(self, listed: Iterable[Schedule]) -> None:
        known = keep_listed(self._progress, listed, self._schedules.new_names)
        if known != self._progress:
            self._progress = known
            await self._save()
            self._bus.publish(SchedulesUpdate(""))

    async def _anchor(self, schedule: Schedule) -> None:
        """Begin to count from now on if the schedule is new, or its times were changed."""
        known, now = self._progress.get(schedule.name), self._clock.now()
        if _find_considered(known, schedule, now):
            return
        await self._keep(schedule.name, _count_from(now, known, schedule))

    async def _decide(self, schedule: Schedule, now: Timestamp) -> None:
        known = self._progress[schedule.name]
        if known.passed and known.passed <= now:  # nothing was missed while the clock was behind
            known = replace(known, considered=known.passed, passed="")
            await self._keep(schedule.name, known, quiet=True)
        due = await asyncio.to_thread(find_due, schedule, known.considered, now)
        if due is None:
            return
        if due.late and schedule.missed == "skip":
            await self._skip(schedule, due, "missed", MISSED)
        elif held := self._prompts.explain_hold(schedule):
            await self._skip(schedule, due, "missed" if due.late else "due", held)
        elif schedule.overlap == "skip" and any(run.is_open for run in known.runs):
            await self._skip(schedule, due, "missed" if due.late else "due", BUSY)
        else:
            await self._begin(schedule, due.at, "missed" if due.late else "due", due.earlier)

    async def _skip(self, schedule: Schedule, due: DueFiring, cause: RunCause, why: str) -> None:
        key, now = _make_key(schedule.name, due.at), self._clock.now()
        run = ScheduleRun(due.at, cause, "skipped", key, missed=due.earlier, ended_at=now, note=why)
        known = self._progress[schedule.name]
        await self._keep(schedule.name, replace(known.with_run(run), considered=due.at))

    async def _begin(
        self, schedule: Schedule, due: Timestamp, cause: RunCause, missed: int
    ) -> ScheduleRun:
        """Write down that a run is begun, queue its prompt, and write down that it is."""
        known, now = self._progress[schedule.name], self._clock.now()
        run = ScheduleRun(due, cause, "queued", _make_key(schedule.name, due), now, missed)
        considered = known.considered if cause == "hand" else due
        known = replace(known, begun=run, considered=considered)
        await self._keep(schedule.name, known, quiet=True)
        try:
            before = self._prompts.get_cost_before(schedule)
            chat, prompt = await self._prompts.queue(schedule, run.key)
            run = replace(run, chat=chat, prompt=prompt, cost_before=before)
        except AgentdError as error:
            log.warning("the schedule %s cannot run: %s", schedule.name, error.message)
            run = replace(run, state="failed", ended_at=now, note=error.message)
        await self._keep(schedule.name, self._progress[schedule.name].with_run(run))
        await self._follow(schedule.name, run)
        return next(one for one in self.list_runs(schedule.name) if one.key == run.key)

    async def _recover(self, name: str) -> None:
        """Settle a run that a crash interrupted while it was begun, and those that were open."""
        known = self._progress[name]
        if begun := known.begun:
            try:
                listed = {one.name: one for one in await self._schedules.get_schedules()}
                run = await self._prompts.find_begun(begun, listed.get(name))
            except AgentdError as error:  # the chat cannot be read: better no run than a second
                now = self._clock.now()
                run = replace(begun, state="failed", ended_at=now, note=error.message)
            known = known.with_run(run) if run else _give_back(known, self._clock.now())
            self._progress[name] = known
            try:
                await self._save()
            except AgentdError as error:  # the file has it as a run that is begun, as before
                log.warning("the schedule %s is not kept: %s", name, error.message)
        for run in known.runs:
            if run.is_open:
                await self._follow(name, run)

    def _on_chat_changed(self, event: ChatStateEvent) -> None:
        reason = event.reason if isinstance(event, ChatUpdate) else ""
        if isinstance(event, ChatDeletedUpdate) or reason.startswith(("turn.", "queue.")):
            for name, known in list(self._progress.items()):
                for run in known.runs:
                    if run.is_open and run.chat == event.chat.id:
                        before = event.chat.cost if reason == "turn.started" else None
                        self._tasks.start(self._follow(name, run, before))

    async def _follow(self, name: str, run: ScheduleRun, before: Decimal | None = None) -> None:
        """Take over the state of an open run from its chat, now or as soon as that can be done."""
        place = name, run.key
        try:
            await self._take_over(name, run, before)
        except AgentdError as error:
            if place not in self._unfollowed:
                log.warning("a run of the schedule %s is not followed: %s", name, error.message)
                self._unfollowed.add(place)
                self._changed.set()
        else:
            self._unfollowed.discard(place)

    async def _follow_again(self) -> None:
        """Follow the runs whose state could not be read or kept before."""
        known = {(name, run.key): run for name in self._progress for run in self.list_runs(name)}
        self._unfollowed &= known.keys()
        for name, key in tuple(self._unfollowed):
            await self._follow(name, known[name, key])

    async def _take_over(self, name: str, run: ScheduleRun, before: Decimal | None) -> None:
        """Take over the state of an open run from its chat, which had cost ``before`` its turn."""
        if not run.is_open:
            return
        now = self._clock.now()
        try:
            chat = await self._chats.get(run.chat)
            seen = judge_run(run, chat, before, now)
        except NotFound:
            seen = replace(run, state="stopped", ended_at=now, note=DELETED)
        known = self._progress.get(name)
        latest = next((one for one in known.runs if one.key == run.key), None) if known else None
        if known and latest and latest.is_open and seen != latest:
            await self._keep(name, known.with_run(seen))

    async def _keep(self, name: str, known: ScheduleProgress, *, quiet: bool = False) -> None:
        before = self._progress.get(name)
        self._progress[name] = known
        try:
            await self._save()
        except AgentdError:
            if before and self._progress.get(name) is known:
                self._progress[name] = before
            raise
        if not quiet:
            self._bus.publish(SchedulesUpdate(name))

    async def _save(self) -> None:
        async with self._saving:
            await asyncio.to_thread(self._progress_store.save, dict(self._progress))


def _make_key(name: str, due: Timestamp) -> str:
    """Return the key of a run; a caller's ``Idempotency-Key`` never has this form."""
    return f"schedule {name} {due}"


def _find_considered(
    known: ScheduleProgress | None, schedule: Schedule, now: Timestamp
) -> Timestamp:
    """Return up to when firings are decided; empty: they are to be counted from now on.

    A clock that was set back by at most ``MOST_AHEAD`` repeats none of them. Where it was by more,
    they are decided by its time until it is corrected, and then continue from before.
    """
    if known is None or known.timing != schedule.timing:
        return ""
    ahead = parse_iso(known.considered) - parse_iso(now)
    return known.considered if ahead.total_seconds() <= MOST_AHEAD else ""


def _count_from(
    now: Timestamp, known: ScheduleProgress | None, schedule: Schedule
) -> ScheduleProgress:
    runs = known.runs if known else ()
    passed = ""
    if known and known.timing == schedule.timing:  # it may be set back more than once
        passed = max(known.considered, known.passed)
    return ScheduleProgress(schedule.timing, now, None, runs, passed)


def _give_back(known: ScheduleProgress, now: Timestamp) -> ScheduleProgress:
    """Undo the decision of a run that was never begun: its time was missed."""
    run = known.begun
    assert run
    if run.cause == "hand":
        return known.with_run(replace(run, state="skipped", ended_at=now, note=LOST))
    before = format_iso(parse_iso(run.due) - timedelta(seconds=1))
    return replace(known, begun=None, considered=before)
