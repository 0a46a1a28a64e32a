"""Runs of schedules: begun when due, once, whatever dies when; followed to their end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from agentd.agent.engine import (
    RateLimited,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    UsageReported,
)
from agentd.chats.service import NewChat
from agentd.chats.worktree import WorktreeBase
from agentd.core.errors import Conflict, Unavailable
from agentd.schedules import service as module
from agentd.schedules.events import SchedulesUpdate
from agentd.schedules.model import RUNS_KEPT, ScheduleProgress, ScheduleRun
from agentd.schedules.run_prompts import RunPrompts
from agentd.schedules.service import BUSY, DELETED, MISSED, ScheduleService
from agentd.schedules.store import ProgressFile, ScheduleFile
from agentd.storage.layout import Layout
from tests.agent.test_dispatcher import ScriptedEngine
from tests.conftest import ME, Services, build_dispatcher, running_services, until

pytestmark = pytest.mark.gen_test

HOUR = 3600
NIGHTLY = "schedules:\n- {name: nightly, cron: '0 3 * * *', prompt: test it"


class NoWorktrees:
    async def plan(self) -> WorktreeBase:
        raise Conflict("There is no repository")


class KnownSkills:
    async def is_known(self, name: str) -> bool:
        return name == "none"


class Daemon(NamedTuple):
    """A daemon's schedules; the clock stands until it is moved."""

    services: Services
    schedules: ScheduleService
    book: ScheduleFile
    engine: ScriptedEngine

    async def move(self, seconds: float) -> None:
        """Move the clock, and wait until what is due then is decided."""
        self.services.clock.move(seconds)
        await self.schedules._check()

    def list_runs(self, name: str = "nightly") -> list[ScheduleRun]:
        return list(self.schedules.list_runs(name))

    async def wait_for_states(self, *states: str, name: str = "nightly") -> list[ScheduleRun]:
        await until(lambda: tuple(run.state for run in self.list_runs(name)) == states)
        return self.list_runs(name)


@asynccontextmanager
async def serving(
    layout: Layout, later: float = 0, *, crash: bool = False, store: ProgressFile | None = None
) -> AsyncIterator[Daemon]:
    """Run a daemon's schedules, so many seconds after 2026-01-01T00:00Z."""
    async with running_services(layout, crash=crash) as services:
        services.clock.move(later)
        engine = ScriptedEngine()
        await services.turns.end_interrupted()
        dispatcher = build_dispatcher(services, engine)
        book = ScheduleFile(layout)
        await book.file.refresh()
        schedules = ScheduleService(
            book,
            store or ProgressFile(layout),
            services.chats,
            RunPrompts(services.chats, NoWorktrees(), KnownSkills()),
            services.clock,
            services.bus,
        )
        dispatcher.start(services.chats.list_summaries())
        await schedules.start()
        await schedules._check()
        yield Daemon(services, schedules, book, engine)
        await schedules.stop()
        await dispatcher.stop(5)
        await book.file.stop()


def write(layout: Layout, text: str) -> None:
    Path(layout.config).mkdir(exist_ok=True)
    Path(layout.schedules).write_text(text)


async def test_a_run_begins_when_it_is_due_in_a_chat_of_its_own_and_is_followed(layout):
    write(layout, f"{NIGHTLY}}}")
    async with serving(layout) as daemon:
        daemon.engine.go.clear()
        await daemon.move(3 * HOUR - 1)
        assert daemon.list_runs() == []
        await daemon.move(1)
        (run,) = await daemon.wait_for_states("running")
        assert (run.due, run.cause) == ("2026-01-01T03:00:00.000Z", "due")
        daemon.engine.go.set()
        (run,) = await daemon.wait_for_states("completed")
        chat = daemon.services.chats.get_summary(run.chat)
        assert (chat.title, chat.cost) == ("nightly", run.cost)
        assert daemon.engine.prompts == ["test it"]
        await daemon.move(24 * HOUR)
        runs = await daemon.wait_for_states("completed", "completed")
        assert runs[0].chat != runs[1].chat
        assert any(isinstance(event, SchedulesUpdate) for event in daemon.services.heard)


