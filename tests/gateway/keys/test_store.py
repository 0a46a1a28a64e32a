"""Changes of the access keys' file hold from the next request on."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.core.errors import BadRequest, Conflict, NotFound, Unauthorized, Unavailable
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import AccessKey, reissue
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.storage import document, watched_file
from agentd.storage.layout import Layout
from agentd.storage.watched_file import RETRY_SECONDS, SAME_STAMP_SECONDS

END = "2026-01-01T00:01:00.000Z"


class Kept:
    """A repository over a file, and the ids of keys that were reported as lost."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.path = Path(layout.access_keys)
        self.clock = FrozenClock()
        self.lost: list[frozenset[str]] = []
        self.heard = asyncio.Event()
        self.file = AccessKeyFile(layout)
        self.book = AccessKeyRepository(self.file, self.clock)
        self.book.on_revoked(self._on_lost)

    def _on_lost(self, lost: frozenset[str]) -> None:
        self.lost.append(lost)
        self.heard.set()

    async def accepts(self, key: str) -> bool:
        await self.book.ensure_current()
        try:
            return bool(self.book.authenticate(key))
        except Unauthorized:
            return False


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(watched_file, "SETTLE_SECONDS", 0.05)
    return Kept(Layout(str(tmp_path / "state"), str(tmp_path / "config")))


def run_coroutine(coroutine) -> None:
    asyncio.run(coroutine)


async def reissue_key(kept: Kept, key_id: str, grace: int = 0) -> tuple[str, AccessKey]:
    """Give a key a new secret whose answer is not sent yet."""
    made: list[str] = []

    def revise(key: AccessKey) -> AccessKey:
        letters, after = reissue(key, kept.clock.now(), grace)
        made.append(letters)
        return after

    after = await kept.book.reissue(key_id, revise)
    await kept.book.complete_reissue(after)
    return made[0], after


def test_a_key_opens_when_it_is_made_until_it_is_removed(kept):
    async def work() -> None:
        key, made = await kept.book.add("laptop", lambda key: structs.replace(key, models=("a",)))
        assert await kept.accepts(key)
        caller = kept.book.authenticate(key)
        assert (caller.identity, caller.access_key_id, caller.role) == (
            "access:laptop",
            made.id,
            "nobody",
        )
        assert kept.book.find(made.id) == made
        assert made.models == ("a",)
        assert kept.lost == []
        assert await kept.book.remove(made.id) == made
        assert not await kept.accepts(key)
        assert kept.book.find(made.id) is None
        assert kept.lost == [{made.id}]

    run_coroutine(work())


def test_a_key_that_is_deleted_within_a_turn_of_the_loop_opens_nothing_in_its_rest(kept):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(SAME_STAMP_SECONDS)
        await kept.book.ensure_current()
        later: list[str] = []
        asyncio.get_running_loop().call_soon(later.append, "the next turn")
        assert await kept.accepts(key)
        assert not later
        kept.path.write_text("keys: []\n")
        assert not await kept.accepts(key)

    run_coroutine(work())


