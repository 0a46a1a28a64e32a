"""The gateway's service log: what befell it, the newest first."""

from collections.abc import Awaitable, Callable
from typing import Annotated, get_args

from msgspec import Meta

from agentd.proxy.notes import Level, Note, NoteFilter, NotePage
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import MOST, USUAL
from agentd.web.manage.pages import one_of, page_of
from agentd.web.table import Parameter

NoteView = shapes.shown(Note)
NotePageView = page_of(
    "NotePage",
    NoteView,
    dropped=Annotated[int, Meta(description="Lines that were lost since the start.")],
)
"""Some notes; ``dropped`` tells how many were lost since the start."""

LEVELS: tuple[str, ...] = get_args(Level)

FILTERS = (
    Parameter(
        "level",
        "query",
        "Only of this level.",
        {"type": "string", "enum": list(LEVELS)},
    ),
    Parameter("kind", "query", "Only of this kind.", {"type": "string"}),
    Parameter("channel", "query", "Only of this channel.", {"type": "string"}),
    Parameter("key", "query", "Only of this access key, by its id.", {"type": "string"}),
)


class NoteDesk:
    """The endpoint ``/api/agent/service-log``; ``dropped`` tells how many notes were lost."""

    def __init__(
        self,
        page: Callable[[NoteFilter, int, str], Awaitable[NotePage]],
        dropped: Callable[[], int],
    ) -> None:
        self._page = page
        self._dropped = dropped

    async def list_notes(self, call: Call) -> Answer:
        """Page by page, the newest first."""
        wanted = NoteFilter(
            one_of(call, "level", LEVELS, ""),
            *(call.query(name) or "" for name in ("kind", "channel", "key")),
        )
        limit = call.number("limit", 1, MOST) or USUAL
        page = await self._page(wanted, limit, call.query("cursor") or "")
        items = [shapes.told(one, NoteView) for one in page.notes]
        return Answer(NotePageView(items=items, next=page.next, dropped=self._dropped()))
