"""The VPN programs, and which one connects to which server."""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.vpn import shadowsocks, singbox, xray
from agentd.gateway.vpn.local import LocalProxy
from agentd.gateway.vpn.server import Server

SettingsBuilder = Callable[[Server, LocalProxy], dict[str, Any]]


class VpnProgram(Struct, frozen=True):
    """A VPN program; its settings are written to its standard input."""

    program: str
    arguments: tuple[str, ...]
    build_settings: SettingsBuilder
    authenticates: bool = True
    """True if it authenticates clients on loopback."""


PROGRAMS = (
    VpnProgram("sing-box", singbox.ARGUMENTS, singbox.build_settings),
    VpnProgram("xray", xray.ARGUMENTS, xray.build_settings),
    VpnProgram("ss-local", shadowsocks.ARGUMENTS, shadowsocks.build_settings, authenticates=False),
)
"""The programs in order of preference."""


def choose_program(server: Server, found: Collection[str]) -> VpnProgram:
    """Return the best installed program for a server. ``Unavailable`` says what to install."""
    fit = [one for one in PROGRAMS if _supports(one, server)]
    for one in fit:
        if one.program in found:
            return one
    if not fit:
        raise Unavailable(f"No supported program connects to this {server.type} server.")
    names = " or ".join(one.program for one in fit)
    raise Unavailable(
        f"The VPN needs a program that is not installed: install {names} (looked for in PATH)."
    )


def _supports(one: VpnProgram, server: Server) -> bool:
    try:
        one.build_settings(server, LocalProxy(1, "", ""))
    except BadRequest:
        return False
    return True
