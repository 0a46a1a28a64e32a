"""Sessions as they begin, last and end; who waits for whom."""

import asyncio
import threading
from pathlib import Path

import pytest

from agentd.auth import sessions as module
from agentd.auth.password import HashCost, hash_password
from agentd.auth.roles import User, get_code_user
from agentd.auth.session_store import SessionFile
from agentd.auth.sessions import FairSemaphore, SessionManager
from agentd.auth.user_store import UserFile
from agentd.core.clock import FrozenClock
from agentd.core.errors import LimitReached, NotFound, Unauthorized, Unavailable
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock
from agentd.storage.watched_file import WatchedFile

WORD = "correct horse battery"
KEPT = hash_password(WORD, HashCost(14, 8, 1))
DAY = 86400.0


class SessionSetup:
    """A service on real files, and what it told."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(str(folder / "state"), str(folder / "config"))
        Path(self.layout.state).mkdir(mode=0o700, exist_ok=True)
        self.file = UserFile(self.layout)
        self.sessions = SessionFile(self.layout)
        self.clock = FrozenClock()
        self.settled = SettledClock(self.layout.clock, self.clock)
        self.ended: list[frozenset[str]] = []
        self.told = asyncio.Event()

    def end(self, sessions: frozenset[str]) -> None:
        self.ended.append(sessions)
        self.told.set()

    async def open(
        self, administrator: User | None = None, by_code: User | None = None
    ) -> SessionManager:
        def on_users_changed() -> None:
            self.people.apply_users()

        users = WatchedFile(self.layout.users, self.file.load, (), on_users_changed)
        self.people = SessionManager(
            self.sessions, users, self.clock, self.settled.now, administrator, self.end, by_code
        )
        await self.people.start()
        return self.people


@pytest.fixture
def here(tmp_path: Path) -> SessionSetup:
    place = SessionSetup(tmp_path)
    for name in ("ann", "bob"):
        place.file.add(User(name, "manager", KEPT))
    return place


@pytest.mark.gen_test
async def test_a_session_is_on_the_disk_before_its_token_is_reported(here):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    [kept] = here.sessions.load()
    assert kept.id == signed.caller.session_id
    assert people.get_caller(signed.token) == signed.caller
    await people.stop()
    again = await here.open()
    assert again.get_caller(signed.token) == signed.caller
    await again.stop()


@pytest.mark.gen_test
@pytest.mark.parametrize("how", ["sign out", "everywhere", "one of the list", "by a manager"])
async def test_a_session_that_ended_is_off_the_disk_before_that_is_reported(here, how):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    other = await people.sign_in("bob", WORD, "net")
    match how:
        case "sign out" | "everywhere":
            await people.sign_out(signed.caller, everywhere=how == "everywhere")
        case "one of the list":
            await people.end_session("ann", signed.caller.session_id)
        case "by a manager":
            await people.sign_out_user("ann")
    assert [one.user for one in here.sessions.load()] == ["bob"]
    assert people.get_caller(signed.token) is None
    assert people.get_caller(other.token) == other.caller
    await people.stop()


@pytest.mark.gen_test
async def test_nobody_ends_the_session_of_somebody_else_or_one_that_is_not_there(here):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    for name, session in (("bob", signed.caller.session_id), ("ann", "0" * 16)):
        with pytest.raises(NotFound):
            await people.end_session(name, session)
    assert people.get_caller(signed.token) == signed.caller
    await people.stop()


@pytest.mark.gen_test
async def test_a_session_that_the_disk_does_not_take_is_none(here, monkeypatch):
    people = await here.open()

    def fail_full_disk(_):
        raise Unavailable("disk full")

    monkeypatch.setattr(here.sessions, "save", fail_full_disk)
    with pytest.raises(Unavailable):
        await people.sign_in("ann", WORD, "net")
    assert not people._sessions
    monkeypatch.undo()
    await people.sign_in("ann", WORD, "net")
    await people.stop()


@pytest.mark.gen_test
async def test_a_session_ends_when_it_is_not_used_and_that_is_reported(here, monkeypatch):
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0.001)
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    here.clock.move(6 * DAY)
    assert people.get_caller(signed.token)
    here.clock.move(6 * DAY)
    assert people.get_caller(signed.token), "it was used in between"
    here.clock.move(7 * DAY)
    assert people.get_caller(signed.token) is None
    await here.told.wait()
    assert here.ended == [{signed.caller.session_id}]
    await people.stop()
    assert here.sessions.load() == ()


@pytest.mark.gen_test
async def test_a_session_that_is_over_only_by_a_wrong_clock_is_refused_closed_and_kept(
    here, monkeypatch
):
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0.001)
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    here.clock.jump(3650 * DAY)
    await here.told.wait()
    assert here.ended == [{signed.caller.session_id}]
    assert people.get_caller(signed.token) is None
    assert people.is_known(signed.caller.session_id)
    here.clock.jump(-3650 * DAY)
    assert people.get_caller(signed.token) == signed.caller
    await people.stop()
    assert [one.id for one in here.sessions.load()] == [signed.caller.session_id]


@pytest.mark.gen_test
async def test_a_session_that_is_over_or_whose_user_is_gone_has_no_caller_by_its_id(here):
    """Push notifications go to the sessions that still have one."""
    people = await here.open()
    ann, bob = [await people.sign_in(name, WORD, "net") for name in ("ann", "bob")]
    assert people.find_caller(ann.caller.session_id) == ann.caller
    assert people.find_caller("0" * 16) is None
    here.file.remove("bob")
    await people.ensure_current()
    assert people.find_caller(bob.caller.session_id) is None
    here.clock.jump(3650 * DAY)
    assert people.find_caller(ann.caller.session_id) is None
    await people.stop()


@pytest.mark.gen_test
async def test_a_session_ends_after_30_days_however_much_it_is_used(here):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    for _ in range(29):
        here.clock.move(DAY)
        assert people.get_caller(signed.token)
    here.clock.move(DAY)
    assert people.get_caller(signed.token) is None
    await people.stop()


@pytest.mark.gen_test
async def test_a_client_that_has_too_many_sessions_loses_the_oldest(here, monkeypatch):
    monkeypatch.setattr(module, "MAX_SESSIONS_PER_USER", 2)
    people = await here.open()
    signed = []
    for _ in range(3):
        here.clock.move(1)
        signed.append(await people.sign_in("ann", WORD, "net"))
    other = await people.sign_in("bob", WORD, "net")
    assert [bool(people.get_caller(one.token)) for one in (*signed, other)] == [
        False,
        True,
        True,
        True,
    ]
    await people.stop()


@pytest.mark.gen_test
async def test_signing_out_is_durable_and_a_key_has_nothing_to_sign_out_of(here):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    await people.sign_out(signed.caller)
    assert here.sessions.load() == ()
    with pytest.raises(NotFound):
        await people.sign_out(signed.caller)
    await people.stop()


@pytest.mark.gen_test
async def test_a_password_that_changes_while_it_is_compared_signs_nobody_in(here, monkeypatch):
    people = await here.open()
    real = module.password.verify_password

    def change_and_compare(word, kept):
        here.file.change("ann", password=hash_password("another good word", HashCost(14, 8, 1)))
        loop.call_soon_threadsafe(asyncio.ensure_future, people.ensure_current())
        asyncio.run_coroutine_threadsafe(people.ensure_current(), loop).result()
        return real(word, kept)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(module.password, "verify_password", change_and_compare)
    with pytest.raises(Unauthorized):
        await people.sign_in("ann", WORD, "net")
    await people.stop()


@pytest.mark.parametrize("text", ["{", '{"format":2}', "[]", '{"sessions":[{}]}'])
@pytest.mark.gen_test
async def test_a_damaged_file_signs_everybody_out_and_harms_nothing_else(here, text):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    await people.stop()
    Path(here.layout.sessions).write_text(text)
    again = await here.open()
    assert again.get_caller(signed.token) is None
    assert (await again.sign_in("ann", WORD, "net")).token
    await again.stop()


@pytest.mark.gen_test
async def test_a_session_that_others_could_have_written_opens_nothing(here):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    await people.stop()
    Path(here.layout.sessions).chmod(0o666)
    again = await here.open()
    assert again.get_caller(signed.token) is None
    await again.stop()


@pytest.mark.gen_test
async def test_a_file_of_users_that_is_broken_at_the_start_loses_no_session(here):
    people = await here.open()
    signed = await people.sign_in("ann", WORD, "net")
    await people.stop()
    file = Path(here.file.path)
    good = file.read_bytes()
    file.write_text("users: [")
    again = await here.open()
    assert again.get_caller(signed.token) is None, "nobody is let in by what cannot be read"
    file.write_bytes(good)
    await again.ensure_current()
    assert again.get_caller(signed.token) == signed.caller
    await again.stop()


@pytest.mark.gen_test
async def test_while_a_password_is_compared_the_loop_goes_on(here, monkeypatch):
    people = await here.open()
    others_went_on = threading.Event()
    monkeypatch.setattr(
        module.password, "verify_password", lambda word, kept: others_went_on.wait(60)
    )
    asyncio.get_running_loop().call_later(0.01, others_went_on.set)
    assert (await people.sign_in("ann", WORD, "net")).token
    await people.stop()


# Taking turns.


@pytest.mark.gen_test
async def test_networks_take_turns_so_a_crowd_keeps_nobody_else_waiting():
    turns = FairSemaphore(1)
    order: list[str] = []

    async def take_turn(network: str) -> None:
        async with turns.acquire(network):
            order.append(network)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(take_turn("crowd")) for _ in range(50)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(take_turn("ann")))
    await asyncio.gather(*tasks)
    assert order.index("ann") <= 3
    assert len(order) == 51


@pytest.mark.gen_test
async def test_a_client_that_leaves_while_waiting_takes_no_turn_and_none_is_lost():
    turns = FairSemaphore(2)
    done: list[int] = []

    async def take_turn(number: int) -> None:
        async with turns.acquire(f"n{number % 3}"):
            await asyncio.sleep(0)
            done.append(number)

    tasks = [asyncio.create_task(take_turn(number)) for number in range(30)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert set(range(1, 30, 2)) <= set(done)
    async with turns.acquire("x"), turns.acquire("y"):
        assert turns._free == 0
    assert turns._free == 2


@pytest.mark.gen_test
async def test_more_than_may_wait_are_asked_to_come_later(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_PER_NETWORK", 1)
    turns = FairSemaphore(1)
    async with turns.acquire("a"):
        waits = asyncio.create_task(turns.acquire("a").__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(LimitReached):
            await turns.acquire("a").__aenter__()
        monkeypatch.setattr(module, "MAX_WAITING", 1)
        with pytest.raises(LimitReached):
            await turns.acquire("b").__aenter__()
    await waits


BY_CODE = get_code_user("a" * 64, None)


@pytest.mark.gen_test
async def test_of_many_who_enter_a_code_at_once_one_is_signed_in(here):
    people = await here.open(by_code=BY_CODE)
    code, until = people.issue_code()
    assert until == "2026-01-01T00:05:00.000Z"
    tries = [people.sign_in_with_code(code, "net") for _ in range(50)]
    found = await asyncio.gather(*tries, return_exceptions=True)
    (signed,) = [one for one in found if not isinstance(one, Unauthorized | LimitReached)]
    assert signed.caller.role == "administrator"
    assert len(here.sessions.load()) == 1
    await people.stop()


@pytest.mark.gen_test
async def test_a_restart_keeps_the_session_and_no_code(here):
    people = await here.open(by_code=BY_CODE)
    used, unused = people.issue_code()[0], people.issue_code()[0]
    signed = await people.sign_in_with_code(used, "net")
    await people.stop()
    again = await here.open(by_code=BY_CODE)
    assert again.get_caller(signed.token) == signed.caller
    with pytest.raises(Unauthorized):
        await again.sign_in_with_code(unused, "net")
    here.clock.move(90 * DAY - 1)
    assert again.get_caller(signed.token) == signed.caller
    here.clock.move(1)
    assert again.get_caller(signed.token) is None
    await again.stop()


@pytest.mark.gen_test
async def test_signing_out_everywhere_ends_what_codes_began_too(here):
    people = await here.open(by_code=BY_CODE)
    one, other = [await people.sign_in_with_code(people.issue_code()[0], "net") for _ in range(2)]
    await people.sign_out(one.caller, everywhere=True)
    assert people.get_caller(one.token) is None
    assert people.get_caller(other.token) is None
    await people.stop()


@pytest.mark.gen_test
async def test_without_a_management_key_no_code_signs_in(here):
    people = await here.open()
    with pytest.raises(Unauthorized):
        await people.sign_in_with_code(people.issue_code()[0], "net")
    await people.stop()