async def test_runs_in_one_chat_cost_what_each_turn_cost(layout):
    async def reply(assignment):
        yield ReplyCompleted("done", cost=Decimal(2))

    async with serving(layout) as daemon:
        daemon.engine._script = reply
        chat = (await daemon.services.chats.create(NewChat(prompt="by hand"), ME)).id
        await daemon.services.chats.wait_until_idle(chat, 60)
        write(layout, f"{NIGHTLY}, chat: {chat}}}")
        await daemon.move(0)
        await daemon.move(3 * HOUR)
        await daemon.wait_for_states("completed")
        await daemon.move(24 * HOUR)
        runs = await daemon.wait_for_states("completed", "completed")
        assert [(run.chat, run.cost) for run in runs] == [(chat, Decimal(2))] * 2


@pytest.mark.parametrize("policy", ["skip", "once"])
async def test_what_was_missed_while_the_daemon_was_off_is_skipped_or_run_once(layout, policy):
    write(layout, f"{NIGHTLY}, missed: {policy}}}")
    async with serving(layout):
        pass
    async with serving(layout, 80 * HOUR) as daemon:
        if policy == "skip":
            (run,) = daemon.list_runs()
            assert (run.state, run.note) == ("skipped", MISSED)
        else:
            (run,) = await daemon.wait_for_states("completed")
            assert daemon.engine.prompts == ["test it"]
        assert (run.due, run.cause, run.missed) == ("2026-01-04T03:00:00.000Z", "missed", 3)
    async with serving(layout, 81 * HOUR) as daemon:
        assert len(daemon.list_runs()) == 1
        assert daemon.engine.prompts == []


async def test_a_run_that_would_overlap_is_skipped_unless_it_may(layout):
    write(layout, f"{NIGHTLY}}}\n- {{name: both, cron: '0 3 * * *', prompt: x, overlap: queue}}")
    async with serving(layout) as daemon:
        daemon.engine.go.clear()
        await daemon.move(3 * HOUR)
        await daemon.move(24 * HOUR)
        first, second = daemon.list_runs()
        assert (second.state, second.note, second.chat) == ("skipped", BUSY, 0)
        assert [run.state in ("queued", "running") for run in daemon.list_runs("both")] == [
            True
        ] * 2
        daemon.engine.go.set()
        await daemon.wait_for_states("completed", "skipped")
        assert first.chat


async def test_paused_times_and_times_before_an_edit_were_not_missed(layout):
    write(layout, f"{NIGHTLY}, missed: once, paused: true}}")
    async with serving(layout) as daemon:
        await daemon.move(50 * HOUR)
        write(layout, f"{NIGHTLY}, missed: once}}")
        await daemon.move(0)
        write(layout, f"{NIGHTLY.replace('0 3', '0 1')}, missed: once}}")
        await daemon.move(1)
        assert daemon.list_runs() == []
        await daemon.move(24 * HOUR)
        await daemon.wait_for_states("completed")


async def test_a_chat_that_is_held_or_gone_gets_no_prompt(layout):
    async with serving(layout) as daemon:
        chat = (await daemon.services.chats.create(NewChat(), ME)).id
        await daemon.services.chats.hold_queue(chat, "Quiet.", ME)
        write(
            layout,
            f"{NIGHTLY}, chat: {chat}}}\n- {{name: gone, cron: '0 3 * * *', prompt: x, chat: 99}}",
        )
        await daemon.move(0)
        await daemon.move(3 * HOUR)
        (run,) = daemon.list_runs()
        assert (run.state, run.note) == ("skipped", "The queue of its chat is held: Quiet.")
        (run,) = daemon.list_runs("gone")
        assert (run.state, run.note) == ("failed", "Chat 99 not found")


