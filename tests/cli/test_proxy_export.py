"""The export as a person at a terminal has it: told by files, asked of whatever daemon there is."""

import json
import os
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.gateway.export.days import Chunk, DayProgress, DaySpan
from agentd.gateway.export.ports import ExportProgress
from agentd.gateway.export.state_store import ExportStateFile
from agentd.gateway.secrets.rule_file import load_seed
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.gateway.ledger.entries import build_record
from tests.support.ports import find_free_port

LAYOUT = Layout("state", "config")
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three days of two requests each, the first of which is sent."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    Path(LAYOUT.ledger).mkdir(parents=True)
    for day in DAYS:
        at = f"{day}T00:00:00.000Z"
        Path(LAYOUT.get_ledger_day_path(day)).write_bytes(
            encode_checksummed(build_record(1, at)) + encode_checksummed(build_record(2, at))
        )
    data = Path(LAYOUT.get_ledger_day_path(DAYS[0]))
    found = data.stat()
    stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
    chunks = (Chunk(0, found.st_size, 2, "", "then"),)
    sent = DayProgress(version=1, chunks=chunks, stamp=stamp, done_at="then")
    load_seed(LAYOUT)
    ExportStateFile(LAYOUT).save(
        ExportProgress("", {DAYS[0]: sent, DAYS[1]: DayProgress(error="refu\x1bsed")})
    )


def write_settings(text: str) -> None:
    path = Path(LAYOUT.gateway_settings)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"export:\n  url: http://127.0.0.1:{find_free_port()}\n{text}")


def run(capsys, *words: str, code: int = 0) -> tuple[list[str], str]:
    assert main(["proxy", "export", *words]) == code
    result = capsys.readouterr()
    return result.out.splitlines(), result.err


def test_what_is_to_be_sent_is_reported_with_why_it_is_not(capsys):
    out, err = run(capsys, "status")
    assert [line.split()[:2] for line in out] == [[DAYS[1], "pending"], [DAYS[2], "pending"]]
    assert out[0].endswith("refu\ufffdsed")
    assert err.startswith("off; ")
    write_settings("")
    out, err = run(capsys, "status", "--all")
    assert out[0].split()[:3] == [DAYS[0], "done", "2"]
    assert "closed days to be sent: 2" in err
    out, _ = run(capsys, "status", "--json")
    result = json.loads(out[0])
    assert (result["active"], result["lag_days"], list(result["days"])) == (True, 2, list(DAYS[1:]))


def test_a_backfill_is_tried_and_then_left_to_the_daemon(capsys):
    write_settings("  since: 2030-01-01\n")
    out, err = run(capsys, "backfill", "--dry-run")
    assert [line.split()[:3] for line in out] == [
        [DAYS[1], "pending", "2"],
        [DAYS[2], "pending", "2"],
    ]
    assert "days: 2; 4 rows" in err
    assert not ExportStateFile(LAYOUT).list_backfills()
    out, _ = run(capsys, "backfill", "--from", DAYS[2], "--to", DAYS[2], "--json")
    (one,) = json.loads(out[0])
    assert (one["day"], one["rows"], one["exact"]) == (DAYS[2], 2, True)
    assert ExportStateFile(LAYOUT).list_backfills() == [DaySpan(DAYS[2], DAYS[2])]


def test_what_cannot_be_asked_for_is_reported(capsys):
    _, err = run(capsys, "backfill", code=1)
    assert "switched off" in err
    _, err = run(capsys, "backfill", "--from", "2026-02-30", code=2)
    assert "is not a day" in err


def test_a_database_that_does_not_exist_is_reported_by_the_step_that_failed(capsys):
    write_settings("  password: env:NO_SUCH\n")
    out, _ = run(capsys, "check", code=1)
    assert out[0].startswith("settings: failed: ")
    assert "NO_SUCH" in out[0]
    write_settings("")
    out, _ = run(capsys, "check", "--json", code=1)
    assert [step["name"] for step in json.loads(out[0])] == ["reach"]
