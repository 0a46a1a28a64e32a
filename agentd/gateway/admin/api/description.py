"""``GET /api/agent``: the management API describes itself, from the route table.

Every route is listed, so the description always matches what the API does (the proxy
specification, section 4).
"""

import asyncio

from msgspec import UNSET, structs

from agentd import __version__
from agentd.gateway.admin.api.agent_view import (
    BodyView,
    CallerView,
    EndpointView,
    ErrorView,
    ManagementView,
    ParameterView,
)
from agentd.gateway.admin.api.guide import CONCEPTS, CONVENTIONS, SECRETS, SIGN_IN
from agentd.gateway.admin.api.markdown import render_markdown
from agentd.gateway.admin.api.recipe import RECIPE
from agentd.http.access import RouteGroup
from agentd.http.contract import Contract, list_error_kinds, list_parameters
from agentd.http.openapi import build_openapi
from agentd.http.request import Request, Response
from agentd.http.routing import OPENAPI_SCHEMA, Route, RouteTable

OPENAPI = "/api/agent/openapi.json"

_KEYS = {
    RouteGroup.MANAGE: "A management key: X-API-Key; or the login of an administrator.",
    RouteGroup.MODELS: "An access key: Authorization: Bearer, x-api-key, x-goog-api-key, api-key.",
}


class SelfDescription:
    """Describes the management routes of a table, and other routes that the recipe uses.

    The table contains the endpoints of this object, too.
    """

    def __init__(self, table: RouteTable) -> None:
        self._table = table
        self._view: ManagementView | None = None
        self._openapi = b""

    async def describe_management(self, call: Request) -> Response:
        """Return JSON, or text if ``Accept`` asks only for text."""
        if self._view is None:  # built on first use
            self._view = await asyncio.to_thread(_build_view, _select_routes(self._table))
        caller = CallerView(call.caller.identity, call.caller.scope)
        view = structs.replace(self._view, caller=caller)
        kind = _choose_text_type(call.headers.get("Accept", ""))
        if kind:
            return Response(render_markdown(view).encode(), headers={"Content-Type": kind})
        return Response(view)

    async def get_openapi(self, call: Request) -> Response:
        """Return the same endpoints as OpenAPI 3.1."""
        if not self._openapi:
            self._openapi = await asyncio.to_thread(build_openapi, _select_routes(self._table))
        return Response(self._openapi)


def _select_routes(table: RouteTable) -> tuple[Route, ...]:
    beside = {(step.method, step.path.partition("?")[0]) for step in RECIPE.steps}
    return tuple(
        route
        for route in table.built_routes
        if route.group is RouteGroup.MANAGE or (route.method, route.path) in beside
    )


def _build_view(rows: tuple[Route, ...]) -> ManagementView:
    contract = Contract(rows, "#/schemas/")
    return ManagementView(
        name="agentd",
        version=__version__,
        summary="Management of agentd's model gateway by programs: suppliers, models, access keys,"
        " limits, logs, reports, secrets and settings.",
        caller=CallerView("", "read"),
        openapi=OPENAPI,
        sign_in=SIGN_IN,
        concepts=CONCEPTS,
        secrets=SECRETS,
        conventions=CONVENTIONS,
        recipe=RECIPE,
        endpoints=[_make_endpoint_view(route, contract) for route in rows],
        schemas=contract.schemas,
    )


def _make_endpoint_view(route: Route, contract: Contract) -> EndpointView:
    return EndpointView(
        method=route.method,
        path=route.path,
        summary=route.summary,
        key=_KEYS.get(route.group, "None is needed."),
        scopes=route.allowed_scopes if route.group is RouteGroup.MANAGE else (),
        parameters=[
            ParameterView(
                one.name, one.location, one.location == "path", one.description, one.schema
            )
            for one in list_parameters(route)
        ],
        body=[
            BodyView(kind, schema, UNSET if route.example is None else route.example)
            for kind, schema in contract.request_schemas(route).items()
        ],
        status=route.status,
        response=[
            BodyView(kind, schema) for kind, schema in contract.list_response_schemas(route).items()
        ],
        errors=[ErrorView(*one) for one in list_error_kinds(route)],
    )


def _choose_text_type(accept: str) -> str:
    """Return the first accepted text type, unless JSON is accepted."""
    asked = [one.partition(";")[0].strip().lower() for one in accept.split(",")]
    texts = [one for one in asked if one in ("text/markdown", "text/plain")]
    return f"{texts[0]}; charset=utf-8" if texts and "application/json" not in asked else ""


def routes(description: SelfDescription) -> tuple[Route, ...]:
    """Return the routes of the description and of the OpenAPI document."""
    return (
        Route(
            "GET",
            "/api/agent",
            RouteGroup.MANAGE,
            description.describe_management,
            "Describe this API: authentication, concepts, secrets, every endpoint with its fields,"
            " responses and errors, and a recipe to follow.",
            operation_id="describe_management",
            response_type=ManagementView,
            extra_media_types=("text/markdown", "text/plain"),
            section="4",
        ),
        Route(
            "GET",
            OPENAPI,
            RouteGroup.MANAGE,
            description.get_openapi,
            "The same endpoints as OpenAPI 3.1.",
            operation_id="get_openapi",
            raw_response_schema=OPENAPI_SCHEMA,
            section="4",
        ),
    )
