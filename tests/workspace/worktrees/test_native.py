"""Chats of the native engine in work trees of their own, in a real daemon with real tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.served import ServedAgent
from tests.supplier.request import Request
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.waiting import until
from tests.workspace.worktrees.conftest import run_git

BUGS = 5


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    """A daemon whose workspace has five wrong functions in one file, far from one another."""
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"}
        ],
    }
    served = ServedAgent(tmp_path, models, approvals="deny", max_parallel_turns=BUGS)
    lines = [
        line
        for bug in range(BUGS)
        for line in (f"def add_{bug}(x):", f"    return x - {bug}  # wrong", "", "", "", "")
    ]
    (served.workspace / "sums.py").write_text("\n".join(lines))
    run_git(served.workspace, "init", "-q")
    run_git(served.workspace, "add", "-A")
    run_git(served.workspace, "commit", "-qm", "Five bugs")
    return served


def fix_bug(request: Request) -> Call | Say:
    """Play the model: read the file, change one line of it, and say so."""
    said = json.dumps(request.turns)
    bug = next(bug for bug in range(BUGS) if f"Fix add_{bug}." in said)
    calls = sum(turn["role"] == "tool" for turn in request.turns)
    if not calls:
        return Call("read_file", {"path": "sums.py"})
    if calls == 1:
        wrong, right = f"x - {bug}  # wrong", f"x + {bug}"
        return Call("edit_file", {"path": "sums.py", "old": wrong, "new": right})
    return Say("Fixed.")


def test_five_chats_fix_a_bug_each_and_all_merge(
    served: ServedAgent, supplier: Supplier, home: Path
) -> None:
    supplier.answer_always(fix_bug)
    with served.running(HOME=str(home)) as caller:
        before = (served.workspace / "sums.py").read_text()
        chats = [
            caller.client.create_chat(prompt=f"Fix add_{bug}.", model="native", worktree=True)
            for bug in range(BUGS)
        ]
        for chat in chats:
            assert caller.wait_until_idle(chat)[-1]["content"] == "Fixed."
        assert (served.workspace / "sums.py").read_text() == before
        for chat in chats:
            reply = caller.client.post(f"/api/chat/{chat}/worktree/merge", {"into": "main"})
            assert reply.status == 200, reply.body
            assert caller.client.delete(f"/api/chats/{chat}").status == 200
    names: dict[str, Any] = {}
    exec((served.workspace / "sums.py").read_text(), names)  # noqa: S102
    assert [names[f"add_{bug}"](1) for bug in range(BUGS)] == [1 + bug for bug in range(BUGS)]
    assert run_git(served.workspace, "branch", "--format=%(refname:short)") == "main\n"
    assert run_git(served.workspace, "status", "--porcelain") == ""


def test_a_tree_that_was_being_made_at_a_kill_is_made_anew(
    served: ServedAgent, supplier: Supplier, home: Path
) -> None:
    begun, go = served.folder / "begun", served.folder / "go"
    config = served.folder / "config" / "agentd.yml"
    script = f"touch half; touch {begun}; test -e {go} || sleep 600; rm half; touch done"
    said = {**json.loads(config.read_text()), "worktree_setup": ["sh", "-c", script]}
    config.write_text(json.dumps({**said, "on_interrupted": "retry"}))
    supplier.answer_always(fix_bug)
    with served.running(HOME=str(home)) as caller:
        chat = caller.client.create_chat(prompt="Fix add_3.", model="native", worktree=True)
        until(begun.exists)
        tree = Path(served.process.layout.get_worktree_folder(chat))
        assert (tree / "half").exists()
    go.write_text("")
    with served.running(HOME=str(home)) as caller:
        caller.wait_until_idle(chat)
        assert caller.client.get(f"/api/chat/{chat}/worktree")["step"] == "ready"
        assert ((tree / "half").exists(), (tree / "done").exists()) == (False, True)
        assert "x + 3" in (tree / "sums.py").read_text()
        assert "x + 3" not in (served.workspace / "sums.py").read_text()


@pytest.mark.parametrize("engine", ["codex", "claude-code", "acp"])
def test_programs_of_other_engines_run_in_the_tree(
    engine: str, served: ServedAgent, home: Path
) -> None:
    where = served.folder / "where"
    config = served.folder / "config"
    command = ["sh", "-c", f"pwd > {where}; exit 1"]
    model = {"name": "other", "engine": engine, "command": command}
    (config / "models.yml").write_text(json.dumps({"models": [model]}))
    with served.running(HOME=str(home)) as caller:
        chat = caller.client.create_chat(prompt="x", model="other", worktree=True)
        caller.wait_until_idle(chat)
        assert where.read_text() == f"{served.process.layout.get_worktree_folder(chat)}\n"


def test_command_lines_are_judged_in_the_tree(
    served: ServedAgent, supplier: Supplier, home: Path
) -> None:
    config = served.folder / "config" / "agentd.yml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "approvals": "auto"}))
    state = served.folder / "state"
    supplier.script(
        Call("shell", {"command": f"cat {state}/worktrees/1/sums.py"}),
        Call("shell", {"command": "cat ../../keys.yml"}),
        Say("Done."),
    )
    with served.running(HOME=str(home)) as caller:
        chat = caller.client.create_chat(prompt="Look.", model="native", worktree=True)
        asked = caller.wait_for_question(chat)
        assert "../../keys.yml" in asked["subject"]
        path = f"/api/chat/{chat}/approvals/{asked['id']}"
        assert caller.client.post(path, {"decision": "deny"}).status == 200
        assert caller.wait_until_idle(chat)[-1]["content"] == "Done."
    first, *_ = supplier.requests[1].results
    assert "def add_0" in first.text
