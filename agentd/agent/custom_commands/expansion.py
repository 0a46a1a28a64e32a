"""Expands a command for an engine: runs a custom command's lines and reads its files.

A command line asks for permission as one of the model does; where it is not allowed, the text says
so in its place. Only files that may be read unasked are included; any other path stays as it is.
A prompt of an MCP server is a command, too, whose text the server gives.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress

from msgspec import Struct, structs

from agentd.agent.custom_commands.model import (
    CommandLine,
    CustomCommand,
    IncludedFile,
    Invocation,
    fill_in,
    parse_invocation,
)
from agentd.agent.engine import (
    Approver,
    Engine,
    EngineEvent,
    RateLimited,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.text import sanitize
from agentd.agent.tools.model import RunCommand
from agentd.agent.tools.results import CommandResult, FileText
from agentd.agent.tools.toolbox import Toolbox
from agentd.core.errors import AgentdError

COMMAND = "command"
"""The name that the history gives to what a command expanded to."""
LONGEST_PROMPT = 200_000
"""Characters of an expanded command."""
MOST_FILES = 50
LONGEST_SHOWN = 20_000
"""Characters of an expanded command that the history shows."""

FindCommand = Callable[[TurnRequest], Awaitable[CustomCommand | None]]


class ExpandedPrompt(Struct, frozen=True):
    """The text that replaces a command."""

    text: str


class CommandEngine:
    """An engine whose prompts may call commands; ``find`` returns the custom one of a turn.

    With ``server_prompts`` they may also call the prompts of MCP servers, by ``/server:name``.
    """

    def __init__(
        self, engine: Engine, tools: Toolbox, find: FindCommand, *, server_prompts: bool = False
    ) -> None:
        self.name = engine.name
        self._engine = engine
        self._tools = tools
        self._find = find
        self._server_prompts = server_prompts
        self._expanded: dict[int, tuple[int, str]] = {}
        """By chat: the message whose turn ended at a rate limit, and the prompt it expanded to."""

    def run(self, assignment: TurnRequest, approver: Approver) -> AsyncGenerator[EngineEvent, None]:
        """Run one prompt, expanded if it calls a command; see ``Engine``."""
        called = parse_invocation(assignment.prompt)
        if called is None:
            return self._engine.run(assignment, approver)
        return self._run_command(called, assignment, approver)

    async def _run_command(
        self, called: Invocation, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        message, text = self._expanded.pop(assignment.chat_id, (-1, ""))
        if message != assignment.message:
            text = _find_expansion(assignment)
        is_known = assignment.is_retry and bool(text)
        command = None if is_known else await self._find(assignment)
        if is_known:  # what the lines of a command did is not done twice
            assignment = structs.replace(assignment, prompt=text)
        elif command or (self._server_prompts and ":" in called.name):
            expansion = (
                self._expand(command, called.arguments, assignment, approver)
                if command
                else self._expand_server_prompt(called, assignment, approver)
            )
            async with aclosing(expansion) as steps:
                async for step in steps:
                    if isinstance(step, ExpandedPrompt):
                        assignment = structs.replace(assignment, prompt=step.text)
                    else:
                        yield step
                        if isinstance(step, TurnFailed):
                            return
        async with aclosing(self._engine.run(assignment, approver)) as events:
            coming = anext(events)
            while True:
                try:
                    event = await coming
                except StopAsyncIteration:
                    return
                if isinstance(event, RateLimited):
                    self._expanded[assignment.chat_id] = assignment.message, assignment.prompt
                try:
                    yield event
                except asyncio.CancelledError as stop:  # the engine may have more to report
                    coming = events.athrow(stop)
                else:
                    coming = anext(events)

    async def _expand(
        self, command: CustomCommand, arguments: str, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent | ExpandedPrompt, None]:
        typed = sanitize(assignment.prompt.strip())
        texts: list[str] = []
        files: list[FileText] = []
        turn = assignment.turn_tag
        for part in fill_in(command, arguments):
            match part:
                case CommandLine(line):
                    yield ToolStarted(RunCommand.name, line)
                    async with self._tools.open_turn(turn):
                        output, ok = await self._run_line(line, command, approver, turn)
                    yield ToolUsed(RunCommand.name, line, sanitize(output), ok=ok)
                    texts.append(output)
                case IncludedFile(path):
                    texts.append(f"@{path}")
                    file = await self._read_file(path) if len(files) < MOST_FILES else None
                    files += [file] if file else []
                case _:
                    texts.append(part.text)
        text = "".join((*texts, *map(_render_file, files)))
        if len(text) > LONGEST_PROMPT:
            yield TurnFailed(
                f"/{command.name} expands to {len(text):,} characters, of {LONGEST_PROMPT:,} that"
                " can be sent. Let it include less."
            )
            return
        shown = sanitize(text)
        more = "…" if len(shown) > LONGEST_SHOWN else ""
        yield ToolUsed(COMMAND, typed, f"{command.path}\n\n{shown[:LONGEST_SHOWN]}{more}")
        yield ExpandedPrompt(text)

    async def _expand_server_prompt(
        self, called: Invocation, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent | ExpandedPrompt, None]:
        """Expand a prompt of an MCP server; nothing if there is none of this name."""
        server, _, name = called.name.partition(":")
        try:
            tools = await self._tools.open_mcp(assignment.chat_id, approver)
            try:
                text = await tools.get_prompt(server, name, called.arguments)
            finally:
                tools.close()
        except AgentdError as error:
            yield TurnFailed(". ".join(filter(None, (error.message, error.details))))
            return
        if text is None:
            return
        shown, typed = sanitize(text), sanitize(assignment.prompt.strip())
        yield ToolUsed(COMMAND, typed, f"MCP server {server}\n\n{shown[:LONGEST_SHOWN]}")
        yield ExpandedPrompt(text)

    async def _run_line(
        self, line: str, command: CustomCommand, approver: Approver, turn: str
    ) -> tuple[str, bool]:
        """Return the output of a command line, or why there is none; and whether it succeeded."""
        why = f"The command /{command.name} ({command.path}) runs this."
        if not line.strip():
            return "", True
        try:
            ended = await self._tools.use(RunCommand(line), approver, turn, why)
        except AgentdError as error:
            return f"[not run: {error.message}]", False
        assert isinstance(ended, CommandResult)
        output = ended.output.strip("\n")
        if ended.late:
            return f"{output}\n[ended: it took too long]", False
        return (output, True) if ended.code == 0 else (f"{output}\n[exit {ended.code}]", False)

    async def _read_file(self, path: str) -> FileText | None:
        with suppress(AgentdError):
            return await self._tools.read_unasked(path.removeprefix("./"))
        return None


def _find_expansion(assignment: TurnRequest) -> str:
    """Return what the prompt expanded to before the daemon was restarted, as the history has it.

    Empty if it did not come to that, or if the history does not have all of it.
    """
    typed = sanitize(assignment.prompt.strip())
    for one in reversed(assignment.history):
        if one.id <= assignment.message:
            break
        if one.tool == COMMAND and one.text.startswith(f"{typed}\n\n"):
            _, _, shown = one.text.removeprefix(f"{typed}\n\n").partition("\n\n")
            return shown if len(shown) <= LONGEST_SHOWN else ""
    return ""


def _render_file(file: FileText) -> str:
    lines = "\n".join(file.lines)
    cut = len(file.lines) < file.total
    more = f"\n(These are the first {len(file.lines)} of {file.total} lines.)" if cut else ""
    return f'\n\n<file path="{file.path}">\n{lines}\n</file>{more}'
