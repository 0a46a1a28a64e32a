"""A command line is run, told in part when it says much, and nothing of it is left."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.tools import shell as terminal
from agentd.agent.tools.model import RunCommand
from agentd.agent.tools.results import CommandResult
from agentd.agent.tools.shell import KEPT, HeadTailBuffer, ShellTerminal
from agentd.core.errors import Unavailable
from tests.conftest import until
from tests.support.waiting import is_gone, wait_until_gone


def run(root: Path, command: str, seconds: int = 50, **more) -> CommandResult:
    shell = ShellTerminal(str(root), **more)
    return asyncio.run(shell.run(RunCommand(command, seconds), "turn-7"))


def test_both_outputs_come_in_their_order_with_the_code(tmp_path):
    ended = run(tmp_path, "echo one; echo two >&2; echo three; exit 4")
    assert ended == CommandResult(4, "one\ntwo\nthree\n")


def test_it_runs_in_the_workspace_by_a_shell(tmp_path):
    (tmp_path / "a b").touch()
    assert run(tmp_path, "pwd; ls | wc -l; echo $((1+1))").output == f"{tmp_path}\n1\n2\n"


def test_no_secret_of_ours_reaches_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_API_KEY", "canary")
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    said = run(tmp_path, "env").output
    assert "canary" not in said
    assert "AGENTD_TURN=turn-7\n" in said
    assert "PATH=" in said


def test_nobody_is_there_to_answer_it(tmp_path):
    assert run(tmp_path, "cat; read x || echo nothing").output == "nothing\n"


def test_new_files_get_the_persons_mode(tmp_path):
    before = os.umask(0o077)
    try:
        run(tmp_path, "touch x; mkdir d", umask=0o022)
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("bare", [True, False])
def test_git_status_runs_no_program_that_files_of_the_workspace_name(tmp_path, bare):
    """A folder that an agent wrote can be a bare repository; an unpacked one brings settings."""
    git = tmp_path if bare else tmp_path / ".git"
    for folder in ("objects", "refs/heads"):
        (git / folder).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    monitor = "touch canary; false"
    work = 'bare = false\n\tworktree = "."\n' if bare else "bare = false\n"
    (git / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "{monitor}"\n\t{work}'
    )
    run(tmp_path, "git status; git -C . status; git -c a.b=c status")
    assert not (tmp_path / "canary").exists()


def test_git_works_as_usual(tmp_path):
    identity = "git -c user.name=x -c user.email=x@y"
    said = run(tmp_path, f"git init -q . && {identity} commit -q --allow-empty -m One && git log")
    assert "One" in said.output


def test_what_takes_too_long_is_ended_with_its_children(tmp_path):
    for patience in (1, 5, 40):  # it must have come so far as to tell
        ended = run(tmp_path, "sleep 60 & echo $!; sleep 61", seconds=patience)
        assert ended.late
        assert ended.code < 0
        if ended.output:
            break
    wait_until_gone(int(ended.output))


def test_what_is_left_in_the_background_is_ended_and_not_waited_for(tmp_path):
    ended = run(tmp_path, "sleep 60 & echo $!")
    assert (ended.code, ended.late) == (0, False)
    wait_until_gone(int(ended.output))


def test_of_much_output_both_ends_are_reported(tmp_path):
    ended = run(tmp_path, "seq 1 100000; echo the end >&2; exit 1")
    assert ended.output.startswith("1\n2\n3\n")
    assert ended.output.endswith("\n100000\nthe end\n")
    assert "bytes left out …" in ended.output
    assert len(ended.output) < 2 * KEPT + 100
    assert ended.code == 1


def test_a_client_that_never_stops_talking_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(terminal, "LOUDEST", 2**20)
    ended = run(tmp_path, "yes")
    assert ended.code < 0
    assert not ended.late
    assert "wrote more than 1,048,576 bytes" in ended.output


def test_cancelling_kills_the_whole_group(tmp_path):
    pids = tmp_path / "pids"
    command = f"sleep 60 & echo $$ $! > {pids}~; mv {pids}~ {pids}; sleep 60"

    async def run_scenario() -> None:
        work = ShellTerminal(str(tmp_path)).run(RunCommand(command), "t")
        task = asyncio.ensure_future(work)
        await until(pids.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run_scenario())
    for pid in map(int, pids.read_text().split()):
        wait_until_gone(pid)


@pytest.mark.parametrize(
    "flight",
    [
        "setsid sh -c 'echo $$ > pid; exec sleep 611' > /dev/null 2>&1 &",
        "nohup setsid sh -c 'echo $$ > pid; sleep 611' > /dev/null 2>&1 & sleep 0",
        "setsid sh -c 'setsid sh -c \"echo \\$\\$ > pid; exec sleep 611\" &' > /dev/null 2>&1",
    ],
)
def test_what_fled_its_group_lives_until_the_turn_ends_and_no_longer(tmp_path, flight):
    """A server can be tried by a second command; what another turn started is left alone."""
    mark = f"test{os.getpid()}x{time.monotonic_ns()}"

    async def run_scenario() -> None:
        shell = ShellTerminal(str(tmp_path))
        await shell.run(RunCommand(f"{flight}\nuntil test -s pid; do :; done"), f"{mark}.1")
        pid = int((tmp_path / "pid").read_text())
        await shell.run(RunCommand("true"), f"{mark}.2")
        await shell.end_turn(f"{mark}.2")
        assert not is_gone(pid)
        await shell.end_turn(f"{mark}.1")
        assert is_gone(pid)

    asyncio.run(run_scenario())


def test_a_workspace_that_vanished_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="is not there any more"):
        run(tmp_path / "gone", "true")


def test_no_descriptor_is_left(tmp_path):
    async def run_scenario() -> int:
        shell = ShellTerminal(str(tmp_path))
        await shell.run(RunCommand("true"), "t")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await shell.run(RunCommand("echo x; sleep 9 &"), "t")
        return len(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(run_scenario()) <= 0


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 20))
def test_both_ends_of_a_stream_are_kept_however_it_comes(chunks, size):
    ends = HeadTailBuffer(size)
    for chunk in chunks:
        ends.add(chunk)
    whole = b"".join(chunks)
    if len(whole) <= 2 * size:
        assert ends.render() == whole.decode("utf-8", "replace")
    else:
        head, tail = (part.decode("utf-8", "replace") for part in (whole[:size], whole[-size:]))
        assert ends.render() == f"{head}\n… {len(whole) - 2 * size:,} bytes left out …\n{tail}"
