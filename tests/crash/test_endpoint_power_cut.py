"""What an endpoint acknowledged outlives a power cut; a sync that is left out is noticed."""

import subprocess
import sys
from pathlib import Path

from tests.crash.recorder import CallerNote, Event, Made, Named, Recorder, Synced, Written
from tests.support.paths import REPOSITORY

ROUTES = (
    "DELETE /api/me/push",
    "POST /api/agent/budgets",
    "POST /api/remote/chats/{chatId}/queue",
)


def test_an_acknowledged_change_outlives_a_power_cut_and_each_sync_is_needed(
    tmp_path: Path,
) -> None:
    """It forks, so it needs a process without threads."""
    command = [sys.executable, "-m", "tests.crash.endpoint_power_cut", "--check-syncs"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path), "--only", *ROUTES],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 endpoints" in done.stdout
    assert int(done.stdout.split(" kinds of syncs")[0].split()[-1]) >= 5


def test_what_is_there_before_is_recorded_and_safe(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"abc")
    recorder = Recorder(str(tmp_path))
    recorder.note_existing(str(tmp_path))
    log: list[Event] = recorder.log
    assert [event for event in log if isinstance(event, Written)] == [Written(2, 0, b"abc")]
    assert [event.name for event in log if isinstance(event, Named)] == ["a", "b"]
    assert {event.thing for event in log if isinstance(event, Synced)} == {0, 1, 2}
    assert len([event for event in log if isinstance(event, Made)]) == 2
    assert not any(isinstance(event, CallerNote) for event in log)
