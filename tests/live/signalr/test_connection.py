"""Properties of a connection, whatever a client does and however its bytes are split."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.errors import AgentdError
from agentd.live.signalr.backlog import RECORDS_LIMIT
from agentd.live.signalr.negotiate import Terms, Transport
from tests.live.signalr.driving import (
    END,
    OLD,
    PING,
    PLAIN,
    STATEFUL,
    Drive,
    join_records,
    list_numbers,
    make_event,
)
from tests.support.examples import limit_examples
from tests.support.splitting import split

TERMS = st.sampled_from([PLAIN, STATEFUL, OLD, Terms(0, stateful=True)])
HELLO = st.builds(
    lambda version: json.dumps({"protocol": "json", "version": version}), st.sampled_from([0, 1, 2])
)
MESSAGE = st.fixed_dictionaries(
    {"type": st.integers(0, 10)},
    optional={
        "invocationId": st.none() | st.sampled_from(["1", "é"]) | st.integers(0, 1),
        "target": st.sampled_from(["Subscribe", "Unsubscribe", "Nope"]),
        "arguments": st.sampled_from([[], ["all"], [[1]], ["all", 0], [[1], 3], 5]),
        "sequenceId": st.integers(-1, 5),
    },
).map(json.dumps)
SAID = st.lists(HELLO | MESSAGE | st.text(max_size=8), max_size=8).map(
    lambda records: "".join(record + END for record in records).encode()
)


def read_outcome(drive):
    return drive.written, drive.cut, drive.answers, drive.forgotten, drive.commands


@given(TERMS, HELLO, SAID, st.binary(max_size=20), st.data())
def test_every_split_of_what_a_client_sends_leads_to_the_same(terms, hello, said, rest, data):
    stream = hello.encode() + b"\x1e" + said + rest
    whole, pieces = Drive(terms), Drive(terms)
    for drive in (whole, pieces):
        drive.dial()
    whole.say(stream)
    for piece in split(stream, data):
        pieces.say(piece)
    assert read_outcome(whole) == read_outcome(pieces)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), SAID | st.binary(max_size=60)),
        st.tuples(st.just("post"), SAID),
        st.tuples(st.just("dial"), st.sampled_from(Transport)),
        st.tuples(st.just("poll"), st.booleans()),
        st.tuples(st.just("lose"), st.integers(1, 3)),
        st.tuples(st.just("tell"), st.integers(1, 3)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 45.0, 91.0])),
        st.tuples(st.just("pause"), st.none()),
        st.tuples(st.just("resume"), st.none()),
        st.tuples(st.just("catch_up"), st.integers(1, 3)),
        st.tuples(st.just("caught_up"), st.none()),
        st.tuples(st.just("end"), st.none()),
    ),
    max_size=25,
)


def take_step(drive, kind, value):
    now, connection = drive.now, drive.connection
    match kind:
        case "dial" | "wait" | "tell":
            getattr(drive, kind)(value)
        case "say":
            drive.say(value)
        case "post":
            drive.do(connection.on_post(value, now))
        case "poll":
            drive.poll(object(), single=value)
        case "lose":
            drive.lose(drive.link)
        case "pause":
            connection.pause(drive.link, now)
        case "resume":
            drive.do(connection.resume(drive.link, now))
        case "catch_up":
            drive.do(connection.catch_up([make_event(value)], now))
        case "caught_up":
            drive.do(connection.finish_catch_up([], 0, now))
        case "end":
            drive.do(connection.end(now))


@settings(max_examples=limit_examples(300))
@given(TERMS, HELLO, STEPS)
def test_whatever_happens_nothing_but_a_refusal_is_raised_and_nothing_follows_the_end(
    terms, hello, steps
):
    drive = Drive(terms)
    drive.dial()
    drive.say(hello + END)
    for kind, value in steps:
        over, before = drive.forgotten, str(read_outcome(drive))
        try:
            take_step(drive, kind, value)
        except AgentdError as error:
            assert error.message
        if over:
            assert str(read_outcome(drive)) == before
    drive.wait(200)
    if drive.connection.link is None or drive.link in drive.cut:
        assert drive.forgotten
        assert drive.connection.due == float("inf")


@given(st.lists(st.sampled_from(["tell", "break", "cut off", "ack", "wait"]), max_size=40))
def test_a_stateful_client_gets_every_event_once_and_in_order_whatever_breaks(happenings):
    """The client is the JavaScript one: it counts, drops what it has, acknowledges."""
    drive = Drive(STATEFUL)
    drive.settle(2)
    result = 0
    got, counter, unread = [], 1, []

    def read_messages(messages):
        nonlocal counter
        for message in messages:
            if message.get("type") == 9:
                assert 1 <= message["sequenceId"] <= counter
                counter = message["sequenceId"]
            elif message.get("type") == 1:
                if counter > len(got):
                    got.extend(list_numbers([message]))
                counter += 1

    for happening in happenings:
        match happening:
            case "tell":
                result += 1
                unread += drive.tell(result)
            case "break" | "cut off":
                if happening == "break":
                    read_messages(unread)
                    drive.lose()
                unread = []
                counter = len(got) + 1
                drive.dial()
                unread += drive.send({"type": 9, "sequenceId": 1})
            case "ack":
                read_messages(unread)
                unread = drive.send({"type": 8, "sequenceId": len(got)})
            case "wait":
                unread += drive.wait(1) + drive.send(PING)
    read_messages(unread)
    assert got == list(range(1, result + 1))


@given(st.lists(st.integers(1, RECORDS_LIMIT * 2), max_size=4))
@settings(max_examples=limit_examples(20), deadline=None)
def test_no_connection_keeps_more_than_its_bounds(bursts):
    drive = Drive(OLD)
    drive.settle()
    drive.lose()
    for burst in bursts:
        drive.tell(*range(burst))
    assert drive.forgotten == (sum(bursts) > RECORDS_LIMIT)


def test_text_and_bytes_are_the_same():
    for form in (str, str.encode):
        drive = Drive()
        drive.dial()
        assert drive.say(form(join_records({"protocol": "json", "version": 1}))) == [{}]
