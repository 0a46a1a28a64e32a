"""The shape of ``GET /api/agent``."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentd.web.manage.guide import Named
from agentd.web.manage.recipe import Recipe


class ParameterView(Struct, frozen=True, rename={"where": "in"}):
    """What a request tells beside its body."""

    name: str
    where: str
    required: bool
    description: str
    schema: dict[str, Any]


class BodyView(Struct, frozen=True):
    """A body, by its media type; its schema names others in ``schemas``."""

    type: str
    schema: dict[str, Any]
    example: Any | UnsetType = UNSET


class ErrorView(Struct, frozen=True):
    """One way in which a request goes wrong: the ``error`` value of the body names it."""

    status: int
    error: str
    meaning: str


class AddressView(Struct, frozen=True):
    """One address with one method."""

    method: str
    path: str
    summary: str
    key: str
    """Whose addresses these are."""
    parameters: list[ParameterView]
    body: list[BodyView]
    """Empty: none is sent."""
    status: int
    """Of a good answer."""
    answer: list[BodyView]
    """Empty: it has no body."""
    errors: list[ErrorView]


class AgentView(Struct, frozen=True, rename="camel"):
    """All that a program needs that knows only this address and the management key."""

    name: str
    version: str
    summary: str
    openapi: str
    sign_in: list[str]
    concepts: tuple[Named, ...]
    secrets: list[str]
    conventions: list[str]
    recipe: Recipe
    addresses: list[AddressView]
    schemas: dict[str, Any]
    """What the schemas of bodies name as ``#/schemas/NAME``."""
