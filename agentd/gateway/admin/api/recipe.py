"""The recipe of ``GET /api/agent``: from an empty gateway to a request found in its log.

Each step is a request as it is sent. ``${name}`` stands for a variable: one that the caller knows,
or one that an earlier step saved. A string that is only a variable is replaced by the variable's
own value, which may be a number or boolean. ``save`` and ``expect.where`` refer to places in the
response by JSON Pointers (RFC 6901).
"""

from functools import partial
from typing import Any

from msgspec import UNSET, Struct


class RecipeVariable(Struct, frozen=True, omit_defaults=True):
    """An input of the recipe; one with a ``default`` need not be set."""

    name: str
    """The name used in the steps, in braces."""
    meaning: str
    """The value to fill in."""
    default: Any = UNSET
    """The value if nothing else is known."""


class ExpectedResponse(Struct, frozen=True):
    """The expected response; ``where``: values by JSON Pointer."""

    status: int
    """The HTTP status."""
    where: dict[str, Any] = {}
    """Expected values at places of the response."""


class RecipeStep(Struct, frozen=True, kw_only=True):
    """A request. ``save``: variables and the places in the response they are read from."""

    title: str
    """The purpose of the step."""
    method: str
    """The HTTP method."""
    path: str
    """The path and query."""
    headers: dict[str, str]
    """The headers to send."""
    body: Any = None
    """The JSON body to send; null: none."""
    expect: ExpectedResponse = ExpectedResponse(200)
    """The expected response."""
    save: dict[str, str] = {}
    """Variables for later steps, and where the response contains them."""


class Recipe(Struct, frozen=True):
    """The steps in order, and the variables they need."""

    variables: tuple[RecipeVariable, ...]
    """The variables that must be known before the first step."""
    steps: tuple[RecipeStep, ...]
    """The steps, in order."""


VARIABLES = (
    RecipeVariable("management_key", "The key whose SHA-256 stands in PROXY_APP_HASH."),
    RecipeVariable(
        "supplier_url", "The base address of a supplier, such as https://api.openai.com/v1."
    ),
    RecipeVariable("supplier_key", "The supplier's API key."),
    RecipeVariable("supplier_model", "The supplier's name of a model."),
    RecipeVariable("supplier_dialect", "The dialect of the supplier's API.", "openai-chat"),
    RecipeVariable("supplier_is_local", "Whether it is on that machine or its network.", False),
    RecipeVariable("channel", "Name of the new channel.", "recipe-channel"),
    RecipeVariable("model", "Name of the new model, as callers use it.", "recipe-model"),
    RecipeVariable("key_name", "Name of the new access key.", "recipe-key"),
)

_manage = partial(RecipeStep, headers={"X-API-Key": "${management_key}"})
_call = partial(RecipeStep, headers={"Authorization": "Bearer ${access_key}"})
_anybody = partial(RecipeStep, headers={})

