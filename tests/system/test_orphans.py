"""Processes that a turn started are found by their mark and ended, and no others."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from agentd.system import orphans
from agentd.system.limit_mark import mark_command_line, mark_process
from agentd.system.orphans import kill_orphans_now
from agentd.system.process import DAEMON, MARK, build_environment
from agentd.system.process_identity import format_identity, is_running
from tests.support.waiting import is_gone, until, wait_until_gone

SLEEP = "import time; time.sleep(60)"


def start_marked(mark: str | None, source: str = SLEEP, **more: str) -> "subprocess.Popen[bytes]":
    environment = dict(os.environ, **more)
    environment.pop(MARK, None)
    if mark is not None:
        environment[MARK] = mark
    return subprocess.Popen([sys.executable, "-c", source], env=environment, start_new_session=True)


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    programs: list[subprocess.Popen[bytes]] = []
    yield programs
    for program in programs:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@pytest.fixture
def generation() -> str:
    return f"test{os.getpid()}x{time.monotonic_ns()}"


def test_only_what_has_the_mark_is_ended(generation, started):
    mine = [start_marked(f"{generation}.1.2"), start_marked(f"{generation}.1.2.more")]
    others = [
        start_marked(f"{generation}.1.23"),
        start_marked(f"{generation}.1"),
        start_marked(f"x{generation}.1.2"),
        start_marked(None),
        start_marked(None, NOT_IT=f"{MARK}={generation}.1.2"),
    ]
    started += mine + others
    assert kill_orphans_now(f"{generation}.1.2") == 2
    assert [one.wait(60) for one in mine] == [-signal.SIGKILL] * 2
    assert [one.poll() for one in others] == [None] * 5


def test_a_generation_is_a_mark_too(generation, started):
    started += [
        start_marked(f"{generation}.1.2"),
        start_marked(f"{generation}.7.9"),
        start_marked(f"{generation}2"),
    ]
    assert kill_orphans_now(generation) == 2
    assert started[2].poll() is None


def test_of_a_generation_only_what_no_living_daemon_started_is_left_behind(generation, started):
    """A copy of the folder bears the same generation: its daemon ends nothing of the other's."""
    other, killed = start_marked(None), start_marked(None)
    started += [other, killed]
    names = [format_identity(one.pid) for one in (other, killed)]
    names += [names[0].replace(".", ".9", 1), "", "x", "0.0.", "99999999999999999999.1.x"]
    of_each = [start_marked(f"{generation}.1.2", **{DAEMON: name}) for name in names]
    started += of_each
    assert is_running(names[0]) and is_running(names[1])
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # nobody fetched it yet
    assert kill_orphans_now(generation, dead_owner=True) == len(names) - 1
    assert of_each[0].poll() is None
    assert kill_orphans_now(generation) == 1
    assert not any(is_running(name) for name in names[1:])


def test_a_program_is_shown_who_started_it():
    assert build_environment()[DAEMON] == format_identity(os.getpid())
    assert format_identity(2**22 + 1) == ""


def test_what_a_killed_daemon_left_is_found_also_what_fled(generation, tmp_path, started):
    """A parent dies by kill -9; its child and a daemonised grandchild live on, unmarked by it."""
    result = tmp_path / "told"
    source = f"""
import os, subprocess, sys, time
env = dict(os.environ, {MARK}="{generation}.3.4")
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], env=env)
flee = '''
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
with open({str(result)!r} + "~", "w") as file: file.write(str(os.getpid()))
os.rename({str(result)!r} + "~", {str(result)!r})
time.sleep(60)
'''
subprocess.run([sys.executable, "-c", flee], env=env)
print(child.pid, flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        until(result.exists)
        fled = int(result.read_text())
        bystander = start_marked(None)
        started.append(bystander)
        parent.kill()
        parent.wait()
    assert not is_gone(child)
    assert not is_gone(fled)
    assert kill_orphans_now(generation) == 2
    wait_until_gone(child)
    wait_until_gone(fled)
    assert bystander.poll() is None


def test_neither_this_process_nor_its_ancestors_are_ended(generation):
    """A daemon that an agent's own shell started must not end itself."""
    source = (
        "import sys; from agentd.system.orphans import kill_orphans_now;"
        f"print(kill_orphans_now({generation!r}))"
    )
    shell = ["/bin/sh", "-c", '"$0" -c "$1"; echo alive', sys.executable, source]
    build_environment = dict(os.environ, **{MARK: f"{generation}.1.1"})
    ended = subprocess.run(shell, env=build_environment, capture_output=True, check=True)
    assert ended.stdout == b"0\nalive\n"


