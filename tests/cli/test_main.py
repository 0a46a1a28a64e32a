"""The command itself: which of its commands it knows, and what it imports for one."""

import subprocess
import sys

import pytest

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
