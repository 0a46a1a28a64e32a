"""An ACP agent's uses of tools, as a reader of the history and the approver want them told."""

import difflib
import shlex
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, structs

from agentd.agent.engine import Question
from agentd.agent.foreign import LONGEST_INPUT, Access, Bounds, shortened
from agentd.agent.json_rpc import each, pick, text

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

_LONGEST_NAME = 60
_MOST_LINES = 400
"""Longer texts are not compared line by line: it takes too long."""


class Tool(Struct, frozen=True):
    """A use of a tool, as far as it was told; each field as the protocol has it."""

    title: str = ""
    kind: str = ""
    status: str = ""
    paths: tuple[str, ...] = ()
    given: object = None
    content: tuple[object, ...] = ()
    output: object = None

    def told(self, update: object) -> "Tool":
        """The same with what an update tells anew; what it leaves out stays."""
        paths = [text(place, "path") for place in each(update, "locations")]
        paths += [text(part, "path") for part in each(update, "content")]
        new: Mapping[str, object] = {
            "title": text(update, "title"),
            "kind": text(update, "kind"),
            "status": text(update, "status"),
            "paths": tuple(dict.fromkeys(path for path in paths if path)),
            "given": pick(update, "rawInput"),
            "content": tuple(each(update, "content")),
            "output": pick(update, "rawOutput"),
        }
        return structs.replace(self, **{name: value for name, value in new.items() if value})

    @property
    def over(self) -> bool:
        """Whether its end was told."""
        return self.status in ("completed", "failed")

    @property
    def name(self) -> str:
        """As it stands in the history."""
        return _NAMES.get(self.kind) or shortened(self.title, _LONGEST_NAME) or "tool"

    def subject(self, bounds: Bounds) -> str:
        """What it does, whole: the command, the paths, the address."""
        if self.kind == "execute":
            return self._command(bounds)
        if self.kind == "fetch":
            return text(self.given, "url") or self.title
        if self.paths and (self.kind in _NAMES or not self.given):
            return "\n".join(map(bounds.named, self.paths))
        if self.given:
            return msgspec.json.encode(self.given).decode()
        return self.title

    def input(self, bounds: Bounds) -> str:
        """The same for the history, shortened."""
        return shortened(self.subject(bounds), LONGEST_INPUT)

    def outcome(self) -> str:
        """What came of it, shortened."""
        parts = [part for content in self.content for part in _shown(content)]
        said = text(self.output, "output") or text(self.output, "error")
        told = "\n".join(parts) or said or (self.output if isinstance(self.output, str) else "")
        return shortened(told or ("It failed." if self.status == "failed" else ""))

    def question(self, bounds: Bounds) -> Question:
        """What is asked before it may be done."""
        return self._access(bounds).question(self.name, self.subject(bounds) or self.name)

    def _access(self, bounds: Bounds) -> Access:
        match self.kind:
            case "execute":
                return Access("shell")
            case "edit" | "delete" | "move":
                return bounds.writing(self.paths)
            case "fetch":
                return Access("network")
            case "read":
                return bounds.reading(self.paths, "other")
            case "search":
                return bounds.searching(self.paths, "other")
        return Access("other")

    def _command(self, bounds: Bounds) -> str:
        command = pick(self.given, "command")
        if isinstance(command, list):
            command = shlex.join(map(str, command))
        if not isinstance(command, str) or not command:
            command = self.title
        place = text(self.given, "cwd") or text(self.given, "workdir")
        elsewhere = place and place.rstrip("/") != bounds.folder.rstrip("/")
        return f"cd {shlex.quote(place)} && {command}" if elsewhere else command


def _shown(content: object) -> Iterator[str]:
    """The text of a piece of a tool's content."""
    match text(content, "type"):
        case "content":
            yield said(pick(content, "content"))
        case "diff":
            yield _difference(text(content, "oldText"), text(content, "newText"))


def _difference(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MOST_LINES:
        return f"{len(old):,} lines became {len(new):,}."
    return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=2))[2:])


def said(block: object) -> str:
    """A block of content as Markdown."""
    match text(block, "type"):
        case "text":
            return text(block, "text")
        case "resource_link":
            return f"[{text(block, 'name')}]({text(block, 'uri')})"
        case "resource":
            return text(block, "resource", "text")
    return ""
