"""A channel's VPN: a real shadowsocks server and client on loopback."""

import asyncio
import base64
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from agentd.core.errors import SupplierUnreachable
from agentd.gateway.channels.egress import Egress
from agentd.gateway.channels.model import Channel
from agentd.gateway.vpn import manager as vpn_module
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.manager import Vpns
from agentd.gateway.vpn.process import VpnEngine
from agentd.gateway.vpn.subscription import parse_single
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest
from agentd.storage.yaml.untrusted import parse_untrusted_yaml as yaml
from agentd.system.orphans import kill_orphans_now
from agentd.system.process import MARK
from tests.conftest import until
from tests.llm.upstream.test_dial import resolve_to
from tests.support.loopback import OK, PATIENT, advance_loop_clock, answer_each, supplier
from tests.support.ports import find_free_port
from tests.support.proxies import running_program

ABC = OK + b"Content-Length: 3\r\n\r\nabc"
OURS, KILLED = f"g{os.getpid()}", f"killed{os.getpid()}"
"""Generations of state folders: of no other tests that run on this machine."""
METHOD, PASSWORD = "aes-256-gcm", "p4ssw0rd-of-the-server"

pytestmark = pytest.mark.skipif(
    not (shutil.which("ss-local") and shutil.which("ss-server")),
    reason="no shadowsocks-libev on this machine",
)


def build_channel(*, local=True) -> Channel:
    return Channel(name="a", dialects=("openai-chat",), url="http://x", local=local)


def build_link(port: int, password=PASSWORD, host="127.0.0.1") -> str:
    login = base64.urlsafe_b64encode(f"{METHOD}:{password}".encode()).decode()
    return f"ss://{login}@{host}:{port}#there"


@asynccontextmanager
async def running_shadowsocks(folder, port=0):
    """A shadowsocks server, by its port."""
    port = port or find_free_port()
    settings = folder / "ss-server.json"
    settings.write_text(
        json.dumps(
            {
                "server": "127.0.0.1",
                "server_port": port,
                "password": PASSWORD,
                "method": METHOD,
                "timeout": 60,
            }
        )
    )
    async with running_program("ss-server", "-c", str(settings), port=port):
        yield port


@asynccontextmanager
async def open_egress():
    made = Egress(Vpns(OURS, Subscriptions(yaml), {"sing-box": "", "xray": ""}))
    try:
        yield made
    finally:
        await made.close()


async def call_upstream(upstream, url: str) -> bytes:
    async with upstream.send(UpstreamRequest("POST", url, timeouts=PATIENT)) as response:
        return await response.read()


def list_engine_pids(generation: str = OURS) -> list[int]:
    mark, found = f"{generation}.vpn.a", []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                continue
    return found


