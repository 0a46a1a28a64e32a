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

_PREFIXES = {
    Surface.MANAGE: "manage_",
    Surface.REMOTE: "remote_",
    Surface.MODELS: "gateway_",
}
_DAEMON = ("daemon", "The daemon itself: its health, its numbers, this description.")
_LIVE = ("live", "Live events: a SignalR hub, and server-sent events.")
_LOGIN = ("login", "Signing in and out, and who may.")
_CHATS = ("chats", "Chats: their list, histories and labels, and the agent at work on one.")
_SKILLS = ("skills", "Skills: instructions that a chat can be given.")
_MODELS = ("gateway", "The model gateway: the vendors' own APIs, for access keys.")
_SUBJECTS: dict[str, tuple[str, str]] = {
    "/healthz": _DAEMON,
    "/metrics": _DAEMON,
    "/api/openapi.json": _DAEMON,
    "/api/remote": ("remote", "Remote control: create chats, queue prompts, read the answers."),
    "/api/chats": _CHATS,
    "/api/chat": _CHATS,
    "/api/chat-labels": ("labels", "The labels that chats bear."),
    "/api/MessageQueue": ("queue", "The prompts that wait: hold, release, edit, order, pause."),
    "/api/session": _LOGIN,
    "/api/users": _LOGIN,
    "/api/keys": ("keys", "The access keys of the remote API."),
    "/liveChatHub": _LIVE,
    "/api/events": _LIVE,
    "/api/build": ("builds", "Builds: start, stop, their errors and their output."),
    "/api/deploy": ("deployments", "Deployments: programs that are kept running."),
    "/api/autofix": ("autofix", "Giving failed builds to the agent."),
    "/api/analytics": ("analytics", "What chats cost and how long they took."),
    "/api/speechrecognition": ("speech", "Speech to text."),
    "/api/git": ("git", "The working repository."),
    "/api/files": ("files", "Uploaded files."),
    "/api/bots": ("bots", "The bots that chats can be linked with."),
    "/api/settings": ("settings", "The settings of the daemon."),
    "/api/skills": _SKILLS,
    "/api/skills-settings": _SKILLS,
    "/api/models": ("models", "The models that the agent can use."),
    "/v1": _MODELS,
    "/v1beta": _MODELS,
    "/api/agent": ("management", "The management of the model gateway, for programs."),
}
"""The tag of the paths that begin so, and its description; clients have a module of each."""


def openapi(routes: Iterable[Route]) -> bytes:
    """The document, as JSON."""
    rows = tuple(routes)
    contract = Contract(rows, "#/components/schemas/")
    paths: dict[str, dict[str, Any]] = {}
    for route in rows:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, contract)
    subjects = {_subject(path) for path in paths}
    used = {name for row in rows for one in _SECURITY[row.surface] for name in one}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "agentd",
            "version": __version__,
            "description": "A coding agent behind one door: chats, durable queues, answers.",
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": name, "description": description}
            for name, description in dict.fromkeys(_SUBJECTS.values())
            if name in subjects
        ],
        "paths": paths,
        "components": {
            "schemas": contract.schemas,
            "securitySchemes": {name: _SCHEMES[name] for name in _SCHEMES if name in used},
        },
    }
    return msgspec.json.encode(document)


def _name(route: Route) -> str:
    """The operation's name; a surface whose nouns others have too puts its own name before."""
    prefix = _PREFIXES.get(route.surface, "")
    return f"{prefix}{route.operation or route.endpoint.__name__}"


def _subject(path: str) -> str:
    """The tag of a path: the subject with the longest beginning that fits."""
    fitting = (one for one in _SUBJECTS if path == one or path.startswith(f"{one}/"))
    return _SUBJECTS[max(fitting, key=len)][0]


def _operation(route: Route, contract: Contract) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "tags": [_subject(route.path)],
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
    if route.answer_headers:
        good["headers"] = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in route.answer_headers.items()
        }
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
