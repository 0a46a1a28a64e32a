"""Passwords: hashing, verifying, and rules for new ones.

The hash is ``scrypt$ln=15,r=8,p=3$<salt>$<digest>``: each guess at a stolen file costs a third of
a second and 32 MiB. Hashing blocks for that long, so it must not run on the loop.
"""

import hashlib
import hmac
import re
import unicodedata
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from agentd.core import ids
from agentd.core.errors import BadRequest

MIN_LENGTH, MAX_LENGTH = 12, 1024
"""Characters of a new password, and the most of any that is presented."""

MIN_DISTINCT = 5
"""Different characters that a new password must have."""

_FORM = r"scrypt\$ln=(1[4-9]|20),r=(8|16|32),p=([1-9]|1[0-6])\$([0-9a-f]{32})\$([0-9a-f]{64})"

PasswordHash: TypeAlias = Annotated[
    str,
    Meta(pattern=_FORM, extra={"secret": True, "form": "what agentd hash-password prints"}),
]
"""The hash of a password, with salt and cost."""


class HashCost(NamedTuple):
    """The cost of one hash: ``128 * r * 2**ln`` bytes, and ``p`` times the work."""

    ln: int
    r: int
    p: int


DEFAULT_COST = HashCost(15, 8, 3)
"""The cost of new hashes."""


def hash_password(password: str, cost: HashCost = DEFAULT_COST) -> str:
    """Return the hash of a password, with a new salt. Blocks."""
    salt = ids.generate_salt()
    return f"scrypt$ln={cost.ln},r={cost.r},p={cost.p}${salt}${_digest(password, salt, cost)}"


def verify_password(password: str, hashed: str) -> bool:
    """Return whether this is the password of a hash. Blocks."""
    ln, r, p, salt, digest = re.fullmatch(_FORM, hashed, re.ASCII).groups()  # type: ignore[union-attr]
    return hmac.compare_digest(_digest(password, salt, HashCost(int(ln), int(r), int(p))), digest)


def is_password_hash(text: str) -> bool:
    """Return whether this is the hash of a password."""
    return bool(re.fullmatch(_FORM, text, re.ASCII))


def make_decoy_hash(example: str | None) -> str:
    """Return a hash that no password matches, and that costs as much to verify as ``example``.

    Verifying it for unknown users makes them take as long as known ones.
    """
    cost = (
        example.split("$")[1]
        if example
        else f"ln={DEFAULT_COST.ln},r={DEFAULT_COST.r},p={DEFAULT_COST.p}"
    )
    return f"scrypt${cost}${'0' * 32}${'0' * 64}"


def check_new_password(password: str, name: str) -> None:
    """Raise ``BadRequest`` for a password that is easy to guess, without quoting it.

    Length is what counts; no mixture of kinds of characters is required.
    """
    plain = password.casefold()
    if len(password) < MIN_LENGTH:
        problem = f"has fewer than {MIN_LENGTH} characters; several words are easy to remember"
    elif len(password) > MAX_LENGTH:
        problem = f"has more than {MAX_LENGTH} characters"
    elif len(set(plain)) < MIN_DISTINCT:
        problem = f"has fewer than {MIN_DISTINCT} different characters"
    elif len(plain.replace(name.casefold(), "")) < MIN_LENGTH // 2:
        problem = "is little more than the name"
    elif _is_keyboard_row(plain):
        problem = "is only a row of the keyboard or of the alphabet"
    else:
        return
    raise BadRequest(f"This password {problem}; choose another one")


_ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")


def _is_keyboard_row(text: str) -> bool:
    """Return whether nearly all characters are neighbours in a row, in either direction."""
    pairs = {row[at : at + 2] for row in _ROWS for at in range(len(row) - 1)}
    steps = [text[at : at + 2] for at in range(len(text) - 1)]
    return sum(step in pairs or step[::-1] in pairs for step in steps) * 4 >= len(steps) * 3


def _digest(password: str, salt: str, cost: HashCost) -> str:
    # Keyboards and systems encode the same characters differently; NFKC makes them equal.
    normalized = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    rounds = 1 << cost.ln
    memory = 128 * cost.r * (rounds + cost.p + 2) + (1 << 20)
    digest = hashlib.scrypt(
        normalized,
        salt=bytes.fromhex(salt),
        n=rounds,
        r=cost.r,
        p=cost.p,
        maxmem=memory,
        dklen=32,
    )
    return digest.hex()