def test_reissued_letters_open_at_once_and_those_before_for_the_grace(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, _ = await reissue_key(kept, made.id, 60)
        assert await kept.accepts(first)
        assert await kept.accepts(second)
        kept.clock.move(60)
        assert not await kept.accepts(first)
        third, _ = await reissue_key(kept, made.id, 0)
        assert not await kept.accepts(second)
        assert await kept.accepts(third)
        assert kept.lost == [{made.id}]

    run_coroutine(work())


def test_a_change_can_touch_neither_id_nor_letters(kept):
    async def work() -> None:
        key, made = await kept.book.add("laptop")
        _, other = await kept.book.add("phone")
        changed = await kept.book.change(
            made.id,
            lambda key: structs.replace(key, id=other.id, secret=other.secret, name="desk"),
        )
        assert changed == structs.replace(made, name="desk")
        assert await kept.accepts(key)

    run_coroutine(work())


def test_what_cannot_be_is_reported_and_changes_nothing(kept):
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

    run_coroutine(work())


def remove_file(path: Path) -> None:
    path.unlink()


def disable_key(path: Path) -> None:
    path.write_text(path.read_text() + "  enabled: false\n")


def break_entry(path: Path) -> None:
    path.write_text(path.read_text().replace("created", "creatd"))


def truncate_file(path: Path) -> None:
    path.write_text(path.read_text()[:-30])


def empty_file(path: Path) -> None:
    path.write_text("")


def replace_file(path: Path) -> None:
    beside = path.with_name("new")
    beside.write_text("format: 1\nkeys: []\n")
    beside.chmod(0o600)
    beside.rename(path)


def make_world_writable(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize(
    "edit",
    [
        remove_file,
        disable_key,
        break_entry,
        truncate_file,
        empty_file,
        replace_file,
        make_world_writable,
    ],
    ids=lambda f: f.__name__,
)
def test_a_key_that_cannot_be_read_as_valid_opens_nothing_at_the_next_request(kept, edit):
    async def work() -> None:
        key, made = await kept.book.add("laptop")
        assert await kept.accepts(key)
        content, mode = kept.path.read_bytes(), 0o600
        edit(kept.path)
        assert not await kept.accepts(key)
        assert kept.lost == [{made.id}]
        document.replace_document(str(kept.path), content, mode=mode)
        assert await kept.accepts(key)
        assert kept.book.problems == ()

    run_coroutine(work())


def test_while_an_editor_saves_requests_wait_and_are_then_admitted(kept, monkeypatch):
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

        monkeypatch.setattr(watched_file.asyncio, "sleep", settle)
        assert await kept.accepts(key)
        assert waits == [watched_file.SETTLE_SECONDS]
        assert kept.lost == []

    run_coroutine(work())


def test_one_broken_key_leaves_the_others_open(kept):
    async def work() -> None:
        first, _ = await kept.book.add("first")
        second, _ = await kept.book.add("second")
        kept.path.write_text(kept.path.read_text().replace("'second'", "' second'"))
        assert await kept.accepts(first)
        assert not await kept.accepts(second)
        assert "visible characters" in kept.book.problems[0].what

    run_coroutine(work())


def test_an_unchanged_file_costs_one_look_and_no_reading(kept, monkeypatch):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(1)
        await kept.book.ensure_current()
        monkeypatch.setattr(AccessKeyFile, "read", None)
        for _ in range(3):
            assert await kept.accepts(key)

    run_coroutine(work())


def test_two_edits_with_the_same_stamp_are_both_seen(kept):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        content = kept.path.read_text()
        assert await kept.accepts(key)
        stamp = os.stat(kept.path)
        kept.path.write_text(content.replace("'laptop'", "'lap\ttop"))
        os.utime(kept.path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert not await kept.accepts(key)

    run_coroutine(work())


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
        assert not await kept.accepts(key)
        kept.clock.move(SAME_STAMP_SECONDS)
        assert not await kept.accepts(key)
        monkeypatch.setattr(document.os, "open", real)
        assert not kept.lost
        kept.clock.move(RETRY_SECONDS)
        assert await kept.accepts(key)
        assert not kept.lost

    run_coroutine(work())


def test_many_requests_at_once_read_an_edit_once(kept, monkeypatch):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.clock.move(1)
        await kept.book.ensure_current()
        reads = []
        real = AccessKeyFile.read

        def counted(self):
            reads.append(1)
            return real(self)

        monkeypatch.setattr(AccessKeyFile, "read", counted)
        os.utime(kept.path, ns=(1, 1))
        assert all(await asyncio.gather(*(kept.accepts(key) for _ in range(50))))
        assert len(reads) <= 2

    run_coroutine(work())


def test_a_client_that_runs_something_on_a_key_receives_that_its_time_is_over(kept):
    async def work() -> None:
        _, made = await kept.book.add("laptop", lambda key: structs.replace(key, expires=END))
        _, other = await kept.book.add("phone")
        await kept.book.poll()
        assert kept.lost == []
        kept.clock.move(60)
        await kept.book.poll()
        await kept.book.poll()
        assert kept.lost == [{made.id}]
        assert not kept.book.is_still_valid(made)
        assert kept.book.is_still_valid(other)
        await kept.book.remove(made.id)
        assert kept.lost == [{made.id}]

    run_coroutine(work())


def test_a_key_of_whatever_other_letters_is_not_the_one_that_was_admitted(kept):
    async def work() -> None:
        _, first = await kept.book.add("laptop")
        _, second = await reissue_key(kept, first.id, 60)
        assert kept.book.is_still_valid(first)
        await reissue_key(kept, first.id, 0)
        assert not kept.book.is_still_valid(first)
        assert not kept.book.is_still_valid(second)
        assert kept.lost == [{first.id}]

    run_coroutine(work())


def test_a_key_that_is_reinstated_opens_as_soon_as_that_was_noticed(kept):
    async def work() -> None:
        key, made = await kept.book.add("laptop")
        older = kept.path.read_text()
        await kept.book.remove(made.id)
        kept.path.write_text(older)
        assert not await kept.accepts(key)
        kept.clock.move(1)
        await kept.book.ensure_current()
        AccessKeyFile(kept.layout).reinstate("laptop")
        kept.book.on_file_changed("revoked.json")
        async with asyncio.timeout(60):
            while not await kept.accepts(key):
                pass
        await kept.book.stop()

    run_coroutine(work())


def test_the_watchers_word_is_enough(kept):
    async def work() -> None:
        key, _ = await kept.book.add("laptop")
        kept.path.unlink()
        kept.book.on_file_changed("other.yml")
        kept.book.on_file_changed(kept.path.name)
        async with asyncio.timeout(60):
            await kept.heard.wait()
        with pytest.raises(Unauthorized):
            kept.book.authenticate(key)
        await kept.book.stop()

    run_coroutine(work())


# Reissuing a key when its answer may not get out.


async def check_keys_after_start(kept: Kept, *keys: str) -> list[bool]:
    """Return which keys a daemon that starts on these files now accepts."""
    again = Kept(kept.layout)
    found = [await again.accepts(key) for key in keys]
    await again.book.stop()
    return found


def test_letters_before_are_refused_after_a_restart_too_once_the_new_ones_were_reported(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, after = await reissue_key(kept, made.id)
        assert [await kept.accepts(key) for key in (first, second)] == [False, True]
        kept.book.confirm_reissue(after, arrived=True)
        await kept.book.stop()
        assert await check_keys_after_start(kept, first, second) == [False, True]

    run_coroutine(work())


def test_after_a_death_before_the_answer_letters_before_hold_until_the_new_ones_are_used(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, _ = await reissue_key(kept, made.id)
        again = Kept(kept.layout)
        assert [await again.accepts(first) for _ in range(2)] == [True, True]
        assert again.book.authenticate(first).access_key_id == made.id
        assert await again.accepts(second)
        await again.book.stop()
        assert not await again.accepts(first)
        assert again.lost == [{made.id}]
        assert await check_keys_after_start(kept, first, second) == [False, True]

    run_coroutine(work())


def test_letters_whose_grace_lasts_hold_on_when_an_answer_does_not_get_out(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, after = await reissue_key(kept, made.id, 60)
        kept.book.confirm_reissue(after, arrived=True)
        third, _ = await reissue_key(kept, made.id, 0)
        assert [await kept.accepts(key) for key in (first, second, third)] == [False, False, True]
        assert await check_keys_after_start(kept, first, second) == [True, True]
        await kept.book.stop()

    run_coroutine(work())


def test_when_the_answer_does_not_get_out_the_letters_before_are_valid_again(kept):
    async def work() -> None:
        first, made = await kept.book.add("laptop")
        second, after = await reissue_key(kept, made.id)
        kept.book.confirm_reissue(after, arrived=False)
        assert await kept.accepts(first)
        third, after = await reissue_key(kept, made.id, 60)
        kept.book.confirm_reissue(after, arrived=True)
        assert [await kept.accepts(key) for key in (first, second, third)] == [True, False, True]
        await kept.book.stop()
        kept.clock.move(61)
        assert [await kept.accepts(key) for key in (first, second, third)] == [False, False, True]
        assert await check_keys_after_start(kept, second, third) == [False, True]

    run_coroutine(work())


def test_a_disk_that_is_full_when_the_letters_before_end_is_asked_again(kept, monkeypatch):
    """And what was reissued meanwhile is not taken away with them."""
    monkeypatch.setattr("agentd.core.retry.FIRST_DELAY", 0.01)

    async def work() -> None:
        real, tried, full = kept.file.revoke_previous, [], True

        def settle(*result: str) -> None:
            tried.append(result)
            if full:
                raise Unavailable("the disk is full")
            real(*result)

        monkeypatch.setattr(kept.file, "revoke_previous", settle)
        first, made = await kept.book.add("laptop")
        second, after = await reissue_key(kept, made.id)
        kept.book.confirm_reissue(after, arrived=True)
        async with asyncio.timeout(60):
            while len(tried) < 2:  # noqa: ASYNC110 - there is no event for what is tried
                await asyncio.sleep(0.005)
        third, after = await reissue_key(kept, made.id)
        full = False
        await kept.book.stop()
        keys = (first, second, third)
        assert [await kept.accepts(key) for key in keys] == [False, False, True]
        kept.book.confirm_reissue(after, arrived=True)
        await kept.book.stop()
        assert await check_keys_after_start(kept, *keys) == [False, False, True]

    run_coroutine(work())


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
        assert await kept.accepts(first)
        assert kept.lost == []
        assert kept.book.is_still_valid(made)
        beside.revoke_previous(made.id, after.secret.sha256)
        assert [await kept.accepts(key) for key in (first, *letters)] == [False, True]
        assert kept.lost == [{made.id}]
        assert not kept.book.is_still_valid(made)

    run_coroutine(work())
