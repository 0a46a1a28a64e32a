"""Names and numbers that nobody else has: sequences, keys, salts and request ids.

The only importer of ``secrets``, so that every source of chance is seen in one place.
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
"""How every named key begins (specification, section 2)."""

KEY_LETTERS = 32
"""The random letters after the prefix: 190 bits."""

ACCESS_PREFIX = "sk-agentd-"
"""How every access key of the model gateway begins."""

ACCESS_ID_LETTERS = 12
"""The letters of an access key's id: 71 bits, so that no two keys share one."""

CODE_LETTERS = "ACDEFGHJKMNPQRTUVWXY34679"
"""Of one-time codes: none of which is taken for another (0 O, 1 I L, 2 Z, 5 S, 8 B)."""

CODE_LENGTH = 10
"""The letters of a one-time code: 46 bits, which are enough for five tries."""

_ALPHABET = string.ascii_letters + string.digits
_PROCESS = secrets.token_hex(4)
_requests = itertools.count(1)


def new_key() -> str:
    """A named access key: ``agent_`` and 32 letters of ``A-Za-z0-9``."""
    return KEY_PREFIX + _letters(KEY_LETTERS)


def new_access_key(key_id: str = "") -> tuple[str, str]:
    """An access key's id, and the key: ``sk-agentd-``, the id, a dash, 32 letters of ``A-Za-z0-9``.

    With the id of a known key: other letters for that one.
    """
    key_id = key_id or _letters(ACCESS_ID_LETTERS)
    return key_id, f"{ACCESS_PREFIX}{key_id}-{_letters(KEY_LETTERS)}"


def new_seed() -> bytes:
    """What a pair of Ed25519 keys is made from: 256 random bits."""
    return secrets.token_bytes(32)


def new_salt() -> str:
    """128 random bits, as 32 lowercase hexadecimal digits."""
    return secrets.token_hex(16)


def new_session() -> str:
    """The token of a login: 256 random bits, as 64 lowercase hexadecimal digits."""
    return secrets.token_hex(32)


def new_code() -> str:
    """A one-time code for a person to type."""
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))


def new_generation() -> str:
    """Tells one history of a state folder from another: 128 random bits in hexadecimal."""
    return secrets.token_hex(16)


def new_life() -> str:
    """Tells one run of a daemon from the others of its folder: 32 random bits in hexadecimal."""
    return secrets.token_hex(4)


def new_connection_id() -> str:
    """Names a live connection and is secret: 128 random bits that need no escape in an address."""
    return secrets.token_urlsafe(16)


def new_request_id() -> str:
    """Tells one request from every other, such as ``9f86d081-2a``: of this process, and its number.

    Cheap and not secret.
    """
    return f"{_PROCESS}-{next(_requests):x}"


def _letters(count: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(count))


class Marks(Struct, frozen=True):
    """The highest number of each kind that was given out, or may have been."""

    chat: int = 0
    prompt: int = 0
    message: int = 0
    seq: int = 0

    def merged(self, other: "Marks") -> "Marks":
        """The larger of each: a copied folder's marks may be older than its journals."""
        return Marks(
            max(self.chat, other.chat),
            max(self.prompt, other.prompt),
            max(self.message, other.message),
            max(self.seq, other.seq),
        )


Kind: TypeAlias = Literal["chat", "prompt", "message", "seq"]

NONE_YET = Marks()
BLOCK = Marks(chat=100, prompt=1000, message=1000, seq=5000)
"""How many numbers are reserved ahead at a time, and so skipped at most after a crash.

Storing a mark costs as much as several appends: it must be rare beside them.
"""


class Sequences:
    """Positive numbers that only rise and are never given out twice.

    A number may reach the disk only when a stored mark covers it: whoever writes asks for the
    ``shortfall`` first, stores it, and then says that it is ``reserved``.
    """

    def __init__(self, used: Marks = NONE_YET) -> None:
        self._used: dict[Kind, int] = {
            "chat": used.chat,
            "prompt": used.prompt,
            "message": used.message,
            "seq": used.seq,
        }
        self._reserved = used

    def next(self, kind: Kind) -> int:
        """The next number of this kind."""
        self._used[kind] += 1
        return self._used[kind]

    @property
    def used(self) -> Marks:
        """The highest numbers given out."""
        return Marks(**self._used)

    def shortfall(self) -> Marks | None:
        """The marks to store before anything given out so far may be written; None: none."""
        used, reserved = self.used, self._reserved
        if used.merged(reserved) == reserved:
            return None
        return Marks(
            used.chat + BLOCK.chat,
            used.prompt + BLOCK.prompt,
            used.message + BLOCK.message,
            used.seq + BLOCK.seq,
        )

    def reserved(self, marks: Marks) -> None:
        """These marks are stored."""
        self._reserved = self._reserved.merged(marks)


class Life(Struct, frozen=True):
    """One run of a daemon over a state folder: its name, and the seqs of its records."""

    name: str
    after: int
    """The last seq that may have been given out before it."""
    upto: int | None = None
    """The last of its seqs that is on the disk; None as long as it runs."""


class Lives:
    """Which run wrote which records, in this history of the state folder.

    An older copy of the folder grows past the seqs that listeners saw in what became of the
    original: the same numbers, other events. The lives tell the two apart.
    """

    def __init__(self, lives: Iterable[Life] = ()) -> None:
        self._lives = tuple(lives)
        self._named = {life.name: life for life in self._lives}

    @property
    def current(self) -> str:
        """The name of the running one; empty when none is known."""
        return self._lives[-1].name if self._lives else ""

    def name_of(self, seq: int) -> str:
        """The life of a record; empty for one from before the lives that are known."""
        place = bisect_left(self._lives, seq, key=attrgetter("after"))
        return self._lives[place - 1].name if place else ""

    def knew(self, seq: int, name: str) -> bool:
        """Whether that life had this seq, in this history; one without a name may have had any."""
        if not name:
            return True
        life = self._named.get(name)
        return life is not None and life.after <= seq and (life.upto is None or seq <= life.upto)
