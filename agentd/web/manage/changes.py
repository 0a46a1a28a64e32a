"""The journal of changes, as it is read, and changes taken back."""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from agentd.proxy.management.changes import Change, ChangeFilter, ChangePage, Doing, Kept
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import MOST, USUAL
from agentd.web.manage.resource import doing

ChangeView = shapes.shown(Change)
ChangesPage = shapes.listed(ChangeView)


class Journal(Protocol):
    """Where they are noted (``disk.changes.ChangeJournal``)."""

    def page(self, wanted: ChangeFilter, limit: int, cursor: str = "") -> Awaitable[ChangePage]:
        """Some, the newest first."""
        ...

    def kept(self, number: int) -> Awaitable[Kept]:
        """What one can be undone by. ``NotFound``, ``Conflict``."""
        ...


class Undoing(Protocol):
    """Who changes one kind of resource (``proxy.management.service.Managed``)."""

    @property
    def resource(self) -> str:
        """Its name, as in the addresses."""
        ...

    def undo(self, kept: Kept, doing: Doing, number: int) -> Awaitable[Change]:
        """Take a change back. ``Conflict``."""
        ...


class ChangeDesk:
    """The endpoints below ``/api/agent/changes``."""

    def __init__(self, journal: Journal, resources: Iterable[Undoing]) -> None:
        self._journal = journal
        self._resources = {one.resource: one for one in resources}

    async def list_changes(self, call: Call) -> Answer:
        """The newest first."""
        limit = call.number("limit", 1, MOST) or USUAL
        wanted = ChangeFilter(
            *(call.query(name) or "" for name in ("resource", "name", "action", "by"))
        )
        page = await self._journal.page(wanted, limit, call.query("cursor") or "")
        items = [shapes.told(one, ChangeView) for one in page.items]
        return Answer(ChangesPage(items=items, next=page.next))

    async def undo_change(self, call: Call) -> Answer:
        """What it was before is again; that is a change, too."""
        number = call.id("number", "Change")
        kept = await self._journal.kept(number)
        change = await self._resources[kept.resource].undo(kept, doing(call), number)
        return Answer(shapes.told(change, ChangeView))