def read_command_line(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode()


def test_calls_go_through_the_server_and_its_engine_ends_with_the_channel(tmp_path):
    async def run():
        async with (
            running_shadowsocks(tmp_path) as port,
            supplier(answer_each(ABC)) as there,
            open_egress() as out,
        ):
            transport = ChannelTransport("vpn", build_link(port))
            upstream = out.get_upstream(build_channel(), transport)
            assert not list_engine_pids()
            for _ in range(3):
                assert await call_upstream(upstream, there.url) == b"abc"
            assert len(there.lines) == 1
            (engine,) = list_engine_pids()
            assert PASSWORD not in read_command_line(engine)
            out.forget("a")
            await until(lambda: not list_engine_pids())

    asyncio.run(run())


@pytest.mark.skipif(not shutil.which("v2ray"), reason="no v2ray on this machine")
def test_an_engine_that_asks_callers_who_they_are_lets_us_in_alone(tmp_path):
    """V2Ray takes what it has in common with Xray."""
    fake = tmp_path / "xray"
    fake.write_text("#!/bin/sh\nexec v2ray -config stdin:\n")
    fake.chmod(0o755)

    async def run():
        out = Egress(Vpns(OURS, Subscriptions(yaml), {"xray": str(fake), "sing-box": ""}))
        async with running_shadowsocks(tmp_path) as port, supplier(answer_each(ABC)) as there:
            try:
                upstream = out.get_upstream(
                    build_channel(), ChannelTransport("vpn", build_link(port))
                )
                assert await call_upstream(upstream, there.url) == b"abc"
                door = (await out._exits["a"].tunnel._ensure_running("x")).local
                for login in ("", "user:wrong@"):
                    url = f"socks5://{login}127.0.0.1:{door.port}"
                    other = out.get_upstream(
                        msgspec.structs.replace(build_channel(), name="b"),
                        ChannelTransport("socks5", url),
                    )
                    with pytest.raises(SupplierUnreachable):
                        await call_upstream(other, there.url)
                assert len(there.lines) == 1
            finally:
                await out.close()

    asyncio.run(run())


def test_a_public_servers_name_is_resolved_once_and_by_us(monkeypatch):
    resolve_to(monkeypatch, ["8.8.8.8"], ["8.8.4.4", "8.8.8.8"], ["8.8.4.4"])
    found = parse_single("trojan://p@vpn.test:443?type=ws#n").servers[0]
    at = asyncio.run(vpn_module._resolve_address(found, ""))
    assert (at.host, at.tls.name, at.transport.host) == ("8.8.8.8", "vpn.test", "vpn.test")
    assert asyncio.run(vpn_module._resolve_address(found, at.host)) == at
    assert asyncio.run(vpn_module._resolve_address(found, at.host)).host == "8.8.4.4"


def test_many_first_calls_start_one_engine(tmp_path):
    async def run():
        async with (
            running_shadowsocks(tmp_path) as port,
            supplier(answer_each(ABC)) as there,
            open_egress() as out,
        ):
            upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", build_link(port)))
            answers = await asyncio.gather(*(call_upstream(upstream, there.url) for _ in range(20)))
            assert set(answers) == {b"abc"}
            assert len(list_engine_pids()) == 1

    asyncio.run(run())


def test_a_subscriptions_server_is_found_by_its_name(tmp_path):
    async def run():
        async with running_shadowsocks(tmp_path) as port:
            body = "\n".join(
                [build_link(find_free_port()).replace("#there", "#dead"), build_link(port)]
            ).encode()
            answer = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
            async with (
                supplier(answer_each(answer)) as source,
                supplier(answer_each(ABC)) as there,
                open_egress() as out,
            ):
                upstream = out.get_upstream(
                    build_channel(), ChannelTransport("vpn", source.url, "there")
                )
                assert await call_upstream(upstream, there.url) == b"abc"
                upstream = out.get_upstream(
                    build_channel(), ChannelTransport("vpn", source.url, "elsewhere")
                )
                with pytest.raises(SupplierUnreachable, match="'elsewhere'"):
                    await call_upstream(upstream, there.url)

    asyncio.run(run())


def test_a_subscription_whose_server_has_moved_is_followed(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(vpn_module, "RECHECK_SECONDS", 0.0)

    async def run():
        async def tell(line):
            await line.read_request()
            body = output[-1].encode()
            line.say(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            line.hang_up()

        output = [build_link(find_free_port())]
        async with (
            running_shadowsocks(tmp_path) as port,
            supplier(tell) as source,
            supplier(answer_each(ABC)) as there,
            open_egress() as out,
        ):
            upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", source.url))
            with pytest.raises(SupplierUnreachable):
                await call_upstream(upstream, there.url)
            (first,) = list_engine_pids()
            output.append(build_link(port))
            while (
                first in list_engine_pids()
            ):  # the question that was begun last may be an older one
                with suppress(SupplierUnreachable):
                    await call_upstream(upstream, there.url)
            assert await call_upstream(upstream, there.url) == b"abc"
            assert not there.lines[1:]

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert "moved or changed" in caplog.text


class GatedSubscription:
    """A subscription of one server, which is told of only when it may be."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[asyncio.Event] = []

    async def read(self, url, *, local):
        self.asked.append(asyncio.Event())
        await self.asked[-1].wait()
        return parse_single(self.url)


def test_an_engine_that_starts_while_it_is_asked_about_the_one_before_is_not_lost(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(vpn_module, "RECHECK_SECONDS", -1.0)
    may_end, end = asyncio.Event(), VpnEngine.end

    async def slow(self):
        await may_end.wait()
        await end(self)

    monkeypatch.setattr(VpnEngine, "end", slow)

    async def run():
        async with running_shadowsocks(tmp_path) as port:
            output = GatedSubscription(build_link(port))
            vpn = Vpns(OURS, output, {"sing-box": "", "xray": ""})(
                build_channel(), ChannelTransport("vpn", "x")
            )

            async def dialed():
                (await vpn.dial("127.0.0.1", port)).close()

            async def begun(number):
                dialing = asyncio.create_task(dialed())
                await until(lambda: len(output.asked) >= number)
                return dialing

            dialing = await begun(1)
            output.asked[0].set()
            await dialing
            await dialed()
            await until(lambda: len(output.asked) >= 2)
            output.url = build_link(port).replace("#there", "#moved")
            output.asked[1].set()
            await until(lambda: vpn._engine is None)
            before = len(output.asked)
            dialing = await begun(before + 1)
            for asked in output.asked:
                asked.set()
            await dialing
            may_end.set()
            await vpn.close()
            await until(lambda: not list_engine_pids())

    asyncio.run(run())


def test_a_server_that_is_dead_leaves_the_channel_dead_and_never_direct(tmp_path):
    async def run():
        async with supplier(answer_each(ABC)) as there, open_egress() as out:
            upstream = out.get_upstream(
                build_channel(), ChannelTransport("vpn", build_link(find_free_port()))
            )
            for _ in range(3):
                with pytest.raises(SupplierUnreachable):
                    await call_upstream(upstream, there.url)
            assert not there.lines

    asyncio.run(run())


def test_a_wrong_password_leaves_the_channel_dead_and_never_direct(tmp_path):
    async def run():
        async with (
            running_shadowsocks(tmp_path) as port,
            supplier(answer_each(ABC)) as there,
            open_egress() as out,
        ):
            upstream = out.get_upstream(
                build_channel(), ChannelTransport("vpn", build_link(port, "wrong"))
            )
            request = UpstreamRequest("POST", there.url, timeouts=Timeouts(5, 1, 1, 2))
            with pytest.raises(SupplierUnreachable):
                async with upstream.send(request) as response:
                    await response.read()
            assert not there.lines

    asyncio.run(run())


def test_an_engine_that_ended_is_started_again_but_not_too_often(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(vpn_module, "FIRST_PAUSE", 60.0)

    async def run():
        async with (
            running_shadowsocks(tmp_path) as port,
            supplier(answer_each(ABC)) as there,
            open_egress() as out,
        ):
            upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", build_link(port)))
            assert await call_upstream(upstream, there.url) == b"abc"
            (first,) = list_engine_pids()
            os.kill(first, signal.SIGKILL)
            await until(lambda: "is down" in caplog.text)
            with pytest.raises(SupplierUnreachable, match="next attempt in") as caught:
                await upstream._dial("supplier.test", 80)
            assert caught.value.stage == "proxy"
            advance_loop_clock(60.0)
            assert await call_upstream(upstream, there.url) == b"abc"
            assert list_engine_pids() not in ([], [first])

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert PASSWORD not in caplog.text


def test_no_engine_for_a_server_is_reported_with_what_to_install(tmp_path):
    async def run():
        async with open_egress() as out:
            url = "trojan://s3cret@127.0.0.1:1#x"
            upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", url))
            with pytest.raises(SupplierUnreachable, match="install sing-box or xray") as caught:
                await call_upstream(upstream, "http://supplier.test")
            assert "s3cret" not in caught.value.message

    asyncio.run(run())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "127.1"])
def test_a_server_inside_is_for_local_channels_alone(tmp_path, host):
    async def run():
        async with running_shadowsocks(tmp_path) as port, open_egress() as out:
            upstream = out.get_upstream(
                build_channel(local=False), ChannelTransport("vpn", build_link(port, host=host))
            )
            with pytest.raises(SupplierUnreachable, match="local: true"):
                await call_upstream(upstream, "http://supplier.test")
            assert not list_engine_pids()

    asyncio.run(run())


def test_a_program_that_ends_at_once_is_reported_by_its_last_words_without_secrets(tmp_path):
    fake = tmp_path / "ss-local"
    fake.write_text("#!/bin/sh\ncat /dev/stdin; echo; echo cannot go on; exit 1\n")
    fake.chmod(0o755)

    async def run():
        vpns = Vpns(OURS, Subscriptions(yaml), {"ss-local": str(fake), "sing-box": "", "xray": ""})
        out = Egress(vpns)
        try:
            upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", build_link(1)))
            with pytest.raises(SupplierUnreachable, match="cannot go on") as caught:
                await call_upstream(upstream, "http://supplier.test")
            assert PASSWORD not in caught.value.message
            assert "***" in caught.value.message
        finally:
            await out.close()

    asyncio.run(run())


def test_closing_while_an_engine_starts_leaves_nothing_behind(tmp_path):
    fake = tmp_path / "ss-local"
    fake.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    fake.chmod(0o755)

    async def run():
        vpns = Vpns(OURS, Subscriptions(yaml), {"ss-local": str(fake), "sing-box": "", "xray": ""})
        out = Egress(vpns)
        upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", build_link(1)))
        call = asyncio.create_task(call_upstream(upstream, "http://supplier.test"))
        await until(lambda: len(list_engine_pids()) == 3)
        call.cancel()
        await asyncio.wait([call])
        assert list_engine_pids()  # it goes on to start for the next call
        await out.close()
        await until(lambda: not list_engine_pids())

    asyncio.run(run())


def test_a_client_that_waits_for_an_engine_that_is_not_to_start_any_more_is_informed(tmp_path):
    """He hears that the VPN is down: the end of its start is not his own."""
    fake = tmp_path / "ss-local"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)

    async def run():
        vpns = Vpns(OURS, Subscriptions(yaml), {"ss-local": str(fake), "sing-box": "", "xray": ""})
        out = Egress(vpns)
        upstream = out.get_upstream(build_channel(), ChannelTransport("vpn", build_link(1)))
        call = asyncio.create_task(call_upstream(upstream, "http://supplier.test"))
        await until(list_engine_pids)
        out.forget("a")
        await asyncio.wait([call])
        assert not call.cancelled()
        with pytest.raises(SupplierUnreachable, match="The VPN is down") as caught:
            call.result()
        assert caught.value.stage == "proxy"
        await out.close()
        await until(lambda: not list_engine_pids())

    asyncio.run(run())


CHILD = """
import asyncio, sys
from agentd.storage.yaml.untrusted import parse_untrusted_yaml
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.manager import Vpns
from agentd.gateway.channels.model import Channel
from agentd.llm.endpoint import ChannelTransport

async def main():
    vpns = Vpns(sys.argv[2], Subscriptions(parse_untrusted_yaml), {"sing-box": "", "xray": ""})
    channel = Channel(name="a", dialects=("openai-chat",), url="http://x", local=True)
    vpn = vpns(channel, ChannelTransport("vpn", sys.argv[1]))
    await vpn._ensure_running("x")
    print("up", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("by", ["kernel", "next start"])
def test_a_killed_daemon_leaves_no_engine_behind(tmp_path, by):
    env = dict(os.environ)
    if by == "kernel":
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv on this machine")
    else:  # as on a machine without setpriv
        (tmp_path / "ss-local").symlink_to(shutil.which("ss-local"))
        env["PATH"] = str(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(CHILD), build_link(1), KILLED]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "up\n"
        assert len(list_engine_pids(KILLED)) == 1
        child.kill()
    if by == "next start":
        assert len(list_engine_pids(KILLED)) == 1
        assert kill_orphans_now(KILLED) == 1
    asyncio.run(until(lambda: not list_engine_pids(KILLED)))
