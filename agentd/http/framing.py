"""Where a request and its body begin and end (RFC 9112); pure, without I/O.

What two readers could understand in two ways is refused: a proxy in front of the daemon might take
the rest for another request. Headers are read as Tornado reads them, by two searches for all
instead of several for each: theirs are a fifth of a small request.
"""

import re
from typing import NamedTuple

from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    RequestStartLine,
    parse_request_start_line,
)

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of the request line and the headers together."""

_HEAD_END = re.compile(rb"\r?\n\r?\n")
"""The end of a head; a bare line feed ends a line, too (RFC 9112, section 2.2)."""

_NAME_CHARACTER = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
"""A character of a token: of a method or a header's name (RFC 9110, section 5.6.2)."""

_BEGIN = re.compile(rf"[\r\n]*+(?:({_NAME_CHARACTER})|\Z)".encode())
"""Empty lines, then the first byte of a method (the group) or the end of the received bytes."""

_LINE = (
    rf"({_NAME_CHARACTER}++):"
    r"[ \t]*+([^\x00-\x08\x0a-\x1f\x7f]*+)\r?\n"  # what a value may hold (section 5.5)
)
_HEADER = re.compile(_LINE)
_HEADERS = re.compile(f"(?:{_LINE})*+\r?\n")
"""All lines and the end of a head. Possessive, so that the search is linear in every text."""

