"""Instructions of a project for agents: ``AGENTS.md`` and ``CLAUDE.md``, in the root and below.

Those of the root stand in the system prompt. Those of a folder below are told once, with the first
result of a tool that has to do with a file there, so that what was said before stays the same.

A line may import another file of the workspace: ``@docs/style.md``, relative to the file that names
it. Only what may be read unasked is read; what is missing, protected or outside is passed over.
"""

import posixpath
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from agentd.agent.tools.results import FileText
from agentd.llm.conversation import ModelMessage, TextPart, ToolResult

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""The files with instructions, in the order of the system prompt."""
MAX_INSTRUCTIONS = 32 * 1024
"""Characters of one file with its imports."""
_DEEPEST_IMPORT = 4
_MOST_IMPORTS = 20
_DEEPEST_FOLDER = 12

_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:\./|\.\./)*[\w][\w./-]*[\w])")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_CODE = re.compile(r"`[^`]*`")
_TOLD = re.compile(r'<project_instructions path="([^"]+)">')

ReadUnasked = Callable[[str], Awaitable[FileText | None]]


class ProjectFile(Struct, frozen=True):
    """Instructions of a project; ``cut``: this is only their beginning."""

    path: str
    text: str
    cut: bool = False


class ProjectKnowledge:
    """The instructions of one project; ``read`` returns a file that may be read unasked."""

    def __init__(self, read: ReadUnasked) -> None:
        self._read = read
        self._known: set[str] = set()
        self._root: frozenset[str] = frozenset()
        """The instruction files that the system prompt contains."""

    async def read_root(self) -> tuple[ProjectFile, ...]:
        """Return the instructions of the workspace's root."""
        found = tuple([file async for file in self._read_folder("")])
        self._root = frozenset(self._known)
        return found

    def fork(self) -> "ProjectKnowledge":
        """Return the knowledge of another conversation with the same system prompt."""
        other = ProjectKnowledge(self._read)
        other._known = set(self._root)
        other._root = self._root
        return other

    def mark_shown(self, messages: Iterable[ModelMessage]) -> None:
        """Note the instructions that a conversation contains already."""
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    texts = [one.text for one in part.content if isinstance(one, TextPart)]
                    self._known.update(path for text in texts for path in _TOLD.findall(text))

    def forget_left_out(self, messages: Iterable[ModelMessage]) -> None:
        """Forget the instructions that are in none of the messages, to which it was shortened."""
        self._known = set(self._root)
        self.mark_shown(messages)

    async def read_for(self, paths: Sequence[str]) -> tuple[ProjectFile, ...]:
        """Return the instructions in the folders above these files that were not shown yet."""
        found: list[ProjectFile] = []
        for path in paths:
            for folder in _list_folders(path):
                found += [file async for file in self._read_folder(folder)]
        return tuple(found)

    async def _read_folder(self, folder: str) -> AsyncIterator[ProjectFile]:
        for name in INSTRUCTION_FILES:
            path = posixpath.join(folder, name)
            if path in self._known:
                continue
            self._known.add(path)
            if file := await self._read_file(path):
                yield file

    async def _read_file(self, path: str) -> ProjectFile | None:
        found = await self._read(path)
        text = "\n".join(found.lines).strip() if found else ""
        if found is None or not text:
            return None
        seen = {path}
        parts = [text]
        await self._add_imports(path, text, parts, seen, 1)
        whole = "\n\n".join(parts)
        cut = len(whole) > MAX_INSTRUCTIONS or len(found.lines) < found.total
        self._known |= seen
        return ProjectFile(path, whole[:MAX_INSTRUCTIONS], cut)

    async def _add_imports(
        self, path: str, text: str, parts: list[str], seen: set[str], depth: int
    ) -> None:
        if depth > _DEEPEST_IMPORT:
            return
        for name in find_imports(text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            if target in seen or target.startswith("..") or len(seen) > _MOST_IMPORTS:
                continue
            seen.add(target)
            if found := await self._read(target):
                imported = "\n".join(found.lines).strip()
                parts.append(f"<{target}>\n{imported}\n</{target}>")
                await self._add_imports(target, imported, parts, seen, depth + 1)


def find_imports(text: str) -> list[str]:
    """Return the paths that a text imports, in their order; none in code."""
    found: list[str] = []
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            found += _IMPORT.findall(_CODE.sub("", line))
    return list(dict.fromkeys(name for name in found if "." in name or "/" in name))


def render_instructions(files: Iterable[ProjectFile]) -> str:
    """Render instructions for a tool's result; empty without any."""
    return "\n\n".join(_render(file) for file in files)


def _render(file: ProjectFile) -> str:
    more = f"\n(This is only the beginning: read {file.path} for the rest.)" if file.cut else ""
    folder = posixpath.dirname(file.path)
    return (
        f"[For all files in {folder}/ the project says:]\n"
        f'<project_instructions path="{file.path}">\n{file.text}\n</project_instructions>{more}'
    )


def _list_folders(path: str) -> list[str]:
    """Return the folders of the workspace from below its root down to a path."""
    clean = posixpath.normpath(path)
    if clean.startswith(("/", "..")) or clean == ".":
        return []
    steps = clean.split("/")[: _DEEPEST_FOLDER + 1]
    return ["/".join(steps[:depth]) for depth in range(1, len(steps) + 1)]
