"""The benchmark programs run. What they measure is judged by a person, never by the suite."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.load import Shot, fire
from tests.benchmarks.measures import MEASURES
from tests.benchmarks.servers import ROOT, encode_request, running_server, start_bare

pytestmark = pytest.mark.benchmarks


def test_every_benchmark_runs_and_prints_its_rows() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.run", "--quick"]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=3000
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) - 1 >= len(MEASURES)
    for what in ("GET status", "POST queue", "PUT queue", "one turn", "start", "resident"):
        assert any(what in line for line in lines[1:]), done.stdout


def test_the_peers_are_measured_beside_agentd() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.peers", "--quick"]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=600
    )

    assert done.returncode == 0, done.stderr
    for what in ("calls of 1 KB", "streams of 50 chunks", "agentd, all on", "bare relay"):
        assert what in done.stdout


def test_a_shot_too_short_for_an_answer_waits_for_one(tmp_path: Path) -> None:
    with running_server(start_bare(str(tmp_path))) as server:
        score = fire(Shot(server.port, [encode_request("GET", "/")], seconds=0.0))
        assert score.answers >= 1
