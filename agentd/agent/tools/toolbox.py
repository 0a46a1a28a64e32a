"""Runs the tools, and asks for approval before.

Reading needs no approval, except of a protected file. Writing and running always do; the approver
decides by rule or asks a person. What was approved is what is then done: a path is resolved once,
and read or written where it led at that time.

``Workspace``, ``RepositoryReader`` and ``Terminal`` are what tools need. They raise ``NotFound``
(no such path, or no git repository), ``BadRequest`` (not of the kind that the tool works on),
``Forbidden`` (outside the workspace, closed, or not allowed), ``Conflict`` (changed by somebody
else meanwhile) and ``Unavailable`` (the folder vanished, a program is missing, a timeout).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias

from agentd.agent.engine import Approver, Question
from agentd.agent.hooks.directory import OpenHooks, open_no_hooks
from agentd.agent.mcp_servers.turn_tools import McpTools, open_no_tools
from agentd.agent.plan import make_step, render_plan
from agentd.agent.processes.table import ProcessStatus
from agentd.agent.tools.model import (
    ApplyPatch,
    AskPerson,
    CountFiles,
    EditFile,
    EditManyPlaces,
    FetchPage,
    FindFiles,
    GitDiff,
    GitLog,
    GitStatus,
    ListFiles,
    OutlineFile,
    Process,
    ReadFile,
    Reading,
    ReadProcess,
    RunCommand,
    RunTask,
    SearchText,
    StartProcess,
    StopProcess,
    ToolUse,
    UpdateTodos,
    ViewFile,
    WriteFile,
    Writing,
)
from agentd.agent.tools.patch import FilePatch, parse_patch
from agentd.agent.tools.results import (
    BackgroundOutput,
    CommandResult,
    Commits,
    Counts,
    Diff,
    DirListing,
    FileText,
    Outline,
    PatchedFiles,
    PersonAnswer,
    RepositoryStatus,
    SearchHits,
    TodoList,
    ToolResult,
    ViewedFile,
    WebPage,
    WrittenFile,
)
from agentd.agent.tools.safe_write import PlacedPatch
from agentd.agent.tools.web import WebFetcher, check_url
from agentd.chats.approval import ApprovalKind
from agentd.core.errors import BadRequest, Forbidden, NotFound
from agentd.llm.conversation import ImagePart
from agentd.system.folder import Place, ProtectedPath

OpenMcpTools: TypeAlias = Callable[[int, Approver], Awaitable[McpTools]]
"""Returns the tools of MCP servers for a turn of a chat; close them at its end."""

_NO_ANSWER = "There is no answer: decide yourself, and say what you assumed."


class Workspace(Protocol):
    """The workspace. Only a write to a place marked as outside leaves it."""

    def list_files(self, wanted: ListFiles) -> Awaitable[DirListing]:
        """List the entries of a folder, folders first at each level."""
        ...

    def find_files(self, wanted: FindFiles) -> Awaitable[DirListing]:
        """Find files by name."""
        ...

    def read_file(self, wanted: ReadFile, allowed: Place | None = None) -> Awaitable[FileText]:
        """Return lines of a text file; raise ``ProtectedPath`` for one not ``allowed``."""
        ...

    def view_file(self, wanted: ViewFile, allowed: Place | None = None) -> Awaitable[ViewedFile]:
        """Return an image, PDF or notebook; raise ``ProtectedPath`` for one not ``allowed``."""
        ...

    def search_text(self, wanted: SearchText) -> Awaitable[SearchHits]:
        """Find the lines that contain a text, file by file."""
        ...

    def count_files(self, wanted: CountFiles) -> Awaitable[Counts]:
        """Count files, lines and words."""
        ...

    def outline_file(self, wanted: OutlineFile) -> Awaitable[Outline]:
        """Return the definitions in a Python file."""
        ...

    def resolve_place(self, path: str) -> Awaitable[Place]:
        """Resolve a path to write to; it may be absolute, and need not exist."""
        ...

    def write_file(self, wanted: WriteFile, place: Place) -> Awaitable[WrittenFile]:
        """Write a whole file atomically."""
        ...

    def edit_file(self, wanted: EditFile | EditManyPlaces, place: Place) -> Awaitable[WrittenFile]:
        """Replace texts in a file."""
        ...

    def preview_patch(self, changes: PlacedPatch) -> Awaitable[str]:
        """Return the changes of a patch as a diff."""
        ...

    def apply_patch(self, changes: PlacedPatch) -> Awaitable[PatchedFiles]:
        """Change the files of a patch; none where it does not fit."""
        ...

    def preview_change(self, wanted: Writing, place: Place) -> Awaitable[str]:
        """Return the changes of a write as a diff; empty if they are unknown."""
        ...


class RepositoryReader(Protocol):
    """The git repository of the workspace, if any; read only."""

    def read_status(self, wanted: GitStatus) -> Awaitable[RepositoryStatus]:
        """Return the branch and the changed files."""
        ...

    def log(self, wanted: GitLog) -> Awaitable[Commits]:
        """Return the latest commits."""
        ...

    def diff(self, wanted: GitDiff) -> Awaitable[Diff]:
        """Return a diff."""
        ...


class Terminal(Protocol):
    """Runs command lines in the workspace."""

    def run(self, wanted: RunCommand, turn: str) -> Awaitable[CommandResult]:
        """Run one to its end. Cancelling kills all that it started, as does its end.

        What leaves its process group may live until the turn ends.
        """
        ...

    def use_process(self, wanted: Process, turn: str) -> Awaitable[BackgroundOutput]:
        """Start, read or stop a command line in the background."""
        ...

    def take_process_news(self, turn: str) -> Sequence[ProcessStatus]:
        """Return the processes of earlier turns that run, or ended since the model heard."""
        ...

    def end_turn(self, turn: str) -> Awaitable[None]:
        """Kill everything that the command lines of this turn left running.

        What they started in the background goes on if the chat keeps it.
        """
        ...


class Web(Protocol):
    """The public web."""

    def fetch(self, wanted: FetchPage) -> Awaitable[WebPage]:
        """Get a page as text."""
        ...


class Toolbox:
    """The tools of the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        repository: RepositoryReader,
        terminal: Terminal,
        web: Web | None = None,
        open_mcp: OpenMcpTools = open_no_tools,
        open_hooks: OpenHooks = open_no_hooks,
        read_images: Callable[[str], tuple[ImagePart, ...]] = lambda prompt: (),
    ) -> None:
        self.read_images = read_images
        """Returns the uploaded images that a prompt names; it may block."""
        self.open_mcp = open_mcp
        self.open_hooks = open_hooks
        self._workspace = workspace
        self._repository = repository
        self._terminal = terminal
        self._web = web or WebFetcher()

    @asynccontextmanager
    async def open_turn(self, mark: str) -> AsyncIterator[None]:
        """Open a turn for tools, marked ``mark``; at its end everything they started is killed.

        Processes in the background go on if the chat keeps them.
        """
        try:
            yield
        finally:
            await self._terminal.end_turn(mark)

    def take_process_news(self, mark: str) -> Sequence[ProcessStatus]:
        """Return what the model of a new turn is to be told of processes in the background."""
        return self._terminal.take_process_news(mark)

    async def use(  # noqa: PLR0911 - one for each kind
        self, use: ToolUse, approver: Approver, turn: str = "", why: str = ""
    ) -> ToolResult:
        """Ask for approval where needed, and run the tool.

        ``turn`` marks started programs; ``why`` is shown with a question.
        """
        match use:
            case WriteFile() | EditFile() | EditManyPlaces():
                return await self._write(use, approver, why)
            case ApplyPatch():
                return await self._patch(use, approver, why)
            case RunCommand():
                await _require_approval(Question("shell", use.name, use.command, why), approver)
                return await self._terminal.run(use, turn)
            case StartProcess():  # what rules say of the shell holds for it, too
                question = Question("shell", RunCommand.name, use.command, why)
                await _require_approval(question, approver)
                return await self._terminal.use_process(use, turn)
            case ReadProcess() | StopProcess():
                return await self._terminal.use_process(use, turn)
            case FetchPage():
                url = check_url(use.url)
                await _require_approval(Question("network", use.name, url, why), approver)
                return await self._web.fetch(use)
            case UpdateTodos():
                return _render_todos(use)
            case RunTask():
                raise BadRequest("Only a model can start a sub-task.")
            case AskPerson():
                return await _ask_person(use, approver, why)
            case _:
                return await self._read(use, approver, why)

    async def _write(self, use: Writing, approver: Approver, why: str) -> WrittenFile:
        place = await self._workspace.resolve_place(use.path)
        kind: ApprovalKind = "outside" if place.outside else "write"
        diff = await self._workspace.preview_change(use, place)
        tool = WriteFile.name if isinstance(use, WriteFile) else EditFile.name
        question = Question(kind, tool, place.path, why, place.protected, diff=diff)
        await _require_approval(question, approver)
        if isinstance(use, WriteFile):
            return await self._workspace.write_file(use, place)
        return await self._workspace.edit_file(use, place)

    async def _patch(self, use: ApplyPatch, approver: Approver, why: str) -> PatchedFiles:
        changes: list[tuple[FilePatch, Place, Place | None]] = []
        for file in parse_patch(use.patch):
            place = await self._workspace.resolve_place(file.path)
            moved = await self._workspace.resolve_place(file.move_to) if file.move_to else None
            changes.append((file, place, moved))
        places = [one for _, *both in changes for one in both if one]
        if len({one.path for one in places}) < len(places):
            raise BadRequest("A patch names each file once; two of its paths are the same file.")
        for change in changes:  # so that rules about single files hold for a patch, too
            await self._ask_about_patch(change, approver, why)
        return await self._workspace.apply_patch(changes)

    async def _ask_about_patch(
        self, change: tuple[FilePatch, Place, Place | None], approver: Approver, why: str
    ) -> None:
        file, place, moved = change
        diff = await self._workspace.preview_patch([change])
        for one, tool in (
            (place, EditFile if file.kind != "add" else WriteFile),
            (moved, WriteFile),
        ):
            if one:
                kind: ApprovalKind = "outside" if one.outside else "write"
                question = Question(kind, tool.name, one.path, why, one.protected, diff=diff)
                await _require_approval(question, approver)

    async def read_unasked(self, path: str) -> FileText | None:
        """Return a text file that may be read without approval; None for any other."""
        try:
            return await self._workspace.read_file(ReadFile(path))
        except (NotFound, BadRequest, Forbidden):
            return None

    async def _read(  # noqa: PLR0911 - one for each tool
        self, use: Reading, approver: Approver, why: str
    ) -> ToolResult:
        match use:
            case ReadFile():
                return await self._read_file(use, approver, why)
            case ViewFile():
                return await self._view_file(use, approver, why)
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
                return await self._repository.read_status(use)
            case GitLog():
                return await self._repository.log(use)
            case GitDiff():
                return await self._repository.diff(use)

    async def _read_file(self, use: ReadFile, approver: Approver, why: str) -> FileText:
        try:
            return await self._workspace.read_file(use)
        except ProtectedPath as error:
            place = error.place
        await _require_approval(
            Question("read", use.name, place.path, why, place.protected), approver
        )
        return await self._workspace.read_file(use, place)

    async def _view_file(self, use: ViewFile, approver: Approver, why: str) -> ViewedFile:
        try:
            return await self._workspace.view_file(use)
        except ProtectedPath as error:
            place = error.place
        question = Question("read", ReadFile.name, place.path, why, place.protected)
        await _require_approval(question, approver)
        return await self._workspace.view_file(use, place)


