"""Endpoints of the price catalogue: search it, compare it with the models' prices, apply it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, Conflict, Unavailable, suggest_name
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import (
    CURSOR,
    DEFAULT_LIMIT,
    LIMIT,
    MAX_LIMIT,
    NAME,
    PAGING,
)
from agentd.gateway.admin.api.models import ModelView, ProxyModelEndpoints
from agentd.gateway.admin.api.resource import DRY_RUN, IF_MATCH, parse_change_request
from agentd.gateway.admin.api.route_builders import CHANGE_ERRORS, build_route
from agentd.gateway.catalogue.listed import (
    ListedPrices,
    has_other_prices,
    list_prices,
    take_listed_prices,
)
from agentd.gateway.catalogue.service import OpenCatalogue, PriceCatalogueService
from agentd.gateway.channels.model import Channel
from agentd.http.parameters import ETAG
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.llm.price import Prices
from agentd.models.gateway_model import GatewayModel

ListedPricesView = shapes.define_view(ListedPrices)
PricesView = shapes.define_view(Prices)

NO_CATALOGUE = "There is no price catalogue yet: POST /api/agent/prices/refresh reads it."

Source = Annotated[
    str, Meta(description="The library that the catalogue is from, and its version; empty: none.")
]
ReadAt = Annotated[
    Timestamp | None, Meta(description="When the catalogue was read from the library.")
]


class CatalogueView(Struct, frozen=True, rename="camel"):
    """The state of the catalogue."""

    source: str
    """The library that it is from, and its version."""
    at: Timestamp
    """When it was read from the library."""
    models: int
    """The number of its models."""


class CataloguePage(Struct, frozen=True, rename="camel", kw_only=True):
    """A page of the catalogue, by supplier and model."""

    source: Source
    at: ReadAt
    problem: str
    """What to do where there is no catalogue; empty if there is one."""
    items: list[ListedPricesView]  # type: ignore[valid-type]
    """The entries of this page, at today's prices."""
    next: str
    """The ``cursor`` of the next page; empty if this is the last page."""


class PriceComparison(Struct, frozen=True, rename="camel", kw_only=True):
    """A model's prices, and those of the catalogue."""

    name: str
    """The name of the model."""
    prices: PricesView | None  # type: ignore[valid-type]
    """The model's own prices, which are used; null: it has none."""
    listed: ListedPricesView | None  # type: ignore[valid-type]
    """The catalogue's prices for its first route without prices of its own; null: not listed."""
    differs: bool
    """True if applying the catalogue's prices would change what the model costs."""


class ComparisonPage(Struct, frozen=True, rename="camel", kw_only=True):
    """A page of models, by name, with their prices beside the catalogue's."""

    source: Source
    at: ReadAt
    problem: str
    """What to do where there is no catalogue; empty if there is one."""
    items: list[PriceComparison]
    """The models of this page."""
    next: str
    """The ``cursor`` of the next page; empty if this is the last page."""


class PriceEndpoints:
    """The endpoints below ``/api/agent/prices``, and of one model's prices."""

    def __init__(
        self,
        catalogue: PriceCatalogueService,
        models: ProxyModelEndpoints,
        channels: Callable[[], Mapping[str, Channel]],
    ) -> None:
        self._catalogue = catalogue
        self._models = models
        self._channels = channels

    async def list_catalogue(self, call: Request) -> Response:
        """Return one page of the catalogue."""
        limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        cursor = call.get_query("cursor") or ""
        wanted = _parse_filter(call, self._channels())
        opened = await self._catalogue.open()
        found: list[ListedPrices] = []
        if opened:
            entries = (one for one in wanted(opened) if _get_key(one) > cursor)
            found = await asyncio.to_thread(lambda: list(islice(entries, limit + 1)))
        page = found[:limit]
        return Response(
            CataloguePage(
                **_describe_source(opened),
                items=[shapes.to_view(one, ListedPricesView) for one in page],
                next=_get_key(page[-1]) if len(found) > limit else "",
            )
        )

    async def compare_models(self, call: Request) -> Response:
        """Return one page of models with the catalogue's prices beside their own."""
        page, after = self._models.listing.get_page(call)
        opened = await self._catalogue.open()
        items = await asyncio.to_thread(lambda: [_compare(one, opened) for one in page])
        return Response(ComparisonPage(**_describe_source(opened), items=items, next=after))

    async def apply_prices(self, call: Request) -> Response:
        """Give a model the catalogue's prices."""
        name = self._models.find(call.get_name()).name
        opened = await self._catalogue.require()

        def revise(old: GatewayModel) -> GatewayModel:
            listed = opened.find_for_model(old)
            if listed is None:
                raise Conflict(
                    f'The price catalogue does not list the model "{name}"',
                    "It looks for the supplier's name of the model at the address of its first"
                    " route without prices of its own.",
                )
            return take_listed_prices(old, listed)

        changed = await self._models.managed.change(
            name, revise, parse_change_request(call), "price"
        )
        return self._models.respond(changed)

    async def refresh_catalogue(self, _: Request) -> Response:
        """Read the catalogue from the installed library again."""
        found = await self._catalogue.refresh()
        count = sum(len(supplier.models) for supplier in found.suppliers)
        return Response(CatalogueView(found.source, found.at, count))


