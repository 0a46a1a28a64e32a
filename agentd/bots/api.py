"""The endpoints below ``/api/bots``: an administrator configures the messenger bots.

Tokens come in and never go out: shown is where one is to be found, or its last four characters.
Sending that mask back keeps the token.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct, structs

from agentd.bots.messenger import BotAccount
from agentd.bots.model import BOT_ID_FORM, BotDirectory, BotSettings, BotStatus, UserId
from agentd.bots.views import BotView, make_bot_view
from agentd.chats.state import ChatSummary
from agentd.chats.views import Name
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    ConfigError,
    ConfigProblem,
    Conflict,
    NotFound,
    Unavailable,
)
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route

_Url = Annotated[
    str,
    Meta(
        min_length=8,
        max_length=1000,
        pattern="^https?://",
        extra={"form": "an address that begins with http:// or https://"},
    ),
]
_Token = Annotated[str, Meta(min_length=1, max_length=4096)]
_Users = Annotated[list[UserId], Meta(max_length=1000)]

LATEST_CHATS = 5
"""The linked chats that are shown with a bot."""


class LinkedChat(Struct, frozen=True, rename="camel"):
    """A chat that is linked to a bot."""

    chat_id: int
    title: str


class BotSettingsView(Struct, frozen=True, rename="camel"):
    """A bot as it is configured, its status, and the chats that are linked to it."""

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
    chat_count: int
    """The number of linked chats, without those in the trash."""
    latest_chats: list[LinkedChat]
    """The newest of these chats, at most five."""


class BotCheckView(Struct, frozen=True):
    """The result of checking a bot's token: its ``account``, or the ``problem``."""

    ok: bool
    account: str = ""
    """The bot's name there, such as ``@name_bot``."""
    problem: str = ""


class BotSettingsList(Struct, frozen=True):
    """All bots in the file's order, and what is wrong with the file (empty: nothing)."""

    bots: list[BotSettingsView]
    problems: list[str]


class ChangeBot(Struct, frozen=True, rename="camel"):
    """The settings to change; absent fields stay unchanged."""

    title: Name | None = None
    enabled: bool | None = None
    token: _Token | None = None
    """The new token; required when the address changes."""
    users: _Users | None = None
    base_url: _Url | None = None
    model: Name | None = None
    skill: Name | None = None


class AddBot(ChangeBot, frozen=True, rename="camel", kw_only=True):
    """A new bot; absent fields have the defaults of ``bots.yml``."""

    id: Annotated[
        str,
        Meta(
            pattern="^[a-z0-9][a-z0-9_-]{0,31}$",
            extra={"form": BOT_ID_FORM},
        ),
    ]
    kind: Literal["telegram"] = "telegram"
    token: _Token


class BotManager(Protocol):
    """The manager of the bots and their file (``bots.service.BotService``)."""

    @property
    def configured(self) -> Sequence[BotSettings]:
        """The bots as they are configured, in the file's order."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """The problems in the file."""
        ...

    async def ensure_current(self) -> None:
        """Apply an edit of the file that was not noticed yet."""
        ...

    def find_status(self, bot_id: str) -> BotStatus | None:
        """Return a bot's status, or None if there is no such bot."""
        ...

    async def add(self, bot: BotSettings) -> None:
        """Add one."""
        ...

    async def change(self, bot: BotSettings) -> None:
        """Replace the settings of the bot with this id."""
        ...

    async def remove(self, bot_id: str) -> None:
        """Remove one."""
        ...

    async def check(self, bot: BotSettings) -> BotAccount:
        """Ask the messenger whose token it is; raises an ``AgentdError`` with the reason."""
        ...


