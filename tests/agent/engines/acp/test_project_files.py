"""What opencode would read of a project: instructions, and what runs plugins."""

import os
from pathlib import Path

import pytest

from agentd.agent.engines.acp.project_files import find_instruction_files, find_plugins
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.system.protected_paths import ProtectedPlaces


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (root / "part" / "deep").mkdir(parents=True)
    return root


def find(folder: Path, root: Path) -> list[str]:
    """Return the files for a chat in this folder, as paths below the root."""
    bounds = WorkspaceBounds(str(folder), os.path.realpath, ProtectedPlaces(home=str(root.parent)))
    return [os.path.relpath(path, root) for path in find_instruction_files(bounds)]


def test_all_folders_up_to_the_root_of_the_repository_count_the_nearest_first(
    repository: Path,
) -> None:
    for folder in (repository.parent, repository, repository / "part" / "deep"):
        (folder / "AGENTS.md").write_text("Be terse.")
    found = find(repository / "part" / "deep", repository)
    assert found == ["part/deep/AGENTS.md", "AGENTS.md"]
    assert find(repository, repository) == ["AGENTS.md"]


def test_a_work_tree_of_git_is_the_root_of_its_repository(repository: Path) -> None:
    tree = repository / "part"
    (tree / ".git").write_text("gitdir: elsewhere")
    for folder in (repository, tree):
        (folder / "AGENTS.md").write_text("Be terse.")
    assert find(tree / "deep", repository) == ["part/AGENTS.md"]


def test_without_a_repository_only_the_folder_of_the_chat_counts(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "AGENTS.md").write_text("Be terse.")
    assert find(folder, tmp_path) == []
    (folder / "AGENTS.md").write_text("Be terse.")
    assert find(folder, tmp_path) == ["folder/AGENTS.md"]


def test_the_first_name_that_any_folder_has_is_the_only_one(repository: Path) -> None:
    (repository / "part" / "CONTEXT.md").write_text("Be terse.")
    assert find(repository / "part", repository) == ["part/CONTEXT.md"]
    (repository / "part" / "CLAUDE.md").write_text("Be terse.")
    assert find(repository / "part", repository) == ["part/CLAUDE.md"]
    (repository / "AGENTS.md").write_text("Be terse.")
    assert find(repository / "part", repository) == ["AGENTS.md"]


def test_a_link_counts_once_as_the_file_that_it_leads_to(repository: Path) -> None:
    (repository / "docs.md").write_text("Be terse.")
    (repository / "AGENTS.md").symlink_to("docs.md")
    (repository / "part" / "AGENTS.md").symlink_to("../docs.md")
    assert find(repository / "part", repository) == ["docs.md"]


def test_a_link_that_leaves_the_repository_or_leads_to_a_secret_is_left_out(
    repository: Path,
) -> None:
    (repository.parent / "private.md").write_text("canary")
    (repository / ".env").write_text("KEY=canary")
    (repository / "AGENTS.md").symlink_to("../private.md")
    (repository / "part" / "AGENTS.md").symlink_to("../.env")
    (repository / "part" / "deep" / "AGENTS.md").symlink_to("missing")
    assert find(repository / "part" / "deep", repository) == []
    (repository / "CLAUDE.md").write_text("Be terse.")
    assert find(repository / "part" / "deep", repository) == ["CLAUDE.md"]


def test_a_folder_of_that_name_is_no_file(repository: Path) -> None:
    (repository / "AGENTS.md").mkdir()
    assert find(repository, repository) == []


def plant(repository: Path, name: str, text: str = "") -> None:
    """Write a file of the project."""
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".opencode/plugins/made.js", ""),
        (".opencode/plugin/made.ts", ""),
        ("opencode.json", '{"plugin": ["./made.js"]}'),
        ("opencode.jsonc", '{"plug\\u0069ns": ["./made.js"]}'),
        (".opencode/opencode.json", '{"plugin": ["./made.js"]}'),
        (".opencode/opencode.jsonc", '{"plugin": ["./made.js"]} // and so on'),
        ("opencode.json", " " * (2**20 + 1)),
    ],
)
def test_a_file_that_may_have_opencode_run_a_plugin_is_found(
    repository: Path, name: str, text: str
) -> None:
    plant(repository, name, text)
    assert find_plugins(str(repository)) == (name,)
    assert find_plugins(str(repository / "part" / "deep")) == (f"../../{name}",)
    assert find_plugins(str(repository.parent)) == ()


def test_a_link_to_a_plugin_is_found_and_so_are_settings_that_cannot_be_read(
    repository: Path,
) -> None:
    plant(repository, ".opencode/plugins/README.md")
    (repository / ".opencode" / "plugins" / "made.js").symlink_to("missing.js")
    (repository / "opencode.json").symlink_to("missing.json")
    (repository / "opencode.jsonc").mkdir()
    found = ("opencode.json", "opencode.jsonc", ".opencode/plugins/made.js")
    assert find_plugins(str(repository)) == found


def test_a_project_of_opencode_without_plugins_has_none(repository: Path) -> None:
    plant(repository, "opencode.json", '{"model": "acme/large", "mcp": {}}')
    plant(repository, ".opencode/agent/reviewer.md", "Review it.")
    plant(repository, ".opencode/skill/plugin/SKILL.md", "Write a plugin.")
    assert find_plugins(str(repository)) == ()
