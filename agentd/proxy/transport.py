"""The proxy through which a channel's calls go, as its address tells it."""

from urllib.parse import unquote, urlsplit

from msgspec import Struct

from agentd.errors import BadRequest
from agentd.proxy.channel import Transport

_KINDS = {"http": ("http", 80), "socks5": ("socks5", 1080), "socks5h": ("socks5", 1080)}
_LONGEST = 255
"""Bytes of a user's name or password: what SOCKS5 can carry."""


class ProxyServer(Struct, frozen=True):
    """A proxy, and how one signs in to it."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        """``host:port``: what may be told to anybody."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        """Without user and password."""
        return f"ProxyServer({self})"


def proxy_server(transport: Transport) -> ProxyServer:
    """The proxy of a transport of kind ``http`` or ``socks5``.

    ``BadRequest`` tells what is wrong with its address, and never repeats it: it holds a password.
    """
    try:
        parts = urlsplit(transport.url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
    except ValueError as error:
        raise BadRequest("The proxy's address is none: its host or port cannot be read") from error
    kind, usual = _KINDS.get(parts.scheme, ("", 0))
    if kind != transport.kind:
        raise BadRequest(f"The address of a proxy of kind {transport.kind} begins otherwise")
    if not host or not host.isprintable() or " " in host or port == 0:
        raise BadRequest("The proxy's address names no host, or no port that there is")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadRequest("The proxy's address goes on behind host and port")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if max(len(user.encode()), len(password.encode())) > _LONGEST or ":" in user:
        raise BadRequest("The proxy's user or password is too long, or the user has a colon in it")
    if bool(user) != bool(password):
        raise BadRequest(
            "The proxy's address has a user without a password, or the other way round"
        )
    return ProxyServer(host, usual if port is None else port, user, password)
