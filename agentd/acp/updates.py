"""A chat's messages as session updates: text, tool calls with their diffs, plans. Pure.

Source: https://agentclientprotocol.com/protocol/tool-calls and /agent-plan.
"""

import os.path
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from agentd.acp.messages import AcpJson
from agentd.agent.diff import split_lines
from agentd.agent.plan import PLAN_TOOL

Update: TypeAlias = dict[str, Any]

_KINDS: Mapping[str, tuple[str, ...]] = {
    "read": (
        *("read", "read_file", "view_file", "list_files", "outline_file", "read_process"),
        *("git_status", "git_log", "git_diff"),
    ),
    "search": ("search", "search_text", "find_files", "count_files", "grep", "glob"),
    "edit": ("edit", "write", "write_file", "edit_file", "multi_edit", "apply_patch", "multiedit"),
    "delete": ("delete",),
    "move": ("move",),
    "execute": ("shell", "bash", "start_process", "stop_process"),
    "fetch": ("fetch", "web_fetch", "webfetch", "websearch", "web_search"),
    "think": ("think", "run_task", "task", PLAN_TOOL),
}
_KIND_OF = {tool.lower(): kind for kind, tools in _KINDS.items() for tool in tools}
_TODO = re.compile(r"- \[([ xX])\] (?:\*\*(.*)\*\* \(now\)|(.*))", re.ASCII)
_HUNK = re.compile(r"@@ -[0-9]+(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@.*", re.ASCII)
_PATH_ARGUMENT = re.compile(r"(?:^| )path=(\S.*?)(?= [a-z_]+=|$)", re.MULTILINE)
_TITLE_LENGTH = 200


class DiffPart(Struct, frozen=True):
    """The old and the new lines of one place in a file; ``old`` None: the file is new."""

    path: str
    line: int
    old: str | None
    new: str


def make_chunk(kind: str, text: str, message_id: str = "") -> Update:
    """Return a piece of a message: ``user``, ``agent`` or ``thought``."""
    name = {"user": "user_message_chunk", "thought": "agent_thought_chunk"}
    update: Update = {
        "sessionUpdate": name.get(kind, "agent_message_chunk"),
        "content": {"type": "text", "text": text},
    }
    return update | ({"messageId": message_id} if message_id else {})


def make_plan(outcome: str) -> Update | None:
    """Return the plan in a checklist; None if it is none."""
    entries = [
        {
            "content": found[2] or found[3],
            "priority": "medium",
            "status": "completed" if found[1] in "xX" else "in_progress" if found[2] else "pending",
        }
        for line in outcome.splitlines()
        if (found := _TODO.fullmatch(line.strip()))
    ]
    return {"sessionUpdate": "plan", "entries": entries} if entries else None


def make_command(command: AcpJson) -> Update:
    """Return a custom command as it is offered to a person."""
    hint = command["argumentHint"] or "arguments"
    return {
        "name": command["name"],
        "description": command["description"],
        "input": {"hint": hint},
    }


def make_call(call_id: str, tool: str, given: str = "", *, status: str = "in_progress") -> Update:
    """Return the beginning of a tool call."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": make_title(tool, given),
        "kind": find_kind(tool),
        "status": status,
    }


def make_finished_call(call_id: str, message: AcpJson, root: str, *, known: bool) -> Update:
    """Return a tool call with its outcome; ``known``: the editor shows it already."""
    use = message.get("toolUse") or {}
    tool, given = message["tool"], use.get("input", "")
    parts = list(parse_diff(use.get("diff", "")))
    outcome = use.get("outcome", "") if use else message["content"]
    content: list[Update] = [_make_diff(part, root) for part in parts]
    if outcome and not (parts and use["ok"]):
        content.append({"type": "content", "content": {"type": "text", "text": outcome}})
    return {
        "sessionUpdate": "tool_call_update" if known else "tool_call",
        "toolCallId": call_id,
        "title": make_title(tool, given),
        "kind": find_kind(tool),
        "status": "completed" if use.get("ok", True) else "failed",
        "content": content,
        "locations": _list_locations(parts, given, root),
        "rawInput": {"tool": tool, "input": given},
    }


def find_kind(tool: str) -> str:
    """Return the protocol's kind of a tool."""
    return _KIND_OF.get(tool.lower(), "other")


def make_title(tool: str, given: str) -> str:
    """Return a line that says what a tool does: a command stands for itself."""
    line = next(iter(given.strip().splitlines()), "")
    line = line.removeprefix("command=") if find_kind(tool) == "execute" else line
    title = line if line and find_kind(tool) == "execute" else f"{tool} {line}".strip()
    return title if len(title) <= _TITLE_LENGTH else f"{title[:_TITLE_LENGTH]}…"


def parse_diff(diff: str) -> Iterator[DiffPart]:
    """Yield the parts of a unified diff; one that was cut short ends with its last whole part."""
    path, is_new = "", False
    lines = iter(split_lines(diff))
    for line in lines:
        if line.startswith("--- "):
            is_new, path = line == "--- /dev/null", _strip_side(line[4:], path)
        elif line.startswith("+++ "):
            path = _strip_side(line[4:], path)
        elif found := _HUNK.fullmatch(line):
            before, after = int(found[1] or 1), int(found[3] or 1)
            old, new = _read_hunk(lines, before, after)
            if old is None or new is None:
                return
            yield DiffPart(path, int(found[2]), None if is_new else old, new)


def _read_hunk(lines: Iterator[str], before: int, after: int) -> tuple[str | None, str | None]:
    """Return the old and the new text of a hunk; None for both if it is cut short."""
    old: list[str] = []
    new: list[str] = []
    while len(old) < before or len(new) < after:
        line = next(lines, None)
        if line is None or line[:1] not in ("", " ", "-", "+", "\\"):
            return None, None
        if line[:1] in ("", " ", "-"):
            old.append(line[1:])
        if line[:1] in ("", " ", "+"):
            new.append(line[1:])
    return _end_lines(old), _end_lines(new)


def _end_lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _strip_side(name: str, known: str) -> str:
    return known if name == "/dev/null" else name.removeprefix("a/").removeprefix("b/")


def make_approval_content(approval: AcpJson, root: str) -> list[Update]:
    """Return what a question shows: its diff, or the command and the reason for it."""
    detail = approval.get("detail") or {}
    if detail.get("kind") == "diff":
        parts = list(parse_diff(detail["text"]))
        if parts:
            return [_make_diff(part, root) for part in parts]
    shown = detail.get("text") or approval["subject"]
    text = "\n\n".join(filter(None, (shown, approval["reason"])))
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _make_diff(part: DiffPart, root: str) -> Update:
    made: Update = {"type": "diff", "path": os.path.join(root, part.path), "newText": part.new}
    return made | {"oldText": part.old}


def _list_locations(parts: list[DiffPart], given: str, root: str) -> list[Update]:
    if parts:
        return [{"path": os.path.join(root, part.path), "line": part.line} for part in parts]
    found = _PATH_ARGUMENT.search(given)
    return [{"path": os.path.join(root, found[1])}] if found else []
