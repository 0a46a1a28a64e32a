"""What of the requests is worth a note in the service log: each matter once, however many it hits.

Notes tell ids, names and rules; never a word of a request.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from agentd.clock import Timestamp
from agentd.errors import Mistake
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import Channel
from agentd.proxy.notes import Level
from agentd.proxy.spend import OverLimit

AGAIN = 60.0
"""Seconds for which one note of a channel that rests will do, or of a key that is gone."""


class Notes(Protocol):
    """Where notes are kept (``disk.service_log.ServiceLog``)."""

    def note(self, level: Level, kind: str, text: str, *, channel: str = "", key: str = "") -> None:
        """Have a line written; nobody waits for it."""
        ...


class Noting:
    """Notes what befalls; ``now`` tells seconds that only rise."""

    def __init__(self, notes: Notes, now: Callable[[], float]) -> None:
        self._notes = notes
        self._now = now
        self._resting: dict[str, bool] = {}
        """Channels that rest, and whether that was noted."""
        self._noted: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        """When it was noted of keys that they are."""
        self._reached: dict[tuple[str, str], Timestamp | None] = {}
        """Limits that were reached, by key and name: until when that was noted."""
        self._unbooked = 0
        """Requests in a row that could not be booked."""

    def rests(self, channel: Channel, why: str, seconds: float) -> None:
        """A channel failed by its own making, and is left alone for so long."""
        if channel.name in self._resting:
            return
        noted = self._now() - self._noted.get(channel.name, float("-inf")) >= AGAIN
        self._resting[channel.name] = noted
        if noted:
            self._noted[channel.name] = self._now()
            text = f"The channel rests for {seconds:.0f} s: {why}"
            self._notes.note("warning", "channel_rests", text, channel=channel.name)

    def worked(self, channel: Channel) -> None:
        """A channel answered."""
        if self._resting.pop(channel.name, False):
            text = "The channel answers again"
            self._notes.note("info", "channel_back", text, channel=channel.name)

    def over_limit(self, key: AccessKey, error: OverLimit) -> None:
        """A request was refused, for the key may spend or do no more for now."""
        limit = error.standing
        if limit.name not in _WINDOWS:
            return
        place = key.id, limit.name
        if place not in self._reached or self._reached[place] != limit.resets:
            self._reached[place] = limit.resets
            text = f'The access key "{key.name}" reached a limit. {error.message}'
            self._notes.note("warning", "limit_reached", text, key=key.id)

    def blocked(self, key: AccessKey, rule: str) -> None:
        """A request was refused for a secret in it."""
        text = f'A request of "{key.name}" held a secret (rule "{rule}") and was not sent on'
        self._notes.note("warning", "secret_blocked", text, key=key.id)

    def dismissed(self, key: AccessKey) -> None:
        """A request that was under way was ended, for its key is good no more."""
        if self._now() - self._gone.get(key.id, float("-inf")) >= AGAIN:
            self._gone[key.id] = self._now()
            text = f'The access key "{key.name}" is good no more; what was under way is ended'
            self._notes.note("warning", "key_gone", text, key=key.id)

    def edited(self, path: str, mistakes: Sequence[Mistake]) -> None:
        """A file of the configuration is another now, or has mistakes."""
        if mistakes:
            text = f"{mistakes[0]}; what the file said before stays in force until it is mended"
            self._notes.note("error", "file_broken", text)
        else:
            self._notes.note("info", "file_read", f"{path} was changed, and is in force")

    def keys_edited(self, path: str, mistakes: Sequence[Mistake]) -> None:
        """The file of the access keys has other mistakes than before, or none any more."""
        if mistakes:
            text = f"{mistakes[0]}; access keys that are not valid open nothing until it is mended"
            self._notes.note("error", "file_broken", text)
        else:
            self._notes.note("info", "file_read", f"{path} is in order again")

    def unbooked(self, why: str) -> None:
        """A request could not be kept in the ledger."""
        if not self._unbooked:
            self._notes.note("error", "ledger_trouble", f"Requests cannot be booked: {why}")
        self._unbooked += 1

    def booked(self) -> None:
        """A request was kept."""
        if self._unbooked:
            text = f"Requests are booked again; {self._unbooked} before are not in the ledger"
            self._notes.note("info", "ledger_mended", text)
        self._unbooked = 0


_WINDOWS = ("total", "day", "week", "month")
"""Limits in USD; those of a minute are reached all the time."""
