"""Watches the gateway and raises alerts.

Channels, secrets and limits are seen as requests are recorded; the rest, and the end of what no
request ends, is looked at every ``POLL_SECONDS``. All of it comes from memory. While nobody is to
be notified, nothing is looked at.

A soft limit is reported by its event. One that was passed before (the daemon was killed before the
alert was on disk, or the limit was set below what is spent) is reported when the daemon starts or
the file is read: what fires is kept on disk, so nothing is reported twice in its period.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from operator import is_
from typing import Protocol

from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.core.events import Event
from agentd.gateway.alerts.conditions import (
    ErrorRateWindow,
    format_mark,
    has_failed,
    is_near,
    is_used_up,
)
from agentd.gateway.alerts.model import AlertRules, AlertTopic
from agentd.gateway.alerts.service import AlertService
from agentd.gateway.alerts.states import FiringTopic
from agentd.gateway.channels.balances import ChannelBalance, KeyBalance
from agentd.gateway.channels.model import Channel
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.limits.events import HardLimitReached, ReachedLimit, SoftLimitReached
from agentd.gateway.limits.spend import LimitStatus

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
"""The interval at which conditions are looked at."""

_GATEWAY_TOPICS = {
    "ledger_failing": "Requests are recorded again.",
    "export_failing": "The export to the analytics database works again.",
}
_LIMIT_ERROR = "limit_"
_BUDGET = "budget: "
"""The beginning of the subjects of limits that their own events tell of ..."""
_OF_MODEL = f"{_BUDGET}model "
"""... and of those among them that are on models within a key."""
_BUDGET_WORDS = {
    "limit_near": "passed its soft limit",
    "limit_hit": "reached its limit, so requests are refused",
}
_SPEND_LIMITS = {
    "total": "in all",
    "month": "a month",
    "week": "a week",
    "day": "a day",
}


class WatchedGateway(Protocol):
    """The state of the gateway, all of it from memory."""

    @property
    def rules(self) -> AlertRules:
        """The thresholds."""
        ...

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The channels by name."""
        ...

    def iter_balances(self) -> Iterable[tuple[Channel, ChannelBalance]]:
        """Return the enabled channels whose balance was read."""
        ...

    @property
    def ledger_problem(self) -> str:
        """Why requests cannot be recorded now; empty if they can."""
        ...

    @property
    def export_problem(self) -> str:
        """Why the ledger cannot be exported now; empty if it can, or the export is off."""
        ...

    def find_key(self, key_id: str) -> AccessKey | None:
        """Return the access key of this id."""
        ...

    def describe_limits(self, key: AccessKey) -> Iterable[LimitStatus]:
        """Return each limit of a key and how much of it is used."""
        ...

    @property
    def limit_files(self) -> tuple[object, ...]:
        """What keys and budgets were read: others, once a file has changed."""
        ...

    def iter_limits(self) -> Iterable[tuple[str, ReachedLimit]] | None:
        """Return the limits that events tell of, reached or not, by the kind of their alerts.

        Those on models are left out until they are counted. None: the budgets are not known.
        """
        ...

    def list_passed_soft_limits(self) -> Awaitable[Iterable[ReachedLimit]]:
        """Return the soft limits that are passed now. Raises ``Unavailable``."""
        ...


