"""The strings of a JSON text, by their place in its bytes: no other byte is ever touched.

What is not text (identifiers, enumerations, pictures, signatures) is passed over. Below a few
names anything goes, because a tool or its user chose what stands there: nothing there is passed
over, names neither.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from agentd.gateway.secrets.rules import SHORTEST

_TOKEN = re.compile(rb'"(?:([^"\\]{0,40})"(\s*:)?)?|[{}\[\]]')
"""A mark, a short string, or only the quote that begins a longer one: its end is found quicker."""
_COLON = re.compile(rb"\s*:")
_STEP = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?|[{}\[\],]', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_OPAQUE = re.compile(rb"[A-Za-z0-9+/=_-]{64,}")
_DATA_URL = re.compile(rb"data:(?!text/)[a-z]+/[^,;]{0,100};base64,")

_QUOTE, _BACKSLASH = b'"\\'

_NAME_LENGTH = 200
"""Bytes of a name that are shown in pointers to strings below it."""
_MOST_STEPS = 32
_MOST_LETTERS = 100
"""The maximum characters of a step in a reported pointer."""

FREE = frozenset(
    (
        *(b"input", b"arguments", b"args", b"response", b"metadata"),
        *(b"input_schema", b"parameters", b"parametersJsonSchema", b"schema"),
    )
)
"""Below these a tool, or its user, chose names and values."""

SEALED = frozenset(
    (
        *(b"thinking", b"signature", b"thoughtSignature", b"thought_signature"),
        *(b"encrypted_content", b"encrypted_index"),
    )
)
"""Names whose values the supplier signed or sealed, who refuses them changed, and wrote them."""

IDENTIFIERS = frozenset((b"id", b"call_id", b"tool_call_id", b"tool_use_id"))
"""Names whose values are only identifiers: any other value would do as well."""

STRUCTURE = frozenset(
    (
        *IDENTIFIERS,
        *SEALED,
        *(b"type", b"role", b"item_id", b"name"),
        *(b"previous_response_id", b"file_id", b"container_id", b"response_id", b"model"),
        *(b"status", b"object", b"media_type", b"mimeType", b"mime_type", b"format"),
        *(b"detail", b"effort", b"finish_reason", b"stop_reason", b"phase"),
        *(b"service_tier", b"reasoning_effort"),
    )
)
"""Names whose values are no text."""

_BYTES = frozenset(
    (
        *(b"data", b"file_data", b"url", b"image_url", b"b64_json", b"result"),
        *(b"partial_image_b64", b"image"),
    )
)
"""Names of members that hold images, sound and files as base64; or text, which is scanned."""


class StringSpan(NamedTuple):
    """A string of a JSON text: its raw bytes between the quotes, escapes included."""

    start: int
    end: int
    name: bytes
    """The start of the name of the member that holds it, directly or in a list; empty: none."""
    free: bool
    """True if a tool or its user chose it."""
    is_name: bool
    """True if it is itself the name of a member."""


def iter_strings(
    raw: bytes,
    start: int,
    end: int,
    free: bool,
    name: bytes = b"",
    structure: list[StringSpan] | None = None,
) -> Iterator[StringSpan]:
    """Iterate over the strings between ``start`` and ``end``, a JSON value, that may hold text.

    ``name`` is that of the member that the value belongs to. What is no text, but a name or an
    identifier of the protocol, goes to ``structure``, if given; what is sealed, or shorter than any
    secret, goes nowhere.
    """
    above: list[tuple[bytes, bool]] = []
    at = start
    while token := _TOKEN.search(raw, at, end):
        at = token.end()
        mark = raw[token.start()]
        if mark == _QUOTE:
            (first, last), is_name = token.span(1), token.start(2) >= 0
            if first < 0:
                first, last = at, _find_closing_quote(raw, at, end)
                colon = _COLON.match(raw, last + 1, end)
                at, is_name = colon.end() if colon else last + 1, colon is not None
            if is_name:
                name = raw[first : min(last, first + _NAME_LENGTH)]
            if free or not (is_name or name in STRUCTURE or _is_bytes(raw, first, last, name)):
                yield StringSpan(first, last, name, free, is_name)
            elif structure is None or last - first < SHORTEST:
                continue
            elif is_name or (name in STRUCTURE and name not in SEALED):
                structure.append(StringSpan(first, last, name, free, is_name))
        elif mark in b"{[":
            above.append((name, free))
            free = free or name in FREE
        elif above:
            name, free = above.pop()


def iter_values(raw: bytes, deepest: int) -> Iterator[tuple[tuple[str | int, ...], int, int]]:
    """Iterate over the strings that are values: the path of names and numbers, and the bytes.

    Strings below more than ``deepest`` steps are passed over: the paths to all of them may take
    many times as much as the text.
    """
    for path, token in _walk(raw):
        if token[2] is None and len(path) <= deepest:
            yield tuple(path), *token.span(1)


def find_pointers(
    raw: bytes, starts: Collection[int], secret_names: Collection[int] = ()
) -> dict[int, str]:
    """Return the JSON pointers (RFC 6901) to the strings whose content begins there, in one pass.

    ``secret_names`` are the starts of the member names that are shown as ``*``. What is long is
    cut, because a name is repeated for everything below it.
    """
    wanted, hidden = frozenset(starts), frozenset(secret_names)
    found: dict[int, str] = {}
    for path, token in _walk(raw):
        if (start := token.start(1)) in hidden:
            path[-1] = "*"
        if start in wanted:
            found[start] = "".join(f"/{_escape_pointer(step)}" for step in path[:_MOST_STEPS])
            if len(found) == len(wanted):
                break
    return found


def _walk(raw: bytes) -> Iterator[tuple[list[str | int], re.Match[bytes]]]:
    """Iterate over every string of a JSON text, names too, with its path at that moment."""
    path: list[str | int] = []
    for token in _STEP.finditer(raw):
        mark = raw[token.start()]
        if mark == _QUOTE:
            if token[2] is not None:
                path[-1:] = [decode_text(token[1]).decode("utf-8", "replace")]
            yield path, token
        elif mark in b"{[":
            path.append(0 if mark == 0x5B else "")
        elif mark == 0x2C:
            if path and isinstance(last := path[-1], int):
                path[-1] = last + 1
        elif path:
            path.pop()


def decode_text(content: bytes) -> bytes:
    """Decode a JSON string's content to UTF-8 text; invalid content is returned unchanged."""
    if b"\\" not in content:
        return content
    quoted = b'"%b"' % content
    try:
        return msgspec.json.decode(quoted, type=str).encode()
    except (msgspec.DecodeError, UnicodeError):  # half a surrogate pair, which json takes
        try:
            return str(json.loads(quoted, strict=False)).encode("utf-8", "surrogatepass")
        except ValueError:
            return content


