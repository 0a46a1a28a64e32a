"""What is asked before a tool is used, and what an answer does."""

import asyncio
from pathlib import Path

import pytest

from agentd.agent.engine import Answer, Question
from agentd.agent.results import ToolResult, Written
from agentd.agent.toolbox import Toolbox
from agentd.agent.tools import (
    TOOLS,
    EditFile,
    FindFiles,
    GitStatus,
    ListFiles,
    ReadFile,
    RunCommand,
    SearchText,
    ToolUse,
    WriteFile,
)
from agentd.errors import Forbidden, NotFound
from agentd.outside.repository import GitRepository
from agentd.outside.terminal import ShellTerminal
from agentd.outside.workspace import FolderWorkspace


class Asked:
    """An approver that keeps what it was asked; ``before`` is done before it answers."""

    def __init__(self, answer: Answer, before=None) -> None:
        self.answer = answer
        self.before = before
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        if self.before:
            self.before()
        return self.answer


YES = Answer(True)
NO = Answer(False, reason="Not in this chat.")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    return work


def use(root: Path, wanted: ToolUse, approver: Asked) -> ToolResult:
    tools = Toolbox(FolderWorkspace(str(root)), GitRepository(str(root)), ShellTerminal(str(root)))
    return asyncio.run(tools.use(wanted, approver, "t1"))


@pytest.mark.parametrize(
    "reading", [ListFiles(), FindFiles("a"), ReadFile("a.txt"), SearchText("one")]
)
def test_reading_is_never_asked_about(root, reading):
    approver = Asked(NO)
    use(root, reading, approver)
    assert approver.questions == []


def test_each_tool_that_changes_something_is_asked_about(root):
    for wanted, question in (
        (WriteFile("b/new.txt", "x"), Question("write", "write_file", "b/new.txt")),
        (EditFile("a.txt", "one", "two"), Question("write", "edit_file", "a.txt")),
        (RunCommand("true; false"), Question("shell", "shell", "true; false")),
    ):
        approver = Asked(YES)
        use(root, wanted, approver)
        assert approver.questions == [question]
    changing = {"write_file", "edit_file", "shell"}
    assert {name for name in TOOLS if not name.startswith(("list", "read", "find"))} >= changing


def test_what_was_not_allowed_is_not_done_and_the_reason_is_told(root):
    for wanted in (WriteFile("new", "x"), EditFile("a.txt", "one", "x"), RunCommand("rm a.txt")):
        with pytest.raises(Forbidden, match=r"^This was not allowed: Not in this chat\.$"):
            use(root, wanted, Asked(NO))
    assert (root / "a.txt").read_text() == "one\n"
    assert [path.name for path in root.iterdir()] == ["a.txt"]


def test_outside_of_the_workspace_another_question_is_asked(root):
    (root / "link").symlink_to(root.parent)
    elsewhere = str(root.parent / "elsewhere")
    for path in ("../elsewhere", elsewhere, "link/elsewhere"):
        approver = Asked(YES)
        assert use(root, WriteFile(path, path), approver) == Written(
            elsewhere, 1, created=path == "../elsewhere"
        )
        assert approver.questions == [Question("outside", "write_file", elsewhere)]
    with pytest.raises(Forbidden):
        use(root, WriteFile("../other", "x"), Asked(NO))
    assert not (root.parent / "other").exists()


def test_what_was_asked_about_is_what_is_written_whatever_happens_meanwhile(root):
    """An answer for one place is never used for another."""
    (root / "sub").mkdir()
    (root.parent / "secret").mkdir()

    def swap() -> None:
        (root / "sub").rmdir()
        (root / "sub").symlink_to(root.parent / "secret")

    with pytest.raises((Forbidden, NotFound)):
        use(root, WriteFile("sub/x", "x"), Asked(YES, swap))
    assert list((root.parent / "secret").iterdir()) == []


def test_git_is_read_only_where_there_is_a_repository(root):
    with pytest.raises(NotFound):
        use(root, GitStatus(), Asked(YES))
