"""Builds are run to their end, or ended whole, whatever they do and however much they say."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from agentd.core.errors import Unavailable
from agentd.system.orphans import kill_orphans_now
from agentd.system.process import MARK
from agentd.workspace.builds.output import BuildTranscript
from agentd.workspace.builds.runner import TELL_SECONDS, BuildPrograms, resolve_inside
from agentd.workspace.builds.service import BuildEnd
from agentd.workspace.definitions import Build
from tests.conftest import until

MUCH = 256 * 2**20


@pytest.fixture
def generation() -> str:
    return f"test{os.getpid()}x{time.monotonic_ns()}"


def build_command(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def run_build(root: Path, generation: str, **build) -> tuple[BuildEnd, bytes]:
    """Run a build; return its end and its output; no process of it is left."""
    transcript = BuildTranscript()

    async def run() -> BuildEnd:
        programs = BuildPrograms(str(root), generation)
        return await programs.run(Build(**build), "1", transcript, lambda: None)

    end = asyncio.run(asyncio.wait_for(run(), 90))
    transcript.close()
    assert kill_orphans_now(generation) == 0
    return end, transcript.get_output().data


def measure_memory() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_both_outputs_and_the_code_are_reported(tmp_path, generation):
    source = "import os, sys; os.write(1, b'one '); os.write(2, b'two'); sys.exit(3)"
    assert run_build(tmp_path, generation, command=build_command(source)) == (
        BuildEnd(3),
        b"one two",
    )


def test_it_runs_in_its_folder_with_its_variables_and_none_of_ours(
    tmp_path, generation, monkeypatch
):
    monkeypatch.setenv("AGENT_API_KEY", "secret")
    (tmp_path / "sub").mkdir()
    source = "import os, sys; print(os.getcwd(), os.environ['A'], sys.stdin.read() == '',"
    source += f" os.environ['{MARK}'], 'AGENT_API_KEY' in os.environ)"
    command = build_command(source)
    _, output = run_build(
        tmp_path, generation, command=command, folder="sub", environment={"A": "x"}
    )
    assert output.decode() == f"{tmp_path}/sub x True {generation}.build-1 False\n"


def test_one_that_never_ends_is_ended_in_time_with_all_that_it_started(tmp_path, generation):
    command = ("sh", "-c", "setsid sleep 100 & sleep 100 & echo begun; exec sleep 100")
    for patience in (1, 5, 50):  # it must have come so far as to tell
        end, output = run_build(tmp_path, generation, command=command, timeout=patience)
        assert end.late
        if output:
            break
    assert output == b"begun\n"


def test_what_fled_and_holds_the_output_is_ended_with_it(tmp_path, generation):
    command = ("sh", "-c", "setsid sleep 100 & echo done")
    assert run_build(tmp_path, generation, command=command) == (BuildEnd(0), b"done\n")


def test_one_that_closes_its_output_and_goes_on_is_waited_for(tmp_path, generation):
    command = ("sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4")
    assert run_build(tmp_path, generation, command=command) == (BuildEnd(4), b"")


def test_much_output_takes_no_memory(tmp_path, generation):
    before = measure_memory()
    end, output = run_build(tmp_path, generation, command=("sh", "-c", f"yes | head -c {MUCH}"))
    assert end == BuildEnd(0)
    assert measure_memory() - before < 60 * 2**20
    assert len(output) < 11 * 2**20
    assert b"bytes are left out here" in output


def test_cancelling_ends_it_whole(tmp_path, generation):
    async def test() -> None:
        programs, transcript = BuildPrograms(str(tmp_path), generation), BuildTranscript()
        build = Build(command=("sh", "-c", "setsid sleep 100 & echo begun; sleep 100"))
        run = asyncio.create_task(programs.run(build, "1", transcript, lambda: None))
        await until(transcript.get_output)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert kill_orphans_now(generation) == 0

    asyncio.run(test())


def test_cancelling_ends_what_wiped_its_environment(tmp_path, generation):
    source = """
import resource, subprocess, time
while resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY: time.sleep(0.001)
subprocess.Popen(["sleep", "100"], env={}, start_new_session=True, stdout=subprocess.DEVNULL)
print("begun", flush=True)
time.sleep(100)
"""

    async def test() -> None:
        programs, transcript = BuildPrograms(str(tmp_path), generation), BuildTranscript()
        build = Build(command=build_command(source))
        run = asyncio.create_task(programs.run(build, "1", transcript, lambda: None))
        await until(transcript.get_output)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert kill_orphans_now(f"{generation}.build-1") == 0

    asyncio.run(test())


def test_news_are_gathered(tmp_path, generation):
    result = []
    began = time.monotonic()

    async def test() -> None:
        transcript = BuildTranscript()
        source = "for _ in range(2000): print('x', flush=True)"
        programs = BuildPrograms(str(tmp_path), generation)
        await programs.run(
            Build(command=build_command(source)),
            "1",
            transcript,
            lambda: result.append(transcript.take_news()),
        )

    asyncio.run(test())
    assert 1 <= len(result) < 2 + (time.monotonic() - began) / TELL_SECONDS


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
        run_build(tmp_path, generation, **build)


def test_a_link_inside_the_workspace_is_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    assert resolve_inside(str(tmp_path), "b") == str(tmp_path / "a")
