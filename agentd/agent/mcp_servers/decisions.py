"""What persons decided about the servers of workspaces: ``mcp-decisions.json`` of the state folder.

The daemon and ``agentd mcp-servers`` both change the file, one after the other.
"""

from contextlib import AbstractContextManager
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import ConfigError, ConfigProblem, NotFound
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.lock import hold_lock

MOST_DECISIONS = 500
"""The oldest ones are forgotten, and asked about again."""
_LARGEST_FILE = 2**20


class ServerDecision(Struct, frozen=True):
    """A person's decision about a server with this content."""

    name: str
    digest: str
    allowed: bool
    at: Timestamp


class DecisionsFile(Struct, frozen=True):
    """The content of ``mcp-decisions.json``."""

    decisions: tuple[ServerDecision, ...] = ()
    format: Literal[1] = 1


def load_decisions(layout: Layout) -> tuple[ServerDecision, ...]:
    """Return what was decided, the oldest first; ``ConfigError`` if the file is damaged.

    Blocking.
    """
    path = layout.mcp_decisions
    found = document.read_document(path, _LARGEST_FILE, own=True)
    if found is None:
        return ()
    try:
        return msgspec.json.decode(found.data, type=DecisionsFile).decisions
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"is damaged: {error}; delete it, and each server is asked about again"
        raise ConfigError([ConfigProblem(path, 0, what)]) from error


def keep_decision(layout: Layout, decision: ServerDecision) -> None:
    """Add a decision in place of the one about the same content. Blocking."""
    with _hold_file(layout):
        others = [one for one in load_decisions(layout) if one.digest != decision.digest]
        _write(layout, (*others, decision)[-MOST_DECISIONS:])


def withdraw_decision(layout: Layout, digest: str) -> ServerDecision:
    """Remove and return a decision, so that the server is asked about again. Blocking.

    Raises ``NotFound``.
    """
    with _hold_file(layout):
        known = load_decisions(layout)
        found = next((one for one in known if one.digest == digest), None)
        if found is None:
            raise NotFound("There is no such decision about an MCP server")
        _write(layout, tuple(one for one in known if one is not found))
    return found


def _hold_file(layout: Layout) -> AbstractContextManager[None]:
    return hold_lock(layout.mcp_decisions_lock, "the decisions about MCP servers")


def _write(layout: Layout, decisions: tuple[ServerDecision, ...]) -> None:
    content = msgspec.json.encode(DecisionsFile(decisions)) + b"\n"
    document.replace_document(layout.mcp_decisions, content)
