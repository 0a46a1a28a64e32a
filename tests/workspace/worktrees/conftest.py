"""A repository as the workspace, and how tests change it and the work trees of its chats."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentd.agent.engine import EngineEvent, ReplyCompleted, TurnRequest
from tests.support.daemon import Client, Serving
from tests.support.fixtures import Serve


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person with a name and nothing else configured."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n name = Ada\n email = ada@example.org\n[init]\n defaultBranch = main\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    """The workspace: a repository with one commit of ``a`` and ``b``, of ten lines each."""
    work = tmp_path / "work"
    work.mkdir()
    run_git(work, "init", "-q")
    for name in ("a", "b"):
        (work / name).write_text("".join(f"{number}\n" for number in range(10)))
    run_git(work, "add", "-A")
    run_git(work, "commit", "-qm", "First")
    return work


@pytest.fixture
def daemon(serve: Serve, root: Path) -> Serving:
    """A daemon that works there, whose engine carries out prompts such as ``a=text``."""
    daemon = serve(workspace=str(root))
    daemon.engine.says = build_writer(root)
    return daemon


@pytest.fixture
def client(daemon: Serving) -> Client:
    """A client of it."""
    return daemon.client()


def build_writer(root: Path) -> Callable[[TurnRequest], list[EngineEvent]]:
    """Return what writes files where the turn works: ``name=text``, one in each line."""

    def write_files(assignment: TurnRequest) -> list[EngineEvent]:
        folder = Path(assignment.folder or root)
        for line in assignment.prompt.splitlines():
            name, _, text = line.partition("=")
            (folder / name).write_text(text + "\n")
        return [ReplyCompleted(f"written in {folder}")]

    return write_files


def work_in_tree(client: Client, prompt: str, **wish: str) -> int:
    """Have a new chat with a work tree carry out a prompt; return its id."""
    chat = client.create_chat(prompt=prompt, worktree=True, **wish)
    said = client.messages(chat)
    assert said[-1]["role"] == "assistant", said
    return chat