class AlertMonitor:
    """Satisfies ``gateway.relay.service_log_writer.IncidentListener``; on the loop only."""

    def __init__(self, alerts: AlertService, gateway: WatchedGateway, clock: Clock) -> None:
        self._alerts = alerts
        self._gateway = gateway
        self._clock = clock
        self._errors = ErrorRateWindow()
        self._seen_files: tuple[object, ...] = ()
        """The files whose soft limits were looked at; empty: none."""

    async def run(self) -> None:
        """Look at the conditions regularly."""
        while True:
            await self.look_at_soft_limits()
            await asyncio.sleep(POLL_SECONDS)
            self.poll()

    async def look_at_soft_limits(self) -> None:
        """Tell of soft limits that are passed, once after the start and each change of a file."""
        files = self._gateway.limit_files if self._alerts.is_active else ()
        if len(files) == len(self._seen_files) and all(map(is_, files, self._seen_files)):
            return
        try:
            passed = await self._gateway.list_passed_soft_limits() if files else ()
        except AgentdError as error:
            log.error("soft limits that were passed before are not reported yet: %s", error.message)
            return
        for reached in passed:
            self._begin_budget_limit("limit_near", reached)
        self._seen_files = files

    def poll(self) -> None:
        """Look at all conditions that are not seen in requests."""
        if not self._alerts.is_active:
            return
        self._observe("ledger_failing", self._gateway.ledger_problem)
        self._observe("export_failing", self._gateway.export_problem)
        self._observe_error_rate()
        self._observe_channels()
        self._observe_balances()
        self._end_limits()
        self._alerts.end_quiet()

    def on_record(self, record: RequestRecord) -> None:
        """Look at a request that was recorded."""
        if not self._alerts.is_active:
            return
        failed = has_failed(record)
        self._errors.add(failed, self._clock.monotonic())
        if failed:
            self._observe_error_rate()
        for rule, count in record.hidden.items():
            self._on_secret(record, rule, count)
        if record.key and (record.cost or record.error.startswith(_LIMIT_ERROR)):
            key = self._gateway.find_key(record.key)
            if key is not None and key.limits.has_usd_limit:
                self._on_limits(key, record.error.removeprefix(_LIMIT_ERROR))

    def on_channel_failed(self, channel: Channel, why: str) -> None:
        """Note that a channel failed and is in cooldown."""
        if self._alerts.is_active:
            text = f'The channel "{channel.name}" failed and is not used for a while: {why}'
            self._alerts.begin(AlertTopic("channel_down", channel.name), text)

    def on_channel_works(self, channel: Channel) -> None:
        """Note that a channel answered."""
        topic = AlertTopic("channel_down", channel.name)
        if self._alerts.firing.get(topic):
            self._alerts.end(topic, f'The channel "{channel.name}" works again.')

    def on_ledger_failed(self, why: str) -> None:
        """Note that a request could not be recorded."""
        if self._alerts.is_active:
            self._observe("ledger_failing", why)

    def on_event(self, event: Event) -> None:
        """Note that a limit of a budget was reached, by the events of the limits."""
        if not self._alerts.is_active:
            return
        match event:
            case SoftLimitReached(reached=reached):
                self._begin_budget_limit("limit_near", reached)
            case HardLimitReached(reached=reached) if not _is_own_limit(reached):
                self._begin_budget_limit("limit_hit", reached)

    def _begin_budget_limit(self, kind: str, reached: ReachedLimit) -> None:
        topic = AlertTopic(kind, _format_budget_subject(reached))
        mark = _format_budget_mark(reached)
        if known := self._alerts.firing.get(topic):
            self._end_budget_limit(known, mark)  # if no poll came between
        what = _BUDGET_WORDS[kind]
        text = f"{_describe_budget(reached)} {what}: {reached.spent:f} of {reached.limit:f} USD"
        resets = f"; it resets at {reached.resets}" if reached.resets else ""
        self._alerts.begin(topic, f"{text} {_SPEND_LIMITS[reached.window]}{resets}.", mark)

    def _observe(self, kind: str, problem: str) -> None:
        topic = AlertTopic(kind, "")
        if problem:
            what = {
                "ledger_failing": "Requests cannot be recorded",
                "export_failing": "The ledger cannot be exported to the analytics database",
            }[kind]
            self._alerts.begin(topic, f"{what}: {problem}")
        else:
            self._alerts.end(topic, _GATEWAY_TOPICS[kind])

    def _observe_error_rate(self) -> None:
        rules, topic = self._gateway.rules, AlertTopic("error_rate", "")
        rate = self._errors.measure(rules.error_minutes, self._clock.monotonic())
        if rate.exceeds(rules):
            text = f"{rate.failed} of the last {rate.requests} requests failed"
            self._alerts.begin(topic, f"{text} within {rules.error_minutes} minutes.")
        elif self._alerts.firing.get(topic):
            self._alerts.end(topic, "Fewer requests fail again.")

    def _observe_channels(self) -> None:
        """Raise alerts for channels that were disabled automatically, and forget removed ones."""
        channels = self._gateway.channels
        for channel in channels.values():
            if channel.auto_disabled and not channel.enabled:
                text = f'The channel "{channel.name}" was disabled: {channel.auto_disabled.reason}'
                self._alerts.begin(AlertTopic("channel_disabled", channel.name), text)
        for one in self._alerts.firing:
            known = channels.get(one.subject)
            is_enabled = known is not None and known.enabled
            if one.kind == "channel_disabled" and (known is None or is_enabled):
                what = "is enabled again" if is_enabled else "was removed"
                self._alerts.end(one.topic, f'The channel "{one.subject}" {what}.')
            elif one.kind == "channel_down" and not is_enabled:
                self._alerts.forget(one.topic)

    def _observe_balances(self) -> None:
        """Raise alerts for balances that are low, and end those of balances that are not.

        While a balance cannot be read, or was not yet with other keys, what was said of it holds.
        """
        for channel, balance in self._gateway.iter_balances():
            topic = AlertTopic("balance_low", channel.name)
            if low := balance.list_low(channel.balance.low):
                self._alerts.begin(topic, _describe_balance(channel, low))
            elif self._alerts.firing.get(topic) and balance.is_read:
                text = f'The balance of the channel "{channel.name}" is no longer low.'
                self._alerts.end(topic, text)
        for one in self._alerts.firing:
            if one.kind == "balance_low":
                known = self._gateway.channels.get(one.subject)
                if known is None or not known.enabled or known.balance.low is None:
                    self._alerts.forget(one.topic)

    def _end_budget_limits(self) -> None:
        """End what was said of limits whose period is over, or that were changed or removed."""
        firing = [one for one in self._alerts.firing if one.subject.startswith(_BUDGET)]
        limits = self._gateway.iter_limits() if firing else None
        if limits is None:
            return
        marks = {
            (kind, _format_budget_subject(limit)): _format_budget_mark(limit)
            for kind, limit in limits
        }
        for one in firing:
            mark = marks.get((one.kind, one.subject), "")
            if mark or not one.subject.startswith(_OF_MODEL):
                self._end_budget_limit(one, mark)

    def _end_budget_limit(self, one: FiringTopic, mark: str) -> None:
        """End what was said of a limit if it is another by now; an empty ``mark``: it is gone."""
        ends, _, amount = one.mark.partition(" ")
        if mark and mark in (one.mark, f"{ends} {amount or mark.partition(' ')[2]}"):
            return
        if one.kind == "limit_near":
            self._alerts.forget(one.topic)
        elif not mark:
            self._alerts.end(one.topic, "The limit was removed.")
        elif mark.partition(" ")[0] != ends:
            self._alerts.end(one.topic, "A new period of the limit has begun.")
        else:
            self._alerts.end(one.topic, "The limit was changed.")

    def _on_secret(self, record: RequestRecord, rule: str, count: int) -> None:
        name = record.key_name or record.key
        found = "A secret was" if count == 1 else f"{count} secrets were"
        refused = "; the request was refused" if record.outcome == "refused" else ""
        text = f'{found} found in a request of the access key "{name}" (rule "{rule}"){refused}.'
        self._alerts.note_event(AlertTopic("secret_found", f"{record.key} {rule}"), text)

    def _on_limits(self, key: AccessKey, refused_by: str) -> None:
        for limit in self._gateway.describe_limits(key):
            if limit.name not in _SPEND_LIMITS:
                continue
            hit, near = _make_topics(key.id, limit.name)
            used = _describe_use(key, limit)
            if limit.name == refused_by or is_used_up(limit):
                text = f"{used}, so its requests are refused{_describe_reset(limit)}."
                self._alerts.begin(hit, text, format_mark(limit))
            if is_near(limit, self._gateway.rules):
                self._alerts.begin(near, f"{used}{_describe_reset(limit)}.")

    def _end_limits(self) -> None:
        """End what was said of limits that were reset or raised, or whose key is gone."""
        self._end_budget_limits()
        for one in self._alerts.firing:
            if one.kind not in ("limit_hit", "limit_near") or one.subject.startswith(_BUDGET):
                continue
            key_id, _, name = one.subject.partition(" ")
            key = self._gateway.find_key(key_id)
            limits = self._gateway.describe_limits(key) if key else ()
            limit = next((limit for limit in limits if limit.name == name), None)
            if key is None or limit is None:
                self._alerts.forget(one.topic)
            elif one.kind == "limit_near":
                if not is_near(limit, self._gateway.rules):
                    self._alerts.forget(one.topic)
            elif not is_used_up(limit) and format_mark(limit) != one.mark:
                self._alerts.end(one.topic, f"{_describe_use(key, limit)}: it may spend again.")


