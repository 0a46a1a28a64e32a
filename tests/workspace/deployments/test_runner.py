"""A deployment's program outlives us, is found again for sure, and nobody else is signalled."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentd.core.errors import Unavailable
from agentd.llm.upstream.client import HttpUpstream
from agentd.system.orphans import kill_orphans_now
from agentd.system.process import MARK
from agentd.system.process_identity import (
    Process,
    find_marked,
    kill_by_env,
    open_pidfd,
    read_identity,
)
from agentd.workspace.definitions import Deployment, HealthCheck
from agentd.workspace.deployments.deployment import DeploymentStatus
from agentd.workspace.deployments.runner import VARIABLE, DeploymentProgram, DeploymentPrograms
from tests.conftest import until


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test on a loop of its own."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**given), 90))

    return run


@pytest.fixture
def generation() -> str:
    return f"test{os.getpid()}x{time.monotonic_ns()}"


def make_programs(root: Path, generation: str) -> DeploymentPrograms:
    return DeploymentPrograms(str(root), generation, HttpUpstream())


def open_output(root: Path) -> int:
    return os.open(root / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


async def start_program(root: Path, generation: str, *command: str) -> DeploymentProgram:
    definition = Deployment(command=command)
    return await make_programs(root, generation).start(definition, "r", open_output(root))


@on_a_loop
async def test_its_end_and_code_are_reported_and_nothing_is_left(tmp_path, generation):
    script = "setsid sleep 100 & sleep 100 & echo said; exit 5"
    program = await start_program(tmp_path, generation, "sh", "-c", script)
    assert await program.ended == 5
    assert find_marked(VARIABLE, f"{generation}.r") == []
    assert (tmp_path / "output").read_text() == "said\n"


@on_a_loop
async def test_a_signal_reaches_the_whole_group(tmp_path, generation):
    program = await start_program(tmp_path, generation, "sh", "-c", "sleep 100 & wait")
    await until(lambda: len(find_marked(VARIABLE, f"{generation}.r")) == 2)
    program.terminate()
    assert await program.ended == -signal.SIGTERM
    program.kill()  # its number may be a stranger's by now: nothing happens
    assert find_marked(VARIABLE, f"{generation}.r") == []


@on_a_loop
async def test_it_does_not_bear_the_mark_of_the_agents_programs(tmp_path, generation, monkeypatch):
    monkeypatch.setenv(MARK, f"{generation}.1.2")
    program = await start_program(tmp_path, generation, "sleep", "100")
    try:
        assert kill_orphans_now(generation) == 0
        assert not program.ended.done()
    finally:
        program.kill()
        await program.ended


@on_a_loop
async def test_one_that_was_let_go_goes_on_and_is_found_again(tmp_path, generation):
    program = await start_program(tmp_path, generation, "sleep", "100")
    program.release()
    status = DeploymentStatus("web", run="r", process=program.process)
    found = await make_programs(tmp_path, generation).find(status)
    assert found
    assert found.process == program.process
    found.terminate()
    assert await found.ended == -signal.SIGTERM


@on_a_loop
async def test_one_whose_process_nobody_wrote_down_is_found_by_its_mark(tmp_path, generation):
    program = await start_program(tmp_path, generation, "sh", "-c", "sleep 100 & wait")
    # The kernel tells that a program runs a moment before it shows the program's environment.
    await until(lambda: len(find_marked(VARIABLE, f"{generation}.r")) == 2)
    program.release()
    found = await make_programs(tmp_path, generation).find(DeploymentStatus("web", run="r"))
    assert found
    assert found.process == program.process
    found.kill()
    await found.ended


@on_a_loop
async def test_a_stranger_with_its_number_is_never_taken_for_it(tmp_path, generation):
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as stranger:  # noqa: ASYNC220
        try:
            process = read_identity(stranger.pid)
            for other in (
                msgspec.structs.replace(process, started=process.started - 1),
                msgspec.structs.replace(process, boot="another"),
            ):
                status = DeploymentStatus("web", run="r", process=other)
                assert await make_programs(tmp_path, generation).find(status) is None
            assert stranger.poll() is None
        finally:
            stranger.kill()


@on_a_loop
async def test_what_a_dead_leader_left_is_ended_when_it_is_looked_for(tmp_path, generation):
    variable = {VARIABLE: f"{generation}.r"}
    with subprocess.Popen(["sleep", "100"], env={**os.environ, **variable}) as rest:  # noqa: ASYNC220
        status = DeploymentStatus("web", run="r", process=Process(2**22 - 1, 1, "boot"))
        assert await make_programs(tmp_path, generation).find(status) is None
        assert rest.wait(60) == -signal.SIGKILL


@on_a_loop
async def test_what_cannot_be_started_says_why_and_closes_its_output(tmp_path, generation):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Unavailable, match="not installed"):
        await start_program(tmp_path, generation, "no-such-program")
    assert len(os.listdir("/proc/self/fd")) == before


@on_a_loop
async def test_health_by_port_and_by_address(tmp_path, generation, monkeypatch):
    monkeypatch.setattr("agentd.workspace.deployments.runner.HEALTH_SECONDS", 60.0)
    here = make_programs(tmp_path, generation)
    answers = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n"
    status = 204

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")  # what is left unread resets the connection
        writer.write(answers % status)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = HealthCheck(url=f"http://127.0.0.1:{port}/healthz")
    assert await here.check_health(HealthCheck(port=port)) == ""
    assert await here.check_health(url) == ""
    status = 503
    assert "503" in await here.check_health(url)
    server.close()
    await server.wait_closed()
    assert "nothing listens" in await here.check_health(HealthCheck(port=port))
    assert await here.check_health(url)


@on_a_loop
async def test_a_port_that_is_open_by_ipv6_only_is_healthy(tmp_path, generation):
    here = make_programs(tmp_path, generation)
    try:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = server.sockets[0].getsockname()[1]
    assert await here.check_health(HealthCheck(port=port)) == ""
    server.close()
    await server.wait_closed()
    assert "nothing listens" in await here.check_health(HealthCheck(port=port))


def test_a_process_that_ended_is_not_held():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        process = read_identity(child.pid)
        child.wait()
        assert open_pidfd(process) is None


def test_only_what_has_the_very_mark_is_ended(generation):
    others = [
        subprocess.Popen(["sleep", "100"], env={**os.environ, VARIABLE: f"{generation}.{run}"})
        for run in ("rr", "r", "r.1")
    ]
    try:
        assert kill_by_env(VARIABLE, f"{generation}.r") == 1
        assert [other.poll() is None for other in others] == [True, False, True] or others[1].wait(
            60
        )
    finally:
        for other in others:
            other.kill()
            other.wait()
