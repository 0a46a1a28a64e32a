"""The rules that real clients taught, as far as the protocol itself must hold them."""

import json

import pytest

from agentd.core.errors import BadRequest, Conflict, MethodNotAllowed, NotFound
from agentd.live.signalr.backlog import BYTES_LIMIT, RECORDS_LIMIT
from agentd.live.signalr.connection import CloseLink, RemoveConnection
from agentd.live.signalr.hub import Subscribe
from agentd.live.signalr.negotiate import Transport
from agentd.live.signalr.records import COME_BACK, EventRecord, make_close
from tests.live.signalr.driving import (
    OLD,
    PING,
    PLAIN,
    STATEFUL,
    Drive,
    decode_records,
    list_numbers,
    make_event,
)

AGAIN = {"type": 7, "allowReconnect": True}


def make_sequence(number):
    return {"type": 9, "sequenceId": number}


def make_ack(number):
    return {"type": 8, "sequenceId": number}


def settle_drive(terms=PLAIN, version=1):
    drive = Drive(terms)
    drive.settle(version)
    return drive


def test_rule_3_the_handshake_is_answered_with_an_empty_object_and_nothing_comes_before():
    drive = Drive()
    assert drive.dial() == []
    assert drive.tell(1) == []
    assert drive.wait(14) == []
    assert drive.greet() == [{}]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("terms", [PLAIN, STATEFUL, OLD])
def test_rule_3_handshakes_of_versions_0_to_2_are_taken(terms, version):
    drive = Drive(terms)
    drive.dial()
    assert drive.greet(version) == [{}]


def test_rule_3_a_wrong_handshake_is_answered_with_its_error_and_the_end():
    drive = Drive()
    drive.dial()
    drive.send({"protocol": "messagepack", "version": 1})
    assert drive.forgotten
    assert drive.cut == {"link 1": {"error": "Only the protocol 'json' is supported"}}


def test_rule_3_without_a_handshake_the_connection_ends_after_15_s():
    drive = Drive()
    drive.dial()
    drive.wait(14.9)
    assert not drive.forgotten
    drive.wait(0.1)
    assert drive.forgotten
    assert drive.cut == {"link 1": None}


def test_rule_4_an_event_has_a_type_a_target_and_arguments_and_nothing_else():
    record = EventRecord("messageUpdate", [1, {"text": "é\n"}], seq=5, chat=1)
    assert record.data == (
        '{"type":1,"target":"messageUpdate","arguments":[1,{"text":"é\\n"}]}\x1e'.encode()
    )
    assert b"NaN" not in EventRecord("x", [float("nan")]).data


def test_rule_5_a_ping_goes_out_after_every_10_s_without_a_record():
    drive = Drive()
    drive.dial()
    drive.greet()
    assert drive.wait(9) == []
    assert list_numbers(drive.tell(1)) == [1]
    assert drive.wait(9) == []
    assert drive.wait(1) == [PING]
    assert drive.wait(30) == [PING] * 3


def test_rule_5_the_30_s_count_only_from_the_clients_first_ping():
    quiet = Drive()
    quiet.dial()
    quiet.greet()
    quiet.wait(3600)
    assert not quiet.forgotten
    drive = settle_drive()
    drive.wait(29)
    drive.send({"type": 99})
    drive.wait(29.9)
    assert not drive.forgotten
    drive.wait(0.1)
    assert drive.forgotten
    assert drive.cut == {"link 1": None}


def test_rule_6_the_sequence_is_the_oldest_unacknowledged_number_and_these_come_again():
    drive = settle_drive(STATEFUL, 2)
    drive.tell(1, 2, 3)
    drive.send(make_ack(1))
    drive.lose()
    drive.tell(4)
    assert drive.dial() == []
    told = drive.send(make_sequence(1))
    assert told[0] == make_sequence(2)
    assert list_numbers(told) == [2, 3, 4]
    assert list_numbers(drive.tell(5)) == [5]
    drive.send(make_ack(5))
    drive.lose()
    drive.dial()
    assert drive.send(make_sequence(1)) == [make_sequence(6)]


