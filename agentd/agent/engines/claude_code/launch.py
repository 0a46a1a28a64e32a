"""Builds the command line of Claude Code, and its saved state."""

import json
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.external.common import ModelEndpoint
from agentd.agent.engines.external.conversation import (
    CONFIG_DESCRIPTOR,
    SECRET_DESCRIPTOR,
    ProgramLaunch,
)
from agentd.agent.text import sanitize

LONGEST_ARGUMENT = 100_000
"""Bytes; Linux allows 128 KiB. Longer instructions precede a session's first prompt."""

_ARGUMENTS = (
    *("--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
    *("--permission-prompt-tool", "stdio"),
    *("--setting-sources=user", "--include-partial-messages"),
)
_ADVICE = ("--add-dir=.",)
_ENVIRONMENT = {
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
}
"""The second and the option above have it read the workspace's CLAUDE.md and rules, which it
otherwise treats as project settings. Hooks, permissions, programs and variables of a workspace stay
off.

The last takes away its own schedules. It would write them to the workspace's ``.claude`` without a
question, and carry them out in the turns of other chats, and in the person's terminal.
"""
_ASKS_FOR = (
    *("Bash", "Monitor", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "LS"),
    *("WebFetch", "WebSearch", "EnterWorktree"),
)
"""Tools that must ask agentd each time; unprotected files are answered at once.

By default Claude Code reads everything in its folder, also by commands that it considers
harmless, fetches pages of hosts that it knows, and makes git work trees; and the person's settings
may allow more. A rule that asks precedes one that allows.
"""
_NEVER = ("ScheduleWakeup",)
"""Tools whose promise cannot be kept: the program ends with the turn, and wakes nobody."""
_PERMISSIONS = {"permissions": {"ask": _ASKS_FOR, "deny": _NEVER}}
_RESUME = "--resume="
_NO_KEY = "none"
"""A placeholder: without any key Claude Code would send the person's own login to the supplier."""
_OTHER_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class ClaudeState(Struct, frozen=True):
    """The state of a chat with Claude Code, as JSON."""

    session: str = ""
    instructions: str = ""
    """A digest of the instructions that the session has read."""

    @classmethod
    def parse(cls, kept: str) -> "ClaudeState":
        """Parse the saved state; return an empty one for anything else."""
        try:
            return msgspec.json.decode(kept, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            return cls()

    def __str__(self) -> str:
        """Return the saved form."""
        return msgspec.json.encode(self).decode()


def build_launch(
    assignment: TurnRequest,
    command: tuple[str, ...],
    endpoint: ModelEndpoint | None,
    mcp_config: str = "",
) -> ProgramLaunch:
    """Return the command for a turn of Claude Code, whose model is at ``endpoint``.

    ``mcp_config`` is a file with MCP servers and their secrets. Values are joined to their option
    with ``=``, so none can be mistaken for an option.
    """
    settings, environment = _build_access(endpoint) if endpoint else ({}, {})
    option = f"--settings={json.dumps({**settings, **_PERMISSIONS})}"
    mode = f"--permission-mode={assignment.mode or 'default'}"
    given = [*(assignment.command or command), *_ARGUMENTS, mode, option]
    values = {
        "model": assignment.model,
        "effort": assignment.effort,
        "json-schema": assignment.output_schema,
        "append-system-prompt": sanitize(assignment.instructions),
    }
    if not fits_argument(assignment.instructions):
        del values["append-system-prompt"]
    given += [f"--{name}={value}" for name, value in values.items() if value]
    given += _ADVICE
    if mcp_config:
        given.append(f"--mcp-config=/proc/self/fd/{CONFIG_DESCRIPTOR}")
    if session := ClaudeState.parse(assignment.engine_state).session:
        given.append(f"{_RESUME}{session}")
    key = endpoint.key if endpoint else ""
    return ProgramLaunch(tuple(given), {**_ENVIRONMENT, **environment}, key, mcp_config)


def without_session(launched: ProgramLaunch) -> ProgramLaunch:
    """Return the launch without the session to resume."""
    command = tuple(one for one in launched.command if not one.startswith(_RESUME))
    return structs.replace(launched, command=command)


def fits_argument(instructions: str) -> bool:
    """Return whether the instructions fit into an argument."""
    return len(sanitize(instructions).encode()) <= LONGEST_ARGUMENT


def _build_access(endpoint: ModelEndpoint) -> tuple[dict[str, object], dict[str, str]]:
    """Return the settings and variables for reaching the supplier, without its key.

    The key is read from a descriptor, since commands of Claude Code would inherit a variable.
    Its own switch against that (``CLAUDE_CODE_SUBPROCESS_ENV_SCRUB``) does not help: Claude Code
    then does not start without bubblewrap, and leaves empty files behind with it.

    Settings on the command line take precedence over the person's own, which may name another
    supplier, or a key for it.
    """
    address = {"ANTHROPIC_BASE_URL": endpoint.base_url.removesuffix("/v1")}
    settings: dict[str, object] = {"env": {**dict.fromkeys(_OTHER_KEYS, ""), **address}}
    if not endpoint.key:
        return {"env": {**address, "ANTHROPIC_AUTH_TOKEN": _NO_KEY}}, address
    host = urlsplit(endpoint.url).hostname or ""
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return settings, {**address, "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR": SECRET_DESCRIPTOR}
    # The output of a key helper is sent as an API key and as a bearer token: suppliers differ
    # in which of the two they accept.
    return {**settings, "apiKeyHelper": f"cat /proc/$PPID/fd/{SECRET_DESCRIPTOR}"}, address
