"""Connections to suppliers: directly or through a proxy, never with a fallback.

A dial function returns a connected socket to the supplier; TLS with the supplier is done on top of
it by the caller. No transport falls back to another one, which would bypass the proxy.
"""

import asyncio
import base64
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import TypeAlias

from agentd.core.errors import SupplierUnreachable
from agentd.llm.proxy_address import ProxyServer
from agentd.llm.upstream.public_addresses import is_public, may_be_public, parse_literal

Dial: TypeAlias = Callable[[str, int], Awaitable[socket.socket]]
"""Host and port to a connected, non-blocking socket. Raises ``SupplierUnreachable``, or the
``OSError`` of the host's own name or connection; waits as long as it is let."""

SocketAddress: TypeAlias = tuple[int, tuple[str | int | bytes, ...]]
"""An address family, and an address with its port as the system takes it."""

_HEAD_START = 0.25
"""Seconds that an address is given before the next one is tried, too (RFC 8305)."""
_REPLY = 16 * 1024
"""Bytes of a proxy's answer to CONNECT."""


def dial_directly(*, local: bool) -> Dial:
    """Connect from this machine; ``local`` also allows this machine and its networks."""

    async def dial(host: str, port: int) -> socket.socket:
        return await _connect_first(await resolve_host(host, port, local=local))

    return dial


def dial_through_http(proxy: ProxyServer, *, local: bool) -> Dial:
    """Connect through an HTTP proxy, by CONNECT (RFC 9110, section 9.3.6)."""

    async def dial(host: str, port: int) -> socket.socket:
        _check_public(host, local=local)
        places = await _resolve_proxy(proxy, host, local=local)
        try:
            connection = await _connect_first(places)
        except OSError as error:
            raise _make_proxy_error(
                proxy, host, error.strerror or "the proxy cannot be reached"
            ) from error
        try:
            await _open_tunnel(connection, proxy, host, port)
        except OSError as error:
            connection.close()
            raise _make_proxy_error(proxy, host, error.strerror or str(error)) from error
        except BaseException:
            connection.close()
            raise
        return connection

    return dial


def dial_through_socks5(proxy: ProxyServer, *, local: bool, ours: bool = False) -> Dial:
    """Connect through a SOCKS5 proxy, which also resolves the name (RFC 1928, RFC 1929).

    ``ours``: it is a program that agentd started on this machine.
    """

    async def dial(host: str, port: int) -> socket.socket:
        from python_socks import ProxyError, ProxyType  # noqa: PLC0415 - few need it, it is large
        from python_socks.async_.asyncio import Proxy  # noqa: PLC0415

        _check_public(host, local=local)
        wrong: Exception | None = None
        for _, place in await _resolve_proxy(proxy, host, local=local or ours):
            proxy_client = Proxy(
                ProxyType.SOCKS5,
                str(place[0]),
                proxy.port,
                proxy.user or None,
                proxy.password or None,
                rdns=True,
            )
            try:
                return await proxy_client.connect(host, port, timeout=float("inf"))
            except OSError as error:
                wrong = error
            except (ProxyError, ValueError) as error:
                raise _make_proxy_error(proxy, host, str(error)) from error
        raise _make_proxy_error(proxy, host, "the proxy cannot be reached") from wrong

    return dial


async def resolve_host(host: str, port: int, *, local: bool) -> list[SocketAddress]:
    """Resolve a host to addresses that can be connected to without resolving again.

    Unless ``local``, a name with any non-public address is refused as a whole. Raises ``OSError``
    when it has no address, ``SupplierUnreachable`` when it is refused.
    """
    _check_public(host, local=local)
    if (address := parse_literal(host)) and "%" not in host:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return [(family, (str(address), port))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not local and not all(is_public(ip_address(str(place[0]))) for *_, place in found):
        raise _make_not_public_error(host)
    rank: Counter[int] = Counter()
    places: list[tuple[int, SocketAddress]] = []
    for family, *_, place in found:  # the families take turns: one of them may lead nowhere
        rank[family] += 1
        places.append((rank[family], (family, place)))
    return [place for _, place in sorted(places, key=lambda ranked: ranked[0])]


async def _connect_first(places: Sequence[SocketAddress]) -> socket.socket:
    """Return the first successful connection; raise the first error if all fail."""
    if len(places) == 1:
        return await _connect_to(places[0])
    waiting = list(places)
    trying: list[asyncio.Task[socket.socket]] = []
    wrong: list[OSError] = []
    try:
        while waiting or trying:
            if waiting:
                trying.append(asyncio.create_task(_connect_to(waiting.pop(0))))
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
            one.add_done_callback(_close_late)
            one.cancel()


async def _connect_to(place: SocketAddress) -> socket.socket:
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


def _close_late(late: asyncio.Task[socket.socket]) -> None:
    """Close a connection that lost the race."""
    if not late.cancelled() and not late.exception():
        late.result().close()


async def _resolve_proxy(proxy: ProxyServer, host: str, *, local: bool) -> list[SocketAddress]:
    """Resolve the proxy. It may be on a private network only if the channel is local."""
    try:
        return await resolve_host(proxy.host, proxy.port, local=local)
    except OSError as error:
        raise _make_proxy_error(proxy, host, "its name cannot be resolved") from error


async def _open_tunnel(connection: socket.socket, proxy: ProxyServer, host: str, port: int) -> None:
    """Ask for a tunnel to the host. Bytes after the proxy's response head are an error."""
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
            raise _make_proxy_error(proxy, host, "it ends its answer too early")
        reply += piece
        if len(reply) >= _REPLY:
            raise _make_proxy_error(proxy, host, "its answer is too long")
    version, _, rest = reply.partition(b" ")
    status = rest[:3].decode("ascii", "replace")
    if not version.startswith(b"HTTP/1."):
        raise _make_proxy_error(proxy, host, "it does not speak HTTP")
    if not status.startswith("2"):
        why = " (its user or password is wrong)" if status == "407" else ""
        raise _make_proxy_error(proxy, host, f"it answers with status {status!r}{why}")
    if reply.index(b"\r\n\r\n") + 4 != len(reply):
        raise _make_proxy_error(proxy, host, "it says more than it was asked")


def _check_public(host: str, *, local: bool) -> None:
    if not local and not may_be_public(host):
        raise _make_not_public_error(host)


def _make_not_public_error(host: str) -> SupplierUnreachable:
    """Return the error, without the resolved addresses, which would reveal internal hosts."""
    message = f"{host} is not a public host; only a channel with local: true may call it"
    return SupplierUnreachable(message, "address", host)


def _make_proxy_error(proxy: ProxyServer, host: str, why: str) -> SupplierUnreachable:
    message = f"The proxy {proxy} did not connect to {host}: {why}"
    return SupplierUnreachable(message, "proxy", host)
