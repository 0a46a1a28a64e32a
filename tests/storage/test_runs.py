"""A listener's mark is known exactly where the record that it names is the one that he saw."""

import logging
import random
import shutil
from pathlib import Path

import pytest

from agentd.core.ids import RunHistory
from agentd.storage import runs as module
from agentd.storage.runs import begin_run, record_removal


class Folder:
    """A state folder's numbers: its records, what was reserved, and its runs."""

    def __init__(self, path: Path, records: dict[int, object] | None = None, used: int = 0) -> None:
        self.path = path
        self.records = dict(records or {})
        self.used = used
        self.runs = RunHistory()

    def start(self) -> None:
        there = max(self.records, default=0)
        self.used = max(self.used, there)
        self.runs = begin_run(str(self.path), self.used, there, writable=True)

    def record(self) -> tuple[int, str, object]:
        """Write one: what a listener comes back with, and what it was."""
        self.used += 1
        self.records[self.used] = result = object()
        return self.used, self.runs.current, result

    def copy(self, path: Path) -> "Folder":
        """Copy as ``cp -r`` does while the daemon works: its numbers are reserved ahead."""
        if self.path.exists():
            shutil.copy(self.path, path)
        return Folder(path, self.records, self.used + 50)


@pytest.mark.parametrize("seed", range(40))
def test_in_any_copy_a_mark_is_known_where_it_means_the_same_record(tmp_path, seed):
    chance = random.Random(seed)  # noqa: S311
    folders = [Folder(tmp_path / "0")]
    folders[0].start()
    seen: list[tuple[int, str, object]] = []
    for step in range(150):
        folder = chance.choice(folders)
        match chance.randrange(12):
            case 0:
                folder.used += chance.choice([0, 50])  # a stop, or a crash
                folder.start()
            case 1 if len(folders) < 6:
                folders.append(folder.copy(tmp_path / f"copy {step}"))
                folders[-1].start()
            case _:
                seen.append(folder.record())
    assert len(folders) > 1
    for folder in folders:
        for seq, run, result in seen:
            assert folder.runs.has_seq(seq, run) == (folder.records.get(seq) is result)
            if folder.records.get(seq) is result:
                assert folder.runs.get_run_name(seq) == run


def test_where_one_is_at_the_start_is_known_after_any_restart(tmp_path):
    folder = Folder(tmp_path / "0")
    folder.start()
    folder.record()
    for skipped in (0, 50, 0):
        folder.used += skipped
        folder.start()
        mark = folder.used, folder.runs.current
        for _ in range(2):
            folder.start()
            assert folder.runs.has_seq(*mark)


def test_a_mark_without_a_life_is_taken_as_it_is():
    assert RunHistory().has_seq(17, "")
    assert not RunHistory().has_seq(17, "0a1b2c3d")
    assert RunHistory().current == RunHistory().get_run_name(17) == ""


def test_what_was_written_before_lives_were_known_has_none(tmp_path):
    runs = begin_run(str(tmp_path / "runs.json"), 17, 15, writable=True)
    assert [runs.get_run_name(seq) for seq in (1, 17, 18)] == ["", "", runs.current]


def test_only_so_many_lives_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_RUNS", 3)
    path = str(tmp_path / "runs.json")
    names = [begin_run(path, used, used, writable=True).current for used in range(1, 6)]
    last = begin_run(path, 6, 6, writable=True)
    assert [last.has_seq(used, name) for used, name in enumerate(names, 1)] == [False] * 3 + [
        True
    ] * 2


@pytest.mark.parametrize("harm", ["altered", "unwritable"])
def test_what_cannot_be_read_or_written_is_a_gap_for_listeners_and_no_more(tmp_path, caplog, harm):
    path = tmp_path / "runs.json"
    before = begin_run(str(path), 1, 1, writable=True)
    with caplog.at_level(logging.WARNING):
        if harm == "altered":
            path.write_bytes(path.read_bytes().replace(b'"after":1', b'"after":0'))
            now = begin_run(str(path), 2, 2, writable=True)
            assert not now.has_seq(1, before.current)
        else:
            now = begin_run(str(tmp_path / "no folder" / "runs.json"), 2, 2, writable=True)
    assert now.has_seq(3, now.current)
    assert "gap" in caplog.text


def test_a_folder_that_is_only_read_is_left_as_it_is(tmp_path):
    path = tmp_path / "runs.json"
    runs = begin_run(str(path), 2, 2, writable=False)
    assert runs.current
    assert not path.exists()


def test_the_last_record_of_a_removed_chat_is_known_to_all_later_runs(tmp_path):
    path = str(tmp_path / "runs.json")
    first = begin_run(path, 5, 5, writable=True)
    assert first.removed == 0
    record_removal(path, 17)
    record_removal(path, 12)
    assert begin_run(path, 20, 20, writable=True).removed == 17
    last = begin_run(path, 30, 30, writable=True)
    assert last.removed == 17
    assert last.has_seq(18, first.current)


def test_a_removal_that_cannot_be_recorded_is_logged_and_goes_on(tmp_path, caplog):
    record_removal(str(tmp_path / "no folder" / "runs.json"), 17)
    assert "some listeners will not hear that a chat was removed" in caplog.text
