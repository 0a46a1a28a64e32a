"""The events of labels."""

from typing import ClassVar

from agentd.chats.labels.model import Label
from agentd.core.events import Event


class LabelsUpdate(Event, frozen=True):
    """The labels changed: ``labels``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "labelsUpdate"
    labels: tuple[Label, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.labels]
