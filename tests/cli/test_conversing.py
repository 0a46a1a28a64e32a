"""``serve``, ``ask`` and ``demo``, as real processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentd.app.state import read_daemon_info
from agentd.storage.layout import Layout
from tests.support.daemon import until

PATIENCE = 100.0


def _run_agentd(
    *words: str, home: Path, key: str = "", given: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "agentd", *words],  # -P: as the installed command
        cwd=home,
        env=_build_environment(home, key),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _build_environment(home: Path, key: str = "") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENT")}
    kept |= {"AGENTD_STATE": str(home / "state"), "AGENTD_CONFIG": str(home / "config")}
    return kept | ({"AGENTD_KEY": key} if key else {})


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make_home(tmp_path_factory)


def _make_home(factory: pytest.TempPathFactory) -> Path:
    folder = factory.mktemp("home")
    (folder / "notes.txt").write_text("buy milk\nwater the plants\n")
    return folder


class ServedFolder(NamedTuple):
    """A daemon, the folder that it serves, and a key for it."""

    home: Path
    process: "subprocess.Popen[str]"
    key: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    home = _make_home(tmp_path_factory)
    process = subprocess.Popen(
        [sys.executable, "-m", "agentd", "serve", "--port", "0"],
        cwd=home,
        env=_build_environment(home),
        stderr=subprocess.PIPE,
        text=True,
    )
    layout = Layout(str(home / "state"), str(home / "config"))
    until(lambda: read_daemon_info(layout) or process.poll() is not None, PATIENCE)
    assert process.poll() is None
    with process:
        yield ServedFolder(home, process, _generate_key(home))
        process.send_signal(signal.SIGTERM)
        assert process.stderr
        log = process.stderr.read()
        assert process.wait(PATIENCE) == 0, log


def _generate_key(home: Path) -> str:
    made = _run_agentd("keys", "generate", "laptop", home=home)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()[-1]


def test_ask_shows_progress_on_standard_error_and_the_answer_alone_on_standard_output(
    served: ServedFolder,
) -> None:
    asked = _run_agentd("ask", "find milk", home=served.home, key=served.key)
    assert asked.returncode == 0, asked.stderr
    assert "notes.txt:1" in asked.stdout
    assert "Tool:" not in asked.stdout
    assert re.search(r"chat \d+: queued\n(.*\n)*chat \d+: Tool: search_text", asked.stderr)


def test_ask_takes_the_prompt_from_standard_input_and_answers_in_json(served: ServedFolder) -> None:
    asked = _run_agentd("ask", "--json", "-", home=served.home, key=served.key, given="find plants")
    answer = json.loads(asked.stdout)
    assert answer["role"] == "assistant"
    assert "notes.txt:2" in answer["content"]


def test_ask_sends_later_without_waiting_for_the_reply(served: ServedFolder) -> None:
    asked = _run_agentd(
        "ask", "--not-before", "2999-01-01T09:00+01:00", "x", home=served.home, key=served.key
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.endswith(": to be sent at 2999-01-01T08:00:00.000Z or later\n")
    asked = _run_agentd("ask", "--not-before", "soon", "x", home=served.home, key=served.key)
    assert asked.returncode != 0
    assert "--not-before is 'soon', expected a time" in asked.stderr


def test_ask_with_a_wrong_key_says_how_to_make_one(served: ServedFolder) -> None:
    wrong = served.key[:-1] + ("a" if served.key[-1] != "a" else "b")
    asked = _run_agentd("ask", "find milk", home=served.home, key=wrong)
    assert asked.returncode == 1
    assert "Invalid or missing API key" in asked.stderr
    assert "agentd keys generate" in asked.stderr
    assert wrong not in asked.stderr


def test_ask_without_a_key_says_how_to_make_one(home: Path) -> None:
    asked = _run_agentd("ask", "find milk", home=home)
    assert asked.returncode == 1
    assert "agentd keys generate" in asked.stderr


def test_ask_without_a_daemon_says_how_to_start_one(home: Path) -> None:
    asked = _run_agentd("ask", "find milk", home=home, key="agent_any")
    assert asked.returncode == 1
    assert "agentd serve" in asked.stderr
    assert "Traceback" not in asked.stderr


@pytest.mark.parametrize("words", [("ask", "find milk"), ("open",), ("approve",)])
def test_a_copy_of_a_served_folder_leads_to_no_daemon(
    served: ServedFolder, tmp_path: Path, words: tuple[str, ...]
) -> None:
    shutil.copytree(served.home / "state", tmp_path / "state")
    assert read_daemon_info(Layout(str(tmp_path / "state"), "")), "what the copy says of a daemon"
    told = _run_agentd(*words, home=tmp_path, key=served.key)
    assert told.returncode == 1
    assert told.stdout == ""
    assert f"no daemon serves {tmp_path / 'state'}" in told.stderr


def test_ask_with_an_empty_prompt_is_wrong_usage(home: Path) -> None:
    assert _run_agentd("ask", "  ", home=home, key="agent_any").returncode == 2


def test_a_second_daemon_on_the_same_state_is_shown_who_serves_it(served: ServedFolder) -> None:
    second = _run_agentd("serve", "--port", "0", home=served.home)
    assert second.returncode == 1
    assert f"process {served.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr


def test_serve_on_a_taken_port_says_so(home: Path, served: ServedFolder) -> None:
    daemon = read_daemon_info(Layout(str(served.home / "state"), ""))
    assert daemon
    port = daemon.url.rpartition(":")[2]
    other = ("--state", str(home / "other"), "--port", port)
    second = _run_agentd("serve", *other, home=home)
    assert second.returncode == 1
    assert f"127.0.0.1:{port}" in second.stderr
    assert "Traceback" not in second.stderr
    assert served.process.poll() is None


def test_the_agent_cannot_read_what_belongs_to_agentd_itself(served: ServedFolder) -> None:
    (served.home / ".env").write_text("AGENTD_PORT=0 # canary\n")
    asked = _run_agentd("ask", "read state/keys.yml", home=served.home, key=served.key)
    assert "stays closed" in asked.stdout + asked.stderr
    found = _run_agentd("ask", "find canary", home=served.home, key=served.key)
    assert ".env" not in found.stdout
    (served.home / ".env").unlink()


def test_a_file_of_secrets_is_read_by_leave_only(served: ServedFolder) -> None:
    (served.home / ".env").write_text("AGENTD_PORT=0 # canary\n")

    def call(*words: str) -> str:
        return _run_agentd(*words, home=served.home, key=served.key).stdout

    with ThreadPoolExecutor() as threads:
        reading = threads.submit(call, "ask", "read .env")
        questions: list[dict[str, Any]] = []
        while not questions:
            assert not reading.done(), reading.result()
            questions = json.loads(call("approve", "--json"))
        [question] = questions
        assert "passwords and keys" in question["reason"]
        call("approve", str(question["id"]), "--deny")
        assert "not allowed" in reading.result()
    assert "canary" not in reading.result()
    (served.home / ".env").unlink()


def test_demo_answers_about_the_current_folder_and_ends_by_itself(home: Path) -> None:
    shown = _run_agentd("demo", home=home)
    assert shown.returncode == 0, shown.stderr
    assert "notes.txt" in shown.stdout
    assert '"status": "completed"' in shown.stdout
    assert sorted(path.name for path in home.iterdir()) == ["notes.txt"]


def test_demo_runs_nothing_of_the_current_folder(home: Path) -> None:
    for name in ("queue.py", "tornado.py"):
        (home / name).write_text("raise SystemExit(f'{__file__} was run')\n")
    shown = _run_agentd("demo", home=home)
    assert shown.returncode == 0, shown.stderr
    assert "queue.py" in shown.stdout


def test_demo_takes_another_prompt(home: Path) -> None:
    assert "notes.txt:2" in _run_agentd("demo", "find plants", home=home).stdout


def test_ask_with_a_schema_is_refused_where_the_model_cannot_follow_one(
    served: ServedFolder, tmp_path: Path
) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    asked = _run_agentd("ask", "--schema", str(schema), "x", home=served.home, key=served.key)
    assert asked.returncode != 0
    assert "The engine offline cannot hold its reply to an output schema" in asked.stderr
    schema.write_text("{")
    asked = _run_agentd("ask", "--schema", str(schema), "x", home=served.home, key=served.key)
    assert asked.returncode != 0
    assert f"--schema {schema} cannot be read" in asked.stderr