def test_what_starts_others_while_it_is_ended_is_ended_whole(generation, started, tmp_path):
    """A chain: each starts the next and does nothing more; it has an end of its own, too."""
    begun = tmp_path / "begun"
    source = f"""
import os, time
for number in range(100):
    if number == 20: open({str(begun)!r}, "w").close()
    if os.fork():
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""
    started.append(start_marked(f"{generation}.1.1", source))
    until(begun.exists)
    assert kill_orphans_now(generation) > 20
    assert kill_orphans_now(generation) == 0


def test_an_empty_mark_is_refused():
    with pytest.raises(ValueError, match="tag is required"):
        kill_orphans_now("")


WIPED = "import time; print(flush=True); time.sleep(60)"


def start_wiped(turn: str, source: str = WIPED) -> "subprocess.Popen[bytes]":
    """Start, from a shell of this turn, a program without an environment."""
    line = mark_command_line('exec env -i "$0" -c "$1"', turn)
    command = ["/bin/sh", "-c", line, sys.executable, source]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert program.stdout
    with program.stdout as said:
        said.readline()
    return program


def test_a_turn_is_known_by_more_than_the_environment(generation, started):
    mine, other = start_wiped(f"{generation}.1.2"), start_wiped(f"{generation}.1.3")
    hidden = start_wiped(
        f"{generation}.1.2", f"import ctypes; ctypes.CDLL(None).prctl(4, 0); {WIPED}"
    )
    later = start_marked(None)
    mark_process(later.pid, f"{generation}.1.2")
    started += [mine, other, hidden, later]
    assert kill_orphans_now(generation) == 0
    assert kill_orphans_now(f"{generation}.1.2", dead_owner=True) == 0
    assert kill_orphans_now(f"{generation}.1.2") == 3
    assert [one.wait(60) for one in (mine, hidden, later)] == [-signal.SIGKILL] * 3
    assert other.poll() is None


def test_what_is_dead_already_is_not_ended_again(generation, started):
    program = start_wiped(f"{generation}.1.2")
    started.append(program)
    program.kill()
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)  # nobody fetched it yet
    assert kill_orphans_now(f"{generation}.1.2") == 0


def test_the_mark_of_a_turn_limits_nothing(tmp_path):
    line = "printf %s one > big && dd if=/dev/null of=big bs=1 seek=64G 2>/dev/null; ls -l big"
    command = ["/bin/sh", "-c", mark_command_line(line, "of.a.turn")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert str(64 * 2**30).encode() in ended.stdout
    assert ended.stderr == b""


def test_no_descriptor_is_left(generation, started):
    started += [start_marked(f"{generation}.1.1") for _ in range(3)]
    before = len(os.listdir("/proc/self/fd"))
    assert kill_orphans_now(generation) == 3
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_processes_cannot_be_looked_up_nothing_is_done_and_it_is_said(
    generation, started, monkeypatch, caplog
):
    monkeypatch.delattr(orphans.os, "pidfd_open")
    started.append(start_marked(generation))
    with caplog.at_level(logging.WARNING):
        assert kill_orphans_now(generation) == 0
    assert "cannot kill leftover programs" in caplog.text
    assert started[0].poll() is None


def test_a_mark_is_inherited_by_the_programs_of_a_marked_daemon(monkeypatch):
    monkeypatch.setenv(MARK, "outer.1.1")
    assert build_environment()[MARK] == "outer.1.1"
    assert build_environment(**{MARK: "inner.1.1"})[MARK] == "inner.1.1"
