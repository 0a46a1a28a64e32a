"""Everybody hears every event, at once and in order, whatever another listener does."""

import logging

from agentd.auth.events import KeysUpdate
from agentd.chats.events import MessageUpdate, QueueUpdate
from agentd.core.events import EventBus, StoredEvent

ONE = MessageUpdate(1, 1, None)
TWO = MessageUpdate(2, 1, None)


def test_all_who_listen_hear_all_events_in_order():
    bus, first, second = EventBus(), [], []
    bus.subscribe(first.append)
    bus.subscribe(second.append)
    bus.publish(ONE)
    bus.publish(TWO)
    assert first == second == [ONE, TWO]


def test_a_listener_hears_only_the_kinds_that_it_named_and_what_is_derived_from_them():
    bus, all_, some, stored = EventBus(), [], [], []
    other, keys = QueueUpdate(3, 1, ()), KeysUpdate(())
    bus.publish(ONE)
    bus.subscribe(all_.append)
    bus.subscribe_to((MessageUpdate, KeysUpdate), some.append)
    bus.subscribe_to((StoredEvent,), stored.append)
    for event in (ONE, other, keys, TWO):
        bus.publish(event)
    assert all_ == [ONE, other, keys, TWO]
    assert some == [ONE, keys, TWO]
    assert stored == [ONE, other, TWO]


def test_whoever_listens_after_an_event_hears_the_next_of_its_kind():
    bus, first, second = EventBus(), [], []
    stop = bus.subscribe_to((MessageUpdate,), first.append)
    bus.publish(ONE)
    bus.subscribe_to((MessageUpdate,), second.append)
    bus.publish(TWO)
    stop()
    bus.publish(ONE)
    assert (first, second) == ([ONE, TWO], [TWO, ONE])


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
