"""Messenger bots: how each is configured, how the remote API shows it, and silent linking.

Source: the remote-control specification, section 2 ('Bot object') and endpoints 1 and 9.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.core.ids import MAX_ID

TELEGRAM = "https://api.telegram.org"

BOT_ID_FORM = "at most 32 lower-case letters, digits, - and _, not beginning with a sign"
BotId: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[a-z0-9][a-z0-9_-]{0,31}",
        extra={"form": BOT_ID_FORM},
    ),
]
UserId: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ID)]
Token: TypeAlias = Annotated[str, Meta(max_length=4096, extra={"secret": True})]
BaseUrl: TypeAlias = Annotated[
    str,
    Meta(
        pattern="https?://[^\\s/?#@]+(/[^\\s?#@]*)?",
        max_length=1000,
        extra={"form": "an address such as https://bots.example.com, without user or query"},
    ),
]

TOKEN = re.compile("[0-9]{1,20}:[A-Za-z0-9_-]{20,200}")
"""The form of a token issued by @BotFather."""


class BotSettings(Struct, frozen=True, kw_only=True):
    """A bot as ``bots.yml`` has it."""

    id: BotId
    title: Annotated[str, Meta(max_length=100)] = ""
    """Empty: the id."""
    kind: Literal["telegram"] = "telegram"
    enabled: bool = True
    token: Token
    """The token itself, ``env:NAME`` or ``file:PATH``."""
    users: tuple[UserId, ...] = ()
    """The user ids at the messenger that it obeys; it ignores everybody else."""
    base_url: BaseUrl = TELEGRAM
    """The address of another Bot API server."""
    model: Annotated[str, Meta(max_length=1000)] = ""
    """The model of the chats that it creates; empty: the default."""
    skill: Annotated[str, Meta(max_length=1000)] = "none"

    def __post_init__(self) -> None:
        kind, _, place = self.token.partition(":")
        if kind == "env" and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", place):
            raise ValueError("token: expected the name of an environment variable after env:")
        if kind == "file" and not place.startswith(("/", "~/")):
            raise ValueError("token: expected a path that begins with / or ~/ after file:")
        if self.holds_token and not TOKEN.fullmatch(self.token):
            raise ValueError("token: expected a bot token, env:NAME or file:PATH")

    @property
    def holds_token(self) -> bool:
        """True if the file holds the token itself rather than a reference to it."""
        return not self.token.startswith(("env:", "file:"))

    @property
    def masked_token(self) -> str:
        """The token as it may be shown: its last four characters, or where it is to be found."""
        return f"****{self.token[-4:]}" if self.holds_token else self.token

    @property
    def name(self) -> str:
        """The name to show."""
        return self.title or self.id

    def __repr__(self) -> str:
        """Omit the token."""
        return f"BotSettings(id={self.id!r}, kind={self.kind!r}, enabled={self.enabled!r})"


def validate(bots: Iterable[BotSettings]) -> Iterator[tuple[int, str]]:
    """Yield each conflict between bots: the number of the bot, from 0, and why."""
    seen: set[str] = set()
    tokens: set[str] = set()
    for number, bot in enumerate(bots):
        if bot.id in seen:
            yield number, f'"{bot.id}" is already the id of a bot above; choose another'
        if bot.token in tokens:
            yield number, "the bot above has the same token; each bot needs its own"
        seen.add(bot.id)
        tokens.add(bot.token)


class BotStatus(Struct, frozen=True):
    """A configured bot; its token, prompts and controls are never shown."""

    id: str
    title: str
    enabled: bool
    running: bool
    polling_error: str | None = None


class BotDirectory:
    """The bots that a chat can be linked to, as they are now."""

    def __init__(self, bots: Iterable[BotStatus] = ()) -> None:
        self.replace_all(bots)

    def replace_all(self, bots: Iterable[BotStatus]) -> None:
        """Replace the list."""
        self._bots = {bot.id: bot for bot in bots}

    def list_bots(self) -> tuple[BotStatus, ...]:
        """List all bots in their configured order."""
        return tuple(self._bots.values())

    def link(self, bot_id: str | None) -> tuple[bool | None, str]:
        """Return the result of linking a new chat: ``botLinked`` and ``botLinkNote``.

        Linking posts nothing and never prevents the chat: a failure is only explained in the
        note. Messages of a linked chat are not posted either until a person continues the chat
        in the messenger.
        """
        if not bot_id:
            return None, ""
        bot = self._bots.get(bot_id)
        if bot is None:
            return False, f"No bot has the id {bot_id[:100]!r}"
        if not bot.enabled:
            return False, f"The bot {bot.title!r} is switched off"
        return True, ""