def escape(text: str, times: int = 1) -> str:
    """Return the text as written in a JSON string, or in one nested in another."""
    for _ in range(times):
        try:
            text = msgspec.json.encode(text).decode()[1:-1]
        except UnicodeEncodeError:
            text = json.dumps(text)[1:-1]
    return text


def replace_in_strings(raw: bytes, text: str, instead: str) -> bytes:
    """Return a JSON text with a text replaced in all of its strings, however they are escaped."""
    wanted = text.encode()

    def replace(found: re.Match[bytes]) -> bytes:
        content = found[1]
        plain = decode_text(content)
        if wanted not in plain:
            return found[0]
        made = plain.replace(wanted, instead.encode()).decode("utf-8", "surrogatepass")
        return b'"%b"' % escape(made).encode()

    return _STRING.sub(replace, raw) if text else raw


def to_raw_offsets(content: bytes, offsets: list[int]) -> list[int]:
    """Return the offsets in a string's raw bytes of these offsets, in order, in its text."""
    if b"\\" not in content:
        return offsets
    found: list[int] = []
    raw = plain = 0
    for escape in _ESCAPE.finditer(content):
        gap = escape.start() - raw
        while len(found) < len(offsets) and offsets[len(found)] <= plain + gap:
            found.append(raw + offsets[len(found)] - plain)
        size = len(decode_text(escape[0]))
        raw, plain = escape.end(), plain + gap + size
        # No span begins or ends within one escaped character.
        while len(found) < len(offsets) and offsets[len(found)] < plain:
            found.append(escape.start())
    found += [raw + offset - plain for offset in offsets[len(found) :]]
    return found


def _find_closing_quote(raw: bytes, at: int, end: int) -> int:
    """Return the offset of the quote that ends the string whose content begins ``at``."""
    close = raw.find(b'"', at, end)
    while close > at and raw[close - 1] == _BACKSLASH:
        before = close - 1
        while before > at and raw[before - 1] == _BACKSLASH:
            before -= 1
        if (close - before) % 2 == 0:  # the backslashes are escaped, not the quote
            break
        close = raw.find(b'"', close + 1, end)
    return close if close >= 0 else end


def _is_bytes(raw: bytes, start: int, end: int, name: bytes) -> bool:
    if name not in _BYTES or end - start < 64:
        return False
    return bool(_DATA_URL.match(raw, start, end) or _OPAQUE.fullmatch(raw, start, end))


def _escape_pointer(step: str | int) -> str:
    return str(step)[:_MOST_LETTERS].replace("~", "~0").replace("/", "~1")
