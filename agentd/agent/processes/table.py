"""Command lines that run in the background of a chat: they end with its turn, unless it keeps them.

Each has a process group and a mark of its own (``system.orphans``), so that what leaves the group
is found, too. What it writes is kept until the model reads it, the beginning and the end; for a
person its end is kept. Nothing of this is on disk: no process outlives the daemon.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

from agentd.agent.tools.model import ReadProcess, StartProcess, StopProcess
from agentd.agent.tools.output import KEPT, HeadTailBuffer, build_shell_environment
from agentd.agent.tools.results import BackgroundOutput
from agentd.core.clock import Clock, SystemClock, Timestamp
from agentd.core.errors import AgentdError, BadRequest, NotFound
from agentd.core.threads import run_uncancellable
from agentd.system import process
from agentd.system.limit_mark import mark_command_line
from agentd.system.orphans import kill_orphans_now

MOST_RUNNING = 8
"""Processes of one chat that run at the same time."""
MOST_ENDED = 20
"""Ended processes of a chat that are still listed."""
TAIL_SIZE = 16 * 1024
"""Bytes of a process's output that a person is shown: the last ones."""
_LONGEST_LIFE = 7 * 24 * 3600.0
"""Seconds."""
MOST_OUTPUT = 2**30
"""Bytes; a program that writes more is ended."""
_FIRST_LOOK = 0.5
"""Seconds in which a program that cannot start mostly says so."""


class ProcessStatus(Struct, frozen=True):
    """A process as a person sees it; ``code`` is None while it runs, negative after a signal."""

    id: int
    command: str
    started_at: Timestamp
    ended_at: Timestamp
    """Empty while it runs."""
    code: int | None
    output: str
    """The end of what it wrote."""


class BackgroundProcess:
    """A command line in the background; ``mark`` is in its environment."""

    def __init__(self, number: int, command: str, mark: str, started_at: Timestamp) -> None:
        self.number = number
        self.mark = mark
        self.task: asyncio.Task[process.Finished] | None = None
        self.ended_at = ""
        self.is_reported = False
        """Whether the model knows of its end."""
        self._command = command
        self._started_at = started_at
        self._output = HeadTailBuffer(KEPT)
        self._tail = bytearray()
        self._news = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.task is not None and not self.task.done()

    def add_output(self, data: bytes) -> None:
        """Keep what it wrote."""
        self._output.add(data)
        self._tail += data[-TAIL_SIZE:]
        if len(self._tail) > 4 * TAIL_SIZE:
            del self._tail[:-TAIL_SIZE]
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
        output = self._output.render()
        self._output = HeadTailBuffer(KEPT)
        self._news.clear()
        code = self._get_code()
        if code is None:
            return BackgroundOutput(self.number, running=True, output=output)
        self.is_reported = True
        return BackgroundOutput(self.number, running=False, code=code, output=output)

    def describe(self) -> ProcessStatus:
        """Return how it is."""
        code = None
        with suppress(AgentdError):
            code = self._get_code()
        output = bytes(self._tail[-TAIL_SIZE:]).decode("utf-8", "replace")
        return ProcessStatus(
            self.number, self._command, self._started_at, self.ended_at, code, output
        )

    async def end(self) -> None:
        """Kill its process group."""
        assert self.task
        self.task.cancel()
        await asyncio.wait([self.task])

    def _get_code(self) -> int | None:
        assert self.task
        if not self.task.done():
            return None
        return -9 if self.task.cancelled() else self.task.result().code


class _ChatProcesses:
    """The processes of one chat by their numbers, which are never used again."""

    def __init__(self) -> None:
        self.started = 0
        self.by_number: dict[int, BackgroundProcess] = {}

    @property
    def running(self) -> int:
        return sum(one.running for one in self.by_number.values())

    def forget_oldest(self) -> None:
        ended = [one.number for one in self.by_number.values() if not one.running]
        for number in ended[:-MOST_ENDED]:
            del self.by_number[number]


