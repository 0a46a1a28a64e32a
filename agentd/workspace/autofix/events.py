"""The events of automatic fixes."""

from typing import ClassVar

from agentd.core.events import Event
from agentd.workspace.autofix.rules import AutofixStatus


class AutofixUpdate(Event, frozen=True):
    """Autofix was switched, or tried again: ``autofix``."""

    name: ClassVar[str] = "autofixUpdate"
    autofix: AutofixStatus

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.autofix]
