"""Which alerts are firing: one alert for each change of a condition, however often it is seen.

A condition lasts: it fires once when it begins, and is resolved once when it ends. An event has no
end: it fires once, and those that follow within ``EVENT_QUIET`` are only counted. Pure.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec import Struct, structs

from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.gateway.alerts.model import AlertState, AlertTopic

EVENT_QUIET = timedelta(hours=1)
"""The time after an event in which further ones of the same topic are only counted."""
MAX_FIRING = 10_000
"""Topics that are remembered; of more, the oldest are forgotten, and may fire again."""


class FiringTopic(Struct, frozen=True, omit_defaults=True):
    """A topic that has fired."""

    kind: str
    subject: str
    since: Timestamp
    """When it fired."""
    text: str = ""
    """What was said then."""
    mark: str = ""
    """What its observer has to remember."""
    quiet_until: Timestamp = ""
    """Of an event: until when further ones are only counted."""
    more: int = 0
    """The number of those."""

    @property
    def topic(self) -> AlertTopic:
        """What it is about."""
        return AlertTopic(self.kind, self.subject)


class AlertChange(Struct, frozen=True):
    """A change to be sent."""

    topic: AlertTopic
    state: AlertState
    since: Timestamp = ""
    """Of a resolved one: when it fired."""
    missed: int = 0
    """Of an event: those that were only counted since the last that was sent."""


class FiringTopics:
    """The topics that fire."""

    def __init__(self, firing: Iterable[FiringTopic] = ()) -> None:
        self._by_topic = {one.topic: one for one in firing}

    def __iter__(self) -> Iterator[FiringTopic]:
        """Iterate over a copy, the oldest first."""
        return iter(tuple(self._by_topic.values()))

    def get(self, topic: AlertTopic) -> FiringTopic | None:
        """Return a topic that fires."""
        return self._by_topic.get(topic)

    def begin(
        self, topic: AlertTopic, now: Timestamp, text: str = "", mark: str = ""
    ) -> AlertChange | None:
        """Note that a condition holds; None if that is known. The newest ``mark`` is kept."""
        known = self._by_topic.get(topic)
        if known is not None:
            if known.mark != mark:
                self._by_topic[topic] = structs.replace(known, mark=mark)
            return None
        self._add(FiringTopic(*topic, since=now, text=text, mark=mark))
        return AlertChange(topic, "firing")

    def end(self, topic: AlertTopic) -> AlertChange | None:
        """Note that a condition does not hold; None if it did not before."""
        known = self._by_topic.pop(topic, None)
        return AlertChange(topic, "resolved", since=known.since) if known else None

    def forget(self, topic: AlertTopic) -> bool:
        """Drop a topic whose end is not sent; return whether it fired."""
        return self._by_topic.pop(topic, None) is not None

    def note_event(self, topic: AlertTopic, now: Timestamp, text: str = "") -> AlertChange | None:
        """Note an event; None if it is only counted."""
        known = self._by_topic.get(topic)
        if known is not None and known.since <= now < known.quiet_until:
            self._by_topic[topic] = structs.replace(known, more=known.more + 1)
            return None
        self.forget(topic)
        self._add(FiringTopic(*topic, since=now, text=text, quiet_until=_end_quiet(now)))
        return AlertChange(topic, "firing", missed=known.more if known else 0)

    def end_quiet(self, now: Timestamp) -> list[FiringTopic]:
        """Return events of which others followed that were only counted; they are quiet anew.

        Those whose quiet time is over and that were the only ones are forgotten.
        """
        changes = []
        for one in self:
            if not one.quiet_until or one.since <= now < one.quiet_until:
                continue
            self.forget(one.topic)
            if one.more:
                changes.append(one)
                self._add(structs.replace(one, since=now, quiet_until=_end_quiet(now), more=0))
        return changes

    def _add(self, one: FiringTopic) -> None:
        while len(self._by_topic) >= MAX_FIRING:
            del self._by_topic[next(iter(self._by_topic))]
        self._by_topic[one.topic] = one


def _end_quiet(now: Timestamp) -> Timestamp:
    return format_iso(parse_iso(now) + EVENT_QUIET)
