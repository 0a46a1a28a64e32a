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

from agentd.disk.clash import read as yaml
from agentd.errors import SupplierUnreachable
from agentd.outside import vpn as vpn_module
from agentd.outside.egress import Egress
from agentd.outside.process import MARK
from agentd.outside.strays import end_strays_now
from agentd.outside.subscription import Subscriptions
from agentd.outside.vpn import Vpns
from agentd.outside.vpn_engine import VpnEngine
from agentd.proxy.channel import Channel, Transport
from agentd.proxy.upstream import Request, Timeouts
from agentd.proxy.vpn.subscription import single
from tests.conftest import until
from tests.outside.loopback import OK, PATIENT, let_pass, repeated, supplier
from tests.outside.proxies import program
from tests.outside.test_dialing import answering
from tests.ports import free_port

ABC = OK + b"Content-Length: 3\r\n\r\nabc"
OURS, KILLED = f"g{os.getpid()}", f"killed{os.getpid()}"
"""Generations of state folders: of no other tests that run on this machine."""
METHOD, PASSWORD = "aes-256-gcm", "p4ssw0rd-of-the-server"

pytestmark = pytest.mark.skipif(
    not (shutil.which("ss-local") and shutil.which("ss-server")),
    reason="no shadowsocks-libev on this machine",
)


def channel(*, local=True) -> Channel:
    return Channel(name="a", dialects=("openai-chat",), url="http://x", local=local)


def link(port: int, password=PASSWORD, host="127.0.0.1") -> str:
    login = base64.urlsafe_b64encode(f"{METHOD}:{password}".encode()).decode()
    return f"ss://{login}@{host}:{port}#there"


@asynccontextmanager
async def shadowsocks(folder, port=0):
    """A server, by its port."""
    port = port or free_port()
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
    async with program("ss-server", "-c", str(settings), port=port):
        yield port


@asynccontextmanager
async def egress():
    made = Egress(Vpns(OURS, Subscriptions(yaml), {"sing-box": "", "xray": ""}))
    try:
        yield made
    finally:
        await made.close()


async def called(upstream, url: str) -> bytes:
    async with upstream.send(Request("POST", url, timeouts=PATIENT)) as response:
        return await response.read()


def engines(generation: str = OURS) -> list[int]:
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


