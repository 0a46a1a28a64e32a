"""What is saved holds; what is broken takes nothing down; what is half saved is not believed."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentd.disk import document, reload
from agentd.disk.reload import Reloaded
from agentd.disk.watch import Watcher
from agentd.errors import Misconfigured, Mistake, Unavailable


class File:
    """A file of one word, read by ``load``; ``changes`` counts the calls of the listener."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "word.txt"
        self.changes: asyncio.Queue[None] = asyncio.Queue()
        self.reads = 0
        self.held = Reloaded(str(self.path), self.load, "default", self.changed)

    def load(self) -> str:
        self.reads += 1
        found = document.read(str(self.path), 100)
        word = found.data.decode() if found else ""
        if word.startswith("broken"):
            raise Misconfigured([Mistake(str(self.path), 1, word)])
        if word == "unreadable":
            raise Unavailable("the disk failed")
        return word or "default"

    def changed(self) -> None:
        self.changes.put_nowait(None)

    def save(self, word: str) -> None:
        document.replace(str(self.path), word.encode())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    monkeypatch.setattr(reload, "SETTLE", 0.0)
    return File(tmp_path)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 100))  # type: ignore[arg-type]


def test_what_is_saved_is_in_force_after_a_look_and_told_once(file):
    async def test() -> None:
        assert file.held.current == "default"
        file.save("one")
        await file.held.refresh()
        assert (file.held.current, file.changes.qsize()) == ("one", 1)
        file.save("one")
        await file.held.refresh()
        assert file.changes.qsize() == 1
        file.path.unlink()
        await file.held.refresh()
        assert (file.held.current, file.changes.qsize()) == ("default", 2)

    run(test)


def test_an_unchanged_file_is_not_read_again(file):
    async def test() -> None:
        file.save("one")
        for _ in range(3):
            await file.held.refresh()
        assert file.reads == 1

    run(test)


def test_a_broken_edit_leaves_the_last_good_content_in_force_and_is_told(file, caplog):
    async def test() -> None:
        file.save("one")
        await file.held.refresh()
        file.save("broken thing")
        await file.held.refresh()
        assert file.held.current == "one"
        assert file.held.mistakes == (Mistake(str(file.path), 1, "broken thing"),)
        assert file.changes.qsize() == 2
        file.save("two")
        await file.held.refresh()
        assert (file.held.current, file.held.mistakes) == ("two", ())

    with caplog.at_level(logging.INFO, "agentd.reload"):
        run(test)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{file.path}:1: broken thing",
        f"{file.path} is not taken; what it said before stays in force",
        f"{file.path} is in order again",
    ]


def test_a_file_that_is_broken_from_the_start_leaves_the_defaults(file):
    async def test() -> None:
        file.save("broken")
        await file.held.refresh()
        assert file.held.current == "default"
        assert file.held.mistakes

    run(test)


def test_a_file_that_could_not_be_read_is_tried_again_though_it_did_not_change(file):
    async def test() -> None:
        file.save("unreadable")
        await file.held.refresh()
        await file.held.refresh()
        assert file.reads >= 2
        assert file.held.mistakes == (Mistake(str(file.path), 0, "the disk failed"),)

    run(test)


@pytest.mark.parametrize("half", ["", "broken", None])
def test_what_is_being_saved_is_not_believed_until_it_had_time_to_settle(file, half, monkeypatch):
    async def test() -> None:
        file.save("one")
        await file.held.refresh()
        settled = asyncio.Event()

        async def settle(_: float) -> None:
            settled.set()
            file.save("two")

        monkeypatch.setattr(reload.asyncio, "sleep", settle)
        if half is None:
            file.path.unlink()
        else:
            file.save(half)
        await file.held.refresh()
        assert settled.is_set()
        assert (file.held.current, file.held.mistakes) == ("two", ())
        assert file.changes.qsize() == 2

    run(test)


def test_an_edited_file_is_in_force_by_itself_where_its_folder_is_watched(file):
    async def test() -> None:
        watcher = Watcher()
        watcher.add(str(file.path.parent), file.held.noticed)
        await watcher.start()
        try:
            (file.path.parent / "another.txt").write_text("x")
            file.save("one")
            await file.changes.get()
            assert file.held.current == "one"
            os.rename(file.path, f"{file.path}~")  # as some editors save
            file.path.write_text("two")
            while file.held.current != "two":
                await file.changes.get()
        finally:
            await watcher.stop()
            await file.held.stop()

    run(test)
