"""What Codex did, item by item, as a reader of the history wants it told."""

import shlex
from collections.abc import Callable, Mapping

import msgspec

from agentd.agent.foreign import LONGEST_INPUT, Bounds, shortened
from agentd.agent.json_rpc import each, pick, text

_SHELLS = frozenset(
    f"{folder}/{name}" for folder in ("/bin", "/usr/bin") for name in ("bash", "sh", "zsh", "dash")
)
_SYMBOLS = {"add": "A", "delete": "D", "update": "M"}


def command_line(item: object, folder: str) -> str:
    """The command that is asked about or was run, as somebody would type it in the workspace.

    Codex hands each line to a shell; ``/bin/bash -lc 'git status'`` is told as ``git status``.
    Elsewhere than in the workspace it begins with a ``cd``.
    """
    whole = text(item, "command")
    try:
        words = shlex.split(whole)
    except ValueError:  # an open quote: Codex's own text is taken as it is
        words = []
    if len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc"):
        whole = words[2]
    place = text(item, "cwd")
    elsewhere = place and place.rstrip("/") != folder.rstrip("/")
    return f"cd {shlex.quote(place)} && {whole}" if elsewhere else whole


def changed_paths(item: object) -> list[str]:
    """The paths of a change of files; of a renamed file both."""
    paths = []
    for change in each(item, "changes"):
        paths += [text(change, "path"), text(change, "kind", "move_path")]
    return [path for path in paths if path]


def described(item: object, bounds: Bounds) -> tuple[str, str] | None:
    """The tool's name and what it was given; None for an item that is no use of a tool."""
    tell = _TOOLS.get(text(item, "type"))
    if tell is None:
        return None
    name, given = tell(item, bounds)
    return name, shortened(given, LONGEST_INPUT)


def outcome(item: object) -> str:
    """What came of a tool, shortened."""
    status = text(item, "status")
    if status == "declined":
        return "Not allowed."
    match text(item, "type"):
        case "commandExecution":
            code = pick(item, "exitCode")
            ended = "" if code is None or code == 0 else f"exit code {code}"
            told = f"{text(item, 'aggregatedOutput').strip()}\n{ended}".strip()
        case "fileChange":
            told = "\n".join(text(change, "diff").strip("\n") for change in each(item, "changes"))
        case "mcpToolCall":
            parts = [text(part, "text") for part in each(item, "result", "content")]
            told = text(item, "error", "message") or "\n".join(filter(None, parts))
        case _:
            told = ""
    if status == "failed" and not told:
        return "It failed."
    return shortened(told)


def _command(item: object, bounds: Bounds) -> tuple[str, str]:
    return "shell", command_line(item, bounds.folder)


def _change(item: object, bounds: Bounds) -> tuple[str, str]:
    lines = []
    for change in each(item, "changes"):
        symbol = _SYMBOLS.get(text(change, "kind", "type"), "M")
        moved = text(change, "kind", "move_path")
        arrow = f" -> {bounds.named(moved)}" if moved else ""
        lines.append(f"{symbol} {bounds.named(text(change, 'path'))}{arrow}")
    return "edit", "\n".join(lines)


def _mcp(item: object, _: Bounds) -> tuple[str, str]:
    given = pick(item, "arguments")
    name = f"{text(item, 'server')}.{text(item, 'tool')}"
    return name, "" if given is None else msgspec.json.encode(given).decode()


def _search(item: object, _: Bounds) -> tuple[str, str]:
    address = text(item, "action", "url")
    return "web_search", text(item, "query") or text(item, "action", "query") or address


def _picture(item: object, bounds: Bounds) -> tuple[str, str]:
    return "view_image", bounds.named(text(item, "path"))


_TOOLS: Mapping[str, Callable[[object, Bounds], tuple[str, str]]] = {
    "commandExecution": _command,
    "fileChange": _change,
    "mcpToolCall": _mcp,
    "webSearch": _search,
    "imageView": _picture,
}
