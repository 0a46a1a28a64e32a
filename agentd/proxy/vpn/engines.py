"""Which program reaches which server."""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from agentd.errors import BadRequest, Unavailable
from agentd.proxy.vpn import shadowsocks, singbox, xray
from agentd.proxy.vpn.local import Local
from agentd.proxy.vpn.server import Server

Settings = Callable[[Server, Local], dict[str, Any]]


class Engine(Struct, frozen=True):
    """A program that reaches servers; its settings are given on its standard input."""

    program: str
    arguments: tuple[str, ...]
    settings: Settings
    asks: bool = True
    """Whether it asks callers on loopback who they are."""


ENGINES = (
    Engine("sing-box", singbox.ARGUMENTS, singbox.settings),
    Engine("xray", xray.ARGUMENTS, xray.settings),
    Engine("ss-local", shadowsocks.ARGUMENTS, shadowsocks.settings, asks=False),
)
"""The preferred one first."""


def engine(server: Server, found: Collection[str]) -> Engine:
    """The best one of these programs for the server. ``Unavailable`` says what to install."""
    fit = [one for one in ENGINES if _reaches(one, server)]
    for one in fit:
        if one.program in found:
            return one
    if not fit:
        raise Unavailable(f"No program is known that reaches this {server.type} server.")
    names = " or ".join(one.program for one in fit)
    raise Unavailable(f"The VPN cannot be connected to: install {names} (looked for in PATH).")


def _reaches(one: Engine, server: Server) -> bool:
    try:
        one.settings(server, Local(1, "", ""))
    except BadRequest:
        return False
    return True
