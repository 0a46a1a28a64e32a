"""Settings of Xray: one door, one server, and no other way out."""

from collections.abc import Callable
from typing import Any

from agentd.errors import BadRequest
from agentd.proxy.vpn.local import LOOPBACK, Local
from agentd.proxy.vpn.server import Carriage, Server, Tls
from agentd.proxy.vpn.singbox import masked

ARGUMENTS = ("run", "-c", "stdin:")


def settings(server: Server, local: Local) -> dict[str, Any]:
    """To be given as JSON. ``BadRequest``: Xray cannot reach such a server.

    There is no outbound ``freedom``: with a server that is dead nothing gets out at all.
    """
    own = _OWN.get(server.type)
    if own is None or server.plugin:
        raise BadRequest(f"Xray does not speak {server.type} in this form")
    protocol = {"ss": "shadowsocks", "socks5": "socks"}.get(server.type, server.type)
    outbound: dict[str, Any] = {"tag": "out", "protocol": protocol, "settings": own(server)}
    if server.type != "wireguard":
        outbound["streamSettings"] = _stream(server)
    return {
        "log": {"loglevel": "warning"},
        "inbounds": [
            {
                "tag": "in",
                "listen": LOOPBACK,
                "port": local.port,
                "protocol": "socks",
                "settings": {
                    "auth": "password",
                    "accounts": [{"user": local.user, "pass": local.password}],
                    "udp": False,
                },
            }
        ],
        "outbounds": [outbound],
    }


def _ss(server: Server) -> dict[str, Any]:
    return {"servers": [_place(server) | {"method": server.method, "password": server.password}]}


def _vmess(server: Server) -> dict[str, Any]:
    user = {"id": server.user, "alterId": server.alter, "security": server.method or "auto"}
    return {"vnext": [_place(server) | {"users": [user]}]}


def _vless(server: Server) -> dict[str, Any]:
    user = {"id": server.user, "encryption": server.method or "none"}
    if server.flow:
        user["flow"] = server.flow
    return {"vnext": [_place(server) | {"users": [user]}]}


def _trojan(server: Server) -> dict[str, Any]:
    return {"servers": [_place(server) | {"password": server.password}]}


def _proxy(server: Server) -> dict[str, Any]:
    login = [{"user": server.user, "pass": server.password}] if server.user else []
    return {"servers": [_place(server) | {"users": login}]}


def _wireguard(server: Server) -> dict[str, Any]:
    tunnelled = server.tunnelled
    assert tunnelled
    host = f"[{server.host}]" if ":" in server.host else server.host
    peer: dict[str, Any] = {
        "endpoint": f"{host}:{server.port}",
        "publicKey": tunnelled.public_key,
        "keepAlive": tunnelled.keepalive,
    }
    if tunnelled.shared_key:
        peer["preSharedKey"] = tunnelled.shared_key
    own: dict[str, Any] = {
        "secretKey": server.password,
        "address": [masked(address) for address in tunnelled.addresses],
        "peers": [peer],
        "mtu": tunnelled.mtu or 1420,
    }
    return own | ({"reserved": list(tunnelled.reserved)} if tunnelled.reserved else {})


_OWN: dict[str, Callable[[Server], dict[str, Any]]] = {
    "ss": _ss,
    "vmess": _vmess,
    "vless": _vless,
    "trojan": _trojan,
    "socks5": _proxy,
    "http": _proxy,
    "wireguard": _wireguard,
}


def _place(server: Server) -> dict[str, Any]:
    return {"address": server.host, "port": server.port}


def _stream(server: Server) -> dict[str, Any]:
    tls = server.tls
    security = "none" if tls is None else "reality" if tls.public_key else "tls"
    stream: dict[str, Any] = {"network": server.carriage.kind, "security": security}
    if tls and tls.nameless:
        raise BadRequest("Xray always tells the server's name")
    if tls and tls.public_key:
        stream["realitySettings"] = {
            "serverName": tls.name or server.host,
            "fingerprint": tls.fingerprint or "chrome",
            "publicKey": tls.public_key,
            "shortId": tls.short_id,
            "spiderX": tls.spider,
        }
    elif tls:
        stream["tlsSettings"] = _tls(server, tls)
    return stream | _carriage(server.carriage)


def _tls(server: Server, tls: Tls) -> dict[str, Any]:
    said: dict[str, Any] = {"serverName": tls.name or server.host}
    if tls.insecure:
        said["allowInsecure"] = True
    if tls.alpn:
        said["alpn"] = list(tls.alpn)
    if tls.fingerprint:
        said["fingerprint"] = tls.fingerprint
    return said


def _carriage(carriage: Carriage) -> dict[str, Any]:
    hosts = [host for host in carriage.host.split(",") if host]
    path = carriage.path or "/"
    host = hosts[0] if hosts else ""
    match carriage.kind:
        case "tcp":
            return _dressed(carriage, hosts, path)
        case "ws":
            return {"wsSettings": {"path": path, "headers": {"Host": host} if host else {}}}
        case "httpupgrade":
            return {"httpupgradeSettings": {"path": path, "host": host}}
        case "xhttp":
            mode = carriage.mode or "auto"
            return {"xhttpSettings": {"path": path, "host": host, "mode": mode}}
        case "grpc":
            multi = carriage.mode == "multi"
            return {"grpcSettings": {"serviceName": carriage.service, "multiMode": multi}}
        case "kcp":
            header = {"header": {"type": carriage.header or "none"}}
            return {"kcpSettings": header | ({"seed": carriage.seed} if carriage.seed else {})}
        case _:
            raise BadRequest(f"Xray does not speak {carriage.kind} any more")


def _dressed(carriage: Carriage, hosts: list[str], path: str) -> dict[str, Any]:
    if carriage.header in ("", "none"):
        return {}
    if carriage.header != "http":
        raise BadRequest("Xray dresses tcp as http alone")
    request = {"path": [path], "headers": {"Host": hosts}}
    return {"tcpSettings": {"header": {"type": "http", "request": request}}}
