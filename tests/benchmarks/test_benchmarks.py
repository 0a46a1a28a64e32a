"""The benchmark programs run. What they measure is judged by a person, never by the suite."""

import subprocess
import sys

from tests.benchmarks.measures import MEASURES
from tests.benchmarks.servers import ROOT


def test_every_benchmark_runs_and_prints_its_rows() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.run", "--quick"]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=600
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) - 1 >= len(MEASURES)
    for what in ("GET status", "POST queue", "PUT queue", "one turn", "start", "resident"):
        assert any(what in line for line in lines[1:]), done.stdout
