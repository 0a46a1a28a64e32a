"""A request as it stands on the line, and where it goes."""

import re
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct

from agentd.errors import BadRequest
from agentd.proxy.upstream import Request

_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]*")
_OURS = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
_BODILESS = {"GET", "HEAD"}


class Origin(Struct, frozen=True):
    """Whom a connection is kept to."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """The host, with the port where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@lru_cache(1024)
def origin(url: str) -> Origin:
    """Where a request to this address goes. ``BadRequest`` tells what is wrong with it.

    The address is never repeated: people put keys into addresses.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError as error:  # a name that cannot be encoded is one, too
        raise BadRequest(
            "The supplier's address is none: its host or port cannot be read"
        ) from error
    if parts.scheme not in _PORTS:
        raise BadRequest("The supplier's address begins with neither http:// nor https://")
    if "@" in parts.netloc:
        raise BadRequest("The supplier's address holds a user's name; a key belongs in a header")
    if not host or not _TARGET.fullmatch(host):
        raise BadRequest("The supplier's address names no host")
    return Origin(parts.scheme, host, _PORTS[parts.scheme] if port is None else port)


@lru_cache(1024)
def _beginning(method: str, url: str) -> str:
    """The lines that are the same in every request of this method to this address."""
    if not _TOKEN.fullmatch(method):
        raise BadRequest("The request's method is none")
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.fullmatch(target):
        raise BadRequest("The supplier's address holds a blank, or a letter that is not escaped")
    return f"{method} {target} HTTP/1.1\r\nhost: {origin(url)}\r\naccept-encoding: identity"


_ODD = "The header %r holds a character that no header may"


@lru_cache(256)
def _checked(name: str) -> str:
    """A header's name that the caller may set. ``BadRequest``."""
    if not _TOKEN.fullmatch(name):
        raise BadRequest(_ODD % name)
    if name.lower() in _OURS:
        raise BadRequest(f"The header {name!r} is not the caller's to set")
    return name


def written(request: Request) -> bytes:
    """The whole request. ``BadRequest`` for what would not arrive as it was meant."""
    lines = [_beginning(request.method, request.url)]
    for name, value in request.headers.items():
        if not _VALUE.fullmatch(value):
            raise BadRequest(_ODD % name)
        lines.append(f"{_checked(name)}: {value}")
    if request.body or request.method not in _BODILESS:
        lines.append(f"content-length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body
