"""Reading untrusted objects, options and base64 of links and subscriptions.

Whatever a field contains, the result has the declared type.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from agentd.core.errors import BadRequest

Fields: TypeAlias = Mapping[Any, Any]
"""A JSON or YAML object, or the options of a link."""

_TEXT = 16 * 1024
"""Maximum length of a field."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+")
_TRUE = {"1", "true", "yes", "on"}


def get_text(fields: Fields, *names: str) -> str:
    """Return the first of these fields that is a string or a number; empty if none is.

    Raises ``BadRequest`` for one that is too long.
    """
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value) if abs(value) < 1e15 else ""
        if isinstance(value, str) and value:
            if len(value) > _TEXT:
                raise BadRequest("A field of a server is too long")
            return value.strip()
    return ""


def get_number(fields: Fields, *names: str) -> int:
    """Return a non-negative integer, also one written as a string; 0 for anything else."""
    found = get_text(fields, *names)
    return int(found) if found.isascii() and found.isdecimal() and len(found) < 10 else 0


def get_flag(fields: Fields, *names: str) -> bool:
    """Return whether one of these fields is true."""
    return any(
        fields.get(name) is True or get_text(fields, name).lower() in _TRUE for name in names
    )


def get_object(fields: Fields, *names: str) -> Fields:
    """Return the first of these fields that is an object; empty if none is."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, dict):
            return value
    return {}


def get_objects(fields: Fields, name: str) -> list[Fields]:
    """Return the objects of a list; other items are skipped."""
    value = fields.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def get_texts(fields: Fields, *names: str) -> tuple[str, ...]:
    """Return the strings of a list, or of a comma-separated string."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            found = tuple(get_text({"": item}, "") for item in value[:64])
        else:
            found = tuple(part.strip() for part in get_text(fields, name).split(",")[:64])
        if any(found):
            return tuple(filter(None, found))
    return ()


def get_bytes(fields: Fields, *names: str) -> tuple[int, ...]:
    """Return the numbers of a list, or of a comma-separated string, that fit into a byte."""
    found = (one for one in get_texts(fields, *names) if one.isascii() and one.isdecimal())
    return tuple(int(one) for one in found if len(one) < 4 and int(one) < 256)


def decode_base64(encoded: str) -> str | None:
    """Decode base64 text of either alphabet, padded or not; None if it is not valid."""
    joined = "".join(encoded.split()).replace("-", "+").replace("_", "/").rstrip("=")
    if not _BASE64.fullmatch(joined):
        return None
    try:
        return base64.b64decode(joined + "=" * (-len(joined) % 4)).decode()
    except ValueError:  # also UnicodeDecodeError
        return None
