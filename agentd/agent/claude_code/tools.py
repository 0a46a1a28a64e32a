"""Claude Code's tools, as a reader of the history and a person who is asked want them told."""

from collections.abc import Callable, Mapping

import msgspec

from agentd.agent.foreign import LONGEST_INPUT, Access, Bounds, shortened
from agentd.agent.json_rpc import each, pick, text

ASKS_A_PERSON = "AskUserQuestion"

_WRITING = ("Edit", "MultiEdit", "NotebookEdit", "Write")
_READING = ("NotebookRead", "Read")
_SEARCHING = ("Glob", "Grep", "LS")
_CALLING = ("WebFetch", "WebSearch")
_PATHS = ("file_path", "notebook_path", "path")


def access(tool: str, given: object, blocked: str, bounds: Bounds) -> Access:
    """What a tool would do; ``blocked`` is the path for which leave is asked, if that is told."""
    paths = [text(given, name) for name in _PATHS if text(given, name)]
    paths += [blocked] if blocked else []
    if tool == "Bash":
        return Access("shell")
    if tool in _WRITING:
        return bounds.writing(paths)
    if tool in _READING:
        return bounds.reading(paths)
    if tool in _SEARCHING:
        return bounds.searching(paths)
    return Access("network" if tool in _CALLING else "other")


def subject(tool: str, given: object, bounds: Bounds) -> str:
    """What a tool would do, whole: the command, the path, the address."""
    tell = _SUBJECTS.get(tool)
    told = tell(given, bounds) if tell else ""
    return told or ("" if given in (None, {}) else msgspec.json.encode(given).decode())


def described(block: object, bounds: Bounds) -> tuple[str, str]:
    """The name of a used tool and what it was given, shortened."""
    tool = text(block, "name")
    return tool, shortened(subject(tool, pick(block, "input"), bounds), LONGEST_INPUT)


def outcome(block: object) -> str:
    """What came of a tool, shortened."""
    parts = [text(part, "text") for part in each(block, "content")]
    told = text(block, "content") or "\n".join(part for part in parts if part)
    failed = pick(block, "is_error") is True
    return shortened(f"failed: {told}" if failed else told)


def _path(given: object, bounds: Bounds) -> str:
    path = next((text(given, name) for name in _PATHS if text(given, name)), "")
    return bounds.named(path) if path else ""


def _searched(given: object, bounds: Bounds) -> str:
    pattern, path = text(given, "pattern"), _path(given, bounds)
    return f"{pattern} in {path}" if pattern and path else pattern


def _member(name: str) -> Callable[[object, Bounds], str]:
    return lambda given, _: text(given, name)


_SUBJECTS: Mapping[str, Callable[[object, Bounds], str]] = {
    **dict.fromkeys((*_WRITING, "LS", "NotebookRead", "Read"), _path),
    **dict.fromkeys(("Glob", "Grep"), _searched),
    **dict.fromkeys(("Agent", "Task"), _member("description")),
    "Bash": _member("command"),
    "Skill": _member("skill"),
    "WebFetch": _member("url"),
    "WebSearch": _member("query"),
}
