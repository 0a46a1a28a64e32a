"""Response structs of ``GET /api/agent``."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentd.gateway.admin.api.guide import Concept
from agentd.gateway.admin.api.recipe import Recipe
from agentd.http.access import ManagementScope


class ParameterView(Struct, frozen=True, rename={"where": "in"}):
    """A parameter of a request."""

    name: str
    """Its name."""
    where: str
    """``path``, ``query`` or ``header``."""
    required: bool
    """True if it is required."""
    description: str
    """The purpose of the parameter."""
    schema: dict[str, Any]
    """Its JSON Schema."""


class BodyView(Struct, frozen=True):
    """A body of one media type; its schema refers to ``schemas``."""

    type: str
    """The media type."""
    schema: dict[str, Any]
    """Its JSON Schema; empty: any."""
    example: Any | UnsetType = UNSET
    """An example body."""


class ErrorView(Struct, frozen=True):
    """A possible error of a request."""

    status: int
    """The HTTP status."""
    error: str
    """The value of the response's `error` field."""
    meaning: str
    """The meaning of the error."""


class CallerView(Struct, frozen=True):
    """Who asks, and what that key or login may do."""

    name: str
    """The caller, as the journal of changes shows it, such as ``management:monitor``."""
    scope: ManagementScope
    """``read``: may read all that shows no secrets; ``keys``: may read and change access keys;
    ``all``: may do everything."""


class EndpointView(Struct, frozen=True):
    """An endpoint: a path with a method."""

    method: str
    """The HTTP method."""
    path: str
    """The path; names in braces are parameters."""
    summary: str
    """The purpose of the endpoint."""
    key: str
    """The kind of key that it requires."""
    scopes: tuple[ManagementScope, ...]
    """The scopes of management keys that may call it; empty: another kind of key."""
    parameters: list[ParameterView]
    """A parameter of a request."""
    body: list[BodyView]
    """The request body, by media type; empty: none."""
    status: int
    """The status of a successful response."""
    response: list[BodyView]
    """The response body, by media type; empty: none."""
    errors: list[ErrorView]
    """Possible errors."""


class ManagementView(Struct, frozen=True, rename="camel"):
    """Everything that a program needs, if it knows only this path and the management key."""

    name: str
    """Name of the product."""
    version: str
    """Version of the daemon."""
    summary: str
    """The purpose of this API."""
    caller: CallerView
    """You: your key or login, and its scope."""
    openapi: str
    """Path of the OpenAPI 3.1 document."""
    sign_in: list[str]
    """The ways in which programs and people authenticate."""
    concepts: tuple[Concept, ...]
    """The terms of this API."""
    secrets: list[str]
    """The handling of secrets."""
    conventions: list[str]
    """The conventions that all endpoints share."""
    recipe: Recipe
    """Steps that can be executed as they are."""
    endpoints: list[EndpointView]
    """All endpoints."""
    schemas: dict[str, Any]
    """Schemas that bodies refer to as ``#/schemas/NAME``."""
