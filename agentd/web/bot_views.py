"""What answers and events show of the messenger bots: one shape, on every surface.

Source: the remote-control specification, section 2 ('Bot object').
"""

from msgspec import Struct

from agentd.catalog.bots import Bot


class BotView(Struct, frozen=True, rename="camel"):
    """A bot, read-only."""

    id: str
    title: str
    enabled: bool
    running: bool
    polling_error: str | None


def bot_view(bot: Bot) -> BotView:
    """A bot as answers and events show it."""
    return BotView(bot.id, bot.title, bot.enabled, bot.running, bot.polling_error)
