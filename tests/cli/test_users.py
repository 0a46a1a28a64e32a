"""The commands for users, on real files."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from agentd.auth import password
from agentd.auth.key import issue_key
from agentd.auth.key_store import KeyFile
from agentd.auth.password import HashCost, is_password_hash, verify_password
from agentd.auth.user_store import UserFile
from agentd.cli.main import main
from agentd.gateway.keys import model
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.management_keys.model import issue_management_key
from agentd.storage.layout import Layout

AT = "2026-01-01T00:00:00.000Z"
WORD = "correct horse battery"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    monkeypatch.setattr(password.hash_password, "__defaults__", (HashCost(14, 8, 1),))
    return tmp_path


@pytest.fixture
def typed(monkeypatch):
    """Have this come in by a pipe."""

    def type_(text: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    return type_


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Have a person type these, one after the other, at a terminal."""

    def type_(*words: str) -> None:
        answers = iter(words)
        monkeypatch.setattr(sys, "stdin", Terminal())
        monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))

    return type_


def read_users() -> dict[str, tuple[str, str]]:
    file = UserFile(Layout("state", "config"))
    return {user.name: (user.role, user.password) for user in file.load()}


def add(typed, name: str = "ann", role: str = "manager") -> None:
    typed(WORD.encode() + b"\n")
    assert main(["users", "add", name, "--role", role]) == 0


@pytest.mark.parametrize("text", [WORD.encode(), f"{WORD}\n".encode(), f"{WORD}\r\n".encode()])
def test_a_person_is_added_with_a_password_from_a_pipe(typed, capsys, folder, text):
    typed(text)
    assert main(["users", "add", "ann", "--role", "Manager"]) == 0
    role, kept = read_users()["ann"]
    assert role == "manager"
    assert verify_password(WORD, kept)
    out = capsys.readouterr()
    assert WORD not in out.out + out.err
    assert (folder / "config" / "users.yml").stat().st_mode & 0o777 == 0o600
    assert WORD not in (folder / "config" / "users.yml").read_text()


def test_at_a_terminal_it_is_asked_for_twice(terminal, capsys):
    terminal(WORD, WORD)
    assert main(["users", "add", "ann", "--role", "viewer"]) == 0
    assert verify_password(WORD, read_users()["ann"][1])
    terminal(WORD, WORD + "x")
    assert main(["users", "passwd", "ann"]) == 2
    assert "differ" in capsys.readouterr().err
    assert verify_password(WORD, read_users()["ann"][1])


def test_stdin_reads_the_pipe_at_a_terminal_too(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(WORD.encode()))
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["users", "add", "ann", "--role", "viewer", "--stdin"]) == 0
    assert verify_password(WORD, read_users()["ann"][1])


def test_a_role_and_a_password_change_and_a_person_goes(typed, capsys):
    add(typed)
    assert main(["users", "role", "ann", "viewer"]) == 0
    assert read_users()["ann"][0] == "viewer"
    typed(b"another good word")
    assert main(["users", "passwd", "ann"]) == 0
    assert verify_password("another good word", read_users()["ann"][1])
    assert main(["users", "remove", "ann"]) == 0
    assert read_users() == {}
    assert "ann was removed" in capsys.readouterr().err


def test_the_list_shows_names_and_roles_and_no_hash(typed, capsys):
    assert main(["users", "list"]) == 0
    assert "no users" in capsys.readouterr().err
    add(typed)
    add(typed, "bob", "viewer")
    capsys.readouterr()
    main(["users", "list"])
    assert capsys.readouterr().out == "ann  manager\nbob  viewer\n"
    main(["users", "list", "--json"])
    assert json.loads(capsys.readouterr().out)[1] == {"name": "bob", "role": "viewer"}


