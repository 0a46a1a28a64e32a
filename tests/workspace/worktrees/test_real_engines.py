"""Real coding agents in work trees of their own: each changes its tree only, and all merge."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.engines.real.codex_talks import PATCH
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import CLAUDE, CODEX, KEY, MODEL, OPENCODE, install
from tests.agent.served import ServedAgent
from tests.supplier.request import Request
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.workspace.worktrees.conftest import run_git

pytestmark = pytest.mark.engines

PROGRAMS = {"codex": CODEX, "opencode": OPENCODE, "claude-code": CLAUDE}
DIALECTS = {"codex": "openai-responses", "opencode": "openai-chat", "claude-code": "anthropic"}
ENGINES = {"codex": "codex", "opencode": "acp", "claude-code": "claude-code"}


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        serving.answer_always(answer_title)
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    """A daemon whose workspace is a repository with one file."""
    models = {
        "suppliers": {
            name: {"dialect": dialect, "url": supplier.url, "key": "env:SCRIPTED_KEY"}
            for name, dialect in DIALECTS.items()
        },
        "models": [
            {"name": name, "engine": engine, "supplier": name, "model": MODEL, "context": 100_000}
            | ({"command": ["opencode", "acp"]} if engine == "acp" else {})
            for name, engine in ENGINES.items()
        ],
    }
    served = ServedAgent(tmp_path, models, approvals="auto")
    (served.workspace / "notes.txt").write_text("one\ntwo\n")
    run_git(served.workspace, "init", "-q")
    run_git(served.workspace, "add", "-A")
    run_git(served.workspace, "commit", "-qm", "Notes")
    return served


def list_calls(engine: str, tree: Path) -> list[Call]:
    """Return the model's calls that translate the first line of the file in the tree."""
    notes = str(tree / "notes.txt")
    match engine:
        case "codex":
            return [Call("exec_command", {"cmd": PATCH})]
        case "claude-code":
            given = {"file_path": notes, "old_string": "one", "new_string": "uno"}
            return [Call("Read", {"file_path": notes}), Call("Edit", given)]
    return [Call("edit", {"filePath": notes, "oldString": "one", "newString": "uno"})]


def install_program(engine: str, home: Path, tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the daemon finds the program; skip where there is none."""
    if not shutil.which(PROGRAMS[engine]):
        pytest.skip(f"no {PROGRAMS[engine]}: npm install --prefix tests/agent/engines/real")
    programs = install(tmp_path / "programs")
    shutil.copy(home / ".gitconfig", programs)
    return {
        "HOME": str(programs),
        "PATH": f"{programs / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SCRIPTED_KEY": KEY,
    }


@pytest.mark.parametrize("engine", PROGRAMS)
def test_an_agent_changes_its_own_tree_and_the_change_merges(
    engine: str, served: ServedAgent, supplier: Supplier, home: Path, tmp_path: Path
) -> None:
    environ = install_program(engine, home, tmp_path)
    with served.running(**environ) as caller:
        chat = caller.client.create_chat(prompt="Translate.", model=engine, worktree=True)
        tree = Path(served.process.layout.get_worktree_folder(chat))
        supplier.script(*list_calls(engine, tree), Say("It is done."))
        messages = caller.wait_until_idle(chat)
        assert messages[-1]["content"] == "It is done.", messages
        assert (tree / "notes.txt").read_text() == "uno\ntwo\n", messages
        assert (served.workspace / "notes.txt").read_text() == "one\ntwo\n"
        supplier.script(Say("As I said."))
        caller.append(chat, "And now?")
        assert caller.wait_until_idle(chat)[-1]["content"] == "As I said."
        assert "Translate." in str(supplier.requests[-1].turns), "the session goes on in the tree"
        reply = caller.client.post(f"/api/chat/{chat}/worktree/merge", {"into": "main"})
        assert reply.status == 200, reply.body
    assert (served.workspace / "notes.txt").read_text() == "uno\ntwo\n"
    assert run_git(served.workspace, "status", "--porcelain") == ""


WORDS = ("one", "two", "three", "four", "five")


def translate_word(request: Request) -> Call | Say | None:
    """Play Codex' model: translate the word that a chat's prompt names, and say so."""
    said = str(request.turns)
    word = next((word for word in WORDS if f"Translate {word}." in said), "")
    if not word:
        return None
    if request.results:
        return Say(f"{word} is translated.")
    patch = PATCH.replace("-one", f"-{word}").replace("+uno", f"+{word.upper()}")
    return Call("exec_command", {"cmd": patch})


def test_five_chats_of_codex_at_the_same_time_all_merge(
    served: ServedAgent, supplier: Supplier, home: Path, tmp_path: Path
) -> None:
    notes = served.workspace / "notes.txt"
    notes.write_text("\n\n\n\n".join(WORDS) + "\n")
    run_git(served.workspace, "commit", "-qam", "More notes")
    config = served.folder / "config" / "agentd.yml"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_parallel_turns": 5}))
    supplier.answer_always(translate_word)
    with served.running(**install_program("codex", home, tmp_path)) as caller:
        chats = [
            caller.client.create_chat(prompt=f"Translate {word}.", model="codex", worktree=True)
            for word in WORDS
        ]
        for chat, word in zip(chats, WORDS, strict=True):
            messages = caller.wait_until_idle(chat)
            assert messages[-1]["content"] == f"{word} is translated.", messages
        for chat in chats:
            reply = caller.client.post(f"/api/chat/{chat}/worktree/merge", {"into": "main"})
            assert reply.status == 200, reply.body
    assert notes.read_text().split() == [word.upper() for word in WORDS]
    assert run_git(served.workspace, "status", "--porcelain") == ""