class BotEndpoints:
    """Messenger bots, as they are configured; ``list_chats`` gives every chat at a glance."""

    def __init__(self, bots: BotManager, list_chats: Callable[[], Iterable[ChatSummary]]) -> None:
        self._bots = bots
        self._list_chats = list_chats

    async def list_bots(self, _: Request) -> Response:
        """List all bots."""
        await self._bots.ensure_current()
        problems = [str(problem) for problem in self._bots.problems]
        bots = self._bots.configured
        linked = await self._find_linked([bot.id for bot in bots])
        return Response(
            BotSettingsList([self._make_view(bot, linked[bot.id]) for bot in bots], problems)
        )

    async def get_bot(self, request: Request) -> Response:
        """Return a bot."""
        return await self._respond(request.path_params["botId"])

    async def add_bot(self, request: Request) -> Response:
        """Add a bot; it runs at once when it is enabled."""
        body = request.parse_json(AddBot)
        bot = _build_settings(structs.asdict(body))
        await self._apply_edit(self._bots.add(bot))
        return await self._respond(bot.id, 201)

    async def change_bot(self, request: Request) -> Response:
        """Change a bot's settings; it restarts with them."""
        body = request.parse_json(ChangeBot)
        before = await self._find(request.path_params["botId"])
        given = structs.asdict(body)
        if body.token == before.masked_token:
            given["token"] = None
        if body.base_url not in (None, before.base_url) and given["token"] is None:
            raise BadRequest("With another baseUrl the token must be sent again")
        await self._apply_edit(self._bots.change(_build_settings(given, before)))
        return await self._respond(before.id)

    async def remove_bot(self, request: Request) -> Response:
        """Delete a bot; its chats stay."""
        bot = await self._find(request.path_params["botId"])
        await self._apply_edit(self._bots.remove(bot.id))
        return Response(status=204)

    async def check_bot(self, request: Request) -> Response:
        """Ask the messenger whether it knows the bot's token."""
        bot = await self._find(request.path_params["botId"])
        try:
            account = await self._bots.check(bot)
        except AgentdError as error:  # the outcome of the check, not of the request
            return Response(BotCheckView(ok=False, problem=error.message))
        return Response(BotCheckView(ok=True, account=account.name))

    async def _respond(self, bot_id: str, status: int = 200) -> Response:
        bot = await self._find(bot_id)
        linked = await self._find_linked([bot.id])
        return Response(self._make_view(bot, linked[bot.id]), status)

    async def _find_linked(self, bot_ids: Sequence[str]) -> dict[str, list[ChatSummary]]:
        """Return the chats that are linked to each of these bots, the newest first."""
        return await asyncio.to_thread(_group_by_bot, self._list_chats(), bot_ids)

    async def _find(self, bot_id: str) -> BotSettings:
        await self._bots.ensure_current()
        for bot in self._bots.configured:
            if bot.id == bot_id:
                return bot
        raise NotFound(f"Bot {bot_id[:40]} not found")

    async def _apply_edit(self, edit: Awaitable[None]) -> None:
        """Run an edit; raise ``Conflict`` when the file has problems of its own."""
        try:
            await edit
        except ConfigError as error:
            raise Conflict("bots.yml has problems; fix them first", error.message) from error

    def _make_view(self, bot: BotSettings, linked: Sequence[ChatSummary]) -> BotSettingsView:
        status = self._bots.find_status(bot.id)
        return BotSettingsView(
            id=bot.id,
            title=bot.name,
            kind=bot.kind,
            enabled=bot.enabled,
            running=status is not None and status.running,
            polling_error=status.polling_error if status else None,
            token=bot.masked_token,
            users=bot.users,
            base_url=bot.base_url,
            model=bot.model,
            skill=bot.skill,
            chat_count=len(linked),
            latest_chats=[LinkedChat(chat.id, chat.title) for chat in linked[:LATEST_CHATS]],
        )


def _group_by_bot(
    chats: Iterable[ChatSummary], bot_ids: Iterable[str]
) -> dict[str, list[ChatSummary]]:
    found: dict[str, list[ChatSummary]] = {bot_id: [] for bot_id in bot_ids}
    for chat in chats:
        if chat.bot in found:
            found[chat.bot].append(chat)
    for linked in found.values():
        linked.sort(key=lambda chat: -chat.id)
    return found


