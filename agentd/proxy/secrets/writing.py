r"""One secret, however many layers of JSON's escapes it is written with.

A secret is known by what it is without escapes, so that it has one placeholder wherever it stands.
Some encoders write what others do not (``\/``, ``\u00e9``), and programs compare bytes: what was
written so is another secret, which knows that it is ``Written``.
"""

import json
import re

from agentd.proxy.secrets.walk import escaped

_ESCAPE = re.compile(r"\\.", re.DOTALL)
_OUTSIDE = re.compile(r'["\x00-\x1f]')


class Written(str):
    """A secret as it stands ``depth`` strings of JSON deep."""

    __slots__ = ("depth",)

    depth: int

    def __new__(cls, text: str, depth: int) -> "Written":
        """The text is what stands there, escapes and all."""
        made = super().__new__(cls, text)
        made.depth = depth
        return made


def written_at(secret: str, depth: int) -> str:
    """Return how the secret is written that many strings deep."""
    known = secret.depth if isinstance(secret, Written) else 0
    if depth >= known:
        return escaped(str(secret), depth - known)
    text: str | None = str(secret)
    for _ in range(known - depth):
        text = _without_escapes(text or "")
    return str(secret) if text is None else text


def identity(found: str, depth: int) -> bytes:
    """Return what the secret is known by that was found written like that, so many strings deep."""
    if _OUTSIDE.search(_ESCAPE.sub("", found)):
        depth = 0  # it ends behind the string in which it begins
    while depth:
        plain = _without_escapes(found)
        if plain is None or escaped(plain) != found:
            break
        found, depth = plain, depth - 1
    value = found.encode("utf-8", "surrogatepass")
    return b"\0%d\0%b" % (depth, value) if depth or value.startswith(b"\0") else value


def secret_of(known_by: bytes) -> str:
    """Return the secret of an ``identity``."""
    if not known_by.startswith(b"\0"):
        return known_by.decode("utf-8", "surrogatepass")
    _, depth, value = known_by.split(b"\0", 2)
    text = value.decode("utf-8", "surrogatepass")
    return Written(text, int(depth)) if int(depth) else text


def writings(known_by: bytes) -> set[bytes]:
    """Return how the secret of an ``identity`` stands in texts: in plain ones, and in JSON."""
    secret = secret_of(known_by)
    forms = {str(secret), *(written_at(secret, depth) for depth in (0, 1, 2))}
    return {form.encode("utf-8", "surrogatepass") for form in forms}


def _without_escapes(text: str) -> str | None:
    """Return what a string of JSON means that is written so; None: none is."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return None
