"""The alerts of late and their deliveries: what is to be sent when, and what came of it. Pure.

Each alert is sent to a target until it is accepted, at least once and always under the same id.
Messages to one target about one topic stay in order. Those that come within the target's minimum
interval wait; when a newer one comes meanwhile, only that one is sent, and none if the target
already knows what it says.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from msgspec import Struct, structs

from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.gateway.alerts.model import (
    EVENTS,
    MAX_INTERVAL,
    Alert,
    AlertDelivery,
    AlertTarget,
)

RETRY_SECONDS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""The time after each failed attempt; the last one is repeated."""
GIVE_UP_AFTER = timedelta(days=3)
"""The age at which an alert is not sent any more."""
MAX_KEPT = 500
"""Alerts that are kept. Delivered ones go first."""

_REPLACED = "A later message replaced it"
_KNOWN = "The target knows that already"


class SendResult(Struct, frozen=True):
    """What came of an attempt to send an alert."""

    ok: bool
    answer: str
    """What the target answered, or why it could not be reached; without secrets."""
    status: int = 0
    """The HTTP status; 0: there was no answer."""
    retry_after: float = 0.0
    """Seconds after which the target wants to be called again; 0: it did not say."""
    is_gone: bool = False
    """True if the target says that it will never accept anything."""


class AlertOutbox:
    """The alerts, the oldest first."""

    def __init__(self, alerts: Iterable[Alert] = ()) -> None:
        self._alerts = {one.id: one for one in alerts}

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """All alerts that are kept, the oldest first."""
        return tuple(self._alerts.values())

    def add(self, alert: Alert, targets: Iterable[AlertTarget]) -> Alert:
        """Add an alert, to be sent to those of the targets that want it."""
        deliveries = tuple(
            self._plan(alert, target) for target in targets if target.wants(alert.kind, alert.state)
        )
        added = structs.replace(alert, deliveries=deliveries)
        self._alerts[alert.id] = added
        self._trim()
        return added

    def iter_due(self, now: Timestamp) -> Iterator[tuple[Alert, AlertDelivery]]:
        """Yield what is to be sent now."""
        for alert, delivery in self._iter_first():
            if _count_seconds_left(delivery, now) <= 0:
                yield alert, delivery

    def count_seconds_to_next(self, now: Timestamp) -> float | None:
        """Return the seconds until something is due; None: nothing is pending."""
        waits = (_count_seconds_left(one, now) for _, one in self._iter_first())
        return min(waits, default=None)

    def record_attempt(
        self, alert_id: str, target: str, result: SendResult, now: Timestamp
    ) -> AlertDelivery | None:
        """Note what came of sending an alert to a target; return the delivery, if it is kept."""
        alert = self._alerts.get(alert_id)
        delivery = alert and _find_delivery(alert, target)
        if alert is None or delivery is None or delivery.state != "pending":
            return None
        attempts = delivery.attempts + 1
        wait = RETRY_SECONDS[min(attempts, len(RETRY_SECONDS)) - 1]
        wait = min(max(wait, result.retry_after), RETRY_SECONDS[-1])
        too_old = parse_iso(now) - parse_iso(alert.at) >= GIVE_UP_AFTER
        given_up = result.is_gone or too_old
        done = structs.replace(
            delivery,
            state="delivered" if result.ok else "failed" if given_up else "pending",
            attempts=attempts,
            at=now,
            answer=result.answer,
            not_before=_add_seconds(now, wait),
        )
        self._replace(alert, done)
        return done

    def retain_targets(self, targets: Mapping[str, AlertTarget]) -> bool:
        """Skip what is pending for targets that are gone or disabled; return whether any is."""
        gone = [
            (alert, delivery)
            for alert, delivery in self._iter_pending()
            if not (delivery.target in targets and targets[delivery.target].enabled)
        ]
        for alert, delivery in gone:
            self._skip(alert.id, delivery, "The target was removed or disabled")
        return bool(gone)

    def _plan(self, alert: Alert, target: AlertTarget) -> AlertDelivery:
        """Return the delivery of a new alert; what it replaces is skipped."""
        earlier = [
            (one, delivery)
            for one in self._alerts.values()
            if one.topic == alert.topic and (delivery := _find_delivery(one, target.name))
        ]
        made = AlertDelivery(target=target.name, not_before=alert.at)
        sent = [pair for pair in earlier if pair[1].state == "delivered"]
        if not sent:
            return made
        last, accepted = sent[-1]
        free_at = _add_seconds(accepted.at, target.min_interval)
        if alert.at >= free_at:
            return made
        waiting = [pair for pair in earlier if pair[1].state == "pending"]
        if any(delivery.attempts for _, delivery in waiting):
            return made  # it is being sent, so this one follows it
        for one, delivery in waiting:
            self._skip(one.id, delivery, _REPLACED)
        if last.state == alert.state and alert.kind not in EVENTS:
            return structs.replace(made, state="skipped", answer=_KNOWN)
        return structs.replace(made, not_before=free_at)

    def _iter_first(self) -> Iterator[tuple[Alert, AlertDelivery]]:
        """Yield what is pending; of one topic, only the first to each target."""
        seen = set()
        for alert, delivery in self._iter_pending():
            place = (delivery.target, alert.topic)
            if place not in seen:
                seen.add(place)
                yield alert, delivery

    def _iter_pending(self) -> Iterator[tuple[Alert, AlertDelivery]]:
        for alert in tuple(self._alerts.values()):
            for delivery in alert.deliveries:
                if delivery.state == "pending":
                    yield alert, delivery

    def _skip(self, alert_id: str, delivery: AlertDelivery, why: str) -> None:
        skipped = structs.replace(delivery, state="skipped", answer=why)
        self._replace(self._alerts[alert_id], skipped)

    def _replace(self, alert: Alert, changed: AlertDelivery) -> None:
        deliveries = tuple(
            changed if one.target == changed.target else one for one in alert.deliveries
        )
        self._alerts[alert.id] = structs.replace(alert, deliveries=deliveries)

    def _trim(self) -> None:
        """Forget the oldest alerts: first those that are done with."""
        while len(self._alerts) > MAX_KEPT:
            done = (one.id for one in self._alerts.values() if not one.is_pending)
            newest = next(reversed(self._alerts))
            oldest = next((one for one in done if one != newest), next(iter(self._alerts)))
            del self._alerts[oldest]


def _find_delivery(alert: Alert, target: str) -> AlertDelivery | None:
    return next((one for one in alert.deliveries if one.target == target), None)


def _count_seconds_left(delivery: AlertDelivery, now: Timestamp) -> float:
    """Return the seconds until a delivery is due; a clock that was put back delays nothing."""
    if delivery.not_before <= now:
        return 0.0
    left = (parse_iso(delivery.not_before) - parse_iso(now)).total_seconds()
    return left if left <= MAX_INTERVAL else 0.0


def _add_seconds(at: Timestamp, seconds: float) -> Timestamp:
    return format_iso(parse_iso(at) + timedelta(seconds=seconds))
