"""The tools at work: who carries each one out, and what is asked before.

Reading is not asked about, except of a protected file (``protected``). Writing and running are,
always: whether somebody has to answer or a rule does is the approver's matter. What was asked
about is what is then done: a path is resolved once, and read or written where it led when the
question was put.

``Workspace``, ``Repository`` and ``Terminal`` are what tools ask of the world. What can go wrong
is raised: ``NotFound`` (no such path, or no git repository), ``BadRequest`` (not of the kind that
the tool works on), ``Forbidden`` (outside the workspace, closed, or not allowed), ``Conflict``
(changed by somebody else meanwhile) and ``Unavailable`` (the folder vanished, a program is
missing, it took too long).
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct

from agentd.agent.engine import Approver, Question
from agentd.agent.results import (
    Commits,
    Counts,
    Diff,
    FileText,
    Hits,
    Listing,
    Outline,
    Ran,
    Status,
    ToolResult,
    Written,
)
from agentd.agent.tools import (
    CountFiles,
    EditFile,
    FindFiles,
    GitDiff,
    GitLog,
    GitStatus,
    ListFiles,
    OutlineFile,
    ReadFile,
    Reading,
    RunCommand,
    SearchText,
    ToolUse,
    WriteFile,
)
from agentd.chats.approval import Kind
from agentd.errors import Forbidden


class Place(Struct, frozen=True):
    """Where a path really leads: from the workspace's root, or from ``/`` outside of it."""

    path: str
    outside: bool = False
    protected: str = ""
    """Why it takes leave in any case; empty: it does not."""


class Guarded(Forbidden):
    """A protected place was to be read, for which somebody may give leave."""

    def __init__(self, path: str, place: Place) -> None:
        super().__init__(f"{path}: {place.protected} A single file is read by leave (read_file).")
        self.place = place


class Workspace(Protocol):
    """The person's folder. It is never left, but to write at a place said to be outside."""

    def list_files(self, wanted: ListFiles) -> Awaitable[Listing]:
        """The entries of a folder, folders first at each level."""
        ...

    def find_files(self, wanted: FindFiles) -> Awaitable[Listing]:
        """The files whose name matches."""
        ...

    def read_file(self, wanted: ReadFile, allowed: Place | None = None) -> Awaitable[FileText]:
        """Lines of a text file; ``Guarded`` for a protected one, unless it was ``allowed``."""
        ...

    def search_text(self, wanted: SearchText) -> Awaitable[Hits]:
        """The lines that hold a text, file by file."""
        ...

    def count_files(self, wanted: CountFiles) -> Awaitable[Counts]:
        """How many files, lines and words."""
        ...

    def outline_file(self, wanted: OutlineFile) -> Awaitable[Outline]:
        """The definitions in a Python file."""
        ...

    def place(self, path: str) -> Awaitable[Place]:
        """Where a path to be written leads; it may be absolute, and nothing need be there."""
        ...

    def write_file(self, wanted: WriteFile, place: Place) -> Awaitable[Written]:
        """Write a whole file at once, or not at all."""
        ...

    def edit_file(self, wanted: EditFile, place: Place) -> Awaitable[Written]:
        """Replace a text in a file."""
        ...


class Repository(Protocol):
    """The git repository that the workspace is in, if it is in one; it is only read."""

    def status(self, wanted: GitStatus) -> Awaitable[Status]:
        """The branch and the changed files."""
        ...

    def log(self, wanted: GitLog) -> Awaitable[Commits]:
        """The latest commits."""
        ...

    def diff(self, wanted: GitDiff) -> Awaitable[Diff]:
        """What differs."""
        ...


class Terminal(Protocol):
    """Where command lines run, in the workspace."""

    def run(self, wanted: RunCommand, turn: str) -> Awaitable[Ran]:
        """Run one to its end. Cancelling kills all that it started; so does its end.

        What leaves its process group meanwhile may live on until the turn ends.
        """
        ...

    def end_turn(self, turn: str) -> Awaitable[None]:
        """Kill what the command lines of this turn left running, wherever it fled."""
        ...


class Toolbox:
    """All tools together."""

    def __init__(self, workspace: Workspace, repository: Repository, terminal: Terminal) -> None:
        self._workspace = workspace
        self._repository = repository
        self._terminal = terminal

    @asynccontextmanager
    async def turn(self, mark: str) -> AsyncIterator[None]:
        """Let tools be used for the turn ``mark``; at its end nothing that they started lives."""
        try:
            yield
        finally:
            await self._terminal.end_turn(mark)

    async def use(
        self, use: ToolUse, approver: Approver, turn: str = "", why: str = ""
    ) -> ToolResult:
        """Ask where that is due, and do it.

        ``turn`` marks the programs that are started; ``why`` is told to who is asked.
        """
        match use:
            case WriteFile() | EditFile():
                place = await self._workspace.place(use.path)
                kind: Kind = "outside" if place.outside else "write"
                question = Question(kind, use.name, place.path, why, place.protected)
                await _allowed(question, approver)
                if isinstance(use, WriteFile):
                    return await self._workspace.write_file(use, place)
                return await self._workspace.edit_file(use, place)
            case RunCommand():
                await _allowed(Question("shell", use.name, use.command, why), approver)
                return await self._terminal.run(use, turn)
            case _:
                return await self._read(use, approver, why)

    async def _read(  # noqa: PLR0911 - one for each tool
        self, use: Reading, approver: Approver, why: str
    ) -> ToolResult:
        match use:
            case ReadFile():
                return await self._read_file(use, approver, why)
            case ListFiles():
                return await self._workspace.list_files(use)
            case FindFiles():
                return await self._workspace.find_files(use)
            case SearchText():
                return await self._workspace.search_text(use)
            case CountFiles():
                return await self._workspace.count_files(use)
            case OutlineFile():
                return await self._workspace.outline_file(use)
            case GitStatus():
                return await self._repository.status(use)
            case GitLog():
                return await self._repository.log(use)
            case GitDiff():
                return await self._repository.diff(use)

    async def _read_file(self, use: ReadFile, approver: Approver, why: str) -> FileText:
        try:
            return await self._workspace.read_file(use)
        except Guarded as error:
            place = error.place
        await _allowed(Question("read", use.name, place.path, why, place.protected), approver)
        return await self._workspace.read_file(use, place)


async def _allowed(question: Question, approver: Approver) -> None:
    answer = await approver.ask(question)
    if not answer.allowed:
        why = f": {answer.reason.rstrip('.')}" if answer.reason else ""
        raise Forbidden(f"This was not allowed{why}.")
