"""No file stays in an upload folder once nobody waits for it any more."""

import asyncio
import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from agentd.core.errors import Unavailable
from agentd.workspace.uploads import store as uploads_store
from agentd.workspace.uploads.store import UploadFolder
from tests.conftest import until

pytestmark = pytest.mark.gen_test(timeout=60)


@pytest.fixture
def folder(tmp_path):
    return UploadFolder(str(tmp_path), "test")


def list_files(tmp_path):
    return {path.name for path in (tmp_path / "uploads").iterdir()}


def list_descriptors(tmp_path):
    """Return the descriptors that are open below a folder."""
    opened = []
    for number in os.listdir("/proc/self/fd"):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing's own
            continue
    return [path for path in opened if path.startswith(str(tmp_path))]


@pytest.fixture
def late(monkeypatch):
    """Has a step of the folder, once it is done, wait until it may return: two events."""

    def block_step(name):
        done, may_return = threading.Event(), threading.Event()
        original = getattr(UploadFolder, name)

        def run_slowly(*arguments):
            result = original(*arguments)
            done.set()
            assert may_return.wait(30)
            return result

        monkeypatch.setattr(UploadFolder, name, run_slowly)
        return done, may_return

    return block_step


async def test_a_file_that_is_made_for_one_who_left_is_removed(folder, tmp_path, late):
    made, may_return = late("_begin")
    begun = asyncio.create_task(folder.begin())
    await until(made.is_set)
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    assert list_files(tmp_path) > {".gitignore"}
    may_return.set()
    await until(lambda: list_files(tmp_path) == {".gitignore"})
    await until(lambda: not list_descriptors(tmp_path))


async def test_a_file_that_is_opened_for_one_who_left_is_closed(folder, tmp_path, late):
    draft = await folder.begin()
    await folder.keep([(draft, "a.bin")])
    opened, may_return = late("_open_file")
    reading = asyncio.create_task(folder.read("a.bin"))
    await until(opened.is_set)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert list_descriptors(tmp_path)
    may_return.set()
    await until(lambda: not list_descriptors(tmp_path))


async def test_a_file_of_which_nothing_was_read_is_closed(folder, tmp_path):
    draft = await folder.begin()
    await folder.keep([(draft, "a.bin")])
    _, content = await folder.read("a.bin")
    assert list_descriptors(tmp_path)
    await content.aclose()
    assert not list_descriptors(tmp_path)


async def test_a_file_that_is_being_read_is_closed_only_after_that(folder, tmp_path, monkeypatch):
    """Its number could be another file's meanwhile."""
    draft = await folder.begin()
    await draft.write(b"text")
    await folder.keep([(draft, "a.bin")])
    reading, may_read = threading.Event(), threading.Event()

    def run_slowly(file, size, read=os.read):
        reading.set()
        assert may_read.wait(30)
        return read(file, size)

    _, content = await folder.read("a.bin")
    monkeypatch.setattr(uploads_store.os, "read", run_slowly)
    portion = asyncio.create_task(anext(content))
    await until(reading.is_set)
    portion.cancel()
    with pytest.raises(asyncio.CancelledError):
        await portion
    await content.aclose()
    assert list_descriptors(tmp_path)
    may_read.set()
    await until(lambda: not list_descriptors(tmp_path))


async def test_of_files_that_came_together_a_crash_leaves_all_or_none(
    folder, tmp_path, monkeypatch
):
    """Whenever the daemon dies: this is what lies there before each call, and its next start."""
    names = ["a.bin", "b.bin", "c.bin"]
    before = await folder.begin()
    await folder.keep([(before, "before.bin")])
    drafts = [(await folder.begin(), name) for name in names]
    for draft, name in drafts:
        await draft.write(name.encode())
    others = await folder.begin()  # of another request
    images = []

    def copy_before_call(real):
        def call(*arguments, **named):
            images.append(str(tmp_path / f"image {len(images)}"))
            os.mkdir(images[-1])
            subprocess.run(["cp", "-a", tmp_path / "uploads", images[-1]], check=True)
            return real(*arguments, **named)

        return call

    for name in ("link", "unlink", "fsync", "fchmod"):
        monkeypatch.setattr(os, name, copy_before_call(getattr(os, name)))
    await folder.keep(drafts)
    monkeypatch.undo()
    seen = []
    for image in images:
        restarted = UploadFolder(image, "test")
        await restarted.sweep()
        seen.append({upload.name for upload in await restarted.list_uploads()} - {"before.bin"})
        assert list_files(Path(image)) == {".gitignore", "before.bin", *seen[-1]}
    assert seen[0] == set()
    assert seen[-1] == set(names)
    assert all(found in (set(), set(names)) for found in seen), seen
    await others.discard()
    assert list_files(tmp_path) == {".gitignore", "before.bin", *names}


async def test_of_files_that_came_together_none_is_kept_when_one_cannot_be_named(
    folder, tmp_path, monkeypatch
):
    drafts = [(await folder.begin(), name) for name in ("a.bin", "b.bin")]
    count = iter(range(9))
    link = os.link

    def link_until_full(*arguments, **named):
        if next(count):
            raise OSError(errno.ENOSPC, "no")
        link(*arguments, **named)

    monkeypatch.setattr(os, "link", link_until_full)
    with pytest.raises(Unavailable):
        await folder.keep(drafts)
    assert list_files(tmp_path) == {".gitignore"}


async def test_who_may_read_the_folder_may_read_what_git_ignores_there(folder, tmp_path):
    before = os.umask(0o077)
    try:
        draft = await folder.begin()
        await folder.keep([(draft, "a.txt")])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "uploads").iterdir()}
    assert modes == {".gitignore": 0o644, "a.txt": 0o644}
    assert (tmp_path / "uploads").stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_hides_no_other(folder, tmp_path):
    (tmp_path / "uploads").mkdir()
    for name in ("one.txt", "theirs.txt"):
        (tmp_path / "uploads" / name).write_text(name)
    (tmp_path / "uploads" / "theirs.txt").chmod(0)
    assert [upload.name for upload in await folder.list_uploads()] == ["one.txt"]