def _build_settings(given: dict[str, Any], before: BotSettings | None = None) -> BotSettings:
    """Merge the given values into the settings; ``BadRequest`` when they are invalid."""
    values = structs.asdict(before) if before else {}
    values |= {name: value for name, value in given.items() if value is not None}
    if "users" in values:
        values["users"] = tuple(values["users"])
    try:
        return BotSettings(**values)
    except ValueError as error:
        raise BadRequest("Invalid bot settings", str(error)) from None


class RemoteBotsView(Struct, frozen=True):
    """The configured bots."""

    bots: list[BotView]


class RemoteBotEndpoints:
    """Endpoint 9 of the remote API; ``get_bots`` gives the bots as they are at the request."""

    def __init__(self, get_bots: Callable[[], Awaitable[BotDirectory]]) -> None:
        self._get_bots = get_bots

    async def list_bots(self, request: Request) -> Response:
        """Return the configured bots."""
        bots = await self._get_bots()
        return Response(RemoteBotsView([make_bot_view(bot) for bot in bots.list_bots()]))


def list_remote_routes(remote: RemoteBotEndpoints) -> tuple[Route, ...]:
    """Return the route of endpoint 9."""
    return (
        Route(
            "GET",
            "/api/remote/bots",
            RouteGroup.REMOTE,
            remote.list_bots,
            "The configured bots, read-only.",
            operation_id="list_bots",
            response_type=RemoteBotsView,
            section="4, E9",
        ),
    )


_EDIT_ERRORS = (BadRequest, Conflict, Unavailable)


def routes(endpoints: BotEndpoints) -> tuple[Route, ...]:
    """Return the routes for administrators, who list, add, change and check bots."""
    build = partial(
        Route,
        group=RouteGroup.EXTENDED,
        section="4, extended surface",
        role="administrator",
    )
    return (*_list_collection_routes(endpoints, build), *_list_item_routes(endpoints, build))


def _list_collection_routes(
    endpoints: BotEndpoints, build: Callable[..., Route]
) -> tuple[Route, ...]:
    return (
        build(
            "GET",
            "/api/bots",
            endpoint=endpoints.list_bots,
            summary="The messenger bots as they are configured, tokens masked.",
            response_type=BotSettingsList,
        ),
        build(
            "POST",
            "/api/bots",
            endpoint=endpoints.add_bot,
            summary="Add a bot; it runs at once when it is enabled.",
            request_type=AddBot,
            response_type=BotSettingsView,
            status=201,
            errors=_EDIT_ERRORS,
        ),
    )


def _list_item_routes(endpoints: BotEndpoints, build: Callable[..., Route]) -> tuple[Route, ...]:
    return (
        build(
            "GET",
            "/api/bots/{botId}",
            endpoint=endpoints.get_bot,
            summary="One bot as it is configured, its token masked.",
            operation_id="get_bot",
            response_type=BotSettingsView,
            errors=(NotFound,),
        ),
        build(
            "PUT",
            "/api/bots/{botId}",
            endpoint=endpoints.change_bot,
            summary="Change, enable or disable a bot; it restarts with the new settings.",
            request_type=ChangeBot,
            response_type=BotSettingsView,
            errors=(*_EDIT_ERRORS, NotFound),
        ),
        build(
            "DELETE",
            "/api/bots/{botId}",
            endpoint=endpoints.remove_bot,
            summary="Delete a bot; its chats stay.",
            status=204,
            errors=(*_EDIT_ERRORS, NotFound),
        ),
        build(
            "POST",
            "/api/bots/{botId}/check",
            endpoint=endpoints.check_bot,
            summary=(
                "Ask the messenger whether it knows the bot's token; nothing is sent to anybody."
            ),
            response_type=BotCheckView,
            errors=(NotFound,),
        ),
    )