STEPS = (
    _manage(
        title="Check for a licence: model requests need one. Otherwise the reason in the response"
        " says what to do, on that machine or by PUT.",
        method="GET",
        path="/api/agent/licence",
        expect=ExpectedResponse(200, {"/state": "valid"}),
    ),
    _manage(
        title="Create a channel: the connection to a supplier.",
        method="POST",
        path="/api/agent/channels",
        body={
            "name": "${channel}",
            "dialects": ["${supplier_dialect}"],
            "url": "${supplier_url}",
            "key": "${supplier_key}",
            "local": "${supplier_is_local}",
        },
        expect=ExpectedResponse(201, {"/name": "${channel}", "/enabled": True}),
    ),
    _manage(
        title="Create a model for callers, with its price in USD per million tokens.",
        method="POST",
        path="/api/agent/models",
        body={
            "name": "${model}",
            "routes": [{"channel": "${channel}", "model": "${supplier_model}"}],
            "prices": {"input": 3, "output": 15},
            "maxOutput": 1000,
        },
        expect=ExpectedResponse(201, {"/name": "${model}"}),
    ),
    _manage(
        title="Create an access key for this model only, with limits. The key is shown only once.",
        method="POST",
        path="/api/agent/keys",
        body={
            "name": "${key_name}",
            "models": ["${model}"],
            "limits": {"day": 1, "requestsPerMinute": 60},
        },
        expect=ExpectedResponse(201, {"/limits/day": 1}),
        save={"access_key": "/key", "key_id": "/id"},
    ),
    _call(
        title="Make a model request with the access key.",
        method="POST",
        path="/v1/chat/completions",
        body={
            "model": "${model}",
            "messages": [{"role": "user", "content": "Say hello."}],
        },
        expect=ExpectedResponse(200, {"/object": "chat.completion"}),
    ),
    _manage(
        title="Find the request in the request log.",
        method="GET",
        path="/api/agent/requests?key=${key_id}&limit=1",
        expect=ExpectedResponse(
            200,
            {
                "/items/0/model": "${model}",
                "/items/0/channel": "${channel}",
                "/items/0/outcome": "ok",
            },
        ),
        save={"request_id": "/items/0/id", "cost": "/items/0/cost"},
    ),
    _manage(
        title="Read what the key has spent, in the reports ...",
        method="GET",
        path="/api/agent/reports/by-key?key=${key_id}",
        expect=ExpectedResponse(200, {"/items/0/name": "${key_id}", "/items/0/requests": 1}),
    ),
    _manage(
        title="... and how much of its limits is left.",
        method="GET",
        path="/api/agent/keys/${key_id}",
        expect=ExpectedResponse(200, {"/name": "${key_name}", "/limits/day": 1}),
    ),
    _call(
        title="A caller itself asks with its access key.",
        method="GET",
        path="/v1/quota",
        expect=ExpectedResponse(200, {"/name": "${key_name}", "/spent/total": "${cost}"}),
    ),
    _manage(
        title="Get a one-time code: a person signs in with it within five minutes.",
        method="POST",
        path="/api/agent/session",
        expect=ExpectedResponse(201),
        save={"code": "/code"},
    ),
    _anybody(
        title="Sign in with the code, as the browser does; this needs no key. A program requests a"
        " token instead of a cookie.",
        method="POST",
        path="/api/session",
        body={"code": "${code}", "bearer": True},
        expect=ExpectedResponse(200, {"/role": "administrator"}),
        save={"session": "/token"},
    ),
    RecipeStep(
        title="Sign out; otherwise the login session lasts for 90 days.",
        method="DELETE",
        path="/api/session",
        headers={"Authorization": "Bearer ${session}"},
        expect=ExpectedResponse(204),
    ),
    _manage(
        title="Clean up, the access key first: what is in use cannot be deleted.",
        method="DELETE",
        path="/api/agent/keys/${key_id}",
        expect=ExpectedResponse(204),
    ),
    _manage(
        title="Delete the model ...",
        method="DELETE",
        path="/api/agent/models/${model}",
        expect=ExpectedResponse(204),
    ),
    _manage(
        title="... and the channel.",
        method="DELETE",
        path="/api/agent/channels/${channel}",
        expect=ExpectedResponse(204),
    ),
)

RECIPE = Recipe(VARIABLES, STEPS)


def fill_variables(part: Any, values: dict[str, Any]) -> Any:
    """Replace variables in a part of a step. ``KeyError`` for an unknown variable."""
    if isinstance(part, str):
        if part.startswith("${") and part.find("}") == len(part) - 1:
            return values[part[2:-1]]
        for name, value in values.items():
            part = part.replace(f"${{{name}}}", str(value))
        return part
    if isinstance(part, dict):
        return {name: fill_variables(value, values) for name, value in part.items()}
    return [fill_variables(one, values) for one in part] if isinstance(part, list) else part
