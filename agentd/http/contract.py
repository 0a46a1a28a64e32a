"""The contract of each route: JSON Schemas of its bodies and responses, and its possible errors.

OpenAPI (``http.openapi``), the management's self-description and the tests are built from it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from agentd.core.errors import (
    AgentdError,
    BadRequest,
    Disabled,
    Forbidden,
    ManagementDisabled,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
    WrongHost,
)
from agentd.core.ids import MAX_ID
from agentd.http.access import RouteGroup
from agentd.http.errors import ERROR_KINDS, INTERNAL_ERROR, ErrorBody, ErrorKind
from agentd.http.field_docs import describe_fields
from agentd.http.routing import (
    MULTIPART_FORM,
    STRICT_QUERY_GROUPS,
    Parameter,
    Route,
    Schema,
    StreamedBody,
)

JSON = "application/json"

_ID: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
_NAME: Schema = {"type": "string", "minLength": 1}
_TEXT: Schema = {"type": "string"}
_BINARY: Schema = {"type": "string", "format": "binary"}
_GROUP_ERRORS: dict[RouteGroup, tuple[type[AgentdError], ...]] = {
    RouteGroup.PUBLIC: (),
    RouteGroup.OPEN: (Unauthorized,),
    RouteGroup.REMOTE: (Unauthorized, Disabled, Unavailable),
    RouteGroup.EXTENDED: (Unauthorized, Forbidden),
    RouteGroup.LIVE: (Unauthorized, Forbidden),
    RouteGroup.MODELS: (Unauthorized,),
    RouteGroup.MANAGE: (Unauthorized, Forbidden, ManagementDisabled),
}
"""The errors that the gate may answer in each route group."""


class Contract:
    """The schemas of the bodies, responses and errors of these routes.

    ``schemas`` are the named ones, by name; ``ref_prefix`` is the beginning of references to them.
    """

    def __init__(self, routes: Iterable[Route], ref_prefix: str) -> None:
        self.schemas: dict[str, Any] = {}
        self._schema_of: dict[type, Schema] = {}
        all_routes = tuple(routes)
        request_types = _find_structs(route.request_type for route in all_routes)
        types = {
            kind
            for route in all_routes
            for kind in (route.request_type, route.response_type)
            if kind
        }
        for kind in (*sorted(types, key=lambda kind: kind.__name__), ErrorBody):
            (schema,), named = msgspec.json.schema_components(
                [kind], ref_template=f"{ref_prefix}{{name}}"
            )
            _match_wire_format(named)
            for one in _find_structs([kind]):
                _describe(one, named.get(one.__name__, {}), in_request=one in request_types)
            self._add(named)
            self._schema_of[kind] = schema

    def _add(self, named: dict[str, Any]) -> None:
        """Add named schemas; those of the same name must be equal."""
        for name, schema in named.items():
            if self.schemas.setdefault(name, schema) != schema:
                raise ValueError(f"two different schemas are named {name}; rename one of the types")

    def request_schemas(self, route: Route) -> dict[str, Schema]:
        """Return the schema of the body by media type; empty when the route takes no body."""
        if route.request_type:
            return {JSON: self._schema_of[route.request_type]}
        if route.raw_request_schema:
            return {JSON: route.raw_request_schema}
        return _upload_schemas(route.upload) if route.upload else {}

    def list_response_schemas(self, route: Route) -> dict[str, Schema]:
        """Return the schema of a successful response by media type; empty when it has no body."""
        found: dict[str, Schema] = {}
        if route.response_type:
            found[JSON] = self._schema_of[route.response_type]
        elif route.raw_response_schema:
            found[JSON] = route.raw_response_schema
        for kind in route.extra_media_types:
            found.setdefault(kind, _make_untyped_schema(kind))
        return found

    def build_error_schema(self, route: Route) -> Schema:
        """Return the schema of the body of an error."""
        return route.error_renderer.schema if route.error_renderer else self._schema_of[ErrorBody]


def list_parameters(route: Route) -> Iterator[Parameter]:
    """Yield the parameters of a route: those of the path first, then query and headers."""
    described = {one.name: one for one in route.parameters if one.location == "path"}
    for name in re.findall(r"{(\w+)}", route.path):
        schema = _NAME if name == "name" else _ID
        yield described.get(name) or Parameter(name, "path", "", schema)
    yield from (one for one in route.parameters if one.location != "path")


def list_error_kinds(route: Route) -> tuple[ErrorKind, ...]:
    """Return all errors that a route may answer: its own, and those of its route group."""
    if route.error_renderer:
        return route.error_renderer.error_kinds
    errors = [*route.errors, WrongHost, *_GROUP_ERRORS[route.group]]
    if route.request_type or route.upload:
        errors += [TooLarge, UnsupportedMedia]
    if route.group in STRICT_QUERY_GROUPS and any(
        one.location == "query" for one in route.parameters
    ):
        errors.append(BadRequest)  # an unknown parameter
    if route.group is RouteGroup.MANAGE and route.method != "GET":
        errors.append(BadRequest)  # a body where none is expected
    found = dict.fromkeys((*(ERROR_KINDS[error] for error in errors), INTERNAL_ERROR))
    return tuple(sorted(found))


def _upload_schemas(body: StreamedBody) -> dict[str, Schema]:
    return {
        kind: body.form_fields if kind == MULTIPART_FORM else _BINARY for kind in body.media_types
    }


def _make_untyped_schema(kind: str) -> Schema:
    """Return the schema of a body of which only the media type is known.

    For a stream of events the schema would describe each event (OpenAPI 3.2), not the whole
    text, so it has none.
    """
    if kind in (JSON, "text/event-stream"):
        return {}
    return _TEXT if kind.startswith("text/") else _BINARY


def _describe(kind: type, schema: dict[str, Any], *, in_request: bool) -> None:
    """Add descriptions to the fields of a struct or dataclass, and list the required ones.

    Client generators disagree about ``default``: some make such a field required, others fail at
    null. So a request's field states its default in the description, and a response's field is
    required, because it is always sent.
    """
    fields = schema.get("properties", {})
    for name, meaning in describe_fields(kind).items():
        if name in fields:
            fields[name].setdefault("description", meaning)
    for field in fields.values():
        default = field.pop("default", None)
        if in_request and default not in (None, "") and isinstance(default, str | int | float):
            words = (field.get("description", ""), f"Default: {json.dumps(default)}.")
            field["description"] = " ".join(words).strip()
    if not in_request and fields:
        schema["required"] = [name for name in fields if name not in _find_omissible_fields(kind)]


def _find_omissible_fields(kind: type) -> set[str]:
    """Return the fields, by their JSON names, that may be absent from a response."""
    if not issubclass(kind, Struct):
        return set()
    every = kind.__struct_config__.omit_defaults
    return {
        one.encode_name
        for one in structs.fields(kind)
        if one.default is UNSET or (every and not one.required)
    }


def _find_structs(kinds: Iterable[type | None]) -> set[type]:
    """Return every struct and dataclass among these types and within them."""
    seen: set[type] = set()
    for kind in kinds:
        if kind:
            _collect(msgspec.inspect.type_info(kind), seen)
    return seen


def _collect(info: object, seen: set[type]) -> None:
    """Add every struct or dataclass within what ``msgspec.inspect`` reports of a type."""
    if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        if info.cls in seen:
            return
        seen.add(info.cls)
    if isinstance(info, Struct):
        info = structs.astuple(info)
    if isinstance(info, tuple):
        for inner in info:
            _collect(inner, seen)


def _match_wire_format(schema: Any) -> None:
    """Correct two things that msgspec's schemas describe differently from what is sent.

    Decimals are sent as numbers (``json_body.encode_json``); a pattern without ``^`` matches the
    whole text.
    """
    if isinstance(schema, list):
        for inner in schema:
            _match_wire_format(inner)
    elif isinstance(schema, dict):
        if schema.get("format") == "decimal":
            schema["type"] = "number"
            del schema["format"]
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not pattern.startswith(("^", "\\")):
            schema["pattern"] = f"^(?:{pattern})$"
        for inner in schema.values():
            _match_wire_format(inner)