class ProcessTable:
    """The processes of all chats.

    ``keeps`` says whether those of a chat go on after its turn, ``on_changed`` is called with a
    chat in which one began or ended. ``turn`` is a turn's mark everywhere: the state folder's
    generation, the chat and the turn, separated by dots.
    """

    def __init__(
        self,
        keeps: Callable[[int], bool] = lambda chat_id: False,
        on_changed: Callable[[int], None] = lambda chat_id: None,
        clock: Clock | None = None,
    ) -> None:
        self._keeps = keeps
        self._on_changed = on_changed
        self._clock = clock or SystemClock()
        self._chats: dict[int, _ChatProcesses] = {}

    async def start(
        self,
        wanted: StartProcess,
        turn: str,
        folder: str,
        umask: int = process.DEFAULT_UMASK,
    ) -> BackgroundOutput:
        """Start a command line; return its number and what it writes in its first moment."""
        chat_id = parse_chat(turn)
        mine = self._chats.setdefault(chat_id, _ChatProcesses())
        if mine.running >= MOST_RUNNING:
            raise BadRequest(f"{MOST_RUNNING} processes run already: stop one of them first.")
        mine.started += 1
        mark = f"{turn}-{mine.started}" if turn else ""
        started = BackgroundProcess(mine.started, wanted.command, mark, self._clock.now())
        started.task = asyncio.create_task(
            process.run(
                (
                    "/bin/sh",
                    "-c",
                    mark_command_line(wanted.command, mark) if mark else wanted.command,
                ),
                folder=folder,
                env=build_shell_environment(mark),
                timeout=_LONGEST_LIFE,
                limit=MOST_OUTPUT,
                on_output=started.add_output,
                umask=umask,
            )
        )
        started.task.add_done_callback(lambda task: self._on_end(chat_id, started, task))
        mine.by_number[started.number] = started
        mine.forget_oldest()
        self._on_changed(chat_id)
        await started.wait(_FIRST_LOOK)
        output = started.take_output()
        kept = output.running and self._keeps(chat_id)
        return BackgroundOutput(output.id, output.running, output.code, output.output, kept)

    async def read(self, wanted: ReadProcess, turn: str) -> BackgroundOutput:
        """Return the output of a process since it was last read."""
        found = self._find(wanted.id, parse_chat(turn))
        if wanted.seconds:
            await found.wait(wanted.seconds)
        return found.take_output()

    async def stop(self, wanted: StopProcess, turn: str) -> BackgroundOutput:
        """Kill a process with all that it started; return the last that it wrote."""
        found = self._find(wanted.id, parse_chat(turn))
        await _end_all([found])
        return found.take_output()

    def list_processes(self, chat_id: int) -> list[ProcessStatus]:
        """Return the processes of a chat, those that have ended included, the oldest first."""
        mine = self._chats.get(chat_id)
        return [one.describe() for one in mine.by_number.values()] if mine else []

    async def stop_process(self, chat_id: int, number: int) -> ProcessStatus:
        """Kill a process with all that it started."""
        found = self._find(number, chat_id)
        await _end_all([found])
        return found.describe()

    def take_news(self, turn: str) -> list[ProcessStatus]:
        """Return what a new turn's model is to be told: what runs, or ended since it heard."""
        mine = self._chats.get(parse_chat(turn))
        if mine is None:
            return []
        news = [one for one in mine.by_number.values() if one.running or not one.is_reported]
        for one in news:
            one.is_reported = not one.running
        return [one.describe() for one in news]

    async def end_turn(self, turn: str) -> None:
        """Kill what the processes of a chat left behind, and, unless it keeps them, themselves."""
        chat_id = parse_chat(turn)
        mine = self._chats.get(chat_id)
        if mine is None:
            return
        if not self._keeps(chat_id):
            await self.end_chat(chat_id)
            return
        await _sweep(one for one in mine.by_number.values() if not one.running)

    async def end_chat(self, chat_id: int) -> None:
        """Kill all processes of a chat, and forget them."""
        mine = self._chats.pop(chat_id, None)
        if mine and mine.by_number:
            await _end_all(mine.by_number.values())
            self._on_changed(chat_id)

    async def close(self) -> None:
        """Kill all processes of all chats."""
        for chat_id in list(self._chats):
            await self.end_chat(chat_id)

    def has_processes(self, chat_id: int) -> bool:
        """Return whether there are any of this chat."""
        return chat_id in self._chats

    def _find(self, number: int, chat_id: int) -> BackgroundProcess:
        mine = self._chats.get(chat_id, _ChatProcesses()).by_number
        if number not in mine:
            known = ", ".join(map(str, mine)) or "none"
            raise NotFound(f"There is no process {number} in this chat; there are: {known}.")
        return mine[number]

    def _on_end(
        self, chat_id: int, ended: BackgroundProcess, task: "asyncio.Task[process.Finished]"
    ) -> None:
        if not task.cancelled() and task.exception() is None:  # take_output raises it
            why = _explain_end(task.result())
            if why:
                ended.add_output(why.encode())
        ended.ended_at = self._clock.now()
        if chat_id in self._chats:
            self._on_changed(chat_id)


def parse_chat(turn: str) -> int:
    """Return the chat in a turn's mark; 0: it names none."""
    fields = turn.split(".")
    return int(fields[-2]) if len(fields) > 1 and fields[-2].isdecimal() else 0


def _explain_end(ended: process.Finished) -> str:
    """Explain why a process was ended that nobody stopped; empty if it ended by itself."""
    if ended.truncated:
        return f"\n… it wrote more than {MOST_OUTPUT:,} bytes and was ended …\n"
    return "\n… it ran for a week and was ended …\n" if ended.late else ""


async def _end_all(processes: Iterable[BackgroundProcess]) -> None:
    ending = list(processes)
    for one in ending:
        await one.end()
    await _sweep(ending)


async def _sweep(ended: Iterable[BackgroundProcess]) -> None:
    """Kill what left the groups of these processes."""
    marks = [one.mark for one in ended if one.mark]
    if marks:
        await run_uncancellable(kill_orphans_now, *marks)
