"""The files of custom commands: ``commands/`` of the configuration, and those of the workspace.

They are few and edited by hand, and are read when a prompt begins with a slash, or when somebody
lists them. Links are not followed out of a folder; a broken file hides no other.
"""

import asyncio
import os
import stat
from collections.abc import Iterator

from msgspec import Struct

from agentd.agent.custom_commands.model import (
    CommandMatter,
    CustomCommand,
    Source,
    build_command,
    make_name,
    merge_commands,
    parse_invocation,
)
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem, NotFound
from agentd.core.front_matter import split_front_matter
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader
from agentd.system.folder import ConfinedFolder, Found, WorkBudget, make_printable
from agentd.system.protected_paths import ProtectedPlaces

WORKSPACE_FOLDERS = (".claude/commands", ".opencode/commands", ".opencode/command")
"""The folders of a workspace; of commands with the same name the first is taken."""
LARGEST_FILE = 128 * 1024
"""Bytes: all of it is sent to the model."""
MOST_FILES = 500
"""Files of one folder that are read."""
_DEEPEST = 4
_MOST_ENTRIES = 5_000


class CommandSet(Struct, frozen=True):
    """All commands, by name, and the problems of their files."""

    all: tuple[CustomCommand, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()

    def find(self, name: str) -> CustomCommand | None:
        """Return the command of this name; None if there is none."""
        return next((command for command in self.all if command.name == name), None)


class CommandDirectory:
    """The commands as their files are at each call."""

    def __init__(self, layout: Layout, workspace: str) -> None:
        self._layout = layout
        self._workspace = workspace
        self._protected = ProtectedPlaces()

    def protect(self, places: ProtectedPlaces) -> None:
        """Do not read what is protected in the workspace."""
        self._protected = places

    async def get_commands(self, folder: str = "", *, configured_only: bool = False) -> CommandSet:
        """Return the commands of the configuration, which win, and of a folder.

        Without a ``folder`` they are those of the workspace.
        """
        where = "" if configured_only else folder or self._workspace
        return await asyncio.to_thread(self._read, where)

    async def find_called(
        self, prompt: str, folder: str = "", *, configured_only: bool = False
    ) -> CustomCommand | None:
        """Return the command that a prompt calls; None if it calls none."""
        called = parse_invocation(prompt)
        if called is None:
            return None
        commands = await self.get_commands(folder, configured_only=configured_only)
        return commands.find(called.name)

    def _read(self, folder: str) -> CommandSet:
        own, problems = read_configured(self._layout)
        groups = [own]
        if folder:
            root = ConfinedFolder(folder, self._protected)
            for path in WORKSPACE_FOLDERS:
                found, more = _read_folder(root, path, "workspace")
                groups.append(found)
                problems += more
        return CommandSet(tuple(merge_commands(*groups)), problems)


def check(layout: Layout) -> Iterator[ConfigProblem]:
    """Return all problems of the commands of the configuration. Blocking."""
    yield from read_configured(layout)[1]


def read_configured(
    layout: Layout,
) -> tuple[tuple[CustomCommand, ...], tuple[ConfigProblem, ...]]:
    """Return the commands of the configuration, and the problems of their files. Blocking."""
    if os.path.islink(layout.commands):
        what = "is a symbolic link; put the folder itself there"
        return (), (ConfigProblem(layout.commands, 0, what),)
    if not os.path.isdir(layout.commands):
        return (), ()
    return _read_folder(ConfinedFolder(layout.commands), "", "config")


def _read_folder(
    root: ConfinedFolder, path: str, source: Source
) -> tuple[tuple[CustomCommand, ...], tuple[ConfigProblem, ...]]:
    commands: list[CustomCommand] = []
    problems: list[ConfigProblem] = []
    budget = WorkBudget(entries=_MOST_ENTRIES)
    try:
        steps = root.resolve(path)
        for found in root.walk(steps, budget, _DEEPEST):
            if not found.name.endswith(".md") or found.name.startswith("."):
                continue
            if len(commands) + len(problems) >= MOST_FILES:
                what = f"has more than {MOST_FILES} files; the others are not read"
                problems.append(ConfigProblem(_show(root, path, source), 0, what))
                break
            inner = "/".join(found.path.split("/")[len(steps) :])
            shown = _show(root, f"{path}/{inner}" if path else inner, source)
            try:
                commands.append(_read_command(root, found, inner, source, shown))
            except ConfigError as error:
                problems += error.problems
            except AgentdError as error:
                problems.append(ConfigProblem(shown, 0, error.message))
    except NotFound:
        pass
    except AgentdError as error:
        problems.append(ConfigProblem(_show(root, path, source), 0, error.message))
    return tuple(commands), tuple(problems)


def _show(root: ConfinedFolder, path: str, source: Source) -> str:
    return make_printable(path if source == "workspace" else os.path.join(root.root, path))


def _read_command(
    root: ConfinedFolder, found: Found, path: str, source: Source, shown: str
) -> CustomCommand:
    def refuse(what: str) -> ConfigError:
        return ConfigError([ConfigProblem(shown, 0, what)])

    if stat.S_ISLNK(found.mode):
        raise refuse("is a symbolic link; put the file itself there")
    name = make_name(path)
    if not name:
        raise refuse("cannot be a command's name: expected letters, digits, dots and dashes")
    with root.open_file(tuple(found.path.split("/")), path) as descriptor:
        data = os.read(descriptor, LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise refuse(f"is larger than {LARGEST_FILE} bytes")
    text = yaml_reader.decode_text(shown, data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n")
    front, body = split_front_matter(text)
    matter = yaml_reader.load_yaml(shown, front.encode(), CommandMatter, ignore_unknown=True)
    if not body.strip():
        raise refuse("has no text; what is sent to the model stands after the front matter")
    return build_command(name, matter, body, source, shown)
