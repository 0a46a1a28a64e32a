"""``hooks.yml``, the files of workspaces, and what persons decided about these.

The hooks of a workspace are asked about once for each content: what was allowed runs without
another question until the file's hooks change. Where nobody answers they do not run, and are not
asked about again in this chat by this run of the daemon.
"""

import asyncio
import os
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.agent.approvals import BY_NOBODY
from agentd.agent.engine import Approver, Question
from agentd.agent.hooks.model import (
    WORKSPACE_FILES,
    Hook,
    HookSettings,
    WorkspaceHooks,
    parse_workspace_file,
    validate,
)
from agentd.core.clock import Clock, SystemClock, Timestamp
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader

LARGEST_FILE = 256 * 1024
MOST_DECISIONS = 500
"""The oldest ones are forgotten, and asked about again."""
TOOL = "workspace_hooks"
"""The tool in the question about the hooks of a workspace."""


class HookDecision(Struct, frozen=True):
    """A person's decision about hooks with this content."""

    name: str
    digest: str
    allowed: bool
    at: Timestamp


class HookDecisions(Struct, frozen=True):
    """The content of ``hook-decisions.json``."""

    decisions: tuple[HookDecision, ...] = ()
    format: Literal[1] = 1


def load(layout: Layout) -> HookSettings:
    """Return the content of ``hooks.yml``; without it there are no hooks. Blocking.

    Raises ``ConfigError`` with every mistake, or ``Unavailable``.
    """
    path = layout.hooks_settings
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE, own=True)
    if found is None:
        return HookSettings()
    return yaml_reader.load_yaml(path, found.data, HookSettings, validate)


def load_decisions(layout: Layout) -> tuple[HookDecision, ...]:
    """Return what was decided, the oldest first; ``ConfigError`` if the file is damaged.

    Blocking.
    """
    path = layout.hook_decisions
    found = document.read_document(path, 2**20, own=True)
    if found is None:
        return ()
    try:
        return msgspec.json.decode(found.data, type=HookDecisions).decisions
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"is damaged: {error}; delete it, and hooks of workspaces are asked about again"
        raise ConfigError([ConfigProblem(path, 0, what)]) from error


def keep_decision(layout: Layout, decision: HookDecision) -> None:
    """Add a decision in place of the one about the same content. Blocking."""
    others = [one for one in load_decisions(layout) if one.digest != decision.digest]
    kept = HookDecisions((*others, decision)[-MOST_DECISIONS:])
    document.replace_document(layout.hook_decisions, msgspec.json.encode(kept) + b"\n")


class HooksOfWorkspaces:
    """Finds the allowed hooks of a folder, and asks about the others."""

    def __init__(self, layout: Layout, clock: Clock | None = None) -> None:
        self._layout = layout
        self._clock = clock or SystemClock()
        self._unanswered: set[tuple[int, str]] = set()
        self._deciding = asyncio.Lock()

    async def find_allowed(
        self, folder: str, chat_id: int, approver: Approver
    ) -> tuple[tuple[Hook, ...], tuple[tuple[str, str], ...]]:
        """Return the hooks that may run, and what the history is told of others."""
        hooks: list[Hook] = []
        told: list[tuple[str, str]] = []
        for file in await asyncio.to_thread(_read_files, folder):
            told += [(file.source, problem) for problem in file.problems]
            if file.hooks:
                why = await self._decide(file, chat_id, approver)
                if why is None:
                    hooks += file.hooks
                elif why:
                    told.append((file.source, why))
        return tuple(hooks), tuple(told)

    async def _decide(self, file: WorkspaceHooks, chat_id: int, approver: Approver) -> str | None:
        """Return None if they may run; else what the history is told, empty for nothing."""
        digest = file.digest
        async with self._deciding:
            known = await asyncio.to_thread(self._find, digest)
        if known:
            return None if known.allowed else ""
        if (chat_id, digest) in self._unanswered:
            return ""
        answer = await approver.ask(_ask_about(file))
        if not answer.allowed and not answer.by_person:
            if answer.reason == BY_NOBODY:
                self._unanswered.add((chat_id, digest))
            return f"its hooks were not allowed: {answer.reason}"
        decision = HookDecision(file.source, digest, answer.allowed, self._clock.now())
        async with self._deciding:
            await asyncio.to_thread(keep_decision, self._layout, decision)
        return None if answer.allowed else f"its hooks were not allowed: {answer.reason}"

    def _find(self, digest: str) -> HookDecision | None:
        try:
            known = load_decisions(self._layout)
        except AgentdError:  # the health check reports it; until then it is asked again
            return None
        return next((one for one in known if one.digest == digest), None)


def _read_files(folder: str) -> list[WorkspaceHooks]:
    return [file for file in (_read_file(folder, path) for path in WORKSPACE_FILES) if file]


def _read_file(folder: str, path: str) -> WorkspaceHooks | None:
    try:
        found = document.read_document(os.path.join(folder, path), LARGEST_FILE)
    except ConfigError as error:
        return WorkspaceHooks(path, problems=tuple(one.what for one in error.problems))
    except AgentdError as error:
        return WorkspaceHooks(path, problems=(error.message,))
    return parse_workspace_file(path, found.data) if found else None


def _ask_about(file: WorkspaceHooks) -> Question:
    why = (
        f"The workspace's {file.source} has hooks, which are run without another question in every"
        " chat of the native engine until they change."
    )
    return Question("other", TOOL, file.describe(), protected=why)
