"""A request's body taken apart: its members, and the elements of its long lists, by their place.

The lists are a conversation's: they only grow, so each element is looked at once.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw

from agentd.errors import BadRequest

LISTS = frozenset(("messages", "input", "contents", "tools", "system"))
"""Members that are lists of what is said, or of tools."""

_IDLE = frozenset(("model", "stream", "previous_response_id", "service_tier", "reasoning_effort"))
_FREE = frozenset(("metadata",))
_SPACE = re.compile(rb"[ \t\r\n]*")
_NAME = re.compile(rb'[ \t\r\n]*"[^"\\]*(?:\\.[^"\\]*)*"[ \t\r\n]*:[ \t\r\n]*')
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ITEMS = msgspec.json.Decoder(list[Raw])


class Part(NamedTuple):
    """One member, or one element of a list: its bytes, and the JSON pointer to it."""

    start: int
    end: int
    place: str
    free: bool
    """Whether all below it is of the user's choosing; see ``walk``."""


_START = attrgetter("start")


def parts(body: bytes, known: Sequence[Part] = ()) -> list[Part]:
    """All that may hold text. ``BadRequest`` for what is no JSON object, or names a thing twice.

    ``known`` are the first of them, where they are known: their lists are not taken apart.
    """
    try:
        fields = _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("The body is no JSON object", str(error)) from None
    found: list[Part] = []
    at = body.index(b"{") + 1
    for name, raw in fields.items():
        begins = _NAME.match(body, at)
        said = memoryview(raw)
        if not begins or not body.startswith(said, start := begins.end()):
            raise BadRequest("The body names a member twice")
        at = start + len(said)
        if name not in _IDLE and body[start] in b'{["':
            if name in LISTS and body[start] == 0x5B:
                found += _items(body, start, at, f"/{name}", known)
            else:
                found.append(Part(start, at, f"/{name}", name in _FREE))
        at = _next(body, at) + 1
    if fields and body[at:].strip(b" \t\r\n"):
        raise BadRequest("The body names a member twice")
    return found


def _items(body: bytes, start: int, end: int, place: str, known: Sequence[Part]) -> list[Part]:
    """The elements of the list between two bytes: the known ones first, which are not decoded."""
    found: list[Part] = []
    at = start + 1
    if known:
        first, last = (bisect_left(known, at, key=_START) for at in (start, end))
        found += known[first:last]
    if found:
        at = _next(body, found[-1].end) + 1
        if at == end:
            return found
    for item in _ITEMS.decode(b"[" + body[at:end]):
        begin = _next(body, at)
        at = begin + len(memoryview(item))
        found.append(Part(begin, at, f"{place}/{len(found)}", False))
        at = _next(body, at) + 1
    return found


def _next(body: bytes, at: int) -> int:
    """Where what is no blank begins."""
    space = _SPACE.match(body, at) if body[at] <= 0x20 else None
    return space.end() if space else at
