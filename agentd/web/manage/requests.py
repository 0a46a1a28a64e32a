"""The requests that the gateway answered, as its ledger has them; pricing them anew."""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, tzinfo
from decimal import Decimal
from typing import Annotated, Protocol, get_args

from msgspec import Meta, Struct

from agentd.errors import BadRequest, NotFound
from agentd.proxy.channel import ProxyModel
from agentd.proxy.entry import Entry, Outcome
from agentd.proxy.management.service import Journal
from agentd.proxy.page import Filter, Page
from agentd.proxy.repricing import Difference, PricesOf, prices_in
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import MOST, USUAL
from agentd.web.manage.pages import one_of, page_of
from agentd.web.manage.resource import doing
from agentd.web.manage.spans import moment_of
from agentd.web.table import Parameter

OUTCOMES: tuple[str, ...] = get_args(Outcome)
MOST_DAYS = 92
"""That are priced anew at once."""

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_USD = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)

RequestView = shapes.shown(Entry, called="RequestView")
RequestPage = page_of(
    "RequestPage",
    RequestView,
    damaged=Annotated[int, Meta(description="Lines on the way that are not sound, and left out.")],
)
"""Some requests, the newest first. A page that looked long and found little has a ``next``, too;
``damaged`` lines of the ledger on the way are not among them."""
DifferenceView = shapes.shown(Difference)

FILTERS = (
    Parameter("key", "query", "Only of this access key, by its id or name.", {"type": "string"}),
    Parameter("model", "query", "Only of this model, as callers name it.", {"type": "string"}),
    Parameter("channel", "query", "Only through this channel.", {"type": "string"}),
    Parameter(
        "outcome", "query", "Only with this outcome.", {"type": "string", "enum": list(OUTCOMES)}
    ),
    Parameter("error", "query", "Only with this kind of error.", {"type": "string"}),
    Parameter(
        "status",
        "query",
        "Only answered with this status.",
        {"type": "integer", "minimum": 100, "maximum": 599},
    ),
    Parameter(
        "minCost",
        "query",
        "Only those that cost as much, in USD.",
        {"type": "string", "pattern": f"^{_USD.pattern}$"},
    ),
    Parameter("id", "query", "Only with this in their id.", {"type": "string"}),
)
DAY = Parameter(
    "day",
    "query",
    "The day (UTC) of the request, where it is known: it is then found at once.",
    {"type": "string", "pattern": f"^{_DAY}$", "format": "date"},
)


class BodiesView(Struct, frozen=True):
    """What the caller sent and was answered, secrets hidden."""

    request: str
    """What the caller sent."""
    response: str
    """What it was answered."""
    base64: bool
    """Whether they stand in base64, since they are not UTF-8."""


class RequestDetailView(Struct, frozen=True):
    """One request; ``bodies`` only where its key says that they are kept."""

    request: RequestView  # type: ignore[valid-type]
    """Its line of the ledger."""
    bodies: BodiesView | None
    """What was said; null where that is not kept."""


class Reprice(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}
):
    """The days (UTC) whose requests are priced by the prices of now, both included."""

    first: Annotated[str, Meta(pattern=f"^{_DAY}$")]
    """The first day (UTC)."""
    last: Annotated[str, Meta(pattern=f"^{_DAY}$")]
    """The last day, included."""


class Ledger(Protocol):
    """Where requests are kept (``disk.ledger.Ledger``)."""

    def page(self, wanted: Filter, limit: int = 50, cursor: str = "") -> Awaitable[Page]:
        """Requests, the newest first. ``BadRequest`` for what is no cursor."""
        ...

    def find(self, id_: str, day: str = "") -> Awaitable[Entry | None]:
        """The one of this id; of a day, where that is known."""
        ...

    def reprice(
        self, first: str, last: str, prices_of: PricesOf, *, dry_run: bool = False
    ) -> Awaitable[Difference]:
        """Price the requests of these days anew. ``Unavailable``."""
        ...


