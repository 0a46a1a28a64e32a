r"""A secret, in any number of layers of JSON escapes.

A secret is identified by its text without escapes, so that it has one placeholder everywhere. Some
encoders escape what others do not (``\/``, ``\u00e9``), and programs compare bytes: a secret with
such escapes is a different one, an ``EscapedSecret`` that knows its depth.
"""

import json
import re

from agentd.gateway.secrets.json_strings import escape

_ESCAPE = re.compile(r"\\.", re.DOTALL)
_OUTSIDE = re.compile(r'["\x00-\x1f]')


class EscapedSecret(str):
    """A secret as written inside ``depth`` nested JSON strings."""

    __slots__ = ("depth",)

    depth: int

    def __new__(cls, text: str, depth: int) -> "EscapedSecret":
        """Create it from the text as found, with its escapes."""
        made = super().__new__(cls, text)
        made.depth = depth
        return made


def escape_at_depth(secret: str, depth: int) -> str:
    """Escape the secret for that many levels of nested strings."""
    known = secret.depth if isinstance(secret, EscapedSecret) else 0
    if depth >= known:
        return escape(str(secret), depth - known)
    text: str | None = str(secret)
    for _ in range(known - depth):
        text = _decode_escapes(text or "")
    return str(secret) if text is None else text


def get_identity(found: str, depth: int) -> bytes:
    """Return the identity of a secret that was found escaped for ``depth`` nested strings."""
    if _OUTSIDE.search(_ESCAPE.sub("", found)):
        depth = 0  # it ends behind the string in which it begins
    while depth:
        plain = _decode_escapes(found)
        if plain is None or escape(plain) != found:
            break
        found, depth = plain, depth - 1
    value = found.encode("utf-8", "surrogatepass")
    return b"\0%d\0%b" % (depth, value) if depth or value.startswith(b"\0") else value


def decode_identity(known_by: bytes) -> str:
    """Return the secret of its identity."""
    if not known_by.startswith(b"\0"):
        return known_by.decode("utf-8", "surrogatepass")
    _, depth, value = known_by.split(b"\0", 2)
    text = value.decode("utf-8", "surrogatepass")
    return EscapedSecret(text, int(depth)) if int(depth) else text


def list_forms(known_by: bytes) -> set[bytes]:
    """Return the forms of the secret of its identity: in plain text, and in JSON."""
    secret = decode_identity(known_by)
    forms = {str(secret), *(escape_at_depth(secret, depth) for depth in (0, 1, 2))}
    return {form.encode("utf-8", "surrogatepass") for form in forms}


def _decode_escapes(text: str) -> str | None:
    """Decode the inside of a JSON string; None if it is not valid."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return None
