"""Everybody hears every event, at once and in order, whatever another listener does."""

import logging

from agentd.chats.events import MessageUpdate
from agentd.core.events import EventBus

ONE = MessageUpdate(1, 1, None)
TWO = MessageUpdate(2, 1, None)


def test_all_who_listen_hear_all_events_in_order():
    bus, first, second = EventBus(), [], []
    bus.subscribe(first.append)
    bus.subscribe(second.append)
    bus.publish(ONE)
    bus.publish(TWO)
    assert first == second == [ONE, TWO]


def test_a_client_that_unsubscribed_receives_nothing_more():
    bus, heard = EventBus(), []
    stop = bus.subscribe(heard.append)
    bus.publish(ONE)
    stop()
    bus.publish(TWO)
    assert heard == [ONE]


def test_a_listener_that_fails_is_logged_and_the_others_hear_all_the_same(caplog):
    bus, heard = EventBus(), []

    def fail_on_event(event):
        raise RuntimeError("I am broken")

    bus.subscribe(fail_on_event)
    bus.subscribe(heard.append)
    with caplog.at_level(logging.ERROR):
        bus.publish(ONE)
    assert heard == [ONE]
    assert "a listener failed on messageUpdate" in caplog.text


def test_a_listener_may_leave_while_it_is_being_reported():
    bus, heard = EventBus(), []

    def hear_once(event):
        heard.append(event)
        stop()

    stop = bus.subscribe(hear_once)
    bus.subscribe(heard.append)
    bus.publish(ONE)
    bus.publish(TWO)
    assert heard == [ONE, ONE, TWO]


def test_every_event_has_the_wire_name_of_its_own():
    """Section 6 names messageUpdate."""
    assert MessageUpdate.name == "messageUpdate"