class Body(Protocol):
    """A kept exchange (``disk.bodies.Body``)."""

    @property
    def request(self) -> str:
        """What the caller sent."""
        ...

    @property
    def response(self) -> str:
        """What it was answered."""
        ...

    @property
    def base64(self) -> bool:
        """Whether both stand in base64."""
        ...


class RequestDesk:
    """The endpoints below ``/api/agent/requests``.

    ``body`` reads what is kept of a request of a day, ``key_id`` tells the id of a key by its id or
    name, ``priced`` is to be called when the ledger was priced anew.
    """

    def __init__(
        self,
        ledger: Ledger,
        body: Callable[[str, str], Awaitable[Body | None]],
        key_id: Callable[[str], str],
        models: Callable[[], Mapping[str, ProxyModel]],
        journal: Journal,
        priced: Callable[[], Awaitable[None]],
        zone: Callable[[], tzinfo],
    ) -> None:
        self._zone = zone
        self._ledger = ledger
        self._body = body
        self._key_id = key_id
        self._models = models
        self._journal = journal
        self._priced = priced

    async def list_requests(self, call: Call) -> Answer:
        """Page by page, the newest first."""
        limit = call.number("limit", 1, MOST) or USUAL
        page = await self._ledger.page(self._wanted(call), limit, call.query("cursor") or "")
        items = [shapes.told(one, RequestView) for one in page.entries]
        return Answer(RequestPage(items=items, next=page.next, damaged=page.damaged))

    async def one_request(self, call: Call) -> Answer:
        """One of them, with its bodies where they are kept."""
        id_, day = call.name("id"), call.query("day") or ""
        if day and not re.fullmatch(_DAY, day, re.ASCII):
            raise BadRequest(f"'day' is {day[:40]!r}", "Expected a day such as 2026-01-31.")
        entry = await self._ledger.find(id_, day)
        if entry is None:
            raise NotFound(f'There is no request "{id_[:100]}" in the ledger')
        found = await self._body(entry.id, entry.at[:10])
        bodies = BodiesView(found.request, found.response, found.base64) if found else None
        return Answer(RequestDetailView(shapes.told(entry, RequestView), bodies))

    async def reprice_requests(self, call: Call) -> Answer:
        """Price what was booked by the prices of now."""
        wish, how = call.json(Reprice), doing(call)
        _check_days(wish)
        prices = prices_in(self._models())
        async with self._journal.turn:
            difference = await self._ledger.reprice(
                wish.first, wish.last, prices, dry_run=how.dry_run
            )
            name = f"{wish.first} to {wish.last}"
            after = {"changed": difference.changed, "cost": str(difference.after)}
            before = {"cost": str(difference.before)}
            await self._journal.note(how, "reprice", "requests", name, before=before, after=after)
        if not how.dry_run:
            await self._priced()
        return Answer(shapes.told(difference, DifferenceView))

    def _wanted(self, call: Call) -> Filter:
        key = call.query("key") or ""
        return Filter(
            key=self._key_id(key) if key else "",
            model=call.query("model") or "",
            channel=call.query("channel") or "",
            outcome=one_of(call, "outcome", OUTCOMES, ""),
            error=call.query("error") or "",
            status=call.number("status", 100, 599),
            since=moment_of(call, "from", self._zone()),
            until=moment_of(call, "to", self._zone()),
            min_cost=_usd(call.query("minCost")),
            text=call.query("id") or "",
        )


def _usd(text: str | None) -> Decimal | None:
    if text is None:
        return None
    if not _USD.fullmatch(text):
        raise BadRequest(f"'minCost' is {text[:40]!r}", "Expected USD, such as 0.05.")
    return Decimal(text)


def _check_days(wish: Reprice) -> None:
    try:
        days = (date.fromisoformat(wish.last) - date.fromisoformat(wish.first)).days
    except ValueError as error:
        raise BadRequest(f"There is no such day: {error}") from error
    if not 0 <= days < MOST_DAYS:
        raise BadRequest(f"'from' to 'to' must be 1 to {MOST_DAYS} days")