def test_rule_6_calls_that_are_sent_again_are_done_once_and_acknowledged_after_1_s():
    drive = settle_drive(STATEFUL, 2)
    call = {"type": 1, "invocationId": "a", "target": "Subscribe", "arguments": ["all"]}
    assert drive.send(call) == [{"type": 3, "invocationId": "a"}]
    assert drive.wait(0.9) == []
    assert drive.wait(0.1) == [make_ack(1)]
    drive.lose()
    drive.dial()
    told = drive.send(make_sequence(1), call, {**call, "invocationId": "b"})
    assert told == [
        make_sequence(1),
        {"type": 3, "invocationId": "a"},
        {"type": 3, "invocationId": "b"},
    ]
    assert len(drive.commands) == 2
    assert drive.wait(1) == [make_ack(2)]


@pytest.mark.parametrize("number", [0, -1, 3, 2**60])
def test_rule_6_a_sequence_that_cannot_be_ends_the_connection(number):
    drive = settle_drive(STATEFUL, 2)
    drive.send({"type": 5, "invocationId": "x"})
    drive.lose()
    drive.dial()
    drive.send(make_sequence(number))
    assert drive.forgotten
    assert drive.cut["link 2"]["type"] == 7
    assert drive.cut["link 2"]["error"]


def test_rule_6_only_a_negotiated_websocket_with_handshake_version_2_is_stateful():
    plain, early, stream = Drive(PLAIN), Drive(STATEFUL), Drive(STATEFUL)
    plain.settle(2)
    early.settle(1)
    stream.dial(Transport.STREAM)
    stream.post({"protocol": "json", "version": 2}, PING)
    for drive in (plain, early, stream):
        drive.tell(1)
        drive.lose()
        assert drive.forgotten


def test_rule_6_what_no_client_acknowledges_is_not_kept():
    drive = Drive(STATEFUL)
    drive.dial(Transport.STREAM)
    drive.post({"protocol": "json", "version": 2}, PING)
    assert len(drive.tell(*range(RECORDS_LIMIT + 1))) == RECORDS_LIMIT + 1
    assert not drive.forgotten


def test_rule_7_events_wait_for_the_clients_first_record():
    drive = Drive()
    drive.dial()
    drive.greet()
    assert drive.tell(1, 2) == []
    drive.wait(0.9)
    assert list_numbers(drive.send(PING)) == [1, 2]
    assert list_numbers(drive.tell(3)) == [3]


def test_rule_7_events_wait_for_1_s_at_most():
    drive = Drive()
    drive.dial()
    drive.greet()
    drive.tell(1)
    assert drive.wait(0.9) == []
    assert list_numbers(drive.wait(0.1)) == [1]


def test_rule_7_a_record_right_behind_the_handshake_counts():
    drive = Drive()
    drive.dial()
    drive.tell(1)
    told = drive.send({"protocol": "json", "version": 1}, PING)
    assert told[0] == {}
    assert list_numbers(told) == [1]


def test_rule_8_after_a_re_attachment_it_is_silent_until_the_sequence():
    drive = settle_drive(STATEFUL, 2)
    drive.tell(1)
    drive.lose()
    drive.dial()
    assert drive.tell(2) == []
    assert drive.send(PING, {"type": 1, "invocationId": "x", "target": "Nope"}) == []
    assert drive.wait(2.9) == []
    told = drive.send(make_sequence(1))
    assert told[0] == make_sequence(1)
    assert list_numbers(told[1:]) == [1, 2]
    assert len(told) == 3
    assert not drive.forgotten


