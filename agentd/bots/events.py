"""The events of messenger bots."""

from typing import ClassVar

from agentd.bots.model import BotStatus
from agentd.bots.views import make_bot_view
from agentd.core.events import Event


class BotsUpdate(Event, frozen=True):
    """A bot was changed, started, stopped or failed: ``bots``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "botsUpdate"
    bots: tuple[BotStatus, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [[make_bot_view(bot) for bot in self.bots]]
