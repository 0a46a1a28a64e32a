"""Servers in JSON documents of sing-box, Xray and SIP008."""

from collections.abc import Callable, Iterator

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.fields import (
    Fields,
    get_bytes,
    get_flag,
    get_number,
    get_object,
    get_objects,
    get_text,
    get_texts,
)
from agentd.gateway.vpn.links import parse_transport
from agentd.gateway.vpn.server import Server, StreamTransport, Tls, WireGuardTunnel, validate_server

ServerReader = Callable[[], Server]
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


def find_readers(document: object) -> list[ServerReader] | None:
    """Return a reader for each server in the document; None if its format is unknown."""
    if isinstance(document, list):
        return [reader for one in document for reader in find_readers(one) or []]
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("servers"), list) and "outbounds" not in document:
        return [_defer(_parse_sip008, one) for one in get_objects(document, "servers")]
    if isinstance(document.get("outbounds"), list) or isinstance(document.get("endpoints"), list):
        return list(_iter_outbounds(document))
    return [_defer(_parse_sip008, document)] if "server_port" in document else None


def _defer(read: Callable[[Fields], Server], fields: Fields) -> ServerReader:
    return lambda: validate_server(read(fields))


def _iter_outbounds(document: Fields) -> Iterator[ServerReader]:
    remarks = get_text(document, "remarks")
    for one in get_objects(document, "outbounds") + get_objects(document, "endpoints"):
        if "protocol" in one and get_text(one, "protocol").lower() not in _NO_SERVERS:
            tag = remarks or get_text(one, "tag")
            yield _defer(_parse_xray, {**one, "tag": tag})
        elif "type" in one and get_text(one, "type").lower() not in _NO_SERVERS:
            yield _defer(_parse_singbox, one)


def _parse_sip008(fields: Fields) -> Server:
    return Server(
        name=get_text(fields, "remarks"),
        type="ss",
        host=get_text(fields, "server"),
        port=get_number(fields, "server_port"),
        password=get_text(fields, "password"),
        method=get_text(fields, "method").lower(),
        plugin=get_text(fields, "plugin"),
        options=get_text(fields, "plugin_opts"),
    )


def _parse_singbox(fields: Fields) -> Server:
    kind = _SINGBOX.get(get_text(fields, "type").lower())
    if kind is None:
        raise BadRequest("The server's type is not supported")
    peers = get_objects(fields, "peers")
    place = peers[0] if kind == "wireguard" and peers else fields
    obfs = get_object(fields, "obfs")
    return Server(
        name=get_text(fields, "tag"),
        type=kind,  # type: ignore[arg-type]
        host=get_text(place, "server", "address"),
        port=get_number(place, "server_port", "port"),
        user=get_text(fields, "uuid", "username"),
        password=get_text(fields, "password", "private_key"),
        method=get_text(fields, "method", "security") or ("none" if kind == "vless" else ""),
        alter=get_number(fields, "alter_id"),
        flow=get_text(fields, "flow"),
        tls=_parse_singbox_tls(get_object(fields, "tls")),
        transport=_parse_singbox_transport(get_object(fields, "transport")),
        plugin=get_text(fields, "plugin"),
        options=get_text(fields, "plugin_opts"),
        ports=",".join(get_texts(fields, "server_ports")).replace(":", "-"),
        obfs=get_text(obfs, "type"),
        obfs_password=get_text(obfs, "password"),
        congestion=get_text(fields, "congestion_control"),
        relay=get_text(fields, "udp_relay_mode"),
        tunnel=_parse_singbox_tunnel(fields, place) if kind == "wireguard" else None,
    )


def _parse_singbox_tls(fields: Fields) -> Tls | None:
    if not get_flag(fields, "enabled"):
        return None
    reality = get_object(fields, "reality")
    return Tls(
        name=get_text(fields, "server_name"),
        insecure=get_flag(fields, "insecure"),
        nameless=get_flag(fields, "disable_sni"),
        alpn=get_texts(fields, "alpn"),
        fingerprint=get_text(get_object(fields, "utls"), "fingerprint"),
        public_key=get_text(reality, "public_key"),
        short_id=get_text(reality, "short_id"),
    )


def _parse_singbox_transport(fields: Fields) -> StreamTransport:
    host = get_texts(fields, "host") or get_texts(get_object(fields, "headers"), "Host", "host")
    options = {
        "path": get_text(fields, "path"),
        "host": ",".join(host),
        "serviceName": get_text(fields, "service_name"),
    }
    return parse_transport(get_text(fields, "type"), options)


def _parse_singbox_tunnel(fields: Fields, peer: Fields) -> WireGuardTunnel:
    return WireGuardTunnel(
        addresses=get_texts(fields, "address", "local_address"),
        public_key=get_text(peer, "public_key", "peer_public_key"),
        shared_key=get_text(peer, "pre_shared_key"),
        reserved=get_bytes(peer, "reserved"),
        mtu=get_number(fields, "mtu"),
        keepalive=get_number(peer, "persistent_keepalive_interval"),
    )


def _parse_xray(fields: Fields) -> Server:
    kind = _XRAY.get(get_text(fields, "protocol").lower())
    if kind is None:
        raise BadRequest("The server's type is not supported")
    settings = get_object(fields, "settings")
    place = next(iter(get_objects(settings, "vnext") + get_objects(settings, "servers")), settings)
    user = next(iter(get_objects(place, "users")), place)
    return Server(
        name=get_text(fields, "tag"),
        type=kind,  # type: ignore[arg-type]
        host=get_text(place, "address"),
        port=get_number(place, "port"),
        user=get_text(user, "id", "user"),
        password=get_text(user, "password", "pass"),
        method=get_text(user, "method", "security", "encryption"),
        alter=get_number(user, "alterId"),
        flow=get_text(user, "flow"),
        tls=_parse_xray_tls(get_object(fields, "streamSettings")),
        transport=_parse_xray_transport(get_object(fields, "streamSettings")),
    )


def _parse_xray_tls(stream: Fields) -> Tls | None:
    security = get_text(stream, "security").lower()
    if security in ("", "none"):
        return None
    if security not in ("tls", "reality"):
        raise BadRequest("The server's security is not supported")
    fields = get_object(stream, f"{security}Settings")
    return Tls(
        name=get_text(fields, "serverName"),
        insecure=get_flag(fields, "allowInsecure"),
        alpn=get_texts(fields, "alpn"),
        fingerprint=get_text(fields, "fingerprint"),
        public_key=get_text(fields, "publicKey", "password"),
        short_id=get_text(fields, "shortId"),
        spider=get_text(fields, "spiderX"),
    )


def _parse_xray_transport(stream: Fields) -> StreamTransport:
    kind = get_text(stream, "network").lower()
    name = {"raw": "tcp", "h2": "http", "mkcp": "kcp", "splithttp": "xhttp"}.get(kind, kind)
    fields = get_object(stream, f"{kind}Settings", f"{name}Settings")
    headers = get_object(fields, "headers")
    host = get_texts(fields, "host") or get_texts(headers, "Host", "host")
    options = {
        "path": get_text(fields, "path"),
        "host": ",".join(host),
        "serviceName": get_text(fields, "serviceName"),
        "mode": get_text(fields, "mode"),
        "headerType": get_text(get_object(fields, "header"), "type"),
        "seed": get_text(fields, "seed"),
    }
    return parse_transport(kind, options)
