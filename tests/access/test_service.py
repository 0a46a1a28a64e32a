"""The keys in force follow the file from one request to the next, whatever is done to it."""

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agentd.access.gate import Gate, Presented, Surface
from agentd.access.key import issue
from agentd.access.service import GRACE, RETRY, SAVE_EVERY, Kept, KeyService
from agentd.clock import FrozenClock, SystemClock
from agentd.disk.keys import KeyFile
from agentd.disk.layout import Layout
from agentd.errors import BadRequest, Conflict, Disabled, NotFound, Unauthorized, Unavailable

AT = "2026-01-01T00:00:00.000Z"
LAPTOP_KEY, LAPTOP = issue("laptop", AT)
PHONE_KEY, PHONE = issue("phone", AT)
SECRET = "owner's choice"
HASH = sha256(SECRET.encode()).hexdigest()


class Scene:
    """A running service over real files, with a clock that stands."""

    def __init__(self, folder: Path, environment: str = "") -> None:
        self.layout = Layout(str(folder), "")
        self.path = Path(self.layout.keys)
        self.file = KeyFile(self.layout)
        self.clock = FrozenClock()
        self.lost: list[frozenset[str]] = []
        self.service = KeyService(self.file, self.clock, environment, self.lost.append)

    async def admitted(self, key: str) -> bool:
        """One request on the remote API."""
        await self.service.fresh()
        try:
            Gate(self.service).admit(Surface.REMOTE, Presented(key))
        except Unauthorized:
            return False
        return True


def scene(test: Callable[[Scene], Awaitable[None]], folder: Path, environment: str = "") -> None:
    """Run a test with a started service and two keys."""

    async def run() -> None:
        here = Scene(folder, environment)
        here.file.add(LAPTOP)
        here.file.add(PHONE)
        await here.service.start()
        here.clock.move(1)
        await here.service.fresh()
        try:
            await test(here)
        finally:
            await here.service.stop()

    asyncio.run(run())


def without_laptop(path: Path) -> bytes:
    """The file as a person would leave it who deletes the first entry."""
    head, *entries = path.read_text().split("- name: ")
    return "- name: ".join([head, *(one for one in entries if "laptop" not in one)]).encode()


def in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def renamed_over(path: Path, content: bytes) -> None:
    path.with_suffix(".new").write_bytes(content)
    os.rename(path.with_suffix(".new"), path)


