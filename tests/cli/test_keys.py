"""The commands for keys, on real files."""

import io
import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import agentd
from agentd.auth.key import KeyRing, issue_key
from agentd.auth.key_store import KeyFile
from agentd.cli.main import main
from agentd.gateway.keys import model as keys_model
from agentd.gateway.keys.file import AccessKeyFile
from agentd.storage.layout import Layout

KEY = re.compile(r"agent_[A-Za-z0-9]{32}")


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


def match_key(key: str) -> str | None:
    kept = KeyFile(Layout("state", "config")).read()
    return KeyRing("", [one for one in kept.named if one.sha256 not in kept.revoked]).match(key)


def test_generate_prints_the_key_alone_on_the_last_line_and_only_once(capsys, folder):
    assert main(["keys", "generate", "laptop"]) == 0
    out = capsys.readouterr().out
    key = out.splitlines()[-1]
    assert KEY.fullmatch(key)
    assert match_key(key) == "laptop"
    assert all(key not in path.read_text() for path in folder.rglob("*") if path.is_file())


def test_a_key_can_be_made_without_the_scope_answers(capsys):
    main(["keys", "generate", "laptop"])
    main(["keys", "generate", "ci", "--no-answers"])
    capsys.readouterr()
    main(["keys", "list"])
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert rows == [["NAME", "ANSWERS"], ["laptop", "yes"], ["ci", "no"]]
    main(["keys", "list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert [one["answers"] for one in listed] == [True, False]


def test_a_key_can_be_regenerated_and_revoked(capsys):
    main(["keys", "generate", "laptop"])
    first = capsys.readouterr().out.strip()
    assert main(["keys", "regenerate", "laptop"]) == 0
    second = capsys.readouterr().out.strip()
    assert (match_key(first), match_key(second)) == (None, "laptop")
    assert main(["keys", "revoke", "laptop"]) == 0
    assert match_key(second) is None


def test_an_older_file_brings_no_key_back_until_it_is_reinstated(capsys, folder):
    main(["keys", "generate", "laptop"])
    key = capsys.readouterr().out.strip()
    older = (folder / "state" / "keys.yml").read_text()
    main(["keys", "revoke", "laptop"])
    (folder / "state" / "keys.yml").write_text(older)
    assert match_key(key) is None
    main(["keys", "list"])
    assert "revoked" in capsys.readouterr().out
    assert main(["keys", "reinstate", "laptop"]) == 0
    assert match_key(key) == "laptop"


def test_the_list_shows_names_and_no_hash(capsys):
    assert main(["keys", "list"]) == 0
    assert "no keys" in capsys.readouterr().err
    main(["keys", "generate", "laptop"])
    capsys.readouterr()
    main(["keys", "list"])
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "ANSWERS", "CREATED", "LAST", "USED", "MADE", "BY"]
    assert re.fullmatch(r"laptop  yes      \S+Z  never      cli", row)


def test_json_is_for_programs(capsys):
    main(["keys", "generate", "laptop", "--json"])
    made = json.loads(capsys.readouterr().out)
    assert match_key(made["key"]) == made["name"] == "laptop"
    main(["keys", "list", "--json"])
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed == {
        "name": "laptop",
        "created": made["created"],
        "lastUsed": None,
        "revoked": False,
        "createdBy": "cli",
        "children": [],
        "accessKeys": [],
        "answers": True,
    }
    main(["keys", "revoke", "laptop", "--json"])
    assert json.loads(capsys.readouterr().out) == {
        "name": "laptop",
        "revoked": True,
        "withChildren": ["laptop"],
        "children": [],
        "revokedAccessKeys": [],
        "accessKeys": [],
    }


def test_revoking_names_the_keys_that_a_key_made_and_revokes_them_on_demand(capsys, folder):
    main(["keys", "generate", "laptop"])
    layout = Layout(str(folder / "state"), str(folder / "config"))
    for name, by in (("child", "key:laptop"), ("grandchild", "key:child"), ("other", "user:ann")):
        KeyFile(layout).add(issue_key(name, "2026-01-01T00:00:00.000Z", by)[1])
    older = (folder / "state" / "keys.yml").read_text()
    assert main(["keys", "revoke", "laptop"]) == 0
    result = capsys.readouterr().err
    assert "laptop is revoked; keys made with it that remain valid: child, grandchild" in result
    assert main(["keys", "revoke", "child", "--with-children"]) == 0
    assert "child, grandchild are revoked" in capsys.readouterr().err
    (folder / "state" / "keys.yml").write_text(older)
    kept = KeyFile(layout).read()
    assert [key.name for key in kept.named if key.sha256 not in kept.revoked] == ["other"]


def test_revoking_names_the_access_keys_too_and_takes_them_away_on_demand(capsys, folder):
    main(["keys", "generate", "laptop"])
    layout = Layout(str(folder / "state"), str(folder / "config"))
    gateway = AccessKeyFile(layout)
    at = "2026-01-01T00:00:00.000Z"
    KeyFile(layout).add(issue_key("child", at, "key:laptop")[1])
    made = [
        keys_model.issue(name, at, by)[1]
        for name, by in (("robot", "key:laptop"), ("bot", "key:child"), ("mine", "user:ann"))
    ]
    for one in made:
        gateway.add(one)
    capsys.readouterr()
    main(["keys", "list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    robot, bot = ({"id": one.id, "name": one.name} for one in made[:2])
    assert [one["accessKeys"] for one in listed] == [[robot, bot], [bot]]
    assert main(["keys", "revoke", "laptop"]) == 0
    left = f"access keys that remain valid: robot ({made[0].id}), bot ({made[1].id})"
    assert left in capsys.readouterr().err
    assert main(["keys", "revoke", "child", "--with-children", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["revokedAccessKeys"], result["accessKeys"]) == ([bot], [])
    assert [key.name for key in gateway.read().keys] == ["robot", "mine"]


@pytest.mark.parametrize(
    ("words", "code", "result"),
    [
        (["keys", "revoke", "nobody"], 1, 'agentd: There is no key named "nobody"'),
        (["keys", "generate", "a b"], 2, "agentd: The name of a key has"),
        (["keys", "generate", "environment"], 2, "AGENT_API_KEY"),
        (["keys"], 2, "VERB"),
        (["keys", "generate"], 2, "NAME"),
        (["nonsense"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
    ],
)
def test_what_goes_wrong_is_reported_without_a_traceback(capsys, words, code, result):
    assert main(words) == code
    assert result in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--state", "other", "keys", "generate", "x"],
        ["keys", "--state", "other", "generate", "x"],
        ["keys", "generate", "x", "--state", "other"],
    ],
)
def test_options_are_taken_before_and_behind_the_command(folder, words):
    assert main(words) == 0
    assert (folder / "other" / "keys.yml").exists()


def test_a_key_can_be_revoked_though_the_settings_are_broken(folder):
    main(["keys", "generate", "laptop"])
    (folder / "config").mkdir()
    (folder / "config" / "agentd.yml").write_text("prot: 1\n")
    assert main(["keys", "revoke", "laptop"]) == 0


def test_help_teaches_by_example(capsys):
    for words in ([], ["keys"], ["hash-key"], ["check"], ["init"], ["serve"], ["ask"], ["demo"]):
        assert main([*words, "--help"]) == 0
        assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize("text", [b"secret", b"secret\n", b"secret\r\n"])
def test_a_key_from_standard_input_becomes_its_hash(capsys, monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["hash-key"]) == 0
    assert capsys.readouterr().out == sha256(b"secret").hexdigest() + "\n"


@pytest.mark.parametrize(
    "text", [b"", b"\n", b" a", b"a ", b"a,b", b"a\nb", "ä".encode(), b"\xff", b"x" * 5000]
)
def test_a_key_that_cannot_travel_in_a_header_is_refused(capsys, monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["hash-key"]) == 2
    assert capsys.readouterr().out == ""


def test_a_reader_that_goes_away_is_no_traceback(folder):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "agentd", "check", "--json", "--state", folder / "state"],
            cwd=Path(agentd.__file__).parents[1],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"")
