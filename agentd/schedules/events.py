"""The events of schedules."""

from typing import ClassVar

from agentd.core.events import Event


class SchedulesUpdate(Event, frozen=True):
    """A schedule changed, or a run of it: the ``name``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "schedulesUpdate"
    schedule: str
    """Its name; empty: any, since the file changed."""

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.schedule]
