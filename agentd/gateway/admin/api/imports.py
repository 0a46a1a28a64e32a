"""The endpoints that create channels, models and budgets together, as one change."""

import asyncio
from typing import Annotated, Any

import msgspec
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
from agentd.gateway.migration.plan import ImportPlan, Leftover
from agentd.gateway.migration.reading import Origin, map_configuration
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


MAX_FILE_BODY = 1024 * 1024
"""The most bytes of a request with another gateway's configuration."""


class ImportFileRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The configuration of another gateway."""

    text: Annotated[str, Meta(min_length=1)]
    """The config.yaml of a LiteLLM proxy, or new-api's channels or users as JSON."""
    name: Annotated[str, Meta(max_length=200)] = "the file"
    """The name of the file, for places in it."""
    origin: Origin | None = None
    """The program that it configures; null: found by the content."""


class PlannedChannelView(Struct, frozen=True, rename="camel"):
    """A channel of an import."""

    name: str
    """Name of the channel."""
    url: str
    """The supplier's address."""
    dialects: list[str]
    """The formats that the supplier accepts."""
    enabled: bool
    """False if a key is missing, which is to be filled in."""


class PlannedModelView(Struct, frozen=True):
    """A model of an import."""

    name: str
    """The name that callers send."""
    channels: list[str]
    """The channels of its routes."""
    priced: bool
    """True if it, or each of its routes, has prices."""


class PlannedBudgetView(Struct, frozen=True):
    """A budget of an import."""

    name: str
    """Name of the budget."""
    owner: str
    """The owner that it is of; empty: it is of a tag."""
    tag: str
    """The tag that it is of; empty: it is of an owner."""


NotTakenView = shapes.define_view(Leftover, called="NotTakenView")


class ImportFileView(Struct, frozen=True, rename="camel", kw_only=True):
    """The result of importing another gateway's configuration; no key is in it."""

    channels: list[PlannedChannelView]
    """The channels that are created."""
    models: list[PlannedModelView]
    """The models that are created."""
    budgets: list[PlannedBudgetView]
    """The budgets that are created."""
    not_taken: list[NotTakenView]  # type: ignore[valid-type]
    """What is not taken."""
    notes: list[str]
    """What is taken in another form."""
    catalogue_priced: list[str]
    """The names of the models whose prices are from the price catalogue."""
    change: int | None
    """The number of the change, by which all of it is undone; null: a dry run, or nothing new."""


class ImportEndpoints:
    """The endpoints ``/api/agent/import`` and ``/api/agent/import/file``."""

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

    async def add_file(self, call: Request) -> Response:
        """Create what another gateway's configuration becomes here, without what exists."""
        wanted, request = call.parse_json(ImportFileRequest), parse_change_request(call)
        plan = self.managed.fit(
            await asyncio.to_thread(
                map_configuration, wanted.name, wanted.text, wanted.origin, None
            )
        )
        entries = ImportedEntries(
            channels=tuple(map(require_plain_secrets, plan.channels)),
            models=plan.models,
            budgets=tuple(structs.replace(one, created=self._clock.now()) for one in plan.budgets),
        )
        priced = await self._find_prices(entries)
        models = tuple(priced.get(one.name, one) for one in entries.models)
        entries = structs.replace(entries, models=models)
        if len(msgspec.json.encode(entries)) > MAX_BODY:
            raise BadRequest(
                "The configuration is too large for one import", "Import it in several parts."
            )
        number = None
        if entries.files:
            change = await self.managed.add(entries, request)
            number = None if request.dry_run else change.number
        return Response(
            _render_plan(structs.replace(plan, models=models), list(priced), number), 201
        )


def _render_plan(plan: ImportPlan, priced: list[str], change: int | None) -> ImportFileView:
    return ImportFileView(
        channels=[
            PlannedChannelView(one.name, one.url, list(one.dialects), one.enabled)
            for one in plan.channels
        ],
        models=[
            PlannedModelView(
                one.name,
                list(dict.fromkeys(route.channel for route in one.routes)),
                one.prices is not None or all(route.prices for route in one.routes),
            )
            for one in plan.models
        ],
        budgets=[PlannedBudgetView(one.name, one.owner, one.tag) for one in plan.budgets],
        not_taken=[shapes.to_view(one, NotTakenView) for one in plan.leftovers],
        notes=list(plan.notes),
        catalogue_priced=priced,
        change=change,
    )


def routes(endpoints: ImportEndpoints) -> tuple[Route, ...]:
    """Return the routes of imports."""
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
        build_route(
            "POST",
            "/api/agent/import/file",
            endpoint=endpoints.add_file,
            summary="Create what the configuration of a LiteLLM proxy or of new-api becomes here,"
            " as one change: what exists stays as it is, and what cannot be taken is listed."
            " Variables such as os.environ/NAME are not looked up: their channels are created"
            " disabled.",
            operation_id="import_file",
            request_type=ImportFileRequest,
            example={
                "name": "config.yaml",
                "text": "model_list:\n- model_name: moved-small\n  litellm_params:"
                " {model: openai/gpt-4.1-mini, api_key: sk-0123456789abcdef}\n",
            },
            response_type=ImportFileView,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            parameters=(DRY_RUN,),
            max_body=MAX_FILE_BODY,
        ),
    )
