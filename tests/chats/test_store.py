"""Many chats in few bytes of memory, read back the same; a copy of the folder is always whole."""

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest

from agentd.chats import store as module
from agentd.chats.service import NewChat
from agentd.chats.turns import report_tool_use
from agentd.core.errors import NotFound, Unavailable
from agentd.storage import journal
from agentd.storage.document import TEMPORARY_PREFIX
from agentd.storage.layout import Layout
from tests.conftest import ME, TEST, overwrite, running_services, until
from tests.support.copies import copy_state

pytestmark = pytest.mark.gen_test


async def test_idle_chats_are_let_go_of_and_read_back_the_same(layout, monkeypatch):
    monkeypatch.setattr(module, "MAX_OPEN_CHATS", 20)
    async with running_services(layout) as services:
        for n in range(60):
            number = (await services.chats.create(NewChat(title=str(n), prompt="x"), ME)).id
            if n % 3 == 0:
                await services.turns.start_turn(number, TEST)
                await services.turns.end_turn(number, "failed", "why")
            if n % 2 == 0:
                await services.chats.append_prompt(number, "y", "m", ME)
        assert len(services.files._opened) <= 20
        for summary in services.chats.list_summaries():
            chat = await services.chats.get(summary.id)
            assert chat.summarize() == summary
            await services.chats.append_prompt(summary.id, "z", "", ME)
            assert (await services.chats.get(summary.id)).queue[:-1] == chat.queue
        assert len(services.files._opened) <= 20


async def test_the_least_recently_used_chat_is_let_go_of_first(layout, monkeypatch):
    monkeypatch.setattr(module, "MAX_OPEN_CHATS", 3)
    async with running_services(layout) as services:
        first = (await services.chats.create(NewChat(), ME)).id
        for _ in range(4):
            await services.chats.create(NewChat(), ME)
            await services.chats.get(first)
        assert first in services.files._opened


async def test_chats_that_hold_much_text_are_let_go_of_however_few_they_are(layout, monkeypatch):
    """Also while nobody opens another: they grow by what is said in them."""
    monkeypatch.setattr(module, "MAX_RECENT_BYTES", 50_000)
    monkeypatch.setattr(module, "UNLOAD_CHECK_EVERY", 8)
    async with running_services(layout) as services:
        numbers = [(await services.chats.create(NewChat(), ME)).id for _ in range(6)]
        for _ in range(10):
            for number in numbers:
                await services.chats.append_prompt(number, "x" * 2000, "", ME)
                await services.turns.start_turn(number, TEST)
                await services.turns.end_turn(number, "completed")
                kept = [opened.chat.recent_bytes for opened in services.files._opened.values()]
                assert sum(kept) < 50_000 + 8 * 2000
        assert 1 <= len(kept) < len(numbers)
        for number in numbers:
            assert [len(one.text) for one in await services.history(number)] == [2000] * 10


async def test_chats_that_hold_many_diffs_are_let_go_of_too(layout, monkeypatch):
    monkeypatch.setattr(module, "MAX_RECENT_BYTES", 50_000)
    monkeypatch.setattr(module, "UNLOAD_CHECK_EVERY", 8)
    async with running_services(layout) as services:
        numbers = [(await services.chats.create(NewChat(), ME)).id for _ in range(6)]
        for _ in range(10):
            for number in numbers:
                await services.chats.append_prompt(number, "Edit.", "", ME)
                await services.turns.start_turn(number, TEST)
                report = report_tool_use("a", diff="x" * 2000)
                await services.turns.add_message(number, "tool", "a", tool="e", report=report)
                await services.turns.end_turn(number, "completed")
                opened = list(services.files._opened.values())
                recent = [one for each in opened for one in each.chat.recent]
                size = sum(len(one.report.diff) for one in recent if one.report)
                assert size < 50_000 + 8 * 2000
        assert 1 <= len(opened) < len(numbers)


async def test_chats_at_work_and_unwritten_ones_stay_and_keep_no_other_from_going(
    layout, monkeypatch
):
    monkeypatch.setattr(module, "MAX_OPEN_CHATS", 3)
    async with running_services(layout) as services:
        working = []
        for _ in range(5):
            working.append((await services.chats.create(NewChat(prompt="x"), ME)).id)
            await services.turns.start_turn(working[-1], TEST)
        for _ in range(5):
            await services.chats.create(NewChat(), ME)
        assert set(working) <= set(services.files._opened)
        assert len(services.files._opened) <= 6


