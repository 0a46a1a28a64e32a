"""A server as a link tells of it: ``ss://…``, ``vless://…`` and their like."""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct

from agentd.errors import BadRequest
from agentd.proxy.vpn.fields import Fields, flag, number, plain, small, text, texts
from agentd.proxy.vpn.server import CARRIAGES, Carriage, Server, Tls, Tunnelled, checked

LINK_LIMIT = 16 * 1024
"""Letters of a link."""

_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9, -]*))?")
_OPTIONS = 100
_ALIASES = {"h2": "http", "splithttp": "xhttp", "mkcp": "kcp", "raw": "tcp", "": "tcp"}


class Link(Struct, frozen=True):
    """A link, taken apart but not understood."""

    user: str
    """All before the ``@``, still escaped."""
    host: str
    ports: str
    options: dict[str, str]
    name: str

    def __repr__(self) -> str:
        """Nothing: there are secrets in all of it."""
        return "Link()"

    def port(self, otherwise: int = 0) -> int:
        """The port, or the first of several."""
        first = re.split("[,-]", self.ports)[0].strip()
        return int(first) if first and len(first) < 6 else otherwise if not first else 0

    def login(self) -> tuple[str, str]:
        """User and password."""
        user, _, password = self.user.partition(":")
        return unquote(user), unquote(password)


def server(link: str) -> Server:
    """The server that a link tells of; ``BadRequest`` tells what is wrong, repeating nothing."""
    link = link.strip()
    if len(link) > LINK_LIMIT:
        raise BadRequest("The link is absurdly long")
    scheme, separator, rest = link.partition("://")
    read = _SCHEMES.get(scheme.lower()) if separator else None
    if read is None:
        raise BadRequest("The link begins in no way that is known here")
    return checked(read(rest))


def is_link(line: str) -> bool:
    """Whether it begins as a link to a server does, known here or not."""
    scheme, separator, _ = line.partition("://")
    return bool(separator) and scheme.lower() in _SCHEMES.keys() | {"ssr", "hysteria", "mieru"}


def transport(kind: str, fields: Fields) -> Carriage:
    """The carriage of this kind, by the options of a link."""
    kind = _ALIASES.get(kind.lower(), kind.lower())
    if kind not in CARRIAGES:
        raise BadRequest("The server is reached in a way that is not known here")
    return Carriage(
        kind=kind,  # type: ignore[arg-type]
        path=text(fields, "path"),
        host=text(fields, "host"),
        service=text(fields, "serviceName"),
        mode=text(fields, "mode"),
        header=text(fields, "headerType"),
        seed=text(fields, "seed"),
    )


def tls(fields: Fields, security: str) -> Tls | None:
    """What the options of a link say about TLS; ``security`` is ``tls``, ``reality`` or none."""
    if security not in ("", "none", "tls", "reality"):
        raise BadRequest("The server is secured in a way that is not known here")
    if security in ("", "none"):
        return None
    trusting = flag(fields, "allowInsecure", "insecure", "allow_insecure")
    found = Tls(
        name=text(fields, "sni", "peer"),
        # With a pin, which is not kept here, not just any certificate was meant.
        insecure=trusting and not text(fields, "pinSHA256"),
        nameless=flag(fields, "disable_sni"),
        alpn=texts(fields, "alpn"),
        fingerprint=text(fields, "fp"),
        public_key=text(fields, "pbk"),
        short_id=text(fields, "sid"),
        spider=text(fields, "spx"),
    )
    if security == "reality" and not found.public_key:
        raise BadRequest("The server is secured by REALITY, but its public key is missing")
    return found


def _apart(rest: str) -> Link:
    """By hand: passwords have slashes in them, and ports may be several."""
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
    return Link(user, host, found[2] or "", dict(pairs), unquote(name))


def _ss(rest: str) -> Server:
    head, mark, fragment = rest.partition("#")
    if "@" not in head:  # the old form: all of it in base64
        inside = plain(unquote(head.partition("?")[0].rstrip("/")))
        if inside is None:
            raise BadRequest("The ss link holds no server")
        method, _, rest_of = inside.partition(":")
        password, _, place = rest_of.rpartition("@")
        link = _apart(f"@{place}{mark}{fragment}")
    else:
        link = _apart(rest)
        method, password = link.login()
        if not password:  # not written out (2022), but in base64 (SIP002)
            method, _, password = (plain(unquote(link.user)) or "").partition(":")
    plugin, _, options = text(link.options, "plugin").partition(";")
    return Server(
        name=link.name,
        type="ss",
        host=link.host,
        port=link.port(),
        method=method.lower(),
        password=password,
        plugin="obfs-local" if plugin == "simple-obfs" else plugin,
        options=options,
    )


