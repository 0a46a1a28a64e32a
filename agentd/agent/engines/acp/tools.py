"""Describes an ACP agent's tool uses for the history and for approvals."""

import difflib
import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct, structs

from agentd.agent.diff import cut_diff, make_diff, split_lines
from agentd.agent.engine import Question
from agentd.agent.engines.external.common import (
    MAX_INPUT_LENGTH,
    ToolAccess,
    WorkspaceBounds,
    shorten,
)
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.mcp_servers.messages import name_tool, read_call_result

_NAMES = {
    "execute": "shell",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "read": "read",
    "search": "search",
    "fetch": "fetch",
    "think": "think",
}

_MISNAMED = frozenset(("apply_patch", "context7_get_library_docs", "context7_resolve_library_id"))
"""The tools of MCP servers that opencode takes for its own, as it calls them.

When it asks about one of a server, it tells neither input nor places.
"""

_LONGEST_NAME = 60
_MOST_LINES = 400
"""Longer texts are not compared line by line, which would take too long."""


class AcpTool(Struct, frozen=True):
    """A tool use as reported so far; the fields are the protocol's."""

    title: str = ""
    kind: str = ""
    status: str = ""
    paths: tuple[str, ...] = ()
    given: object = None
    content: tuple[object, ...] = ()
    output: object = None

    def with_update(self, update: object) -> "AcpTool":
        """Return the tool with the fields of an update; absent ones keep their value."""
        paths = [get_text(place, "path") for place in iter_list(update, "locations")]
        paths += [get_text(part, "path") for part in iter_list(update, "content")]
        new: Mapping[str, object] = {
            "title": get_text(update, "title"),
            "kind": get_text(update, "kind"),
            "status": get_text(update, "status"),
            "paths": tuple(dict.fromkeys(path for path in paths if path)),
            "given": get_path(update, "rawInput"),
            "content": tuple(iter_list(update, "content")),
            "output": get_path(update, "rawOutput"),
        }
        return structs.replace(self, **{name: value for name, value in new.items() if value})

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.status in ("completed", "failed")

    @property
    def todos(self) -> list[object]:
        """The plan that the tool writes; empty if it is another tool."""
        found = list(iter_list(self.given, "todos"))
        return found if all(get_text(one, "content") for one in found) else []

    @property
    def mcp_call(self) -> tuple[str, str]:
        """An MCP server and its tool that codex-acp calls, as if it executed a command."""
        server, tool = get_text(self.given, "server"), get_text(self.given, "tool")
        return (server, tool) if tool and self.title == f"mcp.{server}.{tool}" else ("", "")

    @property
    def name(self) -> str:
        """The name in the history."""
        if all(self.mcp_call):
            return shorten(".".join(self.mcp_call), _LONGEST_NAME)
        return _NAMES.get(self.kind) or shorten(self.title, _LONGEST_NAME) or "tool"

    def describe_subject(self, bounds: WorkspaceBounds) -> str:
        """Return the full subject of the call: the command, the paths, the address."""
        if all(self.mcp_call):
            return msgspec.json.encode(get_path(self.given, "arguments") or {}).decode()
        if self.kind == "execute":
            return self._render_command(bounds)
        if self.kind == "fetch":
            return get_text(self.given, "url") or self.title
        if self.paths and (self.kind in _NAMES or not self.given):
            return "\n".join(map(bounds.display_path, self.paths))
        if self.given:
            return msgspec.json.encode(self.given).decode()
        return self.title

    def describe_input(self, bounds: WorkspaceBounds) -> str:
        """Return the same, shortened for the history."""
        return shorten(self.describe_subject(bounds), MAX_INPUT_LENGTH)

    def describe_outcome(self) -> str:
        """Return the outcome, shortened."""
        parts = [part for content in self.content for part in _render_content(content)]
        output = get_text(self.output, "output") or get_text(self.output, "error")
        if all(self.mcp_call):
            brought = get_path(self.output, "result")
            output = get_text(self.output, "error", "message") or (
                read_call_result(brought).text if isinstance(brought, dict) else ""
            )
        text = "\n".join(parts) or output or (self.output if isinstance(self.output, str) else "")
        return shorten(text or ("It failed." if self.status == "failed" else ""))

    def render_diff(self, bounds: WorkspaceBounds) -> str:
        """Return its changes of files as one unified diff."""
        diffs = []
        for content in self.content:
            if get_text(content, "type") == "diff":
                before = get_path(content, "oldText")
                old = before if isinstance(before, str) else None
                path = bounds.display_path(get_text(content, "path"))
                diffs.append(make_diff(path, old, get_text(content, "newText")))
        return cut_diff("\n".join(filter(None, diffs)))

    def to_question(
        self, bounds: WorkspaceBounds, servers: Iterable[str] = (), *, bare: bool = False
    ) -> Question:
        """Return the question to ask before it is done.

        ``bare``: the agent asks without an input or a place.
        A tool of one of the MCP ``servers`` is named and judged as the rules for approvals name it.
        """
        tool = self._find_server_tool(servers, bare=bare)
        judged = structs.replace(self, kind="other") if tool else self
        return judged._classify_access(bounds).to_question(
            tool or self.name,
            judged.describe_subject(bounds) or self.name,
            diff=self.render_diff(bounds),
        )

    def _find_server_tool(self, servers: Iterable[str], *, bare: bool) -> str:
        """Return the name of a server's tool, which opencode calls ``SERVER_TOOL``."""
        if all(self.mcp_call):
            return name_tool(*self.mcp_call)
        found = [one for one in servers if self.title.startswith(f"{one}_")]
        misnamed = bare and self.title in _MISNAMED
        if not found or not (misnamed or self.kind == "other"):
            return ""
        server = max(found, key=len)
        return name_tool(server, self.title[len(server) + 1 :])

    def _classify_access(self, bounds: WorkspaceBounds) -> ToolAccess:
        match self.kind:
            case "execute":
                return ToolAccess("shell")
            case "edit" | "delete" | "move":
                return bounds.classify_write(self.paths)
            case "fetch":
                return ToolAccess("network")
            case "read":
                return bounds.classify_read(self.paths, "other")
            case "search":
                return bounds.classify_search(self.paths, "other")
        return ToolAccess("other")

    def _render_command(self, bounds: WorkspaceBounds) -> str:
        command = get_path(self.given, "command")
        if isinstance(command, list):
            command = shlex.join(map(str, command))
        if not isinstance(command, str) or not command:
            command = self.title
        place = get_text(self.given, "cwd") or get_text(self.given, "workdir")
        elsewhere = place and place.rstrip("/") != bounds.folder.rstrip("/")
        return f"cd {shlex.quote(place)} && {command}" if elsewhere else command


def _render_content(content: object) -> Iterator[str]:
    """Yield the text of a piece of a tool's content."""
    match get_text(content, "type"):
        case "content":
            yield render_block(get_path(content, "content"))
        case "diff":
            yield _render_diff(get_text(content, "oldText"), get_text(content, "newText"))


def _render_diff(before: str, after: str) -> str:
    old, new = split_lines(before), split_lines(after)
    if len(old) + len(new) > _MOST_LINES:
        return f"{len(old):,} lines became {len(new):,}."
    return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=2))[2:])


def render_block(block: object) -> str:
    """Render a content block as Markdown."""
    match get_text(block, "type"):
        case "text":
            return get_text(block, "text")
        case "resource_link":
            return f"[{get_text(block, 'name')}]({get_text(block, 'uri')})"
        case "resource":
            return get_text(block, "resource", "text")
    return ""
