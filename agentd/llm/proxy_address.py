"""The proxy of a channel, parsed from its URL."""

from urllib.parse import unquote, urlsplit

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.llm.endpoint import ChannelTransport

_KINDS = {"http": ("http", 80), "socks5": ("socks5", 1080), "socks5h": ("socks5", 1080)}
_LONGEST = 255
"""Bytes of a user's name or password: what SOCKS5 can carry."""


class ProxyServer(Struct, frozen=True):
    """A proxy and its credentials."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        """Return ``host:port``, which is safe to show."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        """Omit user and password."""
        return f"ProxyServer({self})"


def parse_proxy_address(transport: ChannelTransport) -> ProxyServer:
    """Return the proxy of a transport of kind ``http`` or ``socks5``.

    Raises ``BadRequest`` for an invalid URL, without repeating it: it holds a password.
    """
    try:
        parts = urlsplit(transport.url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
    except ValueError as error:
        raise BadRequest("Invalid proxy address: its host or port cannot be parsed") from error
    kind, usual = _KINDS.get(parts.scheme, ("", 0))
    if kind != transport.kind:
        raise BadRequest(f"The proxy address has the wrong scheme for the kind {transport.kind}")
    if not host or not host.isprintable() or " " in host or port == 0:
        raise BadRequest("The proxy address has no host, or an invalid port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadRequest("The proxy address must end after host and port")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if max(len(user.encode()), len(password.encode())) > _LONGEST or ":" in user:
        raise BadRequest("The proxy's user or password is too long, or the user contains a colon")
    if bool(user) != bool(password):
        raise BadRequest("The proxy address needs both a user and a password, or neither")
    return ProxyServer(host, usual if port is None else port, user, password)
