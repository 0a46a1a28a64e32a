"""The native engine's tools in the words of Claude Code, for which hooks are written. Pure.

A hook that guards ``Bash`` or ``Edit|Write`` thus holds for the tools that do the same here. A
patch of several files is told once for each file. A changed input is translated back: it may have
the names of either side, and what it changes counts.
"""

import os.path
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct, structs

from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.agent.tools.model import (
    ApplyPatch,
    EditFile,
    EditManyPlaces,
    FetchPage,
    FindFiles,
    ListFiles,
    ReadFile,
    Replacement,
    RunCommand,
    RunTask,
    SearchText,
    StartProcess,
    ToolUse,
    ViewFile,
    WriteFile,
)
from agentd.agent.tools.patch import parse_patch
from agentd.core.errors import BadRequest

_OWN_NAMES = {
    **{"file_path": "path", "content": "text"},
    **{"old_string": "old", "new_string": "new", "replace_all": "all"},
}


class ToolForm(Struct, frozen=True):
    """A use of a tool as a hook is told of it."""

    name: str
    """The name in the hook's input."""
    names: frozenset[str]
    """The names that a matcher may have."""
    input: dict[str, Any]


def make_forms(use: ToolUse | McpToolUse, root: str) -> list[ToolForm]:
    """Return what hooks are told of a use of a tool in the folder ``root``."""
    if isinstance(use, McpToolUse):
        return [_make_form(use.name, use.name, dict(use.arguments))]
    if isinstance(use, ApplyPatch):
        return _list_patched(use, root)
    given = msgspec.to_builtins(use)
    name, more = _translate(use, root)
    return [_make_form(use.name, name, given | dict(more))]


def change_use(
    use: ToolUse | McpToolUse, shown: Mapping[str, Any], updated: Mapping[str, Any], root: str
) -> ToolUse | McpToolUse:
    """Return a use of a tool with the input of a hook that was ``shown`` the one before.

    Raises ``BadRequest`` if the tool cannot have this input.
    """
    if isinstance(use, McpToolUse):
        return McpToolUse(use.name, dict(updated))
    if isinstance(use, ApplyPatch):
        raise BadRequest("the input of apply_patch cannot be changed")
    if unknown := sorted(set(updated) - set(shown)):
        raise BadRequest(f"{use.name} has no input named {', '.join(unknown)[:200]}")
    own = set(structs.asdict(use))
    given = {
        name: _translate_back(name, value, root) for name, value in updated.items() if name in own
    }
    for alias, value in updated.items():
        name = _find_own_name(use, alias)
        if alias in own or (name not in own and value == shown[alias]):
            continue
        if name not in own:
            raise BadRequest(f"{alias} of {use.name} cannot be changed")
        if value != shown[alias] and updated.get(name, shown[name]) == shown[name]:
            given[name] = _translate_back(alias, value, root)
        else:
            given.setdefault(name, shown[name])
    try:
        return msgspec.convert(given, type(use))
    except msgspec.ValidationError as error:
        raise BadRequest(f"{use.name} cannot have this input: {error}") from None


def _find_own_name(use: ToolUse, alias: str) -> str:
    """Return the tool's own name of an argument; empty if it has none."""
    match use, alias:
        case RunCommand(), "timeout":
            return "seconds"
        case SearchText(), "pattern":
            return "text"
    return _OWN_NAMES.get(alias, "")


def _translate_back(alias: str, value: Any, root: str) -> Any:
    if alias == "timeout" and isinstance(value, int | float):
        return max(int(value // 1000), 1)
    if alias in ("file_path", "path") and isinstance(value, str):
        return os.path.relpath(value, root) if value.startswith(root + os.sep) else value
    if alias == "edits" and isinstance(value, list):
        return [_translate_replacement(one) if isinstance(one, dict) else one for one in value]
    return value


def _translate_replacement(edit: Mapping[str, Any]) -> dict[str, Any]:
    return {_OWN_NAMES.get(name, name): value for name, value in edit.items()}


def _make_form(own: str, name: str, given: dict[str, Any]) -> ToolForm:
    return ToolForm(name, frozenset((own, name)), given)


def _list_patched(use: ApplyPatch, root: str) -> list[ToolForm]:
    paths: list[str] = []
    with suppress(BadRequest):
        for file in parse_patch(use.patch):
            paths += [file.path, *([file.move_to] if file.move_to else [])]
    names = frozenset((use.name, "Edit", "Write"))
    given = {"patch": use.patch}
    return [
        ToolForm("Edit", names, {**given, "file_path": os.path.join(root, path)})
        for path in dict.fromkeys(paths)
    ] or [ToolForm("Edit", names, given)]


def _translate(  # noqa: PLR0911 - one for each tool
    use: ToolUse, root: str
) -> tuple[str, Mapping[str, object]]:
    """Return a tool's name and its arguments in Claude Code's words."""
    match use:
        case RunCommand():
            return "Bash", {"timeout": use.seconds * 1000}
        case StartProcess():
            return "Bash", {"run_in_background": True}
        case WriteFile():
            return "Write", {"file_path": os.path.join(root, use.path), "content": use.text}
        case EditFile():
            file = {"file_path": os.path.join(root, use.path)}
            return "Edit", file | _translate_edit(use)
        case EditManyPlaces():
            edits = [_translate_edit(one) for one in use.edits]
            return "MultiEdit", {"file_path": os.path.join(root, use.path), "edits": edits}
        case ReadFile() | ViewFile():
            return "Read", {"file_path": os.path.join(root, use.path)}
        case FindFiles():
            return "Glob", {}
        case SearchText():
            return "Grep", {"pattern": use.text}
        case ListFiles():
            return "LS", {}
        case FetchPage():
            return "WebFetch", {}
        case RunTask():
            return "Task", {"description": use.prompt[:80]}
    return use.name, {}


def _translate_edit(edit: EditFile | Replacement) -> dict[str, object]:
    return {"old_string": edit.old, "new_string": edit.new, "replace_all": edit.all}
