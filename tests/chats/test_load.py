"""A chat is read back whole, or up to its damage, and nothing that was written is lost."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentd.chats import checkpoint
from agentd.chats import load as module
from agentd.chats.load import load, scan_chats
from agentd.chats.service import NewChat
from agentd.chats.trash import Trash
from agentd.chats.trash_store import TrashFolder
from agentd.core.errors import NotFound, Unavailable
from agentd.storage.layout import Layout
from tests.conftest import ME, overwrite, running_services

pytestmark = pytest.mark.gen_test


async def write_chat(layout, prompts: int = 5, *, crash: bool = True) -> int:
    """Write a chat with some prompts, left by a crash (without a checkpoint) or a clean stop."""
    async with running_services(layout, crash=crash) as services:
        chat = await services.chats.create(NewChat(title="T"), ME)
        for n in range(prompts):
            await services.chats.append_prompt(chat.id, f"prompt {n}", "", ME)
        return chat.id


def append(path: str, data: bytes) -> None:
    overwrite(path, os.path.getsize(path), data)


@pytest.mark.parametrize("torn", [b"{", b'{"n":7,"seq":9}\n', b"\0" * 40_000], ids=len)
async def test_a_torn_end_is_kept_aside_and_cut_off_and_the_chat_goes_on(layout, torn, caplog):
    number = await write_chat(layout)
    whole = Path(layout.get_journal_path(number)).read_bytes()
    append(layout.get_journal_path(number), torn)
    async with running_services(layout) as services:
        assert services.chats.get_summary(number).damage == ""
        assert Path(layout.get_journal_path(number)).read_bytes() == whole
        [aside] = Path(layout.get_chat_folder(number)).glob("journal.jsonl.torn-*")
        assert aside.read_bytes() == torn
        assert aside.stat().st_mode & 0o777 == 0o600
        assert "an unfinished write" in caplog.text
        await services.chats.append_prompt(number, "next", "", ME)
    assert Path(layout.get_journal_path(number)).read_bytes().startswith(whole)


async def test_a_torn_end_is_not_cut_while_a_daemon_may_be_writing(layout):
    number = await write_chat(layout)
    append(layout.get_journal_path(number), b"{")
    size = os.path.getsize(layout.get_journal_path(number))
    assert "journal.jsonl:7" in load(layout, number).chat.damage
    assert os.path.getsize(layout.get_journal_path(number)) == size


async def test_a_torn_end_that_cannot_be_cut_off_is_damage_and_the_rest_is_read(
    layout, monkeypatch
):
    number = await write_chat(layout)
    append(layout.get_journal_path(number), b"{")
    monkeypatch.setattr(module.time, "time_ns", lambda: 1)
    aside = Path(f"{layout.get_journal_path(number)}.torn-1")
    aside.write_bytes(b"the last time")
    loaded = load(layout, number, repair=True)
    assert loaded.chat.damage
    assert len(loaded.chat.queue) == 5
    assert aside.read_bytes() == b"the last time"
    assert Path(layout.get_journal_path(number)).read_bytes().endswith(b"{")


async def test_damage_in_the_middle_makes_that_chat_read_only_and_named_and_no_other(
    layout, caplog
):
    bad, good = await write_chat(layout), await write_chat(layout)
    overwrite(
        layout.get_journal_path(bad), os.path.getsize(layout.get_journal_path(bad)) // 2, b"#"
    )
    data = Path(layout.get_journal_path(bad)).read_bytes()
    async with running_services(layout) as services:
        damage = services.chats.get_summary(bad).damage
        assert damage.startswith(f"{layout.get_journal_path(bad)}:")
        assert damage in caplog.text
        assert 0 < len((await services.chats.get(bad)).queue) < 5
        with pytest.raises(Unavailable, match="read-only"):
            await services.chats.append_prompt(bad, "x", "", ME)
        await services.chats.append_prompt(good, "x", "", ME)
    assert Path(layout.get_journal_path(bad)).read_bytes() == data
    assert not list(Path(layout.get_chat_folder(bad)).glob("*.torn-*"))


async def test_a_repaired_journal_is_believed_again(layout):
    """A person's repair is enough: no cache remembers the damage."""
    number = await write_chat(layout, 200, crash=False)
    sound = Path(layout.get_journal_path(number)).read_bytes()
    os.unlink(layout.get_checkpoint_path(number))
    os.unlink(layout.index)
    overwrite(layout.get_journal_path(number), len(sound) // 2, b"#")
    async with running_services(layout) as services:
        assert (await services.chats.get(number)).damage
    Path(layout.get_journal_path(number)).write_bytes(sound)
    async with running_services(layout) as services:
        assert not services.chats.get_summary(number).damage
        assert len((await services.chats.get(number)).queue) == 200


async def test_a_line_of_a_newer_agentd_is_left_alone(layout):
    number = await write_chat(layout)
    body = {"type": "chat.frobbed"}
    newer = {"n": 7, "seq": 9000, "at": "2027-01-01T00:00:00.000Z", "by": "me", "body": body}
    append(layout.get_journal_path(number), module.checkpoint.encode_checksummed(newer))
    data = Path(layout.get_journal_path(number)).read_bytes()
    async with running_services(layout) as services:
        assert "unknown form" in services.chats.get_summary(number).damage
    assert Path(layout.get_journal_path(number)).read_bytes() == data


async def test_a_checkpoint_is_only_a_short_cut(layout):
    number = await write_chat(layout, crash=False)
    quick = load(layout, number)
    assert quick.checkpointed == quick.chat.lines == 6
    os.unlink(layout.get_checkpoint_path(number))
    slow = load(layout, number)
    assert slow.checkpointed == 0
    assert slow.chat == quick.chat


async def test_a_checkpoint_from_before_is_read_on_from(layout):
    number = await write_chat(layout, crash=False)
    async with running_services(layout, crash=True) as services:
        await services.chats.append_prompt(number, "later", "", ME)
    loaded = load(layout, number)
    assert loaded.checkpointed == 6
    assert [prompt.text for prompt in loaded.chat.queue][-1] == "later"


async def test_a_checkpoint_from_after_the_journal_is_ignored(layout, tmp_path):
    """A copy takes files one after another; a restore may leave a newer checkpoint behind."""
    number = await write_chat(layout, crash=False)
    older = Path(layout.get_journal_path(number)).read_bytes()
    async with running_services(layout) as services:
        await services.chats.append_prompt(number, "later", "", ME)
        await services.chats.append_prompt(number, "later", "", ME)
    Path(layout.get_journal_path(number)).write_bytes(older)
    loaded = load(layout, number)
    assert loaded.checkpointed == 0
    assert len(loaded.chat.queue) == 5


async def test_a_checkpoint_of_another_past_is_ignored_even_where_every_number_agrees(layout):
    """A restored folder gives the same numbers to other changes of the same length."""
    number = await write_chat(layout, crash=False)
    folder = Path(layout.state)
    shutil.copytree(folder, folder.with_name("backup"))
    async with running_services(layout) as services:
        await services.chats.append_prompt(number, "aaa", "", ME)
    newer = Path(layout.get_checkpoint_path(number)).read_bytes()
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("backup"), folder)
    async with running_services(layout, crash=True) as services:
        services.clock.move(60)
        await services.chats.append_prompt(number, "bbb", "", ME)
    Path(layout.get_checkpoint_path(number)).write_bytes(newer)
    assert load(layout, number).chat.queue[-1].text == "bbb"


