"""Command lines in the workspace: run by a shell, in a group of its own, for a limited time.

Of what one says the beginning and the end are kept, which is where programs tell what they do
and why they failed. When the shell has ended, or nobody waits for it any more, whatever it
started is killed with it. What left its group and closed its outputs (``setsid``, ``nohup``, a
daemon) lives on until the turn ends, so that a server can be started with one command and tried
with the next.
"""

from agentd.agent.results import Ran
from agentd.agent.tools import LONGEST_RUN, RunCommand
from agentd.outside import process
from agentd.outside.strays import end_strays_now
from agentd.threads import finished

KEPT = 16 * 1024
"""Bytes that are kept of the beginning, and of the end."""
LOUDEST = 64 * 2**20
"""Bytes; who says more is ended."""

_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}
"""Nobody is there to page through an output or to type a password."""


class ShellTerminal:
    """``Terminal`` in the folder ``root``; new files get their mode by ``umask``."""

    def __init__(self, root: str, *, umask: int = process.USUAL_UMASK) -> None:
        self._root = root
        self._umask = umask
        self._used: set[str] = set()
        """Turns for which a command line was run."""

    async def run(self, wanted: RunCommand, turn: str) -> Ran:
        """Run a command line; the environment is that of every program, and ``AGENTD_TURN``."""
        self._used.add(turn)
        ends = Ends(KEPT)
        ended = await process.run(
            ("/bin/sh", "-c", wanted.command),
            folder=self._root,
            env=process.environment(**_QUIET, **process.GIT_CAUTION, **{process.MARK: turn}),
            timeout=float(min(max(wanted.seconds, 1), LONGEST_RUN)),
            limit=LOUDEST,
            hear=ends.add,
            umask=self._umask,
        )
        note = f"\n… it said more than {LOUDEST:,} bytes and was ended …\n" if ended.cut else ""
        return Ran(ended.code, ends.text() + note, late=ended.late)

    async def end_turn(self, turn: str) -> None:
        """Kill what this turn's command lines left running, found by ``AGENTD_TURN``."""
        if turn in self._used:
            self._used.remove(turn)
            if turn:
                await finished(end_strays_now, turn)


class Ends:
    """The first and the last bytes of a stream, ``size`` of each; what lies between is counted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """What comes next."""
        self._total += len(data)
        room = self._size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 4 * self._size:
            del self._tail[: -self._size]

    def text(self) -> str:
        """All of it, or both ends with a note of what is missing between them."""
        tail = bytes(self._tail[-self._size :])
        left_out = self._total - len(self._head) - len(tail)
        if not left_out:
            return (self._head + tail).decode("utf-8", "replace")
        head = self._head.decode("utf-8", "replace")
        return f"{head}\n… {left_out:,} bytes left out …\n{tail.decode('utf-8', 'replace')}"
