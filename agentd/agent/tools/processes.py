"""Command lines that run in the background during the turn, and end with it.

Each has a process group of its own, like a command line in the foreground; the same marks find
what leaves it (``shell``). What it writes is kept until it is read, the beginning and the end.
"""

import asyncio
from contextlib import suppress

from agentd.agent.tools.model import ReadProcess, StartProcess, StopProcess
from agentd.agent.tools.output import KEPT, HeadTailBuffer, build_shell_environment
from agentd.agent.tools.results import BackgroundOutput
from agentd.core.errors import AgentdError, BadRequest, NotFound
from agentd.system import process
from agentd.system.limit_mark import mark_command_line

MOST_RUNNING = 8
"""Processes of one turn that run at the same time."""
_LONGEST_LIFE = 24 * 3600.0
"""Seconds; a turn ends long before."""
_MOST_OUTPUT = 2**30
_FIRST_LOOK = 0.5
"""Seconds in which a program that cannot start mostly says so."""


class BackgroundProcess:
    """A command line in the background."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.task: asyncio.Task[process.Finished] | None = None
        self._output = HeadTailBuffer(KEPT)
        self._news = asyncio.Event()

    def add_output(self, data: bytes) -> None:
        """Keep what it wrote."""
        self._output.add(data)
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Wait for output or its end, so long at most."""
        assert self.task
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait(
                [news, self.task], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            news.cancel()

    def take_output(self) -> BackgroundOutput:
        """Return the output since the last call; raise if the process could not start."""
        assert self.task
        said = self._output.render()
        self._output = HeadTailBuffer(KEPT)
        self._news.clear()
        if not self.task.done():
            return BackgroundOutput(self.number, running=True, output=said)
        code = -9 if self.task.cancelled() else self.task.result().code
        return BackgroundOutput(self.number, running=False, code=code, output=said)


class ProcessTable:
    """The processes of all running turns, in the folder ``root``."""

    def __init__(self, root: str, umask: int = process.DEFAULT_UMASK) -> None:
        self._root = root
        self._umask = umask
        self._turns: dict[str, dict[int, BackgroundProcess]] = {}

    async def start(self, wanted: StartProcess, turn: str) -> BackgroundOutput:
        """Start a command line; return its number and what it writes in its first moment."""
        mine = self._turns.setdefault(turn, {})
        if sum(one.task is not None and not one.task.done() for one in mine.values()) >= (
            MOST_RUNNING
        ):
            raise BadRequest(f"{MOST_RUNNING} processes run already: stop one of them first.")
        started = BackgroundProcess(len(mine) + 1)
        line = mark_command_line(wanted.command, turn) if turn else wanted.command
        started.task = asyncio.create_task(
            process.run(
                ("/bin/sh", "-c", line),
                folder=self._root,
                env=build_shell_environment(turn),
                timeout=_LONGEST_LIFE,
                limit=_MOST_OUTPUT,
                on_output=started.add_output,
                umask=self._umask,
            )
        )
        mine[started.number] = started
        await started.wait(_FIRST_LOOK)
        return started.take_output()

    async def read(self, wanted: ReadProcess, turn: str) -> BackgroundOutput:
        """Return the output of a process since it was last read."""
        found = self._find(wanted.id, turn)
        if wanted.seconds:
            await found.wait(wanted.seconds)
        return found.take_output()

    async def stop(self, wanted: StopProcess, turn: str) -> BackgroundOutput:
        """Kill a process with its group; return the last that it wrote."""
        found = self._find(wanted.id, turn)
        await _end(found)
        return found.take_output()

    async def end_turn(self, turn: str) -> None:
        """Kill all processes of a turn."""
        for one in self._turns.pop(turn, {}).values():
            await _end(one)

    def _find(self, number: int, turn: str) -> BackgroundProcess:
        mine = self._turns.get(turn, {})
        if number not in mine:
            known = ", ".join(map(str, mine)) or "none"
            raise NotFound(f"There is no process {number} in this turn; there are: {known}.")
        return mine[number]


async def _end(one: BackgroundProcess) -> None:
    assert one.task
    one.task.cancel()
    with suppress(AgentdError, asyncio.CancelledError):
        await asyncio.wait([one.task])
    if not one.task.cancelled():
        one.task.exception()
