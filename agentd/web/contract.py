"""What a row of the routes table promises, as JSON Schemas and failures.

OpenAPI (``web.describe``), the management's self-description and the tests read it here.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, structs

from agentd.access.gate import Surface
from agentd.chats.chat import LARGEST_ID
from agentd.errors import (
    AgentdError,
    BadRequest,
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
from agentd.web.meanings import meanings
from agentd.web.table import FORM, STRICT_QUERY, Parameter, Route, Schema, Streamed

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
        self.schemas: dict[str, Any] = {}
        self._of: dict[type, Schema] = {}
        types = {kind for route in routes for kind in (route.takes, route.gives) if kind}
        for kind in (*sorted(types, key=lambda kind: kind.__name__), Envelope):
            (told,), named = msgspec.json.schema_components([kind], ref_template=f"{place}{{name}}")
            _as_sent(named)
            _explain(kind, named)
            self._of[kind] = self._added(told, named, place)

    def _added(self, told: Schema, named: dict[str, Any], place: str) -> Schema:
        """What was told of one type; two types may have one name, but not two schemas."""
        others = {
            f"{place}{name}": f"{place}{name}{len(self.schemas)}"
            for name, schema in named.items()
            if self.schemas.get(name, schema) != schema
        }
        told, named = _renamed((told, named), others)
        self.schemas |= {
            others.get(f"{place}{name}", name).removeprefix(place): schema
            for name, schema in named.items()
        }
        return told

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
    if route.surface in STRICT_QUERY and any(one.where == "query" for one in route.parameters):
        errors.append(BadRequest)  # a parameter that it does not have
    if route.surface is Surface.MANAGE and route.method != "GET":
        errors.append(BadRequest)  # a body that it does not take
    found = dict.fromkeys((*(KINDS[error] for error in errors), INTERNAL))
    return tuple(sorted(found))


def _streamed(body: Streamed) -> dict[str, Schema]:
    schema = _BINARY
    if body.types == (FORM,):
        files: Schema = {"type": "array", "items": _BINARY, "minItems": 1}
        schema = {"type": "object", "properties": {"files": files}, "required": ["files"]}
    return dict.fromkeys(body.types, schema)


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    """With other references."""
    if isinstance(schema, dict):
        told = {name: _renamed(inner, names) for name, inner in schema.items()}
        if schema.get("$ref") in names:
            told["$ref"] = names[schema["$ref"]]
        return told
    if isinstance(schema, list | tuple):
        return type(schema)(_renamed(inner, names) for inner in schema)
    return schema


def _explain(kind: type, named: dict[str, Any]) -> None:
    """Tell what each field of the structs within a type means."""
    for one in _structs(msgspec.inspect.type_info(kind), set()):
        told = named.get(one.__name__, {}).get("properties", {})
        for name, meaning in meanings(one).items():
            if name in told:
                told[name].setdefault("description", meaning)


def _structs(told: object, seen: set[type]) -> Iterator[type]:
    """Every struct or dataclass that is within what ``msgspec.inspect`` tells of a type."""
    if isinstance(told, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        if told.cls in seen:
            return
        seen.add(told.cls)
        yield told.cls
    if isinstance(told, Struct):
        told = structs.astuple(told)
    if isinstance(told, tuple):
        for inner in told:
            yield from _structs(inner, seen)


def _as_sent(schema: Any) -> None:
    """Two things that msgspec describes in another way than they go over the wire.

    Money goes out as a number (``body.encoded``); a pattern that begins with letters
    is of the whole text.
    """
    if isinstance(schema, list):
        for inner in schema:
            _as_sent(inner)
    elif isinstance(schema, dict):
        if schema.get("format") == "decimal":
            schema["type"] = "number"
            del schema["format"]
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not pattern.startswith(("^", "\\")):
            schema["pattern"] = f"^(?:{pattern})$"
        for inner in schema.values():
            _as_sent(inner)
