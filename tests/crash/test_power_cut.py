"""Acknowledged changes outlive a power cut; and where syncs are missing, the check sees it."""

import os
import random
from pathlib import Path

import pytest

from tests.crash import power_cut
from tests.crash.power import build_cut_tree, lay_out
from tests.crash.recorder import Made, Named, Recorder, Resized, Synced, Unnamed, Written

CUTS = 40


def test_no_power_cut_loses_anything_that_was_acknowledged(tmp_path: Path) -> None:
    chats = 0
    for outcome in power_cut.make_cuts(str(tmp_path), CUTS, seed=30):
        assert not outcome.violations
        assert not outcome.damaged
        chats += outcome.chats
    assert chats > CUTS, "there was hardly any load"


@pytest.mark.parametrize("forget", ["fdatasync", "fsync", "folder"])
def test_the_same_cuts_find_each_kind_of_sync_that_is_left_out(tmp_path: Path, forget: str) -> None:
    outcomes = power_cut.make_cuts(str(tmp_path), 10, seed=31, forget=forget, answers=75)
    assert any(outcome.violations for outcome in outcomes)


def test_pages_that_reach_the_disk_out_of_order_lose_nothing_either(tmp_path: Path) -> None:
    for outcome in power_cut.make_cuts(str(tmp_path), 10, seed=32, answers=75, holes=True):
        assert not outcome.violations


FILE = [Made(1, is_folder=False), Named(0, "file", 1)]


def list_trees(*events: object, holes: bool = False) -> list[dict[str, object]]:
    """Return all trees that are found after many cuts."""
    trees = [build_cut_tree(events, random.Random(n), holes=holes) for n in range(300)]  # type: ignore[arg-type] # noqa: S311
    return [tree for n, tree in enumerate(trees) if tree not in trees[:n]]


def test_a_file_is_safe_when_it_and_its_folder_were_synced() -> None:
    assert list_trees(*FILE, Written(1, 0, b"ab"), Synced(1, 3), Synced(0, 3)) == [{"file": b"ab"}]


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    found = list_trees(*FILE, Written(1, 0, b"ab"), Synced(1, 3))
    assert {} in found
    assert {"file": b"ab"} in found


def test_a_name_without_synced_content_may_be_empty_torn_or_zeros() -> None:
    found = list_trees(*FILE, Written(1, 0, b"abc"), Synced(0, 3))
    for content in (b"", b"a", b"abc", b"a\0\0", b"\0\0\0"):
        assert {"file": content} in found


def test_what_was_written_after_a_sync_began_is_not_safe_by_it() -> None:
    safe = [*FILE, Written(1, 0, b"a"), Synced(0, 2)]
    assert {"file": b"a"} in list_trees(*safe, Written(1, 1, b"b"), Synced(1, 3))


def test_an_unsynced_rename_leaves_the_old_file_or_the_new_one() -> None:
    made = [*FILE, Written(1, 0, b"old"), Synced(1, 3), Synced(0, 3)]
    renamed = [Made(2, is_folder=False), Named(0, "new", 2), Written(2, 0, b"new"), Synced(2, 9)]
    found = list_trees(*made, *renamed, Named(0, "file", 2, ceased="new"))
    assert {"file": b"old"} in found
    assert {"file": b"new"} in found
    assert all(tree["file"] in (b"old", b"new") for tree in found)


def test_the_record_of_a_folder_shows_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    log = power_cut.record_daemons(str(tmp_path / "here"), seed=33, answers=40, forgets=frozenset())
    things = [event.thing for event in log if isinstance(event, Made)]
    safe = [Synced(thing, len(log)) for thing in (0, *things)]
    lay_out(build_cut_tree([*log, *safe], random.Random(1)), str(tmp_path / "again"))  # noqa: S311
    assert _read_content(tmp_path / "again") == _read_content(tmp_path / "here")


def test_all_ways_to_change_a_folder_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    recorder = Recorder(str(tmp_path / "here"))
    with recorder.recording():
        folder = os.open(tmp_path / "here", os.O_RDONLY)
        file = os.open("a", os.O_WRONLY | os.O_CREAT, dir_fd=folder)
        os.write(file, b"abc")
        os.writev(file, [b"d", b"ef"])
        os.ftruncate(file, 3)
        os.fdatasync(file)
        os.close(file)
        os.mkdir(tmp_path / "here" / "b")
        os.link("a", "c", src_dir_fd=folder, dst_dir_fd=folder)
        os.rename(tmp_path / "here" / "a", tmp_path / "here" / "b" / "d")
        os.unlink("c", dir_fd=folder)
        os.mkdir("e", dir_fd=folder)
        os.rmdir("e", dir_fd=folder)
        os.fsync(folder)
        os.close(folder)
    assert [type(event) for event in recorder.log] == [
        Made, Named, Written, Written, Resized, Synced, Made, Named, Named, Named, Unnamed, Unnamed,
        Made, Named, Unnamed, Synced,
    ]  # fmt: skip


def _read_content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
