"""The views of the messenger bots in responses and events: one shape, on every surface.

Source: the remote-control specification, section 2 ('Bot object').
"""

from msgspec import Struct

from agentd.bots.model import BotStatus


class BotView(Struct, frozen=True, rename="camel"):
    """A bot, read-only."""

    id: str
    title: str
    enabled: bool
    running: bool
    polling_error: str | None


def make_bot_view(bot: BotStatus) -> BotView:
    """Return a bot as responses and events show it."""
    return BotView(bot.id, bot.title, bot.enabled, bot.running, bot.polling_error)
