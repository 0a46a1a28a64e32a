"""Describes Codex items for the history."""

import shlex
from collections.abc import Callable, Mapping

import msgspec

from agentd.agent.diff import cut_diff, make_diff
from agentd.agent.engines.external.common import MAX_INPUT_LENGTH, WorkspaceBounds, shorten
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.mcp_servers.messages import read_call_result

_SHELLS = frozenset(
    f"{folder}/{name}" for folder in ("/bin", "/usr/bin") for name in ("bash", "sh", "zsh", "dash")
)
_UNTOLD = {"failed": "It failed.", "interrupted": "Interrupted."}
"""The outcome of a tool without output, by its status."""
_SYMBOLS = {"add": "A", "delete": "D", "update": "M"}


def render_command(item: object, folder: str) -> str:
    """Return the command as somebody would type it in the workspace.

    Codex wraps each line in a shell; ``/bin/bash -lc 'git status'`` is shown as ``git status``.
    Outside of the workspace's folder it begins with a ``cd``.
    """
    whole = get_text(item, "command")
    try:
        words = shlex.split(whole)
    except ValueError:  # an open quote: Codex's own text is shown as it is
        words = []
    if len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc"):
        whole = words[2]
    place = get_text(item, "cwd")
    elsewhere = place and place.rstrip("/") != folder.rstrip("/")
    return f"cd {shlex.quote(place)} && {whole}" if elsewhere else whole


def list_changed_paths(item: object) -> list[str]:
    """Return the paths of changed files; both paths of a renamed one."""
    paths = []
    for change in iter_list(item, "changes"):
        paths += [get_text(change, "path"), get_text(change, "kind", "move_path")]
    return [path for path in paths if path]


def describe_item(item: object, bounds: WorkspaceBounds) -> tuple[str, str] | None:
    """Return the tool's name and input; None for an item that is not a tool use."""
    describe = _TOOLS.get(get_text(item, "type"))
    if describe is None:
        return None
    name, given = describe(item, bounds)
    return name, shorten(given, MAX_INPUT_LENGTH)


def describe_outcome(item: object) -> str:
    """Return the outcome of a tool, shortened."""
    status = get_text(item, "status")
    if status == "declined":
        return "Not allowed."
    match get_text(item, "type"):
        case "commandExecution":
            code = get_path(item, "exitCode")
            ended = "" if code is None or code == 0 else f"exit code {code}"
            output = f"{get_text(item, 'aggregatedOutput').strip()}\n{ended}".strip()
        case "fileChange":
            output = "\n".join(
                get_text(change, "diff").strip("\n") for change in iter_list(item, "changes")
            )
        case "mcpToolCall":
            brought = get_path(item, "result")
            output = get_text(item, "error", "message") or (
                read_call_result(brought).text if isinstance(brought, dict) else ""
            )
        case "collabAgentToolCall":
            states = get_path(item, "agentsStates")
            values = states.values() if isinstance(states, dict) else ()
            output = "\n".join(filter(None, (get_text(one, "message") for one in values)))
        case _:
            output = ""
    return shorten(output) or _UNTOLD.get(status, "")


def has_succeeded(item: object) -> bool:
    """Return whether a tool did what it was to do."""
    return get_text(item, "status") not in ("declined", *_UNTOLD) and not get_path(item, "exitCode")


def render_diff(item: object, bounds: WorkspaceBounds) -> str:
    """Return the changes of files as one unified diff."""
    diffs = []
    for change in iter_list(item, "changes"):
        path = bounds.display_path(get_text(change, "path"))
        text = get_text(change, "diff")
        if not text.strip():
            continue
        match get_text(change, "kind", "type"):
            case "add" if not text.startswith(("@@", "---")):
                diffs.append(make_diff(path, None, text))
            case "delete" if not text.startswith(("@@", "---")):
                diffs.append(make_diff(path, text, None))
            case _:
                head = "" if text.startswith("---") else f"--- a/{path}\n+++ b/{path}\n"
                diffs.append(f"{head}{text.rstrip()}")
    return cut_diff("\n".join(filter(None, diffs)))


def _describe_command(item: object, bounds: WorkspaceBounds) -> tuple[str, str]:
    return "shell", render_command(item, bounds.folder)


def _describe_changes(item: object, bounds: WorkspaceBounds) -> tuple[str, str]:
    lines = []
    for change in iter_list(item, "changes"):
        symbol = _SYMBOLS.get(get_text(change, "kind", "type"), "M")
        moved = get_text(change, "kind", "move_path")
        arrow = f" -> {bounds.display_path(moved)}" if moved else ""
        lines.append(f"{symbol} {bounds.display_path(get_text(change, 'path'))}{arrow}")
    return "edit", "\n".join(lines)


def _describe_mcp_call(item: object, _: WorkspaceBounds) -> tuple[str, str]:
    given = get_path(item, "arguments")
    name = f"{get_text(item, 'server')}.{get_text(item, 'tool')}"
    return name, "" if given is None else msgspec.json.encode(given).decode()


def _describe_search(item: object, _: WorkspaceBounds) -> tuple[str, str]:
    address = get_text(item, "action", "url")
    return "web_search", get_text(item, "query") or get_text(item, "action", "query") or address


def _describe_image(item: object, bounds: WorkspaceBounds) -> tuple[str, str]:
    return "view_image", bounds.display_path(get_text(item, "path"))


def _describe_agent(item: object, _: WorkspaceBounds) -> tuple[str, str]:
    tool, prompt = get_text(item, "tool"), get_text(item, "prompt").strip()
    return "agent", f"{tool}: {prompt}" if prompt else tool


_TOOLS: Mapping[str, Callable[[object, WorkspaceBounds], tuple[str, str]]] = {
    "collabAgentToolCall": _describe_agent,
    "commandExecution": _describe_command,
    "fileChange": _describe_changes,
    "mcpToolCall": _describe_mcp_call,
    "webSearch": _describe_search,
    "imageView": _describe_image,
}
