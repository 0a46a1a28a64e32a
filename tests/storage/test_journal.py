"""Appends: safe when they say so, told in order, few syncs for many, no guess after an error."""

import asyncio
import errno
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentd.core.errors import Unavailable
from agentd.core.ids import RESERVED_AHEAD, HighWaterMarks, Sequences
from agentd.storage import journal as module
from agentd.storage.document import make_folder
from agentd.storage.journal import GroupCommitter, Journal
from tests.conftest import overwrite

pytestmark = pytest.mark.gen_test


@pytest.fixture
def committer(layout):
    make_folder(layout.chats)
    return GroupCommitter(layout, Sequences())


@pytest.fixture
def journals(layout):
    return [Journal(layout.get_journal_path(n), 0, fresh=True) for n in range(1, 5)]


@pytest.fixture
def syncs(monkeypatch):
    """The paths of all that is synced from now on."""
    paths: list[str] = []

    def count_syncs(real):
        def sync(fd):
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
            return real(fd)

        return sync

    monkeypatch.setattr(module.os, "fdatasync", count_syncs(os.fdatasync))
    monkeypatch.setattr(module.os, "fsync", count_syncs(os.fsync))
    return paths


def fail_calls(monkeypatch, name: str, code: int) -> None:
    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module.os, name, fail)


def list_open_files() -> list[str]:
    return [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]


async def wait_for_passes(count: int) -> None:
    """Wait for so many passes of the event loop, each with what its file descriptors have."""
    for _ in range(count):
        await asyncio.sleep(0)


def do_nothing() -> None:
    pass


async def test_an_append_is_in_the_file_and_synced_with_its_folders_before_it_is_done(
    layout, committer, journals, syncs
):
    await committer.append(journals[0], b"one\n", do_nothing)
    path = Path(layout.get_journal_path(1))
    assert path.read_bytes() == b"one\n"
    assert {str(path), str(path.parent), layout.chats} <= set(syncs)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert journals[0].size == 4
    assert journals[0].is_settled


async def test_many_waiters_share_few_syncs(layout, committer, journals, syncs):
    await committer.append(journals[0], b"first\n", do_nothing)
    syncs.clear()
    waiters = [committer.append(journals[0], b"%d\n" % n, do_nothing) for n in range(500)]
    assert not journals[0].is_settled
    await asyncio.gather(*waiters)
    assert len(syncs) <= 3
    assert Path(layout.get_journal_path(1)).read_bytes().count(b"\n") == 501


async def test_while_one_batch_is_written_the_next_gathers(layout, committer, journals, syncs):
    waiters = []
    for n in range(300):
        waiters.append(committer.append(journals[0], b"%d\n" % n, do_nothing))
        if n % 10 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*waiters)
    assert Path(layout.get_journal_path(1)).read_bytes() == b"".join(
        b"%d\n" % n for n in range(300)
    )
    assert syncs.count(layout.get_journal_path(1)) < 50


async def test_what_was_appended_earlier_is_reported_earlier_over_all_journals(committer, journals):
    told, done = [], []
    for n in range(400):
        journal = journals[n * 7 % 4]
        done.append(committer.append(journal, b"x\n", lambda n=n: told.append(n)))
        if n % 5 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*done)
    assert told == list(range(400))


async def test_it_is_reported_before_the_waiter_goes_on(committer, journals):
    told = []
    await committer.append(journals[0], b"x\n", lambda: told.append(1))
    assert told == [1]


async def test_a_line_that_cannot_be_reported_keeps_nobody_waiting(committer, journals, caplog):
    def fail_with_bug():
        raise RuntimeError("a bug")

    told = []
    done = committer.append(journals[0], b"x\n", fail_with_bug)
    committer.append(journals[1], b"y\n", lambda: told.append(1))
    await done
    await committer.append(journals[0], b"z\n", do_nothing)
    assert told == [1]
    assert "callback" in caplog.text


