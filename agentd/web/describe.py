"""Rows of the routes table as an OpenAPI 3.1 document."""

from collections.abc import Iterable
from typing import Any

import msgspec

from agentd import __version__
from agentd.access.gate import Surface
from agentd.web.contract import Contract, failures, parameters
from agentd.web.cookies import NAME
from agentd.web.table import Route, Schema

_KEY: dict[str, list[str]] = {"key": []}
_LOGINS: list[dict[str, list[str]]] = [{"session": []}, {"bearer": []}]
_ACCESS = ("access", "accessHeader", "accessGoogle", "accessAzure", "accessQuery")
_SECURITY: dict[Surface, list[dict[str, list[str]]]] = {
    Surface.PUBLIC: [],
    Surface.OPEN: [{}, _KEY],
    Surface.REMOTE: [_KEY],
    Surface.EXTENDED: [_KEY, *_LOGINS],
    Surface.LIVE: [_KEY, *_LOGINS],
    Surface.MANAGE: [{"management": []}, {"session": []}, {"bearer": []}],
    Surface.MODELS: [{name: []} for name in _ACCESS],
}
_SCHEMES: dict[str, dict[str, str]] = {
    "key": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An access key (agentd keys generate).",
    },
    "session": {"type": "apiKey", "in": "cookie", "name": NAME},
    "bearer": {"type": "http", "scheme": "bearer", "description": "A login's token."},
    "management": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The management key, whose SHA-256 is in PROXY_APP_HASH.",
    },
    "access": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access key of the model gateway (sk-agentd-...).",
    },
    "accessHeader": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "accessGoogle": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "accessAzure": {"type": "apiKey", "in": "header", "name": "api-key"},
    "accessQuery": {"type": "apiKey", "in": "query", "name": "key"},
}


def openapi(routes: Iterable[Route]) -> bytes:
    """The document, as JSON."""
    rows = tuple(routes)
    contract = Contract(rows, "#/components/schemas/")
    paths: dict[str, dict[str, Any]] = {}
    for route in rows:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, contract)
    used = {name for row in rows for one in _SECURITY[row.surface] for name in one}
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
            "schemas": contract.schemas,
            "securitySchemes": {name: _SCHEMES[name] for name in _SCHEMES if name in used},
        },
    }
    return msgspec.json.encode(document)


def _name(route: Route) -> str:
    """A name of its own: one endpoint answers all preflights, and desks name theirs alike."""
    name = route.endpoint.__name__
    if route.method == "OPTIONS":
        return f"{name}_{route.path.rpartition('/')[2]}"
    prefix = {Surface.MANAGE: "manage_", Surface.REMOTE: "remote_"}.get(route.surface, "")
    return f"{prefix}{name}"


def _operation(route: Route, contract: Contract) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "parameters": [
            {
                "name": one.name,
                "in": one.where,
                "schema": one.schema,
                **({"required": True} if one.where == "path" else {}),
                **({"description": one.description} if one.description else {}),
            }
            for one in parameters(route)
        ],
        "responses": _responses(route, contract),
        "security": _SECURITY[route.surface],
    }
    told = [f"Ruled by section {route.section} of the specification."] if route.section else []
    if route.needs != "nobody" and route.surface is not Surface.MANAGE:
        told.append(f"Needs the role {route.needs}; a key has the role manager.")
    if told:
        operation["description"] = " ".join(told)
    if body := contract.body(route):
        content = _content(body)
        if route.example is not None:
            for one in content.values():
                one["example"] = route.example
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(route: Route, contract: Contract) -> dict[str, Any]:
    good: dict[str, Any] = {"description": route.summary}
    if answer := contract.answer(route):
        good["content"] = _content(answer)
    responses = {str(route.status): good}
    by_status: dict[int, list[str]] = {}
    for failure in failures(route):
        by_status.setdefault(failure.status, []).append(f"{failure.kind}: {failure.meaning}")
    for status, told in sorted(by_status.items()):
        responses[str(status)] = {
            "description": " ".join(dict.fromkeys(told)),
            "content": {"application/json": {"schema": contract.failure(route)}},
        }
    return responses


def _content(kinds: dict[str, Schema]) -> dict[str, dict[str, Any]]:
    return {kind: {"schema": schema} if schema else {} for kind, schema in kinds.items()}