_LENGTH = re.compile("[0-9]+")
_MAX_DIGITS = 18
"""Of a length; one with more is as good as endless, and slow to convert."""
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_MAX_CHUNK_LINE = 256
"""The most bytes of the line before a chunk; its extensions are ignored."""
_ABSOLUTE = re.compile("https?://([^/?#]*)(.*)", re.IGNORECASE)
"""A target with a scheme and an authority, which counts for more than the header ``Host``."""
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that no line between chunks may hold: others end a line at a bare line feed."""
_MAX_STEPS = 1_000
"""The most lines and chunks that are taken at once: about a millisecond."""
_MAX_TRAILERS = 8 * 1024
"""The most bytes of the lines after the last chunk, with their ends; they are ignored."""


class HeadTooLong(HTTPInputError):
    """The request line and the headers have more than ``MAX_HEAD_BYTES`` together."""


class TargetTooLong(HTTPInputError):
    """The request line alone has more than ``MAX_HEAD_BYTES``."""


class ParsedHead(NamedTuple):
    """The head of a request, as far as the framing of its messages depends on it."""

    start_line: RequestStartLine
    headers: HTTPHeaders
    length: int | None
    """The bytes of the body; None: it comes in chunks."""
    keeps_alive: bool
    """True if another request may follow on the connection."""

    @property
    def expects_continue(self) -> bool:
        """True if the client wants to be asked for the body (RFC 9110, section 10.1.1)."""
        if "Expect" not in self.headers or self.start_line.version == "HTTP/1.0":
            return False
        return self.headers["Expect"].lower() == "100-continue"


def parse_head(head: bytes) -> ParsedHead:
    """Parse a head with its end; ``HTTPInputError`` if it is not valid."""
    text = head.decode("latin-1").lstrip("\r\n")  # RFC 9112, section 2.2: some send one before
    end = text.find("\n") + 1
    start_line = parse_request_start_line(text[:end].rstrip("\r\n"))
    headers = _parse_headers(text[end:])
    if absolute := _ABSOLUTE.fullmatch(start_line.path):
        start_line = _resolve_absolute(start_line, headers, *absolute.groups())
    length = _parse_length(start_line, headers)
    return ParsedHead(start_line, headers, length, _keeps_alive(start_line, headers))


def _resolve_absolute(
    start_line: RequestStartLine, headers: HTTPHeaders, authority: str, path: str
) -> RequestStartLine:
    """Return the line with the path alone; its host replaces that of the headers.

    RFC 9112, section 3.2.2. Two hosts in the headers, or none, stay as wrong as they are.
    """
    if "," not in headers.get("Host", ","):
        headers["Host"] = authority
    path = path if path.startswith("/") else f"/{path}"
    return RequestStartLine(start_line.method, path, start_line.version)


def _parse_headers(text: str) -> HTTPHeaders:
    """Parse the lines after the first one, with the empty line at their end."""
    if not _HEADERS.fullmatch(text):
        raise HTTPInputError("a line is no header")
    headers = HTTPHeaders()
    for name, rest in _HEADER.findall(text):
        value = rest.rstrip(" \t")
        if name in headers:
            headers.add(name, value)
        else:  # without looking once more whether both are valid
            headers[name] = value
    return headers


def _parse_length(start_line: RequestStartLine, headers: HTTPHeaders) -> int | None:
    if "Transfer-Encoding" in headers:
        if "Content-Length" in headers or headers["Transfer-Encoding"].lower() != "chunked":
            raise HTTPInputError("the length of the body is ambiguous")
        if start_line.version == "HTTP/1.0":  # which knows no chunks (RFC 9112, section 6.1)
            raise HTTPInputError("a body of HTTP/1.0 does not come in chunks")
        return None
    if "Content-Length" not in headers:
        return 0
    length = headers["Content-Length"]
    if not _LENGTH.fullmatch(length):
        raise HTTPInputError("Content-Length is not a number")
    return int(length) if len(length) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _keeps_alive(start_line: RequestStartLine, headers: HTTPHeaders) -> bool:
    if "Connection" not in headers:
        return start_line.version == "HTTP/1.1"
    wishes = {one.strip() for one in headers["Connection"].lower().split(",")}
    return "close" not in wishes and (start_line.version == "HTTP/1.1" or "keep-alive" in wishes)


class FixedBody:
    """Takes a body of a known length out of received bytes."""

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def is_complete(self) -> bool:
        """True once all of it was taken."""
        return not self._left

    def take_whole(self, data: bytes) -> bool:
        """Take received bytes that are all body; return False, and take none, if they are not."""
        if len(data) > self._left:
            return False
        self._left -= len(data)
        return True

    def take(self, buffer: bytearray) -> bytes:
        """Take what is there from the front of ``buffer``, and return it."""
        data = bytes(buffer[: self._left])
        del buffer[: len(data)]
        self._left -= len(data)
        return data


class ChunkedBody:
    """Takes a body that comes in chunks out of received bytes (RFC 9112, section 7.1)."""

    def __init__(self) -> None:
        self.is_complete = False
        self._left = 0
        """The bytes of the chunk that are still to come."""
        self._follows_data = False
        """True if the line end after a chunk's data is next."""
        self._trailers = -1
        """The bytes after the last chunk so far; -1 before it."""

    def take_whole(self, data: bytes) -> bool:
        """Return False: they may hold more than the body's data."""
        return False

    def take(self, buffer: bytearray) -> bytes:
        """Take what is complete from the front of ``buffer``, and return the data in it.

        Tiny chunks are taken a thousand at a time; what is left is for the next call. Raises
        ``HTTPInputError`` for what is no such body.
        """
        found = []
        for _ in range(_MAX_STEPS):
            if self.is_complete or not buffer:
                break
            if self._left:
                data = bytes(buffer[: self._left])
                del buffer[: self._left]
                self._left -= len(data)
                self._follows_data = not self._left
                found.append(data)
            elif not self._take_line(buffer):
                break
        return b"".join(found)

    def _take_line(self, buffer: bytearray) -> bool:
        """Take a line that is complete; return whether there was one."""
        end = buffer.find(b"\r\n", 0, _MAX_CHUNK_LINE + 2)
        if end < 0:
            if len(buffer) > _MAX_CHUNK_LINE + 1:
                raise HTTPInputError("a line between chunks is too long")
            return False
        line = bytes(buffer[:end])
        del buffer[: end + 2]
        if _CONTROL.search(line):
            raise HTTPInputError("a line between chunks holds control characters")
        if self._follows_data:
            if line:
                raise HTTPInputError("a chunk is longer than its size")
            self._follows_data = False
        elif self._trailers < 0:
            self._read_size(line)
        else:
            self._trailers += len(line) + 2
            self.is_complete = not line
            if self._trailers > _MAX_TRAILERS:
                raise HTTPInputError("too much follows the last chunk")
        return True

    def _read_size(self, line: bytes) -> None:
        size = line.partition(b";")[0].rstrip(b" \t")
        if not _CHUNK_SIZE.fullmatch(size):
            raise HTTPInputError("the size of a chunk is not a number")
        self._left = int(size, 16)
        if not self._left:
            self._trailers = 0


