"""A VPN server, whatever format it was read from."""

import re
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, structs

from agentd.core.errors import BadRequest
from agentd.core.redaction import escape_unprintable

ServerType: TypeAlias = Literal[
    "ss",
    "vmess",
    "vless",
    "trojan",
    "hysteria2",
    "tuic",
    "anytls",
    "wireguard",
    "socks5",
    "http",
]
"""The type of a server, as in the schemes of links."""

TransportKind: TypeAlias = Literal[
    "tcp", "ws", "http", "grpc", "httpupgrade", "xhttp", "kcp", "quic"
]

TYPES: tuple[str, ...] = get_args(ServerType)
TRANSPORTS: tuple[str, ...] = get_args(TransportKind)

_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_PORTS = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_LONGEST = 200
"""Maximum length of a server's name."""
_BY_UUID = ("vmess", "vless", "tuic")
_BY_PASSWORD = ("ss", "trojan", "tuic", "anytls")


class Tls(Struct, frozen=True, omit_defaults=True):
    """TLS settings; with ``public_key``: REALITY."""

    name: str = ""
    """Name in the certificate; empty: the host."""
    insecure: bool = False
    """True if the certificate is not verified."""
    nameless: bool = False
    """True if no server name (SNI) is sent."""
    alpn: tuple[str, ...] = ()
    fingerprint: str = ""
    """The browser that the handshake imitates."""
    public_key: str = ""
    short_id: str = ""
    spider: str = ""


class StreamTransport(Struct, frozen=True, omit_defaults=True):
    """The transport of the protocol's bytes: plain ``tcp``, or another protocol."""

    kind: TransportKind = "tcp"
    path: str = ""
    host: str = ""
    service: str = ""
    """Service name of gRPC."""
    mode: str = ""
    """Mode of gRPC and xhttp."""
    header: str = ""
    """Header obfuscation of ``tcp``, ``kcp`` and ``quic``."""
    seed: str = ""
    """Seed of ``kcp``."""

    def __repr__(self) -> str:
        """Return a representation without paths and seeds, which often serve as passwords."""
        return f"StreamTransport({self.kind!r})"


class WireGuardTunnel(Struct, frozen=True, omit_defaults=True):
    """WireGuard's settings: our addresses in the tunnel, and the peer's keys."""

    addresses: tuple[str, ...]
    public_key: str
    shared_key: str = ""
    reserved: tuple[int, ...] = ()
    mtu: int = 0
    keepalive: int = 0
    dns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return a representation without the shared key."""
        return "WireGuardTunnel()"


class Server(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server with its credentials, as ``validate_server`` returns it."""

    name: str
    type: ServerType
    host: str
    port: int
    user: str = ""
    """The id (a UUID) of vmess, vless and tuic; the user of a proxy."""
    password: str = ""
    """WireGuard: our private key."""
    method: str = ""
    """The cipher of ss and vmess; the encryption of vless."""
    alter: int = 0
    """The alterId of vmess; above 0: its legacy authentication."""
    flow: str = ""
    tls: Tls | None = None
    transport: StreamTransport = StreamTransport()
    plugin: str = ""
    """Plugin of ss."""
    options: str = ""
    ports: str = ""
    """Ports between which hysteria2 hops, such as ``443,5000-6000``."""
    obfs: str = ""
    obfs_password: str = ""
    congestion: str = ""
    """The congestion control of tuic."""
    relay: str = ""
    """UDP relay mode of tuic."""
    tunnel: WireGuardTunnel | None = None

    def __repr__(self) -> str:
        """Return a representation without anything that could be a secret."""
        return f"Server({self.name!r}, {self.type} {self.host}:{self.port})"


def validate_server(server: Server) -> Server:
    """Return the server with a printable name.

    ``BadRequest`` says what is missing or invalid, without quoting it.
    """
    name = escape_unprintable(server.name.strip())[:_LONGEST] or f"{server.host}:{server.port}"
    host = server.host.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host):
        raise BadRequest("Invalid server host")
    if not 0 < server.port < 65536:
        raise BadRequest("Invalid server port")
    if server.type in _BY_UUID and not _UUID.fullmatch(server.user):
        raise BadRequest(f"The {server.type} server's id is not a UUID")
    if server.type in _BY_PASSWORD and not server.password:
        raise BadRequest(f"The {server.type} server has no password")
    if server.type == "ss" and not server.method:
        raise BadRequest("The ss server has no cipher")
    if server.ports and not _PORTS.fullmatch(server.ports):
        raise BadRequest("Invalid ports for port hopping")
    if server.type == "wireguard" and not (server.password and server.tunnel):
        raise BadRequest("The wireguard server has no private key, or no peer")
    return structs.replace(server, name=name, host=host)


def pin_address(server: Server, address: str) -> Server:
    """Return the server at an IP address, with its name still used for TLS and HTTP hosts."""
    tls, transport = server.tls, server.transport
    name = (tls and tls.name) or server.host
    if tls:
        tls = structs.replace(tls, name=name)
    if not transport.host and transport.kind in ("ws", "http", "httpupgrade", "xhttp"):
        transport = structs.replace(transport, host=name)
    return structs.replace(server, host=address, tls=tls, transport=transport)


def list_secrets(server: Server) -> tuple[str, ...]:
    """Return a server's secrets, longest first."""
    own = [server.user, server.password, server.obfs_password, server.transport.seed]
    own += [server.options, server.transport.path.strip("/")]
    own += [server.tls.short_id, server.tls.public_key] if server.tls else []
    own += [server.tunnel.shared_key] if server.tunnel else []
    return tuple(sorted(filter(None, own), key=len, reverse=True))