def test_rule_8_without_a_sequence_in_3_s_it_is_forgotten_and_its_socket_left_open():
    drive = settle_drive(STATEFUL, 2)
    drive.lose()
    drive.dial()
    assert drive.wait(3) == []
    assert drive.forgotten
    assert "link 2" not in drive.cut
    assert drive.send(make_sequence(1)) == drive.tell(1) == drive.lose() == []
    with pytest.raises(NotFound):
        drive.dial()


def test_rule_9_a_new_socket_replaces_one_that_still_looks_open():
    drive = settle_drive(STATEFUL, 2)
    drive.tell(1)
    drive.dial()
    assert drive.cut == {"link 1": None}
    assert drive.send(PING, make_sequence(1), link="link 1") == []
    assert drive.lose("link 1") == []
    assert list_numbers(drive.send(make_sequence(1))) == [1]


def test_rule_9_a_lost_connection_is_kept_for_60_s():
    for seconds, over in ((59.9, False), (60, True)):
        drive = settle_drive(STATEFUL, 2)
        drive.lose()
        drive.tell(1)
        drive.wait(seconds)
        assert drive.forgotten == over
    assert drive.connection.due == float("inf")


def test_rule_9_a_dead_link_of_a_stateful_connection_is_cut_and_the_connection_kept():
    drive = settle_drive(STATEFUL, 2)
    drive.wait(30)
    assert drive.cut == {"link 1": None}
    assert not drive.forgotten
    drive.tell(1)
    drive.dial()
    assert list_numbers(drive.send(make_sequence(1))) == [1]


def test_rule_9_what_a_lost_connection_keeps_is_bounded_then_it_is_over():
    for terms in (STATEFUL, OLD):
        drive = settle_drive(terms, 2)
        drive.lose()
        drive.tell(*range(RECORDS_LIMIT))
        assert not drive.forgotten
        drive.tell(0)
        assert drive.forgotten


