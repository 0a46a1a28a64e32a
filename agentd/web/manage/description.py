"""``GET /api/agent``: the management surface told by itself, made from the routes table.

Whatever the surface does stands in a row, and every row is told here, so that the list always
matches what the surface does (the proxy specification, section 4).
"""

import asyncio
from collections.abc import Iterable

from msgspec import UNSET

from agentd import __version__
from agentd.access.gate import Surface
from agentd.web.call import Answer, Call
from agentd.web.contract import Contract, failures, parameters
from agentd.web.describe import openapi
from agentd.web.manage.agent_view import (
    AddressView,
    BodyView,
    ErrorView,
    ManagementView,
    ParameterView,
)
from agentd.web.manage.guide import CONCEPTS, CONVENTIONS, SECRETS, SIGN_IN
from agentd.web.manage.markdown import markdown
from agentd.web.manage.recipe import RECIPE
from agentd.web.table import Route, Table

OPENAPI = "/api/agent/openapi.json"

_KEYS = {
    Surface.MANAGE: "The management key: X-API-Key; or the login of an administrator.",
    Surface.MODELS: "An access key: Authorization: Bearer, x-api-key, x-goog-api-key or api-key.",
}


class Description:
    """The endpoints; ``describe`` gives them the table, in which they stand too."""

    def __init__(self) -> None:
        self._rows: tuple[Route, ...] = ()
        self._view: ManagementView | None = None
        self._openapi = b""

    def describe(self, table: Table) -> None:
        """Tell of the management in this table, and of what its recipe calls beside."""
        self._rows = tuple(_told_of(table))

    async def agent(self, call: Call) -> Answer:
        """As JSON, or as text for a reader where that alone is accepted."""
        if self._view is None:  # made when first asked for
            self._view = await asyncio.to_thread(_described, self._rows)
        kind = _text_type(call.headers.get("Accept", ""))
        if kind:
            return Answer(markdown(self._view).encode(), headers={"Content-Type": kind})
        return Answer(self._view)

    async def openapi(self, call: Call) -> Answer:
        """The same addresses as OpenAPI 3.1."""
        if not self._openapi:
            self._openapi = await asyncio.to_thread(openapi, self._rows)
        return Answer(self._openapi)


def _told_of(table: Table) -> Iterable[Route]:
    beside = {(step.method, step.path.partition("?")[0]) for step in RECIPE.steps}
    for route in table.routes:
        if route.surface is Surface.MANAGE or (route.method, route.path) in beside:
            yield route


def _described(rows: tuple[Route, ...]) -> ManagementView:
    contract = Contract(rows, "#/schemas/")
    return ManagementView(
        name="agentd",
        version=__version__,
        summary="The model gateway of agentd, managed by a program: suppliers, models, access keys,"
        " limits, logs, reports, secrets and settings.",
        openapi=OPENAPI,
        sign_in=SIGN_IN,
        concepts=CONCEPTS,
        secrets=SECRETS,
        conventions=CONVENTIONS,
        recipe=RECIPE,
        addresses=[_address(route, contract) for route in rows],
        schemas=contract.schemas,
    )


def _address(route: Route, contract: Contract) -> AddressView:
    return AddressView(
        method=route.method,
        path=route.path,
        summary=route.summary,
        key=_KEYS.get(route.surface, "None is needed."),
        parameters=[
            ParameterView(one.name, one.where, one.where == "path", one.description, one.schema)
            for one in parameters(route)
        ],
        body=[
            BodyView(kind, schema, UNSET if route.example is None else route.example)
            for kind, schema in contract.body(route).items()
        ],
        status=route.status,
        answer=[BodyView(kind, schema) for kind, schema in contract.answer(route).items()],
        errors=[ErrorView(*one) for one in failures(route)],
    )


def _text_type(accept: str) -> str:
    """The first of the text types that is asked for, if JSON is not."""
    asked = [one.partition(";")[0].strip().lower() for one in accept.split(",")]
    texts = [one for one in asked if one in ("text/markdown", "text/plain")]
    return f"{texts[0]}; charset=utf-8" if texts and "application/json" not in asked else ""
