"""Uploads that a prompt names are in the work tree that it is carried out in."""

from pathlib import Path

import pytest

from agentd.agent.engine import EngineEvent, ReplyCompleted, TurnRequest
from agentd.workspace.uploads.rules import FOLDER
from agentd.workspace.worktrees.attachments import copy_attachments
from tests.support.daemon import Client, Serving
from tests.workspace.worktrees.conftest import run_git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty work tree."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
def uploads(root: Path) -> Path:
    """The workspace's uploads: two pictures, and what has git ignore them."""
    folder = root / FOLDER
    folder.mkdir()
    (folder / ".gitignore").write_text("*\n")
    for name in ("one.png", "two.png"):
        (folder / name).write_text(name)
    return folder


def test_only_what_is_named_is_copied_and_nothing_is_replaced(
    root: Path, uploads: Path, tree: Path
) -> None:
    copy_attachments(str(root), str(tree), f"Attached files:\n- {FOLDER}/one.png")
    assert sorted(path.name for path in (tree / FOLDER).iterdir()) == [".gitignore", "one.png"]
    (tree / FOLDER / "one.png").write_text("changed")
    copy_attachments(str(root), str(tree), f"{FOLDER}/one.png {FOLDER}/two.png {FOLDER}/none")
    assert (tree / FOLDER / "one.png").read_text() == "changed"
    assert (tree / FOLDER / "two.png").read_text() == "two.png"


def test_a_link_in_the_tree_or_among_the_uploads_is_not_followed(
    root: Path, uploads: Path, tree: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tree / FOLDER).symlink_to(elsewhere)
    copy_attachments(str(root), str(tree), f"{FOLDER}/one.png")
    assert list(elsewhere.iterdir()) == []
    (tree / FOLDER).unlink()
    (tree / FOLDER).mkdir()
    (tree / FOLDER / ".agentd-copy").symlink_to(elsewhere / "made")
    copy_attachments(str(root), str(tree), f"{FOLDER}/one.png")
    assert (tree / FOLDER / "one.png").read_text() == "one.png"
    assert list(elsewhere.iterdir()) == []
    (uploads / "secret").symlink_to(root / "a")
    copy_attachments(str(root), str(tree), f"{FOLDER}/secret")
    assert not (tree / FOLDER / "secret").exists()


def test_without_uploads_nothing_happens(root: Path, tree: Path) -> None:
    copy_attachments(str(root), str(tree), f"{FOLDER}/one.png")
    assert list(tree.iterdir()) == []


def test_an_engine_finds_what_its_prompt_names(
    client: Client, daemon: Serving, uploads: Path
) -> None:
    def read_upload(assignment: TurnRequest) -> list[EngineEvent]:
        return [ReplyCompleted((Path(assignment.folder) / FOLDER / "two.png").read_text())]

    daemon.engine.says = read_upload
    chat = client.create_chat(prompt=f"Look at {FOLDER}/two.png", worktree=True)
    assert client.messages(chat)[-1]["content"] == "two.png"
    tree = Path(daemon.layout.get_worktree_folder(chat))
    assert run_git(tree, "status", "--porcelain") == ""
