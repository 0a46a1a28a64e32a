"""The approvals that a tool asks for before it is used, and the effect of the answers."""

import asyncio
from pathlib import Path

import pytest

from agentd.agent.engine import ApprovalAnswer, Question
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.model import (
    TOOLS,
    ApplyPatch,
    AskPerson,
    EditFile,
    EditManyPlaces,
    FetchPage,
    FindFiles,
    GitStatus,
    ListFiles,
    ReadFile,
    Replacement,
    RunCommand,
    SearchText,
    StartProcess,
    TodoItem,
    ToolUse,
    UpdateTodos,
    ViewFile,
    WriteFile,
)
from agentd.agent.tools.results import (
    PatchedFiles,
    PersonAnswer,
    SearchHits,
    TodoList,
    ToolResult,
    WrittenFile,
)
from agentd.agent.tools.shell import ShellTerminal
from agentd.agent.tools.toolbox import Toolbox
from agentd.core.errors import BadRequest, Forbidden, NotFound
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.repository import GitRepository


class RecordingApprover:
    """An approver that keeps what it was asked; ``before`` is done before it answers."""

    def __init__(self, answer: ApprovalAnswer, before=None) -> None:
        self.answer = answer
        self.before = before
        self.questions: list[Question] = []
        self.allow_unprotected = False

    async def ask(self, question: Question) -> ApprovalAnswer:
        self.questions.append(question)
        if self.before:
            self.before()
        if self.allow_unprotected and not question.protected:
            return YES
        return self.answer


YES = ApprovalAnswer(True)
NO = ApprovalAnswer(False, reason="Not in this chat.")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    return work


def use(
    root: Path,
    wanted: ToolUse,
    approver: RecordingApprover,
    protected: ProtectedPlaces | None = None,
) -> ToolResult:
    workspace = FolderWorkspace(str(root), protected=protected)
    tools = Toolbox(workspace, GitRepository(str(root)), ShellTerminal(str(root)))
    return asyncio.run(tools.use(wanted, approver, "t1"))


@pytest.mark.parametrize(
    "reading", [ListFiles(), FindFiles("a"), ReadFile("a.txt"), SearchText("one")]
)
def test_reading_is_never_asked_about(root, reading):
    approver = RecordingApprover(NO)
    use(root, reading, approver)
    assert approver.questions == []


def test_each_tool_that_changes_something_is_asked_about(root):
    for wanted, question in (
        (
            WriteFile("b/new.txt", "x"),
            Question(
                "write",
                "write_file",
                "b/new.txt",
                diff="--- /dev/null\n+++ b/b/new.txt\n@@ -0,0 +1,1 @@\n+x",
            ),
        ),
        (
            EditFile("a.txt", "one", "two"),
            Question(
                "write",
                "edit_file",
                "a.txt",
                diff="--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+two",
            ),
        ),
        (RunCommand("true; false"), Question("shell", "shell", "true; false")),
    ):
        approver = RecordingApprover(YES)
        use(root, wanted, approver)
        assert approver.questions == [question]
    changing = {"write_file", "edit_file", "shell"}
    assert {name for name in TOOLS if not name.startswith(("list", "read", "find"))} >= changing


def test_what_was_not_allowed_is_not_done_and_the_reason_is_reported(root):
    for wanted in (WriteFile("new", "x"), EditFile("a.txt", "one", "x"), RunCommand("rm a.txt")):
        with pytest.raises(Forbidden, match=r"^This was not allowed: Not in this chat\.$"):
            use(root, wanted, RecordingApprover(NO))
    assert (root / "a.txt").read_text() == "one\n"
    assert [path.name for path in root.iterdir()] == ["a.txt"]


def test_outside_of_the_workspace_another_question_is_asked(root):
    (root / "link").symlink_to(root.parent)
    elsewhere = str(root.parent / "elsewhere")
    for path in ("../elsewhere", elsewhere, "link/elsewhere"):
        approver = RecordingApprover(YES)
        written = use(root, WriteFile(path, path), approver)
        assert written == WrittenFile(
            elsewhere, 1, created=path == "../elsewhere", diff=written.diff
        )
        (asked,) = approver.questions
        assert (asked.kind, asked.subject) == ("outside", elsewhere)
        assert asked.diff.endswith(f"\n+{path}")
    with pytest.raises(Forbidden):
        use(root, WriteFile("../other", "x"), RecordingApprover(NO))
    assert not (root.parent / "other").exists()