def _parse_filter(
    call: Request, channels: Mapping[str, Channel]
) -> Callable[[OpenCatalogue], Iterator[ListedPrices]]:
    """Return a function that yields the wanted entries. ``BadRequest`` for an invalid filter."""
    part = (call.get_query("name") or "").casefold()
    supplier = call.get_query("supplier") or ""
    channel, model = call.get_query("channel"), call.get_query("model")
    if (channel is None) != (model is None):
        raise BadRequest("'channel' and 'model' are only used together")
    if channel is not None and channel not in channels:
        near = suggest_name(channel, channels)
        raise BadRequest(f'There is no channel "{channel[:100]}"{near}')

    def list_wanted(opened: OpenCatalogue) -> Iterator[ListedPrices]:
        if channel is not None:
            one = opened.find_for_channel(channels[channel], model or "")
            entries = iter((one,) if one else ())
        else:
            entries = _list_all(opened)
        return (
            one
            for one in entries
            if supplier in ("", one.supplier)
            and (part in one.model.casefold() or part in one.title.casefold())
        )

    return list_wanted


def _list_all(opened: OpenCatalogue) -> Iterator[ListedPrices]:
    pairs = ((one.id, model) for one in opened.content.suppliers for model in one.models)
    for supplier, model in sorted(pairs, key=lambda pair: _format_key(pair[0], pair[1].id)):
        yield list_prices(supplier, model, opened.day)


def _get_key(listed: ListedPrices) -> str:
    """Return the position of an entry, in the order of the list."""
    return _format_key(listed.supplier, listed.model)


def _format_key(supplier: str, model: str) -> str:
    return f"{supplier}/{model}"


def _describe_source(opened: OpenCatalogue | None) -> dict[str, Any]:
    if opened is None:
        return {"source": "", "at": None, "problem": NO_CATALOGUE}
    return {"source": opened.content.source, "at": opened.content.at, "problem": ""}


def _compare(model: GatewayModel, opened: OpenCatalogue | None) -> PriceComparison:
    listed = opened.find_for_model(model) if opened else None
    return PriceComparison(
        name=model.name,
        prices=shapes.to_view(model.prices, PricesView) if model.prices else None,
        listed=shapes.to_view(listed, ListedPricesView) if listed else None,
        differs=has_other_prices(model, listed),
    )


_SUPPLIER = Parameter(
    "supplier", "query", "Only this supplier's, by its id, such as openai.", {"type": "string"}
)
_CHANNEL = Parameter(
    "channel",
    "query",
    "With model: only the entry whose prices hold for this channel.",
    {"type": "string"},
)
_MODEL = Parameter(
    "model", "query", "With channel: the supplier's name of a model.", {"type": "string"}
)


def routes(endpoints: PriceEndpoints) -> tuple[Route, ...]:
    """Return the routes of the price catalogue."""
    return (
        build_route(
            "GET",
            "/api/agent/prices",
            endpoint=endpoints.list_catalogue,
            summary="List the catalogue of known models' prices and context sizes, by supplier.",
            response_type=CataloguePage,
            errors=(BadRequest,),
            parameters=(LIMIT, CURSOR, NAME, _SUPPLIER, _CHANNEL, _MODEL),
        ),
        build_route(
            "GET",
            "/api/agent/prices/models",
            endpoint=endpoints.compare_models,
            summary="List the models' own prices beside those of the catalogue, by name; their"
            " own are used.",
            response_type=ComparisonPage,
            errors=(BadRequest,),
            parameters=PAGING,
        ),
        build_route(
            "POST",
            "/api/agent/prices/refresh",
            endpoint=endpoints.refresh_catalogue,
            summary="Read the catalogue from the installed library again, which also happens"
            " daily. Newer prices come with a newer library (pip install --upgrade genai-prices).",
            response_type=CatalogueView,
            errors=(BadRequest, Unavailable),
        ),
        build_route(
            "POST",
            "/api/agent/models/{name}/prices",
            endpoint=endpoints.apply_prices,
            summary="Give a model the catalogue's prices, and its context size if it has none.",
            response_type=ModelView,
            response_headers=ETAG,
            errors=CHANGE_ERRORS,
            parameters=(DRY_RUN, IF_MATCH),
        ),
    )
