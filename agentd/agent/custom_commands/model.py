"""Custom commands: Markdown files whose text is sent in the place of ``/name arguments``. Pure.

The format is that of Claude Code's ``.claude/commands`` and opencode's ``.opencode/commands``: YAML
front matter, then a prompt in which ``$ARGUMENTS``, ``$1`` and ``$NAME`` (given as ``NAME=value``)
stand for what was typed, ``@path`` includes a file, and a command line in backquotes after ``!``
is replaced by its output.

Sources: https://code.claude.com/docs/en/slash-commands, https://opencode.ai/docs/commands,
https://developers.openai.com/codex/custom-prompts.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

Source: TypeAlias = Literal["config", "workspace"]

LONGEST_DESCRIPTION = 1024
"""Characters of a description or a hint that are kept."""

_INVOCATION = re.compile(r"/([A-Za-z0-9][A-Za-z0-9._:/-]{0,199})(?:\s+(.*))?", re.DOTALL)
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOOL = re.compile(r"(?:[^\s,(]|\([^)]*\))+")
_SPECIAL = re.compile(
    r"(?:^|(?<=\s))!`([^`\n]+)`|(?:^|(?<=[\s(]))@([\w$./~*-]*[\w$/*-])", re.MULTILINE
)
_PLACEHOLDER = re.compile(
    r"(\\)?\$(?:ARGUMENTS(?:\[([0-9]{1,2})\])?(?![A-Z0-9_])|([1-9][0-9]?)|([A-Z][A-Z0-9_]*))"
)
_NAMED = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)


class CommandMatter(Struct, frozen=True, rename="kebab"):
    """The known part of the front matter; other names in it belong to other programs."""

    description: str = ""
    argument_hint: str = ""
    model: str = ""
    allowed_tools: str = ""


class CustomCommand(Struct, frozen=True):
    """A prompt that is written down."""

    name: str
    """Without the slash; the folders that its file is in come before it: ``db:migrate``."""
    description: str
    argument_hint: str
    model: str
    """The model that it asks for; empty: the chat's."""
    allowed_tools: tuple[str, ...]
    """What other programs run without a question for it. It grants nothing here."""
    body: str
    source: Source
    path: str
    """Its file: in the workspace, or absolute."""


class Invocation(NamedTuple):
    """A prompt that may call a command."""

    name: str
    arguments: str


class PlainText(NamedTuple):
    """A part of a prompt that is sent as it is."""

    text: str


class CommandLine(NamedTuple):
    """A part of a prompt that its output replaces."""

    command: str


class IncludedFile(NamedTuple):
    """A path in a prompt, whose file is sent with it."""

    path: str


PromptPart: TypeAlias = PlainText | CommandLine | IncludedFile


def parse_invocation(prompt: str) -> Invocation | None:
    """Return the command that a prompt may call, with its arguments; None: it calls none."""
    found = _INVOCATION.fullmatch(prompt.strip()) if prompt.lstrip().startswith("/") else None
    return Invocation(found[1].replace("/", ":"), (found[2] or "").strip()) if found else None


def make_name(path: str) -> str:
    """Return the name of the command in the file at this path; empty if it can have none."""
    steps = path.removesuffix(".md").split("/")
    return ":".join(steps) if all(map(_NAMES.fullmatch, steps)) else ""


def build_command(
    name: str, matter: CommandMatter, body: str, source: Source, path: str
) -> CustomCommand:
    """Return the command of a file; without a description its first line is one."""
    text = body.strip()
    first = text.split("\n", 1)[0].lstrip("# ").strip()
    return CustomCommand(
        name,
        (matter.description or first).strip()[:LONGEST_DESCRIPTION],
        matter.argument_hint.strip()[:LONGEST_DESCRIPTION],
        matter.model.strip(),
        tuple(_TOOL.findall(matter.allowed_tools.strip().removeprefix("[").removesuffix("]"))),
        text,
        source,
        path,
    )


def fill_in(command: CustomCommand, arguments: str) -> list[PromptPart]:
    """Return the parts of a command's prompt with these arguments.

    What stands in the arguments is never run or included by itself: the parts are those of the
    file. Arguments that the file does not mention follow at the end.
    """
    filler = _Filler(arguments)
    parts: list[PromptPart] = []
    position = 0
    for found in _SPECIAL.finditer(command.body):
        parts.append(PlainText(filler.fill(command.body[position : found.start()])))
        if found[1]:
            parts.append(CommandLine(filler.fill(found[1])))
        else:
            parts.append(IncludedFile(filler.fill(found[2])))
        position = found.end()
    parts.append(PlainText(filler.fill(command.body[position:])))
    if arguments and not filler.used:
        parts.append(PlainText(f"\n\nARGUMENTS: {arguments}"))
    return [part for part in parts if part != PlainText("")]


class _Filler:
    """Puts arguments in the place of what stands for them."""

    def __init__(self, arguments: str) -> None:
        self.used = False
        self._all = arguments
        self._words = split_words(arguments)
        self._named = {
            found[1]: found[2] for word in self._words if (found := _NAMED.fullmatch(word))
        }

    def fill(self, text: str) -> str:
        """Return a text with the arguments."""
        return _PLACEHOLDER.sub(self._replace, text)

    def _replace(self, found: "re.Match[str]") -> str:
        if found[1]:
            return found[0][1:]
        if found[4]:
            if found[4] not in self._named:
                return found[0]
            self.used = True
            return self._named[found[4]]
        self.used = True
        if found[2]:
            return self._get_word(int(found[2]))
        return self._get_word(int(found[3]) - 1) if found[3] else self._all

    def _get_word(self, index: int) -> str:
        return self._words[index] if index < len(self._words) else ""


def split_words(arguments: str) -> list[str]:
    """Split arguments as a shell does; by white space where quotes are not closed."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def merge_commands(*groups: tuple[CustomCommand, ...]) -> Iterator[CustomCommand]:
    """Yield the commands by name; of those with the same name the first."""
    known: dict[str, CustomCommand] = {}
    for group in groups:
        for command in group:
            known.setdefault(command.name, command)
    return (known[name] for name in sorted(known))
