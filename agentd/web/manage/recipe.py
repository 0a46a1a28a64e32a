"""The recipe of ``GET /api/agent``: from an empty gateway to a request that is read in its log.

Each step is a request as it is to be sent. ``${name}`` stands for a variable: one that the caller
knows, or one that an earlier step saved. Where it is all of a text, the variable's own value takes
its place, be it a number or true. ``save`` and ``expect.where`` name places in the answer by JSON
Pointers (RFC 6901).
"""

from functools import partial
from typing import Any

from msgspec import UNSET, Struct


class Variable(Struct, frozen=True, omit_defaults=True):
    """What a caller is to know; one with a ``default`` may be left as it is."""

    name: str
    """What the steps call it, in braces."""
    meaning: str
    """What to put in its place."""
    default: Any = UNSET
    """What it is where nothing else is known."""


class Expect(Struct, frozen=True):
    """What is answered; ``where``: values by their places."""

    status: int
    """The HTTP status."""
    where: dict[str, Any] = {}
    """What stands at some places of the answer."""


class Step(Struct, frozen=True, kw_only=True):
    """One request. ``save``: variables, and the places in the answer that they are taken from."""

    title: str
    """What it does."""
    method: str
    """The HTTP method."""
    path: str
    """The address."""
    headers: dict[str, str]
    """The headers to send."""
    body: Any = None
    """The JSON body to send; null: none."""
    expect: Expect = Expect(200)
    """What is answered."""
    save: dict[str, str] = {}
    """Variables for later steps, by the places in the answer where they stand."""


class Recipe(Struct, frozen=True):
    """The steps in their order, and what a caller is to know before the first."""

    variables: tuple[Variable, ...]
    """What a caller is to know before the first step."""
    steps: tuple[Step, ...]
    """One after the other."""


VARIABLES = (
    Variable("management_key", "The key whose SHA-256 stands in PROXY_APP_HASH."),
    Variable("supplier_url", "The base address of a supplier, such as https://api.openai.com/v1."),
    Variable("supplier_key", "The supplier's key itself."),
    Variable("supplier_model", "A model as the supplier names it."),
    Variable("supplier_dialect", "What the supplier speaks.", "openai-chat"),
    Variable("supplier_is_local", "Whether it is on that machine or its network.", False),
    Variable("channel", "What the channel is to be called.", "recipe-channel"),
    Variable("model", "How callers are to name the model.", "recipe-model"),
    Variable("key_name", "What the access key is to be called.", "recipe-key"),
)

_manage = partial(Step, headers={"X-API-Key": "${management_key}"})
_call = partial(Step, headers={"Authorization": "Bearer ${access_key}"})
_anybody = partial(Step, headers={})

STEPS = (
    _manage(
        title="See that there is a licence: model requests need one. Else the answer's reason tells"
        " what to do, on that machine or by PUT.",
        method="GET",
        path="/api/agent/licence",
        expect=Expect(200, {"/state": "valid"}),
    ),
    _manage(
        title="Create a channel: the way to a supplier.",
        method="POST",
        path="/api/agent/channels",
        body={
            "name": "${channel}",
            "dialects": ["${supplier_dialect}"],
            "url": "${supplier_url}",
            "key": "${supplier_key}",
            "local": "${supplier_is_local}",
        },
        expect=Expect(201, {"/name": "${channel}", "/enabled": True}),
    ),
    _manage(
        title="Create a model that callers can name, with its price in USD for a million tokens.",
        method="POST",
        path="/api/agent/models",
        body={
            "name": "${model}",
            "ways": [{"channel": "${channel}", "model": "${supplier_model}"}],
            "prices": {"input": 3, "output": 15},
            "maxOutput": 1000,
        },
        expect=Expect(201, {"/name": "${model}"}),
    ),
    _manage(
        title="Create an access key for this model alone, with limits. It is told this once.",
        method="POST",
        path="/api/agent/keys",
        body={
            "name": "${key_name}",
            "models": ["${model}"],
            "limits": {"day": 1, "requestsPerMinute": 60},
        },
        expect=Expect(201, {"/limits/day": 1}),
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
        expect=Expect(200, {"/object": "chat.completion"}),
    ),
    _manage(
        title="Read it in the request log.",
        method="GET",
        path="/api/agent/requests?key=${key_id}&limit=1",
        expect=Expect(
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
        expect=Expect(200, {"/items/0/name": "${key_id}", "/items/0/requests": 1}),
    ),
    _manage(
        title="... and how much of its limits is left.",
        method="GET",
        path="/api/agent/keys/${key_id}",
        expect=Expect(200, {"/name": "${key_name}", "/limits/day": 1}),
    ),
    _manage(
        title="Ask for a one-time code: a person signs in with it within five minutes.",
        method="POST",
        path="/api/agent/session",
        expect=Expect(201),
        save={"code": "/code"},
    ),
    _anybody(
        title="Sign in with it, as the browser does; that needs no key. A program asks for a token"
        " instead of a cookie.",
        method="POST",
        path="/api/session",
        body={"code": "${code}", "bearer": True},
        expect=Expect(200, {"/role": "administrator"}),
        save={"session": "/token"},
    ),
    Step(
        title="Sign out: else the session lasts for 90 days.",
        method="DELETE",
        path="/api/session",
        headers={"Authorization": "Bearer ${session}"},
        expect=Expect(204),
    ),
    _manage(
        title="Take all of it away again, the access key first: what is in use cannot be deleted.",
        method="DELETE",
        path="/api/agent/keys/${key_id}",
        expect=Expect(204),
    ),
    _manage(
        title="Delete the model ...",
        method="DELETE",
        path="/api/agent/models/${model}",
        expect=Expect(204),
    ),
    _manage(
        title="... and the channel.",
        method="DELETE",
        path="/api/agent/channels/${channel}",
        expect=Expect(204),
    ),
)

RECIPE = Recipe(VARIABLES, STEPS)


def filled(told: Any, values: dict[str, Any]) -> Any:
    """A part of a step with the variables' values in their places. ``KeyError``: not known."""
    if isinstance(told, str):
        if told.startswith("${") and told.find("}") == len(told) - 1:
            return values[told[2:-1]]
        for name, value in values.items():
            told = told.replace(f"${{{name}}}", str(value))
        return told
    if isinstance(told, dict):
        return {name: filled(value, values) for name, value in told.items()}
    return [filled(one, values) for one in told] if isinstance(told, list) else told
