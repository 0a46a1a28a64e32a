"""Files in the state folder that others could change are reported, each with its remedy."""

import os
from pathlib import Path

import pytest

from agentd.cli.check import find_insecure_paths, find_open_settings
from agentd.system.protected_paths import WORKTREES


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    (state / "chats" / "1").mkdir(parents=True)
    state.chmod(0o700)
    (state / "chats" / "1" / "journal.jsonl").touch(0o600)
    (state / "FORMAT").touch(0o600)
    return state


def test_a_private_folder_is_in_order_and_so_is_none(state):
    assert list(find_insecure_paths(str(state))) == []
    assert list(find_insecure_paths(str(state / "none"))) == []


def test_a_folder_behind_a_link_is_looked_into(state, tmp_path):
    (tmp_path / "link").symlink_to(state)
    assert list(find_insecure_paths(str(tmp_path / "link"))) == []
    (state / "chats" / "1" / "journal.jsonl").chmod(0o602)
    assert len(list(find_insecure_paths(str(tmp_path / "link")))) == 1


@pytest.mark.parametrize(
    ("mode", "result"), [(0o772, "go-w"), (0o702, "go-w"), (0o750, "700"), (0o701, "700")]
)
def test_an_open_state_folder_is_reported_with_the_remedy(state, mode, result):
    state.chmod(mode)
    (problem,) = find_insecure_paths(str(state))
    assert f"chmod {result} {state}" in problem.what


def test_a_folder_that_no_daemon_has_served_may_be_readable(tmp_path):
    """The first one makes it private: in a clone of the sources it is as git made it."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)
    assert list(find_insecure_paths(str(folder))) == []


def test_a_link_or_a_socket_inside_is_reported(state):
    (state / "link").symlink_to("/etc")
    os.mkfifo(state / "pipe")
    assert [problem.what for problem in find_insecure_paths(str(state))] == [
        "is a symbolic link; put the file itself there",
        "is neither a file nor a folder; remove it",
    ]


def test_links_in_a_chat_s_work_tree_are_the_repository_s(state):
    tree = state / WORKTREES / "1"
    tree.mkdir(parents=True)
    (tree / "node_modules").symlink_to("/usr/lib/node_modules")
    assert list(find_insecure_paths(str(state))) == []
    (state / WORKTREES).chmod(0o777)
    (problem,) = find_insecure_paths(str(state))
    assert problem.where == str(state / WORKTREES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_reported_with_the_remedy(state):
    os.chown(state / "chats" / "1", 12345, -1)
    (problem,) = find_insecure_paths(str(state))
    assert "chown -R 0" in problem.what


def test_settings_that_everybody_can_change_are_reported(tmp_path):
    """Whoever can write one of them can have the daemon run a program."""
    config = tmp_path / "config"
    assert list(find_open_settings(str(config))) == []
    config.mkdir(0o775)
    for name, mode in (("builds.yml", 0o666), ("agentd.yml", 0o664), ("notes.txt", 0o666)):
        (config / name).touch()
        (config / name).chmod(mode)
    (problem,) = find_open_settings(str(config))
    assert problem.where == str(config / "builds.yml")
    assert f"chmod o-w {config / 'builds.yml'}" in problem.what
    config.chmod(0o777)
    assert str(config) in {one.where for one in find_open_settings(str(config))}
