"""Command lines in the background: started, read, stopped, and gone with their turn."""

import asyncio
from pathlib import Path

import pytest

from agentd.agent.processes import table
from agentd.agent.processes.table import MOST_RUNNING, ProcessTable
from agentd.agent.tools.model import ReadProcess, StartProcess, StopProcess
from agentd.agent.tools.results import BackgroundOutput
from agentd.agent.tools.shell import ShellTerminal
from agentd.core.errors import BadRequest, NotFound
from tests.conftest import until
from tests.support.waiting import wait_until_gone

TURN = "g.1.1"
"""The mark of the first turn of chat 1."""


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


async def read_until(shell: ShellTerminal, number: int, wanted: str) -> BackgroundOutput:
    """Read a process until it wrote this; what it wrote since it was read last."""
    said = ""
    async with asyncio.timeout(60):
        while True:
            read = await shell.use_process(ReadProcess(number, 5), TURN)
            said += read.output
            if wanted in said:
                return read
            assert read.running, said


def test_output_is_reported_once_and_the_end_with_its_code(tmp_path: Path):
    async def run_scenario() -> None:
        shell = ShellTerminal(str(tmp_path))
        command = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 3"
        started = await shell.use_process(StartProcess(command), TURN)
        said = started.output
        if not said:
            said = (await read_until(shell, 1, "one")).output
        assert said == "one\n"
        assert started.running
        assert (await shell.use_process(ReadProcess(1), TURN)).output == ""
        (tmp_path / "go").touch()
        read = await read_until(shell, 1, "two")
        async with asyncio.timeout(60):
            while read.running:
                read = await shell.use_process(ReadProcess(1, 5), TURN)
        assert read.code == 3
        assert str(read).startswith("process 1 ended with exit code 3")

    asyncio.run(run_scenario())


def test_stopping_kills_it_with_its_children(tmp_path: Path):
    async def run_scenario() -> list[int]:
        shell = ShellTerminal(str(tmp_path))
        started = await shell.use_process(StartProcess("sleep 60 & echo $$ $!; wait"), TURN)
        said = started.output or (await read_until(shell, 1, "\n")).output
        stopped = await shell.use_process(StopProcess(1), TURN)
        assert not stopped.running
        return [int(pid) for pid in said.split()]

    pids = asyncio.run(run_scenario())
    assert len(pids) == 2
    for pid in pids:
        wait_until_gone(pid)


def test_the_end_of_the_turn_ends_its_processes_and_no_others(tmp_path: Path):
    async def run_scenario() -> None:
        shell = ShellTerminal(str(tmp_path))
        for turn in (TURN, "g.2.1"):
            await shell.use_process(StartProcess(f"sleep 60 & echo $! > {turn}; wait"), turn)
        await until(lambda: all(is_written(tmp_path / turn) for turn in (TURN, "g.2.1")))
        await shell.end_turn(TURN)
        wait_until_gone(int((tmp_path / TURN).read_text()))
        assert (await shell.use_process(ReadProcess(1), "g.2.1")).running
        with pytest.raises(NotFound, match="no process 1"):
            await shell.use_process(ReadProcess(1), TURN)
        await shell.end_turn("g.2.1")
        wait_until_gone(int((tmp_path / "g.2.1").read_text()))

    asyncio.run(run_scenario())


def test_only_so_many_run_at_once(tmp_path: Path):
    async def run_scenario() -> None:
        shell = ShellTerminal(str(tmp_path))
        for _ in range(MOST_RUNNING):
            await shell.use_process(StartProcess("sleep 60"), TURN)
        with pytest.raises(BadRequest, match="stop one"):
            await shell.use_process(StartProcess("sleep 60"), TURN)
        await shell.use_process(StopProcess(3), TURN)
        assert (await shell.use_process(StartProcess("sleep 60"), TURN)).running
        await shell.end_turn(TURN)

    asyncio.run(run_scenario())


def test_why_a_process_was_ended_that_wrote_too_much_is_told(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(table, "MOST_OUTPUT", 100_000)
    processes = ProcessTable(keeps=lambda chat_id: True)

    async def run_scenario() -> None:
        shell = ShellTerminal(str(tmp_path), processes)
        begun = await shell.use_process(StartProcess("yes"), TURN)
        read = begun if not begun.running else await read_until(shell, 1, "was ended")
        assert "… it wrote more than 100,000 bytes and was ended …" in read.output
        (listed,) = processes.list_processes(1)
        assert listed.code == -9
        assert listed.output.endswith("… it wrote more than 100,000 bytes and was ended …\n")

    asyncio.run(run_scenario())
