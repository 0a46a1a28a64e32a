"""What persons decided about servers and hooks of workspaces: kept, found again, withdrawn."""

import asyncio
import threading
from pathlib import Path

import pytest

from agentd.agent import workspace_decisions
from agentd.agent.hooks.store import HooksOfWorkspaces
from agentd.agent.mcp_servers.project import ProjectServers
from agentd.agent.workspace_decisions import (
    DecisionFile,
    WorkspaceDecision,
    open_hook_decisions,
    open_server_decisions,
)
from agentd.core.errors import ConfigError, NotFound
from agentd.storage.layout import Layout
from tests.agent.engines.native.scene import Person

AT = "2026-01-01T00:00:00.000Z"
NAMES = ("mcp-decisions", "hook-decisions")


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file of one kind of decisions."""
    return tmp_path / "state" / f"{request.param}.json"


@pytest.fixture
def file(path: Path) -> DecisionFile:
    return open_file(path)


def open_file(path: Path) -> DecisionFile:
    layout = Layout(str(path.parent), str(path.parent.parent))
    is_servers = path.stem == NAMES[0]
    return open_server_decisions(layout) if is_servers else open_hook_decisions(layout)


def make_decision(digest: str, *, allowed: bool = True, by: str = "") -> WorkspaceDecision:
    return WorkspaceDecision("shop", digest, allowed, AT, by)


def test_the_last_decision_about_a_content_holds_until_it_is_withdrawn(
    path: Path, file: DecisionFile
) -> None:
    assert file.load() == ()
    for digest, allowed in (("a", True), ("b", False), ("a", False)):
        file.keep(make_decision(digest, allowed=allowed, by="user:ann"))
    kept = (
        make_decision("b", allowed=False, by="user:ann"),
        make_decision("a", allowed=False, by="user:ann"),
    )
    assert file.load() == kept
    assert file.withdraw("b") == kept[0]
    assert file.load() == kept[1:]
    with pytest.raises(NotFound):
        file.withdraw("b")
    assert [one.name for one in path.parent.iterdir() if one.suffix == ".json"] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_of_an_earlier_version_is_read(path: Path, file: DecisionFile) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text(
        f'{{"decisions":[{{"name":"shop","digest":"a","allowed":true,"at":"{AT}"}}],"format":1}}\n'
    )
    path.chmod(0o600)
    assert file.load() == (make_decision("a"),)


def test_the_oldest_decisions_are_forgotten(
    file: DecisionFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_decisions, "MOST_DECISIONS", 3)
    for digest in "abcde":
        file.keep(make_decision(digest))
    assert [one.digest for one in file.load()] == ["c", "d", "e"]


def test_decisions_of_several_programs_at_once_are_all_kept(path: Path) -> None:
    threads = [
        threading.Thread(target=open_file(path).keep, args=(make_decision(str(number)),))
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(one.digest) for one in open_file(path).load()) == list(range(12))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 2, "decisions": []}', "\0\0"])
def test_a_damaged_file_is_reported_and_not_written_over(
    path: Path, file: DecisionFile, content: str
) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text(content)
    path.chmod(0o600)
    for change in (
        file.load,
        lambda: file.keep(make_decision("a")),
        lambda: file.withdraw("a"),
    ):
        with pytest.raises(ConfigError, match="is damaged"):
            change()
    assert path.read_text() == content


SERVER = '{"mcpServers": {"shop": {"command": "./serve"}}}'
HOOK = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./lint.sh"}]}]}}'


def make_folder(path: Path) -> Path:
    """Return a folder that names the programs of the same paths as all others."""
    (path / ".claude").mkdir(parents=True)
    (path / ".mcp.json").write_text(SERVER)
    (path / ".claude" / "settings.json").write_text(HOOK)
    return path


def count_questions(layout: Layout, workspace: Path, folder: Path) -> int:
    """Return how much a person is asked before all of a folder's programs may run."""
    person = Person()
    hooks = HooksOfWorkspaces(layout, workspace=str(workspace))
    servers = ProjectServers(layout, workspace=str(workspace))

    async def find() -> None:
        assert [one.command for one in (await hooks.find_allowed(str(folder), 1, person))[0]]
        assert [one.name for one in (await servers.find_allowed(str(folder), 1, person))[0]]

    asyncio.run(find())
    return len(person.asked)


def test_what_was_allowed_in_one_workspace_is_asked_about_in_another(tmp_path: Path) -> None:
    """There the same ``./lint.sh`` may be anything."""
    layout = Layout(str(tmp_path / "state"), str(tmp_path))
    ours, theirs = make_folder(tmp_path / "ours"), make_folder(tmp_path / "theirs")
    assert count_questions(layout, ours, ours) == 2
    assert count_questions(layout, ours, ours) == 0
    assert count_questions(layout, theirs, theirs) == 2
    assert count_questions(layout, ours, make_folder(tmp_path / "state/worktrees/1")) == 0
    (tmp_path / "link").symlink_to(ours)
    assert count_questions(layout, tmp_path / "link", tmp_path / "link") == 0
