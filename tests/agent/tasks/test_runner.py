"""The program that gives the tasks to a model: a real daemon, and a scripted supplier."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.tasks.__main__ import main
from tests.agent.tasks.bugs import ESCAPING, INJECTION
from tests.agent.tasks.catalogue import TASKS
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.supplier.supplier import Supplier


@pytest.fixture
def supplier() -> Any:
    with Supplier() as serving:
        yield serving


def _run(supplier: Supplier, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    monkeypatch.setenv("TASKS_KEY", "sk-of-the-tasks")
    where = ("--url", supplier.url, "--key-env", "TASKS_KEY", "--model", "scripted-large")
    return main((*where, "--prices", "2,10", *more))


def test_what_is_solved_and_what_it_cost_is_told(supplier, monkeypatch, tmp_path: Path, capsys):
    *before, last = INJECTION.moves
    supplier.script(*before, Answer(last, Tokens(input=1_000_000, output=100_000)))
    supplier.script(Say("I give up."))
    kept = tmp_path / "attempts.json"
    names = f"{INJECTION.name},{ESCAPING.name}"
    assert _run(supplier, monkeypatch, "--tasks", names, "--json", str(kept)) == 1
    solved, missed = json.loads(kept.read_bytes())
    assert (solved["task"], solved["problem"]) == (INJECTION.name, "")
    assert solved["tools"] == 2
    assert solved["input_tokens"] == 1_000_000 + 2 * 10
    assert solved["output_tokens"] == 100_000 + 2 * 5
    assert solved["cost"] == pytest.approx(3 + 2 * (10 * 2 + 5 * 10) / 1_000_000)
    assert missed["task"] == ESCAPING.name
    assert "<script" in missed["problem"]
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line.startswith("1 of 2 solved (50 %), ")
    assert all(
        request.headers["authorization"] == "Bearer sk-of-the-tasks"
        for request in supplier.requests
    )


def test_a_turn_that_fails_is_told_with_its_reason(supplier, monkeypatch, capsys):
    supplier.script(Refuse(400, "No such model"))
    assert _run(supplier, monkeypatch, "--tasks", ESCAPING.name) == 1
    assert "No such model" in capsys.readouterr().out


def test_an_unknown_task_is_refused(capsys):
    with pytest.raises(SystemExit, match="There is no task tea; --list shows all"):
        main(["--tasks", f"{ESCAPING.name},tea"])


def test_the_list_has_every_task_once(capsys):
    assert main(["--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [task.name for task in TASKS]
    assert len(set(names)) == len(names) >= 30
