"""Messenger bots as the remote API shows them, and the silent linking of a chat to one.

Source: the remote-control specification, section 2 ('Bot object') and endpoints 1 and 9.
"""

from collections.abc import Iterable

from msgspec import Struct


class Bot(Struct, frozen=True):
    """A configured bot; its token, prompts and controls are never shown."""

    id: str
    title: str
    enabled: bool
    running: bool
    polling_error: str | None = None


class Bots:
    """The bots that a chat can be linked to."""

    def __init__(self, bots: Iterable[Bot] = ()) -> None:
        self._bots = {bot.id: bot for bot in bots}

    def list(self) -> tuple[Bot, ...]:
        """All of them, in their configured order."""
        return tuple(self._bots.values())

    def link(self, bot_id: str | None) -> tuple[bool | None, str]:
        """How linking a new chat went: ``botLinked`` and ``botLinkNote``.

        Nothing is ever posted, and nothing here can prevent the chat: what cannot be linked is
        told in the note.
        """
        if not bot_id:
            return None, ""
        bot = self._bots.get(bot_id)
        if bot is None:
            return False, f"No bot has the id {bot_id[:100]!r}"
        if not bot.enabled:
            return False, f"The bot {bot.title!r} is switched off"
        return True, ""
