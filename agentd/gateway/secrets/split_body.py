"""A request body split into its members and the elements of its long lists, by position.

The lists are the conversation's: they only grow, so each element is scanned once.
"""

import re
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw

from agentd.core.errors import BadRequest

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


class BodyPart(NamedTuple):
    """A member, or an element of a list: its bytes and the JSON pointer to it."""

    start: int
    end: int
    place: str
    free: bool
    """True if all below it is of the user's choosing; see ``StringSpan``."""
    name: str = ""
    """The member's, if the part is all of it."""


class SplitBody(NamedTuple):
    """A body split into parts."""

    parts: list[BodyPart]
    """All that may hold text."""
    names: list[str]
    """The names of its members, be they parts or not ..."""
    starts: list[int]
    """... and where the value of each begins."""


def split_body(body: bytes) -> SplitBody:
    """Split a body. Raises ``BadRequest`` if it is not a JSON object, or repeats a member."""
    try:
        fields = _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("The body is no JSON object", str(error)) from None
    if len(fields) > MOST_MEMBERS:
        raise BadRequest(f"The body has {len(fields)} members; {MOST_MEMBERS} are the most")
    found: list[BodyPart] = []
    starts: list[int] = []
    at = body.index(b"{") + 1
    for name, raw in fields.items():
        begins = _NAME.match(body, at)
        prefix = memoryview(raw)
        if not begins or not body.startswith(prefix, start := begins.end()):
            raise BadRequest("The body names a member twice")
        starts.append(start)
        at = start + len(prefix)
        if body[start] in b'{["':
            found += _split_member(body, name, start, at)
        at = _skip_blanks(body, at) + 1
    if fields and body[at:].strip(b" \t\r\n"):
        raise BadRequest("The body names a member twice")
    return SplitBody(found, list(fields), starts)


def split_incrementally(body: bytes, before: SplitBody, count: int) -> SplitBody:
    """Split a body that shares its bytes with an earlier one, up to the end of ``count`` parts.

    Where these end within a list, which is where conversations grow, only the rest is parsed: what
    came before is as valid as it was then.
    """
    last = before.parts[count - 1]
    members = bisect_right(before.starts, last.start)
    name, start = before.names[members - 1], before.starts[members - 1]
    if last.start == start:  # a member as a whole, not an element
        return split_body(body)
    head = b'{"%b":[null' % name.encode()
    try:
        rest = split_body(head + body[last.end :])
    except BadRequest:
        return split_body(body)  # raises the error
    names = [*before.names[:members], *rest.names[1:]]
    if len(set(names)) < len(names) or rest.parts[0].start == rest.starts[0]:
        return split_body(body)
    by = last.end - len(head)
    listed = bisect_left(rest.parts, (rest.starts[1:] or [len(body)])[0], key=_START)
    number = count - bisect_left(before.parts, start, key=_START) - 1
    parts = before.parts[:count]
    for at, part in enumerate(rest.parts[1:], 1):  # the first is the null that stands for them
        place = f"/{name}/{number + at}" if at < listed else part.place
        parts.append(part._replace(start=part.start + by, end=part.end + by, place=place))
    starts = [*before.starts[:members], *(at + by for at in rest.starts[1:])]
    return SplitBody(parts, names, starts)


_START = attrgetter("start")


def _split_member(body: bytes, name: str, start: int, end: int) -> list[BodyPart]:
    """Return the parts of a member: each element of a list separately, where that is useful."""
    whole = [BodyPart(start, end, f"/{name}", name in _FREE, name)]
    if name not in LISTS or body[start] != 0x5B:
        return whole
    items = _ITEMS.decode(memoryview(body)[start:end])
    if len(items) > MOST_PARTS:
        return whole
    found: list[BodyPart] = []
    at = start + 1
    for item in items:
        begin = _skip_blanks(body, at)
        at = begin + len(memoryview(item))
        found.append(BodyPart(begin, at, f"/{name}/{len(found)}", False))
        at = _skip_blanks(body, at) + 1
    return found


def _skip_blanks(body: bytes, at: int) -> int:
    """Return the position of the next non-blank byte."""
    space = _SPACE.match(body, at) if body[at] <= 0x20 else None
    return space.end() if space else at
