"""Catching up: the missed events of the subscription first, then the answer, then live ones."""

import json

from agentd.live.signalr.hub import Subscribe
from agentd.live.signalr.listener import HubListener
from agentd.live.signalr.messages import Call
from agentd.live.signalr.records import Record
from tests.live.signalr.driving import decode_records, make_event


def subscribe(listener: HubListener, *arguments: object) -> None:
    *_, command = listener.handle_call(Call("Subscribe", list(arguments), "7", stream=False))
    assert isinstance(command, Subscribe)


def read(records: list[Record]) -> list[object]:
    """Return the seq of each event, and of a Completion the id of its call."""
    found = [json_record for record in records for json_record in decode_records(record.data)]
    return [one["arguments"][1]["n"] if one["type"] == 1 else one["invocationId"] for one in found]


def test_missed_events_of_other_chats_are_left_out():
    listener = HubListener()
    subscribe(listener, [1], 10)
    missed = [make_event(number, chat=2 - number % 2) for number in range(11, 15)]
    assert read([*listener.catch_up(missed[:3])]) == [11, 13]
    held = [make_event(14, chat=2), make_event(15), make_event(16)]
    assert not any(map(listener.accepts, held))
    assert read([*listener.finish_catch_up(missed[3:], upto=15)]) == ["7", 16]
    assert listener.accepts(make_event(17))
    assert not listener.accepts(make_event(18, chat=2))


def test_without_a_subscribe_that_waits_nothing_is_caught_up_with():
    listener = HubListener()
    assert not [*listener.catch_up([make_event(1)])]
    assert not [*listener.finish_catch_up([make_event(1)], upto=1)]


def test_after_another_handshake_the_call_is_not_answered():
    listener = HubListener()
    subscribe(listener, "all", 10)
    listener.reset()
    assert read([*listener.finish_catch_up([make_event(11)], upto=11)]) == [11]


def test_a_second_subscribe_that_would_catch_up_is_refused_until_the_first_has():
    listener = HubListener()
    subscribe(listener, "all", 10)
    (refused,) = listener.handle_call(Call("Subscribe", ["all", 11], "8", stream=False))
    assert "Still catching up" in json.loads(refused.data.rstrip(b"\x1e"))["error"]
    assert read([*listener.finish_catch_up([], upto=10)]) == ["7"]
    subscribe(listener, "all", 11)
