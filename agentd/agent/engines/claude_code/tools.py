"""Describes Claude Code's tool uses for the history and for approvals."""

from collections.abc import Callable, Mapping

import msgspec

from agentd.agent.diff import cut_diff, make_diff
from agentd.agent.engines.external.common import (
    MAX_INPUT_LENGTH,
    ToolAccess,
    WorkspaceBounds,
    shorten,
)
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list

ASKS_A_PERSON = "AskUserQuestion"
ENDS_PLANNING = "ExitPlanMode"

_WRITING = ("Edit", "MultiEdit", "NotebookEdit", "Write")
_READING = ("NotebookRead", "Read")
_SEARCHING = ("Glob", "Grep", "LS")
_CALLING = ("WebFetch", "WebSearch")
_RUNNING = ("Bash", "Monitor")
"""Tools that run a command line; ``Monitor`` does so in the background."""
_PATHS = ("file_path", "notebook_path", "path")


def classify_access(tool: str, given: object, blocked: str, bounds: WorkspaceBounds) -> ToolAccess:
    """Classify a tool's access; ``blocked`` is the path that needs approval, if it was named."""
    paths = [get_text(given, name) for name in _PATHS if get_text(given, name)]
    paths += [blocked] if blocked else []
    if tool in _RUNNING:
        return ToolAccess("shell")
    if tool in _WRITING:
        return bounds.classify_write(paths)
    if tool in _READING:
        return bounds.classify_read(paths)
    if tool in _SEARCHING:
        return bounds.classify_search(paths)
    return ToolAccess("network" if tool in _CALLING else "other")


def describe_subject(tool: str, given: object, bounds: WorkspaceBounds) -> str:
    """Return the full subject of a tool call: the command, the path, the address."""
    describe = _SUBJECTS.get(tool)
    subject = describe(given, bounds) if describe else ""
    return subject or ("" if given in (None, {}) else msgspec.json.encode(given).decode())


def describe_use(block: object, bounds: WorkspaceBounds) -> tuple[str, str]:
    """Return the name of a used tool and its input, shortened."""
    tool = get_text(block, "name")
    return tool, shorten(describe_subject(tool, get_path(block, "input"), bounds), MAX_INPUT_LENGTH)


def describe_outcome(block: object) -> str:
    """Return the outcome of a tool, shortened."""
    parts = [get_text(part, "text") for part in iter_list(block, "content")]
    subject = get_text(block, "content") or "\n".join(part for part in parts if part)
    failed = get_path(block, "is_error") is True
    return shorten(f"failed: {subject}" if failed else subject)


def has_succeeded(block: object) -> bool:
    """Return whether a tool did what it was to do."""
    return get_path(block, "is_error") is not True


def render_diff(tool: str, given: object, bounds: WorkspaceBounds) -> str:
    """Return a tool's change of a file as a diff without line numbers, which are unknown."""
    path = _describe_path(given, bounds)
    match tool:
        case "Write":
            return make_diff(path, None, get_text(given, "content"))
        case "Edit":
            edits: list[object] = [given]
        case "MultiEdit":
            edits = list(iter_list(given, "edits"))
        case "NotebookEdit":  # names the cell, and says nothing of what is in it now
            edits = [{"new_string": get_text(given, "new_source")}]
        case _:
            return ""
    diffs = (
        make_diff(path, get_text(edit, "old_string"), get_text(edit, "new_string"))
        for edit in edits
    )
    return cut_diff("\n".join(filter(None, diffs)))


def _describe_path(given: object, bounds: WorkspaceBounds) -> str:
    path = next((get_text(given, name) for name in _PATHS if get_text(given, name)), "")
    return bounds.display_path(path) if path else ""


def _describe_search(given: object, bounds: WorkspaceBounds) -> str:
    pattern, path = get_text(given, "pattern"), _describe_path(given, bounds)
    return f"{pattern} in {path}" if pattern and path else pattern


def _read_member(name: str) -> Callable[[object, WorkspaceBounds], str]:
    return lambda given, _: get_text(given, name)


_SUBJECTS: Mapping[str, Callable[[object, WorkspaceBounds], str]] = {
    **dict.fromkeys((*_WRITING, "LS", "NotebookRead", "Read"), _describe_path),
    **dict.fromkeys(("Glob", "Grep"), _describe_search),
    **dict.fromkeys(("Agent", "Task"), _read_member("description")),
    **dict.fromkeys(_RUNNING, _read_member("command")),
    ENDS_PLANNING: _read_member("plan"),
    "Skill": _read_member("skill"),
    "WebFetch": _read_member("url"),
    "WebSearch": _read_member("query"),
}
