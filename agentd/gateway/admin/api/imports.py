"""The endpoint that creates channels, models and budgets together, as one change."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct, structs

from agentd.core.clock import Clock
from agentd.core.errors import BadRequest, Conflict, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.budgets import BudgetEndpoints
from agentd.gateway.admin.api.channels import NewChannel
from agentd.gateway.admin.api.resource import DRY_RUN, parse_change_request
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.imports import ImportedEntries, ManagedImport
from agentd.gateway.catalogue.listed import take_listed_prices
from agentd.gateway.catalogue.service import PriceCatalogueService
from agentd.gateway.channels.masking import require_plain_secrets
from agentd.gateway.channels.model import Channel
from agentd.gateway.limits.budgets import Budget
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.models.gateway_model import GatewayModel

MAX_CHANNELS = 200
MAX_MODELS = 1000
MAX_BODY = 512 * 1024
"""The most bytes of an import: what undoes it is one file of limited size."""

ImportRequest: Any = defstruct(
    "ImportRequest",
    [
        (
            "channels",
            Annotated[
                tuple[NewChannel, ...],
                Meta(max_length=MAX_CHANNELS, description="The channels to create."),
            ],
            (),
        ),
        (
            "models",
            Annotated[
                tuple[shapes.define_new(GatewayModel), ...],  # type: ignore[misc]
                Meta(
                    max_length=MAX_MODELS,
                    description="The models to create; their routes may lead through these channels"
                    " and through those that there are.",
                ),
            ],
            (),
        ),
        (
            "budgets",
            Annotated[
                tuple[BudgetEndpoints.types.new, ...],  # type: ignore[name-defined]
                Meta(max_length=MAX_MODELS, description="The budgets to create."),
            ],
            (),
        ),
        (
            "catalogue_prices",
            Annotated[
                bool,
                Meta(
                    description="True to give models without prices those that the price catalogue"
                    " lists.",
                ),
            ],
            False,
        ),
    ],
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    module=__name__,
)


class ImportView(Struct, frozen=True, rename="camel", kw_only=True):
    """The outcome of an import."""

    channels: list[str]
    """The names of the channels that were created."""
    models: list[str]
    """The names of the models that were created."""
    budgets: list[str]
    """The names of the budgets that were created."""
    catalogue_priced: list[str]
    """The names of the models whose prices are from the price catalogue."""
    change: int | None
    """The number of the change, by which all of it is undone; null: a dry run."""


class ImportEndpoints:
    """The endpoint ``/api/agent/import``."""

    def __init__(self, managed: ManagedImport, clock: Clock, prices: PriceCatalogueService) -> None:
        self.managed = managed
        self._prices = prices
        self._clock = clock

    async def add(self, call: Request) -> Response:
        """Create all that the request names, or nothing."""
        wanted = call.parse_json(ImportRequest)
        entries = ImportedEntries(
            channels=tuple(
                require_plain_secrets(shapes.from_request(one, Channel)) for one in wanted.channels
            ),
            models=tuple(shapes.from_request(one, GatewayModel) for one in wanted.models),
            budgets=tuple(
                shapes.from_request(one, Budget, created=self._clock.now(), raised=None)
                for one in wanted.budgets
            ),
        )
        priced: dict[str, GatewayModel] = {}
        if wanted.catalogue_prices:
            priced = await self._find_prices(entries)
            models = tuple(priced.get(one.name, one) for one in entries.models)
            entries = structs.replace(entries, models=models)
        request = parse_change_request(call)
        change = await self.managed.add(entries, request)
        view = ImportView(
            channels=[one.name for one in entries.channels],
            models=[one.name for one in entries.models],
            budgets=[one.name for one in entries.budgets],
            catalogue_priced=list(priced),
            change=None if request.dry_run else change.number,
        )
        return Response(view, 201)

    async def _find_prices(self, entries: ImportedEntries) -> dict[str, GatewayModel]:
        """Return the models that have no prices with those of the catalogue, as far as listed."""
        opened = await self._prices.open(entries.channels)
        if opened is None:
            return {}

        def find() -> dict[str, GatewayModel]:
            return {
                one.name: take_listed_prices(one, listed)
                for one in entries.models
                if one.prices is None and (listed := opened.find_for_model(one))
            }

        return await asyncio.to_thread(find)


def routes(endpoints: ImportEndpoints) -> tuple[Route, ...]:
    """Return the route of imports."""
    return (
        build_route(
            "POST",
            "/api/agent/import",
            endpoint=endpoints.add,
            summary="Create several channels, models and budgets, all or none, as one change that"
            " is undone as one. A name that is taken is a conflict: nothing is overwritten.",
            operation_id="import_entries",
            request_type=ImportRequest,
            example={
                "channels": [
                    {
                        "name": "moved",
                        "dialects": ["openai-chat"],
                        "url": "https://api.example.com/v1",
                        "key": "sk-0123456789abcdef",
                    }
                ],
                "models": [{"name": "moved-large", "routes": [{"channel": "moved"}]}],
            },
            response_type=ImportView,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            parameters=(DRY_RUN,),
            max_body=MAX_BODY,
        ),
    )
