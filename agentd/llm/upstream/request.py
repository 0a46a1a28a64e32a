"""The wire form of a request, and its origin."""

import re
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.llm.upstream.protocol import UpstreamRequest

_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]*")
_CLIENT_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
_BODILESS = {"GET", "HEAD"}


class Origin(Struct, frozen=True):
    """Scheme, host and port that connections are kept for."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return the host, with the port unless it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@lru_cache(1024)
def parse_origin(url: str) -> Origin:
    """Return the origin of a URL. Raises ``BadRequest`` saying what is wrong with it.

    The URL is never repeated: people put keys into URLs.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError as error:  # a name that cannot be encoded is one, too
        raise BadRequest("Invalid supplier address: its host or port cannot be parsed") from error
    if parts.scheme not in _PORTS:
        raise BadRequest("The supplier's address must begin with http:// or https://")
    if "@" in parts.netloc:
        raise BadRequest("The supplier's address contains a user name; a key belongs in a header")
    if not host or not _TARGET.fullmatch(host):
        raise BadRequest("The supplier's address names no host")
    return Origin(parts.scheme, host, _PORTS[parts.scheme] if port is None else port)


def explain_malformed_address(url: str) -> str:
    """Return why no request can be sent to a URL, without repeating it; empty if one can."""
    try:
        parse_origin(url)
    except BadRequest:
        return "its host or port is not valid; expected an address such as https://example.org/v1"
    return ""


@lru_cache(1024)
def _encode_request_line(method: str, url: str) -> str:
    """Return the lines that are the same in every request of this method to this URL."""
    if not _TOKEN.fullmatch(method):
        raise BadRequest("Invalid request method")
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.fullmatch(target):
        raise BadRequest(
            "The supplier's address contains a space, or a character that must be escaped"
        )
    return f"{method} {target} HTTP/1.1\r\nhost: {parse_origin(url)}\r\naccept-encoding: identity"


_ODD = "The header %r holds a character that no header may"


@lru_cache(256)
def _check_header_name(name: str) -> str:
    """Return a header name that the caller may set; raises ``BadRequest`` otherwise."""
    if not _TOKEN.fullmatch(name):
        raise BadRequest(_ODD % name)
    if name.lower() in _CLIENT_HEADERS:
        raise BadRequest(f"The header {name!r} cannot be set by the caller")
    return name


def encode_request(request: UpstreamRequest) -> bytes:
    """Return the bytes of the request. Raises ``BadRequest`` for what cannot be encoded safely."""
    lines = [_encode_request_line(request.method, request.url)]
    for name, value in request.headers.items():
        if not _VALUE.fullmatch(value):
            raise BadRequest(_ODD % name)
        lines.append(f"{_check_header_name(name)}: {value}")
    if request.body or request.method not in _BODILESS:
        lines.append(f"content-length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body
