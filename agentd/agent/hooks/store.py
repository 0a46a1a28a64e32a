"""``hooks.yml``, and the files of workspaces, whose hooks a person is asked about.

What was decided is kept in ``hook-decisions.json`` of the state folder.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial

from msgspec import structs

from agentd.agent.engine import Approver, Question
from agentd.agent.hooks.model import (
    WORKSPACE_FILES,
    Hook,
    HookSettings,
    WorkspaceHooks,
    parse_workspace_file,
    validate,
)
from agentd.agent.workspace_decisions import (
    DecisionMaker,
    WorkspaceDecision,
    open_hook_decisions,
)
from agentd.core.errors import AgentdError, ConfigError
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader

LARGEST_FILE = 256 * 1024
TOOL = "workspace_hooks"
"""The tool in the question about the hooks of a workspace."""


def load(layout: Layout) -> HookSettings:
    """Return the content of ``hooks.yml``; without it there are no hooks. Blocking.

    Raises ``ConfigError`` with every mistake, or ``Unavailable``.
    """
    path = layout.hooks_settings
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE, own=True)
    if found is None:
        return HookSettings()
    return yaml_reader.load_yaml(path, found.data, HookSettings, validate)


class HooksOfWorkspaces:
    """Finds the allowed hooks of a folder, and asks about the others.

    A folder is the ``workspace``, in which decisions count, or a work tree of it.
    """

    def __init__(
        self, layout: Layout, on_change: Callable[[], None] = lambda: None, workspace: str = ""
    ) -> None:
        self._workspace = workspace
        self._decisions = DecisionMaker(open_hook_decisions(layout), on_change=on_change)

    async def find_allowed(
        self, folder: str, chat_id: int, approver: Approver
    ) -> tuple[tuple[Hook, ...], tuple[tuple[str, str], ...]]:
        """Return the hooks that may run, and what the history is told of others."""
        hooks: list[Hook] = []
        problems: list[tuple[str, str]] = []
        for file in await asyncio.to_thread(read_workspace_files, folder, self._workspace):
            problems += [(file.source, problem) for problem in file.problems]
            if file.hooks:
                ask = partial(_ask_about, file)
                source, digest = file.source, file.digest
                why = await self._decisions.decide(source, digest, chat_id, approver, ask)
                if why is None:
                    hooks += file.hooks
                elif why:
                    problems.append((source, f"its hooks were not allowed: {why}"))
        return tuple(hooks), tuple(problems)

    def read(
        self, folder: str
    ) -> tuple[tuple[WorkspaceHooks, ...], tuple[WorkspaceDecision, ...], tuple[str, ...]]:
        """Return the hooks of a folder's files, all decisions, and the problems. Blocking."""
        files = tuple(read_workspace_files(folder, self._workspace))
        problems = tuple(f"{file.source}: {one}" for file in files for one in file.problems)
        try:
            return files, self._decisions.file.load(), problems
        except AgentdError as error:
            return files, (), (*problems, error.details or error.message)

    async def withdraw(self, digest: str) -> None:
        """Forget a decision, so that the hooks are asked about again; ``NotFound``."""
        await self._decisions.withdraw(digest)


def read_workspace_files(folder: str, workspace: str) -> list[WorkspaceHooks]:
    """Return the files that may have hooks, of a workspace or a work tree of it. Blocking."""
    real = os.path.realpath(workspace)
    files = (_read_file(folder, path) for path in WORKSPACE_FILES)
    return [structs.replace(file, workspace=real) for file in files if file]


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
