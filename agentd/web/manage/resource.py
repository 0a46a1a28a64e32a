"""One kind of resource as it is managed over HTTP: paged, shown, changed, each with its tag."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct, structs

from agentd.errors import BadRequest
from agentd.proxy.management.changes import Doing
from agentd.proxy.management.service import Managed
from agentd.web.call import Answer, Call
from agentd.web.manage.listing import Listing, flag
from agentd.web.table import Parameter

E = TypeVar("E", bound=Struct)

_TAGS = re.compile(r'\s*"([0-9a-f]{1,64})"\s*(?:,|$)')

DRY_RUN = Parameter(
    "dry_run",
    "query",
    "With true it is only tried: the answer tells what would be, and nothing is changed.",
    {"type": "boolean"},
)
IF_MATCH = Parameter(
    "If-Match",
    "header",
    "Only if the resource still has this ETag, else 412; without it the last writer wins.",
    {"type": "string", "pattern": '^([*]|"[0-9a-f]{1,64}"(, *"[0-9a-f]{1,64}")*)$'},
)


class CopyTo(Struct, frozen=True, forbid_unknown_fields=True):
    """What the copy is to be called."""

    name: str
    """The copy's name."""


class Resource(Generic[E]):
    """The resources of one kind; ``find`` raises ``NotFound``, ``view`` is how one is told."""

    def __init__(
        self,
        managed: Managed[E],
        listing: Listing[E],
        find: Callable[[str], E],
        view: Callable[[E], Any],
        page: Any,
        called: str = "name",
    ) -> None:
        self.managed = managed
        self._listing = listing
        self._find = find
        self._view = view
        self._page = page
        self._called = called

    def listed(self, call: Call) -> Answer:
        """A page of them."""
        found, after = self._listing.page(call)
        return Answer(self._page(items=[self._view(one) for one in found], next=after))

    def one(self, call: Call) -> Answer:
        """The one that the address names."""
        return self.told(self._named(call))

    async def add(self, call: Call, entry: E) -> Answer:
        """One more."""
        return self.told(await self.managed.add(entry, doing(call)), 201)

    async def copy(self, call: Call, copy: Callable[..., Awaitable[E]]) -> Answer:
        """One more like the one that the address names; ``copy`` is the book's own."""
        make = partial(copy, self._name(call), call.json(CopyTo).name)
        return self.told(await self.managed.grow(make, doing(call), "copy"), 201)

    async def change(self, call: Call, revise: Callable[[E], E], action: str = "change") -> Answer:
        """What ``revise`` makes of it."""
        name = self._name(call)
        return self.told(await self.managed.change(name, revise, doing(call), action))

    async def enable(self, call: Call, enabled: bool) -> Answer:
        """Switch it on or off."""

        def revise(old: E) -> E:
            return structs.replace(old, enabled=enabled)

        return await self.change(call, revise, "enable" if enabled else "disable")

    async def remove(self, call: Call) -> Answer:
        """One less."""
        await self.managed.remove(self._name(call), doing(call))
        return Answer(status=204)

    def told(self, entry: E, status: int = 200) -> Answer:
        """The answer that shows one."""
        headers = {"ETag": f'"{self.managed.tag(entry)}"'}
        if status == 201:
            name = quote(self.managed.name(entry), safe="")
            headers["Location"] = f"/api/agent/{self.managed.resource}/{name}"
        return Answer(self._view(entry), status, headers)

    def _named(self, call: Call) -> E:
        return self._find(call.name(self._called))

    def _name(self, call: Call) -> str:
        return self.managed.name(self._named(call))


def doing(call: Call) -> Doing:
    """Who is to change something, and how. ``BadRequest`` for what cannot be understood."""
    return Doing(
        by=call.caller.by,
        remote=call.remote_ip,
        dry_run=flag(call, "dry_run") or False,
        expects=_expected(call.headers.get("If-Match", "*")),
    )


def _expected(told: str) -> frozenset[str] | None:
    if told.strip() == "*":
        return None
    tags = _TAGS.findall(told)
    if _TAGS.sub("", told).strip() or not tags:
        raise BadRequest("If-Match must be * or ETags as they were told, in quotes")
    return frozenset(tags)
