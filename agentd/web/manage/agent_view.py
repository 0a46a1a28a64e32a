"""The shape of ``GET /api/agent``."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentd.web.manage.guide import Named
from agentd.web.manage.recipe import Recipe


class ParameterView(Struct, frozen=True, rename={"where": "in"}):
    """What a request tells beside its body."""

    name: str
    """What it is called."""
    where: str
    """In the path, the query or a header."""
    required: bool
    """Whether it must be there."""
    description: str
    """What it does."""
    schema: dict[str, Any]
    """Its JSON Schema."""


class BodyView(Struct, frozen=True):
    """A body, by its media type; its schema names others in ``schemas``."""

    type: str
    """The media type."""
    schema: dict[str, Any]
    """Its JSON Schema; empty: any."""
    example: Any | UnsetType = UNSET
    """A body that is taken."""


class ErrorView(Struct, frozen=True):
    """One way in which a request goes wrong: the ``error`` value of the body names it."""

    status: int
    """The HTTP status."""
    error: str
    """What the field `error` of the answer says."""
    meaning: str
    """What it tells."""


class AddressView(Struct, frozen=True):
    """One address with one method."""

    method: str
    """The HTTP method."""
    path: str
    """The path; what stands in braces is a parameter."""
    summary: str
    """What it does."""
    key: str
    """Whose addresses these are."""
    parameters: list[ParameterView]
    """What a request tells beside its body."""
    body: list[BodyView]
    """Empty: none is sent."""
    status: int
    """Of a good answer."""
    answer: list[BodyView]
    """Empty: it has no body."""
    errors: list[ErrorView]
    """What can go wrong."""


class ManagementView(Struct, frozen=True, rename="camel"):
    """All that a program needs that knows only this address and the management key."""

    name: str
    """The product."""
    version: str
    """Of the daemon."""
    summary: str
    """What the surface is for."""
    openapi: str
    """Where the same is told as OpenAPI 3.1."""
    sign_in: list[str]
    """How a program signs in, and a person with its help."""
    concepts: tuple[Named, ...]
    """The words that are used here."""
    secrets: list[str]
    """How secrets are treated."""
    conventions: list[str]
    """What is the same at all addresses."""
    recipe: Recipe
    """Steps that can be carried out as they stand."""
    addresses: list[AddressView]
    """All that can be asked for."""
    schemas: dict[str, Any]
    """What the schemas of bodies name as ``#/schemas/NAME``."""
