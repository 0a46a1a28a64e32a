"""Servers in Clash's YAML (``proxies:``), which ``storage.yaml.untrusted`` parses."""

from collections.abc import Callable

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

_TYPES = {
    "ss": "ss",
    "vmess": "vmess",
    "vless": "vless",
    "trojan": "trojan",
    "hysteria2": "hysteria2",
    "tuic": "tuic",
    "anytls": "anytls",
    "wireguard": "wireguard",
    "socks5": "socks5",
    "http": "http",
}
_ALWAYS_TLS = ("trojan", "hysteria2", "tuic", "anytls")
_PLUGINS = {"obfs": "obfs-local", "v2ray-plugin": "v2ray-plugin"}


def list_entries(document: object) -> list[Fields] | None:
    """Return the objects under ``proxies``; None if the document has no such list."""
    if not isinstance(document, dict) or not isinstance(document.get("proxies"), list):
        return None
    return get_objects(document, "proxies")


def parse_entry(fields: Fields) -> Server:
    """Parse an entry of ``proxies``. ``BadRequest`` says what is wrong without quoting it."""
    kind = _TYPES.get(get_text(fields, "type").lower())
    if kind is None:
        raise BadRequest("The server's type is not supported")
    plugin, options = _parse_plugin(fields)
    return validate_server(
        Server(
            name=get_text(fields, "name"),
            type=kind,  # type: ignore[arg-type]
            host=get_text(fields, "server"),
            port=get_number(fields, "port"),
            user=get_text(fields, "uuid", "username"),
            password=get_text(fields, "password", "private-key"),
            method=get_text(fields, "cipher", "encryption") or _get_default_method(kind),
            alter=get_number(fields, "alterId"),
            flow=get_text(fields, "flow"),
            tls=_parse_tls(fields, kind),
            transport=_parse_transport(fields),
            plugin=plugin,
            options=options,
            ports=get_text(fields, "ports").replace(" ", "").replace("/", ","),
            obfs=get_text(fields, "obfs"),
            obfs_password=get_text(fields, "obfs-password"),
            congestion=get_text(fields, "congestion-controller"),
            relay=get_text(fields, "udp-relay-mode"),
            tunnel=_parse_tunnel(fields) if kind == "wireguard" else None,
        )
    )


def _get_default_method(kind: str) -> str:
    return {"vmess": "auto", "vless": "none"}.get(kind, "")


def _parse_tls(fields: Fields, kind: str) -> Tls | None:
    reality = get_object(fields, "reality-opts")
    if not (kind in _ALWAYS_TLS or get_flag(fields, "tls") or reality):
        return None
    return Tls(
        name=get_text(fields, "sni", "servername"),
        # A fingerprint, which is not supported here, restricts the accepted certificates.
        insecure=get_flag(fields, "skip-cert-verify") and not get_text(fields, "fingerprint"),
        nameless=get_flag(fields, "disable-sni"),
        alpn=get_texts(fields, "alpn"),
        fingerprint=get_text(fields, "client-fingerprint"),
        public_key=get_text(reality, "public-key"),
        short_id=get_text(reality, "short-id"),
    )


def _parse_transport(fields: Fields) -> StreamTransport:
    read: dict[str, Callable[[], dict[str, str]]] = {
        "ws": lambda: _parse_transport_options(get_object(fields, "ws-opts")),
        "h2": lambda: _parse_transport_options(get_object(fields, "h2-opts")),
        "http": lambda: _parse_transport_options(get_object(fields, "http-opts")),
        "httpupgrade": lambda: _parse_transport_options(
            get_object(fields, "ws-opts", "http-upgrade-opts")
        ),
        "xhttp": lambda: _parse_transport_options(get_object(fields, "xhttp-opts")),
        "grpc": lambda: {
            "serviceName": get_text(get_object(fields, "grpc-opts"), "grpc-service-name")
        },
    }
    kind = get_text(fields, "network").lower()
    if kind == "ws" and get_flag(get_object(fields, "ws-opts"), "v2ray-http-upgrade"):
        kind = "httpupgrade"
    return parse_transport(kind, read.get(kind, dict)())


def _parse_transport_options(options: Fields) -> dict[str, str]:
    headers = get_object(options, "headers")
    host = get_texts(options, "host") or get_texts(headers, "Host", "host")
    path = get_texts(options, "path")
    return {
        "path": path[0] if path else "",
        "host": ",".join(host),
        "mode": get_text(options, "mode"),
    }


def _parse_plugin(fields: Fields) -> tuple[str, str]:
    """Return the plugin of ss with its options, as SIP003 writes them."""
    name = get_text(fields, "plugin")
    if not name:
        return "", ""
    options = get_object(fields, "plugin-opts")
    mode, host, path = (
        get_text(options, "mode"),
        get_text(options, "host"),
        get_text(options, "path"),
    )
    if name == "obfs":
        parts = [f"obfs={mode or 'http'}", f"obfs-host={host}" if host else ""]
    else:
        parts = [
            "tls" if get_flag(options, "tls") else "",
            f"host={host}" if host else "",
            f"path={path}" if path else "",
        ]
    return _PLUGINS.get(name, name), ";".join(filter(None, parts))


def _parse_tunnel(fields: Fields) -> WireGuardTunnel:
    peers = get_objects(fields, "peers")
    peer = peers[0] if peers else fields
    return WireGuardTunnel(
        addresses=get_texts(fields, "ip") + get_texts(fields, "ipv6"),
        public_key=get_text(peer, "public-key"),
        shared_key=get_text(peer, "pre-shared-key", "preshared-key"),
        reserved=get_bytes(peer, "reserved") or get_bytes(fields, "reserved"),
        mtu=get_number(fields, "mtu"),
        keepalive=get_number(fields, "persistent-keepalive"),
        dns=get_texts(fields, "dns"),
    )
