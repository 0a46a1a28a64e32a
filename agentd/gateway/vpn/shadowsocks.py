"""Settings of ``ss-local`` (shadowsocks-libev), which cannot authenticate clients."""

from typing import Any

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.local import LOOPBACK, LocalProxy
from agentd.gateway.vpn.server import Server

ARGUMENTS = ("-c", "/dev/stdin")

_METHODS = (
    *("aes-128-gcm", "aes-192-gcm", "aes-256-gcm"),
    *("chacha20-ietf-poly1305", "xchacha20-ietf-poly1305"),
)
"""Authenticated ciphers; older ones can be read and modified in transit."""


def build_settings(server: Server, local: LocalProxy) -> dict[str, Any]:
    """Build the settings. ``BadRequest``: ss-local does not support the server.

    A plugin is a program that untrusted input names: none is started.
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
