"""Small JSON files of the daemon's own: read whole, and written for people to read, too."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage import document

T = TypeVar("T")


def read_json(path: str, shape: type[T], limit: int) -> T:
    """Return the content of such a file; the default if there is none.

    Raises ``ConfigError`` when it is damaged or unsafe, and ``Unavailable``.
    """
    found = document.read_document(path, limit, own=True)
    if found is None:
        return shape()
    try:
        return msgspec.json.decode(found.data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError([ConfigProblem(path, 0, f"is damaged: {error}")]) from error


def write_json(path: str, value: Struct) -> None:
    """Write such a file. ``Unavailable``."""
    document.replace_document(path, format_json(value))


def format_json(value: Struct) -> bytes:
    """Return the content of such a file, indented."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
