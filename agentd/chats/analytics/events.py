"""The events of analytics."""

from typing import ClassVar

from agentd.core.events import Event


class AnalyticsProgress(Event, frozen=True):
    """Journals are read for the first report: the bytes read, and of how many. It is not stored."""

    name: ClassVar[str] = "analyticsProgress"
    done: int
    total: int

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.done, self.total]
