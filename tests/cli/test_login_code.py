"""``agentd login-code``, of a real daemon."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.cli.main import main
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import Serving


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


def build_command(daemon: Serving, *words: str) -> list[str]:
    return ["--state", daemon.layout.state, "login-code", *words]


def can_sign_in(daemon: Serving, code: str) -> bool:
    return daemon.client(None).post("/api/session", {"code": code}).status == 200


def test_the_code_alone_is_on_standard_output_and_signs_in_once(daemon, typed, capsys):
    typed(f"{MANAGEMENT_KEY}\n")
    assert main(build_command(daemon)) == 0
    result = capsys.readouterr()
    assert len(result.out.strip()) == 10
    assert "once" in result.err
    assert can_sign_in(daemon, result.out.strip())
    assert not can_sign_in(daemon, result.out.strip())


def test_a_person_is_asked_without_being_shown(daemon, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda _: MANAGEMENT_KEY)
    assert main(build_command(daemon, "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert can_sign_in(daemon, result["code"])
    assert result["expiresAt"].endswith("Z")


def test_the_key_may_come_from_a_file_that_nobody_else_reads(daemon, tmp_path: Path, capsys):
    file = tmp_path / "key"
    file.write_text(f"{MANAGEMENT_KEY}\n")
    file.chmod(0o644)
    assert main(build_command(daemon, "--key-file", str(file))) == 1
    assert "chmod 600" in capsys.readouterr().err
    file.chmod(0o600)
    assert main(build_command(daemon, "--key-file", str(file))) == 0
    assert can_sign_in(daemon, capsys.readouterr().out.strip())
    assert main(build_command(daemon, "--key-file", str(tmp_path / "none"))) == 2


@pytest.mark.parametrize(("given", "code"), [("wrong", 1), ("", 2), ("\u00e9", 2), ("a\nb", 2)])
def test_a_wrong_key_is_refused_and_never_repeated(daemon, typed, capsys, given, code):
    typed(given)
    assert main(build_command(daemon)) == code
    result = capsys.readouterr()
    assert result.out == ""
    assert "management key" in result.err
    assert not given or given not in result.err


def test_where_nothing_is_managed_it_says_what_is_missing(tmp_path: Path, typed, capsys):
    with Serving(tmp_path) as daemon:
        typed(MANAGEMENT_KEY)
        assert main(build_command(daemon)) == 1
    assert "PROXY_APP_HASH" in capsys.readouterr().err


def test_without_a_daemon_there_is_no_code(tmp_path: Path, typed, capsys, monkeypatch):
    monkeypatch.setattr("agentd.cli.client._START_SECONDS", 0.1)
    typed(MANAGEMENT_KEY)
    assert main(["--state", str(tmp_path / "state"), "login-code"]) == 1
    assert "no daemon" in capsys.readouterr().err
