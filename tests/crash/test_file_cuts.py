"""Schedules, their runs, and decisions about workspaces outlive a power cut once acknowledged.

Where a sync of one of their writers is missing, the same cuts show it.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from agentd.agent.workspace_decisions import (
    DecisionFile,
    WorkspaceDecision,
    open_hook_decisions,
    open_server_decisions,
)
from agentd.core.errors import ConfigError
from agentd.schedules.model import Schedule, ScheduleProgress, ScheduleRun
from agentd.schedules.store import ProgressFile, ScheduleFile, load
from agentd.storage.layout import Layout
from tests.crash.power import build_cut_tree, lay_out
from tests.crash.power_cut import FORGET
from tests.crash.recorder import CallerNote, Event, Recorder

CUTS = 40
"""For each acknowledged change."""
NIGHTLY = Schedule("nightly", "0 3 * * *", "x")
AT = "2026-01-01T03:00:00.000Z"


def build_layout(folder: str) -> Layout:
    """Return both folders in one, as the recorder wants it."""
    return Layout(folder, folder)


async def change_schedules(layout: Layout, note: Callable[..., None]) -> None:
    """Add, change and remove schedules."""
    book = ScheduleFile(layout)
    changes: list[Callable[[], Awaitable[tuple[Schedule, ...] | None]]] = [
        lambda: book.add(NIGHTLY),
        lambda: book.add(Schedule("b", "@daily", "y")),
        lambda: book.change("b", Schedule("c", "@hourly", "z")),
        lambda: book.remove("nightly"),
    ]
    for change in changes:
        await change()
        note(load(layout))
    await book.file.stop()


async def change_progress(layout: Layout, note: Callable[..., None]) -> None:
    """Remember run after run."""
    store = ProgressFile(layout)
    known = ScheduleProgress(NIGHTLY.timing, AT)
    for number in range(4):
        known = known.with_run(ScheduleRun(AT, "hand", "completed", f"run {number}", chat=number))
        await asyncio.to_thread(store.save, {"nightly": known})
        note({"nightly": known})


async def change_decisions(
    open_file: Callable[[Layout], DecisionFile], layout: Layout, note: Callable[..., None]
) -> None:
    """Keep, replace and withdraw decisions."""
    file = open_file(layout)
    allowed, denied = (
        WorkspaceDecision("lint", digest, digest == "a", AT, "user:ann") for digest in "ab"
    )
    changes: list[Callable[[], object]] = [
        lambda: file.keep(allowed),
        lambda: file.keep(denied),
        lambda: file.keep(replace(allowed, allowed=False)),
        lambda: file.withdraw("b"),
    ]
    for change in changes:
        await asyncio.to_thread(change)
        note(file.load())


def read_server_decisions(layout: Layout) -> object:
    return open_server_decisions(layout).load()


def read_hook_decisions(layout: Layout) -> object:
    return open_hook_decisions(layout).load()


def read_schedules(layout: Layout) -> object:
    return load(layout)


def read_progress(layout: Layout) -> object:
    return ProgressFile(layout).load()


def find_losses(
    tmp_path: Path,
    change: Callable[[Layout, Callable[..., None]], Awaitable[None]],
    read: Callable[[Layout], object],
    forget: str,
) -> list[int]:
    """Return the acknowledged changes that cuts right after them lose."""
    here = tmp_path / "here"
    here.mkdir()
    recorder = Recorder(str(here), FORGET[forget])

    async def run() -> None:
        await change(build_layout(str(here)), recorder.note)

    with recorder.recording():
        asyncio.run(run())
    lost = []
    for at, event in enumerate(recorder.log, 1):
        if isinstance(event, CallerNote):
            lost += [at] * loses(recorder.log[:at], event.what[0], read, tmp_path / f"cut-{at}")
    return lost


def loses(
    log: list[Event], expected: object, read: Callable[[Layout], object], place: Path
) -> bool:
    """Return whether a cut at the end of the log loses what was acknowledged."""
    place.mkdir()
    for seed in range(CUTS):
        folder = str(place / str(seed))
        lay_out(build_cut_tree(log, random.Random(seed)), folder)  # noqa: S311
        try:
            if read(build_layout(folder)) != expected:
                return True
        except ConfigError:
            return True
    return False


WRITERS = pytest.mark.parametrize(
    ("change", "read"),
    [
        (change_schedules, read_schedules),
        (change_progress, read_progress),
        (partial(change_decisions, open_server_decisions), read_server_decisions),
        (partial(change_decisions, open_hook_decisions), read_hook_decisions),
    ],
    ids=["schedules.yml", "schedules.json", "mcp-decisions.json", "hook-decisions.json"],
)


@WRITERS
def test_no_power_cut_loses_what_was_acknowledged(tmp_path: Path, change, read) -> None:
    assert find_losses(tmp_path, change, read, "") == []
    assert len(os.listdir(tmp_path)) == 1 + 4, "not every change was cut"


@WRITERS
@pytest.mark.parametrize("forget", ["fsync", "folder"])
def test_the_same_cuts_find_each_sync_that_is_left_out(
    tmp_path: Path, change, read, forget: str
) -> None:
    assert find_losses(tmp_path, change, read, forget)
