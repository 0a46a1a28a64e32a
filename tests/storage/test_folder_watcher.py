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

from agentd.storage import folder_watcher
from agentd.storage.folder_watcher import FolderWatcher
from tests.conftest import until

NEVER = 3600.0
"""So long between two scans that only the observer can have woken one."""


class NameListener:
    """Notes the names that it is told."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def wait_for(self, name: str) -> None:
        async with asyncio.timeout(60):
            while await self.heard.get() != name:
                pass

    async def assert_silent(self) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.heard.get(), 0.2)


def run_with_watcher(
    folder: Path,
    test: Callable[[FolderWatcher, NameListener], Awaitable[None]],
    every: float = NEVER,
) -> None:
    async def run() -> None:
        ear, watcher = NameListener(), FolderWatcher()
        watcher.add(str(folder), ear.heard.put_nowait)
        await watcher.start()
        try:
            await test(watcher, ear)
        finally:
            await watcher.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_watcher, "SCAN_SECONDS", every)
        asyncio.run(run())


def write_in_place(path: Path) -> None:
    path.write_text("new")


def write_and_rename(path: Path) -> None:
    path.with_suffix(".new").write_text("new")
    os.rename(path.with_suffix(".new"), path)


def from_elsewhere(path: Path) -> None:
    (path.parent.parent / "elsewhere").write_text("new")
    os.rename(path.parent.parent / "elsewhere", path)


def delete(path: Path) -> None:
    path.unlink()


def edit_with_sed(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/o/n/", path], check=True)


def change_mode(path: Path) -> None:
    path.chmod(0o400)


def keep_size_and_time(path: Path) -> None:
    info = path.stat()
    path.write_text("NEW")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


STYLES = [
    write_in_place,
    write_and_rename,
    from_elsewhere,
    delete,
    edit_with_sed,
    change_mode,
    keep_size_and_time,
]


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
def test_every_way_of_saving_is_received_with_and_without_inotify(folder, edit, every, monkeypatch):
    if every != NEVER:
        _disable_inotify(monkeypatch)

    async def test(watcher: FolderWatcher, ear: NameListener) -> None:
        assert bool(watcher.polling) == (every != NEVER)
        edit(folder / "agentd.yml")
        await ear.wait_for("agentd.yml")

    run_with_watcher(folder, test, every)


def _disable_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_with_limit() -> None:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr("watchdog.observers.Observer", fail_with_limit)
    monkeypatch.setattr(folder_watcher, "_warned", {})


def test_without_inotify_that_is_reported_once_for_all_watchers(folder, monkeypatch, caplog):
    _disable_inotify(monkeypatch)

    async def test(watcher: FolderWatcher, ear: NameListener) -> None:
        for text in ("a", "bb", "ccc"):
            (folder / "agentd.yml").write_text(text)
            await ear.wait_for("agentd.yml")
        assert "instance limit" in watcher.polling
        other = FolderWatcher()
        other.add(str(folder), ear.heard.put_nowait)
        await other.start()
        await other.stop()
        assert other.polling == watcher.polling

    with caplog.at_level(logging.WARNING):
        run_with_watcher(folder, test, 0.02)
    assert len(caplog.records) == 1


def test_an_edit_after_an_edit_is_received_too(folder):
    async def test(_: FolderWatcher, ear: NameListener) -> None:
        for _ in range(10):
            write_and_rename(folder / "agentd.yml")
            await ear.wait_for("agentd.yml")

    run_with_watcher(folder, test)


def test_reading_is_no_change_and_neither_is_a_folder_or_a_file_half_written(folder):
    async def test(_: FolderWatcher, ear: NameListener) -> None:
        (folder / "agentd.yml").read_text()
        (folder / ".tmp-agentd.yml-1").write_text("half")
        (folder / "folder").mkdir()
        (folder / "folder" / "inside").write_text("x")
        await ear.assert_silent()

    run_with_watcher(folder, test, 0.02)


def test_a_folder_behind_a_link_is_watched(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)

    async def test(_: FolderWatcher, ear: NameListener) -> None:
        (folder / "agentd.yml").write_text("new")
        await ear.wait_for("agentd.yml")

    run_with_watcher(link, test)


def test_a_folder_that_comes_later_is_watched_from_then_on(tmp_path):
    folder = tmp_path / "later"

    async def test(watcher: FolderWatcher, ear: NameListener) -> None:
        folder.mkdir()
        (folder / "a").write_text("1")
        await ear.wait_for("a")
        assert watcher._folders[0].identity

    run_with_watcher(folder, test, 0.02)


def test_a_folder_that_was_deleted_and_made_again_is_watched_again(folder):
    async def test(_: FolderWatcher, ear: NameListener) -> None:
        for _ in range(2):
            shutil.rmtree(folder)
            await ear.wait_for("agentd.yml")
            folder.mkdir()
            (folder / "agentd.yml").write_text("back")
            await ear.wait_for("agentd.yml")

    run_with_watcher(folder, test, 0.02)


def test_a_folder_that_was_swapped_is_seen_as_it_is_now(folder, tmp_path):
    async def test(watcher: FolderWatcher, ear: NameListener) -> None:
        folder.rename(tmp_path / "away")
        folder.mkdir()
        (folder / "other.yml").write_text("x")
        await ear.wait_for("other.yml")
        await until(
            lambda: watcher._folders[0].identity == folder_watcher._get_identity(str(folder))
        )

    run_with_watcher(folder, test, 0.02)


def test_a_dead_observer_is_replaced(folder):
    async def test(watcher: FolderWatcher, ear: NameListener) -> None:
        first = watcher._observer
        first.stop()
        first.join()
        await until(lambda: watcher._observer is not first)
        await until(lambda: watcher._folders[0].watch)
        (folder / "agentd.yml").write_text("new")
        await ear.wait_for("agentd.yml")

    run_with_watcher(folder, test, 0.02)


def test_one_folder_may_be_watched_twice(folder):
    async def run() -> None:
        one, two, watcher = NameListener(), NameListener(), FolderWatcher()
        watcher.add(str(folder), one.heard.put_nowait)
        watcher.add(str(folder), two.heard.put_nowait)
        await watcher.start()
        shutil.rmtree(folder)
        for ear in (one, two):
            await ear.wait_for("agentd.yml")
        await watcher.stop()

    asyncio.run(run())


def test_a_listener_that_raises_does_not_deafen_the_others(folder, caplog):
    async def run() -> None:
        ear, watcher = NameListener(), FolderWatcher()

        def fail_on_event(name: str) -> None:
            raise ValueError(name)

        watcher.add(str(folder), fail_on_event)
        watcher.add(str(folder), ear.heard.put_nowait)
        await watcher.start()
        for text in ("a", "bc"):
            (folder / "agentd.yml").write_text(text)
            await ear.wait_for("agentd.yml")
        await watcher.stop()

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(run())


def test_a_wake_after_the_loop_has_closed_is_no_error():
    loop = asyncio.new_event_loop()
    loop.close()
    waker = folder_watcher._Waker(lambda: loop.call_soon_threadsafe(print))
    waker.dispatch(FileModifiedEvent("agentd.yml"))
