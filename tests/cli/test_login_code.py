"""``agentd login-code``, of a real daemon."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.cli import login_code
from agentd.cli.main import main
from tests.web.manage.conftest import HASH, MANAGEMENT_KEY
from tests.web.support import Serving


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("daemon")
    with Serving(folder, environ={"PROXY_APP_HASH": HASH}) as serving:
        yield serving


@pytest.fixture
def typed(monkeypatch):
    """Have this come in by a pipe."""

    def type_(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return type_


def command(daemon: Serving, *words: str) -> list[str]:
    return ["--state", daemon.layout.state, "login-code", *words]


def signs_in(daemon: Serving, code: str) -> bool:
    return daemon.client(None).post("/api/session", {"code": code}).status == 200


def test_the_code_alone_is_on_standard_output_and_signs_in_once(daemon, typed, capsys):
    typed(f"{MANAGEMENT_KEY}\n")
    assert main(command(daemon)) == 0
    told = capsys.readouterr()
    assert len(told.out.strip()) == 10
    assert "once" in told.err
    assert signs_in(daemon, told.out.strip())
    assert not signs_in(daemon, told.out.strip())


def test_a_person_is_asked_without_being_shown(daemon, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(login_code.getpass, "getpass", lambda _: MANAGEMENT_KEY)
    assert main(command(daemon, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert signs_in(daemon, told["code"])
    assert told["expiresAt"].endswith("Z")


def test_the_key_may_come_from_a_file_that_nobody_else_reads(daemon, tmp_path: Path, capsys):
    file = tmp_path / "key"
    file.write_text(f"{MANAGEMENT_KEY}\n")
    file.chmod(0o644)
    assert main(command(daemon, "--key-file", str(file))) == 1
    assert "chmod 600" in capsys.readouterr().err
    file.chmod(0o600)
    assert main(command(daemon, "--key-file", str(file))) == 0
    assert signs_in(daemon, capsys.readouterr().out.strip())
    assert main(command(daemon, "--key-file", str(tmp_path / "none"))) == 2


@pytest.mark.parametrize(("given", "code"), [("wrong", 1), ("", 2), ("\u00e9", 2), ("a\nb", 2)])
def test_a_wrong_key_is_refused_and_never_repeated(daemon, typed, capsys, given, code):
    typed(given)
    assert main(command(daemon)) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert "management key" in told.err
    assert not given or given not in told.err


def test_where_nothing_is_managed_it_says_what_is_missing(tmp_path: Path, typed, capsys):
    with Serving(tmp_path) as daemon:
        typed(MANAGEMENT_KEY)
        assert main(command(daemon)) == 1
    assert "PROXY_APP_HASH" in capsys.readouterr().err


def test_without_a_daemon_there_is_no_code(tmp_path: Path, typed, capsys, monkeypatch):
    monkeypatch.setattr("agentd.cli.client._START", 0.1)
    typed(MANAGEMENT_KEY)
    assert main(["--state", str(tmp_path / "state"), "login-code"]) == 1
    assert "no daemon" in capsys.readouterr().err
