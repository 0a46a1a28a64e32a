"""Endpoints of what a channel's supplier offers: list its models, and create some of them here."""

import asyncio
from collections import defaultdict
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from agentd.core.errors import BadRequest, Conflict, NotFound, Unavailable, find_repeated
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.channels import ChannelEndpoints
from agentd.gateway.admin.api.models import ModelView, ProxyModelEndpoints
from agentd.gateway.admin.api.prices import ListedPricesView
from agentd.gateway.admin.api.resource import DRY_RUN, parse_change_request
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.batches import ManagedBatch
from agentd.gateway.catalogue.listed import build_routed_model
from agentd.gateway.catalogue.service import OpenCatalogue, PriceCatalogueService
from agentd.gateway.channels.check import Reach
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.offers import list_offered_models
from agentd.gateway.models.store import GatewayModelRepository
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.models.gateway_model import GatewayModel, GatewayModelName

MAX_CREATED = 200
"""The most models that one request creates."""


class OfferedModelView(Struct, frozen=True, rename="camel", kw_only=True):
    """A model that the supplier lists."""

    model: str
    """The supplier's name of it."""
    title: str
    """The name that the supplier shows to people; empty: none."""
    context: int | None
    """Maximum tokens of a conversation, as the supplier says; null: it does not."""
    max_output: int | None
    """Maximum tokens of a reply, as the supplier says; null: it does not."""
    models: list[str]
    """The models here with a route to it through this channel."""
    listed: ListedPricesView | None
    """Its prices in the price catalogue; null: not listed."""


class OfferView(Struct, frozen=True, rename="camel", kw_only=True):
    """What the supplier of a channel offers."""

    channel: str
    """Name of the channel."""
    complete: bool
    """False if the supplier has more models than were read."""
    items: list[OfferedModelView]
    """The models, by name."""


class PickedModel(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A model of the supplier that is to be created here."""

    model: Annotated[str, Meta(min_length=1, max_length=200)]
    """The supplier's name of it."""
    name: GatewayModelName | None = None
    """The name that callers use; null: the supplier's."""
    context: Annotated[int, Meta(ge=1000, le=100_000_000)] | None = None
    """Maximum tokens of a conversation; null: as the price catalogue says."""
    max_output: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    """Maximum tokens of a reply; null: not known."""


class CreateOfferedRequest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The models to create, all or none."""

    models: Annotated[list[PickedModel], Meta(min_length=1, max_length=MAX_CREATED)]
    """The models, each with a route through this channel."""
    catalogue_prices: bool = True
    """True to give those prices that the price catalogue lists."""


class CreatedModels(Struct, frozen=True):
    """The models that were created."""

    items: list[ModelView]
    """The models, as they are now; one without prices is not listed in the price catalogue."""


class OfferedModelEndpoints:
    """The endpoints below ``/api/agent/channels/{name}/models``."""

    def __init__(
        self,
        channels: ChannelEndpoints,
        models: ProxyModelEndpoints,
        store: GatewayModelRepository,
        reach: Reach,
        prices: PriceCatalogueService,
        batch: ManagedBatch[GatewayModel],
    ) -> None:
        self._batch = batch
        self._channels = channels
        self._models = models
        self._store = store
        self._reach = reach
        self._prices = prices

    async def list_offered(self, call: Request) -> Response:
        """Ask the supplier for its models, and tell which of them are here already."""
        channel = self._channels.find(call.get_name())
        offered = await list_offered_models(self._reach, channel)
        opened = await self._prices.open()
        here: dict[str, list[str]] = defaultdict(list)
        for model in self._store.current:
            for route in model.routes:
                if route.channel == channel.name:
                    here[route.model or model.name].append(model.name)

        def render() -> list[OfferedModelView]:
            return [
                OfferedModelView(
                    model=one.name,
                    title=one.title,
                    context=one.context,
                    max_output=one.max_output,
                    models=here.get(one.name, []),
                    listed=_find_listed_view(opened, channel, one.name),
                )
                for one in offered.models
            ]

        items = await asyncio.to_thread(render)
        return Response(OfferView(channel=channel.name, complete=offered.complete, items=items))

    async def create_offered(self, call: Request) -> Response:
        """Create models with a route through the channel."""
        channel = self._channels.find(call.get_name())
        wanted = call.parse_json(CreateOfferedRequest)
        opened = await self._prices.open() if wanted.catalogue_prices else None
        made = await asyncio.to_thread(
            lambda: [_build_model(one, channel, opened) for one in wanted.models]
        )
        name = find_repeated(model.name for model in made)
        if name is not None:
            raise BadRequest(f'Two of the models would be named "{name[:100]}"')
        added = await self._batch.add(made, parse_change_request(call))
        return Response(CreatedModels([self._models.render(one) for one in added]), 201)


def _build_model(
    picked: PickedModel, channel: Channel, opened: OpenCatalogue | None
) -> GatewayModel:
    listed = opened.find_for_channel(channel, picked.model) if opened else None
    name = picked.name or picked.model
    model = build_routed_model(name, channel, picked.model, listed)
    sizes = {"context": picked.context, "max_output": picked.max_output}
    return structs.replace(
        model, **{field: size for field, size in sizes.items() if size is not None}
    )


def _find_listed_view(opened: OpenCatalogue | None, channel: Channel, name: str) -> Any:
    listed = opened.find_for_channel(channel, name) if opened else None
    return shapes.to_view(listed, ListedPricesView) if listed else None


def routes(endpoints: OfferedModelEndpoints) -> tuple[Route, ...]:
    """Return the routes of what suppliers offer."""
    path = "/api/agent/channels/{name}/models"
    return (
        build_route(
            "GET",
            path,
            endpoint=endpoints.list_offered,
            summary="List the models that the channel's supplier offers: those that are here"
            " already, and the catalogue's prices.",
            operation_id="list_offered_models",
            response_type=OfferView,
            errors=(NotFound, Unavailable),
        ),
        build_route(
            "POST",
            path,
            endpoint=endpoints.create_offered,
            summary="Create models with a route through the channel, all or none, with the"
            " catalogue's prices where it lists them; one change undoes them all.",
            operation_id="create_offered_models",
            request_type=CreateOfferedRequest,
            example={"models": [{"model": "gpt-5.1", "name": "offered"}]},
            response_type=CreatedModels,
            status=201,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            parameters=(DRY_RUN,),
        ),
    )
