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

from agentd.auth.gate import Gate
from agentd.auth.key import issue_key
from agentd.auth.key_service import (
    SAVE_INTERVAL,
    KeyFileContents,
    KeyService,
)
from agentd.auth.key_store import KeyFile
from agentd.core.clock import FrozenClock, SystemClock
from agentd.core.errors import BadRequest, Conflict, Disabled, NotFound, Unauthorized, Unavailable
from agentd.http.access import Credentials, RouteGroup
from agentd.storage.layout import Layout
from agentd.storage.watched_file import RETRY_SECONDS, SETTLE_SECONDS
from tests.conftest import until

AT = "2026-01-01T00:00:00.000Z"
LAPTOP_KEY, LAPTOP = issue_key("laptop", AT)
PHONE_KEY, PHONE = issue_key("phone", AT)
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

    async def is_admitted(self, key: str) -> bool:
        """Return whether a request on the remote API is let in."""
        await self.service.ensure_current()
        try:
            Gate(self.service).authenticate(RouteGroup.REMOTE, Credentials(key))
        except Unauthorized:
            return False
        return True


def run_scene(
    test: Callable[[Scene], Awaitable[None]], folder: Path, environment: str = ""
) -> None:
    """Run a test with a started service and two keys."""

    async def run() -> None:
        here = Scene(folder, environment)
        here.file.add(LAPTOP)
        here.file.add(PHONE)
        await here.service.start()
        here.clock.move(1)
        await here.service.ensure_current()
        try:
            await test(here)
        finally:
            await here.service.stop()

    asyncio.run(run())


def remove_laptop(path: Path) -> bytes:
    """Return the file as a person would leave it who deletes the first entry."""
    head, *entries = path.read_text().split("- name: ")
    return "- name: ".join([head, *(one for one in entries if "laptop" not in one)]).encode()


def write_in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_and_rename(path: Path, content: bytes) -> None:
    path.with_suffix(".new").write_bytes(content)
    os.rename(path.with_suffix(".new"), path)


