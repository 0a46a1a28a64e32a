"""A process that runs as the daemon's user cannot look into the daemon."""

import os
import subprocess
import sys

import pytest

from agentd.system.self_process import get_resident_size, trim_memory

AS_ANYBODY = """
import ctypes, os, sys
for root_may_look in (19, 21, 38):  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
    ctypes.CDLL(None).prctl(24, root_may_look, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

PARENT = """
import os, sys
from agentd.system.self_process import hide_process
if sys.argv[1] == "hidden":
    assert hide_process()
look = "import os; print(open(f'/proc/{os.getppid()}/environ').read())"
sys.exit(os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-S", "-E", "-c", look))
"""

THREAD = """
import sys, threading
from agentd.system.self_process import prepare_process
if sys.argv[1] == "prepared":
    prepare_process()
made = []
thread = threading.Thread(target=lambda: made.append(bytes(100_000)))
thread.start()
thread.join()
with open("/proc/self/maps") as maps:
    [heap] = [line.split()[0] for line in maps if line.rstrip().endswith("[heap]")]
low, high = (int(end, 16) for end in heap.split("-"))
print(low <= id(made[0]) < high)
"""


@pytest.mark.parametrize("how", ["open", "hidden"])
def test_a_child_of_the_same_user_reads_no_environment_of_a_hidden_process(how: str) -> None:
    command = [sys.executable, "-c", AS_ANYBODY, "-c", PARENT, how]
    environment = {**os.environ, "SUPPLIER": "sk-canary"}
    result = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    if how == "open":
        assert "sk-canary" in result.stdout, result.stderr
    else:
        assert "sk-canary" not in result.stdout
        assert "PermissionError" in result.stderr


def test_memory_that_was_freed_goes_back_to_the_system() -> None:
    held = [number.to_bytes(4, "big") * 1000 for number in range(20_000)]
    kept = held[::500]  # so that the heap cannot shrink from its end
    full = get_resident_size()
    del held
    trim_memory()
    assert get_resident_size() < full - 40 * 1024 * 1024
    assert len(kept) == 40


@pytest.mark.parametrize(("how", "shared"), [("usual", False), ("prepared", True)])
def test_threads_of_the_daemon_share_one_heap(how: str, shared: bool) -> None:
    command = [sys.executable, "-c", THREAD, how]
    result = subprocess.run(command, capture_output=True, check=True, text=True)
    assert result.stdout.strip() == str(shared)
