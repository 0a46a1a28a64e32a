"""How Claude Code is started, and what it keeps for a chat."""

from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from agentd.agent.conversation import Launch
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
_RESUME = "--resume="
_NO_KEY = "none"
"""Without any key the person's own sign-in would be sent to the supplier."""


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
    given = [*(assignment.command or command), *_ARGUMENTS]
    values = {
        "model": assignment.model,
        "effort": assignment.effort,
        "append-system-prompt": plain(assignment.instructions),
    }
    if not fits(assignment.instructions):
        del values["append-system-prompt"]
    given += [f"--{name}={value}" for name, value in values.items() if value]
    if session := Memory.read(assignment.memory).session:
        given.append(f"{_RESUME}{session}")
    return Launch(tuple(given), {"DISABLE_AUTOUPDATER": "1", **_access(endpoint)})


def afresh(launched: Launch) -> Launch:
    """The same without a session to go on with."""
    command = tuple(one for one in launched.command if not one.startswith(_RESUME))
    return Launch(command, launched.environment)


def fits(instructions: str) -> bool:
    """Whether the instructions can be an argument."""
    return len(plain(instructions).encode()) <= LONGEST_ARGUMENT


def _access(endpoint: Endpoint | None) -> dict[str, str]:
    """The key is in its own environment alone, and not in that of the commands that it runs."""
    if endpoint is None:
        return {}
    host = urlsplit(endpoint.url).hostname or ""
    anthropic = host == "anthropic.com" or host.endswith(".anthropic.com")
    return {
        "ANTHROPIC_BASE_URL": endpoint.base.removesuffix("/v1"),
        # Anthropic itself takes a key as such, everybody else as a bearer's token.
        "ANTHROPIC_API_KEY" if anthropic else "ANTHROPIC_AUTH_TOKEN": endpoint.key or _NO_KEY,
        "CLAUDE_CODE_SUBPROCESS_ENV_SCRUB": "1",
    }
