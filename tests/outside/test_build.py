"""Builds are run to their end, or ended whole, whatever they do and however much they say."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from agentd.errors import Unavailable
from agentd.outside.build import TELL_SECONDS, BuildPrograms, inside
from agentd.outside.process import MARK
from agentd.outside.strays import end_strays_now
from agentd.workspace.building import BuildEnd
from agentd.workspace.definition import Build
from agentd.workspace.transcript import Transcript
from tests.conftest import until

MUCH = 256 * 2**20


@pytest.fixture
def generation() -> str:
    return f"test{os.getpid()}x{time.monotonic_ns()}"


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def built(root: Path, generation: str, **build) -> tuple[BuildEnd, bytes]:
    """The end of a build, and what it said; nothing of it is left."""
    transcript = Transcript()

    async def run() -> BuildEnd:
        programs = BuildPrograms(str(root), generation)
        return await programs.run(Build(**build), "1", transcript, lambda: None)

    end = asyncio.run(asyncio.wait_for(run(), 90))
    transcript.end()
    assert end_strays_now(generation) == 0
    return end, transcript.output()


def memory() -> int:
    """Bytes that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_both_outputs_and_the_code_are_told(tmp_path, generation):
    source = "import os, sys; os.write(1, b'one '); os.write(2, b'two'); sys.exit(3)"
    assert built(tmp_path, generation, command=python(source)) == (BuildEnd(3), b"one two")


def test_it_runs_in_its_folder_with_its_variables_and_none_of_ours(
    tmp_path, generation, monkeypatch
):
    monkeypatch.setenv("AGENT_API_KEY", "secret")
    (tmp_path / "sub").mkdir()
    source = "import os, sys; print(os.getcwd(), os.environ['A'], sys.stdin.read() == '',"
    source += f" os.environ['{MARK}'], 'AGENT_API_KEY' in os.environ)"
    command = python(source)
    _, output = built(tmp_path, generation, command=command, folder="sub", environment={"A": "x"})
    assert output.decode() == f"{tmp_path}/sub x True {generation}.build-1 False\n"


def test_one_that_never_ends_is_ended_in_time_with_all_that_it_started(tmp_path, generation):
    command = ("sh", "-c", "setsid sleep 100 & sleep 100 & echo begun; exec sleep 100")
    for patience in (1, 5, 50):  # it must have come so far as to tell
        end, output = built(tmp_path, generation, command=command, timeout=patience)
        assert end.late
        if output:
            break
    assert output == b"begun\n"


def test_what_fled_and_holds_the_output_is_ended_with_it(tmp_path, generation):
    command = ("sh", "-c", "setsid sleep 100 & echo done")
    assert built(tmp_path, generation, command=command) == (BuildEnd(0), b"done\n")


def test_one_that_closes_its_output_and_goes_on_is_waited_for(tmp_path, generation):
    command = ("sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4")
    assert built(tmp_path, generation, command=command) == (BuildEnd(4), b"")


def test_much_output_takes_no_memory(tmp_path, generation):
    before = memory()
    end, output = built(tmp_path, generation, command=("sh", "-c", f"yes | head -c {MUCH}"))
    assert end == BuildEnd(0)
    assert memory() - before < 60 * 2**20
    assert len(output) < 11 * 2**20
    assert b"bytes are left out here" in output


def test_cancelling_ends_it_whole(tmp_path, generation):
    async def test() -> None:
        programs, transcript = BuildPrograms(str(tmp_path), generation), Transcript()
        build = Build(command=("sh", "-c", "setsid sleep 100 & echo begun; sleep 100"))
        run = asyncio.create_task(programs.run(build, "1", transcript, lambda: None))
        await until(transcript.output)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert end_strays_now(generation) == 0

    asyncio.run(test())


def test_news_are_gathered(tmp_path, generation):
    told = []
    began = time.monotonic()

    async def test() -> None:
        transcript = Transcript()
        source = "for _ in range(2000): print('x', flush=True)"
        programs = BuildPrograms(str(tmp_path), generation)
        await programs.run(
            Build(command=python(source)), "1", transcript, lambda: told.append(transcript.news())
        )

    asyncio.run(test())
    assert 1 <= len(told) < 2 + (time.monotonic() - began) / TELL_SECONDS


@pytest.mark.parametrize(
    ("build", "why"),
    [
        ({"command": ("no-such-program",)}, "not installed"),
        ({"command": ("true",), "folder": "gone"}, "no folder gone"),
        ({"command": ("true",), "folder": "out"}, "leads out"),
    ],
)
def test_what_cannot_be_started_says_why(tmp_path, generation, build, why):
    (tmp_path / "out").symlink_to("/tmp")
    with pytest.raises(Unavailable, match=why):
        built(tmp_path, generation, **build)


def test_a_link_inside_the_workspace_is_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    assert inside(str(tmp_path), "b") == str(tmp_path / "a")