def deleted_and_written(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def moved_away_and_written(path: Path, content: bytes) -> None:
    os.rename(path, path.with_suffix(".yml~"))
    path.write_bytes(content)


def copied_over(path: Path, content: bytes) -> None:
    path.with_suffix(".src").write_bytes(content)
    subprocess.run(["cp", path.with_suffix(".src"), path], check=True)


def by_sed(path: Path, _: bytes) -> None:
    expression = "/- name: 'laptop'/,/created/d"
    subprocess.run(["sed", "-i", expression, path], check=True)


STYLES = [in_place, renamed_over, deleted_and_written, moved_away_and_written, copied_over, by_sed]


@pytest.mark.parametrize("save", STYLES)
def test_a_key_deleted_by_any_editor_is_refused_at_the_next_request(tmp_path, save):
    async def test(here: Scene) -> None:
        assert await here.admitted(LAPTOP_KEY)
        save(here.path, without_laptop(here.path))
        assert not await here.admitted(LAPTOP_KEY)
        assert await here.admitted(PHONE_KEY)
        assert here.lost == [{"laptop"}]

    scene(test, tmp_path)


def test_a_deleted_file_is_no_keys_at_once(tmp_path):
    async def test(here: Scene) -> None:
        here.path.unlink()
        with pytest.raises(Disabled):
            await here.admitted(LAPTOP_KEY)
        assert here.lost == [{"laptop", "phone"}]

    scene(test, tmp_path)


@pytest.mark.parametrize("half", [b"", b"format: 1\nkeys:\n- name: 'lap"])
def test_a_save_in_two_steps_interrupts_nobody(tmp_path, half):
    async def test(here: Scene) -> None:
        whole = here.path.read_bytes()
        here.path.write_bytes(half)
        assert await here.admitted(LAPTOP_KEY)
        here.clock.move(GRACE / 2)
        assert await here.admitted(LAPTOP_KEY)
        here.path.write_bytes(whole)
        assert await here.admitted(LAPTOP_KEY)
        here.clock.move(GRACE)
        assert await here.admitted(LAPTOP_KEY)
        assert here.lost == []

    scene(test, tmp_path)


def test_after_the_grace_a_damaged_file_lets_no_named_key_in_but_the_environments(tmp_path, caplog):
    async def test(here: Scene) -> None:
        here.path.write_bytes(b"keys: [\n")
        assert await here.admitted(LAPTOP_KEY)
        here.clock.move(GRACE)
        for _ in range(3):
            assert not await here.admitted(LAPTOP_KEY)
            assert await here.admitted(SECRET)
            here.clock.move(RETRY)
        assert here.lost == [{"laptop", "phone"}]
        assert "keys.yml:2: not YAML" in here.service.trouble
        here.path.write_bytes(b"keys: [[\n")
        assert not await here.admitted(LAPTOP_KEY)

    with caplog.at_level(logging.WARNING, "agentd"):
        scene(test, tmp_path, HASH)
    told = [record.message for record in caplog.records]
    assert len(told) == len(set(told)) <= 2
    assert "no named access key is accepted" in told[0]


def test_without_requests_too_the_grace_ends(tmp_path):
    async def test() -> None:
        here = Scene(tmp_path)
        here.file.add(LAPTOP)
        service = KeyService(here.file, SystemClock(), "", here.lost.append)
        await service.start()
        here.path.write_bytes(b"[")
        service.wake()
        await _until(lambda: here.lost)
        assert here.lost == [{"laptop"}]
        assert service.match(LAPTOP_KEY) is None
        await service.stop()

    asyncio.run(test())


@pytest.mark.parametrize("content", [b"", b"["])
def test_a_file_that_was_emptied_or_damaged_long_ago_has_no_grace(tmp_path, content):
    async def test() -> None:
        here = Scene(tmp_path)
        here.file.add(LAPTOP)
        service = KeyService(here.file, SystemClock())
        await service.start()
        here.path.write_bytes(content)
        long_ago = time.time() - 3600
        os.utime(here.path, (long_ago, long_ago))
        await service.fresh()
        assert service.match(LAPTOP_KEY) is None
        await service.stop()

    asyncio.run(test())


def test_a_damaged_file_refuses_and_does_not_disable(tmp_path):
    async def test(here: Scene) -> None:
        here.path.write_bytes(b"keys: [\n")
        here.clock.move(GRACE)
        await here.service.fresh()
        here.clock.move(GRACE)
        assert not await here.admitted(LAPTOP_KEY)

    scene(test, tmp_path)


def test_at_start_a_damaged_file_has_no_grace(tmp_path):
    async def test() -> None:
        here = Scene(tmp_path)
        here.path.write_bytes(b"keys: [\n")
        await here.service.start()
        assert here.service.configured
        assert here.service.trouble
        await here.service.stop()

    asyncio.run(test())


def test_a_file_that_others_may_write_is_refused_at_once_and_heals(tmp_path):
    async def test(here: Scene) -> None:
        os.chmod(here.path, 0o620)
        assert not await here.admitted(LAPTOP_KEY)
        assert "chmod go-w" in here.service.trouble
        os.chmod(here.path, 0o640)
        assert await here.admitted(LAPTOP_KEY)
        assert here.service.trouble == ""

    scene(test, tmp_path)


def test_trouble_elsewhere_than_in_the_file_heals_within_a_second(tmp_path):
    async def test(here: Scene) -> None:
        await here.service.revoke("phone")
        here.clock.move(1)
        await here.service.fresh()
        os.chmod(here.layout.revoked, 0o620)
        here.service.wake()
        await _until(lambda: here.service.trouble)
        os.chmod(here.layout.revoked, 0o600)
        assert not await here.admitted(LAPTOP_KEY)
        here.clock.move(RETRY)
        assert await here.admitted(LAPTOP_KEY)

    scene(test, tmp_path)


def test_two_edits_within_one_tick_of_the_file_systems_clock_are_both_seen(tmp_path):
    async def test(here: Scene) -> None:
        stamp = here.file.stamp()
        here.path.write_bytes(here.path.read_bytes() + b"# edited\n")
        assert await here.admitted(LAPTOP_KEY)
        frozen = here.file.stamp()
        assert frozen != stamp
        here.service._store = _Coarse(here.file, frozen)
        here.path.write_bytes(without_laptop(here.path))
        assert not await here.admitted(LAPTOP_KEY)
        here.path.unlink()
        here.clock.move(1)
        with pytest.raises(Disabled):
            await here.admitted(LAPTOP_KEY)

    scene(test, tmp_path)


class _Coarse:
    """A file system whose clock stands."""

    def __init__(self, file: KeyFile, stamp: object) -> None:
        self._file, self._stamp = file, stamp

    def stamp(self) -> object:
        return self._stamp

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_revoked_key_opens_nothing_once_the_answer_is_given(tmp_path):
    async def test(here: Scene) -> None:
        await here.service.revoke("laptop")
        assert here.service.match(LAPTOP_KEY) is None
        assert here.service.match(PHONE_KEY) == "phone"
        assert here.lost == [{"laptop"}]
        with pytest.raises(NotFound):
            await here.service.revoke("laptop")

    scene(test, tmp_path)


def test_a_revoked_key_that_comes_back_with_an_older_file_is_listed_and_refused(tmp_path):
    async def test(here: Scene) -> None:
        older = here.path.read_bytes()
        await here.service.revoke("laptop")
        here.path.write_bytes(older)
        assert not await here.admitted(LAPTOP_KEY)
        listed = {key.name: key.revoked for key in await here.service.keys()}
        assert listed == {"laptop": True, "phone": False}
        here.file.reinstate("laptop")
        here.service.wake()
        await _until(lambda: here.service.match(LAPTOP_KEY))

    scene(test, tmp_path)


def test_what_another_process_revokes_is_refused_at_the_next_request(tmp_path):
    async def test(here: Scene) -> None:
        KeyFile(here.layout).revoke("laptop", AT)
        assert not await here.admitted(LAPTOP_KEY)

    scene(test, tmp_path)


def test_a_new_key_works_at_once_and_is_not_kept(tmp_path):
    async def test(here: Scene) -> None:
        key = await here.service.generate("tablet")
        assert await here.admitted(key)
        assert key not in here.path.read_text()
        with pytest.raises(Conflict):
            await here.service.generate("tablet")
        with pytest.raises(BadRequest):
            await here.service.generate("a b")
        assert here.lost == [frozenset()]

    scene(test, tmp_path)


def test_regenerating_takes_the_old_key_away_and_tells_whose(tmp_path):
    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        assert await here.admitted(key)
        assert not await here.admitted(LAPTOP_KEY)
        assert here.lost == [{"laptop"}]
        with pytest.raises(NotFound):
            await here.service.regenerate("nobody")

    scene(test, tmp_path)


def test_last_use_is_noted_and_saved_at_most_once_a_minute_apart_from_the_keys(tmp_path):
    async def test(here: Scene) -> None:
        before = here.path.read_bytes()
        assert await here.admitted(LAPTOP_KEY)
        listed = {key.name: key.last_used for key in await here.service.keys()}
        assert listed == {"laptop": here.clock.now(), "phone": None}
        assert here.file.last_used() == {}
        here.clock.move(SAVE_EVERY)
        await here.service.fresh()
        await _until(here.file.last_used)
        assert here.path.read_bytes() == before

    scene(test, tmp_path)


def test_last_use_is_saved_when_the_daemon_stops(tmp_path):
    async def use(here: Scene) -> None:
        assert await here.admitted(PHONE_KEY)

    scene(use, tmp_path)
    assert list(KeyFile(Layout(str(tmp_path), "")).last_used()) == [PHONE.sha256]


def test_many_requests_share_one_reading(tmp_path, monkeypatch):
    async def test(here: Scene) -> None:
        real, read = KeyFile.read, []

        def counted(self: KeyFile) -> Kept:
            read.append(here)
            return real(self)

        here.path.write_bytes(without_laptop(here.path))
        monkeypatch.setattr(KeyFile, "read", counted)
        assert not any(await asyncio.gather(*(here.admitted(LAPTOP_KEY) for _ in range(50))))
        assert 1 <= len(read) <= 3

    scene(test, tmp_path)


def test_without_an_edit_a_request_costs_one_stat(tmp_path, monkeypatch):
    async def test(here: Scene) -> None:
        asked, stat = [], os.stat

        def counted(path, **more):
            asked.append(path)
            return stat(path, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", counted)
            patch.setattr(os, "open", None)
            for _ in range(10):
                await here.service.fresh()
        assert asked == [str(here.path)] * 10

    scene(test, tmp_path)


async def _until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event for what a file becomes
            await asyncio.sleep(0.005)


async def opening_after_a_start(here: Scene, *keys: str) -> list[bool]:
    """Which keys open something in a daemon that starts on these files now."""
    again = KeyService(KeyFile(here.layout), here.clock)
    await again.start()
    found = [again.match(key) is not None for key in keys]
    await again.stop()
    return found


def test_a_key_before_is_refused_at_once_and_after_a_restart_once_the_new_one_was_told(tmp_path):
    """Specification 5.3: regenerating takes effect at once."""

    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        assert not await here.admitted(LAPTOP_KEY)
        here.service.told("laptop", key, arrived=True)
        assert not await here.admitted(LAPTOP_KEY)
        await here.service.stop()
        assert await opening_after_a_start(here, LAPTOP_KEY, key) == [False, True]

    scene(test, tmp_path)


def test_after_a_death_before_the_answer_the_key_before_holds_until_the_new_one_is_used(
    tmp_path, caplog
):
    """Nobody may have the new key; whoever uses it has it."""

    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        again = KeyService(KeyFile(here.layout), here.clock)
        await again.start()
        assert "nobody is known to have the new one" in caplog.text
        assert again.match(LAPTOP_KEY) == again.match(LAPTOP_KEY) == "laptop"
        assert again.match(key) == "laptop"
        await again.stop()
        assert await opening_after_a_start(here, LAPTOP_KEY, key) == [False, True]

    scene(test, tmp_path)


def test_when_the_answer_does_not_get_out_the_key_before_is_good_again(tmp_path):
    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        assert not await here.admitted(LAPTOP_KEY)
        here.service.told("laptop", key, arrived=False)
        assert await here.admitted(LAPTOP_KEY)
        again = await here.service.regenerate("laptop")
        here.service.told("laptop", again, arrived=True)
        assert [await here.admitted(one) for one in (LAPTOP_KEY, key, again)] == [
            False,
            False,
            True,
        ]
        await here.service.stop()
        assert await opening_after_a_start(here, LAPTOP_KEY, key, again) == [False, False, True]

    scene(test, tmp_path)


def test_a_disk_that_is_full_when_the_key_before_ends_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr("agentd.retries.FIRST_SECONDS", 0.01)

    async def test(here: Scene) -> None:
        real, tried = here.file.settle, []

        def settle(*told: str) -> None:
            tried.append(told)
            if len(tried) < 3:
                raise Unavailable("the disk is full")
            real(*told)

        monkeypatch.setattr(here.file, "settle", settle)
        key = await here.service.regenerate("laptop")
        here.service.told("laptop", key, arrived=True)
        assert not await here.admitted(LAPTOP_KEY)
        await here.service.stop()
        assert len(tried) == 3
        assert await opening_after_a_start(here, LAPTOP_KEY, key) == [False, True]

    scene(test, tmp_path)


def test_a_running_daemon_follows_a_key_that_is_made_anew_beside_it(tmp_path):
    """As ``agentd keys regenerate`` does: the key before ends when the new one was printed."""

    async def test(here: Scene) -> None:
        beside = KeyFile(here.layout)
        key, kept = issue("laptop", AT)
        beside.renew(kept)
        assert await here.admitted(LAPTOP_KEY)
        beside.settle("laptop", kept.sha256, AT)
        assert not await here.admitted(LAPTOP_KEY)
        assert await here.admitted(key)

    scene(test, tmp_path)
