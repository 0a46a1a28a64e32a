"""A valid save takes effect; a broken one takes nothing down; a half-saved one is not believed."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock
from agentd.core.errors import ConfigError, ConfigProblem, Unavailable
from agentd.storage import document, watched_file
from agentd.storage.folder_watcher import FolderWatcher
from agentd.storage.watched_file import (
    KEEP_LAST_GOOD,
    RETRY_SECONDS,
    REVOKE_ON_ERROR,
    SAME_STAMP_SECONDS,
    SETTLE_SECONDS,
    ErrorPolicy,
    WatchedFile,
)


class File:
    """A file of one word, read by ``load``; ``changes`` counts the calls of the listener."""

    def __init__(self, folder: Path, policy: ErrorPolicy = KEEP_LAST_GOOD) -> None:
        self.path = folder / "word.txt"
        self.changes: asyncio.Queue[None] = asyncio.Queue()
        self.reads = 0
        self.clock = FrozenClock()
        self.frozen_stamp: object = None
        self.held = WatchedFile(
            str(self.path),
            self.load,
            "default",
            self.note_change,
            policy=policy,
            get_stamp=self.get_stamp,
            clock=self.clock,
        )

    def get_stamp(self) -> object:
        return self.frozen_stamp or document.get_stamp(str(self.path))

    def load(self) -> str:
        self.reads += 1
        found = document.read_document(str(self.path), 100)
        word = found.data.decode() if found else ""
        if word.startswith("broken"):
            raise ConfigError([ConfigProblem(str(self.path), 1, word)])
        if word == "unreadable":
            raise Unavailable("the disk failed")
        return word or "default"

    def note_change(self) -> None:
        self.changes.put_nowait(None)

    def save(self, word: str) -> None:
        document.replace_document(str(self.path), word.encode())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    monkeypatch.setattr(watched_file, "SETTLE_SECONDS", 0.0)
    return File(tmp_path)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 100))  # type: ignore[arg-type]


def test_what_is_saved_is_in_force_after_a_look_and_reported_once(file):
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


def test_what_a_write_left_is_in_force_when_it_returns_also_if_it_failed(file):
    async def test() -> None:
        assert await file.held.write(lambda: file.save("one") or "returned") == "returned"
        assert file.held.current == "one"

        def fail_after_the_rename() -> None:
            file.save("two")
            raise Unavailable("the disk failed")

        with pytest.raises(Unavailable):
            await file.held.write(fail_after_the_rename)
        assert (file.held.current, file.changes.qsize()) == ("two", 2)

    run(test)


def test_an_unchanged_file_is_not_read_again(file):
    async def test() -> None:
        file.save("one")
        for _ in range(3):
            await file.held.refresh()
        assert file.reads == 1

    run(test)


def test_a_broken_edit_leaves_the_last_good_content_in_force_and_is_reported(file, caplog):
    async def test() -> None:
        file.save("one")
        await file.held.refresh()
        file.save("broken thing")
        await file.held.refresh()
        assert file.held.current == "one"
        assert file.held.problems == (ConfigProblem(str(file.path), 1, "broken thing"),)
        assert file.changes.qsize() == 2
        file.save("two")
        await file.held.refresh()
        assert (file.held.current, file.held.problems) == ("two", ())

    with caplog.at_level(logging.INFO, "agentd.reload"):
        run(test)
    result = [record.getMessage() for record in caplog.records]
    assert result == [
        f"{file.path}:1: broken thing",
        f"{file.path} is not taken; what it said before stays in force",
        f"{file.path} is in order again",
    ]


def test_a_file_that_is_broken_from_the_start_leaves_the_defaults(file, caplog):
    async def test() -> None:
        file.save("broken")
        await file.held.refresh()
        assert file.held.current == "default"
        assert file.held.problems

    run(test)
    assert caplog.messages[-1] == f"{file.path} is not taken; the default stays in force"


def test_a_file_that_could_not_be_read_is_tried_again_though_it_did_not_change(file):
    async def test() -> None:
        file.save("unreadable")
        await file.held.refresh()
        await file.held.refresh()
        assert file.reads >= 2
        assert file.held.problems == (ConfigProblem(str(file.path), 0, "the disk failed"),)

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

        monkeypatch.setattr(watched_file.asyncio, "sleep", settle)
        if half is None:
            file.path.unlink()
        else:
            file.save(half)
        await file.held.refresh()
        assert settled.is_set()
        assert (file.held.current, file.held.problems) == ("two", ())
        assert file.changes.qsize() == 2

    run(test)


def test_a_file_that_is_filled_while_its_empty_content_is_read_was_not_emptied(tmp_path):
    """An editor truncates the file and then writes it; reading in between finds nothing."""

    class FilledFile(File):
        def load(self) -> str:
            word = super().load()
            if self.path.exists() and not self.path.stat().st_size:
                self.path.write_text("broken")
            return word

    async def test() -> None:
        file = FilledFile(tmp_path)
        file.save("good")
        await file.held.refresh()
        file.path.write_text("")
        await file.held.ensure_current()
        assert file.held.current == "good"
        assert [problem.what for problem in file.held.problems] == ["broken"]
        assert file.changes.qsize() == 2  # never the default in between

    run(test)


def test_an_edited_file_is_in_force_by_itself_where_its_folder_is_watched(file):
    async def test() -> None:
        watcher = FolderWatcher()
        watcher.add(str(file.path.parent), file.held.on_file_changed)
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


HOLD_WHILE_SAVED = REVOKE_ON_ERROR._replace(waits_for_editor=False)


def write_in_place(path: Path, word: str) -> None:
    path.write_text(word)


def replace_atomically(path: Path, word: str) -> None:
    path.with_suffix(".new").write_text(word)
    path.with_suffix(".new").rename(path)


def write_after_removal(path: Path, word: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(word)


def remove(path: Path, word: str) -> None:
    path.unlink(missing_ok=True)


WAYS = [write_in_place, replace_atomically, write_after_removal, remove]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(WAYS),
        st.sampled_from(["", "one", "two", "broken", "broken 2", "unreadable"]),
        st.booleans(),
    ),
    max_size=6,
)


@pytest.mark.parametrize("policy", [KEEP_LAST_GOOD, REVOKE_ON_ERROR, HOLD_WHILE_SAVED])
@given(edits=EDITS)
def test_each_edit_is_seen_by_the_next_request_and_judged_by_the_policy(policy, edits):
    """The file is edited in any way; no watcher takes part."""

    async def test(file: File) -> None:
        good = "default"
        for save, word, is_first_seen_late in edits:
            save(file.path, word)
            if policy is HOLD_WHILE_SAVED or is_first_seen_late:
                await file.held.ensure_current()
                file.clock.move(SETTLE_SECONDS)
            await file.held.ensure_current()
            saved = word if file.path.exists() else ""
            is_good = not saved.startswith(("broken", "unreadable"))
            good = saved or "default" if is_good else good
            assert bool(file.held.problems) is not is_good
            if is_good or policy is KEEP_LAST_GOOD:
                assert file.held.current == good
            else:
                assert file.held.current == "default"

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched_file.asyncio, "sleep", _skip)
        asyncio.run(test(File(Path(folder), policy)))


async def _skip(_: float) -> None:
    pass


def test_what_is_revoked_at_a_broken_edit_is_back_when_the_file_is_repaired(tmp_path, monkeypatch):
    monkeypatch.setattr(watched_file, "SETTLE_SECONDS", 0.0)
    file = File(tmp_path, REVOKE_ON_ERROR)

    async def test() -> None:
        found = []
        for word in ("one", "broken", "one"):
            file.save(word)
            await file.held.ensure_current()
            found.append((file.held.current, len(file.held.problems)))
        assert found == [("one", 0), ("default", 1), ("one", 0)]
        assert file.changes.qsize() == 3

    run(test)


def test_edits_that_bear_the_same_stamp_are_both_seen_where_errors_revoke(tmp_path):
    file = File(tmp_path, REVOKE_ON_ERROR)

    async def test() -> None:
        file.save("one")
        file.frozen_stamp = "the same"
        await file.held.ensure_current()
        file.save("two")
        await file.held.ensure_current()
        assert file.held.current == "two"
        file.clock.move(SAME_STAMP_SECONDS)
        await file.held.ensure_current()
        reads = file.reads
        await file.held.ensure_current()
        assert file.reads == reads
        file.save("three")
        file.held.invalidate()
        await file.held.ensure_current()
        assert file.held.current == "three"

    run(test)


def test_an_invalidation_during_a_reading_is_not_lost(file):
    async def test() -> None:
        file.save("one")
        file.frozen_stamp = "the same"
        load = file.held._file._load

        def load_and_edit() -> str:
            word = load()
            if word == "one":
                file.save("two")
                file.held.invalidate()
            return word

        file.held._file._load = load_and_edit
        await file.held.ensure_current()
        await file.held.ensure_current()
        assert file.held.current == "two"

    run(test)


def test_keys_that_could_not_be_read_are_read_again_after_a_while(tmp_path):
    file = File(tmp_path, REVOKE_ON_ERROR)

    async def test() -> None:
        file.save("unreadable")
        await file.held.ensure_current()
        file.clock.move(SAME_STAMP_SECONDS)
        await file.held.ensure_current()
        reads = file.reads
        await file.held.ensure_current()
        assert file.reads == reads
        file.clock.move(RETRY_SECONDS)
        await file.held.ensure_current()
        assert file.reads == reads + 1

    run(test)


def test_the_time_of_an_editor_is_not_renewed_by_saving_again_and_again(tmp_path):
    file = File(tmp_path, HOLD_WHILE_SAVED)

    async def test() -> None:
        file.save("one")
        await file.held.ensure_current()
        for number in range(3):
            file.save(f"broken {number}")
            await file.held.ensure_current()
            assert file.held.current == "one"
            file.clock.move(SETTLE_SECONDS / 3 + 0.001)
        file.save("broken 3")
        await file.held.ensure_current()
        assert file.held.current == "default"
        await file.held.stop()

    run(test)
