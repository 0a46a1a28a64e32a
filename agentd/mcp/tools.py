"""The tools: each is a route of the daemon, whose rules, roles and errors it has."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from agentd.core.errors import BadRequest, Forbidden, suggest_name
from agentd.http.access import Caller
from agentd.http.contract import Contract, list_parameters
from agentd.http.routing import Route, check_permission
from agentd.mcp.messages import JsonObject
from agentd.mcp.route_caller import RouteCaller

WAIT = "wait_for_chat"
WAIT_SECONDS, MAX_WAIT_SECONDS = 45, 3600
"""How long the tool waits when nobody says; many clients give up on a call after a minute."""


class ToolSpec(Struct, frozen=True):
    """A tool, and the route that it calls."""

    name: str
    title: str
    description: str
    method: str
    path: str
    query: tuple[str, ...] = ()
    """The query parameters that it offers."""
    destructive: bool = False
    """True if it ends or removes something."""
    idempotent: bool = False
    """True if a repetition changes nothing more."""
    omitted: tuple[str, ...] = ()
    """Fields of the body that are not described to agents."""


_CHAT = "/api/chat/{chatId}"
_REMOTE = "/api/remote/chats"

TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "create_chat",
        "Create a chat",
        "Create a chat with a coding agent. With a prompt, the agent begins to work on it at once;"
        " call wait_for_chat with the chatId of the result to learn how it ends. With an"
        " outputSchema the reply is JSON that fits it, and is the output of wait_for_chat.",
        "POST",
        _REMOTE,
    ),
    ToolSpec(
        "queue_prompt",
        "Queue a prompt",
        "Append a prompt to a chat's queue. The agent works on it after those before it, and knows"
        " the conversation so far. With an outputSchema its reply is JSON that fits it, and is the"
        " output of wait_for_chat.",
        "POST",
        f"{_REMOTE}/{{chatId}}/queue",
    ),
    ToolSpec(
        "delete_prompt",
        "Delete a waiting prompt",
        "Delete a prompt that still waits in a chat's queue.",
        "DELETE",
        f"{_REMOTE}/{{chatId}}/queue/{{promptId}}",
        destructive=True,
    ),
    ToolSpec(
        "list_queue",
        "List waiting prompts",
        "List the prompts that wait in a chat's queue, in the order in which they are sent.",
        "GET",
        f"{_REMOTE}/{{chatId}}/queue",
    ),
    ToolSpec(
        "get_chat",
        "Get a chat",
        "Get a chat's status, its running turn with the reply so far, its open questions, and why"
        " its queue is held.",
        "GET",
        _CHAT,
    ),
    ToolSpec(
        "list_chats",
        "List chats",
        "List the chats, the newest first, in pages.",
        "GET",
        "/api/chats",
        ("text", "status", "label", "limit", "before"),
    ),
    ToolSpec(
        "read_messages",
        "Read messages",
        "Read the last messages of a chat, or those before or after one: prompts, replies, errors,"
        " and each tool of the agent with its input, outcome and diff.",
        "GET",
        f"{_CHAT}/messages",
        ("limit", "before", "after"),
    ),
    ToolSpec(
        "stop_chat",
        "Stop a chat",
        "End the running turn of a chat with everything it started, and hold its queue.",
        "POST",
        f"{_CHAT}/stop",
        destructive=True,
        idempotent=True,
    ),
    ToolSpec(
        "list_questions",
        "List open questions",
        "List what the agents of all chats ask for: permissions to run commands or to change"
        " files, and questions.",
        "GET",
        "/api/chat/approvals",
    ),
    ToolSpec(
        "answer_question",
        "Answer a question",
        "Allow or deny what an agent asks for, or answer its question (decision allow, the answer"
        " as note). This is the person's decision: ask them, and never allow on your own.",
        "POST",
        f"{_CHAT}/approvals/{{approvalId}}",
        destructive=True,
        omitted=("rule",),
    ),
    ToolSpec(
        "list_models",
        "List models",
        "List the models that a chat can use, their prices and whether they are available.",
        "GET",
        "/api/models",
    ),
    ToolSpec(
        "list_commands",
        "List custom commands",
        "List the prompts that are written down: a prompt that begins with /name sends one.",
        "GET",
        "/api/commands",
    ),
    ToolSpec(
        "list_skills",
        "List skills",
        "List the skills that a chat can use.",
        "GET",
        "/api/skills",
    ),
    ToolSpec(
        "list_builds",
        "List builds",
        "List the builds of the workspace with the results of their last runs.",
        "GET",
        "/api/build/status",
    ),
    ToolSpec(
        "run_build",
        "Run a build",
        "Start a build of the workspace; one that runs is not started again. get_build tells how"
        " it ends.",
        "POST",
        "/api/build/trigger/{name}",
        idempotent=True,
    ),
    ToolSpec(
        "get_build",
        "Get a build",
        "Get the last run of a build, with its errors and warnings.",
        "GET",
        "/api/build/status/{name}",
    ),
    ToolSpec(
        "get_build_output",
        "Get a build's output",
        "Get what a build printed, or the last lines of it.",
        "GET",
        "/api/build/output/{name}",
        ("tail", "plain"),
    ),
    ToolSpec(
        "list_deployments",
        "List deployments",
        "List the programs that agentd keeps running, and whether they run.",
        "GET",
        "/api/deploy/status",
    ),
)

_WAIT_TOOL: JsonObject = {
    "name": WAIT,
    "title": "Wait for a chat",
    "description": (
        "Wait until a chat is idle, or its agent has a question, or the time is over. The result"
        " has the status, the open questions and the agent's last reply, whose value is the output"
        " if the prompt had an outputSchema. Call it again while idle is false and there is no"
        " question."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "chatId": {"type": "integer", "minimum": 1, "description": "The chat."},
            "seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MAX_WAIT_SECONDS,
                "description": f"The most seconds to wait. Default: {WAIT_SECONDS}.",
            },
        },
        "required": ["chatId"],
        "additionalProperties": False,
    },
    "annotations": {"title": "Wait for a chat", "readOnlyHint": True, "openWorldHint": False},
}

_PATH_PARAMETER = re.compile(r"{(\w+)}")


class ToolArguments(Struct, frozen=True):
    """A tool's arguments, as its route takes them."""

    path: dict[str, str]
    query: dict[str, str]
    body: JsonObject | None


