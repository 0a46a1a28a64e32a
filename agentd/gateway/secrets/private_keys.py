r"""Private keys in a text, from the first byte of each to the last, also where the text is cut.

A key stands between a BEGIN and an END line, but tools show parts of files: then one of the lines
is missing, or both. In every case the whole body is taken. Between two lines of it there may be
anything short: indentation, line numbers, quotes, the marks of a diff, an escaped line end.

All functions take time that is linear in the text: each looks at the stretch between two markers
once.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from agentd.gateway.secrets.rules import compile_regex

_ROW_BREAK = r"(?:\r?\n|\\{1,8}r\\{1,8}n|\\{1,8}[nr]|<br ?/?>|&#1[03];|%0[AaDd])"
_BREAKS = rf"(?:[ \t\"'+,;.]{{0,8}}{_ROW_BREAK}){{1,2}}"
_PREFIX = r"[ \t>|#*\"'+-]{0,24}(?:(?:%s[:-])?[0-9]{1,6}(?:\x{2192}|[:|\t-])[ \t\"'+]{0,24})?"
"""Text that tools add before a line: indentation, diff marks, a file name, a line number."""
_BETWEEN_ROWS = _BREAKS + _PREFIX % r"[^\s:\"]+"
_ROWS = "|".join(
    f"[A-Za-z0-9+/]{{{width}}}(?:{_BETWEEN_ROWS}[A-Za-z0-9+/]{{{width}}}){{2,}}"
    for width in (64, 70)  # of PEM and PGP, and of OpenSSH
)

_64 = "[A-Za-z0-9+/]"
_DER = (
    rf"(?:MII[A-Za-z]{_64}[AQgw]IB(?:AAK[BC]|ADAN|ADC[BC])"  # RSA and DSA
    rf"|MII[A-Za-z]{_64}{{2}}B{_64}BgkqhkiG9w0BBQ0|MI[GH]{_64}MF{_64}GCSqGSIb3DQEFD"  # encrypted
    rf"|MH[A-Za-z]CAQEEI|MI[GH]{_64}AgEBB|MEECAQAwEwYHKoZIzj0C|MI[GH]{_64}AgEAMB[AM]GByqGSM49"  # EC
    r"|M(?:C4CAQA|EcCAQA|FECAQE)wBQYDK2V|b3BlbnNzaC1rZXktdjE)"  # Edwards curves; OpenSSH
)
"""The first bytes of a private key, in base64: its length, its version and its kind."""

PATTERN = (
    r"-{4,5} ?(?:BEGIN|END)[ +](?:[A-Z0-9]+[ +]){0,4}(?:PRIVATE[ +]KEY|OpenVPN[ +]Static[ +]key)"
    rf"|Private-(?:Lines|MAC|Hash):|{_DER}|{_ROWS}"
)
"""An expression of RE2 that finds something in every text with a private key in it."""

_EDGE = re.compile(
    rb"-{4,5} ?(?P<begin>BEGIN|END)[ +](?P<what>[A-Za-z0-9 +.]{1,60}?) ?-{4,6}"
    rb"|Private-Lines: {0,3}(?P<lines>[0-9]{1,4})"
    rb"|Private-(?P<mac>MAC|Hash): {0,3}[0-9A-Fa-f]{4,64}"
)
_PRIVATE = re.compile(rb"PRIVATE[ +]KEY|OpenVPN[ +]Static[ +]key")
_HEADERS = re.compile(rb"(?i).{0,100}?(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):", re.S)
_UNIT = re.compile(rb"[A-Za-z0-9+/]{24}")
_REST = re.compile(rb"[A-Za-z0-9+/]*={0,2}")

_PUBLIC = re.compile(
    rb"MII[A-Za-z0-9+/]{3}CC|MII[BC]IjANBgkq|MII[A-Za-z0-9+/]{5}BgkqhkiG9w0BBw|mQ[EIG]NB|xsFNB"
)
"""The first bytes of certificates, public keys and signatures, in base64."""

_GAP = 120
"""Bytes between two lines of a key."""
_HEADERS_GAP = 1000
"""Bytes between the BEGIN line and the body, where headers such as ``Version:`` stand there."""
_SURE = 40
"""Letters of base64 in a row that are a key's, whatever they are, once a key has begun."""


_BETWEEN = (_BREAKS + _PREFIX % r"[^\s:\"]{1,100}").replace(r"\x{2192}", "\u2192").encode()
_LAST_ROW = re.compile(
    _BETWEEN + rb"(?:[A-Za-z0-9+/]{20,63}={0,2}"
    rb"|[A-Za-z0-9+/]{1,19}={0,2}(?=[ \t]*(?:[\r\n\"'\\`<,;)\]}&%]|$)))"
    rb"|[ \t]{1,8}[A-Za-z0-9+/]{1,63}={1,2}"
)
_CHECKSUM = re.compile(_BETWEEN + rb"=[A-Za-z0-9+/]{4}")
"""The last line of a body, which is shorter, and stands alone where it could be a word."""
_FIRST_ROW = re.compile(rb"[A-Za-z0-9+/]{1,63}" + _BETWEEN + rb"$")
_ONLY_ROW = re.compile(
    rb"(?:[A-Za-z0-9+/]{2,}={1,2}|[A-Za-z+/]*[0-9][A-Za-z0-9+/]*|[A-Za-z+/]{20,})(?:"
    + _CHECKSUM.pattern
    + rb")?"
    + _BETWEEN
    + rb"$"
)
"""The last line of a body before its END line; a short one only if it could not be a word."""


