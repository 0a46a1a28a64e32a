"""What is done to the access keys' file holds from the next request on."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec import structs

from agentd.clock import FrozenClock
from agentd.disk import access_key_book, document
from agentd.disk.access_key_book import RACY, RETRY, AccessKeyBook
from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.layout import Layout
from agentd.errors import BadRequest, Conflict, NotFound, Unauthorized, Unavailable
from agentd.proxy.access_key import AccessKey, reissue

END = "2026-01-01T00:01:00.000Z"


class Kept:
    """A book over a file, and the ids of whom it told to be lost."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.path = Path(layout.access_keys)
        self.clock = FrozenClock()
        self.lost: list[frozenset[str]] = []
        self.heard = asyncio.Event()
        self.file = AccessKeyFile(layout)
        self.book = AccessKeyBook(self.file, self.clock)
        self.book.hear(self._hear)

    def _hear(self, lost: frozenset[str]) -> None:
        self.lost.append(lost)
        self.heard.set()

    async def opens(self, key: str) -> bool:
        await self.book.fresh()
        try:
            return bool(self.book.admit(key))
        except Unauthorized:
            return False


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(access_key_book, "SETTLE", 0.05)
    return Kept(Layout(str(tmp_path / "state"), str(tmp_path / "config")))


def run(coroutine) -> None:
    asyncio.run(coroutine)


async def reissued(kept: Kept, key_id: str, grace: int = 0) -> tuple[str, AccessKey]:
    """Give a key other letters, as one whose answer is on its way."""
    made: list[str] = []

    def revise(key: AccessKey) -> AccessKey:
        letters, after = reissue(key, kept.clock.now(), grace)
        made.append(letters)
        return after

    after = await kept.book.reissue(key_id, revise)
    await kept.book.answer(after)
    return made[0], after


def test_a_key_opens_when_it_is_made_until_it_is_removed(kept):
    async def work() -> None:
        key, made = await kept.book.add("laptop", lambda key: structs.replace(key, models=("a",)))
        assert await kept.opens(key)
        caller = kept.book.admit(key)
        assert (caller.by, caller.access, caller.role) == ("access:laptop", made.id, "nobody")
        assert kept.book.find(made.id) == made
        assert made.models == ("a",)
        assert kept.lost == []
        assert await kept.book.remove(made.id) == made
        assert not await kept.opens(key)
        assert kept.book.find(made.id) is None
        assert kept.lost == [{made.id}]

    run(work())


def test_a_key_that_is_deleted_within_a_turn_of_the_loop_opens_nothing_in_its_rest(kept):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(RACY)
        await kept.book.fresh()
        later: list[str] = []
        asyncio.get_running_loop().call_soon(later.append, "the next turn")
        assert await kept.opens(key)
        assert not later
        kept.path.write_text("keys: []\n")
        assert not await kept.opens(key)

    run(work())


