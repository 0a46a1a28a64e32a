"""Texts that a person looks through for secrets at a terminal."""

import io
import json
import os
from pathlib import Path

import pytest

from agentd.cli.main import main

GITHUB = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
TICKET = "tkt_0123456789abcdefghij"
TEXT = f"Hello.\nMy token is {GITHUB}, ä, and\nthe ticket {TICKET}.\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    (tmp_path / "config").mkdir()
    (tmp_path / "notes").write_text(TEXT)
    return tmp_path


def write_rules(here: Path, text: str) -> None:
    path = here / "config" / "secret-rules.yml"
    path.write_text(text)
    path.chmod(0o600)


def test_rule_line_length_and_mode_are_reported_and_no_value(capsys):
    assert main(["proxy", "test-secrets", "notes"]) == 1
    result = capsys.readouterr()
    assert result.out == f"notes:2: github, {len(GITHUB)} characters (hide)\n"
    assert result.err == "secrets: 1\n"


def test_own_rules_hold_too_and_json_shows_the_place(here, capsys):
    rule = "{id: ticket, regex: 'tkt_([a-z0-9]{20})', mode: block}"
    write_rules(here, f"format: 1\nrules: [{rule}]\nbuilt_in: {{github: {{mode: report}}}}\n")
    assert main(["proxy", "test-secrets", "--json", "notes"]) == 1
    result = capsys.readouterr().out
    first, second = json.loads(result)
    assert first == {
        "rule": "github",
        "mode": "report",
        "line": 2,
        "offset": TEXT.index(GITHUB),
        "length": len(GITHUB),
    }
    assert (second["rule"], second["mode"], second["line"]) == ("ticket", "block", 3)
    assert TEXT[second["offset"] :][: second["length"]] == TICKET[4:]
    assert GITHUB not in result
    assert TICKET[4:] not in result


def test_nothing_found_is_success_from_standard_input_too(monkeypatch, capsys):
    for arguments in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"nothing here \xff\n")))
        assert main(["proxy", "test-secrets", *arguments]) == 0
        assert capsys.readouterr() == ("", "no secrets\n")


def test_a_variable_that_only_the_daemon_has_is_left_out_and_reported(here, capsys, monkeypatch):
    write_rules(here, "format: 1\nvalues: [{id: deploy, value: 'env:DEPLOY_WORD'}]\n")
    assert main(["proxy", "test-secrets", "notes"]) == 1
    result = capsys.readouterr()
    assert "DEPLOY_WORD" in result.err
    assert "ignored" in result.err
    monkeypatch.setenv("DEPLOY_WORD", "the ticket")
    assert main(["proxy", "test-secrets", "notes"]) == 1
    assert "notes:3: deploy, 10 characters (hide)" in capsys.readouterr().out


def test_a_broken_rule_and_a_missing_file_are_reported(here, capsys):
    assert main(["proxy", "test-secrets", "missing"]) == 1
    assert "cannot read missing" in capsys.readouterr().err
    write_rules(here, "format: 1\nrules: [{id: x, regex: '('}]\n")
    assert main(["proxy", "test-secrets", "notes"]) == 1
    assert "secret-rules.yml:2" in capsys.readouterr().err


def test_nothing_is_left_behind(here):
    before = sorted(path for path in here.rglob("*"))
    main(["proxy", "test-secrets", "notes"])
    assert sorted(path for path in here.rglob("*")) == before
