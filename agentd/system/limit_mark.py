"""Mark the processes of a turn with a resource limit that limits nothing.

Unlike an environment variable, the file size limit (``RLIMIT_FSIZE``) is inherited through
``env -i``, ``setsid``, closed descriptors and the death of parents, and any process of the same
user can read it. Each turn gets its own value, above an exabyte, which no file reaches.
Only a process that sets this limit itself loses the mark; without privileges it can only lower it.

Alternatives: a subreaper (``PR_SET_CHILD_SUBREAPER``) would have to run between the daemon and
every command until the turn ends; a cgroup per turn needs a delegation that containers and plain
logins do not have.
"""

import resource
from contextlib import suppress
from hashlib import sha256

_LEAST = 2**51
"""Blocks: more than any file has, and few enough for the bytes to fit into 63 bits."""
_BLOCKS = (512, 1024)
"""Bytes in a block of ``ulimit -f``: 512 by POSIX, yet some shells count in 1024."""


def mark_command_line(command: str, turn: str) -> str:
    """Return a shell command line that first marks its own process as this turn's."""
    return f"ulimit -f {_get_blocks(turn)} 2>/dev/null; {command}"


def mark_process(pid: int, turn: str) -> None:
    """Mark a process and its future children; do nothing where that is not possible."""
    size = _get_blocks(turn) * _BLOCKS[0]
    with suppress(OSError, ValueError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))


def is_marked(pid: int, turn: str) -> bool:
    """Return whether a process has this turn's mark; False if it exited or cannot be read."""
    try:
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    except (OSError, AttributeError):
        return False
    return any(most == _get_blocks(turn) * size for size in _BLOCKS)


def _get_blocks(turn: str) -> int:
    return _LEAST + int.from_bytes(sha256(turn.encode()).digest()[:8]) % _LEAST
