"""An import that a kill interrupts is there as a whole after the next start, or not at all."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.killed_import import POINTS
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import Serving

IS_THERE = {"before models": False, "before the journal": True}
"""By where the daemon was killed; an interrupted undo is finished."""


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_import_is_whole_or_gone_after_the_next_start(tmp_path: Path, point: str) -> None:
    command = [sys.executable, "-m", "tests.crash.killed_import", str(tmp_path), point]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    with Serving(tmp_path, environ={"PROXY_APP_HASH": HASH}) as daemon:
        manager = daemon.client(MANAGEMENT_KEY)
        names = [
            [one["name"] for one in manager.get(f"/api/agent/{what}")["items"]]
            for what in ("channels", "models", "budgets")
        ]
        there = IS_THERE.get(point, False)
        assert names == ([["moved"], ["moved-large"], ["moved-team"]] if there else [[], [], []])
        changes = manager.get("/api/agent/changes")["items"]
        actions = {"before channels": [], "before models": [], "before the journal": ["create"]}
        expected = actions.get(point, ["undo", "create"])
        assert [one["action"] for one in changes] == expected
        assert not Path(daemon.layout.import_intent).exists()
        if there:
            number = changes[0]["number"]
            assert manager.post(f"/api/agent/changes/{number}/undo", None).status == 200
            for what in ("channels", "models", "budgets"):
                assert manager.get(f"/api/agent/{what}")["items"] == []
