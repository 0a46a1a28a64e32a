"""Settings of ``ss-local`` (shadowsocks-libev). It cannot tell callers on loopback apart."""

from typing import Any

from agentd.errors import BadRequest
from agentd.proxy.vpn.local import LOOPBACK, Local
from agentd.proxy.vpn.server import Server

ARGUMENTS = ("-c", "/dev/stdin")

_METHODS = (
    *("aes-128-gcm", "aes-192-gcm", "aes-256-gcm"),
    *("chacha20-ietf-poly1305", "xchacha20-ietf-poly1305"),
)
"""The ciphers that also authenticate; the older ones can be read and changed on the way."""


def settings(server: Server, local: Local) -> dict[str, Any]:
    """To be given as JSON. ``BadRequest``: ss-local cannot reach such a server.

    A plugin is a program, named by a stranger: none is started.
    """
    if server.type != "ss" or server.method not in _METHODS or server.plugin:
        raise BadRequest("ss-local does not speak this server's protocol, cipher or plugin")
    return {
        "server": server.host,
        "server_port": server.port,
        "password": server.password,
        "method": server.method,
        "local_address": LOOPBACK,
        "local_port": local.port,
        "mode": "tcp_only",
        "timeout": 600,
        "no_delay": True,
    }
