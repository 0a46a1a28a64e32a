"""Every command of the README works as it is pasted."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from agentd.models.store import load as load_models
from agentd.settings.sources import load as load_settings
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY
from tests.support.ports import find_free_port

README = (REPOSITORY / "README.md").read_text()
STATE_README = (REPOSITORY / "state" / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)

RUN, TEST, *SESSION = BLOCKS

PAUSES = {
    "agentd serve &\n": "until test -e state/daemon.json; do sleep 0.1; done\n",
    "agentd demo --supplier 8760 &\n": "until curl -s 127.0.0.1:8760 >&2; do sleep 0.1; done\n",
}
"""What a person waits for who reads on, however slow the machine is."""
LISTENED = re.compile(r"^(curl -sN --max-time) 1 (.*) \|\| true$", re.MULTILINE)
LONGER = r"for most in 1 9 90; do \1 $most \2 | tee heard || true; test ! -s heard || break; done"
"""Whoever heard nothing in a second listens once more."""


def test_the_two_commands_are_one_line_each_and_ci_runs_them() -> None:
    assert RUN.count("\n") == TEST.count("\n") == 1
    ci = (REPOSITORY / ".ci" / "run").read_text()
    assert "$(readme 1)" in ci
    assert "$(readme 2)" in ci


def test_ci_finds_the_blocks_that_the_readme_has() -> None:
    reader = re.search(r"readme\(\) \{.*?\n\}", (REPOSITORY / ".ci" / "run").read_text(), re.DOTALL)
    assert reader
    for number, block in enumerate((RUN, TEST), start=1):
        script = f"{reader[0]}\nreadme {number}"
        command = ["bash", "-c", script]
        found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
        assert found.stdout.decode() == block


def run_session(
    session: str, checkout: Path, environment: dict[str, str], folder: Path
) -> tuple[int, str, str]:
    """Run the commands in bash; their exit code, what they printed, and that with the errors.

    Output goes to files and the process group is ended afterwards: where a command fails, the
    daemon that was started before it goes on, and would keep pipes open for ever.
    """
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", session],
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            returncode = shell.wait(timeout=600)
        except subprocess.TimeoutExpired:
            returncode = -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    printed = out.read_text(errors="replace")
    return returncode, printed, printed + err.read_text(errors="replace")


@pytest.mark.skipif(not shutil.which("curl"), reason="the session uses curl")
def test_the_session_works_as_pasted(tmp_path: Path) -> None:
    checkout = tmp_path / "agentd"
    shutil.copytree(
        REPOSITORY,
        checkout,
        ignore=shutil.ignore_patterns(
            *(".venv", ".git", "node_modules", ".*_cache", ".hypothesis"),
            "*.pyc.*",  # what a test beside this one is just compiling
        ),
    )
    for folder in ("state", "config"):
        for name in (checkout / folder).iterdir():
            if name.name != "README.md":
                shutil.rmtree(name) if name.is_dir() else name.unlink()
    port, supplier = str(find_free_port()), str(find_free_port())
    # The installed command of this environment stands in for the fresh one of the first block.
    (checkout / ".venv").symlink_to(Path(sys.executable).parent.parent)
    session, listened = LISTENED.subn(LONGER, "\n".join(SESSION))
    assert listened == 1
    for command, pause in PAUSES.items():
        assert command in session
        session = session.replace(command, command + pause)
    session = session.replace("8750", port).replace("8760", supplier)
    environment = {**os.environ, "AGENTD_PORT": port, "PYTHONPATH": str(checkout)}
    for name in ("AGENTD_KEY", "AGENT_API_KEY", "AGENTD_STATE", "AGENTD_CONFIG", "PROXY_APP_HASH"):
        environment.pop(name, None)
    returncode, stdout, told = run_session(session, checkout, environment, tmp_path)
    assert returncode == 0, told
    assert '"status":"completed"' in stdout, told
    assert "Tool: " in told
    assert "clock.py" in stdout, told
    assert '"isPaused":true' in stdout, told
    assert "event: resumed\n" in stdout, told
    refused = ('"message":"Invalid or missing API key"', "Remote API is disabled")
    assert any(words in stdout for words in refused), told
    assert "channel here: ready" in told
    assert "You said: postgres://ann:Xw7-kettle-49@db/x" in stdout, told
    (sent,) = re.findall("the supplier was sent: (.*)", told)
    assert "Xw7-kettle-49" not in sent
    assert re.search(r"^laptop +1 +0 ", stdout, re.MULTILINE), told
    assert "-:1: url-password, 13 characters (hide)" in stdout, told
    assert "# agentd" in stdout, told
    assert '"title":"laptop","requests":1' in stdout, told


def test_the_configuration_that_it_shows_is_taken_as_it_stands(tmp_path: Path) -> None:
    models, settings = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    layout = Layout(str(tmp_path / "state"), str(tmp_path))
    Path(layout.models).write_text(models)
    Path(layout.settings).write_text(settings)
    assert load_models(layout).default == "large"
    taken = load_settings({}, {"AGENTD_CONFIG": str(tmp_path)}, str(tmp_path)).settings
    assert [rule.decision for rule in taken.approval_rules] == ["allow", "deny"]
    assert taken.budget_per_day == 20


@pytest.mark.skipif(not shutil.which("jq"), reason="what the page of the state folder shows is jq")
def test_costs_that_are_read_with_jq_are_those_that_count(tmp_path: Path) -> None:
    chat, requests = tmp_path / "state/chats/1", tmp_path / "state/proxy/requests"
    for folder in (chat, requests):
        folder.mkdir(parents=True)
    (chat / "journal.jsonl").write_text(
        '{"body":{"type":"chat.created","title":"t"}}\n'
        '{"body":{"type":"message.added","message":{"id":2,"text":"a","cost":"0.5"}}}\n'
        '{"body":{"type":"turn.ended","outcome":"failed","cost":"0.25"}}\n'
    )
    (requests / "2026-01-31.jsonl").write_text('{"key":"k","key_name":"laptop","cost":"0.5"}\n')
    (requests / "begun-1.jsonl").write_text('{"begun":"","key":"k","cost":"9"}\n{"cost":"0.5"}\n')
    for title, cost in [("what a chat cost", 0.75), ("what each access key spent", 0.5)]:
        (recipe,) = re.findall(rf"# {title}.*\n((?:    .+\n)+)", STATE_README)
        told = subprocess.run(["sh", "-c", recipe], cwd=tmp_path, capture_output=True, check=True)
        found = json.loads(told.stdout)
        assert (found if isinstance(found, float) else found["usd"]) == cost
