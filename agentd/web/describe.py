"""The routes table as an OpenAPI 3.1 document."""

import re
from typing import Any

import msgspec

from agentd import __version__
from agentd.access.gate import Surface
from agentd.chats.chat import LARGEST_ID
from agentd.errors import (
    AgentdError,
    Disabled,
    Forbidden,
    Misdirected,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
)
from agentd.web.cookies import NAME
from agentd.web.envelope import INTERNAL, KINDS, Envelope
from agentd.web.table import FORM, Route, Streamed, Table

_REFERENCE = "#/components/schemas/{name}"
_ID = {"type": "integer", "minimum": 1, "maximum": LARGEST_ID}
_NAME = {"type": "string", "minLength": 1}
_KEY: dict[str, list[str]] = {"key": []}
_LOGINS: list[dict[str, list[str]]] = [{"session": []}, {"bearer": []}]
_SECURITY = {
    Surface.PUBLIC: [],
    Surface.OPEN: [{}, _KEY],
    Surface.REMOTE: [_KEY],
    Surface.EXTENDED: [_KEY, *_LOGINS],
    Surface.LIVE: [_KEY, *_LOGINS],
    Surface.MANAGE: [{"management": []}],
    Surface.MODELS: [{"access": []}, {"accessHeader": []}],
}


def openapi(table: Table) -> bytes:
    """The document, as JSON."""
    types = {kind for route in table.routes for kind in (route.takes, route.gives) if kind}
    schemas, components = msgspec.json.schema_components(
        [*sorted(types, key=lambda kind: kind.__name__), Envelope], ref_template=_REFERENCE
    )
    del schemas
    _as_sent(components)
    paths: dict[str, dict[str, Any]] = {}
    for route in table.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "agentd",
            "version": __version__,
            "description": "A coding agent behind one door: chats, durable queues, answers.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "session": {"type": "apiKey", "in": "cookie", "name": NAME},
                "bearer": {"type": "http", "scheme": "bearer"},
                "management": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "access": {"type": "http", "scheme": "bearer"},
                "accessHeader": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }
    return msgspec.json.encode(document)


def _name(route: Route) -> str:
    """A name of its own: one endpoint answers all preflights."""
    name = route.endpoint.__name__
    return f"{name}_{route.path.rpartition('/')[2]}" if route.method == "OPTIONS" else name


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_other_parameters(route)],
        "responses": _responses(route),
        "security": _SECURITY[route.surface],
    }
    told = [f"Ruled by section {route.section} of the specification."] if route.section else []
    if route.needs != "nobody":
        told.append(f"Needs the role {route.needs}; a key has the role manager.")
    if told:
        operation["description"] = " ".join(told)
    if route.takes:
        operation["requestBody"] = {"required": True, "content": _json(route.takes)}
    elif route.streams:
        operation["requestBody"] = {"required": True, "content": _streamed(route.streams)}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", route.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": _NAME if name == "name" else _ID}
        for name in names
    ]


def _other_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "in": one.where, "description": one.description, "schema": one.schema}
        for one in route.parameters
    ]


def _responses(route: Route) -> dict[str, Any]:
    good: dict[str, Any] = {"description": route.summary}
    if route.gives:
        good["content"] = _json(route.gives)
    elif route.status != 204:
        good["content"] = {"*/*": {}}
    for kind in route.also:
        good.setdefault("content", {})[kind] = {}
    responses = {str(route.status): good}
    by_status: dict[int, list[str]] = {}
    for status, name in (*(KINDS[error] for error in _errors(route)), INTERNAL):
        by_status.setdefault(status, []).append(name)
    for status, names in sorted(by_status.items()):
        responses[str(status)] = {
            "description": ", ".join(sorted(set(names))),
            "content": _json(Envelope),
        }
    return responses


def _errors(route: Route) -> list[type[AgentdError]]:
    """What the route may answer: its own, and what stands before each of its kind."""
    errors = [*route.errors, Misdirected]
    if route.surface is not Surface.PUBLIC:
        errors.append(Unauthorized)
    if route.surface is Surface.REMOTE:
        errors += [Disabled, Unavailable]
    if route.surface in (Surface.EXTENDED, Surface.LIVE):
        errors.append(Forbidden)
    if route.takes or route.streams:
        errors += [TooLarge, UnsupportedMedia]
    return errors


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


def _json(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}}


def _streamed(body: Streamed) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "format": "binary"}
    if body.types == (FORM,):
        files = {"type": "array", "items": schema, "minItems": 1}
        schema = {"type": "object", "properties": {"files": files}, "required": ["files"]}
    return {one: {"schema": schema} for one in body.types}
