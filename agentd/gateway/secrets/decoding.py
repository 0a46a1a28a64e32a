r"""Text as it reads once its encoding is undone, and where each part of it came from.

Undone are percent escapes, ``\u`` and ``\x`` escapes, character references of HTML, full-width and
ornamental letters, characters that nobody sees, hex and base64. Every function takes time that is
linear in the text.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from html import unescape
from typing import Any, NamedTuple
from unicodedata import normalize

from agentd.gateway.secrets.rules import compile_regex

_MARGIN = 300
"""Bytes on each side of an escape that are read with it: a name may stand before the value."""

_APART = b"\n\n"
"""The separator of stretches of a text that are not beside one another."""
_UNSEEN = (
    rb"\xc2\xad|\xcd\x8f|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]"
    rb"|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf"
)
_WIDE = re.compile(rb"\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e]|\xf0\x9d[\x90-\x9f][\x80-\xbf]")
_ESCAPE = re.compile(
    rb"%HH|\\+(?:u\{H{1,6}\}|uH{4}|UH{8}|xHH)".replace(b"H", rb"[0-9A-Fa-f]")
    + rb"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|quot|apos|amp|lt|gt|nbsp|colon|equals|num|dollar);|"
    + _UNSEEN
    + b"|"
    + _WIDE.pattern
)
_ESCAPED_FORM = (
    r"%[0-9A-Fa-f]{2}|\\(?:u\{?[0-9A-Fa-f]{2}|U00|x[0-9A-Fa-f]{2})"
    r"|&(?:#[0-9xX]|quot|apos|amp|lt|gt|nbsp|colon|equals|num|dollar)"
    r"|[\x{ad}\x{34f}\x{180e}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{fe00}-\x{fe0f}"
    r"\x{feff}\x{ff10}-\x{ff19}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{1d400}-\x{1d7ff}]"
)
_BASE64_FORM = (
    # What it holds begins with twelve letters of ASCII, or six in UTF-16 as PowerShell takes
    # them: most names and paths do not look so.
    r"(?:^|[^A-Za-z0-9+/_-]|\\[nrt])"
    r"((?:(?:[CDI-Za-f][A-Za-z0-9+/_-]{3}){4}"
    r"|(?:[CDI-Za-f][AQgw][AB][A-Za-z0-9+/]A[C-H][AEIMQUYcgkosw048]A){2})"
    r"[A-Za-z0-9+/_-]{8,}={0,2})"
)
_BASE64_ROW = re.compile(rb"(?:\r?\n|\\r\\n|\\n)[ \t]{0,40}([A-Za-z0-9+/_-]+={0,2})")
_NARROWEST = 40
"""Letters of a line of base64 that is broken into several."""
_CUT = 6
"""Bytes that may be missing from the first and the last character of a piece of UTF-8."""
_LINE_ENDS = {9: None, 10: None, 13: None}
_STANDARD = bytes.maketrans(b"-_", b"+/")

_HEX_FORM = r"(?:^|[^0-9A-Za-z])((?:(?:0x|\\x)?(?:[2-7][0-9a-fA-F]|0[9aAdD])[ :,\n-]{0,2}){12,})"
_ENCODED_FORM = "|".join((_ESCAPED_FORM, _BASE64_FORM, _HEX_FORM))


class _Patterns(NamedTuple):
    """The compiled expressions."""

    escaped: Any
    base64: Any
    hex_run: Any
    encoded: Any
    """Matches in every text in which anything is encoded, also as a line of another one."""


@cache
def _get_patterns() -> _Patterns:
    """Return the expressions, compiled on first use."""
    return _Patterns(
        escaped=compile_regex(_ESCAPED_FORM, groups=False),
        base64=compile_regex(_BASE64_FORM),
        hex_run=compile_regex(_HEX_FORM),
        encoded=compile_regex(f"(?m){_ENCODED_FORM}", groups=False),
    )


def get_encoded_search() -> Callable[[bytes, int], Any]:
    """Return a search that finds something in every text in which anything is encoded."""
    search: Callable[[bytes, int], Any] = _get_patterns().encoded.search
    return search


class View(NamedTuple):
    """A text without its encoding."""

    text: bytes
    locate: Callable[[int, int], tuple[int, int]]
    """Returns where in the encoded text stands what has this place in ``text``."""


def decode(text: bytes) -> Iterator[View]:
    """Yield a decoded view of a text for each encoding that occurs in it."""
    patterns = _get_patterns()
    if not patterns.encoded.search(text, 0):
        return
    if patterns.escaped.search(text):
        escapes = _Escapes(text)
        yield View(escapes.text, escapes.locate)
    yield from _undo_base64(text)
    yield from _undo_hex(text)


class _Escapes:
    """The text around the escapes in a text, without them."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._stretches = list(_iter_windows(text))
        plain = [_ESCAPE.sub(_decode_match, text[start:end]) for start, end in self._stretches]
        self.text = _APART.join(plain)

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the escaped text of a span in the plain text."""
        starts, sources = self._pieces
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        begin, _, escaped = sources[first]
        _, stop, last_escaped = sources[last]
        if not escaped:
            begin += start - starts[first]
        if not last_escaped:
            stop = sources[last][0] + end - starts[last]
        return begin, stop

    @cached_property
    def _pieces(self) -> tuple[list[int], list[tuple[int, int, bool]]]:
        """The start of each piece in the plain text; its raw place, and whether it was escaped."""
        starts: list[int] = []
        sources: list[tuple[int, int, bool]] = []
        size = 0
        for start, end in self._stretches:
            at = start
            for escape in _ESCAPE.finditer(self._text, start, end):
                starts += (size, size + escape.start() - at)
                sources += ((at, escape.start(), False), (*escape.span(), True))
                size = starts[-1] + len(_decode_escape(escape[0]))
                at = escape.end()
            starts.append(size)
            sources.append((at, end, False))
            size += end - at + len(_APART)
        return starts, sources


def _iter_windows(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the stretches in which escapes stand, each with a margin, in order and apart."""
    start, end, at = 0, -1, 0
    escaped = _get_patterns().escaped
    while found := escaped.search(text, at):
        if found.start() - _MARGIN > end >= 0:
            yield start, end
        if found.start() - _MARGIN > end:
            start = max(found.start() - _MARGIN, 0)
        at = found.end() + _MARGIN  # an escape before that has its margin within this one's
        end = min(at + _MARGIN, len(text))
    yield start, end


