"""The commands for management keys, on real files."""

import json
import os
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.management_keys.model import ManagementKey, ManagementKeyRing
from agentd.storage.layout import Layout

FILE = Path("state/proxy/management-keys.yml")


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


def run(*words: str, code: int = 0) -> None:
    assert main(["proxy", "management-key", *words]) == code


def find(presented: str) -> ManagementKey | None:
    return ManagementKeyRing(ManagementKeyFile(Layout("state", "config")).load().keys).find(
        presented
    )


def add(capsys: pytest.CaptureFixture[str], name: str, scope: str) -> str:
    capsys.readouterr()
    run("add", name, "--scope", scope)
    return capsys.readouterr().out.strip()


def test_a_key_is_printed_once_and_kept_as_a_hash(capsys: pytest.CaptureFixture[str]) -> None:
    made = add(capsys, "monitor", "read")
    assert made.startswith("agentd-manage-")
    found = find(made)
    assert found
    assert (found.name, found.scope, found.created_by) == ("monitor", "read", "cli")
    assert made[-12:] not in FILE.read_text()
    run("list")
    listed = capsys.readouterr().out
    assert "monitor" in listed
    assert "read" in listed
    assert "never" in listed
    run("list", "--json")
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["name"], one["scope"], one["last_used"]) == ("monitor", "read", None)
    assert "sha256" not in one


def test_scope_and_state_are_changed_and_comments_stay(capsys: pytest.CaptureFixture[str]) -> None:
    made = add(capsys, "monitor", "read")
    FILE.write_text("# ours\n" + FILE.read_text())
    run("scope", "monitor", "--scope", "all")
    assert (found := find(made))
    assert found.scope == "all"
    run("disable", "monitor")
    assert find(made) is None
    run("enable", "monitor")
    assert find(made)
    assert FILE.read_text().startswith("# ours\n")


def test_a_removed_key_that_comes_back_is_told_and_can_be_reinstated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = add(capsys, "monitor", "read")
    old = FILE.read_text()
    run("remove", "monitor")
    assert find(made) is None
    FILE.write_text(old)
    assert find(made) is None
    capsys.readouterr()
    main(["check"])
    assert "management key monitor was removed" in capsys.readouterr().out
    run("reinstate", "monitor")
    assert find(made)


def test_mistakes_of_the_file_are_told_by_line_and_nothing_is_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    add(capsys, "monitor", "read")
    broken = FILE.read_text().replace("'read'", "'reed'")
    FILE.write_text(broken)
    main(["check"])
    assert 'found "reed"' in capsys.readouterr().out
    run("add", "other", "--scope", "read", code=1)
    assert FILE.read_text() == broken
    capsys.readouterr()
    FILE.write_text(broken.replace("reed", "read"))
    run("add", "monitor", "--scope", "read", code=1)
    run("remove", "missing", code=1)
    assert 'no management key "missing"' in capsys.readouterr().err
    run("add", "two words", "--scope", "read", code=2)
