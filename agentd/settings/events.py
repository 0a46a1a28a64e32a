"""The events of settings."""

from typing import ClassVar

from agentd.core.events import Event
from agentd.settings.status import SettingsView


class SettingsUpdate(Event, frozen=True):
    """The settings, or the problems in a hand-written file, changed: ``settings``, masked."""

    name: ClassVar[str] = "settingsUpdate"
    settings: SettingsView

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.settings]
