"""Runs command lines in the workspace: in a shell and process group of their own, with a timeout.

The beginning and the end of the output are kept, where programs say what they do and why they
failed. When the shell has ended or its caller is cancelled, its process group is killed. What
left the group and closed its outputs (``setsid``, ``nohup``, a daemon) lives until the turn ends,
so that a server can be started with one command and tested with the next.
"""

from agentd.agent.processes.table import ProcessStatus, ProcessTable
from agentd.agent.tools.model import (
    LONGEST_RUN,
    Process,
    ReadProcess,
    RunCommand,
    StartProcess,
)
from agentd.agent.tools.output import KEPT, HeadTailBuffer, build_shell_environment
from agentd.agent.tools.results import BackgroundOutput, CommandResult
from agentd.core.threads import run_uncancellable
from agentd.system import process
from agentd.system.limit_mark import mark_command_line
from agentd.system.orphans import kill_orphans_now

LOUDEST = 64 * 2**20
"""Bytes; a program that writes more is ended."""

LARGEST_ANSWER = 2**20
"""Bytes; a hook that writes more is ended."""


class ShellTerminal:
    """``Terminal`` in the folder ``root``; new files get their mode by ``umask``.

    ``processes`` are those in the background, of this and other folders.
    """

    def __init__(
        self,
        root: str,
        processes: ProcessTable | None = None,
        *,
        umask: int = process.DEFAULT_UMASK,
    ) -> None:
        self._root = root
        self._umask = umask
        self._processes = processes or ProcessTable()
        self._used: set[str] = set()
        """Turns that have run a command line."""

    async def run(self, wanted: RunCommand, turn: str) -> CommandResult:
        """Run a command line, with ``AGENTD_TURN`` in the usual environment.

        It has both marks of the turn.
        """
        self._used.add(turn)
        ends = HeadTailBuffer(KEPT)
        ended = await process.run(
            ("/bin/sh", "-c", mark_command_line(wanted.command, turn) if turn else wanted.command),
            folder=self._root,
            env=build_shell_environment(turn),
            timeout=float(min(max(wanted.seconds, 1), LONGEST_RUN)),
            limit=LOUDEST,
            on_output=ends.add,
            umask=self._umask,
        )
        note = (
            f"\n… it wrote more than {LOUDEST:,} bytes and was ended …\n" if ended.truncated else ""
        )
        return CommandResult(ended.code, ends.render() + note, late=ended.late)

    async def run_hook(
        self, command: str, given: bytes, seconds: float, turn: str
    ) -> process.Finished:
        """Run a hook with an input; its two outputs are kept apart. It has both marks."""
        self._used.add(turn)
        places = dict.fromkeys(("CLAUDE_PROJECT_DIR", "AGENTD_PROJECT_DIR"), self._root)
        return await process.run(
            ("/bin/sh", "-c", mark_command_line(command, turn) if turn else command),
            folder=self._root,
            env=build_shell_environment(turn) | places,
            given=given,
            timeout=seconds,
            limit=LARGEST_ANSWER,
            umask=self._umask,
        )

    async def use_process(self, wanted: Process, turn: str) -> BackgroundOutput:
        """Start, read or stop a command line in the background."""
        match wanted:
            case StartProcess():
                return await self._processes.start(wanted, turn, self._root, self._umask)
            case ReadProcess():
                return await self._processes.read(wanted, turn)
            case _:
                return await self._processes.stop(wanted, turn)

    def take_process_news(self, turn: str) -> list[ProcessStatus]:
        """Return the processes of earlier turns that run, or ended since the model heard."""
        return self._processes.take_news(turn)

    async def end_turn(self, turn: str) -> None:
        """Kill what this turn's command lines left running, found by the turn's marks."""
        await self._processes.end_turn(turn)
        if turn in self._used:
            self._used.remove(turn)
            if turn:
                await run_uncancellable(kill_orphans_now, turn)