@pytest.mark.parametrize("bound", ["MAX_OPEN_CHATS", "MAX_RECENT_BYTES"])
async def test_a_chat_stays_until_those_who_opened_it_have_it(layout, monkeypatch, bound):
    """However few may be kept, such as while others that are at work take all of the memory."""
    async with running_services(layout) as services:
        numbers = [(await services.chats.create(NewChat(prompt="x"), ME)).id for _ in range(5)]
    monkeypatch.setattr(module, bound, 0 if bound == "MAX_OPEN_CHATS" else -1)
    async with running_services(layout) as services:
        appends = [services.chats.append_prompt(number, "y", "", ME) for number in numbers * 2]
        await asyncio.gather(*appends)
        assert not services.files._awaited
        for number in numbers:
            assert [one.text for one in (await services.chats.get(number)).queue] == [*"xyy"]


async def test_many_openings_of_one_chat_are_one(layout, monkeypatch):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="x"), ME)).id
    async with running_services(layout) as services:
        chats = await asyncio.gather(*(services.files.open(number) for _ in range(20)))
        assert len(set(map(id, chats))) == 1


async def test_a_client_that_leaves_while_a_chat_is_opened_affects_nobody_else(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="x"), ME)).id
    async with running_services(layout) as services:
        tasks = [asyncio.create_task(services.files.open(number)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert (await tasks[1]).id == number


async def test_an_opening_that_fails_after_all_left_is_not_an_unheard_error(layout):
    async with running_services(layout) as services:
        task = asyncio.create_task(services.files.open(5))
        await asyncio.sleep(0)
        task.cancel()
        await until(lambda: not services.files._opening)
        with pytest.raises(NotFound):
            await services.files.open(5)


async def test_history_in_portions_is_everything_once(layout, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 5000)
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="go"), ME)).id
        await services.turns.start_turn(number, TEST)
        for n in range(300):
            services.clock.move(0.4)
            await services.turns.add_message(
                number, "assistant", f"{n} " + "é\u2028\r\n" * (n % 40)
            )
            if n % 10 == 0:
                await services.chats.append_prompt(number, "between", "", ME)
        chat = await services.chats.get(number)
        portions = [part async for part in services.files.read_history(chat, "")]
        messages = [message for part in portions for message in part]
        assert len(portions) > 5
        assert len(messages) == chat.messages == 301
        assert [message.id for message in messages] == sorted(message.id for message in messages)
        assert messages[-len(chat.recent) :] == chat.recent
        for message in messages[::15]:
            later = [
                one async for part in services.files.read_history(chat, message.at) for one in part
            ]
            assert later == [one for one in messages if one.at >= message.at]


async def test_history_is_that_of_the_chat_as_it_was_asked_of(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="go"), ME)).id
        await services.turns.start_turn(number, TEST)
        chat = await services.chats.get(number)
        await services.turns.add_message(number, "assistant", "later")
        assert [len(part) async for part in services.files.read_history(chat, "")] == [1]


@pytest.mark.parametrize("how", ["shorter", "gone", "altered"])
async def test_a_history_that_cannot_be_read_is_an_error_that_names_the_file(layout, how):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="go"), ME)).id
        await services.turns.start_turn(number, TEST)
        chat, path = await services.chats.get(number), layout.get_journal_path(number)
        match how:
            case "shorter":
                os.truncate(path, 0)
            case "gone":
                os.rename(path, path + ".away")
            case "altered":
                overwrite(path, chat.size // 2, b"#")
        with pytest.raises(Unavailable) as caught:
            async for _ in services.files.read_history(chat, ""):
                pass
        assert path in caught.value.details


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EIO])
async def test_a_history_that_cannot_be_read_for_a_moment_does_not_make_its_chat_read_only(
    layout, monkeypatch, code
):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="go"), ME)).id
        await services.turns.start_turn(number, TEST)
        chat = await services.chats.get(number)
        with monkeypatch.context() as patch:
            patch.setattr(module, "open_journal_file", fail)
            with pytest.raises(Unavailable) as caught:
                _ = [part async for part in services.files.read_history(chat, "")]
        assert layout.get_journal_path(number) in caught.value.details
        assert not services.chats.get_summary(number).damage
        await services.chats.append_prompt(number, "more", "", ME)
        assert [len(part) async for part in services.files.read_history(chat, "")] == [1]