async def test_a_prompt_that_is_removed_and_a_chat_that_is_deleted_end_their_runs(layout):
    async with serving(layout) as daemon:
        chats = daemon.services.chats
        chat = (await chats.create(NewChat(), ME)).id
        daemon.engine.go.clear()
        await chats.append_prompt(chat, "long", "", ME)
        write(layout, f"{NIGHTLY}, chat: {chat}}}\n- {{name: own, cron: '0 3 * * *', prompt: x}}")
        await daemon.move(0)
        await daemon.move(3 * HOUR)
        (run,) = daemon.list_runs()
        await chats.remove_prompt(chat, run.prompt, ME)
        await daemon.wait_for_states("stopped")
        daemon.engine.go.set()


async def test_a_run_by_hand_leaves_the_times_as_they_are(layout):
    write(layout, f"{NIGHTLY}, paused: true}}")
    async with serving(layout) as daemon:
        run = await daemon.schedules.run_now("nightly")
        assert run.cause == "hand"
        await daemon.wait_for_states("completed")


async def test_a_clock_that_is_set_back_repeats_nothing_and_does_not_stop_a_schedule(layout):
    write(layout, f"{NIGHTLY}}}")
    async with serving(layout) as daemon:
        await daemon.move(3 * HOUR + 600)
        await daemon.wait_for_states("skipped")
        await daemon.move(-1200)  # a little: what is decided stays decided
        (nightly,) = await daemon.schedules.list_schedules()
        assert await daemon.schedules.find_next(nightly) == "2026-01-02T03:00:00.000Z"
        await daemon.move(1000)
        assert len(daemon.list_runs()) == 1
        await daemon.move(365 * 24 * HOUR)  # a wrong year ...
        await daemon.move(-365 * 24 * HOUR)  # ... and back
        await daemon.move(24 * HOUR - 400)
        assert daemon.list_runs()[-1].due == "2026-01-02T03:00:00.000Z"


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
async def test_a_start_with_a_clock_far_behind_repeats_no_run_once_it_is_corrected(layout, times):
    write(layout, f"{NIGHTLY}, missed: once}}")
    async with serving(layout) as daemon:
        await daemon.move(0)
        await daemon.move(3 * HOUR)
        await daemon.wait_for_states("completed")
        for _ in range(times):  # such as at each start of a machine whose battery is empty
            await daemon.move(-6 * 365 * 24 * HOUR)
            await daemon.move(60)
        await daemon.move(times * 6 * 365 * 24 * HOUR)
        await daemon.move(20 * HOUR)
        (run,) = daemon.list_runs()
        assert (run.cause, run.missed) == ("due", 0)
        assert len(daemon.services.chats.list_summaries()) == 1
        await daemon.move(HOUR * 28)
        await daemon.wait_for_states("completed", "completed")
        assert [(run.due[:13], run.missed) for run in daemon.list_runs()][1:] == [
            ("2026-01-03T03", 1)
        ]


class DyingStore(ProgressFile):
    """A disk that takes so many more writes: then the daemon is dead."""

    def __init__(self, layout: Layout, writes: int) -> None:
        super().__init__(layout)
        self.writes = writes

    def save(self, schedules):
        if self.writes <= 0:
            raise Unavailable("dead")
        self.writes -= 1
        super().save(schedules)


class FailingStore(ProgressFile):
    """A disk that takes nothing while it is ``full``."""

    full = False

    def save(self, schedules):
        if self.full:
            raise Unavailable("full")
        super().save(schedules)


