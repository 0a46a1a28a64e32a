"""A connection goes the way it was told to, to the host that was looked at, or not at all."""

import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import pytest

from agentd.core.errors import SupplierUnreachable
from agentd.llm.proxy_address import ProxyServer
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import (
    dial_directly,
    dial_through_http,
    dial_through_socks5,
    resolve_host,
)
from agentd.llm.upstream.protocol import UpstreamRequest
from tests.support.loopback import OK, answer_once, supplier

ABC = OK + b"Content-Length: 3\r\n\r\nabc"
ODD = ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "127.1", "[::1]", "[::ffff:127.0.0.1]",
       "①②⑦.⓪.⓪.①", "127。0。0。1", "localhost.", "0", "[::ffff:7f00:1]"]  # fmt: skip


@pytest.mark.parametrize("host", ODD)
def test_a_channel_that_is_not_local_never_connects_to_this_machine(host):
    async def run():
        async with supplier(answer_once(ABC)) as there:
            port = there.url.rpartition(":")[2]
            upstream = HttpUpstream(dial=dial_directly(local=False))
            with pytest.raises(SupplierUnreachable, match="local: true") as caught:
                async with upstream.send(UpstreamRequest("GET", f"http://{host}:{port}/?key=sk-1")):
                    pass
            assert caught.value.stage == "address"
            assert "sk-1" not in caught.value.message
            assert not there.lines

    asyncio.run(run())


def resolve_to(monkeypatch, *answers):
    """Resolve names to these addresses, one answer after the other."""
    left = [list(answer) for answer in answers]

    async def getaddrinfo(self, host, port, **_):
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", place)
            for one in left.pop(0)
            for place in [(one, port, 0, 0) if ":" in one else (one, port)]
        ]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)


def test_a_name_is_resolved_once_and_what_was_looked_at_is_connected_to(monkeypatch):
    resolve_to(monkeypatch, ["8.8.8.8", "8.8.4.4", "2606:4700::1"])  # a second question would fail
    found = asyncio.run(resolve_host("rebinding.test", 80, local=False))
    assert found == [
        (socket.AF_INET, ("8.8.8.8", 80)),
        (socket.AF_INET6, ("2606:4700::1", 80, 0, 0)),
        (socket.AF_INET, ("8.8.4.4", 80)),
    ]


@pytest.mark.parametrize("inside", ["127.0.0.1", "::1", "169.254.169.254", "::ffff:10.0.0.1"])
def test_a_name_that_also_means_a_place_inside_is_refused_without_telling_it(monkeypatch, inside):
    resolve_to(monkeypatch, ["8.8.8.8", inside])
    with pytest.raises(SupplierUnreachable) as caught:
        asyncio.run(resolve_host("rebinding.test", 80, local=False))
    assert caught.value.stage == "address"
    assert inside not in caught.value.message


def test_an_address_that_leads_nowhere_does_not_keep_the_next_one_waiting(monkeypatch):
    async def run():
        async with supplier(answer_once(ABC)) as there:
            port = int(there.url.rpartition(":")[2])
            # Nobody answers at the first: connecting to it would take minutes.
            resolve_to(monkeypatch, ["192.0.2.1", "127.0.0.1"])
            async with asyncio.timeout(60):
                connection = await dial_directly(local=True)("many.test", port)
            assert connection.getpeername() == ("127.0.0.1", port)
            connection.close()

    asyncio.run(run())


@asynccontextmanager
async def running_proxy(*replies: bytes, then: bytes = b""):
    """A proxy that sends these pieces, whatever it receives."""
    heard, talks = [], []

    async def handle_connection(reader, writer):
        talks.append(asyncio.current_task())
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        with suppress(ConnectionError):
            for piece in replies:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            if then:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(then)
        writer.close()

    server = await asyncio.start_server(handle_connection, "127.0.0.1", 0)
    try:
        yield (
            ProxyServer("127.0.0.1", server.sockets[0].getsockname()[1], "user", "pässword"),
            heard,
        )
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*talks)


async def fetch_through(server, url="http://supplier.test/x") -> bytes:
    upstream = HttpUpstream(dial=dial_through_http(server, local=True))
    try:
        async with upstream.send(UpstreamRequest("GET", url)) as response:
            return await response.read()
    finally:
        await upstream.close()


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n"


@pytest.mark.parametrize("cut", [1, 9, 14, len(ESTABLISHED) - 1, len(ESTABLISHED)])
def test_a_proxys_answer_may_come_in_any_pieces(cut):
    async def run():
        async with running_proxy(ESTABLISHED[:cut], ESTABLISHED[cut:], then=ABC) as (server, heard):
            assert await fetch_through(server) == b"abc"
            head = heard[0].split(b"\r\n")
            assert head[0] == b"CONNECT supplier.test:80 HTTP/1.1"
            assert b"Proxy-Authorization: Basic dXNlcjpww6Rzc3dvcmQ=" in head

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", "password is wrong"),
        (b"HTTP/1.1 403 No\r\n\r\n", "'403'"),
        (b"HTTP/1.1 200", "too early"),
        (b"", "too early"),
        (b"SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000, "too long"),
        (ESTABLISHED + b"HTTP/1.1 200 OK\r\n\r\n", "more than it was asked"),
    ],
)
def test_a_proxy_that_gives_no_way_is_reported_without_its_password(reply, words):
    async def run():
        async with running_proxy(reply) as (server, _):
            with pytest.raises(SupplierUnreachable, match=words) as caught:
                await fetch_through(server)
        assert (caught.value.stage, caught.value.host) == ("proxy", "supplier.test")
        assert "pässword" not in caught.value.message
        assert "dXNlc" not in caught.value.message

    asyncio.run(run())


@pytest.mark.parametrize("way", [dial_through_http, dial_through_socks5])
@pytest.mark.parametrize("host", ["10.0.0.1", "127.1", "metadata.google.internal"])
def test_what_is_clearly_inside_is_not_asked_of_a_proxy_either(way, host):
    dial = way(ProxyServer("192.0.2.1", 1), local=False)
    with pytest.raises(SupplierUnreachable) as caught:
        asyncio.run(dial(host, 80))
    assert caught.value.stage == "address"


@pytest.mark.parametrize("way", [dial_through_http, dial_through_socks5])
def test_a_proxy_inside_is_for_local_channels_alone(way):
    dial = way(ProxyServer("127.0.0.1", 1), local=False)
    with pytest.raises(SupplierUnreachable) as caught:
        asyncio.run(dial("supplier.test", 80))
    assert (caught.value.stage, caught.value.host) == ("address", "127.0.0.1")


@pytest.mark.parametrize("way", [dial_through_http, dial_through_socks5])
def test_a_proxy_whose_name_is_unknown_is_reported_as_that(way):
    dial = way(ProxyServer("no-such-host.invalid", 1), local=True)
    with pytest.raises(SupplierUnreachable, match="cannot be resolved") as caught:
        asyncio.run(dial("supplier.test", 80))
    assert caught.value.stage == "proxy"
