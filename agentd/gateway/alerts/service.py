"""Raises alerts and delivers them: each is on disk before it is sent, and sent until it arrives."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from agentd.core import ids
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.core.tasks import BackgroundTasks, cancel_task
from agentd.gateway.alerts.model import TEST, Alert, AlertTarget, AlertTopic, clean_text
from agentd.gateway.alerts.outbox import AlertOutbox, SendResult
from agentd.gateway.alerts.states import AlertChange, FiringTopic, FiringTopics
from agentd.gateway.alerts.store import AlertsJson

log = logging.getLogger(__name__)

SAVE_AGAIN_SECONDS = 10.0
"""The interval at which a save that failed is repeated."""


class AlertStore(Protocol):
    """Keeps the alerts (``gateway.alerts.store.AlertFile``). Both methods block."""

    def load(self) -> AlertsJson:
        """Return what was saved last."""
        ...

    def save(self, content: AlertsJson) -> None:
        """Keep this instead; durable when it returns. Raises ``Unavailable``."""
        ...


class Sender(Protocol):
    """Sends an alert once (``gateway.alerts.sender.AlertSender``)."""

    async def send(self, alert: Alert, target: AlertTarget, /) -> SendResult:
        """Send it, and return what came of it."""
        ...


class AlertService:
    """The alerts. ``get_targets`` returns the targets by name; None: their file was never valid.

    ``on_change`` is called when alerts have changed, once that is on disk.
    """

    def __init__(
        self,
        store: AlertStore,
        sender: Sender,
        get_targets: Callable[[], Mapping[str, AlertTarget] | None],
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._sender = sender
        self._get_targets = get_targets
        self._clock = clock
        self._on_change = on_change
        self._outbox = AlertOutbox()
        self.firing = FiringTopics()
        """The topics that fire."""
        self._woken = asyncio.Event()
        self._is_dirty = False
        self._is_active = False
        self._sending: set[str] = set()
        """Targets to which something is being sent."""
        self._tasks = BackgroundTasks()
        self._worker: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """True if anybody is notified of anything; else nothing is observed."""
        return self._is_active

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts of late, the oldest first."""
        return self._outbox.alerts

    def count_firing(self) -> int:
        """Return the number of conditions that hold."""
        return sum(not one.quiet_until for one in self.firing)

    async def start(self) -> None:
        """Read what is still to be delivered, and go on with it."""
        try:
            content = await asyncio.to_thread(self._store.load)
        except AgentdError as error:
            log.error("earlier alerts are not delivered: %s", error.message)
            content = AlertsJson()
        self._outbox, self.firing = AlertOutbox(content.alerts), FiringTopics(content.firing)
        self.on_targets_changed()
        self._worker = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Stop sending; what was not accepted is sent after the next start."""
        if self._worker:
            await cancel_task(self._worker)
        await self._tasks.cancel()
        if self._is_dirty:
            await self._save()

    def on_targets_changed(self) -> None:
        """Follow the targets; without an enabled one, nothing fires.

        While the targets are unknown, their pending deliveries are kept.
        """
        targets = self._get_targets()
        self._is_active = any(target.enabled for target in (targets or {}).values())
        if targets is None:
            return
        self._woken.set()
        changed = self._outbox.retain_targets(targets)
        if not self._is_active and any(self.firing):
            self.firing, changed = FiringTopics(), True
        if changed:
            self._note_change()

    def begin(self, topic: AlertTopic, text: str, mark: str = "") -> None:
        """Raise an alert because a condition began; nothing if it holds already."""
        known = self.firing.get(topic)
        change = self.firing.begin(topic, self._clock.now(), clean_text(text), mark)
        if change or known != self.firing.get(topic):
            self._tell(change, text)

    def end(self, topic: AlertTopic, text: str) -> None:
        """Tell that a condition ended; nothing if it did not hold."""
        if change := self.firing.end(topic):
            self._tell(change, text)

    def forget(self, topic: AlertTopic) -> None:
        """Drop a topic without telling that it ended."""
        if self.firing.forget(topic):
            self._note_change()

    def note_event(self, topic: AlertTopic, text: str) -> None:
        """Raise an alert for an event; only count it soon after another one of its topic."""
        change = self.firing.note_event(topic, self._clock.now(), clean_text(text))
        if change is None:
            self._is_dirty = True  # saved with the next change: a count is worth no disk write
            return
        if change.missed:
            text = f"{text} ({change.missed} more before it)"
        self._tell(change, text)

    def end_quiet(self) -> None:
        """Tell of events that were only counted, once their quiet time is over."""
        before = tuple(self.firing)
        for one in self.firing.end_quiet(self._clock.now()):
            again = AlertChange(one.topic, "firing")
            self._tell(again, f"{_count_times(one)} more within an hour: {one.text}")
        if before != tuple(self.firing):
            self._note_change()

    async def send_test(self, target: AlertTarget) -> SendResult:
        """Send a test message at once, and return what the target answered."""
        text = f'A test of the target "{target.name}": alerts of the model gateway arrive here.'
        return await self._sender.send(self._make_alert(AlertTopic(TEST, ""), text), target)

    def _tell(self, change: AlertChange | None, text: str) -> None:
        """Add the alert of a change, and keep what changed."""
        if change:
            alert = self._make_alert(change.topic, text, change)
            self._outbox.add(alert, (self._get_targets() or {}).values())
        self._note_change()

    def _make_alert(self, topic: AlertTopic, text: str, change: AlertChange | None = None) -> Alert:
        return Alert(
            id=f"alert_{ids.generate_request_id()}",
            at=self._clock.now(),
            kind=topic.kind,
            state=change.state if change else "firing",
            subject=topic.subject,
            text=clean_text(text),
            since=change.since if change else "",
        )

    def _note_change(self) -> None:
        self._is_dirty = True
        self._woken.set()

    async def _work(self) -> None:
        """Save what changed, then send what is due, until cancelled."""
        while True:
            self._woken.clear()
            if self._is_dirty:
                await self._save()
            self._start_deliveries()
            try:
                async with asyncio.timeout(self._find_wait()):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def _find_wait(self) -> float | None:
        """Return the seconds until there is something to do; None: until something changes."""
        if self._is_dirty:
            return SAVE_AGAIN_SECONDS
        if self._sending:  # the end of a delivery wakes the worker; more may be due meanwhile
            return SAVE_AGAIN_SECONDS
        if not self._get_targets():
            return None
        wait = self._outbox.count_seconds_to_next(self._clock.now())
        return None if wait is None else max(wait, 0.01)

    async def _save(self) -> None:
        """Save; a failure is logged, and alerts are sent all the same: they may be about it."""
        self._is_dirty = False
        content = AlertsJson(firing=tuple(self.firing), alerts=self._outbox.alerts)
        try:
            await asyncio.to_thread(self._store.save, content)
        except AgentdError as error:
            self._is_dirty = True
            log.error("alerts would be lost by a crash: %s", error.message)
        self._on_change()

    def _start_deliveries(self) -> None:
        targets = self._get_targets() or {}
        for alert, delivery in self._outbox.iter_due(self._clock.now()):
            if delivery.target not in self._sending and delivery.target in targets:
                self._sending.add(delivery.target)
                self._tasks.start(self._deliver(alert, targets[delivery.target]))

    async def _deliver(self, alert: Alert, target: AlertTarget) -> None:
        try:
            result = await self._sender.send(alert, target)
        finally:
            self._sending.discard(target.name)
        done = self._outbox.record_attempt(alert.id, target.name, result, self._clock.now())
        if done and done.state == "failed":
            log.error('an alert for "%s" is given up: %s', target.name, result.answer)
        self._note_change()


def _count_times(one: FiringTopic) -> str:
    return "Once" if one.more == 1 else f"{one.more} times"
