"""The export as a person at a terminal has it: told by files, asked of whatever daemon there is."""

import json
import os
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.disk.export_state import ExportFile
from agentd.disk.layout import Layout
from agentd.disk.lines import seal
from agentd.disk.secret_rules import seed
from agentd.proxy.export.days import Chunk, Day, Span
from agentd.proxy.export.needs import Kept
from tests.ports import free_port
from tests.proxy.entries import entry

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
        Path(LAYOUT.ledger_day(day)).write_bytes(seal(entry(1, at)) + seal(entry(2, at)))
    data = Path(LAYOUT.ledger_day(DAYS[0]))
    found = data.stat()
    stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
    chunks = (Chunk(0, found.st_size, 2, "", "then"),)
    sent = Day(version=1, chunks=chunks, stamp=stamp, done_at="then")
    seed(LAYOUT)
    ExportFile(LAYOUT).save(Kept("", {DAYS[0]: sent, DAYS[1]: Day(error="refu\x1bsed")}))


def settings(text: str) -> None:
    path = Path(LAYOUT.gateway_settings)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"export:\n  url: http://127.0.0.1:{free_port()}\n{text}")


def run(capsys, *words: str, code: int = 0) -> tuple[list[str], str]:
    assert main(["proxy", "export", *words]) == code
    told = capsys.readouterr()
    return told.out.splitlines(), told.err


def test_what_is_to_be_sent_is_told_with_why_it_is_not(capsys):
    out, err = run(capsys, "status")
    assert [line.split()[:2] for line in out] == [[DAYS[1], "pending"], [DAYS[2], "pending"]]
    assert out[0].endswith("refu\ufffdsed")
    assert "switched off" in err
    settings("")
    out, err = run(capsys, "status", "--all")
    assert out[0].split()[:3] == [DAYS[0], "done", "2"]
    assert "2 closed day(s) to be sent" in err
    out, _ = run(capsys, "status", "--json")
    told = json.loads(out[0])
    assert (told["active"], told["lag_days"], list(told["days"])) == (True, 2, list(DAYS[1:]))


def test_a_backfill_is_tried_and_then_left_to_the_daemon(capsys):
    settings("  since: 2030-01-01\n")
    out, err = run(capsys, "backfill", "--dry-run")
    assert [line.split()[:3] for line in out] == [
        [DAYS[1], "pending", "2"],
        [DAYS[2], "pending", "2"],
    ]
    assert "2 day(s), 4 rows" in err
    assert not ExportFile(LAYOUT).asked()
    out, _ = run(capsys, "backfill", "--from", DAYS[2], "--to", DAYS[2], "--json")
    (one,) = json.loads(out[0])
    assert (one["day"], one["rows"], one["exact"]) == (DAYS[2], 2, True)
    assert ExportFile(LAYOUT).asked() == [Span(DAYS[2], DAYS[2])]


def test_what_cannot_be_asked_for_is_told(capsys):
    _, err = run(capsys, "backfill", code=1)
    assert "switched off" in err
    _, err = run(capsys, "backfill", "--from", "2026-02-30", code=2)
    assert "is no day" in err


def test_a_database_that_is_not_there_is_told_by_the_step_that_failed(capsys):
    settings("  password: env:NO_SUCH\n")
    out, _ = run(capsys, "check", code=1)
    assert out[0].startswith("settings: failed: ")
    assert "NO_SUCH" in out[0]
    settings("")
    out, _ = run(capsys, "check", "--json", code=1)
    assert [rung["name"] for rung in json.loads(out[0])] == ["reach"]
