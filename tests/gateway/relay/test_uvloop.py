"""The daemon on uvloop, whose transports are of no class of asyncio's: calls, streams, ends."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agentd.core.errors import SupplierUnreachable, Unavailable
from agentd.gateway.keys.file import AccessKeyFile
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.upstream.connection import ResponseLimits, UpstreamConnection
from agentd.llm.upstream.protocol import Timeouts
from agentd.system import process
from agentd.system.dialogue import Graces, Program
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    RunningGateway,
    every_dialect,
    read_answer,
    running_gateway,
    wait_for_bytes,
)
from tests.gateway.relay.test_leaving import BEGUN
from tests.supplier.steps import Answer, Break, Say, Stall, Tokens
from tests.support.daemon import Serving
from tests.support.paths import REPOSITORY

uvloop = pytest.importorskip("uvloop")

WORDS = "one two three four five six seven eight"
USED = Tokens(input=1000, output=100)

every_supplier = pytest.mark.parametrize("supplier", DIALECTS)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        for channel in setup.channels:
            channel["cool_down"] = 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Serving, "loop_factory", staticmethod(uvloop.new_event_loop))
        with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
            assert isinstance(made.loop, uvloop.Loop)
            yield made


@every_supplier
@every_dialect
def test_a_reply_arrives_whole_and_as_a_stream(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    for stream in (False, True):
        gateway.supplier.script(Answer((Say(WORDS),), USED))
        reply = caller.ask(dialect, f"by-{CHANNELS[supplier]}", stream=stream)
        assert (reply.status, reply.whole, reply.text()) == (200, True, WORDS)
        entry = gateway.wait_for_record(reply)
        assert (entry.outcome, entry.usage.input, entry.usage.output) == ("ok", 1000, 100)


@every_dialect
def test_a_supplier_that_breaks_off_is_told_and_recorded(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(Break(BEGUN[dialect]),)))
    reply = gateway.add_caller().ask(dialect, f"by-{CHANNELS[dialect]}", stream=True)
    assert (reply.status, reply.whole, reply.ended) == (200, True, False)
    assert reply.error() and gateway.wait_for_record(reply).outcome == "broken"


@every_dialect
def test_a_stream_ends_with_its_key_and_the_supplier_is_cut_off(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    stall, caller = Stall(BEGUN[dialect]), gateway.add_caller()
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    with caller.begin_call(dialect, f"by-{CHANNELS[dialect]}") as line:
        stall.reached.result(60)
        wait_for_bytes(line, b'"one')
        AccessKeyFile(gateway.setup.layout).remove(gateway.setup.keys[-1])
        reply = read_answer(line, dialect)
    assert "revoked or expired" in reply.error()["message"]
    gateway.supplier.requests[-1].gone.result(60)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.error) == ("left", "revoked")


def test_the_supplier_is_cut_off_when_the_caller_leaves(gateway: RunningGateway) -> None:
    stall, caller = Stall(BEGUN["openai-chat"]), gateway.add_caller()
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    with caller.begin_call("openai-chat", "by-chat") as line:
        stall.reached.result(60)
        wait_for_bytes(line, b'"one')
    gateway.supplier.requests[-1].gone.result(60)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert entry.outcome == "left" and entry.cost > 0


def test_a_closed_connection_is_not_written_to() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda _, line: line.close(), "127.0.0.1", 0)
        async with server:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: UpstreamConnection("localhost", ResponseLimits(), lambda _: None),
                *server.sockets[0].getsockname(),
            )
            await connection.gone
            with pytest.raises(SupplierUnreachable, match="at once"):
                await connection.send_request(b"", bodiless=False, timeouts=Timeouts(), end=1e9)

    uvloop.run(run())


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_program_gets_its_input_and_its_umask(umask: int) -> None:
    command = ["sh", "-c", "umask; cat; echo no >&2; exit 3"]
    ended = uvloop.run(process.run(command, folder="/tmp", given=b"said", umask=umask))
    assert (ended.code, ended.output, ended.errors) == (3, b"%04o\nsaid" % umask, b"no\n")


MISSING_PROGRAM = """
import uvloop
from agentd.system import process

uvloop.run(process.run(["/nowhere/at/all"], folder="/tmp", umask=0o022))
"""


def test_a_program_that_cannot_be_started_is_told() -> None:
    # In a process of its own: what another thread starts meanwhile would inherit uvloop's pipes
    # and keep them open, so that the loop would end before them, with warnings.
    command = [sys.executable, "-W", "error", "-c", MISSING_PROGRAM]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    told = ended.stderr.splitlines()[-1]
    assert told.startswith(f"{Unavailable.__module__}.{Unavailable.__name__}: "), ended.stderr
    assert "/nowhere/at/all is not installed" in told


def test_a_program_can_be_talked_to() -> None:
    async def run() -> bytes:
        environ = {"PATH": os.environ["PATH"]}
        program = await Program.start(["sh", "-c", "umask; cat"], folder="/tmp", env=environ)
        try:
            program.write(b"said")
            said = b""
            while not said.endswith(b"said\n"):
                said += await program.read()
        finally:
            await program.end(Graces())
        return said

    assert uvloop.run(run()) == b"0022\nsaid\n"
