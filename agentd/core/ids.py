"""Unique names and numbers: sequences, keys, salts, tokens and request ids.

The only importer of ``secrets``, so that every source of randomness is in one place.
"""

import itertools
import secrets
import string
from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import Literal, TypeAlias

from msgspec import Struct

KEY_PREFIX = "agent_"
"""Prefix of every API key (specification, section 2)."""

KEY_LENGTH = 32
"""Number of random characters after the prefix: 190 bits."""

MANAGEMENT_KEY_PREFIX = "agentd-manage-"
"""Prefix of every named management key of the model gateway."""

ACCESS_KEY_PREFIX = "sk-agentd-"
"""Prefix of every access key of the model gateway."""

ACCESS_KEY_ID_LENGTH = 12
"""Number of characters in an access key's id: 71 bits, so that no two keys share one."""

CODE_ALPHABET = "ACDEFGHJKMNPQRTUVWXY34679"
"""Characters of one-time codes, without those easily confused (0 O, 1 I L, 2 Z, 5 S, 8 B)."""

CODE_LENGTH = 10
"""Length of a one-time code: 46 bits, enough when only five attempts are allowed."""

_ALPHABET = string.ascii_letters + string.digits
_PROCESS = secrets.token_hex(4)
_requests = itertools.count(1)


def generate_key() -> str:
    """Return an API key: ``agent_`` and 32 characters of ``A-Za-z0-9``."""
    return KEY_PREFIX + _generate_letters(KEY_LENGTH)


def generate_access_key(key_id: str = "") -> tuple[str, str]:
    """Return an access key's id and the key: ``sk-agentd-``, the id, a dash, 32 characters.

    Given the id of an existing key, return a new secret for that one.
    """
    key_id = key_id or _generate_letters(ACCESS_KEY_ID_LENGTH)
    return key_id, f"{ACCESS_KEY_PREFIX}{key_id}-{_generate_letters(KEY_LENGTH)}"


def generate_management_key() -> str:
    """Return a management key: ``agentd-manage-`` and 32 characters of ``A-Za-z0-9``."""
    return MANAGEMENT_KEY_PREFIX + _generate_letters(KEY_LENGTH)


def generate_signing_seed() -> bytes:
    """Return the seed of an Ed25519 key pair: 256 random bits."""
    return secrets.token_bytes(32)


def generate_salt() -> str:
    """Return 128 random bits as 32 lowercase hexadecimal digits."""
    return secrets.token_hex(16)


def generate_session_token() -> str:
    """Return a login session's token: 256 random bits as 64 lowercase hexadecimal digits."""
    return secrets.token_hex(32)


def generate_login_code() -> str:
    """Return a one-time code for a person to type."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))


def generate_generation() -> str:
    """Return an id for a state folder and all its copies: 128 random bits in hexadecimal."""
    return secrets.token_hex(16)


def generate_run_name() -> str:
    """Return a name for one run of the daemon over its folder: 32 random bits in hexadecimal."""
    return secrets.token_hex(4)


def generate_connection_id() -> str:
    """Return the secret id of a live connection: 128 random bits, URL-safe."""
    return secrets.token_urlsafe(16)


def generate_request_id() -> str:
    """Return a unique request id such as ``9f86d081-2a``: a part per process, and a counter.

    Cheap and not secret.
    """
    return f"{_PROCESS}-{next(_requests):x}"


def _generate_letters(count: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(count))


class HighWaterMarks(Struct, frozen=True):
    """The highest number of each kind that was, or may have been, handed out."""

    chat: int = 0
    prompt: int = 0
    message: int = 0
    seq: int = 0

    def merge(self, other: "HighWaterMarks") -> "HighWaterMarks":
        """Return the larger of each: a copied folder's marks may be older than its journals."""
        return HighWaterMarks(
            max(self.chat, other.chat),
            max(self.prompt, other.prompt),
            max(self.message, other.message),
            max(self.seq, other.seq),
        )


SequenceKind: TypeAlias = Literal["chat", "prompt", "message", "seq"]

ZERO_MARKS = HighWaterMarks()
RESERVED_AHEAD = HighWaterMarks(chat=100, prompt=1000, message=1000, seq=5000)
"""The count of numbers reserved at a time; at most this many are skipped after a crash.

Storing a mark costs as much as several appends, so it must be rare in comparison.
"""


class Sequences:
    """Ever-rising positive numbers that are never handed out twice.

    A number may reach the disk only when a stored mark covers it: a writer first calls
    ``get_marks_to_reserve``, stores the result, and then calls ``mark_reserved``.
    """

    def __init__(self, used: HighWaterMarks = ZERO_MARKS) -> None:
        self._used: dict[SequenceKind, int] = {
            "chat": used.chat,
            "prompt": used.prompt,
            "message": used.message,
            "seq": used.seq,
        }
        self._reserved = used

    def next(self, kind: SequenceKind) -> int:
        """Return the next number of this kind."""
        self._used[kind] += 1
        return self._used[kind]

    @property
    def used(self) -> HighWaterMarks:
        """The highest numbers handed out."""
        return HighWaterMarks(**self._used)

    def get_marks_to_reserve(self) -> HighWaterMarks | None:
        """Return the marks to store before numbers handed out so far may be written, if any."""
        used, reserved = self.used, self._reserved
        if used.merge(reserved) == reserved:
            return None
        return HighWaterMarks(
            used.chat + RESERVED_AHEAD.chat,
            used.prompt + RESERVED_AHEAD.prompt,
            used.message + RESERVED_AHEAD.message,
            used.seq + RESERVED_AHEAD.seq,
        )

    def mark_reserved(self, marks: HighWaterMarks) -> None:
        """Record that these marks are stored."""
        self._reserved = self._reserved.merge(marks)


class DaemonRun(Struct, frozen=True):
    """A run of the daemon over a state folder: its name, and the range of its seqs."""

    name: str
    after: int
    """The last seq that may have been handed out before this run."""
    upto: int | None = None
    """The last of its seqs that is on disk; ``None`` while it runs."""


class RunHistory:
    """The runs of the daemon and their records, in this history of the state folder.

    A restored older copy of the folder hands out seqs that clients already saw with other
    events, from the original folder. The runs distinguish the two.
    """

    def __init__(self, runs: Iterable[DaemonRun] = (), removed: int = 0) -> None:
        self.removed = removed
        """The last seq of a chat that was removed for ever before this run, with its records."""
        self._runs = tuple(runs)
        self._named = {run.name: run for run in self._runs}

    @property
    def current(self) -> str:
        """The name of the current run; empty when none is known."""
        return self._runs[-1].name if self._runs else ""

    def get_run_name(self, seq: int) -> str:
        """Return the run that wrote a record; empty for one older than all known runs."""
        place = bisect_left(self._runs, seq, key=attrgetter("after"))
        return self._runs[place - 1].name if place else ""

    def has_seq(self, seq: int, name: str) -> bool:
        """Return whether this run wrote this seq, in this history; true when no run is named."""
        if not name:
            return True
        run = self._named.get(name)
        return run is not None and run.after <= seq and (run.upto is None or seq <= run.upto)


MAX_ID = 2**53 - 1
"""The largest id: the largest integer that every JSON reader keeps exact."""
