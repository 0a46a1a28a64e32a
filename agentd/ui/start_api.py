"""``GET /api/start``: what the browser interface shows on every page, in one answer.

Six requests on a page's way to its first picture would be six round trips of a phone.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.api import ApprovalsView
from agentd.chats.api import ChatRow, ChatsView, make_chat_row
from agentd.chats.labels.api import LabelsView
from agentd.chats.listing import list_notable
from agentd.chats.state import ChatSummary
from agentd.core.errors import Conflict, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Endpoint, Route
from agentd.models.api import ModelStatusList
from agentd.skills.views import SkillsView
from agentd.ui.preferences_api import MeView

_PARTS = {
    "me": "/api/me",
    "chats": "/api/chats",
    "approvals": "/api/chat/approvals",
    "labels": "/api/chat-labels",
    "models": "/api/models",
    "skills": "/api/skills",
}
"""The address whose answer each field is."""
_QUERIES = {"chats": "limit=200"}


class StartView(Struct, frozen=True):
    """The responses of several endpoints, each as that endpoint gives it."""

    me: MeView | None
    """The answer of /api/me; null: the person's file was broken by hand, or cannot be read now."""
    chats: ChatsView
    """The answer of /api/chats: the newest 200."""
    notable: list[ChatRow]
    """Chats older than these that ask, are at work, wait, failed, are pinned or were not seen, and
    those that were active last."""
    approvals: ApprovalsView
    """The answer of /api/chat/approvals."""
    labels: LabelsView
    """The answer of /api/chat-labels."""
    models: ModelStatusList
    """The answer of /api/models."""
    skills: SkillsView
    """The answer of /api/skills."""


class StartEndpoints:
    """Asks the endpoints of the single addresses, for the same caller."""

    def __init__(
        self, parts: Mapping[str, Endpoint], list_summaries: Callable[[], list[ChatSummary]]
    ) -> None:
        self._parts = parts
        self._list_summaries = list_summaries

    @classmethod
    def from_routes(
        cls, routes: Iterable[Route], list_summaries: Callable[[], list[ChatSummary]]
    ) -> Self:
        """Return the endpoints that answer by these routes, which have all that is needed."""
        by_path = {route.path: route.endpoint for route in routes if route.method == "GET"}
        return cls({name: by_path[path] for name, path in _PARTS.items()}, list_summaries)

    async def get_start(self, request: Request) -> Response:
        """Return everything; what is broken in a person's own file keeps nobody out."""
        found: dict[str, Any] = {}
        for name, endpoint in self._parts.items():
            asked = replace(request, path=_PARTS[name], query_string=_QUERIES.get(name, ""))
            try:
                answer = endpoint(asked)
                found[name] = (await answer if inspect.isawaitable(answer) else answer).body
            except (Conflict, Unavailable):
                if name != "me":
                    raise
                found[name] = None
        notable = await self._list_notable(found["chats"].next, found["me"])
        return Response(StartView(**found, notable=notable))

    async def _list_notable(self, before: int | None, me: MeView | None) -> list[ChatRow]:
        """List what a person's lists need of the chats that are not on the newest page."""
        if before is None:
            return []
        pins, seen = (frozenset(me.pins), me.seen) if me else (frozenset(), {})
        found = await asyncio.to_thread(list_notable, self._list_summaries(), before, pins, seen)
        return [make_chat_row(chat) for chat in found]


def routes(endpoints: StartEndpoints) -> tuple[Route, ...]:
    """Return the route."""
    return (
        Route(
            "GET",
            "/api/start",
            RouteGroup.EXTENDED,
            endpoints.get_start,
            "Get what the browser interface shows on every page: preferences, the newest chats,"
            " older ones that need attention, the open approvals, labels, models and skills.",
            response_type=StartView,
            errors=(Unavailable,),
        ),
    )