def _decode_match(escape: re.Match[bytes]) -> bytes:
    return _decode_escape(escape[0])


@lru_cache(4096)
def _decode_escape(written: bytes) -> bytes:
    """Decode one escape to UTF-8; half a surrogate pair becomes ``?``."""
    digits = written.lstrip(b"%\\uUx{").rstrip(b"}")
    if written[:1] == b"%":
        return bytes.fromhex(digits.decode())
    if written[:1] == b"\\":
        number = int(digits, 16)
        return chr(number).encode("utf-8", "replace") if number < 0x110000 else b"?"
    if written[:1] == b"&":
        return unescape(written.decode()).encode("utf-8", "replace")
    return normalize("NFKC", written.decode()).encode() if _WIDE.match(written) else b""


def _undo_base64(text: bytes) -> Iterator[View]:
    done = 0
    for found in _get_patterns().base64.finditer(text):
        start, end = found.span(1)
        if start >= done and (inner := _decode_base64(found[1])):
            pieces, done = [inner], end
            while row := _find_next_row(text, done, end - start):
                if not (inner := _decode_base64(row[1])):
                    break
                pieces.append(inner)
                done = row.end()
            yield View(b"".join(pieces), _locate_whole(start, done))


def _find_next_row(text: bytes, at: int, width: int) -> re.Match[bytes] | None:
    """Return the continuation of a line that was broken at this width."""
    row = _BASE64_ROW.match(text, at) if width >= _NARROWEST and width % 4 == 0 else None
    return row if row and len(row[1]) <= width else None


def _decode_base64(encoded: bytes) -> bytes:
    """Return the decoded text; empty if it is not text."""
    bare = encoded.rstrip(b"=").translate(_STANDARD)
    try:
        return _decode_text(b64decode(bare + b"=" * (-len(bare) % 4)))
    except NotBase64:
        return b""


def _undo_hex(text: bytes) -> Iterator[View]:
    for found in _get_patterns().hex_run.finditer(text):
        digits = re.sub(rb"0x|[^0-9A-Fa-f]", b"", found[1])
        if inner := _decode_text(bytes.fromhex(digits[: len(digits) // 2 * 2].decode())):
            start = found.start(1)
            yield View(inner, _locate_whole(start, start + len(found[1].rstrip(b" :,\n-"))))


def _decode_text(inner: bytes) -> bytes:
    """Return these bytes as UTF-8 text; empty if they are not text."""
    if inner[1:2] == b"\0":
        inner = inner[: len(inner) // 2 * 2].decode("utf-16-le", "replace").encode()
    text = inner.decode("utf-8", "ignore")
    if len(text.encode()) + _CUT < len(inner):
        return b""
    return inner if text.translate(_LINE_ENDS).isprintable() else b""


def _locate_whole(start: int, end: int) -> Callable[[int, int], tuple[int, int]]:
    """Return a ``locate`` for what cannot be taken out in part."""
    return lambda _start, _end: (start, end)