def _describe_balance(channel: Channel, low: Sequence[KeyBalance]) -> str:
    least = f"less than the {channel.balance.low:f} of which it warns"
    left = ", ".join(
        f"{one.amount:f} {one.currency}" + (f" ({one.field})" if channel.keys else "")
        for one in low
    )
    return f'The balance of the channel "{channel.name}" is {left}: {least}.'


def _is_own_limit(reached: ReachedLimit) -> bool:
    """Return whether it is a key's own limit, which is seen in requests."""
    return reached.scope == "key" and not reached.budget


def _format_budget_subject(reached: ReachedLimit) -> str:
    parts = (reached.scope, reached.key or reached.name, reached.model, reached.window)
    return _BUDGET + " ".join(filter(None, parts))


def _format_budget_mark(limit: ReachedLimit) -> str:
    """Return what distinguishes a limit from itself in another period, or with another amount."""
    return f"{limit.resets or ''} {limit.limit:f}"


def _describe_budget(reached: ReachedLimit) -> str:
    whose = {"key": "The access key", "owner": "The owner", "tag": "The tag"}
    if reached.scope == "model":
        return f'The model "{reached.model}" of the access key "{reached.name}"'
    return f'{whose[reached.scope]} "{reached.name}"'


def _make_topics(key_id: str, limit: str) -> tuple[AlertTopic, AlertTopic]:
    subject = f"{key_id} {limit}"
    return AlertTopic("limit_hit", subject), AlertTopic("limit_near", subject)


def _describe_use(key: AccessKey, limit: LimitStatus) -> str:
    share = f"{limit.used:f} of {limit.limit:f} USD {_SPEND_LIMITS[limit.name]}"
    return f'The access key "{key.name}" has used {share}'


def _describe_reset(limit: LimitStatus) -> str:
    return f"; the limit resets at {limit.resets}" if limit.resets else ""