class _Edge(NamedTuple):
    """A BEGIN or END line of anything."""

    start: int
    end: int
    begins: bool
    private: bool


class PrivateKeys:
    """A finder of private keys in texts; it may be shared by threads."""

    def __init__(self) -> None:
        self.search: Callable[[bytes, int], Any] = compile_regex(PATTERN, groups=False).search
        """Finds a place in every text in which there is a key."""
        self._heads: Any = compile_regex(rf"(?:^|[^A-Za-z0-9+/=]|\\[nrt])({_DER})")
        self._rows: Any = compile_regex(f"({_ROWS})")

    def find(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each, in order."""
        if not self.search(text, 0):
            return
        edges = [_Edge(0, 0, False, False), *map(_read_edge, _EDGE.finditer(text))]
        edges.append(_Edge(len(text), len(text), True, False))
        done = 0
        for left, right in pairwise(edges):
            start, end = max(left.end, done), right.start
            if left.private and left.begins and (body_end := _find_body_end(text, start, end)):
                if right.private and not right.begins:
                    yield left.start, right.end
                    continue
                yield left.start, body_end
                start = body_end
            elif left.begins and not left.private:
                continue  # a certificate, or a public key
            if right.private and not right.begins:
                if (body_start := _find_body_start(text, start, end)) is not None:
                    yield from self._find_without_edges(text, start, body_start)
                    yield body_start, right.end
                    continue
            elif not right.begins:
                continue
            yield from self._find_without_edges(text, start, end)

    def _find_without_edges(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the bodies of keys of which neither the BEGIN nor the END line is there."""
        at = start
        for head in self._heads.finditer(text, start, end):
            if head.start(1) < at:
                continue
            if body_end := _find_body_end(text, head.start(1), end):
                yield from self._find_loose_rows(text, at, head.start(1))
                yield head.start(1), body_end
                at = body_end
        yield from self._find_loose_rows(text, at, end)

    def _find_loose_rows(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield three full lines and more from the middle of a body."""
        at = start
        while rows := self._rows.search(text, at, end):
            at = rows.end()
            if _is_mixed(rows[1][:64]) and not _PUBLIC.match(rows[1]):
                first = _include_cut_row(text, rows.start(), start)
                at = _include_last_rows(text, at, end)
                yield first, at


def _read_edge(found: re.Match[bytes]) -> _Edge:
    if found["begin"]:
        private = bool(_PRIVATE.search(found["what"]))
        return _Edge(found.start(), found.end(), found["begin"] == b"BEGIN", private)
    return _Edge(found.start(), found.end(), found["lines"] is not None, True)


def _find_body_end(text: bytes, start: int, end: int) -> int:
    """Return the end of the body that begins at ``start``, before ``end``; 0 without one."""
    at, last = start, 0
    limit = start + (_HEADERS_GAP if _HEADERS.match(text, start, end) else _GAP)
    while unit := _UNIT.search(text, at, min(end, limit + 24)):
        rest = _REST.match(text, unit.end(), end)
        at = rest.end() if rest else unit.end()
        row = text[unit.start() : at]
        if _is_body(row):
            last, limit = at, at + _GAP
            if row.endswith(b"="):
                break
        elif last:
            break
    return _include_last_rows(text, last, end) if last else 0


def _find_body_start(text: bytes, start: int, end: int) -> int | None:
    """Return the start of the body that ends at ``end``, after ``start``, or None."""
    first, last = -1, start
    at = start
    while unit := _UNIT.search(text, at, end):
        rest = _REST.match(text, unit.end(), end)
        at = rest.end() if rest else unit.end()
        row = text[unit.start() : at]
        if not _is_body(row):
            continue
        if first < 0 or unit.start() - last > _GAP:
            first = unit.start()
        last = -1000 if row.endswith(b"=") and end - at > _GAP else at
    if first >= 0 and end - last <= 2 * _GAP:
        return _include_cut_row(text, first, start)
    only = _ONLY_ROW.search(text, max(start, end - 2 * _GAP), end)
    return _include_cut_row(text, only.start(), start) if only else None


def _include_cut_row(text: bytes, at: int, start: int) -> int:
    """Return ``at``, or the begin of a cut line that stands directly before it."""
    bare = at + 1 if text[at - 1 : at + 1] in (b"\\n", b"\\r") and at > start else at
    row = _FIRST_ROW.search(text, max(start, at - 2 * _GAP), bare)
    return row.start() if row else at


def _include_last_rows(text: bytes, at: int, end: int) -> int:
    """Return ``at``, or the end of the shorter lines behind it: the last one and a checksum."""
    for form in (_LAST_ROW, _CHECKSUM):
        row = form.match(text, at, end)
        at = row.end() if row else at
    return at


def _is_body(row: bytes) -> bool:
    """Return whether it is a line of the key beside it, rather than a word."""
    return len(row) >= _SURE or bool(re.search(rb"[0-9+/]", row))


def _is_mixed(row: bytes) -> bool:
    """Return whether it is base64, which mixes letter cases and digits, unlike hex and words."""
    return bool(
        re.search(rb"[a-z]", row) and re.search(rb"[A-Z]", row) and re.search(rb"[0-9+/]", row)
    )