async def test_ids_are_reserved_on_disk_before_they_are_written(layout, monkeypatch):
    make_folder(layout.chats)
    sequences = Sequences()
    committer, journal = (
        GroupCommitter(layout, sequences),
        Journal(layout.get_journal_path(1), 0, fresh=True),
    )
    sequences.next("seq")
    await committer.append(journal, b"x\n", do_nothing)
    assert b'"seq":%d' % (1 + RESERVED_AHEAD.seq) in Path(layout.ids).read_bytes()
    sequences.mark_reserved(HighWaterMarks(9, 9, 9, 10_000))
    stored = Path(layout.ids).read_bytes()
    sequences.next("seq")
    await committer.append(journal, b"x\n", do_nothing)
    assert Path(layout.ids).read_bytes() == stored


async def test_what_no_stored_mark_covers_is_not_written(layout):
    """Were it written, a crash could have the same id given out again."""
    make_folder(layout.chats)
    sequences = Sequences()
    committer, journal = (
        GroupCommitter(layout, sequences),
        Journal(layout.get_journal_path(1), 0, fresh=True),
    )
    os.mkdir(layout.ids)
    sequences.next("seq")
    with pytest.raises(Unavailable):
        await committer.append(journal, b"x\n", do_nothing)
    assert not os.path.exists(layout.get_journal_path(1))
    assert not journal.dead


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
async def test_a_write_that_fails_is_cut_off_again_and_the_next_one_goes_on(
    layout, committer, journals, syncs, monkeypatch, code
):
    journal, real, told = journals[0], os.write, []
    await committer.append(journal, b"one\n", do_nothing)
    syncs.clear()

    def write_half(fd, data):
        if len(data) < 4:
            raise OSError(code, os.strerror(code))
        return real(fd, bytes(data)[:2])

    monkeypatch.setattr(module.os, "write", write_half)
    with pytest.raises(Unavailable, match=r"cannot write .*journal\.jsonl"):
        await committer.append(journal, b"two\n", lambda: told.append(2))
    assert syncs == [journal.path]
    monkeypatch.undo()
    assert Path(layout.get_journal_path(1)).read_bytes() == b"one\n"
    assert told == []
    assert journal.error
    assert not journal.dead
    again = Journal(journal.path, 4)
    await committer.append(again, b"three\n", do_nothing)
    assert Path(layout.get_journal_path(1)).read_bytes() == b"one\nthree\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_a_new_journal_that_could_not_be_begun_leaves_nothing(
    layout, committer, journals, monkeypatch, code
):
    await committer.append(journals[0], b"one\n", do_nothing)
    with monkeypatch.context() as patch:
        fail_calls(patch, "write", code)
        for journal in journals[1:]:
            with pytest.raises(Unavailable, match=r"cannot write .*journal\.jsonl"):
                await committer.append(journal, b"x\n", do_nothing)
    assert os.listdir(layout.chats) == ["1"]
    again = Journal(journals[1].path, 0, fresh=True)
    await committer.append(again, b"x\n", do_nothing)


async def test_what_another_program_put_in_the_place_of_a_new_journal_stays(committer, journals):
    os.mkdir(os.path.dirname(journals[0].path))
    Path(journals[0].path).touch()
    with pytest.raises(Unavailable):
        await committer.append(journals[0], b"x\n", do_nothing)
    assert Path(journals[0].path).read_bytes() == b""


async def test_a_limit_on_the_file_s_size_is_met_for_real(layout, committer, journals):
    """The kernel writes up to the limit and then refuses: the half must go again."""
    journal = journals[0]
    await committer.append(journal, b"x" * 4000 + b"\n", do_nothing)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(Unavailable, match="size limit"):
            await committer.append(journal, b"y" * 4000 + b"\n", do_nothing)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.path.getsize(layout.get_journal_path(1)) == 4001
    await committer.append(Journal(journal.path, 4001), b"z\n", do_nothing)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_after_a_failed_sync_the_journal_is_dead_until_a_restart_and_says_so(
    layout, committer, journals, monkeypatch, code
):
    await committer.append(journals[0], b"one\n", do_nothing)
    fail_calls(monkeypatch, "fdatasync", code)
    with pytest.raises(Unavailable):
        await committer.append(journals[0], b"two\n", do_nothing)
    monkeypatch.undo()
    assert journals[0].dead
    assert journals[0].size == 4
    with pytest.raises(Unavailable, match=r"journal\.jsonl"):
        committer.append(journals[0], b"three\n", do_nothing)
    await committer.append(journals[1], b"others go on\n", do_nothing)


