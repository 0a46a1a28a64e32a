"""The routes as an OpenAPI 3.1 document."""

from collections.abc import Iterable
from typing import Any

import msgspec

from agentd import __version__
from agentd.http.access import RouteGroup
from agentd.http.contract import Contract, list_error_kinds, list_parameters
from agentd.http.cookies import SessionCookie
from agentd.http.routing import Route, Schema

_KEY: dict[str, list[str]] = {"key": []}
_LOGINS: list[dict[str, list[str]]] = [{"session": []}, {"bearer": []}]
_ACCESS = ("access", "accessHeader", "accessGoogle", "accessAzure", "accessQuery")
_SECURITY: dict[RouteGroup, list[dict[str, list[str]]]] = {
    RouteGroup.PUBLIC: [],
    RouteGroup.OPEN: [{}, _KEY],
    RouteGroup.REMOTE: [_KEY],
    RouteGroup.EXTENDED: [_KEY, *_LOGINS],
    RouteGroup.LIVE: [_KEY, *_LOGINS],
    RouteGroup.MANAGE: [{"management": []}, {"session": []}, {"bearer": []}],
    RouteGroup.MODELS: [{name: []} for name in _ACCESS],
}
_SCHEMES: dict[str, dict[str, str]] = {
    "key": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key: a named one (agentd keys generate, POST /api/keys), or the one"
        " whose hash is in AGENT_API_KEY. Access keys of the model gateway are others.",
    },
    "bearerKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, as clients send it that know no other header.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SessionCookie(8750).name,
        "description": "The cookie of a login (POST /api/session); the number in its name is the"
        " port that the daemon listens on.",
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of a login (POST /api/session with bearer: true).",
    },
    "management": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "A management key: the one whose SHA-256 is in PROXY_APP_HASH, or a named"
        " one with a scope (agentd proxy management-key add, POST /api/agent/management-keys).",
    },
    "access": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access key of the model gateway (agentd proxy key add,"
        " POST /api/agent/keys): sk-agentd-...",
    },
    "accessHeader": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "accessGoogle": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "accessAzure": {"type": "apiKey", "in": "header", "name": "api-key"},
    "accessQuery": {"type": "apiKey", "in": "query", "name": "key"},
}

_PREFIXES = {
    RouteGroup.MANAGE: "manage_",
    RouteGroup.REMOTE: "remote_",
    RouteGroup.MODELS: "gateway_",
}
_DAEMON = ("daemon", "The daemon itself: its health, its metrics, this description.")
_LIVE = ("live", "Live events: a SignalR hub, and server-sent events.")
_LOGIN = ("login", "Signing in and out, and managing users.")
_CHATS = ("chats", "Chats: their list, histories and labels, and the agent's work on them.")
_SKILLS = ("skills", "Skills: instructions that can be added to a chat.")
_MODELS = ("gateway", "The model gateway: the vendors' own APIs, for access keys.")
_TAGS: dict[str, tuple[str, str]] = {
    "/healthz": _DAEMON,
    "/metrics": _DAEMON,
    "/api/openapi.json": _DAEMON,
    "/api/about": _DAEMON,
    "/api/qr": _DAEMON,
    "/api/remote": ("remote", "Remote control: create chats, queue prompts, read the answers."),
    "/api/chats": _CHATS,
    "/api/chat": _CHATS,
    "/api/me": ("preferences", "The preferences that the browser interface stores for each user."),
    "/api/start": ("start", "What every page of the browser interface needs, in one response."),
    "/api/render": ("rendering", "Markdown as HTML that is safe to show."),
    "/api/schedules": ("schedules", "Prompts that are sent at the times of a cron expression."),
    "/api/chat-labels": ("labels", "The labels of chats."),
    "/api/MessageQueue": ("queue", "The waiting prompts: hold, release, edit, reorder, pause."),
    "/api/session": _LOGIN,
    "/api/sessions": _LOGIN,
    "/api/users": _LOGIN,
    "/api/keys": ("keys", "The API keys of the remote API."),
    "/liveChatHub": _LIVE,
    "/api/events": _LIVE,
    "/api/build": ("builds", "Builds: start, stop, errors and output."),
    "/api/deploy": ("deployments", "Deployments: programs that agentd keeps running."),
    "/api/autofix": ("autofix", "Automatic fixes: failed builds as prompts for the agent."),
    "/api/analytics": ("analytics", "What chats cost and how long they took."),
    "/api/speechrecognition": ("speech", "Speech to text."),
    "/api/git": ("git", "The working repository."),
    "/api/workspace": ("workspace", "The workspace: its folders and files, read-only."),
    "/api/files": ("files", "Uploaded files."),
    "/api/bots": ("bots", "The messenger bots that chats can be linked to."),
    "/api/mcp-servers": ("mcp servers", "The MCP servers whose tools the agents use."),
    "/api/hooks": ("hooks", "The hooks of the native engine, and decisions about them."),
    "/api/setup": ("setup", "The first run: the installed engines, and a test of one."),
    "/api/settings": ("settings", "The settings of the daemon."),
    "/api/commands": ("commands", "Custom commands: prompts that are sent by /name."),
    "/api/skills": _SKILLS,
    "/api/skills-settings": _SKILLS,
    "/api/models": ("models", "The models that the agent can use."),
    "/mcp": ("mcp", "The Model Context Protocol: tools and resources for other agents."),
    "/v1": _MODELS,
    "/v1beta": _MODELS,
    "/api/agent": ("management", "The management of the model gateway, for programs."),
}
"""The tag and its description by path prefix; generated clients have a module for each tag."""


