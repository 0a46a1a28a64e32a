"""Asking what nobody vouches for: objects, options and base64 of links and subscriptions.

Whatever a field holds, the answer is of the right kind; ``BadRequest`` is for what is needed.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from agentd.errors import BadRequest

Fields: TypeAlias = Mapping[Any, Any]
"""An object as JSON or YAML has it, or the options of a link."""

_TEXT = 16 * 1024
"""Letters that one field may have."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+")
_TRUE = {"1", "true", "yes", "on"}


def text(fields: Fields, *names: str) -> str:
    """The first of these that has a text or a number in it; empty when none has.

    Raises ``BadRequest`` for one that is absurdly long.
    """
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value) if abs(value) < 1e15 else ""
        if isinstance(value, str) and value:
            if len(value) > _TEXT:
                raise BadRequest("A field of a server is absurdly long")
            return value.strip()
    return ""


def number(fields: Fields, *names: str) -> int:
    """A whole number from 0 on, also one written as a text; 0 for anything else."""
    found = text(fields, *names)
    return int(found) if found.isascii() and found.isdecimal() and len(found) < 10 else 0


def flag(fields: Fields, *names: str) -> bool:
    """Whether one of these says yes."""
    return any(fields.get(name) is True or text(fields, name).lower() in _TRUE for name in names)


def inner(fields: Fields, *names: str) -> Fields:
    """The first of these that is an object; an empty one when none is."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, dict):
            return value
    return {}


def each(fields: Fields, name: str) -> list[Fields]:
    """The objects of a list; what else stands in it is passed over."""
    value = fields.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(fields: Fields, *names: str) -> tuple[str, ...]:
    """The texts of a list, or of one text with commas in it."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            found = tuple(text({"": item}, "") for item in value[:64])
        else:
            found = tuple(part.strip() for part in text(fields, name).split(",")[:64])
        if any(found):
            return tuple(filter(None, found))
    return ()


def small(fields: Fields, *names: str) -> tuple[int, ...]:
    """The numbers of a list, or of a text with commas in it, that fit into a byte."""
    found = (one for one in texts(fields, *names) if one.isascii() and one.isdecimal())
    return tuple(int(one) for one in found if len(one) < 4 and int(one) < 256)


def plain(encoded: str) -> str | None:
    """What base64 of any alphabet, with or without padding and line breaks, says; or None."""
    joined = "".join(encoded.split()).replace("-", "+").replace("_", "/").rstrip("=")
    if not _BASE64.fullmatch(joined):
        return None
    try:
        return base64.b64decode(joined + "=" * (-len(joined) % 4)).decode()
    except ValueError:  # also UnicodeDecodeError
        return None