async def test_when_the_half_cannot_be_cut_off_the_journal_is_dead(
    committer, journals, monkeypatch
):
    await committer.append(journals[0], b"one\n", do_nothing)
    real = os.write

    def write_half(fd, data):
        if len(data) < 4:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, bytes(data)[:2])

    monkeypatch.setattr(module.os, "write", write_half)
    fail_calls(monkeypatch, "ftruncate", errno.EIO)
    with pytest.raises(Unavailable):
        await committer.append(journals[0], b"two\n", do_nothing)
    assert journals[0].dead


async def test_a_new_file_whose_folder_cannot_be_synced_is_not_safe(
    committer, journals, monkeypatch
):
    fail_calls(monkeypatch, "fdatasync", errno.EIO)
    with pytest.raises(Unavailable):
        await committer.append(journals[0], b"one\n", do_nothing)
    assert journals[0].dead


async def test_what_another_program_wrote_is_noticed_and_left_as_it_is(layout, committer, journals):
    await committer.append(journals[0], b"one\n", do_nothing)
    overwrite(layout.get_journal_path(1), 4, b"foreign\n")
    with pytest.raises(Unavailable, match="changed by another program"):
        await committer.append(journals[0], b"two\n", do_nothing)
    assert Path(layout.get_journal_path(1)).read_bytes() == b"one\nforeign\n"
    assert journals[0].dead
    assert layout.get_journal_path(1) not in list_open_files()


async def test_a_symbolic_link_in_the_place_of_a_journal_is_not_followed(
    layout, committer, journals, tmp_path
):
    await committer.append(journals[0], b"one\n", do_nothing)
    victim = tmp_path / "victim"
    victim.write_bytes(b"one\n")
    os.unlink(layout.get_journal_path(1))
    os.symlink(victim, layout.get_journal_path(1))
    with pytest.raises(Unavailable, match="symbolic link"):
        await committer.append(journals[0], b"two\n", do_nothing)
    assert victim.read_bytes() == b"one\n"


async def test_one_failing_journal_does_not_fail_the_others_of_its_batch(
    layout, committer, journals
):
    os.mkdir(os.path.dirname(layout.get_journal_path(1)))
    bad = committer.append(journals[0], b"x\n", do_nothing)
    good = [committer.append(journal, b"y\n", do_nothing) for journal in journals[1:]]
    await asyncio.gather(*good)
    with pytest.raises(Unavailable):
        await bad


async def test_what_waits_behind_a_failed_batch_fails_with_it(committer, journals, monkeypatch):
    await committer.append(journals[0], b"one\n", do_nothing)
    told = []
    fail_calls(monkeypatch, "write", errno.ENOSPC)
    first = committer.append(journals[0], b"two\n", lambda: told.append(2))
    await asyncio.sleep(0)
    assert journals[0].writing
    second = committer.append(journals[0], b"three\n", lambda: told.append(3))
    for future in (first, second):
        with pytest.raises(Unavailable):
            await future
    assert told == []
    assert journals[0].lines == []
    await committer.close()


async def test_a_cancelled_waiter_does_not_harm_the_others(layout, committer, journals):
    async def wait():
        await committer.append(journals[0], b"x\n", do_nothing)

    tasks = [asyncio.create_task(wait()) for _ in range(6)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks[1::2])
    assert Path(layout.get_journal_path(1)).read_bytes() == b"x\n" * 6