async def test_a_checkpoint_of_another_chat_is_ignored(layout):
    number = await write_chat(layout, crash=False)
    shutil.copytree(layout.get_chat_folder(number), layout.get_chat_folder(77))
    loaded = load(layout, 77)
    assert loaded.chat.id == 77
    assert loaded.checkpointed == 0


@pytest.mark.parametrize("damage", ["torn", "altered", "empty", "a folder", "a link", "newer"])
async def test_a_checkpoint_that_is_not_sound_is_ignored(layout, damage):
    number = await write_chat(layout, crash=False)
    path = Path(layout.get_checkpoint_path(number))
    data = path.read_bytes()
    path.unlink()
    match damage:
        case "torn":
            path.write_bytes(data[:50])
        case "altered":
            path.write_bytes(data.replace(b"prompt 3", b"prompt 4"))
        case "empty":
            path.write_bytes(b"")
        case "a folder":
            path.mkdir()
        case "a link":
            path.with_name("elsewhere").write_bytes(data)
            path.symlink_to("elsewhere")
        case "newer":
            chat = load(layout, number).chat
            path.write_bytes(checkpoint.encode_checksummed(checkpoint.Checkpoint(2, chat)))
    loaded = load(layout, number)
    assert loaded.checkpointed == 0
    assert [prompt.text for prompt in loaded.chat.queue] == [f"prompt {n}" for n in range(5)]


async def test_a_missing_chat_is_not_found(layout):
    with pytest.raises(NotFound):
        load(layout, 5)


