"""Each matter is noted once, however many requests it hits."""

from decimal import Decimal

import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import ConfigProblem
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import Router
from agentd.gateway.keys.model import issue
from agentd.gateway.limits.spend import LimitStatus, OverLimit
from agentd.gateway.relay.service_log_writer import REPEAT_SECONDS, ServiceLogWriter

ONE = Channel(name="one", dialects=("anthropic",), url="https://one.example")
_, KEY = issue("ann", "2026-01-01T00:00:00.000Z")


class Book:
    """Keeps what was noted."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.texts: list[str] = []

    def add(self, level, kind, text, *, channel="", key=""):
        self.kinds.append(kind)
        self.texts.append(text)


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def noting(book, clock) -> ServiceLogWriter:
    return ServiceLogWriter(book, clock.monotonic)


def build_over_limit(name: str, resets: str | None) -> OverLimit:
    return OverLimit(LimitStatus(name, Decimal(1), Decimal(1), Decimal(0), resets), Decimal(1), 1)


def test_a_key_that_is_gone_is_noted_once_for_all_that_ran_on_it(book, clock, noting):
    for _ in range(3):
        noting.on_key_revoked(KEY)
    assert book.kinds == ["key_revoked"]
    assert '"ann"' in book.texts[0]
    clock.move(REPEAT_SECONDS)
    noting.on_key_revoked(KEY)
    assert book.kinds == ["key_revoked"] * 2


def test_a_channel_that_rests_is_noted_once_until_it_answers_again(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    for _ in range(5):
        router.record_failure(ONE, "server")
        clock.move(40)
    router.record_success(ONE)
    router.record_success(ONE)
    assert book.kinds == ["channel_cooldown", "channel_recovered"]
    assert "server" in book.texts[0]


def test_the_note_shows_more_of_why_a_channel_rests_than_its_callers_hear(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    router.record_failure(ONE, "unreachable", detail="https://one.example cannot be connected to")
    (text,) = book.texts
    assert "unreachable (https://one.example cannot be connected to)" in text


def test_what_makes_no_channel_rest_is_no_note(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    router.record_failure(ONE, "invalid_request")
    router.record_failure(ONE, "rate_limit", None, "one of its models")
    router.record_success(ONE)
    assert not book.kinds


def test_a_channel_that_comes_and_goes_is_noted_once_a_minute(book, clock, noting):
    router = Router(lambda: 0.0, clock.monotonic, noting)
    for _ in range(30):
        router.record_failure(ONE, "server")
        router.record_success(ONE)
    assert book.kinds == ["channel_cooldown", "channel_recovered"]
    clock.move(REPEAT_SECONDS)
    router.record_failure(ONE, "server")
    assert book.kinds == ["channel_cooldown", "channel_recovered", "channel_cooldown"]


def test_a_limit_is_noted_once_in_each_of_its_windows(book, noting):
    for resets in ("2026-01-02", "2026-01-02", "2026-01-03"):
        noting.on_limit_reached(KEY, build_over_limit("day", resets))
    noting.on_limit_reached(KEY, build_over_limit("total", None))
    noting.on_limit_reached(KEY, build_over_limit("total", None))
    assert book.kinds == ["limit_reached"] * 3


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "parallel"])
def test_limits_of_a_minute_are_reached_all_the_time(book, noting, name):
    noting.on_limit_reached(KEY, build_over_limit(name, None))
    assert not book.kinds


def test_a_ledger_in_trouble_is_noted_when_it_begins_and_when_it_ends(book, noting):
    noting.on_ledger_written()
    for _ in range(3):
        noting.on_ledger_failed("disk full")
    noting.on_ledger_written()
    noting.on_ledger_written()
    assert book.kinds == ["ledger_failed", "ledger_recovered"]


def test_files_are_reported_with_their_first_mistake(book, noting):
    noting.on_config_changed("channels.yml", ())
    noting.on_config_changed("channels.yml", (ConfigProblem("channels.yml", 3, "is wrong"),))
    assert book.kinds == ["config_reloaded", "config_invalid"]
    assert "channels.yml:3: is wrong" in book.texts[1]
