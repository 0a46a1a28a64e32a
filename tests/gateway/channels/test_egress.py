"""Each channel's calls leave by its own transport, or not at all."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme

from agentd.core.errors import BadRequest, SupplierUnreachable
from agentd.gateway.channels.egress import Egress
from agentd.gateway.channels.model import Channel
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.proxy_address import parse_proxy_address
from agentd.llm.upstream import client as upstream_module
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_through_http, dial_through_socks5
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest
from tests.conftest import until
from tests.support.loopback import OK, PATIENT, Line, answer_each, supplier
from tests.support.ports import find_free_port
from tests.support.proxies import PASSWORD, http_proxy, socks_proxy

ABC = OK + b"Content-Length: 3\r\n\r\nabc"
DIRECT = ChannelTransport()
PROXIES = {"http": http_proxy, "socks5": socks_proxy}


def build_channel(name="a", *, local=True) -> Channel:
    return Channel(name=name, dialects=("openai-chat",), url="http://x", local=local)


@asynccontextmanager
async def open_egress():
    made = Egress()
    try:
        yield made
    finally:
        await made.close()


async def call_upstream(upstream, url: str) -> bytes:
    async with upstream.send(UpstreamRequest("POST", url, timeouts=PATIENT)) as response:
        return await response.read()


@pytest.mark.parametrize("kind", PROXIES)
def test_a_channels_calls_go_through_its_proxy_over_kept_connections(kind, tmp_path):
    async def run():
        async with (
            supplier(answer_each(ABC)) as there,
            PROXIES[kind](tmp_path) as url,
            open_egress() as out,
        ):
            transport = ChannelTransport(kind, url)
            for _ in range(3):
                assert (
                    await call_upstream(out.get_upstream(build_channel(), transport), there.url)
                    == b"abc"
                )
            assert len(there.lines) == 1
            line = there.lines[0]
            assert line.writer.get_extra_info("peername")[0] == "127.0.0.1"

    asyncio.run(run())


@pytest.mark.parametrize("kind", PROXIES)
def test_tls_is_spoken_with_the_supplier_inside_the_proxys_tunnel(kind, tmp_path):
    authority = trustme.CA()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(serving)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    way = {"http": dial_through_http, "socks5": dial_through_socks5}[kind]

    async def run():
        async with (
            supplier(answer_each(ABC), serving=serving) as there,
            PROXIES[kind](tmp_path) as url,
        ):
            dial = way(parse_proxy_address(ChannelTransport(kind, url)), local=True)
            for context, trusted in ((trusting, True), (ssl.create_default_context(), False)):
                upstream = HttpUpstream(context, dial=dial)
                try:
                    if trusted:
                        assert await call_upstream(upstream, there.url) == b"abc"
                        continue
                    with pytest.raises(SupplierUnreachable) as caught:
                        await call_upstream(upstream, there.url)
                    assert caught.value.stage == "tls"
                finally:
                    await upstream.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", PROXIES)
def test_a_channel_whose_proxy_is_down_is_down_and_never_direct(kind):
    async def run():
        async with supplier(answer_each(ABC)) as there, open_egress() as out:
            url = f"{kind}://user:{PASSWORD}@127.0.0.1:{find_free_port()}"
            for _ in range(3):
                with pytest.raises(SupplierUnreachable) as caught:
                    await call_upstream(
                        out.get_upstream(build_channel(), ChannelTransport(kind, url)), there.url
                    )
                assert caught.value.stage == "proxy"
                assert PASSWORD not in str(caught.value)
            assert not there.lines

    asyncio.run(run())


@pytest.mark.parametrize("kind", PROXIES)
def test_a_proxy_that_does_not_know_us_gives_no_way(kind, tmp_path):
    async def run():
        async with (
            supplier(answer_each(ABC)) as there,
            PROXIES[kind](tmp_path) as url,
            open_egress() as out,
        ):
            for wrong in (url.replace(PASSWORD, "wr0ng"), url.replace(f"user:{PASSWORD}@", "")):
                with pytest.raises(SupplierUnreachable) as caught:
                    await call_upstream(
                        out.get_upstream(build_channel(), ChannelTransport(kind, wrong)), there.url
                    )
                assert caught.value.stage == "proxy"
                assert "wr0ng" not in str(caught.value)
            assert not there.lines

    asyncio.run(run())


@pytest.mark.parametrize("kind", PROXIES)
def test_a_supplier_that_cannot_be_reached_from_the_proxy_is_reported_as_that(kind, tmp_path):
    async def run():
        async with PROXIES[kind](tmp_path) as url, open_egress() as out:
            with pytest.raises(SupplierUnreachable) as caught:
                target = f"http://127.0.0.1:{find_free_port()}"
                await call_upstream(
                    out.get_upstream(build_channel(), ChannelTransport(kind, url)), target
                )
            assert caught.value.stage == "proxy"

    asyncio.run(run())


@pytest.mark.parametrize("kind", PROXIES)
def test_a_proxy_that_never_answers_is_not_blamed_on_the_environments_proxy(kind, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")

    async def run():
        async with supplier(Line.wait_until_cut) as silent, open_egress() as out:
            host, port = silent.url.removeprefix("http://").split(":")
            transport = ChannelTransport(kind, f"{kind}://{host}:{port}")
            upstream = out.get_upstream(build_channel(), transport)
            request = UpstreamRequest("GET", "http://api.example/", timeouts=Timeouts(connect=0.1))
            with pytest.raises(SupplierUnreachable) as caught:
                async with upstream.send(request):
                    pass
        assert "could not be connected to within 0.1 s" in caught.value.message
        assert "HTTPS_PROXY" not in caught.value.message

    asyncio.run(run())


def test_a_channel_keeps_its_upstream_until_it_changes():
    async def run():
        async with open_egress() as out:
            one = out.get_upstream(build_channel(), DIRECT)
            assert out.get_upstream(build_channel(), ChannelTransport()) is one
            assert out.get_upstream(build_channel("b"), DIRECT) is not one
            other = out.get_upstream(build_channel(local=False), DIRECT)
            assert other is not one
            proxied = out.get_upstream(
                build_channel(local=False), ChannelTransport("http", "http://proxy.test")
            )
            assert proxied not in (one, other)

    asyncio.run(run())


def test_a_change_lets_calls_in_progress_end_and_keeps_no_connection():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(OK + b"Content-Length: 6\r\n\r\nabc")
            await go.wait()
            line.say(b"def")
            await line.wait_until_cut()
            left.append(line)

        go, left = asyncio.Event(), []
        async with supplier(behave) as there, open_egress() as out:
            request = UpstreamRequest("POST", there.url, timeouts=PATIENT)
            async with out.get_upstream(build_channel(), DIRECT).send(request) as response:
                out.forget("a")
                await asyncio.sleep(0)
                go.set()
                assert await response.read() == b"abcdef"
            await until(lambda: left)

    asyncio.run(run())


def test_channels_that_are_gone_keep_no_connection():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(ABC)
            await line.wait_until_cut()
            left.append(line.number)

        left = []
        async with supplier(behave) as there, open_egress() as out:
            for name in ("a", "b"):
                await call_upstream(out.get_upstream(build_channel(name), DIRECT), there.url)
            out.retain_only({"b", "c"})
            await until(lambda: left)
            assert left == [0]

    asyncio.run(run())


def test_closing_cuts_calls_in_progress_of_changed_channels_too():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(OK + b"Content-Length: 6\r\n\r\nabc")
            await line.wait_until_cut()

        async with supplier(behave) as there:
            out = Egress()
            request = UpstreamRequest("POST", there.url, timeouts=PATIENT)
            async with out.get_upstream(build_channel(), DIRECT).send(request) as response:
                out.forget("a")
                await asyncio.sleep(0)
                await out.close()
                with pytest.raises(SupplierUnreachable):
                    await response.read()

    asyncio.run(run())


def test_a_wrong_transport_is_refused_and_the_old_way_is_left_as_it_was():
    async def run():
        async with open_egress() as out:
            one = out.get_upstream(build_channel(), DIRECT)
            with pytest.raises(BadRequest):
                out.get_upstream(build_channel(), ChannelTransport("http", "ftp://x"))
            with pytest.raises(BadRequest):
                out.get_upstream(build_channel(), ChannelTransport("vpn", "ss://x"))
            assert out.get_upstream(build_channel(), DIRECT) is one

    asyncio.run(run())


def test_all_channels_share_the_worlds_certificates():
    assert upstream_module._get_default_tls_context() is upstream_module._get_default_tls_context()
