"""The first report of a long history: its journals are read by processes of their own."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.chats.analytics import fold_ahead as module
from agentd.chats.analytics import store
from agentd.chats.analytics.events import AnalyticsProgress
from agentd.chats.analytics.fold_ahead import FoldProgress, fold_ahead, split_evenly
from agentd.chats.analytics.fold_child import FoldJob, fold_to_file
from agentd.chats.analytics.store import AnalyticsStore
from agentd.system.process import DAEMON
from tests.chats.analytics.test_store import EVER, count_turns, make_chat, report_usage
from tests.conftest import running_services


@pytest.fixture
def always(monkeypatch) -> None:
    """Also a short history is worth processes."""
    monkeypatch.setattr(module, "WORTH_IT", 1)


@pytest.fixture
def read_here(monkeypatch) -> list[str]:
    """The journals that this process reads itself."""
    found: list[str] = []
    fold = store.fold_journal

    def note_and_read(path, tally, end):
        if tally.size < end:
            found.append(path)
        return fold(path, tally, end)

    monkeypatch.setattr(store, "fold_journal", note_and_read)
    return found


def build_jobs(sizes: Sequence[int]) -> list[FoldJob]:
    return [FoldJob(number, "", size, "") for number, size in enumerate(sizes)]


@pytest.mark.gen_test
async def test_processes_read_what_is_not_remembered(layout, always, read_here):
    async with running_services(layout) as services:
        events: list[object] = []
        services.bus.subscribe(events.append)
        numbers = [await make_chat(services, turns) for turns in (1, 2, 3, 4)]
        size = sum(os.path.getsize(layout.get_journal_path(number)) for number in numbers)
        report = await report_usage(services)
    assert count_turns(report) == dict(zip(map(str, numbers), (1, 2, 3, 4), strict=True))
    assert read_here == []
    progress = [event for event in events if isinstance(event, AnalyticsProgress)]
    assert (progress[0].done, progress[-1].done) == (0, size)
    assert {event.total for event in progress} == {size}


@pytest.mark.gen_test
async def test_few_journals_are_read_without_processes(layout, read_here):
    async with running_services(layout) as services:
        number = await make_chat(services)
        await report_usage(services)
    assert read_here == [layout.get_journal_path(number)]


@pytest.mark.gen_test
async def test_what_a_process_fails_to_read_is_read_all_the_same(
    layout, always, read_here, monkeypatch
):
    monkeypatch.setattr(module.fold_child, "__name__", "agentd.no_such_program")
    async with running_services(layout) as services:
        number = await make_chat(services, 2)
        report = await report_usage(services)
    assert count_turns(report) == {str(number): 2}
    assert read_here == [layout.get_journal_path(number)]


@pytest.mark.gen_test
async def test_a_damaged_journal_is_told_as_before(layout, always):
    async with running_services(layout) as services:
        sound, damaged = await make_chat(services), await make_chat(services)
        journal = Path(layout.get_journal_path(damaged))
        text = journal.read_bytes()
        journal.write_bytes(text[: len(text) // 2] + b"#" + text[len(text) // 2 + 1 :])
        report = await report_usage(services)
        assert not os.path.exists(layout.get_chat_analytics_path(damaged))
    assert list(report.corrupt) == [damaged]
    assert count_turns(report)[str(sound)] == 1


@pytest.mark.gen_test
async def test_no_process_outlives_the_store(layout, always, monkeypatch, tmp_path):
    """The child's place is taken by one that never ends."""
    waiting = tmp_path / "waiting.py"
    waiting.write_text("import os, sys, time\nos.write(1, b'1\\n')\ntime.sleep(600)\n")
    monkeypatch.setattr(module.fold_child, "__name__", "waiting")
    monkeypatch.setattr(module, "package", str(tmp_path / "agentd" / "__init__.py"))
    began = asyncio.Event()
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.0)

    def publish(event: AnalyticsProgress) -> None:
        if event.done:
            began.set()

    async with running_services(layout) as services:
        await make_chat(services)
        mine = AnalyticsStore(layout, services.chats.list_summaries, publish)
        asking = asyncio.create_task(mine.report("day", *EVER))
        await began.wait()
        assert _find_processes("waiting")
        await mine.close()
        assert asking.cancelled() or isinstance(await _get_failure(asking), asyncio.CancelledError)
    assert not _find_processes("waiting")


async def _get_failure(task: "asyncio.Task[object]") -> BaseException | None:
    await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _find_processes(module_name: str) -> list[str]:
    """Return the programs with this module that were started by this process."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read().split(b"\0")
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        mine = f"{DAEMON}={os.getpid()}".encode()
        if module_name.encode() in command and mine in environment:
            found.append(pid)
    return found


@pytest.mark.gen_test
async def test_a_journal_that_grows_has_no_roll_up_of_its_beginning(layout):
    async with running_services(layout) as services:
        number = await make_chat(services)
        journal = Path(layout.get_journal_path(number))
        rollup = layout.get_chat_analytics_path(number)
        text = journal.read_bytes()
        job = FoldJob(number, str(journal), len(text), rollup)
        journal.write_bytes(text + b"{}\n")
        fold_to_file(job)
        assert not os.path.exists(rollup)


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 9))
def test_the_parts_hold_every_job_once_and_are_even(sizes, parts):
    jobs = build_jobs(sizes)
    found = split_evenly(jobs, parts)
    assert sorted((job for part in found for job in part), key=lambda job: job.chat) == jobs
    weights = [sum(job.size for job in part) for part in found]
    assert len(found) == min(parts, len(jobs))
    assert not weights or max(weights) - min(weights) <= max(sizes)


@given(st.lists(st.integers(0, 10**9), max_size=20), st.integers(1, 7))
def test_progress_adds_up_however_the_output_is_cut(sizes, step):
    told: list[int] = []
    progress = FoldProgress(sum(sizes), lambda done, _: told.append(done))
    listen = progress.listen()
    text = "".join(f"{size}\n" for size in sizes).encode()
    for start in range(0, len(text), step):
        listen(text[start : start + step])
    progress._told = float("-inf")
    listen(b"")
    assert told[-1] == sum(sizes)


@pytest.mark.gen_test
async def test_nothing_to_read_starts_nothing(monkeypatch):
    monkeypatch.setattr(module.process, "run", None)
    await fold_ahead([], lambda done, total: pytest.fail(f"{done} of {total}"))
