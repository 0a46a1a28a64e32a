"""Deliveries: at least once, in order, no more often than the target wants."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, format_iso, parse_iso
from agentd.gateway.alerts.model import Alert, AlertTarget
from agentd.gateway.alerts.outbox import (
    GIVE_UP_AFTER,
    MAX_KEPT,
    RETRY_SECONDS,
    AlertOutbox,
    SendResult,
)

OK, FAILED = SendResult(ok=True, answer="200"), SendResult(ok=False, answer="500")
GONE = SendResult(ok=False, answer="410", is_gone=True)
OPS = AlertTarget(name="ops", url="https://example.org", min_interval=60)


def make_alert(number, at, state="firing", kind="channel_down", subject="one"):
    return Alert(id=f"a{number}", at=at, kind=kind, state=state, subject=subject, text="text")


def send_due(outbox, clock, result=OK):
    """Send all that is due; return the ids."""
    sent = []
    for alert, delivery in list(outbox.iter_due(clock.now())):
        sent.append(alert.id)
        outbox.record_attempt(alert.id, delivery.target, result, clock.now())
    return sent


def get_states(outbox):
    return {one.id: one.deliveries[0].state for one in outbox.alerts}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alert"), st.sampled_from(["one", "two"])),
        st.tuples(st.just("wait"), st.integers(0, 4000)),
        st.tuples(st.just("send"), st.sampled_from([OK, FAILED])),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from([0.0, 60.0, 3600.0]))
def test_a_target_hears_of_changes_in_turn_and_at_last_knows_the_state(steps, interval):
    outbox, clock = AlertOutbox(), FrozenClock()
    target = AlertTarget(name="ops", url="https://example.org", min_interval=interval)
    state, heard = {}, {"one": [], "two": []}

    def send(result):
        for alert, delivery in list(outbox.iter_due(clock.now())):
            outbox.record_attempt(alert.id, delivery.target, result, clock.now())
            if result.ok:
                heard[alert.subject].append((alert.state, clock.now()))

    for number, (step, value) in enumerate(steps):
        if step == "alert":
            state[value] = "resolved" if state.get(value) == "firing" else "firing"
            outbox.add(make_alert(number, clock.now(), state[value], subject=value), [target])
        elif step == "wait":
            clock.move(value)
        else:
            send(value)
    for _ in range(2 * len(steps)):  # the target is well again
        clock.move(max(RETRY_SECONDS[-1], interval))
        send(OK)
    for subject, messages in heard.items():
        states = [one for one, _ in messages]
        assert all(one != other for one, other in pairwise(states))
        assert (states[-1] if states else None) == state.get(subject)
    assert set(get_states(outbox).values()) <= {"delivered", "skipped"}


def test_what_flaps_within_the_interval_is_told_once():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    assert send_due(outbox, clock) == ["a1"]
    for number in range(2, 6):
        clock.move(5)
        state = "firing" if number % 2 else "resolved"
        outbox.add(make_alert(number, clock.now(), state), [OPS])
        assert send_due(outbox, clock) == []
    assert get_states(outbox)["a5"] == "skipped"
    clock.move(5)
    outbox.add(make_alert(6, clock.now(), "resolved"), [OPS])
    assert send_due(outbox, clock) == []
    clock.move(OPS.min_interval)
    assert send_due(outbox, clock) == ["a6"]


def test_another_topic_does_not_wait():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    send_due(outbox, clock)
    outbox.add(make_alert(2, clock.now(), subject="two"), [OPS])
    assert send_due(outbox, clock) == ["a2"]


def test_a_failed_attempt_is_repeated_later_and_later_until_it_is_given_up():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    for seconds in (*RETRY_SECONDS, RETRY_SECONDS[-1]):
        assert send_due(outbox, clock, FAILED) == ["a1"]
        clock.move(seconds - 1)
        assert send_due(outbox, clock) == []
        assert outbox.count_seconds_to_next(clock.now()) == 1
        clock.move(1)
    assert get_states(outbox) == {"a1": "pending"}
    clock.move(GIVE_UP_AFTER.total_seconds())
    assert send_due(outbox, clock, FAILED) == ["a1"]
    assert get_states(outbox) == {"a1": "failed"}
    assert outbox.count_seconds_to_next(clock.now()) is None


def test_a_target_that_is_gone_is_not_called_again():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    send_due(outbox, clock, GONE)
    assert get_states(outbox) == {"a1": "failed"}


def test_a_target_that_asks_to_wait_is_left_alone():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    busy = SendResult(ok=False, answer="429", retry_after=500)
    send_due(outbox, clock, busy)
    assert outbox.count_seconds_to_next(clock.now()) == 500


def test_a_resolved_alert_never_overtakes_the_one_that_fired():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    send_due(outbox, clock, FAILED)
    outbox.add(make_alert(2, clock.now(), "resolved"), [OPS])
    assert send_due(outbox, clock) == []
    clock.move(RETRY_SECONDS[0])
    assert send_due(outbox, clock) == ["a1"]
    assert send_due(outbox, clock) == ["a2"]


def test_a_target_receives_what_it_wants():
    outbox, clock = AlertOutbox(), FrozenClock()
    limits = AlertTarget(name="limits", url="https://example.org", alerts=("limit_hit",))
    begins = AlertTarget(name="begins", url="https://example.org", resolved=False)
    off = AlertTarget(name="off", url="https://example.org", enabled=False)
    targets = [limits, begins, off]
    first = outbox.add(make_alert(1, clock.now()), targets)
    second = outbox.add(make_alert(2, clock.now(), "resolved", kind="limit_hit"), targets)
    assert [one.target for one in first.deliveries] == ["begins"]
    assert [one.target for one in second.deliveries] == ["limits"]


def test_what_is_pending_for_a_removed_target_is_skipped():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    assert not outbox.retain_targets({"ops": OPS})
    assert outbox.retain_targets({})
    assert get_states(outbox) == {"a1": "skipped"}


def test_old_alerts_are_forgotten_and_pending_ones_last():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(0, clock.now(), subject="pending"), [OPS])
    for number in range(1, MAX_KEPT + 10):
        outbox.add(make_alert(number, clock.now(), subject=f"s{number}"), [])
    kept = [one.id for one in outbox.alerts]
    assert len(kept) == MAX_KEPT
    assert kept[:2] == ["a0", "a11"]
    assert kept[-1] == f"a{MAX_KEPT + 9}"


def test_a_clock_that_is_put_back_delays_nothing_for_days():
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    earlier = format_iso(parse_iso(clock.now()) - timedelta(days=300))
    assert [alert.id for alert, _ in outbox.iter_due(earlier)] == ["a1"]


def test_what_waits_behind_another_message_is_not_due_before_it() -> None:
    """Otherwise the daemon would look again at once, for as long as the target is down."""
    outbox, clock = AlertOutbox(), FrozenClock()
    outbox.add(make_alert(1, clock.now()), [OPS])
    assert send_due(outbox, clock, FAILED) == ["a1"]
    clock.move(1)
    outbox.add(make_alert(2, clock.now(), "resolved"), [OPS])
    assert send_due(outbox, clock) == []
    assert outbox.count_seconds_to_next(clock.now()) == RETRY_SECONDS[0] - 1
    outbox.add(make_alert(3, clock.now(), subject="two"), [OPS])
    assert outbox.count_seconds_to_next(clock.now()) == 0
