"""Turns the method and parameters of a request into an action to carry out. Pure."""

from collections.abc import Callable
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from agentd.mcp.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    McpError,
    McpRequest,
    MessageId,
)
from agentd.mcp.revisions import ClientProfile, describe_discovery

P = TypeVar("P")

MAX_SUBSCRIPTIONS = 1000
"""Resources that one session or stream can subscribe to."""
_CACHE_DISCOVERY_SECONDS = 3600


class Immediate(Struct, frozen=True):
    """A result that needs no work."""

    result: JsonObject
    cache_seconds: int | None = None


class ListTools(Struct, frozen=True):
    """List the tools that the caller may use."""


class CallTool(Struct, frozen=True, rename="camel"):
    """Call a tool."""

    name: str
    arguments: JsonObject = {}
    input_responses: JsonObject = {}
    """The person's answers to the questions in an earlier result, by name."""
    progress_token: MessageId | None = None


class ListResources(Struct, frozen=True):
    """List a page of the chats."""

    cursor: Annotated[str, Meta(pattern="^[1-9][0-9]{0,15}$")] | None = None


class ListTemplates(Struct, frozen=True):
    """List the patterns of the resources' addresses."""


class ReadResource(Struct, frozen=True):
    """Read a resource."""

    uri: str


class SubscribeResource(Struct, frozen=True):
    """Receive the changes of a resource."""

    uri: str


class UnsubscribeResource(Struct, frozen=True):
    """Receive the changes of a resource no longer."""

    uri: str


class ListenFilter(Struct, frozen=True, rename="camel"):
    """The changes that a stream is to tell."""

    resources_list_changed: bool = False
    resource_subscriptions: Annotated[tuple[str, ...], Meta(max_length=MAX_SUBSCRIPTIONS)] = ()


class Listen(Struct, frozen=True):
    """Open a stream of changes."""

    notifications: ListenFilter


Action: TypeAlias = (
    Immediate
    | ListTools
    | CallTool
    | ListResources
    | ListTemplates
    | ReadResource
    | SubscribeResource
    | UnsubscribeResource
    | Listen
)

_ALWAYS: dict[str, type[Action]] = {
    "tools/list": ListTools,
    "tools/call": CallTool,
    "resources/list": ListResources,
    "resources/templates/list": ListTemplates,
    "resources/read": ReadResource,
}
_IN_SESSIONS: dict[str, type[Action]] = {
    "resources/subscribe": SubscribeResource,
    "resources/unsubscribe": UnsubscribeResource,
}
_WITHOUT_SESSIONS: dict[str, type[Action]] = {"subscriptions/listen": Listen}
_IMMEDIATE_IN_SESSIONS: dict[str, Callable[[], Immediate]] = {"ping": lambda: Immediate({})}
_IMMEDIATE_WITHOUT: dict[str, Callable[[], Immediate]] = {
    "server/discover": lambda: Immediate(describe_discovery(), _CACHE_DISCOVERY_SECONDS)
}


def plan_action(request: McpRequest, profile: ClientProfile) -> Action:
    """Return the action that a request asks for; raises ``McpError``."""
    in_session = profile.has_session
    if make := (_IMMEDIATE_IN_SESSIONS if in_session else _IMMEDIATE_WITHOUT).get(request.method):
        return make()
    kinds = _ALWAYS | (_IN_SESSIONS if in_session else _WITHOUT_SESSIONS)
    kind = kinds.get(request.method)
    if kind is None:
        raise McpError(
            METHOD_NOT_FOUND,
            f"There is no method {request.method[:100]!r} in revision {profile.revision}",
            status=404,
        )
    token = request.meta.get("progressToken")
    params = {name: value for name, value in request.params.items() if value is not None}
    params.pop("progressToken", None)
    if isinstance(token, str | int) and not isinstance(token, bool):
        params["progressToken"] = token
    return convert_params(params, kind)


def convert_params(params: JsonObject, kind: type[P]) -> P:
    """Return parameters as a typed value; raises ``McpError`` that names what is wrong."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise McpError(INVALID_PARAMS, f"The parameters are not valid: {error}") from error
