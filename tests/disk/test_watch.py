"""Whatever an editor does to a file in a watched folder is heard of."""

import asyncio
import errno
import logging
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from watchdog.events import FileModifiedEvent

from agentd.disk import watch
from agentd.disk.watch import Watcher

NEVER = 3600.0
"""So long between two scans that only the observer can have woken one."""


class Ear:
    """Notes the names that it is told."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def hears(self, name: str) -> None:
        async with asyncio.timeout(60):
            while await self.heard.get() != name:
                pass

    async def hears_nothing(self) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.heard.get(), 0.2)


def watching(
    folder: Path, test: Callable[[Watcher, Ear], Awaitable[None]], every: float = NEVER
) -> None:
    async def run() -> None:
        ear, watcher = Ear(), Watcher()
        watcher.add(str(folder), ear.heard.put_nowait)
        await watcher.start()
        try:
            await test(watcher, ear)
        finally:
            await watcher.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "EVERY", every)
        asyncio.run(run())


def in_place(path: Path) -> None:
    path.write_text("new")


def renamed_over(path: Path) -> None:
    path.with_suffix(".new").write_text("new")
    os.rename(path.with_suffix(".new"), path)


def from_elsewhere(path: Path) -> None:
    (path.parent.parent / "elsewhere").write_text("new")
    os.rename(path.parent.parent / "elsewhere", path)


def deleted(path: Path) -> None:
    path.unlink()


def by_sed(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/o/n/", path], check=True)


def mode(path: Path) -> None:
    path.chmod(0o400)


def same_size_same_time(path: Path) -> None:
    info = path.stat()
    path.write_text("NEW")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


STYLES = [in_place, renamed_over, from_elsewhere, deleted, by_sed, mode, same_size_same_time]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "agentd.yml").write_text("old")
    while True:  # until the file system's clock has gone on
        (tmp_path / "now").write_text("")
        if (tmp_path / "now").stat().st_ctime_ns > (folder / "agentd.yml").stat().st_ctime_ns:
            break
    return folder


@pytest.mark.parametrize("edit", STYLES)
@pytest.mark.parametrize("every", [NEVER, 0.02])
def test_every_way_of_saving_is_heard_with_and_without_inotify(folder, edit, every, monkeypatch):
    if every != NEVER:
        _without_inotify(monkeypatch)

    async def test(watcher: Watcher, ear: Ear) -> None:
        assert bool(watcher.polling) == (every != NEVER)
        edit(folder / "agentd.yml")
        await ear.hears("agentd.yml")

    watching(folder, test, every)


def _without_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr("watchdog.observers.Observer", none_left)


def test_without_inotify_that_is_told_once(folder, monkeypatch, caplog):
    _without_inotify(monkeypatch)

    async def test(watcher: Watcher, ear: Ear) -> None:
        for text in ("a", "bb", "ccc"):
            (folder / "agentd.yml").write_text(text)
            await ear.hears("agentd.yml")
        assert "instance limit" in watcher.polling

    with caplog.at_level(logging.WARNING):
        watching(folder, test, 0.02)
    assert len(caplog.records) == 1


def test_an_edit_after_an_edit_is_heard_too(folder):
    async def test(_: Watcher, ear: Ear) -> None:
        for _ in range(10):
            renamed_over(folder / "agentd.yml")
            await ear.hears("agentd.yml")

    watching(folder, test)


def test_reading_is_no_change_and_neither_is_a_folder_or_a_file_half_written(folder):
    async def test(_: Watcher, ear: Ear) -> None:
        (folder / "agentd.yml").read_text()
        (folder / ".tmp-agentd.yml-1").write_text("half")
        (folder / "folder").mkdir()
        (folder / "folder" / "inside").write_text("x")
        await ear.hears_nothing()

    watching(folder, test, 0.02)


def test_a_folder_behind_a_link_is_watched(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)

    async def test(_: Watcher, ear: Ear) -> None:
        (folder / "agentd.yml").write_text("new")
        await ear.hears("agentd.yml")

    watching(link, test)


def test_a_folder_that_comes_later_is_watched_from_then_on(tmp_path):
    folder = tmp_path / "later"

    async def test(watcher: Watcher, ear: Ear) -> None:
        folder.mkdir()
        (folder / "a").write_text("1")
        await ear.hears("a")
        assert watcher._folders[0].identity

    watching(folder, test, 0.02)


def test_a_folder_that_was_deleted_and_made_again_is_watched_again(folder):
    async def test(_: Watcher, ear: Ear) -> None:
        for _ in range(2):
            shutil.rmtree(folder)
            await ear.hears("agentd.yml")
            folder.mkdir()
            (folder / "agentd.yml").write_text("back")
            await ear.hears("agentd.yml")

    watching(folder, test, 0.02)


def test_a_folder_that_was_swapped_is_seen_as_it_is_now(folder, tmp_path):
    async def test(watcher: Watcher, ear: Ear) -> None:
        folder.rename(tmp_path / "away")
        folder.mkdir()
        (folder / "other.yml").write_text("x")
        await ear.hears("other.yml")
        await _until(lambda: watcher._folders[0].identity == watch._identity(str(folder)))

    watching(folder, test, 0.02)


def test_a_dead_observer_is_replaced(folder):
    async def test(watcher: Watcher, ear: Ear) -> None:
        first = watcher._observer
        first.stop()
        first.join()
        await _until(lambda: watcher._observer is not first)
        await _until(lambda: watcher._folders[0].watch)
        (folder / "agentd.yml").write_text("new")
        await ear.hears("agentd.yml")

    watching(folder, test, 0.02)


def test_one_folder_may_be_watched_twice(folder):
    async def run() -> None:
        one, two, watcher = Ear(), Ear(), Watcher()
        watcher.add(str(folder), one.heard.put_nowait)
        watcher.add(str(folder), two.heard.put_nowait)
        await watcher.start()
        shutil.rmtree(folder)
        for ear in (one, two):
            await ear.hears("agentd.yml")
        await watcher.stop()

    asyncio.run(run())


def test_a_listener_that_raises_does_not_deafen_the_others(folder, caplog):
    async def run() -> None:
        ear, watcher = Ear(), Watcher()

        def deaf(name: str) -> None:
            raise ValueError(name)

        watcher.add(str(folder), deaf)
        watcher.add(str(folder), ear.heard.put_nowait)
        await watcher.start()
        for text in ("a", "bc"):
            (folder / "agentd.yml").write_text(text)
            await ear.hears("agentd.yml")
        await watcher.stop()

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(run())


def test_a_wake_after_the_loop_has_closed_is_no_error():
    loop = asyncio.new_event_loop()
    loop.close()
    waker = watch._Waker(lambda: loop.call_soon_threadsafe(print))
    waker.dispatch(FileModifiedEvent("agentd.yml"))


async def _until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event for what the thread does
            await asyncio.sleep(0.005)