def command_line(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode()


def test_calls_go_through_the_server_and_its_engine_ends_with_the_channel(tmp_path):
    async def run():
        async with shadowsocks(tmp_path) as port, supplier(repeated(ABC)) as there, egress() as out:
            transport = Transport("vpn", link(port))
            upstream = out.upstream(channel(), transport)
            assert not engines()
            for _ in range(3):
                assert await called(upstream, there.url) == b"abc"
            assert len(there.lines) == 1
            (engine,) = engines()
            assert PASSWORD not in command_line(engine)
            out.forget("a")
            await until(lambda: not engines())

    asyncio.run(run())


@pytest.mark.skipif(not shutil.which("v2ray"), reason="no v2ray on this machine")
def test_an_engine_that_asks_callers_who_they_are_lets_us_in_alone(tmp_path):
    """V2Ray takes what it has in common with Xray."""
    fake = tmp_path / "xray"
    fake.write_text("#!/bin/sh\nexec v2ray -config stdin:\n")
    fake.chmod(0o755)

    async def run():
        out = Egress(Vpns(OURS, Subscriptions(yaml), {"xray": str(fake), "sing-box": ""}))
        async with shadowsocks(tmp_path) as port, supplier(repeated(ABC)) as there:
            try:
                upstream = out.upstream(channel(), Transport("vpn", link(port)))
                assert await called(upstream, there.url) == b"abc"
                door = (await out._ways["a"].tunnel._up("x")).local
                for login in ("", "user:wrong@"):
                    url = f"socks5://{login}127.0.0.1:{door.port}"
                    other = out.upstream(
                        msgspec.structs.replace(channel(), name="b"), Transport("socks5", url)
                    )
                    with pytest.raises(SupplierUnreachable):
                        await called(other, there.url)
                assert len(there.lines) == 1
            finally:
                await out.close()

    asyncio.run(run())


def test_a_public_servers_name_is_resolved_once_and_by_us(monkeypatch):
    answering(monkeypatch, ["8.8.8.8"], ["8.8.4.4", "8.8.8.8"], ["8.8.4.4"])
    found = single("trojan://p@vpn.test:443?type=ws#n").servers[0]
    at = asyncio.run(vpn_module._looked_at(found, ""))
    assert (at.host, at.tls.name, at.carriage.host) == ("8.8.8.8", "vpn.test", "vpn.test")
    assert asyncio.run(vpn_module._looked_at(found, at.host)) == at
    assert asyncio.run(vpn_module._looked_at(found, at.host)).host == "8.8.4.4"


def test_many_first_calls_start_one_engine(tmp_path):
    async def run():
        async with shadowsocks(tmp_path) as port, supplier(repeated(ABC)) as there, egress() as out:
            upstream = out.upstream(channel(), Transport("vpn", link(port)))
            answers = await asyncio.gather(*(called(upstream, there.url) for _ in range(20)))
            assert set(answers) == {b"abc"}
            assert len(engines()) == 1

    asyncio.run(run())


def test_a_subscriptions_server_is_found_by_its_name(tmp_path):
    async def run():
        async with shadowsocks(tmp_path) as port:
            body = "\n".join([link(free_port()).replace("#there", "#dead"), link(port)]).encode()
            answer = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
            async with (
                supplier(repeated(answer)) as source,
                supplier(repeated(ABC)) as there,
                egress() as out,
            ):
                upstream = out.upstream(channel(), Transport("vpn", source.url, "there"))
                assert await called(upstream, there.url) == b"abc"
                upstream = out.upstream(channel(), Transport("vpn", source.url, "elsewhere"))
                with pytest.raises(SupplierUnreachable, match="'elsewhere'"):
                    await called(upstream, there.url)

    asyncio.run(run())


def test_a_subscription_whose_server_has_moved_is_followed(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(vpn_module, "LOOK_SECONDS", 0.0)

    async def run():
        async def tell(line):
            await line.heard()
            body = told[-1].encode()
            line.say(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            line.hang_up()

        told = [link(free_port())]
        async with (
            shadowsocks(tmp_path) as port,
            supplier(tell) as source,
            supplier(repeated(ABC)) as there,
            egress() as out,
        ):
            upstream = out.upstream(channel(), Transport("vpn", source.url))
            with pytest.raises(SupplierUnreachable):
                await called(upstream, there.url)
            (first,) = engines()
            told.append(link(port))
            while first in engines():  # the question that was begun last may be an older one
                with suppress(SupplierUnreachable):
                    await called(upstream, there.url)
            assert await called(upstream, there.url) == b"abc"
            assert not there.lines[1:]

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert "moved or changed" in caplog.text


class Gated:
    """A subscription of one server, which is told of only when it may be."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[asyncio.Event] = []

    async def read(self, url, *, local):
        self.asked.append(asyncio.Event())
        await self.asked[-1].wait()
        return single(self.url)


def test_an_engine_that_starts_while_it_is_asked_about_the_one_before_is_not_lost(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(vpn_module, "LOOK_SECONDS", -1.0)
    may_end, end = asyncio.Event(), VpnEngine.end

    async def slow(self):
        await may_end.wait()
        await end(self)

    monkeypatch.setattr(VpnEngine, "end", slow)

    async def run():
        async with shadowsocks(tmp_path) as port:
            told = Gated(link(port))
            vpn = Vpns(OURS, told, {"sing-box": "", "xray": ""})(channel(), Transport("vpn", "x"))

            async def dialed():
                (await vpn.dial("127.0.0.1", port)).close()

            async def begun(number):
                dialing = asyncio.create_task(dialed())
                await until(lambda: len(told.asked) >= number)
                return dialing

            dialing = await begun(1)
            told.asked[0].set()
            await dialing
            await dialed()
            await until(lambda: len(told.asked) >= 2)
            told.url = link(port).replace("#there", "#moved")
            told.asked[1].set()
            await until(lambda: vpn._engine is None)
            before = len(told.asked)
            dialing = await begun(before + 1)
            for asked in told.asked:
                asked.set()
            await dialing
            may_end.set()
            await vpn.close()
            await until(lambda: not engines())

    asyncio.run(run())


def test_a_server_that_is_dead_leaves_the_channel_dead_and_never_direct(tmp_path):
    async def run():
        async with supplier(repeated(ABC)) as there, egress() as out:
            upstream = out.upstream(channel(), Transport("vpn", link(free_port())))
            for _ in range(3):
                with pytest.raises(SupplierUnreachable):
                    await called(upstream, there.url)
            assert not there.lines

    asyncio.run(run())


def test_a_wrong_password_leaves_the_channel_dead_and_never_direct(tmp_path):
    async def run():
        async with shadowsocks(tmp_path) as port, supplier(repeated(ABC)) as there, egress() as out:
            upstream = out.upstream(channel(), Transport("vpn", link(port, "wrong")))
            request = Request("POST", there.url, timeouts=Timeouts(5, 1, 1, 2))
            with pytest.raises(SupplierUnreachable):
                async with upstream.send(request) as response:
                    await response.read()
            assert not there.lines

    asyncio.run(run())


def test_an_engine_that_ended_is_started_again_but_not_too_often(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(vpn_module, "FIRST_PAUSE", 60.0)

    async def run():
        async with shadowsocks(tmp_path) as port, supplier(repeated(ABC)) as there, egress() as out:
            upstream = out.upstream(channel(), Transport("vpn", link(port)))
            assert await called(upstream, there.url) == b"abc"
            (first,) = engines()
            os.kill(first, signal.SIGKILL)
            await until(lambda: "is down" in caplog.text)
            with pytest.raises(SupplierUnreachable, match="tried again in") as caught:
                await upstream._dial("supplier.test", 80)
            assert caught.value.stage == "proxy"
            let_pass(60.0)
            assert await called(upstream, there.url) == b"abc"
            assert engines() not in ([], [first])

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert PASSWORD not in caplog.text


def test_no_engine_for_a_server_is_told_with_what_to_install(tmp_path):
    async def run():
        async with egress() as out:
            url = "trojan://s3cret@127.0.0.1:1#x"
            upstream = out.upstream(channel(), Transport("vpn", url))
            with pytest.raises(SupplierUnreachable, match="install sing-box or xray") as caught:
                await called(upstream, "http://supplier.test")
            assert "s3cret" not in caught.value.message

    asyncio.run(run())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "127.1"])
def test_a_server_inside_is_for_local_channels_alone(tmp_path, host):
    async def run():
        async with shadowsocks(tmp_path) as port, egress() as out:
            upstream = out.upstream(channel(local=False), Transport("vpn", link(port, host=host)))
            with pytest.raises(SupplierUnreachable, match="local: true"):
                await called(upstream, "http://supplier.test")
            assert not engines()

    asyncio.run(run())


def test_a_program_that_ends_at_once_is_told_by_its_last_words_without_secrets(tmp_path):
    fake = tmp_path / "ss-local"
    fake.write_text("#!/bin/sh\ncat /dev/stdin; echo; echo cannot go on; exit 1\n")
    fake.chmod(0o755)

    async def run():
        vpns = Vpns(OURS, Subscriptions(yaml), {"ss-local": str(fake), "sing-box": "", "xray": ""})
        out = Egress(vpns)
        try:
            upstream = out.upstream(channel(), Transport("vpn", link(1)))
            with pytest.raises(SupplierUnreachable, match="cannot go on") as caught:
                await called(upstream, "http://supplier.test")
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
        upstream = out.upstream(channel(), Transport("vpn", link(1)))
        call = asyncio.create_task(called(upstream, "http://supplier.test"))
        await until(lambda: len(engines()) == 3)
        call.cancel()
        await asyncio.wait([call])
        assert engines()  # it goes on to start for the next call
        await out.close()
        await until(lambda: not engines())

    asyncio.run(run())


def test_who_waits_for_an_engine_that_is_not_to_start_any_more_is_told_so(tmp_path):
    """He hears that the VPN is down: the end of its start is not his own."""
    fake = tmp_path / "ss-local"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)

    async def run():
        vpns = Vpns(OURS, Subscriptions(yaml), {"ss-local": str(fake), "sing-box": "", "xray": ""})
        out = Egress(vpns)
        upstream = out.upstream(channel(), Transport("vpn", link(1)))
        call = asyncio.create_task(called(upstream, "http://supplier.test"))
        await until(engines)
        out.forget("a")
        await asyncio.wait([call])
        assert not call.cancelled()
        with pytest.raises(SupplierUnreachable, match="The VPN is down") as caught:
            call.result()
        assert caught.value.stage == "proxy"
        await out.close()
        await until(lambda: not engines())

    asyncio.run(run())


CHILD = """
import asyncio, sys
from agentd.disk.clash import read
from agentd.outside.subscription import Subscriptions
from agentd.outside.vpn import Vpns
from agentd.proxy.channel import Channel, Transport

async def main():
    vpns = Vpns(sys.argv[2], Subscriptions(read), {"sing-box": "", "xray": ""})
    channel = Channel(name="a", dialects=("openai-chat",), url="http://x", local=True)
    vpn = vpns(channel, Transport("vpn", sys.argv[1]))
    await vpn._up("x")
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
    command = [sys.executable, "-c", textwrap.dedent(CHILD), link(1), KILLED]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "up\n"
        assert len(engines(KILLED)) == 1
        child.kill()
    if by == "next start":
        assert len(engines(KILLED)) == 1
        assert end_strays_now(KILLED) == 1
    asyncio.run(until(lambda: not engines(KILLED)))
