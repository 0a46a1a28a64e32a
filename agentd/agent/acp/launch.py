"""How an ACP agent is started."""

import json
import posixpath
from collections.abc import Mapping

from agentd.agent.conversation import SECRET_DESCRIPTOR, Launch
from agentd.agent.engine import Assignment
from agentd.agent.foreign import Endpoint
from agentd.proxy.price import Prices

PROVIDER = "agentd"

_PERMISSIONS: Mapping[str, str] = {
    "*": "ask",
    "task": "allow",
    "todoread": "allow",
    "todowrite": "allow",
    "skill": "allow",
    "question": "deny",
}
"""opencode does everything unasked by default. Nobody is there to fill in a ``question``."""

_USUAL_CONTEXT = 200_000
"""Tokens, for a model of which nothing is known."""

_UNTITLED: Mapping[str, object] = {"agent": {"title": {"disable": True}}}
"""A title is asked of the model for each session: nobody reads it, and no cost tells of it."""


def launch(
    assignment: Assignment,
    command: tuple[str, ...],
    endpoint: Endpoint | None,
    prices: Prices | None = None,
) -> Launch:
    """How the agent is started for a turn.

    The protocol says nothing of suppliers. For opencode, ``endpoint``, what its model costs and
    the duty to ask are put into its configuration, beside the person's own; any other agent
    brings its own.
    """
    given = tuple(assignment.command or command)
    if posixpath.basename(given[0]) != "opencode":
        return Launch(given)
    settings: dict[str, object] = {"permission": _PERMISSIONS, "autoupdate": False, **_UNTITLED}
    environment: dict[str, str] = {}
    if endpoint:
        options = {"baseURL": endpoint.base}
        if endpoint.key:
            options["apiKey"] = f"{{file:/proc/self/fd/{SECRET_DESCRIPTOR}}}"
        settings["provider"] = {PROVIDER: _provider(assignment, options, prices)}
        settings["model"] = f"{PROVIDER}/{assignment.model}"
        settings["enabled_providers"] = [PROVIDER]  # no host of opencode's own
    environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(settings)
    return Launch(given, environment, endpoint.key if endpoint else "")


def _provider(
    assignment: Assignment, options: Mapping[str, str], prices: Prices | None
) -> Mapping[str, object]:
    model: dict[str, object] = {"name": assignment.model}
    if prices:  # it sums all its calls up with them; tokens it tells of the last one only
        buckets = ("input", "output", "cache_read", "cache_write")
        model["cost"] = {name: float(prices.of(name)[0]) for name in buckets}
    # It tells its costs only for a model whose limit it knows.
    context = assignment.context or _USUAL_CONTEXT
    model["limit"] = {"context": context, "output": min(context, 32_000)}
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": assignment.supplier or PROVIDER,
        "options": options,
        "models": {assignment.model: model},
    }
