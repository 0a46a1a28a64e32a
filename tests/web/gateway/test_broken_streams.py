"""Suppliers that fail in the middle of a stream, and how each caller is told."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agentd.proxy.channel import ChannelDialect
from tests.supplier.steps import Answer, Break, Fail, Fault, Garble, Say, Stall
from tests.web.gateway.callers import (
    CHANNELS,
    DIALECTS,
    Standing,
    Told,
    every_dialect,
    hears,
    read,
    standing,
)
from tests.web.gateway.conftest import House

WORDS = "one two three four five six seven eight"
BEGUN = {"openai-chat": 4, "openai-responses": 6, "anthropic": 5, "gemini": 3}
"""Events of each supplier after which something was said, and the reply is not over."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    def prepare(house: House) -> None:
        house.settings["idle_timeout"] = 5
        for channel in house.channels:
            channel["cool_down"] = 0

    with standing(tmp_path_factory.mktemp("house"), prepare) as made:
        yield made


every_supplier = pytest.mark.parametrize("supplier", DIALECTS)


def faults(dialect: ChannelDialect, supplier: ChannelDialect) -> list[Fault]:
    """What may happen to a stream; what passes is passed on though it be garbled."""
    after = BEGUN[supplier]
    garbled: list[Fault] = [] if dialect == supplier else [Garble(after)]
    return [Break(after), Fail(after), *garbled]


def broke(place: Standing, told: Told, supplier: ChannelDialect) -> None:
    """It began, and ended with an error; it is booked so."""
    assert (told.status, told.whole) == (200, True)
    assert told.error()
    assert not told.ended
    assert WORDS.startswith(told.text().strip()) and told.text()
    entry = place.entry(told)
    assert (entry.outcome, entry.channel) == ("broken", CHANNELS[supplier])
    assert entry.estimated and entry.cost > 0 and entry.usage.output > 0


@every_supplier
@every_dialect
def test_a_stream_that_broke_ends_with_an_error_event_and_is_booked_as_broken(
    place: Standing, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = place.caller()
    for fault in faults(dialect, supplier):
        begun = Stall(BEGUN[supplier])
        place.supplier.script(Answer((Say(WORDS),), faults=(begun, fault)))
        with caller.begin(dialect, f"by-{CHANNELS[supplier]}") as line:
            hears(line, b'"one')
            begun.release()
            told = read(line, dialect)
        broke(place, told, supplier)


def test_a_supplier_that_falls_silent_breaks_its_stream(place: Standing) -> None:
    caller = place.caller()
    with ExitStack() as stack:
        lines = []
        for dialect in DIALECTS:
            silent = Stall(BEGUN[dialect])
            place.supplier.script(Answer((Say(WORDS),), faults=(silent,)))
            lines.append(stack.enter_context(caller.begin(dialect, f"by-{CHANNELS[dialect]}")))
            silent.reached.result(60)
        for dialect, line in zip(DIALECTS, lines, strict=True):
            broke(place, read(line, dialect), dialect)
