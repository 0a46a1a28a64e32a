"""Many wrong keys from one address: late refusals for it, nothing of it for all others."""

import asyncio
import io
import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from agentd.core.errors import LimitReached, Unauthorized
from agentd.http import throttle
from agentd.http.log_scrubber import LogFormatter
from agentd.http.throttle import (
    FREE_FAILURES,
    MAX_REPORTED,
    REPORT_WINDOW_SECONDS,
    WINDOW_SECONDS,
    AuthThrottle,
    ManagementFailureLog,
)
from tests.live.hub.support import HUB
from tests.support.daemon import Reply, Serving, build_request, send_raw, until

BOTS = "/api/remote/bots"
LAST = "Connection: close"
LATE = 1.5


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Yield the log lines."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter())
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


class HeldRefusals:
    """Late refusals, which wait until they are released."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        """How long each of them was to wait."""
        self._held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        """Replace ``asyncio.sleep``."""
        event = asyncio.Event()
        self._held.append((asyncio.get_running_loop(), event))
        self.seconds.append(seconds)
        await event.wait()

    def release(self) -> None:
        """Let the waiting refusals be sent."""
        for loop, event in self._held:
            loop.call_soon_threadsafe(event.set)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> HeldRefusals:
    """No time passes for guessers, nor is any of their tries forgotten, however long that takes."""
    made = HeldRefusals()
    monkeypatch.setattr(throttle, "asyncio", made)
    monkeypatch.setattr(throttle, "DELAY_SECONDS", LATE)
    monkeypatch.setattr(throttle, "WINDOW_SECONDS", 1000.0)
    return made


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_after_five_wrong_keys_within_ten_seconds_refusals_come_late(log: io.StringIO) -> None:
    clock = Clock()
    keys = AuthThrottle(clock)
    assert [keys.record_failure("192.0.2.7") for _ in range(8)] == [False] * 5 + [True] * 3
    assert not keys.record_failure("192.0.2.8"), "another address has nothing to do with it"
    clock.now = WINDOW_SECONDS
    assert not keys.record_failure("192.0.2.7")
    assert log.getvalue().count("192.0.2.7") == 1, "one line, however many tries"


def test_slow_tries_are_never_late() -> None:
    clock = Clock()
    keys = AuthThrottle(clock)
    for _ in range(50):
        assert not keys.record_failure("192.0.2.7")
        clock.now += WINDOW_SECONDS / FREE_FAILURES


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("", "", True),
    ],
)
def test_a_network_of_64_bits_counts_as_one_address(one: str, other: str, *, same: bool) -> None:
    keys = AuthThrottle(Clock())
    for _ in range(FREE_FAILURES):
        keys.record_failure(one)
    assert keys.record_failure(other) is same


def test_only_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MAX_TRACKED", 3)
    keys = AuthThrottle(Clock())
    for _ in range(FREE_FAILURES):
        keys.record_failure("192.0.2.1")
    for number in range(2, 4):
        keys.record_failure(f"192.0.2.{number}")
    assert keys.record_failure("192.0.2.1")
    for number in range(2, 5):
        keys.record_failure(f"192.0.2.{number}")
    assert not keys.record_failure("192.0.2.1")


def test_only_so_many_refusals_wait_and_who_leaves_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throttle, "MAX_DELAYED", 1)
    monkeypatch.setattr(throttle, "DELAY_SECONDS", 3600.0)

    async def guess_and_leave() -> None:
        keys = AuthThrottle()
        refusal = Unauthorized("no")
        waits = asyncio.create_task(keys.raise_delayed(refusal))
        await asyncio.sleep(0)
        with pytest.raises(LimitReached):
            await keys.raise_delayed(refusal)
        waits.cancel()
        await asyncio.wait([waits])
        monkeypatch.setattr(throttle, "DELAY_SECONDS", 0.0)
        with pytest.raises(Unauthorized):
            await keys.raise_delayed(refusal)

    asyncio.run(guess_and_leave())


def send_wrong_key(daemon: Serving, number: int) -> Reply:
    """Send a wrong key, in the header or in the address; return the refusal."""
    key = f"agent_{number:032}"
    path, header = (f"{HUB}?id=x&api_key={key}", None) if number % 2 else (BOTS, key)
    (reply,) = send_raw(
        daemon.port, build_request("POST" if number % 2 else "GET", path, LAST, key=header)
    )
    return reply


@contextmanager
def guessing_clients(
    daemon: Serving, waiting: HeldRefusals, count: int
) -> Iterator[list["Future[Reply]"]]:
    """Send so many wrong keys at once; the late refusals wait until the end of the block."""
    with ThreadPoolExecutor(count) as guessers:
        try:
            yield [guessers.submit(send_wrong_key, daemon, number) for number in range(count)]
        finally:
            waiting.release()


def get_statuses(refusals: "list[Future[Reply]]") -> list[int]:
    """Return the statuses of the refusals that arrived by now."""
    return [refusal.result().status for refusal in refusals if refusal.done()]


def test_200_guessers_at_once_wait_and_valid_keys_beside_them_do_not(
    daemon: Serving, log: io.StringIO, waiting: HeldRefusals
) -> None:
    """Specification 5.8: a wrong key's answer stays 401."""
    with guessing_clients(daemon, waiting, 200) as refusals:
        until(lambda: len(waiting.seconds) == 200 - FREE_FAILURES)
        until(lambda: len(get_statuses(refusals)) == FREE_FAILURES)
        client = daemon.client()
        for _ in range(20):
            assert client.get(BOTS).status == 200
        assert len(get_statuses(refusals)) == FREE_FAILURES
    assert get_statuses(refusals) == [401] * 200
    assert set(waiting.seconds) == {LATE}
    assert log.getvalue().count("127.0.0.1") == 1
    assert "agent_0" not in log.getvalue()