async def test_a_long_chat_has_a_checkpoint_while_it_grows(layout, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 50)
    async with running_services(layout, crash=True) as services:
        number = (await services.chats.create(NewChat(), ME)).id
        for _ in range(130):
            await services.chats.append_prompt(number, "x", "", ME)
        await until(lambda: os.path.exists(layout.get_checkpoint_path(number)))
        await asyncio.to_thread(services.files._readers.shutdown)
        assert module.load(layout, number).checkpointed in (50, 100)


async def test_a_dead_journal_is_read_as_far_as_it_is_safe_and_the_others_go_on(
    layout, monkeypatch, caplog
):
    """After a failed fsync the kernel may show bytes that are not on the disk."""

    def fail(fd):
        raise OSError(errno.EIO, "Input/output error")

    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="safe"), ME)).id
        other = (await services.chats.create(NewChat(), ME)).id
        monkeypatch.setattr(journal.os, "fdatasync", fail)
        with pytest.raises(Unavailable, match="the disk failed"):
            await services.chats.append_prompt(number, "perhaps", "", ME)
        monkeypatch.undo()
        assert b"perhaps" in Path(layout.get_journal_path(number)).read_bytes()
        chat = await services.chats.get(number)
        assert [prompt.text for prompt in chat.queue] == ["safe"]
        assert "the disk failed" in services.chats.get_summary(number).damage
        with pytest.raises(Unavailable, match="read-only"):
            await services.chats.append_prompt(number, "x", "", ME)
        await services.chats.append_prompt(other, "x", "", ME)
    async with running_services(layout) as services:
        assert services.chats.get_summary(number).damage == ""
        chat = await services.chats.get(number)
        assert [prompt.text for prompt in chat.queue] == ["safe", "perhaps"]


async def test_a_chat_that_was_refused_at_once_leaves_nothing_behind(layout, monkeypatch):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(), ME)).id
        monkeypatch.setattr(journal, "MAX_PENDING_BYTES", 10)
        waiting = asyncio.create_task(services.chats.append_prompt(number, "x", "", ME))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="does not keep up"):
            await services.chats.create(NewChat(), ME)
        await waiting
        assert list(services.files._opened) == [number]


async def test_a_hot_copy_opens_clean_and_has_all_that_was_acknowledged_before_it(
    layout, tmp_path, monkeypatch
):
    """``cp -r`` at any moment, while the daemon works."""
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 40)
    async with running_services(layout) as services:
        numbers = [(await services.chats.create(NewChat(), ME)).id for _ in range(8)]
        over = False

        async def write(number: int) -> None:
            while not over:
                await services.chats.append_prompt(number, "x" * 300, "", ME)
                if await services.turns.start_turn(number, TEST):
                    await services.turns.add_message(number, "assistant", "hello")
                    await services.turns.end_turn(number, "completed")

        writers = [asyncio.create_task(write(number)) for number in numbers]
        for n in range(8):
            await services.chats.append_prompt(numbers[0], "marker", "", ME)
            acknowledged = {chat.id: chat.size for chat in services.chats.list_summaries()}
            copy = tmp_path / f"copy-{n}"
            if n % 2:
                passing = shutil.ignore_patterns(f"{TEMPORARY_PREFIX}*")
                await asyncio.to_thread(shutil.copytree, layout.state, copy, ignore=passing)
            else:
                await asyncio.to_thread(copy_state, layout.state, copy)
            await asyncio.to_thread(services.state.save, services.chats.list_summaries())
            await _is_whole(Layout(str(copy), layout.config), acknowledged)
        over = True
        await asyncio.gather(*writers)


async def _is_whole(layout: Layout, acknowledged: dict[int, int]) -> None:
    async with running_services(layout) as services:
        await services.turns.end_interrupted()
        assert {chat.id for chat in services.chats.list_summaries()} == set(acknowledged)
        for chat in services.chats.list_summaries():
            assert not chat.damage
            assert chat.size >= acknowledged[chat.id]
            said = await services.history(chat.id)
            assert len(said) == chat.messages
            await services.chats.append_prompt(chat.id, "after the restore", "", ME)