@pytest.mark.parametrize("instead", ["a folder", "a link", "nothing but a checkpoint", "a FIFO"])
async def test_a_journal_that_cannot_be_read_is_named_and_the_others_go_on(layout, instead, caplog):
    bad, good = await write_chat(layout, crash=False), await write_chat(layout, crash=False)
    path = Path(layout.get_journal_path(bad))
    path.rename(path.with_name("elsewhere"))
    match instead:
        case "a folder":
            path.mkdir()
        case "a link":
            path.symlink_to("elsewhere")
        case "a FIFO":
            os.mkfifo(path)
    async with running_services(layout) as services:
        assert str(path) in services.chats.list_summaries()[0].damage
        assert str(path) in caplog.text
        for act in (services.chats.get(bad), services.chats.append_prompt(bad, "x", "", ME)):
            with pytest.raises(Unavailable, match=f"Chat {bad} cannot be read"):
                await act
        await services.chats.append_prompt(good, "x", "", ME)
    assert path.with_name("elsewhere").exists()
    assert not os.path.exists(layout.trash)


@pytest.mark.parametrize("first", [b"", b'{"n":1,"seq":1', b"\0" * 40_000], ids=str)
async def test_a_chat_that_died_before_its_first_line_is_set_aside(layout, first, caplog):
    """It was never announced; its id is not given out again all the same."""
    good = await write_chat(layout)
    os.mkdir(layout.get_chat_folder(99))
    Path(layout.get_journal_path(99)).write_bytes(first)
    async with running_services(layout) as services:
        assert [chat.id for chat in services.chats.list_summaries()] == [good]
        assert f"{layout.get_chat_folder(99)} holds no chat" in caplog.text
        [aside] = os.listdir(layout.trash)
        assert aside.startswith("99.unborn-")
        assert not os.path.exists(layout.get_chat_folder(99))


async def test_what_is_no_chat_is_passed_over(layout):
    good = await write_chat(layout)
    for name in ("007", "0", "-1", "notes", "1e3", "٣", "9" * 16, "9" * 30, ".tmp-x"):
        os.mkdir(os.path.join(layout.chats, name))
    chats, marks = scan_chats(layout, {}, repair=True)
    assert list(chats) == [good]
    assert marks.chat == good
    assert not os.path.exists(layout.trash)


async def test_what_a_crash_left_half_written_is_swept(layout):
    number = await write_chat(layout)
    left = Path(layout.get_chat_folder(number), ".tmp-checkpoint.json-1")
    left.write_bytes(b"{")
    scan_chats(layout, {}, repair=False)
    assert left.exists()
    scan_chats(layout, {}, repair=True)
    assert not left.exists()


async def leave_crashed_chats(layout: Layout) -> None:
    """Leave a sound chat, one with a torn end, a deleted one, and one that never was."""
    await write_chat(layout)
    torn, gone = await write_chat(layout), await write_chat(layout)
    append(layout.get_journal_path(torn), b'{"n":')
    async with running_services(layout, crash=True) as services:
        await Trash(services.chats._chats, TrashFolder(layout)).delete(gone, ME)
    os.mkdir(layout.get_chat_folder(9))
    Path(layout.get_journal_path(9)).write_bytes(b"")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_a_call_that_fails_once_while_chats_are_taken_stock_of_changes_nothing(
    layout, tmp_path, code
):
    await leave_crashed_chats(layout)
    place = iter(range(10_000))

    def scan_with_fault(at: int) -> tuple[object, int]:
        """Return the result of a start's scan when its ``at``-th system call fails."""
        folder = str(tmp_path / f"case {next(place)}")
        shutil.copytree(layout.state, folder)
        faulty = FailingOnce(at, code)
        with pytest.MonkeyPatch.context() as patch:
            faulty.install(patch)
            chats, _ = scan_chats(Layout(folder, folder), {}, repair=True)
        assert chats == scan_chats(Layout(folder, folder), {}, repair=True)[0]
        return chats, faulty.count

    sound, count = scan_with_fault(0)
    assert count > 30
    for at in range(2, count + 1):  # without the first, the list of all chats, nothing starts
        assert scan_with_fault(at)[0] == sound


async def test_where_the_chats_cannot_be_listed_the_start_is_refused_by_name(layout, monkeypatch):
    await write_chat(layout)
    FailingOnce(1, errno.EIO).install(monkeypatch)
    with pytest.raises(Unavailable, match=f"cannot read {layout.chats}: the disk failed"):
        scan_chats(layout, {}, repair=True)


class FailingOnce:
    """Has one call to the system fail, of those that look at files."""

    NAMES = ("open", "listdir", "stat", "fstat", "read", "pread", "unlink", "fsync", "mkdir",
             "rename", "rmdir")  # fmt: skip

    def __init__(self, at: int, code: int) -> None:
        self._at = at
        self._code = code
        self.count = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in self.NAMES:
            patch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            self.count += 1
            if self.count == self._at:
                raise OSError(self._code, os.strerror(self._code))
            return real(*args, **named)

        return call