def _vmess(rest: str) -> Server:
    inside = plain(unquote(rest.partition("#")[0]))
    if inside is None:
        return _vless(rest, "vmess")
    try:
        fields = msgspec.json.decode(inside)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest("The vmess link holds no JSON") from error
    if not isinstance(fields, dict):
        raise BadRequest("The vmess link holds no JSON object")
    kind = text(fields, "net")
    carriage = transport(kind, {**fields, "headerType": fields.get("type")})
    service = carriage.path if carriage.kind == "grpc" else ""
    return Server(
        name=text(fields, "ps"),
        type="vmess",
        host=text(fields, "add"),
        port=number(fields, "port"),
        user=text(fields, "id"),
        method=text(fields, "scy", "security") or "auto",
        alter=number(fields, "aid"),
        tls=tls(fields, text(fields, "tls").lower()),
        carriage=msgspec.structs.replace(carriage, service=service),
    )


def _vless(rest: str, kind: str = "vless") -> Server:
    link = _apart(rest)
    options = link.options
    return Server(
        name=link.name,
        type="vmess" if kind == "vmess" else "vless",
        host=link.host,
        port=link.port(443),
        user=unquote(link.user),
        method=text(options, "encryption") or ("auto" if kind == "vmess" else "none"),
        flow=text(options, "flow"),
        tls=tls(options, text(options, "security").lower()),
        carriage=transport(text(options, "type"), options),
    )


def _trojan(rest: str) -> Server:
    link = _apart(rest)
    options = link.options
    return Server(
        name=link.name,
        type="trojan",
        host=link.host,
        port=link.port(443),
        password=unquote(link.user),
        flow=text(options, "flow"),
        tls=tls(options, text(options, "security").lower() or "tls"),
        carriage=transport(text(options, "type"), options),
    )


def _hysteria2(rest: str) -> Server:
    link = _apart(rest)
    options = link.options
    ports = link.ports.replace(" ", "")
    return Server(
        name=link.name,
        type="hysteria2",
        host=link.host,
        port=link.port(443),
        password=unquote(link.user),
        ports=text(options, "mport") or (ports if not ports.isdecimal() else ""),
        obfs=text(options, "obfs"),
        obfs_password=text(options, "obfs-password"),
        tls=tls(options, "tls"),
    )


def _tuic(rest: str) -> Server:
    link = _apart(rest)
    options = link.options
    user, password = link.login()
    return Server(
        name=link.name,
        type="tuic",
        host=link.host,
        port=link.port(443),
        user=user,
        password=password,
        congestion=text(options, "congestion_control"),
        relay=text(options, "udp_relay_mode"),
        tls=tls(options, "tls"),
    )


def _anytls(rest: str) -> Server:
    link = _apart(rest)
    return Server(
        name=link.name,
        type="anytls",
        host=link.host,
        port=link.port(443),
        password=unquote(link.user),
        tls=tls(link.options, "tls"),
    )


def _wireguard(rest: str) -> Server:
    link = _apart(rest)
    options = link.options
    return Server(
        name=link.name,
        type="wireguard",
        host=link.host,
        port=link.port(51820),
        password=unquote(link.user),
        tunnelled=Tunnelled(
            addresses=texts(options, "address", "ip"),
            public_key=text(options, "publickey", "publicKey", "public-key"),
            shared_key=text(options, "presharedkey", "presharedKey", "pre-shared-key"),
            reserved=small(options, "reserved"),
            mtu=number(options, "mtu"),
            keepalive=number(options, "keepalive"),
        ),
    )


def _proxy(rest: str, *, secure: bool = False, http: bool = False) -> Server:
    link = _apart(rest)
    user, password = link.login()
    if user and not password and (inside := plain(unquote(link.user))) and ":" in inside:
        user, _, password = inside.partition(":")
    return Server(
        name=link.name,
        type="http" if http else "socks5",
        host=link.host,
        port=link.port((443 if secure else 80) if http else 1080),
        user=user,
        password=password,
        tls=tls(link.options, "tls") if secure else None,
    )


_SCHEMES: dict[str, Callable[[str], Server]] = {
    "ss": _ss,
    "vmess": _vmess,
    "vless": _vless,
    "trojan": _trojan,
    "hysteria2": _hysteria2,
    "hy2": _hysteria2,
    "tuic": _tuic,
    "anytls": _anytls,
    "wireguard": _wireguard,
    "wg": _wireguard,
    "socks": _proxy,
    "socks5": _proxy,
    "socks5h": _proxy,
    "http": lambda rest: _proxy(rest, http=True),
    "https": lambda rest: _proxy(rest, http=True, secure=True),
}