def has_succeeded(result: ToolResult) -> bool:
    """Return whether a tool did what it was to do; a command line did where it ended with 0."""
    if isinstance(result, PersonAnswer):
        return result.given
    return not isinstance(result, CommandResult) or (result.code == 0 and not result.late)


def get_diff(result: ToolResult) -> str:
    """Return a tool's changes of files as a diff."""
    return result.diff if isinstance(result, WrittenFile | PatchedFiles) else ""


async def _ask_person(use: AskPerson, approver: Approver, why: str) -> PersonAnswer:
    listed = "".join(f"\n- {choice}" for choice in use.choices)
    subject = f"{use.question}\n{listed}" if listed else use.question
    answer = await approver.ask(Question("question", use.name, subject, why, choices=use.choices))
    if answer.allowed:
        return PersonAnswer(answer.reason or "Yes.")
    return PersonAnswer(f"{_NO_ANSWER} {answer.reason}".strip(), given=False)


def _render_todos(use: UpdateTodos) -> TodoList:
    steps = [make_step(item.text, item.status) for item in use.items]
    done = sum(step.status == "completed" for step in steps)
    return TodoList(render_plan(steps), done, len(steps))


async def _require_approval(question: Question, approver: Approver) -> None:
    answer = await approver.ask(question)
    if not answer.allowed:
        why = f": {answer.reason.rstrip('.')}" if answer.reason else ""
        raise Forbidden(f"This was not allowed{why}.")