@pytest.mark.parametrize("call", ["write", "fdatasync"])
async def test_all_who_wait_for_a_journal_are_told_of_its_failure_after_its_holder(
    committer, journals, monkeypatch, call
):
    told = []
    journals[0].on_failure = lambda: told.append("holder")
    await committer.append(journals[0], b"one\n", do_nothing)
    assert told == []
    fail_calls(monkeypatch, call, errno.EIO)
    written = committer.append(journals[0], b"two\n", lambda: told.append("safe"))
    await asyncio.sleep(0)
    waiting = committer.append(journals[0], b"three\n", lambda: told.append("safe"))
    cancelled = committer.append(journals[0], b"four\n", lambda: told.append("safe"))
    cancelled.cancel()
    last = journals[0].wait_for_last()
    for name, future in {"two": written, "three": waiting, "last": last}.items():
        future.add_done_callback(lambda _, name=name: told.append(name))
    await asyncio.wait([written, waiting, last])
    assert told == ["holder", "two", "three", "last"]
    assert {str(one.exception()) for one in (written, waiting, last)} == {str(journals[0].error)}
    assert journals[0].is_settled


async def test_who_waits_for_the_last_append_waits_for_all_that_were_begun(committer, journals):
    order = []
    committer.append(journals[0], b"one\n", lambda: order.append(1))
    await asyncio.sleep(0)
    await journals[0].wait_for_last()  # being written
    assert order == [1]
    committer.append(journals[0], b"two\n", lambda: order.append(2))
    await asyncio.sleep(0)
    committer.append(journals[0], b"three\n", lambda: order.append(3))
    await journals[0].wait_for_last()
    assert order == [1, 2, 3]


async def test_more_than_the_disk_keeps_up_with_is_refused(committer, journals, monkeypatch):
    monkeypatch.setattr(module, "MAX_PENDING_BYTES", 100)
    done = committer.append(journals[0], b"x" * 200 + b"\n", do_nothing)  # alone, it may be larger
    with pytest.raises(Unavailable, match="does not keep up"):
        committer.append(journals[0], b"y\n", do_nothing)
    await done
    await committer.append(journals[0], b"y\n", do_nothing)


async def test_a_ping_is_answered_only_when_the_disk_works(committer, journals, monkeypatch):
    stuck = threading.Event()
    monkeypatch.setattr(module.os, "fdatasync", lambda fd: stuck.wait())
    append = committer.append(journals[0], b"x\n", do_nothing)
    ping = asyncio.create_task(committer.ping())
    await wait_for_passes(100)
    assert not ping.done()
    stuck.set()
    await asyncio.gather(append, ping)


async def test_an_append_after_the_end_fails_and_does_not_hang(committer, journals, caplog):
    await committer.append(journals[0], b"x\n", do_nothing)
    await committer.ping()
    await committer.close()
    with pytest.raises(Unavailable):
        await committer.append(journals[0], b"y\n", do_nothing)
    assert "the disk thread failed" in caplog.text


async def test_a_system_that_allows_no_thread_for_a_moment_costs_no_journal_its_life(
    layout, committer, monkeypatch
):
    def refuse_thread(_):
        raise RuntimeError("can't start new thread")

    def make_journal() -> Journal:
        return Journal(layout.get_journal_path(1), 0, fresh=True)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_thread)
        journal = make_journal()
        with pytest.raises(Unavailable, match="can't start new thread"):
            await committer.append(journal, b"x\n", do_nothing)
        assert not journal.dead
    await committer.append(make_journal(), b"y\n", do_nothing)
    assert Path(layout.get_journal_path(1)).read_bytes() == b"y\n"


CRASHING = """
import asyncio, sys
from agentd.storage.document import make_folder
from agentd.storage.journal import GroupCommitter, Journal
from agentd.storage.layout import Layout
from agentd.core.ids import Sequences
layout = Layout(sys.argv[1], sys.argv[1])
async def main():
    make_folder(layout.chats)
    committer = GroupCommitter(layout, Sequences())
    journal = Journal(layout.get_journal_path(1), 0, fresh=True)
    for n in range(10**6):
        await committer.append(journal, b"%d\\n" % n, lambda: print(n, flush=True))
asyncio.run(main())
"""


async def test_what_was_reported_is_there_after_kill_9(layout):
    command = [sys.executable, "-c", CRASHING, layout.state]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    assert child.stdout
    with child:
        told = [child.stdout.readline() for _ in range(50)]
        child.kill()
        told += child.stdout.readlines()
    written = Path(layout.get_journal_path(1)).read_text()
    assert written.startswith("".join(line for line in told if line.endswith("\n")))
