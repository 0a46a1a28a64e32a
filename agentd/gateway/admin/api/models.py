"""Endpoints of the models that callers of the gateway can use."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from agentd.core.errors import (
    BadRequest,
    ConfigProblem,
    Conflict,
    NotFound,
    Unavailable,
)
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.checks import (
    PAID,
    ChannelChecker,
    CheckRequest,
    CheckView,
    to_check_view,
)
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.api.resource import (
    CopyableEndpoints,
    ResourceTypes,
    parse_change_request,
)
from agentd.gateway.admin.api.route_builders import (
    ResourceDocs,
    build_copy_route,
    build_resource_routes,
    build_route,
)
from agentd.gateway.admin.changes import MaskedFields
from agentd.gateway.admin.check import get_first_route
from agentd.gateway.admin.service import ChangeLog, ManagedResource, ResourceStore
from agentd.gateway.catalogue.listed import take_listed_prices
from agentd.gateway.catalogue.service import PriceCatalogueService
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.validation import require_known_channels
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.models.gateway_model import GatewayModel

ModelView = shapes.define_view(GatewayModel)


class ManagedModels(ResourceStore[GatewayModel], Protocol):
    """The stored models (``gateway.models.store``)."""

    @property
    def current(self) -> tuple[GatewayModel, ...]:
        """The models in file order."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Why their file is not in force."""
        ...

    async def copy(self, name: str, new: str, *, dry_run: bool = False) -> GatewayModel:
        """Copy a model under another name."""
        ...


class ProxyModelEndpoints(CopyableEndpoints[GatewayModel]):
    """The endpoints below ``/api/agent/models``.

    ``channels`` returns the channels, ``busy`` says what uses a model, ``checks`` tests one, and
    ``prices`` are those that a new model may take.
    """

    types = ResourceTypes(
        ModelView,
        shapes.define_page(ModelView),
        shapes.define_new(GatewayModel),
        shapes.define_patch(GatewayModel),
    )
    noun = "model"

    def __init__(
        self,
        models: ManagedModels,
        channels: Callable[[], Mapping[str, Channel]],
        journal: ChangeLog,
        busy: Callable[[GatewayModel], str],
        checks: ChannelChecker,
        prices: PriceCatalogueService,
    ) -> None:
        self._checks = checks
        self._prices = prices
        self._models = models
        self._channels = channels
        managed = ManagedResource[GatewayModel](
            "models",
            GatewayModel,
            models,
            journal,
            name=lambda one: one.name,
            show=_to_log_fields,
            busy=busy,
            require=lambda new, old: require_known_channels(new, channels(), old),
        )
        listing = ResourceListing[GatewayModel](
            lambda: models.current,
            lambda: models.current,
            lambda one: one.name,
            lambda one: one.enabled,
        )
        super().__init__(managed, listing, lambda: models.problems, models.copy)

    def render(self, model: GatewayModel) -> Any:
        """Return the view of a model."""
        return _to_view(model)

    async def add(self, call: Request) -> Response:
        """Create a model, on request with the catalogue's prices where it has none."""
        entry = self.create(call.parse_json(self.types.new))
        if call.get_flag("catalogue_prices") and entry.prices is None:
            opened = await self._prices.require()
            listed = await asyncio.to_thread(opened.find_for_model, entry)
            if listed is None:
                raise BadRequest(
                    f'The price catalogue does not list the model "{entry.name}"',
                    "Send its prices, or leave out catalogue_prices.",
                )
            entry = take_listed_prices(entry, listed)
        return self.respond(await self.managed.add(entry, parse_change_request(call)), 201)

    async def check_proxy_model(self, call: Request) -> Response:
        """Test the first route step by step; with ``paid`` including a model request."""
        model = self.find(call.get_name())
        channel = self._channels().get(get_first_route(model).channel)
        if channel is None:
            raise Conflict(
                f'Its first route uses "{get_first_route(model).channel}", which is gone'
            )
        request = CheckRequest(model, call.get_flag("paid"), call.request_id, call.remote_ip)
        return Response(to_check_view(await self._checks.check(channel, request)))


def _to_view(model: GatewayModel) -> Any:
    return shapes.to_view(model, ModelView)


def _to_log_fields(model: GatewayModel) -> MaskedFields:
    fields: MaskedFields = msgspec.to_builtins(_to_view(model))
    return fields


_DOCS = ResourceDocs(
    path="/api/agent/models/{name}",
    types=ProxyModelEndpoints.types,
    noun="proxy_model",
    list="List the models that callers can use, by name.",
    create="Create a model; it can be used at once.",
    create_example={
        "name": "large",
        "routes": [{"channel": "openai", "model": "gpt-5.1"}],
        "prices": {"input": 1.25, "cacheRead": 0.125, "output": 10},
        "maxOutput": 32000,
    },
    create_parameters=(
        Parameter(
            "catalogue_prices",
            "query",
            "With true, a model without prices gets those of the price catalogue, and its context"
            " size; 400 if it is not listed.",
            {"type": "boolean"},
        ),
    ),
    get="Get one model.",
    change="Change a model: absent fields stay, null resets to the default; routes are replaced.",
    change_example={"prices": {"input": 1.25, "output": 12}, "context": 400000},
    delete="Delete a model unless an access key, or another model as a fallback, names it.",
    enable="Enable a model.",
    disable="Disable a model: nobody can use it.",
)


def routes(endpoints: ProxyModelEndpoints) -> tuple[Route, ...]:
    """Return the routes of models."""
    check = build_route(
        "POST",
        f"{_DOCS.path}/check",
        endpoint=endpoints.check_proxy_model,
        summary="Test the first route of a model step by step; with paid=true including a model"
        " request.",
        response_type=CheckView,
        errors=(BadRequest, NotFound, Conflict, Unavailable),
        parameters=(PAID,),
    )
    copy = build_copy_route(endpoints, _DOCS, "Copy a model under another name.", "large-2")
    return build_resource_routes(endpoints, _DOCS, (check, copy))
