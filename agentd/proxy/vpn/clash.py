"""Servers as Clash's settings (``proxies:``) tell of them; the YAML is read by ``disk.clash``."""

from collections.abc import Callable

from agentd.errors import BadRequest
from agentd.proxy.vpn.fields import Fields, each, flag, inner, number, small, text, texts
from agentd.proxy.vpn.links import transport
from agentd.proxy.vpn.server import Carriage, Server, Tls, Tunnelled, checked

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


def entries(document: object) -> list[Fields] | None:
    """The objects under ``proxies``; None when it is no such document."""
    if not isinstance(document, dict) or not isinstance(document.get("proxies"), list):
        return None
    return each(document, "proxies")


def server(fields: Fields) -> Server:
    """One entry of ``proxies``; ``BadRequest`` tells what is wrong, repeating nothing."""
    kind = _TYPES.get(text(fields, "type").lower())
    if kind is None:
        raise BadRequest("The server is of a type that is not known here")
    plugin, options = _plugin(fields)
    return checked(
        Server(
            name=text(fields, "name"),
            type=kind,  # type: ignore[arg-type]
            host=text(fields, "server"),
            port=number(fields, "port"),
            user=text(fields, "uuid", "username"),
            password=text(fields, "password", "private-key"),
            method=text(fields, "cipher", "encryption") or _usual_method(kind),
            alter=number(fields, "alterId"),
            flow=text(fields, "flow"),
            tls=_tls(fields, kind),
            carriage=_carriage(fields),
            plugin=plugin,
            options=options,
            ports=text(fields, "ports").replace(" ", "").replace("/", ","),
            obfs=text(fields, "obfs"),
            obfs_password=text(fields, "obfs-password"),
            congestion=text(fields, "congestion-controller"),
            relay=text(fields, "udp-relay-mode"),
            tunnelled=_tunnelled(fields) if kind == "wireguard" else None,
        )
    )


def _usual_method(kind: str) -> str:
    return {"vmess": "auto", "vless": "none"}.get(kind, "")


def _tls(fields: Fields, kind: str) -> Tls | None:
    reality = inner(fields, "reality-opts")
    if not (kind in _ALWAYS_TLS or flag(fields, "tls") or reality):
        return None
    return Tls(
        name=text(fields, "sni", "servername"),
        # With a fingerprint, which is not kept here, not just any certificate was meant.
        insecure=flag(fields, "skip-cert-verify") and not text(fields, "fingerprint"),
        nameless=flag(fields, "disable-sni"),
        alpn=texts(fields, "alpn"),
        fingerprint=text(fields, "client-fingerprint"),
        public_key=text(reality, "public-key"),
        short_id=text(reality, "short-id"),
    )


def _carriage(fields: Fields) -> Carriage:
    read: dict[str, Callable[[], dict[str, str]]] = {
        "ws": lambda: _dressed(inner(fields, "ws-opts")),
        "h2": lambda: _dressed(inner(fields, "h2-opts")),
        "http": lambda: _dressed(inner(fields, "http-opts")),
        "httpupgrade": lambda: _dressed(inner(fields, "ws-opts", "http-upgrade-opts")),
        "xhttp": lambda: _dressed(inner(fields, "xhttp-opts")),
        "grpc": lambda: {"serviceName": text(inner(fields, "grpc-opts"), "grpc-service-name")},
    }
    kind = text(fields, "network").lower()
    if kind == "ws" and flag(inner(fields, "ws-opts"), "v2ray-http-upgrade"):
        kind = "httpupgrade"
    return transport(kind, read.get(kind, dict)())


def _dressed(options: Fields) -> dict[str, str]:
    headers = inner(options, "headers")
    host = texts(options, "host") or texts(headers, "Host", "host")
    path = texts(options, "path")
    return {
        "path": path[0] if path else "",
        "host": ",".join(host),
        "mode": text(options, "mode"),
    }


def _plugin(fields: Fields) -> tuple[str, str]:
    """The plugin of ss with its options, as SIP003 writes them."""
    name = text(fields, "plugin")
    if not name:
        return "", ""
    options = inner(fields, "plugin-opts")
    mode, host, path = text(options, "mode"), text(options, "host"), text(options, "path")
    if name == "obfs":
        parts = [f"obfs={mode or 'http'}", f"obfs-host={host}" if host else ""]
    else:
        parts = [
            "tls" if flag(options, "tls") else "",
            f"host={host}" if host else "",
            f"path={path}" if path else "",
        ]
    return _PLUGINS.get(name, name), ";".join(filter(None, parts))


def _tunnelled(fields: Fields) -> Tunnelled:
    peers = each(fields, "peers")
    peer = peers[0] if peers else fields
    return Tunnelled(
        addresses=texts(fields, "ip") + texts(fields, "ipv6"),
        public_key=text(peer, "public-key"),
        shared_key=text(peer, "pre-shared-key", "preshared-key"),
        reserved=small(peer, "reserved") or small(fields, "reserved"),
        mtu=number(fields, "mtu"),
        keepalive=number(fields, "persistent-keepalive"),
        dns=texts(fields, "dns"),
    )
