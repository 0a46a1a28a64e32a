"""What a turn started is found by its mark and ended, wherever it fled; nobody else is."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from agentd.outside import strays
from agentd.outside.marked import lives, name_of
from agentd.outside.process import DAEMON, MARK, environment
from agentd.outside.strays import end_strays_now

SLEEP = "import time; time.sleep(60)"


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass within 30 seconds"
        time.sleep(0.005)


def gone(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def marked(mark: str | None, source: str = SLEEP, **more: str) -> "subprocess.Popen[bytes]":
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


def test_only_what_bears_the_mark_is_ended(generation, started):
    mine = [marked(f"{generation}.1.2"), marked(f"{generation}.1.2.more")]
    others = [
        marked(f"{generation}.1.23"),
        marked(f"{generation}.1"),
        marked(f"x{generation}.1.2"),
        marked(None),
        marked(None, NOT_IT=f"{MARK}={generation}.1.2"),
    ]
    started += mine + others
    assert end_strays_now(f"{generation}.1.2") == 2
    assert [one.wait(60) for one in mine] == [-signal.SIGKILL] * 2
    assert [one.poll() for one in others] == [None] * 5


def test_a_generation_is_a_mark_too(generation, started):
    started += [marked(f"{generation}.1.2"), marked(f"{generation}.7.9"), marked(f"{generation}2")]
    assert end_strays_now(generation) == 2
    assert started[2].poll() is None


def test_of_a_generation_only_what_no_living_daemon_started_is_left_behind(generation, started):
    """A copy of the folder bears the same generation: its daemon ends nothing of the other's."""
    other, killed = marked(None), marked(None)
    started += [other, killed]
    names = [name_of(one.pid) for one in (other, killed)]
    names += [names[0].replace(".", ".9", 1), "", "x", "0.0.", "99999999999999999999.1.x"]
    of_each = [marked(f"{generation}.1.2", **{DAEMON: name}) for name in names]
    started += of_each
    assert lives(names[0]) and lives(names[1])
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # nobody fetched it yet
    assert end_strays_now(generation, orphans=True) == len(names) - 1
    assert of_each[0].poll() is None
    assert end_strays_now(generation) == 1
    assert not any(lives(name) for name in names[1:])


def test_a_program_is_told_who_started_it():
    assert environment()[DAEMON] == name_of(os.getpid())
    assert name_of(2**22 + 1) == ""


def test_what_a_killed_daemon_left_is_found_also_what_fled(generation, tmp_path, started):
    """A parent dies by kill -9; its child and a daemonised grandchild live on, unmarked by it."""
    told = tmp_path / "told"
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
with open({str(told)!r} + "~", "w") as file: file.write(str(os.getpid()))
os.rename({str(told)!r} + "~", {str(told)!r})
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
        until(told.exists)
        fled = int(told.read_text())
        bystander = marked(None)
        started.append(bystander)
        parent.kill()
        parent.wait()
    assert not gone(child)
    assert not gone(fled)
    assert end_strays_now(generation) == 2
    until(lambda: gone(child))
    until(lambda: gone(fled))
    assert bystander.poll() is None


def test_neither_this_process_nor_its_ancestors_are_ended(generation):
    """A daemon that an agent's own shell started must not end itself."""
    source = (
        "import sys; from agentd.outside.strays import end_strays_now;"
        f"print(end_strays_now({generation!r}))"
    )
    shell = ["/bin/sh", "-c", '"$0" -c "$1"; echo alive', sys.executable, source]
    environment = dict(os.environ, **{MARK: f"{generation}.1.1"})
    ended = subprocess.run(shell, env=environment, capture_output=True, check=True)
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
    started.append(marked(f"{generation}.1.1", source))
    until(begun.exists)
    assert end_strays_now(generation) > 20
    assert end_strays_now(generation) == 0


def test_an_empty_mark_is_refused():
    with pytest.raises(ValueError, match="by a mark"):
        end_strays_now("")


def test_no_descriptor_is_left(generation, started):
    started += [marked(f"{generation}.1.1") for _ in range(3)]
    before = len(os.listdir("/proc/self/fd"))
    assert end_strays_now(generation) == 3
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_processes_cannot_be_looked_up_nothing_is_done_and_it_is_said(
    generation, started, monkeypatch, caplog
):
    monkeypatch.delattr(strays.os, "pidfd_open")
    started.append(marked(generation))
    with caplog.at_level(logging.WARNING):
        assert end_strays_now(generation) == 0
    assert "cannot be ended here" in caplog.text
    assert started[0].poll() is None


def test_a_mark_is_inherited_by_the_programs_of_a_marked_daemon(monkeypatch):
    monkeypatch.setenv(MARK, "outer.1.1")
    assert environment()[MARK] == "outer.1.1"
    assert environment(**{MARK: "inner.1.1"})[MARK] == "inner.1.1"
