"""How a connection to a supplier is made: directly, or through a proxy. One way, or none.

A way gives a connected socket over which the supplier hears us; TLS, which is the supplier's, is
spoken over it by whoever asked. None of the ways ever falls back to another one.
"""

import asyncio
import base64
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import TypeAlias

from agentd.errors import SupplierUnreachable
from agentd.proxy.addresses import is_public, literal, may_be_public
from agentd.proxy.transport import ProxyServer

Dial: TypeAlias = Callable[[str, int], Awaitable[socket.socket]]
"""Host and port to a connected, non-blocking socket. Raises ``SupplierUnreachable``, or the
``OSError`` of the host's own name or connection; waits as long as it is let."""

Place: TypeAlias = tuple[int, tuple[str | int | bytes, ...]]
"""An address family, and an address with its port as the system takes it."""

_HEAD_START = 0.25
"""Seconds that an address is given before the next one is tried, too (RFC 8305)."""
_REPLY = 16 * 1024
"""Bytes of a proxy's answer to CONNECT."""


def direct(*, local: bool) -> Dial:
    """From this machine itself; ``local``: also to itself and into its network."""

    async def dial(host: str, port: int) -> socket.socket:
        return await _connected(await resolved(host, port, local=local))

    return dial


def through_http(proxy: ProxyServer, *, local: bool) -> Dial:
    """Through an HTTP proxy, by CONNECT (RFC 9110, section 9.3.6)."""

    async def dial(host: str, port: int) -> socket.socket:
        _check(host, local=local)
        places = await _found(proxy, host, local=local)
        try:
            connection = await _connected(places)
        except OSError as error:
            raise _proxy_failed(proxy, host, error.strerror or "it cannot be reached") from error
        try:
            await _tunnel(connection, proxy, host, port)
        except OSError as error:
            connection.close()
            raise _proxy_failed(proxy, host, error.strerror or str(error)) from error
        except BaseException:
            connection.close()
            raise
        return connection

    return dial


def through_socks5(proxy: ProxyServer, *, local: bool, ours: bool = False) -> Dial:
    """Through a SOCKS5 proxy, which also resolves the name (RFC 1928, RFC 1929).

    ``ours``: it is a program that we have started, on this machine.
    """

    async def dial(host: str, port: int) -> socket.socket:
        from python_socks import ProxyError, ProxyType  # noqa: PLC0415 - few need it, it is large
        from python_socks.async_.asyncio import Proxy  # noqa: PLC0415

        _check(host, local=local)
        wrong: Exception | None = None
        for _, place in await _found(proxy, host, local=local or ours):
            way = Proxy(
                ProxyType.SOCKS5,
                str(place[0]),
                proxy.port,
                proxy.user or None,
                proxy.password or None,
                rdns=True,
            )
            try:
                return await way.connect(host, port, timeout=float("inf"))
            except OSError as error:
                wrong = error
            except (ProxyError, ValueError) as error:
                raise _proxy_failed(proxy, host, str(error)) from error
        raise _proxy_failed(proxy, host, "it cannot be reached") from wrong

    return dial


async def resolved(host: str, port: int, *, local: bool) -> list[Place]:
    """Where a host is; each place may be connected to as it stands, without asking again.

    A name which also means a place inside is refused as a whole, unless ``local``. Raises
    ``OSError`` when it has no address, ``SupplierUnreachable`` when it is refused.
    """
    _check(host, local=local)
    if (address := literal(host)) and "%" not in host:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return [(family, (str(address), port))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not local and not all(is_public(ip_address(str(place[0]))) for *_, place in found):
        raise _refused(host)
    rank: Counter[int] = Counter()
    places: list[tuple[int, Place]] = []
    for family, *_, place in found:  # the families take turns: one of them may lead nowhere
        rank[family] += 1
        places.append((rank[family], (family, place)))
    return [place for _, place in sorted(places, key=lambda ranked: ranked[0])]


async def _connected(places: Sequence[Place]) -> socket.socket:
    """The first of these that takes a connection; the error of the first one if none does."""
    if len(places) == 1:
        return await _connected_to(places[0])
    waiting = list(places)
    trying: list[asyncio.Task[socket.socket]] = []
    wrong: list[OSError] = []
    try:
        while waiting or trying:
            if waiting:
                trying.append(asyncio.create_task(_connected_to(waiting.pop(0))))
            patience = _HEAD_START if waiting else None
            await asyncio.wait(trying, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for one in [one for one in trying if one.done()]:
                trying.remove(one)
                try:
                    return one.result()
                except OSError as error:
                    wrong.append(error)
        raise wrong[0]
    finally:
        for one in trying:
            one.add_done_callback(_dropped)
            one.cancel()


async def _connected_to(place: Place) -> socket.socket:
    family, address = place
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
    except OSError as error:  # asyncio's words for it only repeat the address
        connection.close()
        raise OSError(error.errno, os.strerror(error.errno or 0)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _dropped(late: asyncio.Task[socket.socket]) -> None:
    """Another one was faster."""
    if not late.cancelled() and not late.exception():
        late.result().close()


async def _found(proxy: ProxyServer, host: str, *, local: bool) -> list[Place]:
    """Where the proxy is. It may be inside only for a channel that may go there."""
    try:
        return await resolved(proxy.host, proxy.port, local=local)
    except OSError as error:
        raise _proxy_failed(proxy, host, "its name cannot be resolved") from error


async def _tunnel(connection: socket.socket, proxy: ProxyServer, host: str, port: int) -> None:
    """Ask for a way to the host. What comes behind the answer belongs to nobody yet."""
    loop = asyncio.get_running_loop()
    to = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
    if proxy.user:
        login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {login}")
    await loop.sock_sendall(connection, "\r\n".join([*lines, "", ""]).encode())
    reply = b""
    while b"\r\n\r\n" not in reply:  # python-socks takes the first piece for the whole
        piece = await loop.sock_recv(connection, _REPLY - len(reply))
        if not piece:
            raise _proxy_failed(proxy, host, "it ends its answer too early")
        reply += piece
        if len(reply) >= _REPLY:
            raise _proxy_failed(proxy, host, "its answer is too long")
    version, _, rest = reply.partition(b" ")
    status = rest[:3].decode("ascii", "replace")
    if not version.startswith(b"HTTP/1."):
        raise _proxy_failed(proxy, host, "it does not speak HTTP")
    if not status.startswith("2"):
        why = " (its user or password is wrong)" if status == "407" else ""
        raise _proxy_failed(proxy, host, f"it answers with status {status!r}{why}")
    if reply.index(b"\r\n\r\n") + 4 != len(reply):
        raise _proxy_failed(proxy, host, "it says more than it was asked")


def _check(host: str, *, local: bool) -> None:
    if not local and not may_be_public(host):
        raise _refused(host)


def _refused(host: str) -> SupplierUnreachable:
    """What it resolves to is not told: it is nobody's business who is inside."""
    message = f"{host} is not a public host; only a channel with local: true may call it"
    return SupplierUnreachable(message, "address", host)


def _proxy_failed(proxy: ProxyServer, host: str, why: str) -> SupplierUnreachable:
    message = f"The proxy {proxy} gives no way to {host}: {why}"
    return SupplierUnreachable(message, "proxy", host)