def test_reissued_letters_open_at_once_and_those_before_for_the_grace(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, _ = await reissued(kept, made.id, 60)
        assert await kept.opens(first)
        assert await kept.opens(second)
        kept.clock.move(60)
        assert not await kept.opens(first)
        third, _ = await reissued(kept, made.id, 0)
        assert not await kept.opens(second)
        assert await kept.opens(third)
        assert kept.lost == [{made.id}]

    run(work())


def test_a_change_can_touch_neither_id_nor_letters(kept):
    async def work() -> None:
        key, made = await kept.book.add("laptop")
        _, other = await kept.book.add("phone")
        changed = await kept.book.change(
            made.id,
            lambda key: structs.replace(key, id=other.id, secret=other.secret, name="desk"),
        )
        assert changed == structs.replace(made, name="desk")
        assert await kept.opens(key)

    run(work())


def test_what_cannot_be_is_told_and_changes_nothing(kept):
    async def work() -> None:
        _, made = await kept.book.add("laptop")
        with pytest.raises(Conflict):
            await kept.book.add("Laptop")
        with pytest.raises(BadRequest, match="name"):
            await kept.book.add(" x")
        with pytest.raises(BadRequest, match="expires"):
            await kept.book.change(made.id, lambda key: structs.replace(key, expires="soon"))
        with pytest.raises(NotFound):
            await kept.book.remove("a" * 12)
        assert list(kept.book.keys) == [made]

    run(work())


def without(path: Path) -> None:
    path.unlink()


def disabled(path: Path) -> None:
    path.write_text(path.read_text() + "  enabled: false\n")


def broken(path: Path) -> None:
    path.write_text(path.read_text().replace("created", "creatd"))


def torn(path: Path) -> None:
    path.write_text(path.read_text()[:-30])


def emptied(path: Path) -> None:
    path.write_text("")


def swapped(path: Path) -> None:
    beside = path.with_name("new")
    beside.write_text("format: 1\nkeys: []\n")
    beside.chmod(0o600)
    beside.rename(path)


def opened_to_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize(
    "edit",
    [without, disabled, broken, torn, emptied, swapped, opened_to_all],
    ids=lambda f: f.__name__,
)
def test_a_key_that_cannot_be_read_as_valid_opens_nothing_at_the_next_request(kept, edit):
    async def work() -> None:
        key, made = await kept.book.add("laptop")
        assert await kept.opens(key)
        content, mode = kept.path.read_bytes(), 0o600
        edit(kept.path)
        assert not await kept.opens(key)
        assert kept.lost == [{made.id}]
        document.replace(str(kept.path), content, mode=mode)
        assert await kept.opens(key)
        assert kept.book.mistakes == ()

    run(work())


def test_while_an_editor_saves_requests_wait_and_are_then_let_in(kept, monkeypatch):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        content = kept.path.read_text()
        kept.path.write_text(content[:-30])
        waits, real = [], asyncio.sleep

        async def settle(seconds: float) -> None:
            if seconds:
                waits.append(seconds)
                kept.path.write_text(content)
            await real(0)

        monkeypatch.setattr(access_key_book.asyncio, "sleep", settle)
        assert await kept.opens(key)
        assert waits == [access_key_book.SETTLE]
        assert kept.lost == []

    run(work())


def test_one_broken_key_leaves_the_others_open(kept):
    async def work() -> None:
        first, _ = await kept.book.add("first")
        second, _ = await kept.book.add("second")
        kept.path.write_text(kept.path.read_text().replace("'second'", "' second'"))
        assert await kept.opens(first)
        assert not await kept.opens(second)
        assert "visible characters" in kept.book.mistakes[0].what

    run(work())


def test_an_unchanged_file_costs_one_look_and_no_reading(kept, monkeypatch):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(1)
        await kept.book.fresh()
        monkeypatch.setattr(AccessKeyFile, "read", None)
        for _ in range(3):
            assert await kept.opens(key)

    run(work())


def test_two_edits_with_the_same_stamp_are_both_seen(kept):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        content = kept.path.read_text()
        assert await kept.opens(key)
        stamp = os.stat(kept.path)
        kept.path.write_text(content.replace("'laptop'", "'lap\ttop"))
        os.utime(kept.path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert not await kept.opens(key)

    run(work())


def test_a_file_that_could_not_be_read_is_looked_at_again_and_ends_nothing(kept, monkeypatch):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(1)
        real = os.open

        def failing(path, *more, **given):
            if path == str(kept.path):
                raise OSError(5, "no")
            return real(path, *more, **given)

        monkeypatch.setattr(document.os, "open", failing)
        os.utime(kept.path, ns=(1, 1))
        assert not await kept.opens(key)
        kept.clock.move(RACY)
        assert not await kept.opens(key)
        monkeypatch.setattr(document.os, "open", real)
        assert not kept.lost
        kept.clock.move(RETRY)
        assert await kept.opens(key)
        assert not kept.lost

    run(work())


def test_many_requests_at_once_read_an_edit_once(kept, monkeypatch):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(1)
        await kept.book.fresh()
        reads = []
        real = AccessKeyFile.read

        def counted(self):
            reads.append(1)
            return real(self)

        monkeypatch.setattr(AccessKeyFile, "read", counted)
        os.utime(kept.path, ns=(1, 1))
        assert all(await asyncio.gather(*(kept.opens(key) for _ in range(50))))
        assert len(reads) <= 2

    run(work())


def test_who_runs_something_on_a_key_hears_that_its_time_is_over(kept):
    async def work() -> None:
        _, made = await kept.book.add("laptop", lambda key: structs.replace(key, expires=END))
        _, other = await kept.book.add("phone")
        await kept.book.look()
        assert kept.lost == []
        kept.clock.move(60)
        await kept.book.look()
        await kept.book.look()
        assert kept.lost == [{made.id}]
        assert not kept.book.welcomes(made)
        assert kept.book.welcomes(other)
        await kept.book.remove(made.id)
        assert kept.lost == [{made.id}]

    run(work())


def test_a_key_of_whatever_other_letters_is_not_the_one_that_was_let_in(kept):
    async def work() -> None:
        _, first = await kept.book.add("laptop")
        _, second = await reissued(kept, first.id, 60)
        assert kept.book.welcomes(first)
        await reissued(kept, first.id, 0)
        assert not kept.book.welcomes(first)
        assert not kept.book.welcomes(second)
        assert kept.lost == [{first.id}]

    run(work())


def test_a_key_that_is_reinstated_opens_as_soon_as_that_was_noticed(kept):
    async def work() -> None:
        key, made = await kept.book.add("laptop")
        older = kept.path.read_text()
        await kept.book.remove(made.id)
        kept.path.write_text(older)
        assert not await kept.opens(key)
        kept.clock.move(1)
        await kept.book.fresh()
        AccessKeyFile(kept.layout).reinstate("laptop")
        kept.book.noticed("revoked.json")
        async with asyncio.timeout(60):
            while not await kept.opens(key):
                pass
        await kept.book.stop()

    run(work())


def test_the_watchers_word_is_enough(kept):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.path.unlink()
        kept.book.noticed("other.yml")
        kept.book.noticed(kept.path.name)
        async with asyncio.timeout(60):
            await kept.heard.wait()
        with pytest.raises(Unauthorized):
            kept.book.admit(key)
        await kept.book.stop()

    run(work())


# Reissuing a key when its answer may not get out.


async def opening_after_a_start(kept: Kept, *keys: str) -> list[bool]:
    """Which keys open something in a daemon that starts on these files now."""
    again = Kept(kept.layout)
    found = [await again.opens(key) for key in keys]
    await again.book.stop()
    return found


def test_letters_before_are_refused_after_a_restart_too_once_the_new_ones_were_told(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, after = await reissued(kept, made.id)
        assert [await kept.opens(key) for key in (first, second)] == [False, True]
        kept.book.told(after, arrived=True)
        await kept.book.stop()
        assert await opening_after_a_start(kept, first, second) == [False, True]

    run(work())


def test_after_a_death_before_the_answer_letters_before_hold_until_the_new_ones_are_used(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, _ = await reissued(kept, made.id)
        again = Kept(kept.layout)
        assert [await again.opens(first) for _ in range(2)] == [True, True]
        assert again.book.admit(first).access == made.id
        assert await again.opens(second)
        await again.book.stop()
        assert not await again.opens(first)
        assert again.lost == [{made.id}]
        assert await opening_after_a_start(kept, first, second) == [False, True]

    run(work())


def test_letters_whose_grace_lasts_hold_on_when_an_answer_does_not_get_out(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, after = await reissued(kept, made.id, 60)
        kept.book.told(after, arrived=True)
        third, _ = await reissued(kept, made.id, 0)
        assert [await kept.opens(key) for key in (first, second, third)] == [False, False, True]
        assert await opening_after_a_start(kept, first, second) == [True, True]
        await kept.book.stop()

    run(work())


def test_when_the_answer_does_not_get_out_the_letters_before_are_good_again(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, after = await reissued(kept, made.id)
        kept.book.told(after, arrived=False)
        assert await kept.opens(first)
        third, after = await reissued(kept, made.id, 60)
        kept.book.told(after, arrived=True)
        assert [await kept.opens(key) for key in (first, second, third)] == [True, False, True]
        await kept.book.stop()
        kept.clock.move(61)
        assert [await kept.opens(key) for key in (first, second, third)] == [False, False, True]
        assert await opening_after_a_start(kept, second, third) == [False, True]

    run(work())


def test_a_disk_that_is_full_when_the_letters_before_end_is_asked_again(kept, monkeypatch):
    """And what was reissued meanwhile is not taken away with them."""
    monkeypatch.setattr("agentd.retries.FIRST_SECONDS", 0.01)

    async def work() -> None:
        real, tried, full = kept.file.settle, [], True

        def settle(*told: str) -> None:
            tried.append(told)
            if full:
                raise Unavailable("the disk is full")
            real(*told)

        monkeypatch.setattr(kept.file, "settle", settle)
        first, made = await kept.book.add("laptop")
        second, after = await reissued(kept, made.id)
        kept.book.told(after, arrived=True)
        async with asyncio.timeout(60):
            while len(tried) < 2:  # noqa: ASYNC110 - there is no event for what is tried
                await asyncio.sleep(0.005)
        third, after = await reissued(kept, made.id)
        full = False
        await kept.book.stop()
        keys = (first, second, third)
        assert [await kept.opens(key) for key in keys] == [False, False, True]
        kept.book.told(after, arrived=True)
        await kept.book.stop()
        assert await opening_after_a_start(kept, *keys) == [False, False, True]

    run(work())


def test_a_running_daemon_follows_a_key_that_is_reissued_beside_it(kept):
    """As ``agentd proxy key reissue`` does: letters end when the new ones were printed."""

    async def work() -> None:
        first, made = await kept.book.add("laptop")
        beside = AccessKeyFile(kept.layout)
        letters: list[str] = []

        def revise(key: AccessKey) -> AccessKey:
            new, after = reissue(key, kept.clock.now(), 0)
            letters.append(new)
            return after

        after = beside.reissue(made.id, revise)
        assert await kept.opens(first)
        assert kept.lost == []
        assert kept.book.welcomes(made)
        beside.settle(made.id, after.secret.sha256)
        assert [await kept.opens(key) for key in (first, *letters)] == [False, True]
        assert kept.lost == [{made.id}]
        assert not kept.book.welcomes(made)

    run(work())
