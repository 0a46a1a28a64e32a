"""The environment of command lines, and the part of their output that is kept."""

from agentd.system import process

KEPT = 16 * 1024
"""Bytes kept of the beginning, and of the end."""

_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}
"""Variables that turn off pagers and password prompts, which cannot be used here."""


def build_shell_environment(turn: str) -> dict[str, str]:
    """Return the environment of a command line, with the turn's mark."""
    return process.build_environment(
        **_QUIET, **process.GIT_SAFETY_VARIABLES, **{process.MARK: turn}
    )


class HeadTailBuffer:
    """Keeps the first and the last ``size`` bytes of a stream, and counts those between."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Append data."""
        self._total += len(data)
        room = self._size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 4 * self._size:
            del self._tail[: -self._size]

    def render(self) -> str:
        """Return all of it, or both ends with a note on what was left out."""
        tail = bytes(self._tail[-self._size :])
        left_out = self._total - len(self._head) - len(tail)
        if not left_out:
            return (self._head + tail).decode("utf-8", "replace")
        head = self._head.decode("utf-8", "replace")
        return f"{head}\n… {left_out:,} bytes left out …\n{tail.decode('utf-8', 'replace')}"
