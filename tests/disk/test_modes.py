"""What others could change in the state folder is told, each with its remedy."""

import os
from pathlib import Path

import pytest

from agentd.disk.modes import unsafe


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    (state / "chats" / "1").mkdir(parents=True)
    state.chmod(0o700)
    (state / "chats" / "1" / "journal.jsonl").touch(0o600)
    return state


def test_a_private_folder_is_in_order_and_so_is_none(state):
    assert list(unsafe(str(state))) == []
    assert list(unsafe(str(state / "none"))) == []


def test_a_folder_behind_a_link_is_looked_into(state, tmp_path):
    (tmp_path / "link").symlink_to(state)
    assert list(unsafe(str(tmp_path / "link"))) == []
    (state / "chats" / "1" / "journal.jsonl").chmod(0o620)
    assert len(list(unsafe(str(tmp_path / "link")))) == 1


@pytest.mark.parametrize(
    ("mode", "told"), [(0o770, "go-w"), (0o702, "go-w"), (0o750, "700"), (0o701, "700")]
)
def test_an_open_state_folder_is_told_with_the_remedy(state, mode, told):
    state.chmod(mode)
    (mistake,) = unsafe(str(state))
    assert f"chmod {told} {state}" in mistake.what


def test_a_link_or_a_socket_inside_is_told(state):
    (state / "link").symlink_to("/etc")
    os.mkfifo(state / "pipe")
    assert [mistake.what for mistake in unsafe(str(state))] == [
        "is a symbolic link; put the file itself there",
        "is neither a file nor a folder; remove it",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_told_with_the_remedy(state):
    os.chown(state / "chats" / "1", 12345, -1)
    (mistake,) = unsafe(str(state))
    assert "chown -R 0" in mistake.what