class ToolCatalog:
    """The tools over these routes."""

    def __init__(self, caller: RouteCaller) -> None:
        self._routes = {one.name: caller.get_route(one.method, one.path) for one in TOOLS}
        self._specs = {one.name: one for one in TOOLS}
        self._described: dict[str, JsonObject] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return (WAIT, *self._specs)

    def find(self, name: str) -> tuple[ToolSpec, Route] | None:
        """Return a tool with its route; None if there is none of that name."""
        spec = self._specs.get(name)
        return (spec, self._routes[name]) if spec else None

    def list_descriptions(self, caller: Caller) -> list[JsonObject]:
        """List the tools that a caller may use. Blocks when it is called for the first time."""
        if self._described is None:
            self._described = self._describe_all()
        allowed = [
            self._described[name]
            for name, route in self._routes.items()
            if _may_call(caller, route)
        ]
        return [_WAIT_TOOL, *allowed]

    def _describe_all(self) -> dict[str, JsonObject]:
        contract = Contract(self._routes.values(), "#/$defs/")
        return {
            name: _describe(spec, self._routes[name], contract)
            for name, spec in self._specs.items()
        }


def _may_call(caller: Caller, route: Route) -> bool:
    try:
        check_permission(caller, route)
    except Forbidden:
        return False
    return True


def read_arguments(spec: ToolSpec, route: Route, arguments: Mapping[str, object]) -> ToolArguments:
    """Return a tool's arguments as its route takes them; raises ``BadRequest``.

    Whether the values are right is for the route to say.
    """
    in_path = _PATH_PARAMETER.findall(spec.path)
    fields = _list_fields(route)
    known = [*in_path, *spec.query, *fields]
    for name in arguments:
        if name not in known:
            raise BadRequest(f"Unknown argument {name[:40]!r}{suggest_name(name, known)}")
    for name in in_path:
        if arguments.get(name) is None:
            raise BadRequest(f"The argument {name!r} is missing")
    given = {name: value for name, value in arguments.items() if value is not None}
    return ToolArguments(
        {name: _write_value(name, given[name]) for name in in_path},
        {name: _write_value(name, given[name]) for name in spec.query if name in given},
        {name: given[name] for name in fields if name in given} if route.request_type else None,
    )


def _list_fields(route: Route) -> list[str]:
    kind = route.request_type
    return [one.encode_name for one in structs.fields(kind)] if kind else []


def _write_value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise BadRequest(f"The argument {name!r} must be a number or a string")


def _describe(spec: ToolSpec, route: Route, contract: Contract) -> JsonObject:
    properties = dict(_describe_parameters(spec, route))
    required = list(_PATH_PARAMETER.findall(spec.path))
    schema: JsonObject = {"type": "object", "properties": properties}
    if route.request_type:
        body = contract.schemas[route.request_type.__name__]
        described = body.get("properties", {})
        properties |= {name: one for name, one in described.items() if name not in spec.omitted}
        required += body.get("required", [])
        if used := _find_definitions(properties, contract.schemas):
            schema["$defs"] = used
    if required:
        schema["required"] = required
    is_read = spec.method == "GET"
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": {**schema, "additionalProperties": False},
        "annotations": {
            "title": spec.title,
            "readOnlyHint": is_read,
            **({} if is_read else {"destructiveHint": spec.destructive}),
            "idempotentHint": is_read or spec.idempotent,
            "openWorldHint": False,
        },
    }


def _describe_parameters(spec: ToolSpec, route: Route) -> Iterator[tuple[str, JsonObject]]:
    for one in list_parameters(route):
        if one.location == "path" or one.name in spec.query:
            described = {"description": one.description} if one.description else {}
            yield one.name, {**one.schema, **described}


def _find_definitions(schema: object, known: Mapping[str, object]) -> JsonObject:
    """Return the named schemas that a schema refers to, and those refer to."""
    found: JsonObject = {}
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            name = reference.rpartition("/")[2] if isinstance(reference, str) else ""
            if name and name not in found:
                found[name] = known[name]
                waiting.append(known[name])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
