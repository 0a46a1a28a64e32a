"""How Claude Code is started, and what it keeps for a chat."""

import json
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from agentd.agent.conversation import SECRET_DESCRIPTOR, Launch
from agentd.agent.engine import Assignment
from agentd.agent.foreign import Endpoint
from agentd.agent.text import plain

LONGEST_ARGUMENT = 100_000
"""Bytes; Linux takes 128 KiB. Longer instructions stand before a session's first prompt."""

_ARGUMENTS = (
    *("--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
    *("--permission-prompt-tool", "stdio", "--permission-mode=default"),
    *("--setting-sources=user", "--include-partial-messages"),
)
_ADVICE = ("--add-dir=.",)
_ENVIRONMENT = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}
"""Together they have it read the workspace's CLAUDE.md and rules, which it takes for project
settings otherwise. Hooks, permissions, programs and variables that a workspace brings stay off."""
_ASKS_FOR = ("Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "LS")
"""Tools about which we are asked each time; files are answered at once where none is protected.

By itself Claude Code reads whatever is in its folder, with commands that it takes for harmless,
too, and the person's own settings may allow more; a rule that asks comes before one that allows.
"""
_PERMISSIONS = {"permissions": {"ask": _ASKS_FOR}}
_RESUME = "--resume="
_NO_KEY = "none"
"""Without any key the person's own sign-in would be sent to the supplier."""
_OTHER_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class Memory(Struct, frozen=True):
    """What Claude Code keeps for a chat, as JSON."""

    session: str = ""

    @classmethod
    def read(cls, kept: str) -> "Memory":
        """The memory as it was kept; an empty one for anything else."""
        try:
            return msgspec.json.decode(kept, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            return cls()

    def __str__(self) -> str:
        """As it is kept."""
        return msgspec.json.encode(self).decode()


def launch(assignment: Assignment, command: tuple[str, ...], endpoint: Endpoint | None) -> Launch:
    """How Claude Code is started for a turn; with ``endpoint`` its model is reached there.

    Values are joined to their option with ``=``: none can be taken for an option.
    """
    settings, environment = _access(endpoint) if endpoint else ({}, {})
    told = f"--settings={json.dumps({**settings, **_PERMISSIONS})}"
    given = [*(assignment.command or command), *_ARGUMENTS, told]
    values = {
        "model": assignment.model,
        "effort": assignment.effort,
        "append-system-prompt": plain(assignment.instructions),
    }
    if not fits(assignment.instructions):
        del values["append-system-prompt"]
    given += [f"--{name}={value}" for name, value in values.items() if value]
    given += _ADVICE
    if session := Memory.read(assignment.memory).session:
        given.append(f"{_RESUME}{session}")
    key = endpoint.key if endpoint else ""
    return Launch(tuple(given), {**_ENVIRONMENT, **environment}, key)


def afresh(launched: Launch) -> Launch:
    """The same without a session to go on with."""
    command = tuple(one for one in launched.command if not one.startswith(_RESUME))
    return structs.replace(launched, command=command)


def fits(instructions: str) -> bool:
    """Whether the instructions can be an argument."""
    return len(plain(instructions).encode()) <= LONGEST_ARGUMENT


def _access(endpoint: Endpoint) -> tuple[dict[str, object], dict[str, str]]:
    """Settings and variables by which the supplier is reached, without its key.

    The key is read from a descriptor: a variable would be inherited by the commands that Claude
    Code runs. Its own switch against that (``CLAUDE_CODE_SUBPROCESS_ENV_SCRUB``) is no way: with
    it Claude Code does not start without bubblewrap, and with it leaves empty files behind.

    The settings of the command line count more than the person's own, which may name another
    supplier, or a key for it.
    """
    address = {"ANTHROPIC_BASE_URL": endpoint.base.removesuffix("/v1")}
    settings: dict[str, object] = {"env": {**dict.fromkeys(_OTHER_KEYS, ""), **address}}
    if not endpoint.key:
        return {"env": {**address, "ANTHROPIC_AUTH_TOKEN": _NO_KEY}}, address
    host = urlsplit(endpoint.url).hostname or ""
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return settings, {**address, "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR": SECRET_DESCRIPTOR}
    # What a helper tells is sent as an API key and as a bearer token: suppliers differ in which
    # of the two they take.
    return {**settings, "apiKeyHelper": f"cat /proc/$PPID/fd/{SECRET_DESCRIPTOR}"}, address