async def test_a_run_whose_end_cannot_be_kept_is_ended_once_it_can(layout, monkeypatch):
    """Otherwise it would be under way for ever, and each later run be skipped because of it."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    write(layout, f"{NIGHTLY}, paused: true}}")
    store = FailingStore(layout)
    async with serving(layout, store=store) as daemon:
        daemon.engine.go.clear()
        run = await daemon.schedules.run_now("nightly")
        await daemon.wait_for_states("running")
        store.full = True
        daemon.engine.go.set()
        await until(lambda: not daemon.services.chats.get_summary(run.chat).working)
        await until(lambda: daemon.schedules._unfollowed)
        store.full = False
        await daemon.wait_for_states("completed")


async def test_what_is_due_at_the_same_time_is_not_missed_though_the_disk_is_slow(layout):
    class SlowStore(ProgressFile):
        def save(self, schedules):
            super().save(schedules)
            daemon.services.clock.move(20)

    names = ["a", "b", "c", "d"]
    lines = [f"- {{name: {name}, cron: '0 3 * * *', prompt: x}}" for name in names]
    write(layout, "\n".join(["schedules:", *lines]))
    async with serving(layout):
        pass
    async with serving(layout, HOUR, store=SlowStore(layout)) as daemon:
        await daemon.move(2 * HOUR)
        for name in names:
            (run,) = daemon.list_runs(name)
            assert (run.cause, run.state) != ("missed", "skipped")


@pytest.mark.parametrize("turns", range(6))
async def test_a_change_at_the_moment_of_the_stop_does_not_hold_it_up(layout, turns):
    write(layout, f"{NIGHTLY}}}")
    async with asyncio.timeout(30), serving(layout) as daemon:
        await until(lambda: daemon.schedules._changed._waiters)
        daemon.schedules.on_changed()
        for _ in range(turns):  # of the loop
            await asyncio.sleep(0)


async def test_a_schedule_with_another_name_keeps_its_history_and_one_that_is_gone_does_not(layout):
    write(layout, f"{NIGHTLY}}}\n- {{name: gone, cron: '0 3 * * *', prompt: x}}")
    async with serving(layout) as daemon:
        daemon.engine.go.clear()
        await daemon.move(3 * HOUR)
        await daemon.wait_for_states("running")
        before, _ = await daemon.book.get_schedules()
        await daemon.book.change("nightly", module.replace(before, name="daily"))
        await daemon.book.remove("gone")
        await daemon.move(0)
        daemon.engine.go.set()
        await daemon.wait_for_states("completed", name="daily")
        assert (daemon.list_runs(), daemon.list_runs("gone")) == ([], [])
    async with serving(layout, 4 * HOUR) as daemon:
        assert [run.state for run in daemon.list_runs("daily")] == ["completed"]


async def test_a_file_that_is_not_valid_at_the_start_loses_no_history(layout):
    write(layout, f"{NIGHTLY}, missed: once}}")
    async with serving(layout) as daemon:
        await daemon.move(3 * HOUR)
        await daemon.wait_for_states("completed")
    write(layout, NIGHTLY)
    async with serving(layout, 40 * HOUR) as daemon:
        await daemon.move(0)
        write(layout, f"{NIGHTLY}, missed: once}}")
        await daemon.move(0)
        runs = await daemon.wait_for_states("completed", "completed")
        assert [run.cause for run in runs] == ["due", "missed"]


@pytest.mark.parametrize("writes", range(6))
@pytest.mark.parametrize("same_chat", [False, True])
async def test_wherever_the_daemon_is_killed_a_firing_is_run_once(
    layout, monkeypatch, writes, same_chat
):
    """With ``missed: once``: never twice, never forgotten."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 3600.0)
    async with serving(layout) as daemon:
        chat = (await daemon.services.chats.create(NewChat(), ME)).id
        own = f", chat: {chat}" if same_chat else ""
        write(layout, f"{NIGHTLY}, missed: once{own}}}")
        await daemon.move(0)
    prompts: list[str] = []
    store = DyingStore(layout, writes)
    async with serving(layout, HOUR, crash=True, store=store) as daemon:
        try:
            await daemon.move(2 * HOUR)
        except Unavailable:
            await asyncio.sleep(0)
        else:
            await until(lambda: not daemon.services.chats.get_summary(chat).working)
        store.writes = 0
        await until(lambda: not any(one.working for one in daemon.services.chats.list_summaries()))
    prompts += daemon.engine.prompts
    async with serving(layout, 60 * HOUR) as daemon:
        runs = daemon.list_runs()
        await until(lambda: not any(run.is_open for run in daemon.list_runs()))
        prompts += daemon.engine.prompts
        days = {run.due[:10] for run in runs if run.state != "skipped"}
    assert "2026-01-03" in days
    assert len(prompts) == len(days)


