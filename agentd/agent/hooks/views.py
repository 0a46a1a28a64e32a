"""Hooks as the API and the command line show them."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from agentd.agent.hooks.model import Hook, HookEvent, WorkspaceHooks
from agentd.agent.workspace_decisions import WorkspaceDecision
from agentd.core.clock import Timestamp


class HookView(Struct, frozen=True):
    """A command line that the native engine runs."""

    event: HookEvent
    matcher: str
    """The tools that it is for; empty: all, or the event is not of tools."""
    command: str
    seconds: float
    """It is ended after so many."""


class WorkspaceHooksView(Struct, frozen=True, rename="camel"):
    """The hooks of one file of the workspace, or a decision about ones that such a file had."""

    id: str
    """Identifies the file's hooks as they are now; to withdraw the decision."""
    source: str
    """The file, in the workspace."""
    hooks: list[HookView]
    """Empty: they are no longer there."""
    decision: Literal["allowed", "denied", "undecided"]
    decided_at: Timestamp | None
    decided_by: str
    """Who decided, such as ``user:anna``; empty: nobody, or it was not kept."""
    is_present: bool
    """The workspace's file has these hooks now."""


class HooksOfWorkspaceView(Struct, frozen=True):
    """The hooks of the workspace's files, and what was decided about such hooks."""

    ignored: bool
    """``workspace_hooks: false`` in ``hooks.yml``."""
    files: list[WorkspaceHooksView]
    problems: list[str]


class HooksView(Struct, frozen=True):
    """All hooks: those of ``hooks.yml`` in its order, with its problems (empty: none)."""

    hooks: list[HookView]
    problems: list[str]
    workspace: HooksOfWorkspaceView


def make_hook_view(hook: Hook) -> HookView:
    """Return a hook as it is shown."""
    return HookView(hook.event, hook.matcher, hook.command, hook.seconds)


def list_workspace_views(
    files: Iterable[WorkspaceHooks], decisions: Iterable[WorkspaceDecision]
) -> list[WorkspaceHooksView]:
    """Return the files with hooks, in their order, then decisions about others, newest first."""
    decided = {one.digest: one for one in decisions}
    shown = [_make_view(one, decided.pop(one.digest, None)) for one in files if one.hooks]
    gone = sorted(decided.values(), key=lambda one: one.at, reverse=True)
    return shown + [_make_view(WorkspaceHooks(one.name), one) for one in gone]


def _make_view(file: WorkspaceHooks, decision: WorkspaceDecision | None) -> WorkspaceHooksView:
    hooks = list(map(make_hook_view, file.hooks))
    if decision is None:
        return WorkspaceHooksView(file.digest, file.source, hooks, "undecided", None, "", True)
    outcome: Literal["allowed", "denied"] = "allowed" if decision.allowed else "denied"
    at, by = decision.at, decision.by
    return WorkspaceHooksView(
        decision.digest, file.source, hooks, outcome, at, by, bool(file.hooks)
    )
