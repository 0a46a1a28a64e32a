"""Keeps only the first tool call of models that cannot be limited to one at a time.

The model calls the other tools again once it has the first one's result.
"""

from agentd.llm.conversation import ReplyEvent, ToolCallDelta, ToolCallDone, ToolCallStarted
from agentd.llm.dialects.dialect import ReplyReader


def drop_further_calls(events: list[ReplyEvent]) -> list[ReplyEvent]:
    """Return the events without those of any call after the first."""
    return [
        event
        for event in events
        if not (isinstance(event, ToolCallStarted | ToolCallDelta | ToolCallDone) and event.index)
    ]


class FirstCallReader:
    """A ``ReplyReader`` that drops all tool calls but the first."""

    def __init__(self, reader: ReplyReader) -> None:
        self._reader = reader

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Do as ``ReplyReader.feed``."""
        return drop_further_calls(self._reader.feed(data))

    def close(self) -> list[ReplyEvent]:
        """Do as ``ReplyReader.close``."""
        return drop_further_calls(self._reader.close())
