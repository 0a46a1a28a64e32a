"""Passwords: what is kept of one, how it is compared, and which ones are taken.

What is kept is ``scrypt$ln=15,r=8,p=3$<salt>$<digest>``: each guess at a stolen file costs a third
of a second and 32 MiB. Hashing blocks for that long: never on the loop.
"""

import hashlib
import hmac
import re
import unicodedata
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from agentd import ids
from agentd.errors import BadRequest

SHORTEST, LONGEST = 12, 1024
"""Characters of a new password, and of any that is presented."""

DIFFERENT = 5
"""Characters of a new password that differ from each other."""

_FORM = r"scrypt\$ln=(1[4-9]|20),r=(8|16|32),p=([1-9]|1[0-6])\$([0-9a-f]{32})\$([0-9a-f]{64})"

Hashed: TypeAlias = Annotated[str, Meta(pattern=_FORM, extra={"secret": True})]
"""What is kept of a password."""


class Cost(NamedTuple):
    """What one hash costs: ``128 * r * 2**ln`` bytes, and ``p`` times the work."""

    ln: int
    r: int
    p: int


COST = Cost(15, 8, 3)
"""What a new hash costs."""


def hashed(password: str, cost: Cost = COST) -> str:
    """What to keep of a password. Blocks."""
    salt = ids.new_salt()
    return f"scrypt$ln={cost.ln},r={cost.r},p={cost.p}${salt}${_digest(password, salt, cost)}"


def matches(password: str, kept: str) -> bool:
    """Whether this is the password of which that is kept. Blocks."""
    ln, r, p, salt, digest = re.fullmatch(_FORM, kept, re.ASCII).groups()  # type: ignore[union-attr]
    return hmac.compare_digest(_digest(password, salt, Cost(int(ln), int(r), int(p))), digest)


def is_hashed(text: str) -> bool:
    """Whether this is what is kept of a password."""
    return bool(re.fullmatch(_FORM, text, re.ASCII))


def decoy(example: str | None) -> str:
    """What no password matches, and costs as much to compare as ``example``: for unknown names."""
    cost = example.split("$")[1] if example else f"ln={COST.ln},r={COST.r},p={COST.p}"
    return f"scrypt${cost}${'0' * 32}${'0' * 64}"


def check_new(password: str, name: str) -> None:
    """Raise ``BadRequest`` for a password that is guessed too soon, in words that do not tell it.

    Length is what counts; no mixture of kinds of characters is asked for.
    """
    plain = password.casefold()
    if len(password) < SHORTEST:
        what = f"has fewer than {SHORTEST} characters; some words in a row are easy to remember"
    elif len(password) > LONGEST:
        what = f"has more than {LONGEST} characters"
    elif len(set(plain)) < DIFFERENT:
        what = f"has fewer than {DIFFERENT} different characters"
    elif len(plain.replace(name.casefold(), "")) < SHORTEST // 2:
        what = "is little more than the name"
    elif _in_order(plain):
        what = "is only a row of the keyboard or of the alphabet"
    else:
        return
    raise BadRequest(f"This password {what}; take another")


_ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")


def _in_order(text: str) -> bool:
    """Whether nearly every character follows the one before as on a keyboard, either way."""
    pairs = {row[at : at + 2] for row in _ROWS for at in range(len(row) - 1)}
    steps = [text[at : at + 2] for at in range(len(text) - 1)]
    return sum(step in pairs or step[::-1] in pairs for step in steps) * 4 >= len(steps) * 3


def _digest(password: str, salt: str, cost: Cost) -> str:
    """Of the password in the one spelling that Unicode has for all its spellings (NFKC)."""
    spelled = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    rounds = 1 << cost.ln
    memory = 128 * cost.r * (rounds + cost.p + 2) + (1 << 20)
    digest = hashlib.scrypt(
        spelled,
        salt=bytes.fromhex(salt),
        n=rounds,
        r=cost.r,
        p=cost.p,
        maxmem=memory,
        dklen=32,
    )
    return digest.hex()
