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
from agentd.gateway.keys.store import OWN_ID, OWN_NAME, AccessKeyRepository
from agentd.storage import document, watched_file
from agentd.storage.layout import Layout
from agentd.storage.watched_file import RETRY_SECONDS, SAME_STAMP_SECONDS
from tests.conftest import until

END = "2026-01-01T00:01:00.000Z"


class WatchedRepository:
    """A repository over a file, and the ids of keys that were reported as lost."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.path = Path(layout.access_keys)
        self.clock = FrozenClock()
        self.lost: list[frozenset[str]] = []
        self.heard = asyncio.Event()
        self.file = AccessKeyFile(layout)
        self.repository = AccessKeyRepository(self.file, self.clock)
        self.repository.on_revoked(self._on_lost)

    def _on_lost(self, lost: frozenset[str]) -> None:
        self.lost.append(lost)
        self.heard.set()

    async def accepts(self, key: str) -> bool:
        await self.repository.ensure_current()
        try:
            return bool(self.repository.authenticate(key))
        except Unauthorized:
            return False


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedRepository:
    monkeypatch.setattr(watched_file, "SETTLE_SECONDS", 0.05)
    return WatchedRepository(Layout(str(tmp_path / "state"), str(tmp_path / "config")))


def run_coroutine(coroutine) -> None:
    asyncio.run(coroutine)


async def reissue_key(
    watched: WatchedRepository, key_id: str, grace: int = 0
) -> tuple[str, AccessKey]:
    """Give a key a new secret whose answer is not sent yet."""
    made: list[str] = []

    def revise(key: AccessKey) -> AccessKey:
        letters, after = reissue(key, watched.clock.now(), grace)
        made.append(letters)
        return after

    after = await watched.repository.reissue(key_id, revise)
    await watched.repository.complete_reissue(after)
    return made[0], after


def test_a_key_opens_when_it_is_made_until_it_is_removed(watched):
    async def work() -> None:
        key, made = await watched.repository.add(
            "laptop", lambda key: structs.replace(key, models=("a",))
        )
        assert await watched.accepts(key)
        caller = watched.repository.authenticate(key)
        assert (caller.identity, caller.access_key_id, caller.role) == (
            "access:laptop",
            made.id,
            "nobody",
        )
        assert watched.repository.find(made.id) == made
        assert made.models == ("a",)
        assert watched.lost == []
        assert await watched.repository.remove(made.id) == made
        assert not await watched.accepts(key)
        assert watched.repository.find(made.id) is None
        assert watched.lost == [{made.id}]

    run_coroutine(work())


def test_a_key_that_is_deleted_within_a_turn_of_the_loop_opens_nothing_in_its_rest(watched):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        watched.clock.move(SAME_STAMP_SECONDS)
        await watched.repository.ensure_current()
        later: list[str] = []
        asyncio.get_running_loop().call_soon(later.append, "the next turn")
        assert await watched.accepts(key)
        assert not later
        watched.path.write_text("keys: []\n")
        assert not await watched.accepts(key)

    run_coroutine(work())


def test_reissued_letters_open_at_once_and_those_before_for_the_grace(watched):
    async def work() -> None:
        first, made = await watched.repository.add("laptop")
        second, _ = await reissue_key(watched, made.id, 60)
        assert await watched.accepts(first)
        assert await watched.accepts(second)
        watched.clock.move(60)
        assert not await watched.accepts(first)
        third, _ = await reissue_key(watched, made.id, 0)
        assert not await watched.accepts(second)
        assert await watched.accepts(third)
        assert watched.lost == [{made.id}]

    run_coroutine(work())


def test_a_change_can_touch_neither_id_nor_letters(watched):
    async def work() -> None:
        key, made = await watched.repository.add("laptop")
        _, other = await watched.repository.add("phone")
        changed = await watched.repository.change(
            made.id,
            lambda key: structs.replace(key, id=other.id, secret=other.secret, name="desk"),
        )
        assert changed == structs.replace(made, name="desk")
        assert await watched.accepts(key)

    run_coroutine(work())


def test_what_cannot_be_is_reported_and_changes_nothing(watched):
    async def work() -> None:
        _, made = await watched.repository.add("laptop")
        with pytest.raises(Conflict):
            await watched.repository.add("Laptop")
        with pytest.raises(BadRequest, match="name"):
            await watched.repository.add(" x")
        with pytest.raises(BadRequest, match="expires"):
            await watched.repository.change(
                made.id, lambda key: structs.replace(key, expires="soon")
            )
        with pytest.raises(NotFound):
            await watched.repository.remove("a" * 12)
        assert list(watched.repository.keys) == [made]

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
def test_a_key_that_cannot_be_read_as_valid_opens_nothing_at_the_next_request(watched, edit):
    async def work() -> None:
        key, made = await watched.repository.add("laptop")
        assert await watched.accepts(key)
        content, mode = watched.path.read_bytes(), 0o600
        edit(watched.path)
        assert not await watched.accepts(key)
        assert watched.lost == [{made.id}]
        document.replace_document(str(watched.path), content, mode=mode)
        assert await watched.accepts(key)
        assert watched.repository.problems == ()

    run_coroutine(work())


def test_while_an_editor_saves_requests_wait_and_are_then_admitted(watched, monkeypatch):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        content = watched.path.read_text()
        watched.path.write_text(content[:-30])
        waits, real = [], asyncio.sleep

        async def settle(seconds: float) -> None:
            if seconds:
                waits.append(seconds)
                watched.path.write_text(content)
            await real(0)

        monkeypatch.setattr(watched_file.asyncio, "sleep", settle)
        assert await watched.accepts(key)
        assert waits == [watched_file.SETTLE_SECONDS]
        assert watched.lost == []

    run_coroutine(work())


def test_one_broken_key_leaves_the_others_open(watched):
    async def work() -> None:
        first, _ = await watched.repository.add("first")
        second, _ = await watched.repository.add("second")
        watched.path.write_text(watched.path.read_text().replace("'second'", "' second'"))
        assert await watched.accepts(first)
        assert not await watched.accepts(second)
        assert "visible characters" in watched.repository.problems[0].what

    run_coroutine(work())


def test_an_unchanged_file_costs_one_look_and_no_reading(watched, monkeypatch):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        watched.clock.move(1)
        await watched.repository.ensure_current()
        monkeypatch.setattr(AccessKeyFile, "read", None)
        for _ in range(3):
            assert await watched.accepts(key)

    run_coroutine(work())


def test_two_edits_with_the_same_stamp_are_both_seen(watched):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        content = watched.path.read_text()
        assert await watched.accepts(key)
        stamp = os.stat(watched.path)
        watched.path.write_text(content.replace("'laptop'", "'lap\ttop"))
        os.utime(watched.path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert not await watched.accepts(key)

    run_coroutine(work())


def test_a_file_that_could_not_be_read_is_looked_at_again_and_ends_nothing(watched, monkeypatch):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        watched.clock.move(1)
        real = os.open

        def failing(path, *more, **given):
            if path == str(watched.path):
                raise OSError(5, "no")
            return real(path, *more, **given)

        monkeypatch.setattr(document.os, "open", failing)
        os.utime(watched.path, ns=(1, 1))
        assert not await watched.accepts(key)
        watched.clock.move(SAME_STAMP_SECONDS)
        assert not await watched.accepts(key)
        monkeypatch.setattr(document.os, "open", real)
        assert not watched.lost
        watched.clock.move(RETRY_SECONDS)
        assert await watched.accepts(key)
        assert not watched.lost

    run_coroutine(work())


def test_many_requests_at_once_read_an_edit_once(watched, monkeypatch):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        watched.clock.move(1)
        await watched.repository.ensure_current()
        reads = []
        real = AccessKeyFile.read

        def counted(self):
            reads.append(1)
            return real(self)

        monkeypatch.setattr(AccessKeyFile, "read", counted)
        os.utime(watched.path, ns=(1, 1))
        assert all(await asyncio.gather(*(watched.accepts(key) for _ in range(50))))
        assert len(reads) <= 2

    run_coroutine(work())


def test_a_client_that_runs_something_on_a_key_receives_that_its_time_is_over(watched):
    async def work() -> None:
        _, made = await watched.repository.add(
            "laptop", lambda key: structs.replace(key, expires=END)
        )
        _, other = await watched.repository.add("phone")
        await watched.repository.poll()
        assert watched.lost == []
        assert watched.repository.find(made.id) == made
        assert watched.repository.is_still_valid(made)
        watched.clock.move(60)
        await watched.repository.poll()
        await watched.repository.poll()
        assert watched.lost == [{made.id}]
        assert watched.repository.find(made.id) is None
        assert not watched.repository.is_still_valid(made)
        assert watched.repository.is_still_valid(other)
        await watched.repository.remove(made.id)
        assert watched.lost == [{made.id}]

    run_coroutine(work())


def test_what_is_wrong_with_the_file_is_told_when_it_changes_and_when_it_is_gone(watched):
    async def work() -> None:
        told: list[list[int]] = []
        watched.repository.on_problems = lambda all_: told.append(
            sorted({one.line for one in all_})
        )
        await watched.repository.add("laptop")
        sound = watched.path.read_text()
        for more in ("- id: a\n", "- id: a\n# a remark\n", ""):
            watched.path.write_text(sound + more)
            watched.clock.move(1)
            await watched.repository.ensure_current()
        await watched.repository.add("phone")
        line = len(sound.splitlines()) + 1
        assert told == [[line], []]

    run_coroutine(work())


def test_a_key_of_whatever_other_letters_is_not_the_one_that_was_admitted(watched):
    async def work() -> None:
        _, first = await watched.repository.add("laptop")
        _, second = await reissue_key(watched, first.id, 60)
        assert watched.repository.is_still_valid(first)
        await reissue_key(watched, first.id, 0)
        assert not watched.repository.is_still_valid(first)
        assert not watched.repository.is_still_valid(second)
        assert watched.lost == [{first.id}]

    run_coroutine(work())


def test_a_key_that_is_reinstated_opens_as_soon_as_that_was_noticed(watched):
    async def work() -> None:
        key, made = await watched.repository.add("laptop")
        older = watched.path.read_text()
        await watched.repository.remove(made.id)
        watched.path.write_text(older)
        assert not await watched.accepts(key)
        watched.clock.move(1)
        await watched.repository.ensure_current()
        AccessKeyFile(watched.layout).reinstate("laptop")
        watched.repository.on_file_changed("revoked.json")
        async with asyncio.timeout(60):
            while not await watched.accepts(key):
                pass
        await watched.repository.stop()

    run_coroutine(work())


def test_the_key_of_the_agents_engines_opens_without_a_file_until_it_is_issued_anew(watched):
    async def work() -> None:
        first = watched.repository.issue_own_key()
        caller = watched.repository.authenticate(first)
        assert (caller.identity, caller.access_key_id) == (f"access:{OWN_NAME}", OWN_ID)
        known = watched.repository.find(OWN_ID)
        assert known
        assert watched.repository.is_still_valid(known)
        assert not watched.path.exists()
        wrong = first[:-1] + ("a" if first[-1] != "a" else "b")
        for guess in (wrong, first[:-1], f"{first} ", first.swapcase()):
            assert not await watched.accepts(guess)
        second = watched.repository.issue_own_key()
        assert [await watched.accepts(one) for one in (first, second)] == [False, True]
        assert not watched.repository.is_still_valid(known)

    run_coroutine(work())


@pytest.mark.parametrize("name", ["access-keys.yml", "revoked.json"])
def test_the_watchers_word_of_either_file_is_enough(watched, name):
    async def work() -> None:
        key, _ = await watched.repository.add("laptop")
        watched.path.unlink()
        watched.repository.on_file_changed(name)
        async with asyncio.timeout(60):
            await watched.heard.wait()
        with pytest.raises(Unauthorized):
            watched.repository.authenticate(key)
        await watched.repository.stop()

    run_coroutine(work())


# Reissuing a key when its answer may not get out.


async def check_keys_after_start(watched: WatchedRepository, *keys: str) -> list[bool]:
    """Return which keys a daemon that starts on these files now accepts."""
    again = WatchedRepository(watched.layout)
    found = [await again.accepts(key) for key in keys]
    await again.repository.stop()
    return found


def test_letters_before_are_refused_after_a_restart_too_once_the_new_ones_were_reported(watched):
    async def work() -> None:
        first, made = await watched.repository.add("laptop")
        second, after = await reissue_key(watched, made.id)
        assert [await watched.accepts(key) for key in (first, second)] == [False, True]
        watched.repository.confirm_reissue(after, arrived=True)
        await watched.repository.stop()
        assert await check_keys_after_start(watched, first, second) == [False, True]

    run_coroutine(work())


def test_after_a_death_before_the_answer_letters_before_hold_until_the_new_ones_are_used(watched):
    async def work() -> None:
        first, made = await watched.repository.add("laptop")
        second, _ = await reissue_key(watched, made.id)
        again = WatchedRepository(watched.layout)
        assert [await again.accepts(first) for _ in range(2)] == [True, True]
        assert again.repository.authenticate(first).access_key_id == made.id
        assert await again.accepts(second)
        await again.repository.stop()
        assert not await again.accepts(first)
        assert again.lost == [{made.id}]
        assert await check_keys_after_start(watched, first, second) == [False, True]

    run_coroutine(work())


def test_letters_whose_grace_lasts_hold_on_when_an_answer_does_not_get_out(watched):
    async def work() -> None:
        first, made = await watched.repository.add("laptop")
        second, after = await reissue_key(watched, made.id, 60)
        watched.repository.confirm_reissue(after, arrived=True)
        third, _ = await reissue_key(watched, made.id, 0)
        assert [await watched.accepts(key) for key in (first, second, third)] == [
            False,
            False,
            True,
        ]
        assert await check_keys_after_start(watched, first, second) == [True, True]
        await watched.repository.stop()

    run_coroutine(work())


def test_when_the_answer_does_not_get_out_the_letters_before_are_valid_again(watched):
    async def work() -> None:
        first, made = await watched.repository.add("laptop")
        second, after = await reissue_key(watched, made.id)
        watched.clock.move(SAME_STAMP_SECONDS)
        assert not await watched.accepts(first)
        watched.repository.confirm_reissue(after, arrived=False)
        assert await watched.accepts(first)
        third, after = await reissue_key(watched, made.id, 60)
        watched.repository.confirm_reissue(after, arrived=True)
        assert [await watched.accepts(key) for key in (first, second, third)] == [True, False, True]
        await watched.repository.stop()
        watched.clock.move(61)
        assert [await watched.accepts(key) for key in (first, second, third)] == [
            False,
            False,
            True,
        ]
        assert await check_keys_after_start(watched, second, third) == [False, True]

    run_coroutine(work())


def test_a_disk_that_is_full_when_the_letters_before_end_is_asked_again(watched, monkeypatch):
    """And what was reissued meanwhile is not taken away with them."""
    monkeypatch.setattr("agentd.core.retry.FIRST_DELAY", 0.01)

    async def work() -> None:
        real, tried, full = watched.file.revoke_previous, [], True

        def settle(*result: str) -> None:
            tried.append(result)
            if full:
                raise Unavailable("the disk is full")
            real(*result)

        monkeypatch.setattr(watched.file, "revoke_previous", settle)
        first, made = await watched.repository.add("laptop")
        second, after = await reissue_key(watched, made.id)
        watched.repository.confirm_reissue(after, arrived=True)
        await until(lambda: len(tried) >= 2)
        third, after = await reissue_key(watched, made.id)
        full = False
        await watched.repository.stop()
        keys = (first, second, third)
        assert [await watched.accepts(key) for key in keys] == [False, False, True]
        watched.repository.confirm_reissue(after, arrived=True)
        await watched.repository.stop()
        assert await check_keys_after_start(watched, *keys) == [False, False, True]

    run_coroutine(work())


def test_a_running_daemon_follows_a_key_that_is_reissued_beside_it(watched):
    """As ``agentd proxy key reissue`` does: letters end when the new ones were printed."""

    async def work() -> None:
        first, made = await watched.repository.add("laptop")
        beside = AccessKeyFile(watched.layout)
        letters: list[str] = []

        def revise(key: AccessKey) -> AccessKey:
            new, after = reissue(key, watched.clock.now(), 0)
            letters.append(new)
            return after

        after = beside.reissue(made.id, revise)
        assert await watched.accepts(first)
        assert watched.lost == []
        assert watched.repository.is_still_valid(made)
        beside.revoke_previous(made.id, after.secret.sha256)
        assert [await watched.accepts(key) for key in (first, *letters)] == [False, True]
        assert watched.lost == [{made.id}]
        assert not watched.repository.is_still_valid(made)

    run_coroutine(work())