def build_openapi(routes: Iterable[Route]) -> bytes:
    """Return the document, as JSON."""
    all_routes = tuple(routes)
    contract = Contract(all_routes, "#/components/schemas/")
    paths: dict[str, dict[str, Any]] = {}
    for route in all_routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _build_operation(route, contract)
    tags = {_find_tag(path) for path in paths}
    used = {name for route in all_routes for one in _list_security(route) for name in one}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "agentd",
            "version": __version__,
            "description": "A coding agent and a model gateway behind one HTTP API.",
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": name, "description": description}
            for name, description in dict.fromkeys(_TAGS.values())
            if name in tags
        ],
        "paths": paths,
        "components": {
            "schemas": contract.schemas,
            "securitySchemes": {name: _SCHEMES[name] for name in _SCHEMES if name in used},
        },
    }
    return msgspec.json.encode(document)


def _list_security(route: Route) -> list[dict[str, list[str]]]:
    """Return the ways in which callers of a route are authenticated."""
    bearer: list[dict[str, list[str]]] = [{"bearerKey": []}] if route.takes_bearer_key else []
    return _SECURITY[route.group] + bearer


def _build_operation_id(route: Route) -> str:
    """Return the operation's id; groups that share nouns with others have a prefix."""
    prefix = _PREFIXES.get(route.group, "")
    return f"{prefix}{route.operation_id or route.endpoint.__name__}"


def _find_tag(path: str) -> str:
    """Return the tag of a path: that of the longest matching prefix."""
    matching = (one for one in _TAGS if path == one or path.startswith(f"{one}/"))
    return _TAGS[max(matching, key=len)][0]


def _build_operation(route: Route, contract: Contract) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _build_operation_id(route),
        "summary": route.summary,
        "tags": [_find_tag(route.path)],
        "parameters": [
            {
                "name": one.name,
                "in": one.location,
                "schema": one.schema,
                **({"required": True} if one.location == "path" else {}),
                **({"description": one.description} if one.description else {}),
            }
            for one in list_parameters(route)
        ],
        "responses": _build_responses(route, contract),
        "security": _list_security(route),
    }
    if route.min_role != "nobody" and route.group is not RouteGroup.MANAGE:
        operation["description"] = (
            f"Needs the role {route.min_role}; an API key has the role manager."
        )
    if body := contract.request_schemas(route):
        content = _build_content(body)
        if route.example is not None:
            for one in content.values():
                one["example"] = route.example
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _build_responses(route: Route, contract: Contract) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.summary}
    if body := contract.list_response_schemas(route):
        success["content"] = _build_content(body)
    if route.response_headers:
        success["headers"] = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in route.response_headers.items()
        }
    responses = {str(route.status): success}
    by_status: dict[int, list[str]] = {}
    for kind in list_error_kinds(route):
        by_status.setdefault(kind.status, []).append(f"{kind.name}: {kind.meaning}")
    for status, descriptions in sorted(by_status.items()):
        responses[str(status)] = {
            "description": " ".join(dict.fromkeys(descriptions)),
            "content": {"application/json": {"schema": contract.build_error_schema(route)}},
        }
    return responses


def _build_content(kinds: dict[str, Schema]) -> dict[str, dict[str, Any]]:
    return {kind: {"schema": schema} if schema else {} for kind, schema in kinds.items()}
