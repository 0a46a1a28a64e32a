"""Service log notes about requests: each incident once, however many requests it affects.

Notes contain ids, names and rules; never any content of a request.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from agentd.core.clock import Timestamp
from agentd.core.errors import ConfigProblem
from agentd.gateway.channels.model import Channel
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.spend import LimitHolder, OverLimit
from agentd.gateway.service_log.note import Level

REPEAT_SECONDS = 60.0
"""Seconds until the cooldown of a channel, or a revoked key, is noted again."""


class NoteWriter(Protocol):
    """The service log (``gateway.service_log.store.ServiceLog``)."""

    def add(self, level: Level, kind: str, text: str, *, channel: str = "", key: str = "") -> None:
        """Queue a note; return before it is written."""
        ...


class IncidentListener(Protocol):
    """Hears of incidents, each time (``gateway.alerts.monitor.AlertMonitor``)."""

    def on_channel_failed(self, channel: Channel, why: str) -> None:
        """Handle that a whole channel is in cooldown."""
        ...

    def on_channel_works(self, channel: Channel) -> None:
        """Handle that a channel answered."""
        ...

    def on_ledger_failed(self, why: str) -> None:
        """Handle that a request could not be recorded."""
        ...


class ServiceLogWriter:
    """Writes notes about incidents; ``now`` is a monotonic clock in seconds."""

    def __init__(self, notes: NoteWriter, now: Callable[[], float]) -> None:
        self.listener: IncidentListener | None = None
        """Hears of the same incidents."""
        self._notes = notes
        self._now = now
        self._cooling_down: dict[str, bool] = {}
        """Channels in cooldown, and whether that was noted."""
        self._noted: dict[str, float] = {}
        self._noted_keys: dict[tuple[str, str], float] = {}
        """The time at which the cooldown of a channel's key was last noted."""
        self._strangers: dict[str, float] = {}
        """The time at which it was last noted that a key was sent from elsewhere."""
        self._revoked: dict[str, float] = {}
        """The time at which each revoked key was last noted."""
        self._reached: dict[tuple[LimitHolder, str], Timestamp | None] = {}
        """The reset times of reached limits by holder and name: each is noted once until then."""
        self._unrecorded = 0
        """Consecutive requests that could not be recorded."""

    def on_cooldown(self, channel: Channel, why: str, seconds: float) -> None:
        """Note that a channel failed and is not used for ``seconds``."""
        if self.listener:
            self.listener.on_channel_failed(channel, why)
        if channel.name in self._cooling_down:
            return
        noted = self._now() - self._noted.get(channel.name, float("-inf")) >= REPEAT_SECONDS
        self._cooling_down[channel.name] = noted
        if noted:
            self._noted[channel.name] = self._now()
            text = f"Cooling down for {seconds:.0f} s: {why}"
            self._notes.add("warning", "channel_cooldown", text, channel=channel.name)

    def on_key_cooldown(self, channel: Channel, key: str, why: str, seconds: float) -> None:
        """Note that one of a channel's keys, in the field ``key``, is not used for ``seconds``."""
        place = channel.name, key
        if self._now() - self._noted_keys.get(place, float("-inf")) >= REPEAT_SECONDS:
            self._noted_keys[place] = self._now()
            text = f"{key} is cooling down for {seconds:.0f} s: {why}; other keys are used"
            self._notes.add("warning", "channel_key_cooldown", text, channel=channel.name)

    def on_success(self, channel: Channel) -> None:
        """Note that a channel works again after a cooldown."""
        if self.listener:
            self.listener.on_channel_works(channel)
        if self._cooling_down.pop(channel.name, False):
            text = "The channel works again"
            self._notes.add("info", "channel_recovered", text, channel=channel.name)

    def on_limit_reached(self, key: AccessKey, error: OverLimit) -> None:
        """Note that a spend limit refused a request, once until it resets."""
        limit, holder = error.status, error.holder
        if limit.name not in _SPEND_LIMITS:
            return
        if self._reached.get((holder, limit.name), "") != limit.resets:
            self._reached[holder, limit.name] = limit.resets
            whose = f'The access key "{key.name}"'
            if holder.budget:
                whose = f'The budget "{holder.budget}"'
            text = f"{whose} reached a limit. {error.message}"
            self._notes.add("warning", "limit_reached", text, key=key.id)

    def on_secret_blocked(self, key: AccessKey, rule: str) -> None:
        """Note that a request was refused because it contains a secret."""
        text = f'A request of "{key.name}" contained a secret (rule "{rule}") and was refused'
        self._notes.add("warning", "secret_blocked", text, key=key.id)

    def on_address_refused(self, key: AccessKey, address: str) -> None:
        """Note that a key was sent from an address that is not on its list."""
        if self._now() - self._strangers.get(key.id, float("-inf")) >= REPEAT_SECONDS:
            self._strangers[key.id] = self._now()
            text = f'The access key "{key.name}" was sent from {address or "a local socket"},'
            text = f"{text} which is not on its list of addresses, and was refused"
            self._notes.add("warning", "address_refused", text, key=key.id)

    def on_key_revoked(self, key: AccessKey) -> None:
        """Note that running requests of a revoked or expired key were ended."""
        if self._now() - self._revoked.get(key.id, float("-inf")) >= REPEAT_SECONDS:
            self._revoked[key.id] = self._now()
            text = f'Access key "{key.name}" revoked or expired; its running requests were ended'
            self._notes.add("warning", "key_revoked", text, key=key.id)

    def on_config_changed(
        self, path: str, problems: Sequence[ConfigProblem], *, was_valid: bool = True
    ) -> None:
        """Note that a configuration file was reloaded, or is invalid."""
        if problems:
            kept = "the previous content stays in effect" if was_valid else "nothing of it is known"
            text = f"{problems[0]}; {kept} until it is fixed"
            self._notes.add("error", "config_invalid", text)
        else:
            self._notes.add("info", "config_reloaded", f"{path} was reloaded")

    def on_key_file_changed(self, path: str, problems: Sequence[ConfigProblem]) -> None:
        """Note that the problems of the access key file changed, or are gone."""
        if problems:
            text = f"{problems[0]}; invalid access keys are refused until it is fixed"
            self._notes.add("error", "config_invalid", text)
        else:
            self._notes.add("info", "config_reloaded", f"{path} is valid again")

    def on_ledger_failed(self, why: str) -> None:
        """Note that requests cannot be recorded in the ledger."""
        if self.listener:
            self.listener.on_ledger_failed(why)
        if not self._unrecorded:
            self._notes.add("error", "ledger_failed", f"Requests cannot be recorded: {why}")
        self._unrecorded += 1

    def on_ledger_written(self) -> None:
        """Note that requests are recorded again after a failure."""
        if self._unrecorded:
            text = f"Requests are recorded again; {self._unrecorded} earlier ones are missing"
            self._notes.add("info", "ledger_recovered", text)
        self._unrecorded = 0


_SPEND_LIMITS = ("total", "day", "week", "month")
"""Limits in USD; limits per minute are reached all the time and not noted."""