class EndOfRequest:
    """The event that a request has arrived completely."""


END_OF_REQUEST = EndOfRequest()


class RequestParser:
    """Makes the events of requests out of the bytes of a connection, in order.

    Each request is a ``ParsedHead``, the parts of its body, and ``END_OF_REQUEST``. The next
    one begins after ``begin_next``.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        """Received bytes that are not taken yet."""
        self._searched = 0
        """How much of it is known to hold no end of a head."""
        self._has_begun = False
        """True once the first byte of a method is there."""
        self._body: FixedBody | ChunkedBody | None = None
        """The body of the request; None: its head has not arrived."""
        self._whole = b""
        """A part of the body that came alone, to be taken before the buffer: saves a copy."""
        self.is_complete = False
        """True between the end of a request and ``begin_next``."""

    @property
    def waiting_bytes(self) -> int:
        """The number of received bytes that are not taken yet."""
        return len(self._buffer) + len(self._whole)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._body and not self.waiting_bytes and self._body.take_whole(data):
            self._whole = data
        else:
            self._buffer += data

    def next_event(self) -> ParsedHead | bytes | EndOfRequest | None:
        """Return the next event; None: more has to come first.

        Raises ``HTTPInputError`` for what is no request, ``HeadTooLong`` and ``TargetTooLong``.
        """
        if self._whole:
            data, self._whole = self._whole, b""
            return data
        if self._body is None:
            return self._take_head()
        if self.is_complete:
            return None
        left = -1
        while left != len(self._buffer):  # of many lines after the last chunk, each takes some
            left = len(self._buffer)
            if data := self._body.take(self._buffer):
                return data
        if not self._body.is_complete:
            return None
        self.is_complete = True
        return END_OF_REQUEST

    def begin_next(self) -> None:
        """Go on with the next request."""
        self._body = None
        self.is_complete = False

    def discard(self) -> None:
        """Forget the bytes that are not taken yet."""
        self._buffer.clear()
        self._whole = b""

    def take_rest(self) -> bytes:
        """Take the bytes that no request has taken."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _take_head(self) -> ParsedHead | None:
        end = _HEAD_END.search(self._buffer, max(0, self._searched - 3))
        size = end.end() if end else len(self._buffer)
        if size > MAX_HEAD_BYTES:
            has_line = b"\n" in self._buffer[:MAX_HEAD_BYTES]
            raise (
                HeadTooLong("the head is too long")
                if has_line
                else TargetTooLong("the target is too long")
            )
        if end is None:
            self._require_method()
            self._searched = size
            return None
        head = parse_head(bytes(self._buffer[:size]))
        del self._buffer[:size]
        self._searched = 0
        self._has_begun = False
        self._body = ChunkedBody() if head.length is None else FixedBody(head.length)
        return head

    def _require_method(self) -> None:
        """Refuse what begins no request, without waiting for the end of its head.

        A client that speaks TLS, for one, sends no more before it has an answer.
        """
        if self._has_begun:
            return
        begin = _BEGIN.match(self._buffer, self._searched)  # all before was empty lines
        if not begin:
            raise HTTPInputError("it does not begin with a method")
        self._has_begun = begin[1] is not None
