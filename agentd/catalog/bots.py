"""Messenger bots: how each is configured, how the remote API shows it, and silent linking.

Source: the remote-control specification, section 2 ('Bot object') and endpoints 1 and 9.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.chats.chat import LARGEST_ID

TELEGRAM = "https://api.telegram.org"

BotId: TypeAlias = Annotated[str, Meta(pattern="[a-z0-9][a-z0-9_-]{0,31}")]
UserId: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_ID)]
Token: TypeAlias = Annotated[str, Meta(max_length=4096, extra={"secret": True})]
BaseUrl: TypeAlias = Annotated[
    str, Meta(pattern="https?://[^\\s/?#@]+(/[^\\s?#@]*)?", max_length=1000)
]

TOKEN = re.compile("[0-9]{1,20}:[A-Za-z0-9_-]{20,200}")
"""What @BotFather hands out."""


class BotSettings(Struct, frozen=True, kw_only=True):
    """One bot as ``bots.yml`` has it."""

    id: BotId
    title: Annotated[str, Meta(max_length=100)] = ""
    """Empty: the id."""
    kind: Literal["telegram"] = "telegram"
    enabled: bool = True
    token: Token
    """The token itself, ``env:NAME`` or ``file:PATH``."""
    users: tuple[UserId, ...] = ()
    """Whom it obeys, by their numbers at the messenger; everybody else is passed over."""
    base_url: BaseUrl = TELEGRAM
    """Another address for a Bot API server of one's own."""
    model: Annotated[str, Meta(max_length=1000)] = ""
    """Of the chats that it begins; empty: the default."""
    skill: Annotated[str, Meta(max_length=1000)] = "none"

    def __post_init__(self) -> None:
        kind, _, place = self.token.partition(":")
        if kind == "env" and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", place):
            raise ValueError("token: expected the name of an environment variable after env:")
        if kind == "file" and not place.startswith(("/", "~/")):
            raise ValueError("token: expected a path that begins with / or ~/ after file:")
        if self.holds_token and not TOKEN.fullmatch(self.token):
            raise ValueError("token: is no token, env:NAME or file:PATH")

    @property
    def holds_token(self) -> bool:
        """Whether the token itself stands in the file, not only where to find it."""
        return not self.token.startswith(("env:", "file:"))

    @property
    def masked(self) -> str:
        """The token as it may be shown: its last four characters, or where it is to be found."""
        return f"****{self.token[-4:]}" if self.holds_token else self.token

    @property
    def name(self) -> str:
        """How the bot is called."""
        return self.title or self.id

    def __repr__(self) -> str:
        """Without the token, wherever it is printed."""
        return f"BotSettings(id={self.id!r}, kind={self.kind!r}, enabled={self.enabled!r})"


def contradictions(bots: Iterable[BotSettings]) -> Iterator[tuple[int, str]]:
    """What does not fit together: the number of the bot, from 0, and why."""
    seen: set[str] = set()
    tokens: set[str] = set()
    for number, bot in enumerate(bots):
        if bot.id in seen:
            yield number, f'"{bot.id}" is the id of a bot above; choose another'
        if bot.token in tokens:
            yield number, "the token is that of a bot above; each bot needs its own"
        seen.add(bot.id)
        tokens.add(bot.token)


class Bot(Struct, frozen=True):
    """A configured bot; its token, prompts and controls are never shown."""

    id: str
    title: str
    enabled: bool
    running: bool
    polling_error: str | None = None


class Bots:
    """The bots that a chat can be linked to, as they are now."""

    def __init__(self, bots: Iterable[Bot] = ()) -> None:
        self.become(bots)

    def become(self, bots: Iterable[Bot]) -> None:
        """From now on, these."""
        self._bots = {bot.id: bot for bot in bots}

    def list(self) -> tuple[Bot, ...]:
        """All of them, in their configured order."""
        return tuple(self._bots.values())

    def link(self, bot_id: str | None) -> tuple[bool | None, str]:
        """How linking a new chat went: ``botLinked`` and ``botLinkNote``.

        Nothing is ever posted, and nothing here can prevent the chat: what cannot be linked is
        told in the note. What is said in a linked chat is not posted either, until a person takes
        the chat up in the messenger.
        """
        if not bot_id:
            return None, ""
        bot = self._bots.get(bot_id)
        if bot is None:
            return False, f"No bot has the id {bot_id[:100]!r}"
        if not bot.enabled:
            return False, f"The bot {bot.title!r} is switched off"
        return True, ""
