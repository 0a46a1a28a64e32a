"""Settings of Xray: one inbound, one server, and no other outbound."""

from collections.abc import Callable
from typing import Any

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.local import LOOPBACK, LocalProxy
from agentd.gateway.vpn.server import Server, StreamTransport, Tls
from agentd.gateway.vpn.singbox import add_prefix_length

ARGUMENTS = ("run", "-c", "stdin:")


def build_settings(server: Server, local: LocalProxy) -> dict[str, Any]:
    """Build the settings. ``BadRequest``: Xray does not support the server.

    There is no outbound ``freedom``: nothing is sent past a server that is down.
    """
    own = _OWN.get(server.type)
    if own is None or server.plugin:
        raise BadRequest(f"Xray does not support this {server.type} server")
    protocol = {"ss": "shadowsocks", "socks5": "socks"}.get(server.type, server.type)
    outbound: dict[str, Any] = {"tag": "out", "protocol": protocol, "settings": own(server)}
    if server.type != "wireguard":
        outbound["streamSettings"] = _build_stream_settings(server)
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


def _build_ss(server: Server) -> dict[str, Any]:
    return {
        "servers": [_build_address(server) | {"method": server.method, "password": server.password}]
    }


def _build_vmess(server: Server) -> dict[str, Any]:
    user = {"id": server.user, "alterId": server.alter, "security": server.method or "auto"}
    return {"vnext": [_build_address(server) | {"users": [user]}]}


def _build_vless(server: Server) -> dict[str, Any]:
    user = {"id": server.user, "encryption": server.method or "none"}
    if server.flow:
        user["flow"] = server.flow
    return {"vnext": [_build_address(server) | {"users": [user]}]}


def _build_trojan(server: Server) -> dict[str, Any]:
    return {"servers": [_build_address(server) | {"password": server.password}]}


def _build_proxy(server: Server) -> dict[str, Any]:
    login = [{"user": server.user, "pass": server.password}] if server.user else []
    return {"servers": [_build_address(server) | {"users": login}]}


def _build_wireguard(server: Server) -> dict[str, Any]:
    tunnel = server.tunnel
    assert tunnel
    host = f"[{server.host}]" if ":" in server.host else server.host
    peer: dict[str, Any] = {
        "endpoint": f"{host}:{server.port}",
        "publicKey": tunnel.public_key,
        "keepAlive": tunnel.keepalive,
    }
    if tunnel.shared_key:
        peer["preSharedKey"] = tunnel.shared_key
    own: dict[str, Any] = {
        "secretKey": server.password,
        "address": [add_prefix_length(address) for address in tunnel.addresses],
        "peers": [peer],
        "mtu": tunnel.mtu or 1420,
    }
    return own | ({"reserved": list(tunnel.reserved)} if tunnel.reserved else {})


_OWN: dict[str, Callable[[Server], dict[str, Any]]] = {
    "ss": _build_ss,
    "vmess": _build_vmess,
    "vless": _build_vless,
    "trojan": _build_trojan,
    "socks5": _build_proxy,
    "http": _build_proxy,
    "wireguard": _build_wireguard,
}


def _build_address(server: Server) -> dict[str, Any]:
    return {"address": server.host, "port": server.port}


def _build_stream_settings(server: Server) -> dict[str, Any]:
    tls = server.tls
    security = "none" if tls is None else "reality" if tls.public_key else "tls"
    stream: dict[str, Any] = {"network": server.transport.kind, "security": security}
    if tls and tls.nameless:
        raise BadRequest("Xray always sends the server's name")
    if tls and tls.public_key:
        stream["realitySettings"] = {
            "serverName": tls.name or server.host,
            "fingerprint": tls.fingerprint or "chrome",
            "publicKey": tls.public_key,
            "shortId": tls.short_id,
            "spiderX": tls.spider,
        }
    elif tls:
        stream["tlsSettings"] = _build_tls(server, tls)
    return stream | _build_transport(server.transport)


def _build_tls(server: Server, tls: Tls) -> dict[str, Any]:
    fields: dict[str, Any] = {"serverName": tls.name or server.host}
    if tls.insecure:
        fields["allowInsecure"] = True
    if tls.alpn:
        fields["alpn"] = list(tls.alpn)
    if tls.fingerprint:
        fields["fingerprint"] = tls.fingerprint
    return fields


def _build_transport(transport: StreamTransport) -> dict[str, Any]:
    hosts = [host for host in transport.host.split(",") if host]
    path = transport.path or "/"
    host = hosts[0] if hosts else ""
    match transport.kind:
        case "tcp":
            return _build_tcp_header(transport, hosts, path)
        case "ws":
            return {"wsSettings": {"path": path, "headers": {"Host": host} if host else {}}}
        case "httpupgrade":
            return {"httpupgradeSettings": {"path": path, "host": host}}
        case "xhttp":
            mode = transport.mode or "auto"
            return {"xhttpSettings": {"path": path, "host": host, "mode": mode}}
        case "grpc":
            multi = transport.mode == "multi"
            return {"grpcSettings": {"serviceName": transport.service, "multiMode": multi}}
        case "kcp":
            header = {"header": {"type": transport.header or "none"}}
            return {"kcpSettings": header | ({"seed": transport.seed} if transport.seed else {})}
        case _:
            raise BadRequest(f"Xray no longer supports the transport {transport.kind}")


def _build_tcp_header(transport: StreamTransport, hosts: list[str], path: str) -> dict[str, Any]:
    if transport.header in ("", "none"):
        return {}
    if transport.header != "http":
        raise BadRequest("Xray supports no tcp header other than http")
    request = {"path": [path], "headers": {"Host": hosts}}
    return {"tcpSettings": {"header": {"type": "http", "request": request}}}
