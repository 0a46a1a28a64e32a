"""Replies of models that cannot be kept to one tool at a time, with their first call only.

The model asks for the others again once it has the first one's result.
"""

from agentd.proxy.dialects.conversation import CallDelta, CallDone, CallStarted, Event
from agentd.proxy.dialects.dialect import Reader


def without_further_calls(events: list[Event]) -> list[Event]:
    """Return the events without those of any call after the first."""
    return [
        event
        for event in events
        if not (isinstance(event, CallStarted | CallDelta | CallDone) and event.index)
    ]


class OneCallReader:
    """A ``Reader`` that tells the first call only."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def feed(self, data: bytes) -> list[Event]:
        """As ``Reader.feed``."""
        return without_further_calls(self._reader.feed(data))

    def close(self) -> list[Event]:
        """As ``Reader.close``."""
        return without_further_calls(self._reader.close())
