"""Servers as links: ``ss://…``, ``vless://…`` and similar ones."""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.fields import (
    Fields,
    decode_base64,
    get_bytes,
    get_flag,
    get_number,
    get_text,
    get_texts,
)
from agentd.gateway.vpn.server import (
    TRANSPORTS,
    Server,
    StreamTransport,
    Tls,
    WireGuardTunnel,
    validate_server,
)

LINK_LIMIT = 16 * 1024
"""Maximum length of a link."""

_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9, -]*))?")
_OPTIONS = 100
_ALIASES = {"h2": "http", "splithttp": "xhttp", "mkcp": "kcp", "raw": "tcp", "": "tcp"}


class VpnLink(Struct, frozen=True):
    """The parts of a link."""

    user: str
    """Everything before the ``@``, still escaped."""
    host: str
    ports: str
    options: dict[str, str]
    name: str

    def __repr__(self) -> str:
        """Return a representation without the parts, all of which may be secret."""
        return "VpnLink()"

    def get_port(self, default: int = 0) -> int:
        """Return the port, or the first of several; 0 for what is none."""
        first = re.split("[,-]", self.ports)[0].strip()
        if not first:
            return default
        return int(first) if first.isascii() and first.isdecimal() and len(first) < 6 else 0

    def split_login(self) -> tuple[str, str]:
        """Return user and password."""
        user, _, password = self.user.partition(":")
        return unquote(user), unquote(password)


def parse_link(link: str) -> Server:
    """Parse a link to a server. ``BadRequest`` says what is wrong without quoting it."""
    link = link.strip()
    if len(link) > LINK_LIMIT:
        raise BadRequest("The link is too long")
    scheme, separator, rest = link.partition("://")
    read = _SCHEMES.get(scheme.lower()) if separator else None
    if read is None:
        raise BadRequest("The link's scheme is not supported")
    return validate_server(read(rest))


def is_link(line: str) -> bool:
    """Return whether a line begins like a link to a server, supported or not."""
    scheme, separator, _ = line.partition("://")
    return bool(separator) and scheme.lower() in _SCHEMES.keys() | {"ssr", "hysteria", "mieru"}


def parse_transport(kind: str, fields: Fields) -> StreamTransport:
    """Return the transport of this kind, by the options of a link."""
    kind = _ALIASES.get(kind.lower(), kind.lower())
    if kind not in TRANSPORTS:
        raise BadRequest("The server's transport is not supported")
    return StreamTransport(
        kind=kind,  # type: ignore[arg-type]
        path=get_text(fields, "path"),
        host=get_text(fields, "host"),
        service=get_text(fields, "serviceName"),
        mode=get_text(fields, "mode"),
        header=get_text(fields, "headerType"),
        seed=get_text(fields, "seed"),
    )


def parse_tls(fields: Fields, security: str) -> Tls | None:
    """Return the TLS settings of a link's options.

    ``security`` is ``tls``, ``reality``, ``none`` or empty.
    """
    if security not in ("", "none", "tls", "reality"):
        raise BadRequest("The server's security is not supported")
    if security in ("", "none"):
        return None
    trusting = get_flag(fields, "allowInsecure", "insecure", "allow_insecure")
    found = Tls(
        name=get_text(fields, "sni", "peer"),
        # A pin, which is not supported here, restricts the accepted certificates.
        insecure=trusting and not get_text(fields, "pinSHA256"),
        nameless=get_flag(fields, "disable_sni"),
        alpn=get_texts(fields, "alpn"),
        fingerprint=get_text(fields, "fp"),
        public_key=get_text(fields, "pbk"),
        short_id=get_text(fields, "sid"),
        spider=get_text(fields, "spx"),
    )
    if security == "reality" and not found.public_key:
        raise BadRequest("The server uses REALITY, but its public key is missing")
    return found


def _split_link(rest: str) -> VpnLink:
    """Split a link; ``urlsplit`` cannot handle slashes in passwords and several ports."""
    rest, _, name = rest.partition("#")
    rest, _, query = rest.partition("?")
    user, _, place = rest.rpartition("@")
    found = _PLACE.fullmatch(place.partition("/")[0])
    if not found:
        raise BadRequest("The link's host and port cannot be read")
    try:
        pairs = parse_qsl(query.replace("+", "%2B"), True, max_num_fields=_OPTIONS)
        host = unquote(found[1])
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError as error:
        raise BadRequest("The link's host or options cannot be read") from error
    return VpnLink(user, host, found[2] or "", dict(pairs), unquote(name))


def _parse_ss(rest: str) -> Server:
    head, mark, fragment = rest.partition("#")
    if "@" not in head:  # the old form: all of it in base64
        inside = decode_base64(unquote(head.partition("?")[0].rstrip("/")))
        if inside is None:
            raise BadRequest("The ss link contains no server")
        method, _, rest_of = inside.partition(":")
        password, _, place = rest_of.rpartition("@")
        link = _split_link(f"@{place}{mark}{fragment}")
    else:
        link = _split_link(rest)
        method, password = link.split_login()
        if not password:  # not written out (2022), but in base64 (SIP002)
            method, _, password = (decode_base64(unquote(link.user)) or "").partition(":")
    plugin, _, options = get_text(link.options, "plugin").partition(";")
    return Server(
        name=link.name,
        type="ss",
        host=link.host,
        port=link.get_port(),
        method=method.lower(),
        password=password,
        plugin="obfs-local" if plugin == "simple-obfs" else plugin,
        options=options,
    )