def test_guessers_above_those_that_may_wait_are_asked_to_come_later(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, waiting: HeldRefusals
) -> None:
    monkeypatch.setattr(throttle, "MAX_DELAYED", 3)
    with guessing_clients(daemon, waiting, 30) as refusals:
        until(lambda: len(get_statuses(refusals)) == 27)
    assert len(waiting.seconds) == 3
    assert sorted(get_statuses(refusals)) == [401] * (FREE_FAILURES + 3) + [429] * (
        27 - FREE_FAILURES
    )
    later = [one.result() for one in refusals if one.result().status == 429]
    assert all(int(reply.headers["Retry-After"]) > 0 for reply in later)


def test_a_client_that_brings_no_key_at_all_is_no_guesser(
    daemon: Serving, waiting: HeldRefusals
) -> None:
    nobody = daemon.client(key=None)
    for _ in range(3 * FREE_FAILURES):
        assert nobody.get(BOTS).status == 401
    assert not waiting.seconds


# Sign-ins to the gateway's management.


class LoggedLines:
    """The log lines, by a clock that is put forward by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[tuple[str, str]] = []
        self.failures = ManagementFailureLog(
            lambda text, address: self.lines.append((text, address)), lambda: self.now
        )


def test_each_is_noted_with_its_address_and_whether_a_key_came() -> None:
    noted = LoggedLines()
    noted.failures.record("192.0.2.1", True)
    noted.failures.record("2001:db8::1", False)
    assert noted.lines == [
        ("A sign-in with a wrong management key was refused", "192.0.2.1"),
        ("A sign-in without a management key was refused", "2001:db8::1"),
    ]


def test_a_flood_is_reported_in_numbers_and_hides_nobody_else() -> None:
    noted = LoggedLines()
    for _ in range(MAX_REPORTED + 500):
        noted.failures.record("192.0.2.1", True)
    noted.failures.record("192.0.2.2", True)
    assert len(noted.lines) == MAX_REPORTED + 1
    noted.now += REPORT_WINDOW_SECONDS
    noted.failures.record("192.0.2.1", True)
    assert "after 500 more" in noted.lines[-1][0]
    noted.failures.record("192.0.2.1", True)
    assert "more" not in noted.lines[-1][0]


def test_addresses_of_one_network_count_together() -> None:
    noted = LoggedLines()
    for number in range(MAX_REPORTED + 5):
        noted.failures.record(f"2001:db8::{number:x}", True)
    assert len(noted.lines) == MAX_REPORTED
