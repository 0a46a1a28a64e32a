"""How git's words about merges are read, and what branches are named."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.chats.worktree import BRANCHES, name_branch
from agentd.core.errors import Conflict
from agentd.workspace.worktrees.model import (
    MergeTree,
    name_changes,
    parse_listed_files,
    parse_merge_tree,
    raise_conflict,
)
from tests.support.examples import limit_examples

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(NAMES, min_size=1, unique=True), st.text("abc\0"))
def test_conflicts_are_the_names_before_the_messages(names: list[str], messages: str) -> None:
    output = "\0".join(["tree", *names, "", messages]).encode()
    assert parse_merge_tree(output, 1) == MergeTree("tree", tuple(names))


def test_a_merge_without_conflicts_is_its_tree() -> None:
    assert parse_merge_tree(b"tree\0", 0) == MergeTree("tree")
    assert parse_merge_tree(b"tree\0", 1).conflicts


def test_files_in_the_way_are_the_lines_with_a_tab() -> None:
    said = "error: Your local changes would be overwritten by merge:\n\ta b\n\tc\nPlease commit\n"
    assert parse_listed_files(said) == ("a b", "c")


def test_not_more_files_are_named_than_one_reads() -> None:
    with pytest.raises(Conflict) as caught:
        raise_conflict("No.", [str(number) for number in range(30)], "Look.")
    assert caught.value.details.endswith("19 and 10 more. Look.")


@given(st.integers(1, 2**53), st.text())
def test_a_branch_s_name_is_short_and_plain(chat_id: int, title: str) -> None:
    name = name_branch(chat_id, title)
    assert name.startswith(f"{BRANCHES}{chat_id}")
    assert len(name) < 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-/")
    assert not name.endswith("-")


@settings(max_examples=limit_examples(20), deadline=None)
@given(st.integers(1, 2**53), st.text())
def test_git_takes_a_branch_s_name(chat_id: int, title: str) -> None:
    name = name_branch(chat_id, title)
    subprocess.run(["git", "check-ref-format", "--branch", name], check=True, capture_output=True)


def test_a_branch_is_named_for_its_title() -> None:
    assert name_branch(7, "Größe: fix #12!") == "agentd/7-groe-fix-12"
    assert name_branch(7, "日本語") == "agentd/7"


@given(st.text())
def test_a_commit_of_a_chat_has_a_subject_of_one_line(title: str) -> None:
    subject, blank, body = name_changes(3, title).split("\n", 2)
    assert (bool(subject.strip()), blank, "chat 3" in body) == (True, "", True)
