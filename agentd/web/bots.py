"""The endpoints below ``/api/bots``: an administrator configures the messenger bots.

Tokens come in and never go out: shown is where one is to be found, or its last four characters.
Sending that mask back keeps the token.
"""

from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct, structs

from agentd.catalog.bots import Bot, BotSettings, UserId
from agentd.errors import BadRequest, Conflict, Misconfigured, Mistake, NotFound
from agentd.web.call import Answer, Call
from agentd.web.views import Name

_Url = Annotated[str, Meta(min_length=8, max_length=1000, pattern="^https?://")]
_Token = Annotated[str, Meta(min_length=1, max_length=4096)]
_Users = Annotated[list[UserId], Meta(max_length=1000)]


class BotSettingsView(Struct, frozen=True, rename="camel"):
    """A bot as it is configured, and how it stands."""

    id: str
    title: str
    kind: Literal["telegram"]
    enabled: bool
    running: bool
    polling_error: str | None
    token: str
    users: tuple[int, ...]
    base_url: str
    model: str
    skill: str


class BotSettingsList(Struct, frozen=True):
    """All bots in the file's order, and what is wrong with the file (empty: nothing)."""

    bots: list[BotSettingsView]
    mistakes: list[str]


class ChangeBot(Struct, frozen=True, rename="camel"):
    """What is to be another; what is absent stays."""

    title: Name | None = None
    enabled: bool | None = None
    token: _Token | None = None
    """With another address, the token must be given anew."""
    users: _Users | None = None
    base_url: _Url | None = None
    model: Name | None = None
    skill: Name | None = None


class AddBot(ChangeBot, frozen=True, rename="camel", kw_only=True):
    """A new bot; what is absent is as in the file."""

    id: Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")]
    kind: Literal["telegram"] = "telegram"
    token: _Token


class Configuring(Protocol):
    """Who runs the bots and edits their file (``bots.service.BotService``)."""

    @property
    def configured(self) -> Sequence[BotSettings]:
        """In the file's order."""
        ...

    @property
    def mistakes(self) -> Sequence[Mistake]:
        """What is wrong with the file."""
        ...

    async def ensure_current(self) -> None:
        """Take in an edit of the file that nobody has noticed yet."""
        ...

    def shown(self, bot_id: str) -> Bot | None:
        """How a bot stands."""
        ...

    async def add(self, bot: BotSettings) -> None:
        """One more."""
        ...

    async def change(self, bot: BotSettings) -> None:
        """The bot of this id is to be so."""
        ...

    async def remove(self, bot_id: str) -> None:
        """One less."""
        ...


class BotDesk:
    """Messenger bots, as they are configured."""

    def __init__(self, bots: Configuring) -> None:
        self._bots = bots

    async def list_bots(self, _: Call) -> Answer:
        """All of them."""
        await self._bots.ensure_current()
        mistakes = [str(mistake) for mistake in self._bots.mistakes]
        return Answer(BotSettingsList([self._view(bot) for bot in self._bots.configured], mistakes))

    async def one_bot(self, call: Call) -> Answer:
        """One of them."""
        return Answer(self._view(await self._find(call.params["botId"])))

    async def add_bot(self, call: Call) -> Answer:
        """One more; it runs at once when it is enabled."""
        wish = call.json(AddBot)
        bot = _made(structs.asdict(wish))
        await self._edited(self._bots.add(bot))
        return Answer(self._view(await self._find(bot.id)), 201)

    async def change_bot(self, call: Call) -> Answer:
        """Another title, token, address, … ; it begins anew with that."""
        wish = call.json(ChangeBot)
        before = await self._find(call.params["botId"])
        given = structs.asdict(wish)
        if wish.token == before.masked:
            given["token"] = None
        if wish.base_url not in (None, before.base_url) and given["token"] is None:
            raise BadRequest("With another baseUrl the token must be given anew")
        await self._edited(self._bots.change(_made(given, before)))
        return Answer(self._view(await self._find(before.id)))

    async def remove_bot(self, call: Call) -> Answer:
        """One less; its chats stay."""
        bot = await self._find(call.params["botId"])
        await self._edited(self._bots.remove(bot.id))
        return Answer(status=204)

    async def _find(self, bot_id: str) -> BotSettings:
        await self._bots.ensure_current()
        for bot in self._bots.configured:
            if bot.id == bot_id:
                return bot
        raise NotFound(f"Bot {bot_id[:40]} not found")

    async def _edited(self, edit: Awaitable[None]) -> None:
        """A file with mistakes is not edited: the caller is told, as of any contradiction."""
        try:
            await edit
        except Misconfigured as error:
            raise Conflict("bots.yml has mistakes; mend them first", error.message) from error

    def _view(self, bot: BotSettings) -> BotSettingsView:
        stands = self._bots.shown(bot.id)
        return BotSettingsView(
            id=bot.id,
            title=bot.name,
            kind=bot.kind,
            enabled=bot.enabled,
            running=stands is not None and stands.running,
            polling_error=stands.polling_error if stands else None,
            token=bot.masked,
            users=bot.users,
            base_url=bot.base_url,
            model=bot.model,
            skill=bot.skill,
        )


def _made(given: dict[str, Any], before: BotSettings | None = None) -> BotSettings:
    """The bot with what is given; ``BadRequest`` tells what it cannot be."""
    values = structs.asdict(before) if before else {}
    values |= {name: value for name, value in given.items() if value is not None}
    if "users" in values:
        values["users"] = tuple(values["users"])
    try:
        return BotSettings(**values)
    except ValueError as error:
        raise BadRequest(f"The bot cannot be so: {error}") from None