async def test_a_run_that_a_crash_kept_from_being_queued_is_begun_after_it(layout):
    write(layout, f"{NIGHTLY}, missed: once}}")
    async with serving(layout):
        pass
    store, due = ProgressFile(layout), "2026-01-01T03:00:00.000Z"
    begun = ScheduleRun(due, "due", "queued", f"schedule nightly {due}", due)
    store.save({"nightly": replace(store.load()["nightly"], considered=due, begun=begun)})
    async with serving(layout, 3 * HOUR + 600) as daemon:
        (run,) = await daemon.wait_for_states("completed")
        assert (run.due, run.cause) == (due, "missed")
        assert len(daemon.engine.prompts) == 1


async def test_only_the_latest_runs_are_remembered():
    known = ScheduleProgress(("0 3 * * *", "UTC", False), "")
    for number in range(RUNS_KEPT + 2):
        known = known.with_run(ScheduleRun("", "due", "completed", str(number)))
    assert [int(run.key) for run in known.runs] == list(range(2, RUNS_KEPT + 2))


async def test_deleted_chats_of_runs_are_told(layout):
    write(layout, f"{NIGHTLY}}}")
    async with serving(layout) as daemon:
        daemon.engine.go.clear()
        await daemon.move(3 * HOUR)
        (run,) = await daemon.wait_for_states("running")
        lost = module.replace(run, chat=77)
        known = daemon.schedules._progress["nightly"]
        daemon.schedules._progress["nightly"] = known.with_run(lost)
        await daemon.schedules._follow("nightly", lost)
        assert daemon.list_runs()[0].note == DELETED
        daemon.engine.go.set()


async def test_a_run_that_costs_its_budget_is_ended_and_says_so(layout):
    done = []

    async def work(assignment):
        for step in range(9):
            yield UsageReported(cost=Decimal("0.3"))
            yield ToolStarted("look", str(step))
            done.append(step)
            yield ToolUsed("look", str(step), "seen")
        yield ReplyCompleted("done")

    write(layout, f"{NIGHTLY}, budget: 0.5}}")
    async with serving(layout) as daemon:
        daemon.engine._script = work
        await daemon.move(3 * HOUR)
        (run,) = await daemon.wait_for_states("failed")
        assert run.note == "The turn was ended: it cost 0.6 USD, its limit is 0.5 USD."
        assert (run.cost, done) == (Decimal("0.6"), [0])
        chat = daemon.services.chats.get_summary(run.chat)
        assert (chat.cost, chat.held) == (Decimal("0.6"), "")


async def test_what_a_limit_put_back_into_the_queue_counts_to_the_budget(layout):
    tries = []

    async def work(assignment):
        tries.append(assignment)
        yield UsageReported(cost=Decimal("0.3"))
        if len(tries) == 1:
            yield RateLimited("too much", seconds=1)
            return
        yield ToolStarted("look", "b")
        yield ReplyCompleted("done")

    write(layout, f"{NIGHTLY}, budget: 0.5}}")
    async with serving(layout) as daemon:
        daemon.engine._script = work
        await daemon.move(3 * HOUR)
        await until(lambda: len(tries) == 1 and daemon.list_runs()[0].state == "queued")
        chat = daemon.list_runs()[0].chat
        await daemon.services.chats.release_queue(chat, ME)
        (run,) = await daemon.wait_for_states("failed")
        assert "its limit is 0.2 USD" in run.note
        assert run.cost == Decimal("0.6")