def _parse_vmess(rest: str) -> Server:
    inside = decode_base64(unquote(rest.partition("#")[0]))
    if inside is None:
        return _parse_vless(rest, "vmess")
    try:
        fields = msgspec.json.decode(inside)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest("The vmess link contains no JSON") from error
    if not isinstance(fields, dict):
        raise BadRequest("The vmess link contains no JSON object")
    kind = get_text(fields, "net")
    transport = parse_transport(kind, {**fields, "headerType": fields.get("type")})
    service = transport.path if transport.kind == "grpc" else ""
    return Server(
        name=get_text(fields, "ps"),
        type="vmess",
        host=get_text(fields, "add"),
        port=get_number(fields, "port"),
        user=get_text(fields, "id"),
        method=get_text(fields, "scy", "security") or "auto",
        alter=get_number(fields, "aid"),
        tls=parse_tls(fields, get_text(fields, "tls").lower()),
        transport=msgspec.structs.replace(transport, service=service),
    )


def _parse_vless(rest: str, kind: str = "vless") -> Server:
    link = _split_link(rest)
    options = link.options
    return Server(
        name=link.name,
        type="vmess" if kind == "vmess" else "vless",
        host=link.host,
        port=link.get_port(443),
        user=unquote(link.user),
        method=get_text(options, "encryption") or ("auto" if kind == "vmess" else "none"),
        flow=get_text(options, "flow"),
        tls=parse_tls(options, get_text(options, "security").lower()),
        transport=parse_transport(get_text(options, "type"), options),
    )


def _parse_trojan(rest: str) -> Server:
    link = _split_link(rest)
    options = link.options
    return Server(
        name=link.name,
        type="trojan",
        host=link.host,
        port=link.get_port(443),
        password=unquote(link.user),
        flow=get_text(options, "flow"),
        tls=parse_tls(options, get_text(options, "security").lower() or "tls"),
        transport=parse_transport(get_text(options, "type"), options),
    )


def _parse_hysteria2(rest: str) -> Server:
    link = _split_link(rest)
    options = link.options
    ports = link.ports.replace(" ", "")
    return Server(
        name=link.name,
        type="hysteria2",
        host=link.host,
        port=link.get_port(443),
        password=unquote(link.user),
        ports=get_text(options, "mport") or (ports if not ports.isdecimal() else ""),
        obfs=get_text(options, "obfs"),
        obfs_password=get_text(options, "obfs-password"),
        tls=parse_tls(options, "tls"),
    )


def _parse_tuic(rest: str) -> Server:
    link = _split_link(rest)
    options = link.options
    user, password = link.split_login()
    return Server(
        name=link.name,
        type="tuic",
        host=link.host,
        port=link.get_port(443),
        user=user,
        password=password,
        congestion=get_text(options, "congestion_control"),
        relay=get_text(options, "udp_relay_mode"),
        tls=parse_tls(options, "tls"),
    )


def _parse_anytls(rest: str) -> Server:
    link = _split_link(rest)
    return Server(
        name=link.name,
        type="anytls",
        host=link.host,
        port=link.get_port(443),
        password=unquote(link.user),
        tls=parse_tls(link.options, "tls"),
    )


def _parse_wireguard(rest: str) -> Server:
    link = _split_link(rest)
    options = link.options
    return Server(
        name=link.name,
        type="wireguard",
        host=link.host,
        port=link.get_port(51820),
        password=unquote(link.user),
        tunnel=WireGuardTunnel(
            addresses=get_texts(options, "address", "ip"),
            public_key=get_text(options, "publickey", "publicKey", "public-key"),
            shared_key=get_text(options, "presharedkey", "presharedKey", "pre-shared-key"),
            reserved=get_bytes(options, "reserved"),
            mtu=get_number(options, "mtu"),
            keepalive=get_number(options, "keepalive"),
        ),
    )


def _parse_proxy(rest: str, *, secure: bool = False, http: bool = False) -> Server:
    link = _split_link(rest)
    user, password = link.split_login()
    if user and not password and (inside := decode_base64(unquote(link.user))) and ":" in inside:
        user, _, password = inside.partition(":")
    return Server(
        name=link.name,
        type="http" if http else "socks5",
        host=link.host,
        port=link.get_port((443 if secure else 80) if http else 1080),
        user=user,
        password=password,
        tls=parse_tls(link.options, "tls") if secure else None,
    )


_SCHEMES: dict[str, Callable[[str], Server]] = {
    "ss": _parse_ss,
    "vmess": _parse_vmess,
    "vless": _parse_vless,
    "trojan": _parse_trojan,
    "hysteria2": _parse_hysteria2,
    "hy2": _parse_hysteria2,
    "tuic": _parse_tuic,
    "anytls": _parse_anytls,
    "wireguard": _parse_wireguard,
    "wg": _parse_wireguard,
    "socks": _parse_proxy,
    "socks5": _parse_proxy,
    "socks5h": _parse_proxy,
    "http": lambda rest: _parse_proxy(rest, http=True),
    "https": lambda rest: _parse_proxy(rest, http=True, secure=True),
}
