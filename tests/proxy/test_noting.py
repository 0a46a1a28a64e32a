"""Each matter is noted once, however many requests it hits."""

from decimal import Decimal

import pytest

from agentd.clock import FrozenClock
from agentd.errors import Mistake
from agentd.proxy.access_key import issue
from agentd.proxy.channel import Channel
from agentd.proxy.gateway.noting import AGAIN, Noting
from agentd.proxy.routing import Router
from agentd.proxy.spend import LimitStanding, OverLimit

ONE = Channel(name="one", dialects=("anthropic",), url="https://one.example")
_, KEY = issue("ann", "2026-01-01T00:00:00.000Z")


class Book:
    """Keeps what was noted."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.texts: list[str] = []

    def note(self, level, kind, text, *, channel="", key=""):
        self.kinds.append(kind)
        self.texts.append(text)


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def noting(book, clock) -> Noting:
    return Noting(book, clock.monotonic)


def over(name: str, resets: str | None) -> OverLimit:
    return OverLimit(LimitStanding(name, Decimal(1), Decimal(1), Decimal(0), resets), Decimal(1), 1)


def test_a_key_that_is_gone_is_noted_once_for_all_that_ran_on_it(book, clock, noting):
    for _ in range(3):
        noting.dismissed(KEY)
    assert book.kinds == ["key_gone"]
    assert '"ann"' in book.texts[0]
    clock.move(AGAIN)
    noting.dismissed(KEY)
    assert book.kinds == ["key_gone"] * 2


def test_a_channel_that_rests_is_noted_once_until_it_answers_again(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    for _ in range(5):
        router.failed(ONE, "server")
        clock.move(40)
    router.worked(ONE)
    router.worked(ONE)
    assert book.kinds == ["channel_rests", "channel_back"]
    assert "server" in book.texts[0]


def test_the_note_tells_more_of_why_a_channel_rests_than_its_callers_hear(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    router.failed(ONE, "unreachable", why="https://one.example cannot be connected to")
    (text,) = book.texts
    assert "unreachable (https://one.example cannot be connected to)" in text


def test_what_makes_no_channel_rest_is_no_note(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    router.failed(ONE, "invalid_request")
    router.failed(ONE, "rate_limit", None, "one of its models")
    router.worked(ONE)
    assert not book.kinds


def test_a_channel_that_comes_and_goes_is_noted_once_a_minute(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    for _ in range(30):
        router.failed(ONE, "server")
        router.worked(ONE)
    assert book.kinds == ["channel_rests", "channel_back"]
    clock.move(AGAIN)
    router.failed(ONE, "server")
    assert book.kinds == ["channel_rests", "channel_back", "channel_rests"]


def test_a_limit_is_noted_once_in_each_of_its_windows(book, noting):
    for resets in ("2026-01-02", "2026-01-02", "2026-01-03"):
        noting.over_limit(KEY, over("day", resets))
    noting.over_limit(KEY, over("total", None))
    noting.over_limit(KEY, over("total", None))
    assert book.kinds == ["limit_reached"] * 3


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "parallel"])
def test_limits_of_a_minute_are_reached_all_the_time(book, noting, name):
    noting.over_limit(KEY, over(name, None))
    assert not book.kinds


def test_a_ledger_in_trouble_is_noted_when_it_begins_and_when_it_ends(book, noting):
    noting.booked()
    for _ in range(3):
        noting.unbooked("disk full")
    noting.booked()
    noting.booked()
    assert book.kinds == ["ledger_trouble", "ledger_mended"]


def test_files_are_told_with_their_first_mistake(book, noting):
    noting.edited("channels.yml", ())
    noting.edited("channels.yml", (Mistake("channels.yml", 3, "is wrong"),))
    assert book.kinds == ["file_read", "file_broken"]
    assert "channels.yml:3: is wrong" in book.texts[1]
