"""Servers as JSON documents tell of them: sing-box's, Xray's, and SIP008's."""

from collections.abc import Callable, Iterator

from agentd.errors import BadRequest
from agentd.proxy.vpn.fields import Fields, each, flag, inner, number, small, text, texts
from agentd.proxy.vpn.links import transport
from agentd.proxy.vpn.server import Carriage, Server, Tls, Tunnelled, checked

Reading = Callable[[], Server]
"""Reads one entry; raises ``BadRequest``."""

_SINGBOX = {
    "shadowsocks": "ss",
    "vmess": "vmess",
    "vless": "vless",
    "trojan": "trojan",
    "hysteria2": "hysteria2",
    "tuic": "tuic",
    "anytls": "anytls",
    "wireguard": "wireguard",
    "socks": "socks5",
    "http": "http",
}
_XRAY = {
    "shadowsocks": "ss",
    "vmess": "vmess",
    "vless": "vless",
    "trojan": "trojan",
    "socks": "socks5",
    "http": "http",
}
_NO_SERVERS = {
    *("direct", "block", "dns", "selector", "urltest", "tailscale"),
    *("freedom", "blackhole", "loopback"),
}


def readings(document: object) -> list[Reading] | None:
    """One reading for each server in the document; None when it is of no known kind."""
    if isinstance(document, list):
        return [reading for one in document for reading in readings(one) or []]
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("servers"), list) and "outbounds" not in document:
        return [_later(_sip008, one) for one in each(document, "servers")]
    if isinstance(document.get("outbounds"), list) or isinstance(document.get("endpoints"), list):
        return list(_outbounds(document))
    return [_later(_sip008, document)] if "server_port" in document else None


def _later(read: Callable[[Fields], Server], fields: Fields) -> Reading:
    return lambda: checked(read(fields))


def _outbounds(document: Fields) -> Iterator[Reading]:
    remarks = text(document, "remarks")
    for one in each(document, "outbounds") + each(document, "endpoints"):
        if "protocol" in one and text(one, "protocol").lower() not in _NO_SERVERS:
            tag = remarks or text(one, "tag")
            yield _later(_xray, {**one, "tag": tag})
        elif "type" in one and text(one, "type").lower() not in _NO_SERVERS:
            yield _later(_singbox, one)


def _sip008(fields: Fields) -> Server:
    return Server(
        name=text(fields, "remarks"),
        type="ss",
        host=text(fields, "server"),
        port=number(fields, "server_port"),
        password=text(fields, "password"),
        method=text(fields, "method").lower(),
        plugin=text(fields, "plugin"),
        options=text(fields, "plugin_opts"),
    )


def _singbox(fields: Fields) -> Server:
    kind = _SINGBOX.get(text(fields, "type").lower())
    if kind is None:
        raise BadRequest("The server is of a type that is not known here")
    peers = each(fields, "peers")
    place = peers[0] if kind == "wireguard" and peers else fields
    obfs = inner(fields, "obfs")
    return Server(
        name=text(fields, "tag"),
        type=kind,  # type: ignore[arg-type]
        host=text(place, "server", "address"),
        port=number(place, "server_port", "port"),
        user=text(fields, "uuid", "username"),
        password=text(fields, "password", "private_key"),
        method=text(fields, "method", "security") or ("none" if kind == "vless" else ""),
        alter=number(fields, "alter_id"),
        flow=text(fields, "flow"),
        tls=_singbox_tls(inner(fields, "tls")),
        carriage=_singbox_carriage(inner(fields, "transport")),
        plugin=text(fields, "plugin"),
        options=text(fields, "plugin_opts"),
        ports=",".join(texts(fields, "server_ports")).replace(":", "-"),
        obfs=text(obfs, "type"),
        obfs_password=text(obfs, "password"),
        congestion=text(fields, "congestion_control"),
        relay=text(fields, "udp_relay_mode"),
        tunnelled=_singbox_tunnelled(fields, place) if kind == "wireguard" else None,
    )


def _singbox_tls(fields: Fields) -> Tls | None:
    if not flag(fields, "enabled"):
        return None
    reality = inner(fields, "reality")
    return Tls(
        name=text(fields, "server_name"),
        insecure=flag(fields, "insecure"),
        nameless=flag(fields, "disable_sni"),
        alpn=texts(fields, "alpn"),
        fingerprint=text(inner(fields, "utls"), "fingerprint"),
        public_key=text(reality, "public_key"),
        short_id=text(reality, "short_id"),
    )


def _singbox_carriage(fields: Fields) -> Carriage:
    host = texts(fields, "host") or texts(inner(fields, "headers"), "Host", "host")
    options = {
        "path": text(fields, "path"),
        "host": ",".join(host),
        "serviceName": text(fields, "service_name"),
    }
    return transport(text(fields, "type"), options)


def _singbox_tunnelled(fields: Fields, peer: Fields) -> Tunnelled:
    return Tunnelled(
        addresses=texts(fields, "address", "local_address"),
        public_key=text(peer, "public_key", "peer_public_key"),
        shared_key=text(peer, "pre_shared_key"),
        reserved=small(peer, "reserved"),
        mtu=number(fields, "mtu"),
        keepalive=number(peer, "persistent_keepalive_interval"),
    )


def _xray(fields: Fields) -> Server:
    kind = _XRAY.get(text(fields, "protocol").lower())
    if kind is None:
        raise BadRequest("The server is of a type that is not known here")
    settings = inner(fields, "settings")
    place = next(iter(each(settings, "vnext") + each(settings, "servers")), settings)
    user = next(iter(each(place, "users")), place)
    return Server(
        name=text(fields, "tag"),
        type=kind,  # type: ignore[arg-type]
        host=text(place, "address"),
        port=number(place, "port"),
        user=text(user, "id", "user"),
        password=text(user, "password", "pass"),
        method=text(user, "method", "security", "encryption"),
        alter=number(user, "alterId"),
        flow=text(user, "flow"),
        tls=_xray_tls(inner(fields, "streamSettings")),
        carriage=_xray_carriage(inner(fields, "streamSettings")),
    )


def _xray_tls(stream: Fields) -> Tls | None:
    security = text(stream, "security").lower()
    if security in ("", "none"):
        return None
    if security not in ("tls", "reality"):
        raise BadRequest("The server is secured in a way that is not known here")
    fields = inner(stream, f"{security}Settings")
    return Tls(
        name=text(fields, "serverName"),
        insecure=flag(fields, "allowInsecure"),
        alpn=texts(fields, "alpn"),
        fingerprint=text(fields, "fingerprint"),
        public_key=text(fields, "publicKey", "password"),
        short_id=text(fields, "shortId"),
        spider=text(fields, "spiderX"),
    )


def _xray_carriage(stream: Fields) -> Carriage:
    kind = text(stream, "network").lower()
    name = {"raw": "tcp", "h2": "http", "mkcp": "kcp", "splithttp": "xhttp"}.get(kind, kind)
    fields = inner(stream, f"{kind}Settings", f"{name}Settings")
    headers = inner(fields, "headers")
    host = texts(fields, "host") or texts(headers, "Host", "host")
    options = {
        "path": text(fields, "path"),
        "host": ",".join(host),
        "serviceName": text(fields, "serviceName"),
        "mode": text(fields, "mode"),
        "headerType": text(inner(fields, "header"), "type"),
        "seed": text(fields, "seed"),
    }
    return transport(kind, options)
