"""A request's body taken apart: its members, and the elements of its long lists, by their place.

The lists are a conversation's: they only grow, so each element is looked at once.
"""

import re
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw

from agentd.errors import BadRequest

LISTS = frozenset(("messages", "input", "contents", "tools", "system"))
"""Members that are lists of what is said, or of tools."""

MOST_MEMBERS = 1000
"""Members that a request may have; those of all dialects together are fewer than a hundred."""

MOST_PARTS = 20_000
"""Elements of one list that are looked at each for itself; in a longer one they are numbers, or
are made to cost more than they say, and the list is looked at as a whole."""

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
    name: str = ""
    """The member's, if the part is all of it."""


class Apart(NamedTuple):
    """A body taken apart."""

    parts: list[Part]
    """All that may hold text."""
    names: list[str]
    """Of its members, be they parts or not ..."""
    starts: list[int]
    """... and where the value of each begins."""


def apart(body: bytes) -> Apart:
    """Raises ``BadRequest`` for what is no JSON object, or names a member twice."""
    try:
        fields = _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("The body is no JSON object", str(error)) from None
    if len(fields) > MOST_MEMBERS:
        raise BadRequest(f"The body has {len(fields)} members; {MOST_MEMBERS} are the most")
    found: list[Part] = []
    starts: list[int] = []
    at = body.index(b"{") + 1
    for name, raw in fields.items():
        begins = _NAME.match(body, at)
        said = memoryview(raw)
        if not begins or not body.startswith(said, start := begins.end()):
            raise BadRequest("The body names a member twice")
        starts.append(start)
        at = start + len(said)
        if body[start] in b'{["':
            found += _parts(body, name, start, at)
        at = _next(body, at) + 1
    if fields and body[at:].strip(b" \t\r\n"):
        raise BadRequest("The body names a member twice")
    return Apart(found, list(fields), starts)


def grown(body: bytes, before: Apart, count: int) -> Apart:
    """As ``apart``, of a body that has the same bytes as one before, up to behind ``count`` parts.

    Where they end within a list, which is where conversations grow, only what comes after them is
    read: all that came before is as good as it was then.
    """
    last = before.parts[count - 1]
    members = bisect_right(before.starts, last.start)
    name, start = before.names[members - 1], before.starts[members - 1]
    if last.start == start:  # a member as a whole, not an element
        return apart(body)
    head = b'{"%b":[null' % name.encode()
    try:
        rest = apart(head + body[last.end :])
    except BadRequest:
        return apart(body)  # it tells what is wrong, and where
    names = [*before.names[:members], *rest.names[1:]]
    if len(set(names)) < len(names) or rest.parts[0].start == rest.starts[0]:
        return apart(body)
    by = last.end - len(head)
    listed = bisect_left(rest.parts, (rest.starts[1:] or [len(body)])[0], key=_START)
    number = count - bisect_left(before.parts, start, key=_START) - 1
    parts = before.parts[:count]
    for at, part in enumerate(rest.parts[1:], 1):  # the first is the null that stands for them
        place = f"/{name}/{number + at}" if at < listed else part.place
        parts.append(part._replace(start=part.start + by, end=part.end + by, place=place))
    starts = [*before.starts[:members], *(at + by for at in rest.starts[1:])]
    return Apart(parts, names, starts)


_START = attrgetter("start")


def _parts(body: bytes, name: str, start: int, end: int) -> list[Part]:
    """The value of a member: each element of a list for itself, where that is of use."""
    whole = [Part(start, end, f"/{name}", name in _FREE, name)]
    if name not in LISTS or body[start] != 0x5B:
        return whole
    items = _ITEMS.decode(memoryview(body)[start:end])
    if len(items) > MOST_PARTS:
        return whole
    found: list[Part] = []
    at = start + 1
    for item in items:
        begin = _next(body, at)
        at = begin + len(memoryview(item))
        found.append(Part(begin, at, f"/{name}/{len(found)}", False))
        at = _next(body, at) + 1
    return found


def _next(body: bytes, at: int) -> int:
    """Where what is no blank begins."""
    space = _SPACE.match(body, at) if body[at] <= 0x20 else None
    return space.end() if space else at
