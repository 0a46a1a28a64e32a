"""What a row of the routes table promises, as JSON Schemas and failures.

OpenAPI (``web.describe``), the management's self-description and the tests read it here.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

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
_TEXT: Schema = {"type": "string"}
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
        rows = tuple(routes)
        taken = _within(route.takes for route in rows)
        types = {kind for route in rows for kind in (route.takes, route.gives) if kind}
        for kind in (*sorted(types, key=lambda kind: kind.__name__), Envelope):
            (told,), named = msgspec.json.schema_components([kind], ref_template=f"{place}{{name}}")
            _as_sent(named)
            for one in _within([kind]):
                _explain(one, named.get(one.__name__, {}), taken=one in taken)
            self._add(named)
            self._of[kind] = told

    def _add(self, named: dict[str, Any]) -> None:
        """Add schemas: two types may share a name, as generated ones do, but not two schemas."""
        for name, schema in named.items():
            if self.schemas.setdefault(name, schema) != schema:
                raise ValueError(f"two schemas are called {name}: rename the type of one")

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
        for kind in route.also:
            found.setdefault(kind, _bare(kind))
        return found

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
    return {kind: body.form if kind == FORM else _BINARY for kind in body.types}


def _bare(kind: str) -> Schema:
    """The schema of a body of which nothing is known but its media type.

    Of a stream of events it would be that of each event (OpenAPI 3.2), not of the whole text.
    """
    if kind in (JSON, "text/event-stream"):
        return {}
    return _TEXT if kind.startswith("text/") else _BINARY


def _explain(kind: type, told: dict[str, Any], *, taken: bool) -> None:
    """Describe the fields of a struct or dataclass, and say which are always there.

    Generators disagree about ``default``: some make such a field required, others fail at null.
    So a body's field says its default in words, and an answer's is required, for it is sent.
    """
    fields = told.get("properties", {})
    for name, meaning in meanings(kind).items():
        if name in fields:
            fields[name].setdefault("description", meaning)
    for field in fields.values():
        default = field.pop("default", None)
        if taken and default not in (None, "") and isinstance(default, str | int | float):
            words = (field.get("description", ""), f"Default: {json.dumps(default)}.")
            field["description"] = " ".join(words).strip()
    if not taken and fields:
        told["required"] = [name for name in fields if name not in _omissible(kind)]


def _omissible(kind: type) -> set[str]:
    """The fields, by their names on the wire, that an answer may lack."""
    if not issubclass(kind, Struct):
        return set()
    every = kind.__struct_config__.omit_defaults
    return {
        one.encode_name
        for one in structs.fields(kind)
        if one.default is UNSET or (every and not one.required)
    }


def _within(kinds: Iterable[type | None]) -> set[type]:
    """Every struct and dataclass that these types are or hold."""
    seen: set[type] = set()
    for kind in kinds:
        if kind:
            _collect(msgspec.inspect.type_info(kind), seen)
    return seen


def _collect(told: object, seen: set[type]) -> None:
    """Add every struct or dataclass that is within what ``msgspec.inspect`` tells of a type."""
    if isinstance(told, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        if told.cls in seen:
            return
        seen.add(told.cls)
    if isinstance(told, Struct):
        told = structs.astuple(told)
    if isinstance(told, tuple):
        for inner in told:
            _collect(inner, seen)


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
