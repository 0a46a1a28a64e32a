"""What persons decided about that which the files of workspaces would run: MCP servers, hooks.

Once for each content in a workspace: what was allowed runs there without another question until it
changes, and is asked about in any other workspace, whose files of the same names may be others.
Where nobody answers it is denied, and not asked again in this chat by this run of the daemon. The
daemon and the command line both change the files, one after the other.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.agent.approvals import BY_NOBODY
from agentd.agent.engine import Approver, Question
from agentd.core.clock import Clock, SystemClock, Timestamp
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem, NotFound
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.lock import hold_lock

MOST_DECISIONS = 500
"""The oldest ones are forgotten, and asked about again."""
_LARGEST_FILE = 2**20


class WorkspaceDecision(Struct, frozen=True, omit_defaults=True):
    """A person's decision about what a workspace's file would run, with this content."""

    name: str
    """Of the MCP server, or the file with the hooks."""
    digest: str
    allowed: bool
    at: Timestamp
    by: str = ""
    """Who decided, such as ``user:anna``; empty: it was not kept."""


class DecisionsJson(Struct, frozen=True):
    """The content of ``mcp-decisions.json`` and ``hook-decisions.json``."""

    decisions: tuple[WorkspaceDecision, ...] = ()
    format: Literal[1] = 1


class DecisionFile:
    """The decisions about one kind of thing, ``about`` which they are; its methods block."""

    def __init__(self, path: str, lock: str, about: str) -> None:
        self._path = path
        self._lock = lock
        self._about = about

    def load(self) -> tuple[WorkspaceDecision, ...]:
        """Return what was decided, the oldest first; ``ConfigError`` if the file is damaged."""
        found = document.read_document(self._path, _LARGEST_FILE, own=True)
        if found is None:
            return ()
        try:
            return msgspec.json.decode(found.data, type=DecisionsJson).decisions
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged: {error}; delete it, and each of the {self._about}"
            problem = ConfigProblem(self._path, 0, f"{what} of workspaces is asked about again")
            raise ConfigError([problem]) from error

    def keep(self, decision: WorkspaceDecision) -> None:
        """Add a decision in place of the one about the same content."""
        with self._hold():
            others = [one for one in self.load() if one.digest != decision.digest]
            self._write((*others, decision)[-MOST_DECISIONS:])

    def withdraw(self, digest: str) -> WorkspaceDecision:
        """Remove and return a decision, so that it is asked again; ``NotFound``."""
        with self._hold():
            known = self.load()
            found = next((one for one in known if one.digest == digest), None)
            if found is None:
                raise NotFound(f"There is no such decision about {self._about}")
            self._write(tuple(one for one in known if one is not found))
        return found

    def _hold(self) -> AbstractContextManager[None]:
        return hold_lock(self._lock, f"the decisions about {self._about}")

    def _write(self, decisions: tuple[WorkspaceDecision, ...]) -> None:
        content = msgspec.json.encode(DecisionsJson(decisions)) + b"\n"
        document.replace_document(self._path, content)


def open_server_decisions(layout: Layout) -> DecisionFile:
    """Return the decisions about MCP servers."""
    return DecisionFile(layout.mcp_decisions, layout.mcp_decisions_lock, "MCP servers")


def open_hook_decisions(layout: Layout) -> DecisionFile:
    """Return the decisions about hooks."""
    return DecisionFile(layout.hook_decisions, layout.hook_decisions_lock, "hooks")


class DecisionMaker:
    """Knows what was decided, and asks a person about the rest; ``on_change`` follows a change."""

    def __init__(
        self,
        file: DecisionFile,
        clock: Clock | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.file = file
        """What was decided."""
        self._clock = clock or SystemClock()
        self._on_change = on_change
        self._unanswered: set[tuple[int, str]] = set()
        self._deciding = asyncio.Lock()

    async def decide(
        self,
        name: str,
        digest: str,
        chat_id: int,
        approver: Approver | None,
        describe: Callable[[], Question],
    ) -> str | None:
        """Return None if it may run; else what the history is told, empty for nothing.

        Without an ``approver`` nobody is asked.
        """
        async with self._deciding:
            known = await asyncio.to_thread(self._find, digest)
        if known:
            return None if known.allowed else ""
        if approver is None or (chat_id, digest) in self._unanswered:
            return ""
        answer = await approver.ask(describe())
        if not answer.allowed and not answer.by_person:
            if answer.reason == BY_NOBODY:
                self._unanswered.add((chat_id, digest))
            return answer.reason
        decision = WorkspaceDecision(name, digest, answer.allowed, self._clock.now(), answer.by)
        async with self._deciding:
            await asyncio.to_thread(self.file.keep, decision)
        self._on_change()
        return None if answer.allowed else answer.reason

    async def withdraw(self, digest: str) -> WorkspaceDecision:
        """Forget and return a decision, so that it is asked again; ``NotFound``."""
        async with self._deciding:
            decision = await asyncio.to_thread(self.file.withdraw, digest)
        self._unanswered = {one for one in self._unanswered if one[1] != digest}
        self._on_change()
        return decision

    def _find(self, digest: str) -> WorkspaceDecision | None:
        try:
            known = self.file.load()
        except AgentdError:  # the health check reports it; until then it is asked again
            return None
        return next((one for one in known if one.digest == digest), None)
