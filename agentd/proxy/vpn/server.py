"""A VPN server, however it was told of, and what may be told of it."""

import re
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, structs

from agentd.errors import BadRequest
from agentd.redaction import visible

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
"""As links begin."""

CarriageKind: TypeAlias = Literal[
    "tcp", "ws", "http", "grpc", "httpupgrade", "xhttp", "kcp", "quic"
]

TYPES: tuple[str, ...] = get_args(ServerType)
CARRIAGES: tuple[str, ...] = get_args(CarriageKind)

_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_PORTS = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_LONGEST = 200
"""Letters of a server's name."""
_BY_UUID = ("vmess", "vless", "tuic")
_BY_PASSWORD = ("ss", "trojan", "tuic", "anytls")


class Tls(Struct, frozen=True, omit_defaults=True):
    """How the server is told to be itself. With ``public_key``: REALITY."""

    name: str = ""
    """The name on its certificate; empty: its host."""
    insecure: bool = False
    """Any certificate is taken, as the link says."""
    nameless: bool = False
    """No name is told to the server."""
    alpn: tuple[str, ...] = ()
    fingerprint: str = ""
    """The browser that the handshake looks like."""
    public_key: str = ""
    short_id: str = ""
    spider: str = ""


class Carriage(Struct, frozen=True, omit_defaults=True):
    """What carries the protocol's bytes: plainly (``tcp``), or dressed as something else."""

    kind: CarriageKind = "tcp"
    path: str = ""
    host: str = ""
    service: str = ""
    """Of gRPC."""
    mode: str = ""
    """Of gRPC and xhttp."""
    header: str = ""
    """What the bytes look like: of ``tcp``, ``kcp`` and ``quic``."""
    seed: str = ""
    """Of ``kcp``."""

    def __repr__(self) -> str:
        """Paths and seeds often work as passwords."""
        return f"Carriage({self.kind!r})"


class Tunnelled(Struct, frozen=True, omit_defaults=True):
    """WireGuard's own: our addresses within the tunnel, and the other side's key."""

    addresses: tuple[str, ...]
    public_key: str
    shared_key: str = ""
    reserved: tuple[int, ...] = ()
    mtu: int = 0
    keepalive: int = 0
    dns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the shared key."""
        return "Tunnelled()"


class Server(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server with what is needed to sign in to it. Make one by ``checked``."""

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
    """The alterId of vmess: more than 0 is its old way of signing in."""
    flow: str = ""
    tls: Tls | None = None
    carriage: Carriage = Carriage()
    plugin: str = ""
    """Of ss, with its options."""
    options: str = ""
    ports: str = ""
    """Between which hysteria2 hops, such as ``443,5000-6000``."""
    obfs: str = ""
    obfs_password: str = ""
    congestion: str = ""
    """The congestion control of tuic."""
    relay: str = ""
    """How tuic carries UDP."""
    tunnelled: Tunnelled | None = None

    def __repr__(self) -> str:
        """Without anything that could be a secret."""
        return f"Server({self.name!r}, {self.type} {self.host}:{self.port})"


class Seen(Struct, frozen=True):
    """A server as anybody may see it."""

    name: str
    type: ServerType
    host: str
    port: int


def seen(server: Server) -> Seen:
    """What may be told of a server: never how one signs in."""
    return Seen(server.name, server.type, server.host, server.port)


def checked(server: Server) -> Server:
    """The server, with a name that can be shown. ``BadRequest`` tells what is missing or odd.

    Nothing of the server's is repeated in it.
    """
    name = visible(server.name.strip())[:_LONGEST] or f"{server.host}:{server.port}"
    host = server.host.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host):
        raise BadRequest("The server's host is none")
    if not 0 < server.port < 65536:
        raise BadRequest("The server's port is none")
    if server.type in _BY_UUID and not _UUID.fullmatch(server.user):
        raise BadRequest(f"The {server.type} server's id is no UUID")
    if server.type in _BY_PASSWORD and not server.password:
        raise BadRequest(f"The {server.type} server has no password")
    if server.type == "ss" and not server.method:
        raise BadRequest("The ss server has no cipher")
    if server.ports and not _PORTS.fullmatch(server.ports):
        raise BadRequest("The ports between which the server hops cannot be read")
    if server.type == "wireguard" and not (server.password and server.tunnelled):
        raise BadRequest("The wireguard server has no private key, or no peer")
    return structs.replace(server, name=name, host=host)


def placed(server: Server, address: str) -> Server:
    """The server at this address; to it, and to what stands before it, it keeps its name."""
    tls, carriage = server.tls, server.carriage
    name = (tls and tls.name) or server.host
    if tls:
        tls = structs.replace(tls, name=name)
    if not carriage.host and carriage.kind in ("ws", "http", "httpupgrade", "xhttp"):
        carriage = structs.replace(carriage, host=name)
    return structs.replace(server, host=address, tls=tls, carriage=carriage)


def secrets(server: Server) -> tuple[str, ...]:
    """All of a server's that must never be told, the longest first."""
    own = [server.user, server.password, server.obfs_password, server.carriage.seed]
    own += [server.options, server.carriage.path.strip("/")]
    own += [server.tls.short_id, server.tls.public_key] if server.tls else []
    own += [server.tunnelled.shared_key] if server.tunnelled else []
    return tuple(sorted(filter(None, own), key=len, reverse=True))
