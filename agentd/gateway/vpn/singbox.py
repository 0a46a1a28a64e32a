"""Settings of sing-box 1.12 and later: one inbound, one server, and no other outbound."""

from collections.abc import Callable
from typing import Any

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.local import LOOPBACK, LocalProxy
from agentd.gateway.vpn.server import Server, StreamTransport, Tls

ARGUMENTS = ("run", "-c", "stdin")

_PLUGINS = ("", "obfs-local", "v2ray-plugin")
_BROWSERS = (
    *("chrome", "firefox", "edge", "safari", "360", "qq", "ios", "android"),
    *("random", "randomized"),
)


def build_settings(server: Server, local: LocalProxy) -> dict[str, Any]:
    """Build the settings. ``BadRequest``: sing-box does not support the server.

    There is no outbound ``direct``: nothing is sent past a server that is down.
    """
    inbound = {
        "type": "socks",
        "tag": "in",
        "listen": LOOPBACK,
        "listen_port": local.port,
        "users": [{"username": local.user, "password": local.password}],
    }
    wireguard = server.type == "wireguard"
    out = _build_wireguard(server) if wireguard else _build_outbound(server)
    return {
        "log": {"level": "warn"},
        "dns": {"servers": [{"type": "local", "tag": "system"}]},
        "inbounds": [inbound],
        "endpoints" if wireguard else "outbounds": [out],
        "route": {
            "default_domain_resolver": "system",
            "rules": [
                {"inbound": ["in"], "action": "route", "outbound": "out"},
                {"network": ["tcp", "udp"], "action": "reject"},
            ],
        },
    }


def _build_outbound(server: Server) -> dict[str, Any]:
    common = {"tag": "out", "server": server.host, "server_port": server.port}
    if server.tls:
        common["tls"] = _build_tls(server)
    if server.transport.kind != "tcp":
        common["transport"] = _build_transport(server.transport)
    elif server.transport.header not in ("", "none"):
        raise BadRequest("sing-box does not support tcp headers")
    return _OWN[server.type](server) | common


def _build_ss(server: Server) -> dict[str, Any]:
    if server.plugin not in _PLUGINS:
        raise BadRequest("The server's plugin is not supported")
    own = {"type": "shadowsocks", "method": server.method, "password": server.password}
    if server.plugin:
        own |= {"plugin": server.plugin, "plugin_opts": server.options}
    return own


def _build_vmess(server: Server) -> dict[str, Any]:
    return {
        "type": "vmess",
        "uuid": server.user,
        "security": server.method or "auto",
        "alter_id": server.alter,
    }


def _build_vless(server: Server) -> dict[str, Any]:
    if server.method not in ("", "none"):
        raise BadRequest("sing-box does not support vless encryption")
    flow = {"flow": server.flow} if server.flow else {}
    return {"type": "vless", "uuid": server.user, **flow}


def _build_trojan(server: Server) -> dict[str, Any]:
    return {"type": "trojan", "password": server.password}


def _build_hysteria2(server: Server) -> dict[str, Any]:
    own: dict[str, Any] = {"type": "hysteria2", "password": server.password}
    if server.obfs:
        own["obfs"] = {"type": server.obfs, "password": server.obfs_password}
    if server.ports:
        spans = (one if "-" in one else f"{one}-{one}" for one in server.ports.split(","))
        own["server_ports"] = [span.replace("-", ":") for span in spans]
    return own


def _build_tuic(server: Server) -> dict[str, Any]:
    own = {"type": "tuic", "uuid": server.user, "password": server.password}
    if server.congestion:
        own["congestion_control"] = server.congestion
    if server.relay:
        own["udp_relay_mode"] = server.relay
    return own


def _build_anytls(server: Server) -> dict[str, Any]:
    return {"type": "anytls", "password": server.password}


def _build_proxy(server: Server) -> dict[str, Any]:
    kind = {"type": "http"} if server.type == "http" else {"type": "socks", "version": "5"}
    login = {"username": server.user, "password": server.password} if server.user else {}
    return kind | login


_OWN: dict[str, Callable[[Server], dict[str, Any]]] = {
    "ss": _build_ss,
    "vmess": _build_vmess,
    "vless": _build_vless,
    "trojan": _build_trojan,
    "hysteria2": _build_hysteria2,
    "tuic": _build_tuic,
    "anytls": _build_anytls,
    "socks5": _build_proxy,
    "http": _build_proxy,
}


def _build_wireguard(server: Server) -> dict[str, Any]:
    tunnel = server.tunnel
    assert tunnel
    peer: dict[str, Any] = {
        "address": server.host,
        "port": server.port,
        "public_key": tunnel.public_key,
        "allowed_ips": ["0.0.0.0/0", "::/0"],
    }
    if tunnel.shared_key:
        peer["pre_shared_key"] = tunnel.shared_key
    if tunnel.reserved:
        peer["reserved"] = list(tunnel.reserved)
    if tunnel.keepalive:
        peer["persistent_keepalive_interval"] = tunnel.keepalive
    return {
        "type": "wireguard",
        "tag": "out",
        "address": [add_prefix_length(address) for address in tunnel.addresses],
        "private_key": server.password,
        "mtu": tunnel.mtu or 1408,
        "peers": [peer],
    }


def add_prefix_length(address: str) -> str:
    """Return an address with its prefix length; by default the network is the address itself."""
    return address if "/" in address else f"{address}/{128 if ':' in address else 32}"


def _build_tls(server: Server) -> dict[str, Any]:
    tls = server.tls or Tls()
    fields: dict[str, Any] = {"enabled": True, "server_name": tls.name or server.host}
    if tls.insecure:
        fields["insecure"] = True
    if tls.nameless:
        fields["disable_sni"] = True
    if tls.alpn:
        fields["alpn"] = list(tls.alpn)
    if tls.fingerprint in _BROWSERS or tls.public_key:
        browser = tls.fingerprint if tls.fingerprint in _BROWSERS else "chrome"
        fields["utls"] = {"enabled": True, "fingerprint": browser}
    if tls.public_key:
        fields["reality"] = {
            "enabled": True,
            "public_key": tls.public_key,
            "short_id": tls.short_id,
        }
    return fields


def _build_transport(transport: StreamTransport) -> dict[str, Any]:
    hosts = [host for host in transport.host.split(",") if host]
    match transport.kind:
        case "ws":
            headers = {"headers": {"Host": hosts[0]}} if hosts else {}
            return {"type": "ws", "path": transport.path or "/", **headers}
        case "http":
            return {"type": "http", "host": hosts, "path": transport.path or "/"}
        case "httpupgrade":
            host = {"host": hosts[0]} if hosts else {}
            return {"type": "httpupgrade", "path": transport.path or "/", **host}
        case "grpc":
            return {"type": "grpc", "service_name": transport.service}
        case "quic":
            return {"type": "quic"}
        case _:
            raise BadRequest(f"sing-box does not support the transport {transport.kind}")
