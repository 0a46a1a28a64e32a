"""Settings of sing-box 1.12 and later: one door, one server, and no other way out."""

from collections.abc import Callable
from typing import Any

from agentd.errors import BadRequest
from agentd.proxy.vpn.local import LOOPBACK, Local
from agentd.proxy.vpn.server import Carriage, Server, Tls

ARGUMENTS = ("run", "-c", "stdin")

_PLUGINS = ("", "obfs-local", "v2ray-plugin")
_BROWSERS = (
    *("chrome", "firefox", "edge", "safari", "360", "qq", "ios", "android"),
    *("random", "randomized"),
)


def settings(server: Server, local: Local) -> dict[str, Any]:
    """To be given as JSON. ``BadRequest``: sing-box cannot reach such a server.

    There is no outbound ``direct``: with a server that is dead nothing gets out at all.
    """
    inbound = {
        "type": "socks",
        "tag": "in",
        "listen": LOOPBACK,
        "listen_port": local.port,
        "users": [{"username": local.user, "password": local.password}],
    }
    wireguard = server.type == "wireguard"
    out = _wireguard(server) if wireguard else _outbound(server)
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


def _outbound(server: Server) -> dict[str, Any]:
    common = {"tag": "out", "server": server.host, "server_port": server.port}
    if server.tls:
        common["tls"] = _tls(server)
    if server.carriage.kind != "tcp":
        common["transport"] = _transport(server.carriage)
    elif server.carriage.header not in ("", "none"):
        raise BadRequest("sing-box does not dress tcp as something else")
    return _OWN[server.type](server) | common


def _ss(server: Server) -> dict[str, Any]:
    if server.plugin not in _PLUGINS:
        raise BadRequest("The server needs a plugin that is not known here")
    own = {"type": "shadowsocks", "method": server.method, "password": server.password}
    if server.plugin:
        own |= {"plugin": server.plugin, "plugin_opts": server.options}
    return own


def _vmess(server: Server) -> dict[str, Any]:
    return {
        "type": "vmess",
        "uuid": server.user,
        "security": server.method or "auto",
        "alter_id": server.alter,
    }


def _vless(server: Server) -> dict[str, Any]:
    if server.method not in ("", "none"):
        raise BadRequest("sing-box does not speak the encryption of vless")
    flow = {"flow": server.flow} if server.flow else {}
    return {"type": "vless", "uuid": server.user, **flow}


def _trojan(server: Server) -> dict[str, Any]:
    return {"type": "trojan", "password": server.password}


def _hysteria2(server: Server) -> dict[str, Any]:
    own: dict[str, Any] = {"type": "hysteria2", "password": server.password}
    if server.obfs:
        own["obfs"] = {"type": server.obfs, "password": server.obfs_password}
    if server.ports:
        spans = (one if "-" in one else f"{one}-{one}" for one in server.ports.split(","))
        own["server_ports"] = [span.replace("-", ":") for span in spans]
    return own


def _tuic(server: Server) -> dict[str, Any]:
    own = {"type": "tuic", "uuid": server.user, "password": server.password}
    if server.congestion:
        own["congestion_control"] = server.congestion
    if server.relay:
        own["udp_relay_mode"] = server.relay
    return own


def _anytls(server: Server) -> dict[str, Any]:
    return {"type": "anytls", "password": server.password}


def _proxy(server: Server) -> dict[str, Any]:
    kind = {"type": "http"} if server.type == "http" else {"type": "socks", "version": "5"}
    login = {"username": server.user, "password": server.password} if server.user else {}
    return kind | login


_OWN: dict[str, Callable[[Server], dict[str, Any]]] = {
    "ss": _ss,
    "vmess": _vmess,
    "vless": _vless,
    "trojan": _trojan,
    "hysteria2": _hysteria2,
    "tuic": _tuic,
    "anytls": _anytls,
    "socks5": _proxy,
    "http": _proxy,
}


def _wireguard(server: Server) -> dict[str, Any]:
    tunnelled = server.tunnelled
    assert tunnelled
    peer: dict[str, Any] = {
        "address": server.host,
        "port": server.port,
        "public_key": tunnelled.public_key,
        "allowed_ips": ["0.0.0.0/0", "::/0"],
    }
    if tunnelled.shared_key:
        peer["pre_shared_key"] = tunnelled.shared_key
    if tunnelled.reserved:
        peer["reserved"] = list(tunnelled.reserved)
    if tunnelled.keepalive:
        peer["persistent_keepalive_interval"] = tunnelled.keepalive
    return {
        "type": "wireguard",
        "tag": "out",
        "address": [masked(address) for address in tunnelled.addresses],
        "private_key": server.password,
        "mtu": tunnelled.mtu or 1408,
        "peers": [peer],
    }


def masked(address: str) -> str:
    """An address with the length of its network, which is itself alone where nobody says."""
    return address if "/" in address else f"{address}/{128 if ':' in address else 32}"


def _tls(server: Server) -> dict[str, Any]:
    tls = server.tls or Tls()
    said: dict[str, Any] = {"enabled": True, "server_name": tls.name or server.host}
    if tls.insecure:
        said["insecure"] = True
    if tls.nameless:
        said["disable_sni"] = True
    if tls.alpn:
        said["alpn"] = list(tls.alpn)
    if tls.fingerprint in _BROWSERS or tls.public_key:
        browser = tls.fingerprint if tls.fingerprint in _BROWSERS else "chrome"
        said["utls"] = {"enabled": True, "fingerprint": browser}
    if tls.public_key:
        said["reality"] = {
            "enabled": True,
            "public_key": tls.public_key,
            "short_id": tls.short_id,
        }
    return said


def _transport(carriage: Carriage) -> dict[str, Any]:
    hosts = [host for host in carriage.host.split(",") if host]
    match carriage.kind:
        case "ws":
            headers = {"headers": {"Host": hosts[0]}} if hosts else {}
            return {"type": "ws", "path": carriage.path or "/", **headers}
        case "http":
            return {"type": "http", "host": hosts, "path": carriage.path or "/"}
        case "httpupgrade":
            host = {"host": hosts[0]} if hosts else {}
            return {"type": "httpupgrade", "path": carriage.path or "/", **host}
        case "grpc":
            return {"type": "grpc", "service_name": carriage.service}
        case "quic":
            return {"type": "quic"}
        case _:
            raise BadRequest(f"sing-box does not speak {carriage.kind}")
