"""An alert is raised once for each change of a condition, whatever is observed."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, format_iso, parse_iso
from agentd.gateway.alerts import states
from agentd.gateway.alerts.model import AlertTopic
from agentd.gateway.alerts.states import EVENT_QUIET, FiringTopics

TOPICS = [AlertTopic("channel_down", "one"), AlertTopic("channel_down", "two")]
OBSERVATIONS = st.lists(st.tuples(st.sampled_from(TOPICS), st.booleans()), max_size=40)


def observe(firing, topic, is_on, now):
    return firing.begin(topic, now) if is_on else firing.end(topic)


@given(OBSERVATIONS)
def test_a_condition_fires_when_it_begins_and_is_resolved_when_it_ends(observed):
    firing, clock, was = FiringTopics(), FrozenClock(), dict.fromkeys(TOPICS, False)
    for topic, is_on in observed:
        clock.move(1)
        change = observe(firing, topic, is_on, clock.now())
        assert (change is not None) == (is_on != was[topic])
        if change:
            assert change.state == ("firing" if is_on else "resolved")
        was[topic] = is_on
    assert {one.topic for one in firing} == {topic for topic, is_on in was.items() if is_on}


@given(OBSERVATIONS, st.integers(0, 40))
def test_a_restart_changes_nothing(observed, restart_at):
    clock, one, other = FrozenClock(), FiringTopics(), FiringTopics()
    for number, (topic, is_on) in enumerate(observed):
        if number == restart_at:
            other = FiringTopics(tuple(other))
        clock.move(1)
        assert observe(one, topic, is_on, clock.now()) == observe(other, topic, is_on, clock.now())


def test_the_newest_mark_of_a_condition_is_kept_and_the_rest_is_of_its_begin():
    firing = FiringTopics()
    firing.begin(TOPICS[0], "2026-01-01T00:00:00.000Z", "first", "a")
    firing.begin(TOPICS[0], "2026-01-01T00:05:00.000Z", "second", "b")
    known = firing.get(TOPICS[0])
    assert (known.since, known.text, known.mark) == ("2026-01-01T00:00:00.000Z", "first", "b")
    firing.begin(TOPICS[0], "2026-01-01T00:06:00.000Z", "third", "b")
    assert firing.get(TOPICS[0]) is known


def test_what_is_forgotten_is_not_resolved():
    firing = FiringTopics()
    assert not firing.forget(TOPICS[0])
    firing.begin(TOPICS[0], "2026-01-01T00:00:00.000Z")
    assert firing.forget(TOPICS[0])
    assert firing.end(TOPICS[0]) is None


def test_an_event_is_told_again_when_its_quiet_hour_is_over():
    firing, clock = FiringTopics(), FrozenClock()
    assert firing.note_event(TOPICS[0], clock.now())
    clock.move(EVENT_QUIET.total_seconds() - 0.001)
    assert firing.note_event(TOPICS[0], clock.now()) is None
    clock.move(0.001)
    assert firing.note_event(TOPICS[0], clock.now()).missed == 1
    clock.jump(-1)
    assert firing.note_event(TOPICS[0], clock.now()), "the clock was ahead"


def test_of_too_many_topics_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(states, "MAX_FIRING", 2)
    firing = FiringTopics()
    for subject in "abc":
        firing.begin(AlertTopic("channel_down", subject), "2026-01-01T00:00:00.000Z")
    assert [one.subject for one in firing] == ["b", "c"]


def test_a_resolved_alert_knows_when_it_began():
    firing = FiringTopics()
    firing.begin(TOPICS[0], "2026-01-01T00:00:00.000Z")
    firing.begin(TOPICS[0], "2026-01-01T00:05:00.000Z")
    assert firing.end(TOPICS[0]).since == "2026-01-01T00:00:00.000Z"


@given(st.lists(st.integers(0, 4000), max_size=30))
def test_events_are_told_once_an_hour_and_none_is_uncounted(seconds):
    """``seconds`` lie between the events."""
    topic, firing, clock = AlertTopic("secret_found", "key rule"), FiringTopics(), FrozenClock()
    told = counted = 0
    last = None
    for pause in seconds:
        clock.move(pause)
        if change := firing.note_event(topic, clock.now()):
            told += 1
            counted += change.missed
            assert last is None or parse_iso(clock.now()) - last >= EVENT_QUIET
            last = parse_iso(clock.now())
    left = firing.get(topic)
    assert told + counted + (left.more if left else 0) == len(seconds)


def test_events_that_were_only_counted_are_told_when_their_time_is_over():
    topic, firing, clock = AlertTopic("secret_found", "key rule"), FiringTopics(), FrozenClock()
    for _ in range(3):
        firing.note_event(topic, clock.now())
    assert firing.end_quiet(clock.now()) == []
    clock.move(EVENT_QUIET.total_seconds())
    (left,) = firing.end_quiet(clock.now())
    assert left.more == 2
    clock.move(EVENT_QUIET.total_seconds())
    assert firing.end_quiet(clock.now()) == []
    assert not tuple(firing)


def test_a_clock_that_is_put_back_silences_no_event():
    topic, firing, clock = AlertTopic("secret_found", "key rule"), FiringTopics(), FrozenClock()
    firing.note_event(topic, clock.now())
    earlier = format_iso(parse_iso(clock.now()) - timedelta(days=300))
    assert firing.note_event(topic, earlier)