def delete_and_write(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def move_away_and_write(path: Path, content: bytes) -> None:
    os.rename(path, path.with_suffix(".yml~"))
    path.write_bytes(content)


def copy_over(path: Path, content: bytes) -> None:
    path.with_suffix(".src").write_bytes(content)
    subprocess.run(["cp", path.with_suffix(".src"), path], check=True)


def edit_with_sed(path: Path, _: bytes) -> None:
    expression = "/- name: 'laptop'/,/created/d"
    subprocess.run(["sed", "-i", expression, path], check=True)


STYLES = [
    write_in_place,
    write_and_rename,
    delete_and_write,
    move_away_and_write,
    copy_over,
    edit_with_sed,
]


@pytest.mark.parametrize("save", STYLES)
def test_a_key_deleted_by_any_editor_is_refused_at_the_next_request(tmp_path, save):
    async def test(here: Scene) -> None:
        assert await here.is_admitted(LAPTOP_KEY)
        save(here.path, remove_laptop(here.path))
        assert not await here.is_admitted(LAPTOP_KEY)
        assert await here.is_admitted(PHONE_KEY)
        assert here.lost == [{"laptop"}]

    run_scene(test, tmp_path)


def test_a_deleted_file_is_no_keys_at_once(tmp_path):
    async def test(here: Scene) -> None:
        here.path.unlink()
        with pytest.raises(Disabled):
            await here.is_admitted(LAPTOP_KEY)
        assert here.lost == [{"laptop", "phone"}]

    run_scene(test, tmp_path)


@pytest.mark.parametrize("half", [b"", b"format: 1\nkeys:\n- name: 'lap"])
def test_a_save_in_two_steps_interrupts_nobody(tmp_path, half):
    async def test(here: Scene) -> None:
        whole = here.path.read_bytes()
        here.path.write_bytes(half)
        assert await here.is_admitted(LAPTOP_KEY)
        here.clock.move(SETTLE_SECONDS / 2)
        assert await here.is_admitted(LAPTOP_KEY)
        here.path.write_bytes(whole)
        assert await here.is_admitted(LAPTOP_KEY)
        here.clock.move(SETTLE_SECONDS)
        assert await here.is_admitted(LAPTOP_KEY)
        assert here.lost == []

    run_scene(test, tmp_path)


def test_after_the_grace_a_damaged_file_lets_no_named_key_in_but_the_environments(tmp_path, caplog):
    async def test(here: Scene) -> None:
        here.path.write_bytes(b"keys: [\n")
        assert await here.is_admitted(LAPTOP_KEY)
        here.clock.move(SETTLE_SECONDS)
        for _ in range(3):
            assert not await here.is_admitted(LAPTOP_KEY)
            assert await here.is_admitted(SECRET)
            here.clock.move(RETRY_SECONDS)
        assert here.lost == [{"laptop", "phone"}]
        assert "keys.yml:2: not YAML" in here.service.problem
        here.path.write_bytes(b"keys: [[\n")
        assert not await here.is_admitted(LAPTOP_KEY)

    with caplog.at_level(logging.WARNING, "agentd"):
        run_scene(test, tmp_path, HASH)
    result = [record.message for record in caplog.records]
    assert len(result) == len(set(result)) <= 2
    assert "no named API key is accepted" in result[0]


def test_without_requests_too_the_grace_ends(tmp_path):
    async def test() -> None:
        here = Scene(tmp_path)
        here.file.add(LAPTOP)
        service = KeyService(here.file, SystemClock(), "", here.lost.append)
        await service.start()
        here.path.write_bytes(b"[")
        service.schedule_reload()
        await until(lambda: here.lost)
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
        await service.ensure_current()
        assert service.match(LAPTOP_KEY) is None
        await service.stop()

    asyncio.run(test())


def test_a_damaged_file_refuses_and_does_not_disable(tmp_path):
    async def test(here: Scene) -> None:
        here.path.write_bytes(b"keys: [\n")
        here.clock.move(SETTLE_SECONDS)
        await here.service.ensure_current()
        here.clock.move(SETTLE_SECONDS)
        assert not await here.is_admitted(LAPTOP_KEY)

    run_scene(test, tmp_path)


def test_at_start_a_damaged_file_has_no_grace(tmp_path):
    async def test() -> None:
        here = Scene(tmp_path)
        here.path.write_bytes(b"keys: [\n")
        await here.service.start()
        assert here.service.is_configured
        assert here.service.problem
        await here.service.stop()

    asyncio.run(test())


def test_a_file_that_others_may_write_is_refused_at_once_and_heals(tmp_path):
    async def test(here: Scene) -> None:
        here.path.chmod(0o602)
        assert not await here.is_admitted(LAPTOP_KEY)
        assert "chmod go-w" in here.service.problem
        os.chmod(here.path, 0o640)
        assert await here.is_admitted(LAPTOP_KEY)
        assert here.service.problem == ""

    run_scene(test, tmp_path)


def test_trouble_elsewhere_than_in_the_file_heals_within_a_second(tmp_path):
    async def test(here: Scene) -> None:
        await here.service.revoke("phone")
        here.clock.move(1)
        await here.service.ensure_current()
        Path(here.layout.revoked).chmod(0o602)
        here.service.schedule_reload()
        await until(lambda: here.service.problem)
        os.chmod(here.layout.revoked, 0o600)
        assert not await here.is_admitted(LAPTOP_KEY)
        here.clock.move(RETRY_SECONDS)
        assert await here.is_admitted(LAPTOP_KEY)

    run_scene(test, tmp_path)


def test_two_edits_within_one_tick_of_the_file_systems_clock_are_both_seen(tmp_path):
    async def test(here: Scene) -> None:
        stamp = here.file.get_stamp()
        here.path.write_bytes(here.path.read_bytes() + b"# edited\n")
        assert await here.is_admitted(LAPTOP_KEY)
        frozen = here.file.get_stamp()
        assert frozen != stamp
        here.service._store = _Coarse(here.file, frozen)
        here.path.write_bytes(remove_laptop(here.path))
        assert not await here.is_admitted(LAPTOP_KEY)
        here.path.unlink()
        here.clock.move(1)
        with pytest.raises(Disabled):
            await here.is_admitted(LAPTOP_KEY)

    run_scene(test, tmp_path)


class _Coarse:
    """A file system whose clock stands."""

    def __init__(self, file: KeyFile, stamp: object) -> None:
        self._file, self._stamp = file, stamp

    def get_stamp(self) -> object:
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

    run_scene(test, tmp_path)


def test_a_revoked_key_that_comes_back_with_an_older_file_is_listed_and_refused(tmp_path):
    async def test(here: Scene) -> None:
        older = here.path.read_bytes()
        await here.service.revoke("laptop")
        here.path.write_bytes(older)
        assert not await here.is_admitted(LAPTOP_KEY)
        listed = {key.name: key.revoked for key in await here.service.list_keys()}
        assert listed == {"laptop": True, "phone": False}
        here.file.reinstate("laptop")
        here.service.schedule_reload()
        await until(lambda: here.service.match(LAPTOP_KEY))

    run_scene(test, tmp_path)


def test_what_another_process_revokes_is_refused_at_the_next_request(tmp_path):
    async def test(here: Scene) -> None:
        KeyFile(here.layout).revoke("laptop", AT)
        assert not await here.is_admitted(LAPTOP_KEY)

    run_scene(test, tmp_path)


def test_a_new_key_works_at_once_and_is_not_kept(tmp_path):
    async def test(here: Scene) -> None:
        key = await here.service.generate("tablet")
        assert await here.is_admitted(key)
        assert key not in here.path.read_text()
        with pytest.raises(Conflict):
            await here.service.generate("tablet")
        with pytest.raises(BadRequest):
            await here.service.generate("a b")
        assert here.lost == [frozenset()]

    run_scene(test, tmp_path)


def test_regenerating_takes_the_old_key_away_and_shows_whose(tmp_path):
    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        assert await here.is_admitted(key)
        assert not await here.is_admitted(LAPTOP_KEY)
        assert here.lost == [{"laptop"}]
        with pytest.raises(NotFound):
            await here.service.regenerate("nobody")

    run_scene(test, tmp_path)


def test_last_use_is_noted_and_saved_at_most_once_a_minute_apart_from_the_keys(tmp_path):
    async def test(here: Scene) -> None:
        before = here.path.read_bytes()
        assert await here.is_admitted(LAPTOP_KEY)
        listed = {key.name: key.last_used for key in await here.service.list_keys()}
        assert listed == {"laptop": here.clock.now(), "phone": None}
        assert here.file.load_last_used() == {}
        here.clock.move(SAVE_INTERVAL)
        await here.service.ensure_current()
        await until(here.file.load_last_used)
        assert here.path.read_bytes() == before

    run_scene(test, tmp_path)


def test_uses_are_not_forgotten_while_the_file_is_damaged(tmp_path):
    async def test(here: Scene) -> None:
        assert await here.is_admitted(LAPTOP_KEY)
        whole = here.path.read_bytes()
        here.path.write_bytes(b"keys: [\n")
        assert await here.is_admitted(LAPTOP_KEY)
        here.clock.move(SETTLE_SECONDS)
        assert not await here.is_admitted(LAPTOP_KEY)
        here.clock.move(SAVE_INTERVAL)
        await here.service.ensure_current()  # reads the file once more ...
        await here.service.ensure_current()  # ... and saves
        await until(here.file.load_last_used)
        here.path.write_bytes(whole)
        await here.service.ensure_current()
        listed = {key.name: key.last_used for key in await here.service.list_keys()}
        assert listed["laptop"] is not None

    run_scene(test, tmp_path)


def test_last_use_is_saved_when_the_daemon_stops(tmp_path):
    async def use(here: Scene) -> None:
        assert await here.is_admitted(PHONE_KEY)

    run_scene(use, tmp_path)
    assert list(KeyFile(Layout(str(tmp_path), "")).load_last_used()) == [PHONE.sha256]


def test_what_was_used_before_a_start_is_known_after_it_and_stays_saved(tmp_path):
    async def test() -> None:
        file = KeyFile(Layout(str(tmp_path), ""))
        file.add(LAPTOP)
        file.add(PHONE)
        file.save_last_used({PHONE.sha256: AT, "0" * 64: AT})
        service = KeyService(file, FrozenClock())
        await service.start()
        assert {one.name: one.last_used for one in await service.list_keys()} == {
            "laptop": None,
            "phone": AT,
        }
        assert service.match(LAPTOP_KEY) == "laptop"
        await service.stop()
        assert file.load_last_used().keys() == {LAPTOP.sha256, PHONE.sha256}

    asyncio.run(test())


def test_many_requests_share_one_reading(tmp_path, monkeypatch):
    async def test(here: Scene) -> None:
        real, read = KeyFile.read, []

        def count_call(self: KeyFile) -> KeyFileContents:
            read.append(here)
            return real(self)

        here.path.write_bytes(remove_laptop(here.path))
        monkeypatch.setattr(KeyFile, "read", count_call)
        assert not any(await asyncio.gather(*(here.is_admitted(LAPTOP_KEY) for _ in range(50))))
        assert 1 <= len(read) <= 3

    run_scene(test, tmp_path)


def test_without_an_edit_a_request_costs_one_stat(tmp_path, monkeypatch):
    async def test(here: Scene) -> None:
        asked, stat = [], os.stat

        def count_call(path, **more):
            asked.append(path)
            return stat(path, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", count_call)
            patch.setattr(os, "open", None)
            for _ in range(10):
                await here.service.ensure_current()
        assert asked == [str(here.path)] * 10

    run_scene(test, tmp_path)


async def check_keys_after_start(here: Scene, *keys: str) -> list[bool]:
    """Return for each key whether a daemon that starts on these files now accepts it."""
    again = KeyService(KeyFile(here.layout), here.clock)
    await again.start()
    found = [again.match(key) is not None for key in keys]
    await again.stop()
    return found


def test_a_key_before_is_refused_at_once_and_after_a_restart_once_the_new_one_was_reported(
    tmp_path,
):
    """Specification 5.3: regenerating takes effect at once."""

    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        assert not await here.is_admitted(LAPTOP_KEY)
        here.service.confirm_delivery("laptop", key, arrived=True)
        assert not await here.is_admitted(LAPTOP_KEY)
        await here.service.stop()
        assert await check_keys_after_start(here, LAPTOP_KEY, key) == [False, True]

    run_scene(test, tmp_path)


def test_after_a_death_before_the_answer_the_key_before_holds_until_the_new_one_is_used(
    tmp_path, caplog
):
    """The new key may have reached nobody; its use proves that it did."""

    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        again = KeyService(KeyFile(here.layout), here.clock)
        await again.start()
        assert "stays valid until the new one is used" in caplog.text
        assert again.match(LAPTOP_KEY) == again.match(LAPTOP_KEY) == "laptop"
        assert again.match(key) == "laptop"
        await again.stop()
        assert await check_keys_after_start(here, LAPTOP_KEY, key) == [False, True]

    run_scene(test, tmp_path)


def test_when_the_answer_does_not_get_out_the_key_before_is_valid_again(tmp_path):
    async def test(here: Scene) -> None:
        key = await here.service.regenerate("laptop")
        assert not await here.is_admitted(LAPTOP_KEY)
        here.service.confirm_delivery("laptop", key, arrived=False)
        assert await here.is_admitted(LAPTOP_KEY)
        again = await here.service.regenerate("laptop")
        here.service.confirm_delivery("laptop", again, arrived=True)
        assert [await here.is_admitted(one) for one in (LAPTOP_KEY, key, again)] == [
            False,
            False,
            True,
        ]
        await here.service.stop()
        assert await check_keys_after_start(here, LAPTOP_KEY, key, again) == [False, False, True]

    run_scene(test, tmp_path)


def test_a_disk_that_is_full_when_the_key_before_ends_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr("agentd.core.retry.FIRST_DELAY", 0.01)

    async def test(here: Scene) -> None:
        real, tried = here.file.complete_renewal, []

        def settle(*result: str) -> None:
            tried.append(result)
            if len(tried) < 3:
                raise Unavailable("the disk is full")
            real(*result)

        monkeypatch.setattr(here.file, "complete_renewal", settle)
        key = await here.service.regenerate("laptop")
        here.service.confirm_delivery("laptop", key, arrived=True)
        assert not await here.is_admitted(LAPTOP_KEY)
        await here.service.stop()
        assert len(tried) == 3
        assert await check_keys_after_start(here, LAPTOP_KEY, key) == [False, True]

    run_scene(test, tmp_path)


def test_a_running_daemon_follows_a_key_that_is_rebuilt_beside_it(tmp_path):
    """As ``agentd keys regenerate`` does: the key before ends when the new one was printed."""

    async def test(here: Scene) -> None:
        beside = KeyFile(here.layout)
        key, kept = issue_key("laptop", AT)
        beside.renew(kept)
        assert await here.is_admitted(LAPTOP_KEY)
        beside.complete_renewal("laptop", kept.sha256, AT)
        assert not await here.is_admitted(LAPTOP_KEY)
        assert await here.is_admitted(key)

    run_scene(test, tmp_path)
