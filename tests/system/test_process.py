"""A program is run to its end, within limits, and nothing of it is left."""

import asyncio
import os
import sys
import time
from asyncio.base_subprocess import BaseSubprocessTransport

import pytest

from agentd.core.errors import Unavailable
from agentd.system.process import Finished, build_environment, run
from tests.conftest import until
from tests.support.transports import note_transports
from tests.support.waiting import wait_until_gone


def run_python(source: str, **more) -> Finished:
    more.setdefault("folder", "/")
    return asyncio.run(run([sys.executable, "-c", source], **more))


def test_output_errors_and_code_are_reported():
    ended = run_python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert ended == Finished(3, b"out\n", b"err\n")


def test_the_input_arrives_whole_and_ends():
    given = b"x" * 3_000_000
    ended = run_python("import sys; print(len(sys.stdin.buffer.read()))", given=given)
    assert ended.output == b"3000000\n"


def test_input_that_nobody_reads_is_no_error():
    assert run_python("pass", given=b"x" * 3_000_000).code == 0


def test_without_input_there_is_an_end_at_once():
    assert run_python("import sys; print(sys.stdin.read() == '')").output == b"True\n"


def test_arguments_pass_through_no_shell(tmp_path):
    argument = "; touch canary `touch canary` $(touch canary)"
    ended = asyncio.run(run(["echo", argument], folder=str(tmp_path)))
    assert ended.output.decode() == argument + "\n"
    assert os.listdir(tmp_path) == []


def test_our_own_environment_does_not_reach_it(monkeypatch):
    monkeypatch.setenv("AGENT_API_KEY", "canary")
    monkeypatch.setenv("GIT_DIR", "canary")
    monkeypatch.setenv("LC_TIME", "C")
    ended = run_python("import os; print(dict(os.environ))")
    assert b"canary" not in ended.output
    assert b"LC_TIME" in ended.output
    assert b"PATH" in ended.output
    assert build_environment(X="1")["X"] == "1"


def test_a_late_program_is_killed_with_its_children(tmp_path):
    source = (
        "import subprocess, sys; c = subprocess.Popen(['sleep', '60']);"
        "print(c.pid, flush=True); c.wait()"
    )
    for patience in (1.0, 5.0, 30.0):  # it must have come so far as to tell
        ended = run_python(source, timeout=patience)
        assert ended.late
        assert ended.code < 0
        if ended.output:
            break
    wait_until_gone(int(ended.output))


def test_a_child_left_behind_is_killed_too():
    source = (
        "import subprocess; d = subprocess.DEVNULL;"
        "c = subprocess.Popen(['sleep', '60'], stdin=d, stdout=d, stderr=d); print(c.pid)"
    )
    ended = run_python(source)
    assert not ended.late
    wait_until_gone(int(ended.output))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_loud_program_is_cut_and_ended(stream):
    source = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
    ended = run_python(source, limit=100_000, timeout=100)
    assert ended.truncated
    assert not ended.late
    assert max(len(ended.output), len(ended.errors)) == 100_000


def test_output_of_exactly_the_limit_is_not_cut():
    ended = run_python("print('x' * 9)", limit=10)
    assert (ended.output, ended.truncated) == (b"x" * 9 + b"\n", False)


def test_cancelling_kills_the_whole_group(tmp_path):
    pids = tmp_path / "pids"
    source = (
        "import os, subprocess, time; c = subprocess.Popen(['sleep', '60']);"
        f"open({str(pids) + '~'!r}, 'w').write(f'{{os.getpid()}} {{c.pid}}');"
        f"os.rename({str(pids) + '~'!r}, {str(pids)!r}); time.sleep(60)"
    )

    async def run_scenario() -> None:
        task = asyncio.create_task(run([sys.executable, "-c", source], folder="/"))
        await until(pids.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run_scenario())
    for pid in map(int, pids.read_text().split()):
        wait_until_gone(pid)


@pytest.mark.parametrize("rounds", range(1, 9))
def test_cancelling_while_it_starts_kills_what_it_started_already(tmp_path, rounds):
    """Whatever the loop has done of the start by then, and however far the program came."""
    pid = tmp_path / "pid"
    command = f"sleep 60 & echo $! > {pid}~; mv {pid}~ {pid}; wait"

    async def run_scenario() -> None:
        task = asyncio.create_task(run(["/bin/sh", "-c", command], folder="/"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        deadline = time.monotonic() + 0.2
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop is to do nothing meanwhile
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run_scenario())
    if pid.exists():
        wait_until_gone(int(pid.read_text()))


@pytest.mark.parametrize("rounds", range(1, 9))
def test_cancelling_twice_while_it_starts_leaves_no_program(rounds):
    async def run_scenario() -> None:
        task = asyncio.create_task(run(["sleep", "300"], folder="/"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(one.is_closing() for one in made)

    with note_transports() as made:
        asyncio.run(run_scenario())
    for one in made:
        wait_until_gone(one.get_pid())


def test_it_runs_in_a_group_of_its_own():
    ended = run_python("import os; print(os.getpgrp() == os.getpid())")
    assert ended.output == b"True\n"


def test_what_cannot_be_started_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="program no-such-program is not installed"):
        asyncio.run(run(["no-such-program"], folder=str(tmp_path)))
    with pytest.raises(Unavailable, match="is not there any more"):
        asyncio.run(run(["true"], folder=str(tmp_path / "gone")))
    (tmp_path / "plain").write_text("")
    with pytest.raises(Unavailable, match="cannot be started"):
        asyncio.run(run([str(tmp_path / "plain")], folder=str(tmp_path)))


def test_no_descriptor_is_left():
    async def run_scenario() -> int:
        await run(["true"], folder="/")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await run(["true"], folder="/", given=b"x")
        return len(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(run_scenario()) <= 0


def test_anyone_who_is_cancelled_when_the_program_has_just_ended_leaves_nothing_open(monkeypatch):
    """Asyncio would close it as late as it is collected, with a warning."""
    wait, close = asyncio.wait, BaseSubprocessTransport.close
    closed: list[BaseSubprocessTransport] = []

    async def wait_and_cancel(*given, **more):
        task = asyncio.current_task()
        assert task
        task.cancel()
        return await wait(*given, **more)

    def note_and_close(transport: BaseSubprocessTransport) -> None:
        closed.append(transport)
        close(transport)

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(run(["true"], folder="/"))
        assert closed
        # The end of a program that was killed is heard a moment later, while the loop still runs.
        while any(one.get_returncode() is None for one in closed):  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    monkeypatch.setattr(asyncio, "wait", wait_and_cancel)
    monkeypatch.setattr(BaseSubprocessTransport, "close", note_and_close)
    asyncio.run(main())