def test_rule_9_unacknowledged_bytes_are_bounded_then_comes_a_clean_close():
    drive = settle_drive(STATEFUL, 2)
    large = EventRecord("messageUpdate", [1, "x" * (BYTES_LIMIT // 4)], chat=1)
    for _ in range(3):
        drive.do(drive.connection.send_event(large, drive.now))
    assert not drive.forgotten
    drive.do(drive.connection.send_event(large, drive.now))
    assert drive.forgotten
    assert drive.cut == {"link 1": AGAIN}


@pytest.mark.parametrize("still_open", [True, False])
def test_rule_10_a_second_socket_of_version_0_greets_again_and_gets_what_it_missed(still_open):
    drive = settle_drive(OLD)
    drive.tell(1)
    if not still_open:
        drive.lose()
        drive.tell(2)
    assert drive.dial() == []
    drive.tell(3)
    assert drive.cut == ({"link 1": None} if still_open else {})
    assert drive.greet() == [{}]
    assert list_numbers(drive.send(PING)) == ([3] if still_open else [2, 3])


def test_rule_10_answers_to_calls_of_a_former_socket_are_not_reported_to_the_next():
    drive = settle_drive(OLD)
    drive.connection.pause(drive.link, drive.now)
    drive.send({"type": 1, "invocationId": "7", "target": "Nope", "arguments": []})
    drive.tell(1)
    drive.lose()
    drive.dial()
    assert drive.greet() == [{}]
    assert list_numbers(drive.send(PING)) == [1]
    assert len(drive.written["link 2"]) == 2


def test_rule_10_a_second_socket_that_does_not_greet_is_closed():
    drive = settle_drive(OLD)
    drive.lose()
    drive.dial()
    drive.send(PING)
    assert drive.forgotten
    assert "error" in drive.cut["link 2"]


def test_rule_10_version_0_keeps_its_subscription_and_is_kept_for_60_s():
    drive = settle_drive(OLD)
    drive.send({"type": 1, "target": "Subscribe", "arguments": [[1]]})
    drive.lose()
    drive.wait(59.9)
    drive.tell(1)
    drive.tell(2, chat=2)
    drive.dial()
    drive.greet()
    assert list_numbers(drive.wait(1)) == [1]
    drive.lose()
    drive.wait(60)
    assert drive.forgotten


def test_a_second_socket_of_a_plain_connection_is_a_conflict():
    for transport in (Transport.WEBSOCKET, Transport.STREAM):
        drive = Drive()
        drive.dial(transport)
        with pytest.raises(Conflict):
            drive.dial(transport)
        with pytest.raises(BadRequest):
            drive.poll("poll")


def test_rule_11_a_revoked_key_ends_it_for_good():
    drive = settle_drive(STATEFUL, 2)
    drive.do(drive.connection.end(drive.now, make_close("The key was revoked")))
    assert drive.cut == {"link 1": {"type": 7, "error": "The key was revoked"}}


def test_rule_12_at_shutdown_it_is_forgotten_first_and_may_come_back():
    for terms in (PLAIN, STATEFUL, OLD):
        drive = settle_drive(terms, 2)
        actions = drive.connection.end(drive.now)
        assert actions == [RemoveConnection(), CloseLink("link 1", COME_BACK)]
        assert decode_records(actions[1].last.data) == [AGAIN]
        assert drive.connection.end(drive.now) == []


def test_rule_14_what_waits_for_a_slow_client_is_bounded_then_it_is_cut_and_may_come_back():
    drive = settle_drive()
    drive.connection.pause(drive.link, drive.now)
    assert drive.tell(*range(RECORDS_LIMIT)) == []
    assert not drive.forgotten
    drive.tell(0)
    assert drive.forgotten
    assert drive.cut == {"link 1": AGAIN}


def test_rule_14_a_client_that_takes_nothing_for_10_s_is_cut_and_may_come_back():
    drive = settle_drive()
    drive.connection.pause(drive.link, drive.now)
    drive.wait(9.9)
    assert not drive.forgotten
    drive.wait(0.1)
    assert drive.cut == {"link 1": AGAIN}


def test_rule_14_a_slow_client_gets_all_in_order_portion_by_portion():
    drive = settle_drive()
    drive.connection.pause(drive.link, drive.now)
    text, told = "x" * 100_000, []
    for number in range(20):
        drive.do(
            drive.connection.send_event(EventRecord("e", [1, {"n": number, "t": text}]), drive.now)
        )
    portions = 0
    while drive.connection.paused:
        drive.wait(3)
        told += drive.do(drive.connection.resume(drive.link, drive.now))
        portions += 1
        if portions == 2:
            drive.tell(20)
    assert list_numbers(told) == list(range(21))
    assert portions == 7
    assert list_numbers(drive.tell(21)) == [21]


def test_rule_14_much_that_was_missed_comes_in_portions_too():
    drive = settle_drive(STATEFUL, 2)
    drive.lose()
    for number in range(10):
        drive.do(
            drive.connection.send_event(
                EventRecord("e", [1, {"n": number, "t": "x" * 99_999}]), 0.0
            )
        )
    drive.dial()
    told = list_numbers(drive.send(make_sequence(1)))
    assert told == [0, 1, 2]
    assert drive.connection.paused
    assert drive.tell(10) == []
    while drive.connection.paused:
        told += list_numbers(drive.do(drive.connection.resume(drive.link, drive.now)))
    assert told == list(range(11))


def test_rule_15_an_event_is_encoded_once_and_its_frame_built_once():
    told = make_event(1)
    frames = set()
    for _ in range(3):
        drive = settle_drive()
        (write,) = drive.connection.send_event(told, drive.now)
        assert write.record is told
        frames.add(id(write.record.frame))
    assert len(frames) == 1
    assert told.frame[2:] == told.data
    assert told.unit is told.unit


CALLS = {"type": 1, "target": "Nope", "arguments": []}


@pytest.mark.parametrize("kind", [1, 4])
def test_an_unknown_method_is_answered_with_an_error_and_never_with_the_end(kind):
    drive = settle_drive()
    assert drive.send({**CALLS, "type": kind, "invocationId": "7"}) == [
        {"type": 3, "invocationId": "7", "error": "Unknown hub method 'Nope'"}
    ]
    assert drive.send({**CALLS, "type": kind}) == []
    assert drive.send({"type": 5, "invocationId": "7"}) == []
    assert not drive.forgotten


def test_a_call_without_an_id_is_carried_out_and_never_answered():
    drive = settle_drive()
    assert drive.send({"type": 1, "target": "Subscribe", "arguments": [[2]]}) == []
    assert drive.commands == [Subscribe(frozenset({2}))]
    assert drive.tell(1, chat=1) == []
    assert list_numbers(drive.tell(2, chat=2)) == [2]


def test_live_events_never_overtake_those_that_are_caught_up():
    drive = settle_drive()
    call = {"type": 1, "invocationId": "7", "target": "Subscribe", "arguments": ["all", 3]}
    assert drive.send(call) == []
    assert drive.commands == [Subscribe(None, 3)]
    assert drive.tell(6, 7) == []
    delta = EventRecord("messageDelta", [1, {"n": "delta"}], chat=1)
    assert drive.do(drive.connection.send_event(delta, drive.now)) == []
    assert drive.send({**call, "invocationId": "8"})[0]["error"].startswith("Still catching up")
    told = drive.do(
        drive.connection.finish_catch_up([make_event(number) for number in (4, 5, 6)], 6, drive.now)
    )
    assert told[3] == {"type": 3, "invocationId": "7"}
    assert list_numbers(told) == [4, 5, 6, 7, "delta"]
    assert list_numbers(drive.tell(8)) == [8]


def test_what_waits_while_catching_up_is_bounded():
    drive = settle_drive()
    drive.send({"type": 1, "target": "Subscribe", "arguments": ["all", 0]})
    drive.tell(*range(RECORDS_LIMIT + 1))
    assert drive.cut == {"link 1": AGAIN}
    assert drive.do(drive.connection.finish_catch_up([make_event(1)], 1, drive.now)) == []


@pytest.mark.parametrize("wrong", ["[]\x1e", "x\x1e", "\x1e", "x" * 40_000])
def test_what_is_no_record_ends_the_connection_with_a_reason(wrong):
    drive = settle_drive()
    drive.say(wrong)
    assert drive.forgotten
    assert drive.cut["link 1"]["type"] == 7
    assert drive.cut["link 1"]["error"].startswith("A record is")


def test_a_client_that_says_goodbye_is_forgotten():
    drive = settle_drive(STATEFUL, 2)
    drive.send({"type": 7}, {"type": 1, "invocationId": "1", "target": "x"})
    assert drive.forgotten
    assert drive.cut == {"link 1": None}


def test_a_connection_that_no_transport_opens_is_forgotten_after_15_s():
    drive = Drive()
    drive.wait(14.9)
    assert not drive.forgotten
    drive.wait(0.1)
    assert drive.forgotten


def test_a_stream_takes_posts_and_a_websocket_does_not():
    drive = Drive()
    drive.dial(Transport.STREAM)
    assert drive.post({"protocol": "json", "version": 1}, PING) == [{}]
    assert list_numbers(drive.tell(1)) == [1]
    drive.lose()
    assert drive.forgotten
    with pytest.raises(NotFound):
        drive.post(PING)
    with pytest.raises(MethodNotAllowed):
        settle_drive().post(PING)


def test_what_was_posted_before_a_stream_opened_is_answered_on_it():
    drive = Drive()
    assert drive.post({"protocol": "json", "version": 1}) == []
    assert drive.dial(Transport.STREAM) == [{}]


def test_the_key_in_a_header_of_a_record_never_comes_back():
    drive = settle_drive()
    told = drive.send({**CALLS, "invocationId": "1", "headers": {"X-API-Key": "agent_secret"}})
    assert "agent_secret" not in json.dumps(told)