def test_who_removes_a_person_is_told_which_of_their_keys_remain_valid(typed, capsys, folder):
    layout = Layout("state", "config")
    (folder / "state" / "proxy").mkdir(mode=0o700, parents=True)
    (folder / "state").chmod(0o700)
    keys = KeyFile(layout)
    for name, by in {"phone": "user:ann", "gone": "user:ann", "other": "user:anna"}.items():
        keys.add(issue_key(name, AT, by)[1])
    revoked = (folder / "state" / "keys.yml").read_bytes()
    keys.revoke("gone", AT)
    (folder / "state" / "keys.yml").write_bytes(revoked)  # an older file came back
    AccessKeyFile(layout).add(model.issue("chatbot", AT, "user:ann")[1])
    managing = issue_management_key("ops", "all", AT, "user:ann")[1]
    ManagementKeyFile(layout).add(managing)
    add(typed)
    capsys.readouterr()
    assert main(["users", "remove", "ann"]) == 0
    told = capsys.readouterr().err
    assert "that remain valid: phone (agentd keys revoke NAME)" in told
    assert "chatbot (agentd proxy key remove KEY)" in told
    assert "ops (agentd proxy management-key remove NAME)" in told
    assert "gone" not in told
    assert "other" not in told
    add(typed)
    capsys.readouterr()
    assert main(["users", "remove", "ann", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "ann",
        "done": "was removed",
        "keys": ["phone"],
        "accessKeys": ["chatbot"],
        "managementKeys": ["ops"],
    }


@pytest.mark.parametrize(
    ("words", "text", "code", "result"),
    [
        (["add", "ann", "--role", "viewer"], WORD.encode(), 1, "users passwd ann"),
        (["add", "a b", "--role", "viewer"], WORD.encode(), 2, "A user's name is"),
        (["add", "bob", "--role", "boss"], WORD.encode(), 2, "invalid choice"),
        (["add", "bob"], WORD.encode(), 2, "--role"),
        (["add", "bob", "--role", "viewer"], b"short\n", 2, "fewer than 12"),
        (["add", "bob", "--role", "viewer"], b"", 2, "fewer than 12"),
        (["add", "bob", "--role", "viewer"], b"\xff" * 20, 2, "UTF-8"),
        (["passwd", "bob"], WORD.encode(), 1, 'no user named "bob"'),
        (["remove", "bob"], b"", 1, 'no user named "bob"'),
        ([], b"", 2, "VERB"),
    ],
)
def test_what_goes_wrong_is_reported_and_changes_nothing(typed, capsys, words, text, code, result):
    add(typed)
    before = read_users()
    typed(text)
    assert main(["users", *words]) == code
    out = capsys.readouterr()
    assert result in out.err
    assert "Traceback" not in out.err
    assert read_users() == before


def test_a_comment_of_the_person_stays(typed, folder):
    add(typed)
    path = folder / "config" / "users.yml"
    path.write_text(path.read_text() + "# my own words\n")
    add(typed, "bob", "viewer")
    assert "# my own words" in path.read_text()


def test_hash_password_prints_what_the_administrator_of_the_environment_needs(
    typed, capsys, monkeypatch
):
    typed(WORD.encode())
    assert main(["hash-password"]) == 0
    out = capsys.readouterr().out.strip()
    assert is_password_hash(out)
    assert verify_password(WORD, out)
    monkeypatch.setenv("AGENTD_ADMIN_USER", "ada")
    monkeypatch.setenv("AGENTD_ADMIN_PASSWORD_HASH", out)
    assert main(["check", "--json"]) == 0
    monkeypatch.setenv("AGENTD_ADMIN_PASSWORD_HASH", WORD)
    capsys.readouterr()
    assert main(["check"]) == 1
    out = capsys.readouterr().out
    assert "AGENTD_ADMIN_PASSWORD_HASH: admin_password_hash: is no hash of a password" in out
    assert WORD not in out


def test_check_shows_what_is_wrong_with_the_users(typed, capsys, folder):
    add(typed)
    assert main(["check"]) == 0
    (folder / "config" / "users.yml").chmod(0o644)
    assert main(["check"]) == 1
    assert "users.yml: " in capsys.readouterr().out


def test_help_teaches_by_example(capsys):
    for words in (["users"], ["hash-password"]):
        assert main([*words, "--help"]) == 0
        assert "examples:" in capsys.readouterr().out
