"""``agentd check --engines``: one turn with each installed program, and nothing of its owner's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentd.app.engine_inspection import TESTED_VERSIONS
from tests.agent.engines.real.programs import CLAUDE, CODEX, CODEX_ACP, OPENCODE
from tests.support.daemon import PATIENCE

REAL = {"codex": CODEX, "claude": CLAUDE, "opencode": OPENCODE}
PACKAGES = {
    "@openai/codex": "codex",
    "@anthropic-ai/claude-code": "claude",
    "opencode-ai": "opencode",
    "@agentclientprotocol/codex-acp": "codex-acp",
}


def write_program(folder: Path, name: str, *lines: str) -> None:
    """Write a script into ``bin`` of a folder."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / name
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)


def check(folder: Path, *words: str, models: str = "") -> tuple[int, Any]:
    """Run the check with only the programs in ``bin``; return its exit code and its report."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "config").mkdir(mode=0o700, exist_ok=True)
    if models:
        (folder / "config" / "models.yml").write_text(models)
    usual = [place for place in os.environ["PATH"].split(os.pathsep) if _has_no_agents(place)]
    environ = {
        "PATH": os.pathsep.join([str(folder / "bin"), *usual]),
        "HOME": str(folder / "home"),
        "ANTHROPIC_API_KEY": "sk-of-the-owner",
        "AGENTD_STATE": str(folder / "state"),
        "AGENTD_CONFIG": str(folder / "config"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "agentd", "check", "--engines", "--json", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _has_no_agents(place: str) -> bool:
    return not any((Path(place) / name).exists() for name in (*REAL, "gemini"))


@pytest.mark.engines
@pytest.mark.parametrize("name", REAL)
def test_an_installed_agent_carries_out_a_turn_without_its_owners_home(
    tmp_path: Path, name: str
) -> None:
    program = REAL[name]
    if not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix tests/agent/engines/real")
    home = tmp_path / "home"
    home.mkdir()
    write_program(tmp_path, name, f'exec {program} "$@"')
    code, report = check(tmp_path)
    (trial,) = report["trials"]
    assert (trial["outcome"], trial["problem"], code) == ("works", "", 0)
    assert trial["tested"] == TESTED_VERSIONS[name]
    assert trial["tested"] in trial["version"]
    assert list(home.iterdir()) == []


@pytest.mark.engines
def test_an_agent_with_a_sign_in_of_its_own_is_only_started(tmp_path: Path) -> None:
    if not shutil.which(CODEX_ACP):
        pytest.skip(f"no {CODEX_ACP}: npm install --prefix tests/agent/engines/real")
    write_program(tmp_path, "codex-acp", f'exec {CODEX_ACP} "$@"')
    models = "models: [{name: a, engine: acp, command: [codex-acp]}]"
    code, report = check(tmp_path, models=models)
    (trial,) = report["trials"]
    assert (trial["program"], trial["outcome"], code) == ("codex-acp", "starts", 0)
    assert "sign-in" in trial["problem"]


def test_what_fails_says_why(tmp_path: Path) -> None:
    write_program(tmp_path, "codex", "echo no such thing >&2", "exit 3")
    write_program(tmp_path, "gemini", "echo 9.9.9")
    code, report = check(tmp_path)
    codex, gemini = report["trials"]
    assert code == 1
    assert (codex["outcome"], codex["version"]) == ("fails", "")
    assert "no such thing" in codex["problem"]
    assert (gemini["outcome"], gemini["version"], gemini["tested"]) == ("fails", "9.9.9", "")


def test_nothing_is_tried_where_nothing_is_installed_or_the_files_are_wrong(
    tmp_path: Path,
) -> None:
    code, report = check(tmp_path)
    assert (code, report["ok"], report["trials"]) == (0, True, [])
    write_program(tmp_path, "codex", "exit 0")
    code, report = check(tmp_path, models="models: 5")
    assert (code, report["trials"]) == (1, [])


def test_the_tested_versions_are_those_of_the_tests() -> None:
    folder = Path(__file__).parents[1] / "agent" / "engines" / "real"
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    assert {PACKAGES[name]: version for name, version in wanted.items()} == TESTED_VERSIONS
    page = (Path(__file__).parents[2] / "agentd" / "agent" / "README.md").read_text()
    assert all(version in page for version in TESTED_VERSIONS.values())
