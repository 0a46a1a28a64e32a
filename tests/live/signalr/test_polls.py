"""Long polling, as the JavaScript and the Python client do it."""

import pytest

from agentd.core.errors import NotFound
from tests.live.signalr.driving import PING, Drive, list_numbers

HELLO = {"protocol": "json", "version": 1}


def open_poll():
    drive = Drive()
    drive.poll("first")
    drive.poll("second")
    drive.post(HELLO)
    drive.post(PING)
    drive.answers.clear()
    return drive


def test_the_first_poll_is_answered_at_once_and_empty():
    drive = Drive()
    drive.poll("first")
    assert drive.answers == [("first", 200, [])]


def test_the_handshake_is_answered_on_the_second_poll():
    drive = Drive()
    drive.poll("first")
    drive.poll("second")
    drive.tell(1)
    assert drive.post(HELLO) == []
    assert drive.answers[1:] == [("second", 200, [{}])]


def test_a_handshake_posted_before_the_first_poll_is_kept_and_answered_on_the_second():
    drive = Drive()
    drive.post(HELLO)
    drive.tell(1)
    drive.poll("first")
    drive.poll("second")
    assert drive.answers == [("first", 200, []), ("second", 200, [{}])]
    drive.poll("third")
    drive.wait(1)
    assert list_numbers(drive.answers[2][2]) == [1]


def test_a_poll_takes_all_that_waits_and_one_that_wants_one_takes_one():
    drive = open_poll()
    drive.poll("a")
    drive.tell(1, 2, 3)
    assert list_numbers(drive.answers[0][2]) == [1]
    drive.poll("b", single=True)
    assert list_numbers(drive.answers[1][2]) == [2]
    drive.tell(4)
    drive.poll("c")
    assert list_numbers(drive.answers[2][2]) == [3, 4]


def test_a_poll_waits_90_s_and_is_then_answered_empty():
    drive = open_poll()
    drive.poll("a")
    drive.wait(89.9)
    assert drive.answers == []
    drive.wait(0.1)
    assert drive.answers == [("a", 200, [])]


def test_there_are_no_pings_and_no_silence_is_too_long():
    drive = open_poll()
    for number in range(10):
        drive.poll(number)
        drive.wait(90)
    assert [answer[1:] for answer in drive.answers] == [(200, [])] * 10
    assert not drive.forgotten


@pytest.mark.parametrize("came", [True, False])
def test_without_a_poll_for_30_s_the_client_is_gone(came):
    drive = open_poll()
    if came:
        drive.poll("a")
        drive.lose("a")
    drive.wait(29.9)
    assert not drive.forgotten
    drive.wait(0.1)
    assert drive.forgotten


def test_a_newer_poll_takes_over_and_loses_nothing():
    drive = open_poll()
    drive.poll("a")
    drive.poll("b")
    drive.tell(1)
    assert drive.answers[0] == ("a", 204, [])
    assert drive.answers[1][:2] == ("b", 200)
    assert list_numbers(drive.answers[1][2]) == [1]


def test_a_newer_poll_waits_90_s_of_its_own():
    drive = open_poll()
    drive.poll("a")
    drive.wait(60)
    drive.poll("b")
    drive.wait(89.9)
    assert drive.answers == [("a", 204, [])]
    drive.wait(0.1)
    assert drive.answers[1:] == [("b", 200, [])]


@pytest.mark.parametrize("ends", [lambda drive: drive.tell(1), lambda drive: drive.lose("a")])
def test_the_client_has_30_s_from_the_end_of_its_last_poll_on(ends):
    drive = open_poll()
    drive.poll("a")
    drive.wait(60)
    ends(drive)
    drive.wait(29.9)
    assert not drive.forgotten
    drive.wait(0.1)
    assert drive.forgotten


def test_the_loss_of_a_poll_that_was_replaced_leaves_the_one_that_waits():
    drive = open_poll()
    drive.poll("a")
    drive.poll("b")
    drive.lose("a")
    drive.tell(1)
    assert drive.answers[1][:2] == ("b", 200)


def test_rule_13_a_deleted_connection_ends_its_poll_with_204_and_no_body_and_is_then_unknown():
    drive = open_poll()
    drive.poll("a")
    drive.do(drive.connection.end(drive.now, None))
    assert drive.answers == [("a", 204, [])]
    assert drive.forgotten
    with pytest.raises(NotFound):
        drive.poll("b")


def test_rule_12_shutdown_reaches_the_poll_that_waits():
    drive = open_poll()
    drive.poll("a")
    drive.do(drive.connection.end(drive.now))
    assert drive.answers == [("a", 200, [{"type": 7, "allowReconnect": True}])]


def test_a_poll_that_the_client_left_takes_nothing_with_it():
    drive = open_poll()
    drive.poll("a")
    drive.lose("a")
    drive.tell(1)
    drive.poll("b")
    assert list_numbers(drive.answers[0][2]) == [1]


def test_calls_are_answered_on_polls():
    drive = open_poll()
    drive.poll("a")
    drive.post({"type": 1, "invocationId": "1", "target": "Subscribe", "arguments": ["all"]})
    assert drive.answers == [("a", 200, [{"type": 3, "invocationId": "1"}])]
