"""Endpoints of the request log, and of repricing requests."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import date, tzinfo
from decimal import Decimal
from typing import Annotated, Literal, Protocol, get_args

from msgspec import Meta, Struct

from agentd.core import csv
from agentd.core.errors import BadRequest, NotFound, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import CURSOR, DEFAULT_LIMIT, LIMIT, MAX_LIMIT
from agentd.gateway.admin.api.pages import define_page_with
from agentd.gateway.admin.api.reports import (
    FORMAT,
    GROUP_FILTERS,
    KEY,
    build_csv_headers,
    respond_as_csv,
    wants_csv,
)
from agentd.gateway.admin.api.resource import DRY_RUN, parse_change_request
from agentd.gateway.admin.api.route_builders import ID, build_route
from agentd.gateway.admin.api.spans import FROM, TO, parse_moment
from agentd.gateway.admin.repriced_history import RepricedHistory
from agentd.gateway.catalogue.service import PriceCatalogueService
from agentd.gateway.ledger.query import RecordPage, RequestFilter
from agentd.gateway.ledger.record import Outcome, RequestRecord, Timings
from agentd.gateway.pricing.repricing import PricesOf, RepricingSummary, make_price_lookup
from agentd.http.parameters import make_choice_parameter, make_integer_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.llm.price import Usage, compute_cost_by_bucket
from agentd.models.gateway_model import GatewayModel

OUTCOMES: tuple[str, ...] = get_args(Outcome)
MAX_REPRICE_DAYS = 92
"""Maximum number of days repriced at once."""

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_USD = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)

_CAMEL = {"cache_read": "cacheRead", "cache_write": "cacheWrite", "cache_write_1h": "cacheWrite1H"}

RequestView = shapes.define_view(RequestRecord, "earlier", called="RequestView")
RequestPage = define_page_with(
    "RequestPage",
    RequestView,
    corrupt_lines=Annotated[int, Meta(description="Corrupt lines that were skipped.")],
)
"""A page of requests, newest first. A page whose search was cut short may have few items and
still a ``next``."""
DifferenceView = shapes.define_view(
    RepricingSummary,
    change=Annotated[
        int | None,
        Meta(
            description="The number of the change, by which it is undone; null: a dry run, or"
            " nothing had to be changed."
        ),
    ],
)

FILTERS = (
    KEY,
    *GROUP_FILTERS,
    Parameter("model", "query", "Only of this model, as callers name it.", {"type": "string"}),
    Parameter("channel", "query", "Only through this channel.", {"type": "string"}),
    make_choice_parameter("outcome", "Only this outcome.", OUTCOMES),
    Parameter("error", "query", "Only this kind of error.", {"type": "string"}),
    make_integer_parameter("status", "Only this HTTP status.", 100, 599),
    Parameter(
        "minCost",
        "query",
        "Only requests that cost at least this much, in USD.",
        {"type": "string", "pattern": f"^{_USD.pattern}$"},
    ),
    Parameter("id", "query", "Part of the request id.", {"type": "string"}),
    Parameter("ok", "query", "Only successful requests, or only others.", {"type": "boolean"}),
    Parameter(
        "hidden",
        "query",
        "Only requests in which secrets were found, or only others.",
        {"type": "boolean"},
    ),
    Parameter(
        "rule", "query", "Only requests in which this secret rule found one.", {"type": "string"}
    ),
)
DAY = Parameter(
    "day",
    "query",
    "The day (UTC) of the request, if known: makes the search faster.",
    {"type": "string", "pattern": f"^{_DAY}$", "format": "date"},
)


class BodiesView(Struct, frozen=True):
    """Request and response bodies, secrets masked."""

    request: str
    """The request body."""
    response: str
    """The response body."""
    base64: bool
    """True if both are base64, because they are not UTF-8."""


class RequestCsvRow(Struct, frozen=True):
    """One request as a line of CSV."""

    id: str
    at: str
    outcome: str
    status: int
    error: str
    key: str
    key_name: str
    endpoint: str
    model: str
    channel: str
    supplier_model: str
    fallback: str
    tries: int
    stream: bool
    usage: Usage
    cost: Decimal
    estimated: bool
    timings: Timings
    hidden: int
    """Number of secrets found."""
    owner: str
    tags: str
    """Tags of the key at that time, with semicolons between them."""


class BucketCostView(Struct, frozen=True):
    """Tokens of one bucket, and what they cost."""

    bucket: str
    """The field of ``usage``."""
    tokens: int
    """Number of tokens."""
    cost: Decimal
    """Cost in USD."""


class RequestDetailView(Struct, frozen=True):
    """A request; ``bodies`` only if its key stores them."""

    request: RequestView  # type: ignore[valid-type]
    """Its record in the ledger."""
    costs: list[BucketCostView]
    """Its cost by bucket; empty if the prices that were used have changed since."""
    bodies: BodiesView | None
    """Its bodies; null: not stored, or the management key has the scope ``read``."""


class RepriceRequest(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}
):
    """The days (UTC) whose requests are repriced, both included."""

    first: Annotated[str, Meta(pattern=f"^{_DAY}$", extra={"form": "a day such as 2026-01-31"})]
    """The first day (UTC)."""
    last: Annotated[str, Meta(pattern=f"^{_DAY}$", extra={"form": "a day such as 2026-01-31"})]
    """The last day, included."""
    prices: Literal["current", "catalogue"] = "current"
    """By the models' current prices, or by the catalogue's prices of each request's day; what
    the catalogue does not list is repriced by current ones."""


class RequestLogReader(Protocol):
    """The stored requests (``gateway.ledger.ledger.Ledger``)."""

    def read_page(
        self, wanted: RequestFilter, limit: int = 50, cursor: str = ""
    ) -> Awaitable[RecordPage]:
        """Return one page, newest first. ``BadRequest`` for an invalid cursor."""
        ...

    def find_request(self, id_: str, day: str = "") -> Awaitable[RequestRecord | None]:
        """Find a request by id, on a day if it is known."""
        ...


class ExchangeBodies(Protocol):
    """A stored exchange (``gateway.ledger.bodies.StoredExchange``)."""

    @property
    def request(self) -> str:
        """The request body."""
        ...

    @property
    def response(self) -> str:
        """The response body."""
        ...

    @property
    def base64(self) -> bool:
        """True if both are base64."""
        ...


class RequestEndpoints:
    """The endpoints below ``/api/agent/requests``.

    ``body`` reads the stored bodies of a request of a day, ``key_id`` resolves a key's id or name,
    ``history`` reprices them; ``catalogue`` has dated prices.
    """

    def __init__(
        self,
        ledger: RequestLogReader,
        body: Callable[[str, str], Awaitable[ExchangeBodies | None]],
        key_id: Callable[[str], str],
        models: Callable[[], Mapping[str, GatewayModel]],
        history: RepricedHistory,
        zone: Callable[[], tzinfo],
        catalogue: PriceCatalogueService,
    ) -> None:
        self._catalogue = catalogue
        self._zone = zone
        self._ledger = ledger
        self._body = body
        self._key_id = key_id
        self._models = models
        self._history = history

    async def list_requests(self, call: Request) -> Response:
        """Return one page, newest first; as CSV without a limit, all of them."""
        is_csv, given = wants_csv(call), call.get_int("limit", 1, MAX_LIMIT)
        is_whole = is_csv and given is None
        limit = MAX_LIMIT if is_whole else given or DEFAULT_LIMIT
        wanted = parse_filter(call, self._key_id, self._zone())
        page = await self._ledger.read_page(wanted, limit, call.get_query("cursor") or "")
        if is_whole:
            return Response(
                chunks=self._stream_csv(wanted, page), headers=build_csv_headers("requests")
            )
        if is_csv:
            rows = [_to_csv_row(one) for one in page.records]
            return respond_as_csv(call, "requests", RequestCsvRow, rows, page.next)
        items = [shapes.to_view(one, RequestView) for one in page.records]
        return Response(RequestPage(items=items, next=page.next, corrupt_lines=page.corrupt))

    async def _stream_csv(
        self, wanted: RequestFilter, page: RecordPage
    ) -> AsyncGenerator[bytes, None]:
        """Yield all requests from a page on, as they are read: one page is in memory at a time."""
        is_first = True
        while True:
            rows = map(_to_csv_row, page.records)
            yield csv.render_structs_as_csv(RequestCsvRow, rows, with_header=is_first)
            is_first = False
            if not page.next:
                return
            page = await self._ledger.read_page(wanted, MAX_LIMIT, page.next)

    async def get_request(self, call: Request) -> Response:
        """Return one request, with its bodies if they are stored."""
        id_, day = call.get_name("id"), call.get_query("day") or ""
        if day and not re.fullmatch(_DAY, day, re.ASCII):
            raise BadRequest(f"'day' is {day[:40]!r}", "Expected a day such as 2026-01-31.")
        entry = await self._ledger.find_request(id_, day)
        if entry is None:
            raise NotFound(f'There is no request "{id_[:100]}" in the ledger')
        may_read = call.caller.scope != "read"
        found = await self._body(entry.id, entry.at[:10]) if may_read else None
        bodies = BodiesView(found.request, found.response, found.base64) if found else None
        costs = _list_costs(entry, make_price_lookup(self._models()))
        return Response(RequestDetailView(shapes.to_view(entry, RequestView), costs, bodies))

    async def reprice_requests(self, call: Request) -> Response:
        """Reprice recorded requests by current prices, or by those of the catalogue."""
        span, request = call.parse_json(RepriceRequest), parse_change_request(call)
        _check_days(span)
        prices = make_price_lookup(self._models())
        if span.prices == "catalogue":
            prices = (await self._catalogue.require()).make_lookup(prices)
        done = await self._history.reprice(span.first, span.last, prices, request)
        return Response(shapes.to_view(done.difference, DifferenceView, change=done.change))


def parse_filter(call: Request, key_id: Callable[[str], str], zone: tzinfo) -> RequestFilter:
    """Parse the parameters of ``FILTERS``, and the moments. Raises ``BadRequest``.

    ``key_id`` resolves a key's id or name; days are those of ``zone``.
    """
    key = call.get_query("key") or ""
    return RequestFilter(
        key=key_id(key) if key else "",
        owner=call.get_query("owner") or "",
        tag=call.get_query("tag") or "",
        model=call.get_query("model") or "",
        channel=call.get_query("channel") or "",
        outcome=call.get_choice("outcome", OUTCOMES, ""),
        error=call.get_query("error") or "",
        status=call.get_int("status", 100, 599),
        since=parse_moment(call, "from", zone),
        until=parse_moment(call, "to", zone),
        min_cost=_parse_usd(call.get_query("minCost")),
        text=call.get_query("id") or "",
        successful=call.get_optional_flag("ok"),
        hidden=call.get_optional_flag("hidden"),
        rule=call.get_query("rule") or "",
    )


def _list_costs(entry: RequestRecord, prices_of: PricesOf) -> list[BucketCostView]:
    prices, version = prices_of(entry)
    if prices is None or not entry.priced or version != entry.priced:
        return []
    return [
        BucketCostView(_CAMEL.get(bucket, bucket), getattr(entry.usage, bucket), cost)
        for bucket, cost in compute_cost_by_bucket(entry.usage, prices).items()
    ]


def _to_csv_row(entry: RequestRecord) -> RequestCsvRow:
    same = {name: getattr(entry, name) for name in RequestCsvRow.__struct_fields__}
    hidden = sum(entry.hidden.values())
    return RequestCsvRow(**{**same, "hidden": hidden, "tags": "; ".join(entry.tags)})


def _parse_usd(text: str | None) -> Decimal | None:
    if text is None:
        return None
    if not _USD.fullmatch(text):
        raise BadRequest(f"'minCost' is {text[:40]!r}", "Expected USD, such as 0.05.")
    return Decimal(text)


def _check_days(span: RepriceRequest) -> None:
    try:
        days = (date.fromisoformat(span.last) - date.fromisoformat(span.first)).days
    except ValueError as error:
        raise BadRequest(f"Invalid date: {error}") from error
    if not 0 <= days < MAX_REPRICE_DAYS:
        raise BadRequest(f"'from' to 'to' must be 1 to {MAX_REPRICE_DAYS} days")


def routes(endpoints: RequestEndpoints) -> tuple[Route, ...]:
    """Return the routes of the request log."""
    return (
        build_route(
            "GET",
            "/api/agent/requests",
            endpoint=endpoints.list_requests,
            summary="List the requests that the gateway handled, newest first; as CSV without a"
            " limit, all of them at once.",
            response_type=RequestPage,
            errors=(BadRequest, Unavailable),
            extra_media_types=("text/csv",),
            parameters=(LIMIT, CURSOR, FROM, TO, *FILTERS, FORMAT),
        ),
        build_route(
            "GET",
            "/api/agent/requests/{id}",
            endpoint=endpoints.get_request,
            summary="Get one request, with its bodies if its key stores them; secrets are masked.",
            response_type=RequestDetailView,
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(ID, DAY),
            operation_id="get_request",
        ),
        build_route(
            "POST",
            "/api/agent/requests/reprice",
            endpoint=endpoints.reprice_requests,
            summary="Reprice the requests of some days by current prices or the catalogue's; the"
            " first cost is kept, and the change can be undone until they are repriced again.",
            request_type=RepriceRequest,
            example={"from": "2026-01-01", "to": "2026-01-31"},
            response_type=DifferenceView,
            errors=(BadRequest, Unavailable),
            parameters=(DRY_RUN,),
        ),
    )
