"""The commands for licences, on real files."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from agentd.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    return tmp_path


def test_a_new_place_has_a_licence_of_its_own(capsys):
    assert main(["licence", "show"]) == 1
    assert "There is no licence" in capsys.readouterr().err
    assert main(["init"]) == 0
    assert "licence.key" in capsys.readouterr().out
    assert main(["licence", "show"]) == 0
    assert capsys.readouterr().out.startswith("valid: ")
    assert main(["check"]) == 0


def test_init_leaves_a_licence_as_it_is(folder):
    assert main(["licence", "self"]) == 0
    before = (folder / "config" / "licence.key").read_bytes()
    assert main(["init"]) == 0
    assert (folder / "config" / "licence.key").read_bytes() == before


def test_a_licence_is_issued_and_installed_from_a_file_or_a_pipe(capsys, folder, monkeypatch):
    assert main(["licence", "issuer"]) == 0
    assert capsys.readouterr().out.startswith("agentd-issuer.v1.")
    assert main(["licence", "issue", "ann", "--edition", "team", "--days", "3"]) == 0
    token = capsys.readouterr().out
    (folder / "ann").write_text(token)
    assert main(["licence", "install", "ann", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["state"], result["licence"]["holder"]) == ("valid", "ann")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(token.encode())))
    assert main(["licence", "install", "-"]) == 0


@pytest.mark.parametrize(
    ("words", "code", "result"),
    [
        (["issue", "ann"], 1, "agentd licence issuer"),
        (["issue", "ann", "--days", "0"], 2, "--days"),
        (["install", "nowhere"], 2, "No such file"),
        (["install", "bad"], 2, "not a licence"),
        (["install"], 2, "FILE"),
    ],
)
def test_what_goes_wrong_is_reported_without_a_traceback(capsys, folder, words, code, result):
    (folder / "bad").write_text("bad")
    assert main(["licence", *words]) == code
    assert result in capsys.readouterr().err


def test_the_private_key_is_never_shown(capsys, folder):
    main(["init"])
    for words in (["show"], ["self"], ["issue", "ann"], ["issuer"], ["show", "--json"]):
        main(["licence", *words])
    main(["check"])
    result = capsys.readouterr()
    private = (folder / "config" / "licence-issuer.key").read_text().strip()
    assert private.rpartition(".")[2] not in result.out + result.err


def test_help_teaches_by_example(capsys):
    assert main(["licence", "--help"]) == 0
    assert "examples:" in capsys.readouterr().out