def test_what_was_asked_about_is_what_is_written_whatever_happens_meanwhile(root):
    """An answer for one place is never used for another."""
    (root / "sub").mkdir()
    (root.parent / "secret").mkdir()

    def swap() -> None:
        (root / "sub").rmdir()
        (root / "sub").symlink_to(root.parent / "secret")

    with pytest.raises((Forbidden, NotFound)):
        use(root, WriteFile("sub/x", "x"), RecordingApprover(YES, swap))
    assert list((root.parent / "secret").iterdir()) == []


def test_git_is_read_only_where_there_is_a_repository(root):
    with pytest.raises(NotFound):
        use(root, GitStatus(), RecordingApprover(YES))


GUARDED = {
    ".env": "protected",
    "link": "protected",
    "sub/.env.local": "protected",
    "state/keys.yml": "refused",
    "STATE/../state/keys.yml": "refused",
    ".git/config": "refused",
    "sub/.git/hooks/x": "refused",
    "dirlink/config": "refused",
}
"""Paths that no tool touches unasked: a person may allow the protected ones, nobody the others."""


@pytest.fixture
def guarded(root: Path) -> Path:
    for name in (".env", "sub/.env.local", "state/keys.yml", ".git/config", "sub/.git/hooks/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("canary\n")
    (root / "link").symlink_to(".env")
    (root / "dirlink").symlink_to(".git")
    (root / "STATE").mkdir()
    return root


def patch_of(kind: str, path: str) -> ApplyPatch:
    body = {
        "add": f"*** Add File: {path}x\n+mine",
        "update": f"*** Update File: {path}\n@@\n-canary\n+mine",
        "delete": f"*** Delete File: {path}",
        "move away": f"*** Update File: {path}\n*** Move to: taken.txt",
        "move to": f"*** Update File: a.txt\n*** Move to: {path}",
        "beside": f"*** Update File: a.txt\n@@\n-one\n+two\n*** Delete File: {path}",
    }[kind]
    return ApplyPatch(f"*** Begin Patch\n{body}\n*** End Patch")


def list_guarded_uses(path: str) -> list[ToolUse]:
    return [
        EditManyPlaces(path, (Replacement("canary", "mine"),)),
        *(patch_of(kind, path) for kind in ("update", "delete", "move away", "move to", "beside")),
    ]


@pytest.mark.parametrize("path", GUARDED)
def test_no_tool_that_writes_touches_a_guarded_path_unasked(guarded, path):
    def read_contents() -> dict[str, str]:
        return {
            str(one.relative_to(guarded)): one.read_text()
            for one in guarded.rglob("*")
            if one.is_file()
        }

    before = read_contents()
    protected = ProtectedPlaces(state=str(guarded / "state"))
    for wanted in list_guarded_uses(path):
        approver = RecordingApprover(NO)
        approver.allow_unprotected = True
        with pytest.raises((Forbidden, BadRequest)):
            use(guarded, wanted, approver, protected)
        about_it = [one for one in approver.questions if one.protected]
        assert bool(about_it) == (GUARDED[path] == "protected"), wanted
        assert read_contents() == before, wanted


@pytest.mark.parametrize("path", [".env", "link", "sub/.env.local", "state/keys.yml", "../secret"])
def test_no_tool_that_reads_shows_a_guarded_path_unasked(guarded, path):
    (guarded.parent / "secret").write_text("canary")
    protected = ProtectedPlaces(state=str(guarded / "state"))
    for wanted in (ViewFile(path), ReadFile(path)):
        with pytest.raises(Forbidden):
            use(guarded, wanted, RecordingApprover(NO), protected)
    for searched in (SearchText("canary", ignored=True), SearchText("can.ry", regex=True)):
        found = use(guarded, searched, RecordingApprover(NO), protected)
        assert isinstance(found, SearchHits)
        assert {hit.path for hit in found.hits} <= {"sub/.git/hooks/x"} - {"sub/.git/hooks/x"}


def test_a_patch_changes_all_its_files_and_shows_what(root):
    (root / "b.txt").write_text("old\n")
    (root / "b.txt").chmod(0o755)
    (root / "gone.txt").write_text("x\n")
    patch = ApplyPatch(
        "*** Begin Patch\n*** Add File: new/c.txt\n+three\n*** Update File: a.txt\n@@\n-one\n+two\n"
        "*** Update File: b.txt\n*** Move to: moved.txt\n@@\n-old\n+new\n"
        "*** Delete File: gone.txt\n*** End Patch"
    )
    approver = RecordingApprover(YES)
    done = use(root, patch, approver)
    assert isinstance(done, PatchedFiles)
    assert done.paths == ("new/c.txt", "a.txt", "moved.txt", "gone.txt")
    assert "-one\n+two" in done.diff and "+three" in done.diff
    texts = {one.name: one.read_text() for one in root.rglob("*.txt")}
    assert texts == {"c.txt": "three\n", "a.txt": "two\n", "moved.txt": "new\n"}
    assert (root / "moved.txt").stat().st_mode & 0o777 == 0o755
    assert [(one.tool, one.subject) for one in approver.questions] == [
        ("write_file", "new/c.txt"), ("edit_file", "a.txt"), ("edit_file", "b.txt"),
        ("write_file", "moved.txt"), ("edit_file", "gone.txt"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        "*** Update File: b.txt\n@@\n-nothing\n+new",
        "*** Add File: b.txt\n+x",
        "*** Delete File: none.txt",
        "*** Update File: b.txt\n*** Move to: c.txt",
    ],
)
def test_a_patch_that_does_not_fit_changes_nothing(root, wrong):
    (root / "b.txt").write_text("old\n")
    (root / "c.txt").write_text("there\n")
    patch = f"*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n{wrong}\n*** End Patch"
    with pytest.raises((BadRequest, NotFound)):
        use(root, ApplyPatch(patch), RecordingApprover(YES))
    assert {one.name: one.read_text() for one in root.iterdir()} == {
        "a.txt": "one\n", "b.txt": "old\n", "c.txt": "there\n",
    }  # fmt: skip


def test_several_edits_are_made_in_their_order_or_not_at_all(root):
    edits = (Replacement("one", "two"), Replacement("two", "three"))
    done = use(root, EditManyPlaces("a.txt", edits), RecordingApprover(YES))
    assert str(done) == "2 places edited"
    assert (root / "a.txt").read_text() == "three\n"
    wrong = EditManyPlaces("a.txt", (Replacement("three", "four"), Replacement("nine", "ten")))
    with pytest.raises(BadRequest, match=r"Edit 2 of 2.*Nothing was changed"):
        use(root, wrong, RecordingApprover(YES))
    assert (root / "a.txt").read_text() == "three\n"


def test_a_process_in_the_background_is_asked_for_as_a_command_line(root):
    approver = RecordingApprover(NO)
    with pytest.raises(Forbidden):
        use(root, StartProcess("touch canary"), approver)
    assert approver.questions == [Question("shell", "shell", "touch canary")]
    assert not (root / "canary").exists()


def test_a_page_is_asked_for_and_not_got_when_that_is_denied(root):
    approver = RecordingApprover(NO)
    with pytest.raises(Forbidden, match="Not in this chat"):
        use(root, FetchPage("https://example.org/a#b"), approver)
    assert approver.questions == [Question("network", "web_fetch", "https://example.org/a")]


def test_a_plan_is_shown_as_a_list(root):
    items = (TodoItem("Look", "completed"), TodoItem("Mend", "in_progress"), TodoItem("Test"))
    plan = use(root, UpdateTodos(items), RecordingApprover(NO))
    assert isinstance(plan, TodoList)
    assert str(plan) == "1 of 3 steps done"
    assert plan.markdown == "- [x] Look\n- [ ] **Mend** (now)\n- [ ] Test"


def test_a_person_is_asked_with_choices_and_their_note_is_the_answer(root):
    approver = RecordingApprover(ApprovalAnswer(True, reason="The red one."))
    answer = use(root, AskPerson("Which?", ("red", "blue")), approver)
    assert answer == PersonAnswer("The red one.")
    assert approver.questions == [
        Question("question", "ask_person", "Which?\n\n- red\n- blue", choices=("red", "blue"))
    ]
    assert use(root, AskPerson("Really?"), RecordingApprover(YES)) == PersonAnswer("Yes.")
    silent = use(root, AskPerson("Really?"), RecordingApprover(NO))
    assert isinstance(silent, PersonAnswer) and not silent.given
    assert "decide yourself" in silent.text and "Not in this chat." in silent.text
