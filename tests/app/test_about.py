"""``GET /api/about``: the version, and the engines with theirs."""

from pathlib import Path

import pytest

from agentd import __version__
from tests.support.fixtures import Serve


def test_it_shows_the_version_and_the_engines_with_theirs(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    codex = programs / "codex"
    codex.write_text("#!/bin/sh\necho codex-cli 9.8.7\n")
    codex.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "models.yml").write_text("models: [{name: c, engine: codex}]\n")
    about = serve().client().get("/api/about").json()
    assert about["version"] == __version__
    assert about["licence"] == "MIT"
    engines = {one["engine"]: one for one in about["engines"]}
    assert engines["codex"]["version"] == "codex-cli 9.8.7"
    assert engines["codex"]["problem"] == ""
    assert set(engines) == {"offline", "codex", "claude-code", "acp"}
    assert engines["claude-code"]["problem"]
