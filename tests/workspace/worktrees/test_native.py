"""Chats of the native engine in work trees of their own, in a real daemon with real tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.served import PATIENCE, Caller, ServedAgent
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Say, Stall
from tests.supplier.supplier import Supplier
from tests.support.waiting import until
from tests.workspace.worktrees.conftest import run_git

BUGS = 5
FIXED = Say("Fixed.")


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
    bug = find_bug(request)
    calls = sum(turn["role"] == "tool" for turn in request.turns)
    if not calls:
        return Call("read_file", {"path": "sums.py"})
    if calls == 1:
        wrong, right = f"x - {bug}  # wrong", f"x + {bug}"
        return Call("edit_file", {"path": "sums.py", "old": wrong, "new": right})
    return FIXED


def find_bug(request: Request) -> int:
    """Return the number of the bug that a chat's prompt names."""
    said = json.dumps(request.turns)
    return next(bug for bug in range(BUGS) if f"Fix add_{bug}." in said)


def test_five_chats_fix_a_bug_each_at_the_same_time_and_all_merge(
    served: ServedAgent, supplier: Supplier, home: Path
) -> None:
    stalls = [Stall() for _ in range(BUGS)]

    def fix_together(request: Request) -> Answer | Call | Say:
        """Stop before the last words, until all chats are there."""
        made = fix_bug(request)
        return Answer((made,), faults=(stalls[find_bug(request)],)) if made == FIXED else made

    supplier.answer_always(fix_together)
    with served.running(HOME=str(home)) as caller:
        before = (served.workspace / "sums.py").read_text()
        chats = [create_chat(caller, bug) for bug in range(BUGS)]
        for stall in stalls:
            stall.reached.result(PATIENCE)
        trees = [Path(served.process.layout.get_worktree_folder(chat)) for chat in chats]
        assert [caller.client.status(chat)["status"] for chat in chats] == ["processing"] * BUGS
        for bug, tree in enumerate(trees):
            only = before.replace(f"x - {bug}  # wrong", f"x + {bug}")
            assert (tree / "sums.py").read_text() == only
        assert (served.workspace / "sums.py").read_text() == before
        for stall in stalls:
            stall.release()
        for chat in chats:
            assert caller.wait_until_idle(chat)[-1]["content"] == "Fixed."
        for chat in chats:
            reply = caller.client.post(f"/api/chat/{chat}/worktree/merge", {"into": "main"})
            assert reply.status == 200, reply.body
            assert caller.client.delete(f"/api/chats/{chat}").status == 200
    names: dict[str, Any] = {}
    exec((served.workspace / "sums.py").read_text(), names)  # noqa: S102
    assert [names[f"add_{bug}"](1) for bug in range(BUGS)] == [1 + bug for bug in range(BUGS)]
    assert run_git(served.workspace, "branch", "--format=%(refname:short)") == "main\n"
    assert run_git(served.workspace, "status", "--porcelain") == ""


def test_a_sixth_chat_that_changes_the_same_line_is_told_the_conflict(
    served: ServedAgent, supplier: Supplier, home: Path
) -> None:
    def fix_otherwise(request: Request) -> Call | Say:
        made = fix_bug(request)
        otherwise = "Otherwise." in json.dumps(request.turns)
        if otherwise and isinstance(made, Call) and made.name == "edit_file":
            return Call("edit_file", {**made.value, "new": "x - -2"})
        return made

    supplier.answer_always(fix_otherwise)
    with served.running(HOME=str(home)) as caller:
        chats = [create_chat(caller, bug) for bug in range(BUGS)]
        sixth = create_chat(caller, 2, " Otherwise.")
        for chat in (*chats, sixth):
            assert caller.wait_until_idle(chat)[-1]["content"] == "Fixed."
        for chat in chats:
            reply = caller.client.post(f"/api/chat/{chat}/worktree/merge", {"into": "main"})
            assert reply.status == 200, reply.body
        merged = (served.workspace / "sums.py").read_text()
        reply = caller.client.post(f"/api/chat/{sixth}/worktree/merge", {"into": "main"})
        assert reply.status == 409
        assert "sums.py" in reply.body.decode()
        tree = Path(served.process.layout.get_worktree_folder(sixth))
        assert "x - -2" in (tree / "sums.py").read_text()
    assert (served.workspace / "sums.py").read_text() == merged
    assert run_git(served.workspace, "status", "--porcelain") == ""


def create_chat(caller: Caller, bug: int, more: str = "") -> int:
    """Create a chat with a work tree that fixes a bug."""
    prompt = f"Fix add_{bug}.{more}"
    return caller.client.create_chat(prompt=prompt, model="native", worktree=True)


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
