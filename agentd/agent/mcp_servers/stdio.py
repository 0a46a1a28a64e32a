"""A server that is a program of ours: one message on each line of its input and output."""

import asyncio

from agentd.agent.mcp_servers.messages import RpcId, decode_messages
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.transport import OnClosed, OnLost, OnMessage
from agentd.agent.text import sanitize
from agentd.core.errors import TooLarge, Unavailable
from agentd.core.redaction import scrub
from agentd.core.tasks import cancel_task
from agentd.system.dialogue import Graces, Program
from agentd.system.lines import Lines
from agentd.system.orphans import kill_orphans
from agentd.system.process import MARK, build_environment

MOST_ODD_LINES = 1_000
"""Lines in a row that are no messages, before the program is given up."""
_LONGEST_WORDS = 1_000
_GRACES = Graces()


class StdioTransport:
    """Runs the program in ``folder``; ``tag`` marks it and all that it starts.

    Its environment has what every child of the daemon has and ``server.env``, none of our keys.
    """

    def __init__(self, server: ReadyServer, folder: str, tag: str) -> None:
        self._server = server
        self._folder = folder
        self._tag = tag
        self._program: Program | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self, on_message: OnMessage, on_closed: OnClosed, on_lost: OnLost) -> None:
        """Start the program; ``Unavailable`` if that is not possible."""
        mark = {MARK: self._tag} if self._tag else {}
        env = build_environment(**{**self._server.env, **mark})
        program = await Program.start(self._server.command, folder=self._folder, env=env)
        self._program = program
        self._reading = asyncio.create_task(self._read(program, on_message, on_closed))

    async def send(self, message: bytes, request: RpcId | None = None) -> None:
        """Write a line; ``Unavailable`` if the program does not read."""
        if self._program is None:
            raise Unavailable(f"The MCP server {self._server.name} is not running.")
        self._program.write(message)

    def forget(self, request: RpcId) -> None:
        """Do nothing: a line that comes too late is nobody's."""

    def on_initialized(self, revision: str) -> None:
        """Do nothing: lines are the same in all revisions."""

    async def close(self) -> None:
        """End the program with everything that it started."""
        program, self._program = self._program, None
        if program is None:
            return
        try:
            if self._reading:
                await cancel_task(self._reading)
        finally:
            await self._end(program)

    async def _end(self, program: Program) -> None:
        try:
            await program.end(_GRACES)
        finally:
            if self._tag:
                await kill_orphans(self._tag)

    async def _read(self, program: Program, on_message: OnMessage, on_closed: OnClosed) -> None:
        lines, odd = Lines(), 0
        while data := await program.read():
            for line in lines.feed(data):
                try:
                    messages = decode_messages(line)
                except TooLarge:
                    on_closed("it wrote a message with too many values")
                    return
                odd = 0 if messages else odd + 1
                for message in messages:
                    on_message(message)
            if lines.passed_over:
                on_closed("it wrote a line that is too long")
                return
            if odd > MOST_ODD_LINES:
                on_closed("it keeps writing lines that are no messages")
                return
        on_closed(await self._explain_end(program))

    async def _explain_end(self, program: Program) -> str:
        code = await program.wait_for_exit(_GRACES.exit)
        words = scrub(self._server.hide_secrets(program.last_words))
        words = sanitize(words[-_LONGEST_WORDS:])
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        return f"{how}; its last words:\n{words}" if words else how
