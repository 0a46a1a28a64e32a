"""What a row of the routes table promises, as JSON Schemas and failures.

OpenAPI (``web.describe``), the management's self-description and the tests read it here.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from agentd.access.gate import Surface
from agentd.chats.chat import LARGEST_ID
from agentd.errors import (
    AgentdError,
    Disabled,
    Forbidden,
    ManagementDisabled,
    Misdirected,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
)
from agentd.web.envelope import INTERNAL, KINDS, Envelope, Failure
from agentd.web.table import FORM, Parameter, Route, Schema, Streamed

JSON = "application/json"

_ID: Schema = {"type": "integer", "minimum": 1, "maximum": LARGEST_ID}
_NAME: Schema = {"type": "string", "minLength": 1}
_BINARY: Schema = {"type": "string", "format": "binary"}
_BEFORE: dict[Surface, tuple[type[AgentdError], ...]] = {
    Surface.PUBLIC: (),
    Surface.OPEN: (Unauthorized,),
    Surface.REMOTE: (Unauthorized, Disabled, Unavailable),
    Surface.EXTENDED: (Unauthorized, Forbidden),
    Surface.LIVE: (Unauthorized, Forbidden),
    Surface.MODELS: (Unauthorized,),
    Surface.MANAGE: (Unauthorized, ManagementDisabled),
}
"""What the door of each surface may answer."""


class Contract:
    """The bodies, answers and errors of these rows; ``place`` is where a named schema stands.

    ``schemas`` are all that they name, by their names.
    """

    def __init__(self, routes: Iterable[Route], place: str) -> None:
        types = {kind for route in routes for kind in (route.takes, route.gives) if kind}
        ordered = [*sorted(types, key=lambda kind: kind.__name__), Envelope]
        told, self.schemas = msgspec.json.schema_components(
            ordered, ref_template=f"{place}{{name}}"
        )
        self._of: dict[type, Schema] = dict(zip(ordered, told, strict=True))
        _as_sent(self.schemas)

    def body(self, route: Route) -> dict[str, Schema]:
        """The media types that a body may have, and the schema of each; none: no body."""
        if route.takes:
            return {JSON: self._of[route.takes]}
        if route.reads:
            return {JSON: route.reads}
        return _streamed(route.streams) if route.streams else {}

    def answer(self, route: Route) -> dict[str, Schema]:
        """The media types of a good answer, and the schema of each; none: it has no body."""
        found: dict[str, Schema] = {}
        if route.gives:
            found[JSON] = self._of[route.gives]
        elif route.tells:
            found[JSON] = route.tells
        elif route.status != 204:
            found["*/*"] = {}
        return found | {kind: {} for kind in route.also}

    def failure(self, route: Route) -> Schema:
        """The schema of an error's body."""
        return route.telling.schema if route.telling else self._of[Envelope]


def parameters(route: Route) -> Iterator[Parameter]:
    """All that a request tells beside its body: the parts of the path first."""
    described = {one.name: one for one in route.parameters if one.where == "path"}
    for name in re.findall(r"{(\w+)}", route.path):
        schema = _NAME if name == "name" else _ID
        yield described.get(name) or Parameter(name, "path", "", schema)
    yield from (one for one in route.parameters if one.where != "path")


def failures(route: Route) -> tuple[Failure, ...]:
    """All that can go wrong: the row's own, and what stands before each of its kind."""
    if route.telling:
        return route.telling.failures
    errors = [*route.errors, Misdirected, *_BEFORE[route.surface]]
    if route.takes or route.streams:
        errors += [TooLarge, UnsupportedMedia]
    found = dict.fromkeys((*(KINDS[error] for error in errors), INTERNAL))
    return tuple(sorted(found))


def _streamed(body: Streamed) -> dict[str, Schema]:
    schema = _BINARY
    if body.types == (FORM,):
        files: Schema = {"type": "array", "items": _BINARY, "minItems": 1}
        schema = {"type": "object", "properties": {"files": files}, "required": ["files"]}
    return dict.fromkeys(body.types, schema)


def _as_sent(schema: Any) -> None:
    """Money goes out as a number (``body.encoded``), where msgspec would describe a string."""
    if isinstance(schema, list):
        for inner in schema:
            _as_sent(inner)
    elif isinstance(schema, dict):
        if schema.get("format") == "decimal":
            schema["type"] = "number"
            del schema["format"]
        for inner in schema.values():
            _as_sent(inner)
