"""Builds the command line and environment of an ACP agent."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.external.common import ModelEndpoint
from agentd.agent.engines.external.conversation import SECRET_DESCRIPTOR, ProgramLaunch
from agentd.llm.price import Prices

PROVIDER = "agentd"

_PERMISSIONS: Mapping[str, str] = {
    "*": "ask",
    "task": "allow",
    "todoread": "allow",
    "todowrite": "allow",
    "skill": "allow",
    "question": "deny",
}
"""The permissions of opencode, which by default asks for none. Nobody can answer ``question``."""

_ERRORS_TO_STDERR = ("--print-logs", "--log-level", "ERROR")
"""Log to stderr: only there is a wait after a supplier's refusal visible (``explain_silence``)."""

_USUAL_CONTEXT = 200_000
"""Tokens, for an unknown model."""

_UNTITLED: Mapping[str, object] = {"agent": {"title": {"disable": True}}}
"""Settings without titles: opencode would ask the model for one, at a cost it does not report."""

_PLUGINS = tuple(
    (Path(__file__).parent / f"opencode_{name}.js").as_uri()
    for name in ("usage", "permissions", "sub_agents", "servers")
)
"""They tell the tokens of each call, have opencode ask where its settings allow a tool, ask for its
sub-agents, and tell which MCP servers work. opencode adds them to the person's own.
"""

_NO_PROJECT = {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
"""With it opencode uses no ``opencode.json`` and no ``.opencode`` of a workspace.

It would run their tools, MCP servers, formatters and shell without a question. But it does not read
the project's instructions either, which are therefore named in its settings.
"""


def is_opencode(command: Sequence[str]) -> bool:
    """Return whether a command starts opencode."""
    return posixpath.basename(command[0]) == "opencode"


def build_launch(
    assignment: TurnRequest,
    command: tuple[str, ...],
    endpoint: ModelEndpoint | None,
    prices: Prices | None = None,
    instruction_files: Sequence[str] | None = (),
) -> ProgramLaunch:
    """Return the command for a turn of the agent.

    The protocol does not cover suppliers. For opencode, ``endpoint``, the model's prices, the
    permissions and the project's instructions (absolute paths; None: it uses all settings of the
    project) are added to the person's configuration; any other agent uses its own.
    """
    given = tuple(assignment.command or command)
    if not is_opencode(given):
        return ProgramLaunch(given)
    if "acp" in given and not any(one.startswith(("--print-logs", "--log")) for one in given):
        given += _ERRORS_TO_STDERR
    settings: dict[str, object] = {"permission": _PERMISSIONS, "autoupdate": False, **_UNTITLED}
    settings["plugin"] = _PLUGINS
    environment: dict[str, str] = {}
    if instruction_files is not None:
        settings["instructions"] = instruction_files
        environment |= _NO_PROJECT
    if endpoint:
        options = {"baseURL": endpoint.base_url}
        if endpoint.key:
            options["apiKey"] = f"{{file:/proc/self/fd/{SECRET_DESCRIPTOR}}}"
        settings["provider"] = {PROVIDER: _build_provider(assignment, options, prices)}
        settings["model"] = f"{PROVIDER}/{assignment.model}"
        settings["enabled_providers"] = [PROVIDER]  # no host of opencode's own
    environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(settings)
    return ProgramLaunch(given, environment, endpoint.key if endpoint else "")


def _build_provider(
    assignment: TurnRequest, options: Mapping[str, str], prices: Prices | None
) -> Mapping[str, object]:
    model: dict[str, object] = {"name": assignment.model}
    if prices:
        buckets = ("input", "output", "cache_read", "cache_write")
        model["cost"] = {name: float(prices.get_rate(name)[0]) for name in buckets}
    # It reports costs only for a model whose limit it knows.
    context = assignment.context or _USUAL_CONTEXT
    if assignment.images or any("uploads/" in one.text for one in assignment.history):
        # Without it, opencode leaves images out, also those of earlier prompts of the session.
        model["attachment"] = True
        model["modalities"] = {"input": ["text", "image"], "output": ["text"]}
    model["limit"] = {"context": context, "output": min(context, 32_000)}
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": assignment.supplier or PROVIDER,
        "options": options,
        "models": {assignment.model: model},
    }
