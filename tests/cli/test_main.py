"""The command itself: which of its commands it knows, and what it imports for one."""

import os
import re
import subprocess
import sys

import pytest

from agentd.cli.client import require_key
from agentd.cli.main import COMMANDS, FAILED, OK, USAGE, main

_SHOW = """
import sys
from agentd.cli.main import COMMANDS, main
main(sys.argv[1:])
known = {name.replace("-", "_") for name in COMMANDS}
print(*sorted(known & {name.removeprefix("agentd.cli.") for name in sys.modules}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("given", "told", "imported"),
    [(["hash-key", "--help"], "openssl rand", ["hash_key"]), (["--version"], "agentd ", [])],
)
def test_for_one_command_no_other_is_imported(given, told, imported):
    command = [sys.executable, "-c", _SHOW, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told in done.stdout
    assert done.stderr.split() == imported


@pytest.mark.parametrize("given", [["--help"], ["-h"], ["-h", "serve"], ["--help", "keys"]])
def test_help_lists_every_command_whatever_stands_behind_it(given, capsys):
    assert main(given) == OK
    told = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert all([name] in told for name in COMMANDS)


@pytest.mark.parametrize("given", [["srve"], ["--port", "1", "srve"], []])
def test_what_is_no_command_is_reported_with_all_that_are(given, capsys):
    assert main(given) == USAGE
    told = capsys.readouterr().err
    assert not given or all(repr(name) in told for name in COMMANDS)


def test_a_folder_may_be_named_as_a_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--state", "serve", "--config", "check", "keys", "revoke", "nobody"]) == FAILED
    assert "nobody" in capsys.readouterr().err


def _run_in_shell(tmp_path, redirection, *words, stdin=b"", **variables):
    """Run the command as a shell does with this redirection."""
    script = f'exec "$0" -m agentd "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", script, sys.executable, "--state", "state", "--config", "config", *words],
        env={**os.environ, "HOME": str(tmp_path), **variables},
        cwd=tmp_path,
        input=stdin,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("redirection", "why"),
    [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")],
)
def test_output_that_cannot_be_written_is_reported_and_no_key_ends(tmp_path, redirection, why):
    _run_in_shell(tmp_path, "", "keys", "generate", "laptop")
    for words in (["keys", "list"], ["keys", "regenerate", "laptop"]):
        done = _run_in_shell(tmp_path, redirection, *words)
        assert done.returncode == FAILED
        last = done.stderr.decode().splitlines()[-1]
        assert last == f"agentd: standard output cannot be written: {why}"
    # The key before stays valid until the new one is used.
    assert '"name": "laptop"' in (tmp_path / "state/renewals.json").read_text()
    assert not (tmp_path / "state/revoked.json").exists()


def test_without_standard_error_only_the_key_is_printed(tmp_path):
    done = _run_in_shell(tmp_path, "2>&-", "keys", "generate", "laptop")
    assert done.returncode == OK
    assert re.fullmatch(rb"agent_[A-Za-z0-9]{32}\n", done.stdout)


@pytest.mark.parametrize(
    "words", [["hash-key"], ["hash-password"], ["users", "add", "ann", "--role", "viewer"]]
)
def test_without_standard_input_there_is_nothing_to_read(tmp_path, words):
    done = _run_in_shell(tmp_path, "<&-", *words)
    assert done.returncode == USAGE
    assert done.stderr.startswith(b"agentd: ")


def test_what_a_locale_cannot_print_is_escaped(tmp_path):
    _run_in_shell(tmp_path, "", "proxy", "key", "add", "Bücher")
    done = _run_in_shell(tmp_path, "", "proxy", "key", "list", PYTHONIOENCODING="ascii")
    assert done.returncode == OK
    assert rb"B\xfccher" in done.stdout


@pytest.mark.parametrize("url", ["http://[::1", "http://host:port", "http://host:99999"])
@pytest.mark.parametrize("words", [["ask", "-"], ["tail"], ["approve"], ["login-code"]])
def test_a_url_that_is_none_is_wrong_usage(tmp_path, url, words):
    typed = b"m" * 40 if words == ["login-code"] else b"caf\xe9"  # not UTF-8, as a diff may be
    done = _run_in_shell(tmp_path, "", *words, "--url", url, stdin=typed, AGENTD_KEY="agent_x")
    assert done.returncode == USAGE
    told = done.stderr.decode().splitlines()
    assert told[0] == f"agentd: {url} is not the URL of a daemon: its host or port is not valid"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("agent_x\nagent_y", "AGENTD_KEY has a character that no key has"),
        ("agent_…", "AGENTD_KEY has a character that no key has"),
        (" \r\n", "AGENTD_KEY is not set"),
    ],
)
def test_a_key_that_cannot_be_sent_is_reported_as_such(tmp_path, key, told):
    done = _run_in_shell(
        tmp_path, "", "ask", "hello", "--url", "http://127.0.0.1:1", AGENTD_KEY=key
    )
    assert done.returncode == FAILED
    assert told in done.stderr.decode()


def test_the_line_end_of_an_environment_file_is_no_part_of_the_key(monkeypatch):
    monkeypatch.setenv("AGENTD_KEY", "agent_x\r\n")
    assert require_key() == "agent_x"


@pytest.mark.parametrize(
    "words",
    [
        ["proxy", "log", "--model", "gr\udcfc"],
        ["schedules", "run", "gr\udcfc", "--url", "http://127.0.0.1:1"],
    ],
)
def test_an_argument_that_is_no_text_is_wrong_usage(tmp_path, monkeypatch, capsys, words):
    monkeypatch.setenv("AGENTD_KEY", "agent_x")
    assert main(["--state", str(tmp_path), "--config", str(tmp_path), *words]) == USAGE
    told = capsys.readouterr().err
    assert told == "agentd: an argument is not text in the encoding of this locale\n"
