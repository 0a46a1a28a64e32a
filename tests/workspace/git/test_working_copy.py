"""Commits through the real git, in repositories of friends and of strangers."""

import asyncio
import os
import subprocess
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import pytest

from agentd.agent.tools.model import GitLog
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound
from agentd.workspace.git.commits import CommitRequest
from agentd.workspace.git.repository import GitRepository
from agentd.workspace.git.working_copy import WorkingCopy

T = TypeVar("T")
HOURS = 9999
"""Seconds that no test waits."""


def do(work: Awaitable[T]) -> T:
    async def wait() -> T:
        async with asyncio.timeout(100):
            return await work

    return asyncio.run(wait())


def run_git(folder: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=check, capture_output=True, text=True
    )
    return done.stdout


def commit(root: Path, wish: CommitRequest, closed: tuple[str, ...] = ()):
    return do(WorkingCopy(str(root), closed).commit(wish))


def list_subjects(root: Path) -> list[str]:
    return run_git(root, "log", "--format=%s").splitlines()


def list_committed(root: Path, name: str = "HEAD") -> set[str]:
    listed = run_git(root, "-c", "core.quotePath=false", "show", "--name-only", "--format=", name)
    return set(listed.splitlines())


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n name = Ada\n email = ada@example.org\n[init]\n defaultBranch = main\n"
        '[protocol "file"]\n allow = always\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    """A repository with one commit of ``a``, ``b`` and ``sub/c``."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    run_git(work, "init", "-q")
    for name in ("a", "b", "sub/c"):
        (work / name).write_text("one\n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-qm", "First")
    return work


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that is there once a program of the repository ran."""
    return tmp_path / "canary"


# What is committed.


def test_all_that_is_changed_new_removed_and_renamed(root):
    (root / "a").write_text("two\n")
    (root / "b").unlink()
    (root / "ü neu").write_text("")
    (root / "sub" / "c").rename(root / "moved")
    made = commit(root, CommitRequest("Everything", all=True))
    assert made.id == run_git(root, "rev-parse", "HEAD").strip()
    assert (made.subject, made.author) == ("Everything", "Ada")
    assert run_git(root, "ls-files").splitlines() == ["a", "moved", '"\\303\\274 neu"']
    assert run_git(root, "status", "--porcelain") == ""


def test_chosen_paths_and_nothing_else_not_even_what_is_staged(root):
    (root / "a").write_text("two\n")
    (root / "b").write_text("two\n")
    (root / "sub" / "new").write_text("")
    (root / "other").write_text("")
    run_git(root, "add", "b")
    commit(root, CommitRequest("Some", paths=("a", "sub/")))
    assert list_committed(root) == {"a", "sub/new"}
    assert run_git(root, "status", "--porcelain").splitlines() == ["M  b", "?? other"]


def test_what_is_staged_when_nothing_is_chosen(root):
    (root / "a").write_text("two\n")
    run_git(root, "add", "a")
    (root / "a").write_text("three\n")
    commit(root, CommitRequest("Staged"))
    assert run_git(root, "show", "HEAD:a") == "two\n"
    assert (root / "a").read_text() == "three\n"


def test_the_first_commit_of_an_empty_repository(tmp_path):
    root = tmp_path / "fresh"
    root.mkdir()
    run_git(root, "init", "-q")
    with pytest.raises(Conflict, match="nothing to commit"):
        commit(root, CommitRequest("Nothing"))
    (root / "a").write_text("one\n")
    commit(root, CommitRequest("Begin", paths=("a",)))
    assert list_subjects(root) == ["Begin"]


def test_a_detached_head_and_names_that_are_not_utf8(root):
    run_git(root, "checkout", "-q", "--detach")
    with open(os.fsencode(root) + b"/\xff\xfe", "wb"):
        pass
    commit(root, CommitRequest("Detached", all=True))
    assert run_git(root, "status", "--porcelain") == ""
    page = do(WorkingCopy(str(root)).log("", 5))
    assert [one.subject for one in page.commits] == ["Detached", "First"]


def test_a_file_whose_name_is_not_utf8_is_staged_by_the_name_that_is_shown(root):
    os.mkdir(os.fsencode(root) + b"/f\xe9")
    for name in (b"/caf\xe9", b"/f\xe9/x"):
        with open(os.fsencode(root) + name, "wb"):
            pass
    copy = WorkingCopy(str(root))
    shown = [one.path for one in do(copy.read_status()).changes]
    assert shown == ["caf\ufffd", "f\ufffd/"]
    do(copy.stage(shown))
    assert [one.code for one in do(copy.read_status()).changes] == ["A.", "A."]
    do(copy.unstage(shown))
    assert [one.code for one in do(copy.read_status()).changes] == ["??", "??"]
    commit(root, CommitRequest("All", all=True))
    with pytest.raises(Conflict, match="nothing to commit in caf\ufffd"):
        do(copy.stage(shown))


def test_what_changed_in_a_file_whose_name_is_not_utf8_is_found_by_the_name_that_is_shown(root):
    names = [os.fsencode(root) + name for name in (b"/caf\xe9", b"/plain")]
    for name in names:
        with open(name, "w") as file:
            file.write("one\n")
    commit(root, CommitRequest("Both", all=True))
    with open(names[0], "w") as file:
        file.write("two\n")
    copy = WorkingCopy(str(root))
    assert "+two" in do(copy.diff("caf\ufffd", "", staged=None)).text
    made = commit(root, CommitRequest("Only this", paths=("caf\ufffd",)))
    assert [one.subject for one in do(copy.log("caf\ufffd", 1)).commits] == ["Only this"]
    assert "+two" in do(copy.diff("caf\ufffd", made.id, staged=None)).text


@pytest.mark.parametrize("setting", ["i18n.commitEncoding", "i18n.logOutputEncoding"])
def test_commits_are_read_as_utf8_whatever_a_person_set(root, setting):
    run_git(root, "config", "--global", setting, "ISO-8859-1")
    (root / "a").write_text("two\n")
    made = commit(root, CommitRequest("Größe", all=True))
    assert made.subject == "Größe"
    assert do(WorkingCopy(str(root)).log("", 1)).commits[0].subject == "Größe"
    assert do(GitRepository(str(root)).log(GitLog())).commits[0].subject == "Größe"


def test_only_the_workspaces_part_of_a_larger_repository(root):
    (root / "a").write_text("outside\n")
    (root / "sub" / "c").write_text("inside\n")
    commit(root / "sub", CommitRequest("Inside", all=True))
    assert list_committed(root) == {"sub/c"}
    run_git(root, "add", "a")
    with pytest.raises(Conflict, match="outside of the workspace"):
        commit(root / "sub", CommitRequest("Both"))
    with pytest.raises(Conflict, match="nothing to commit"):
        commit(root / "sub", CommitRequest("None", all=True))


def test_a_merge_is_ended_once_it_is_solved(root):
    run_git(root, "checkout", "-qb", "other")
    (root / "a").write_text("theirs\n")
    run_git(root, "commit", "-qam", "theirs")
    run_git(root, "checkout", "-q", "main")
    (root / "a").write_text("ours\n")
    run_git(root, "commit", "-qam", "ours")
    run_git(root, "merge", "-q", "other", check=False)
    for wish in (
        CommitRequest("x", all=True),
        CommitRequest("x", paths=("a",)),
        CommitRequest("x"),
    ):
        with pytest.raises(Conflict, match="Conflicts are not solved") as result:
            commit(root, wish)
        assert result.value.details == "a"
    (root / "a").write_text("both\n")
    run_git(root, "add", "a")
    with pytest.raises(Conflict, match="In the middle of a merge"):
        commit(root, CommitRequest("x", paths=("a",)))
    commit(root, CommitRequest("Merged", all=True))
    assert len(run_git(root, "log", "-1", "--format=%P").split()) == 2


def test_commits_wait_for_each_other(root):
    copy = WorkingCopy(str(root))
    for number in range(8):
        (root / f"n{number}").write_text("")

    async def commit_together():
        wishes = [CommitRequest(f"n{number}", paths=(f"n{number}",)) for number in range(8)]
        return await asyncio.gather(*map(copy.commit, wishes))

    made = do(commit_together())
    assert len({one.id for one in made}) == 8
    assert all(one.id == run_git(root, "log", "-1", "--format=%H", "--", one.subject).strip()
               for one in made)  # fmt: skip


# What is refused.


@pytest.mark.parametrize(
    "wish",
    [
        CommitRequest(" \n"),
        CommitRequest("x\0y"),
        CommitRequest("x", paths=("a",), all=True),
        CommitRequest("x", paths=("",)),
        CommitRequest("x", paths=("./",)),
        CommitRequest("x" * 70_000),
        CommitRequest("x", paths=("a",) * 1001),
    ],
)
def test_a_wish_that_makes_no_sense(root, wish):
    with pytest.raises(BadRequest):
        commit(root, wish)


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "sub/../../out", "a\0b"])
def test_no_path_leads_out(root, path):
    with pytest.raises(Forbidden):
        commit(root, CommitRequest("x", paths=(path,)))


@pytest.mark.parametrize(
    "path", ["nowhere", ".git/config", "*", ":/", ":(glob)**", "--all", "link/x"]
)
def test_a_path_is_only_ever_a_name(root, path, tmp_path):
    (root / "link").symlink_to(tmp_path)
    (tmp_path / "x").write_text("")
    (root / "a").write_text("two\n")
    with pytest.raises(Conflict, match="nothing to commit in"):
        commit(root, CommitRequest("x", paths=(path,)))
    assert list_subjects(root) == ["First"]


@pytest.mark.parametrize("path", ["./sub/c", "sub//c", "sub/./c", "sub/c/", "./sub/"])
def test_a_path_may_be_written_in_several_ways(root, path):
    (root / "sub" / "c").write_text("two\n")
    do(WorkingCopy(str(root)).stage([path]))
    assert run_git(root, "diff", "--cached", "--name-only") == "sub/c\n"
    commit(root, CommitRequest("Changed", paths=(path,)))
    assert list_committed(root) == {"sub/c"}


def test_names_that_look_like_options_and_magic_are_committed(root):
    for name in ("--all", ":(top)x", "*", "-F"):
        (root / name).write_text("")
    (root / "a").write_text("two\n")
    commit(root, CommitRequest("--amend", paths=("--all", ":(top)x", "*", "-F")))
    assert list_committed(root) == {"--all", ":(top)x", "*", "-F"}
    assert list_subjects(root) == ["--amend", "First"]


def test_messages_are_kept_as_they_are(root):
    for message in ("# not a comment\n\nbody\n#more", "ü – \U0001f642", "-c x=y"):
        (root / "a").write_text(message)
        commit(root, CommitRequest(message, all=True))
        assert run_git(root, "log", "-1", "--format=%B").strip() == message


def test_nobody_knows_who_commits(root, home):
    (home / ".gitconfig").write_text("")
    (root / "a").write_text("two\n")
    with pytest.raises(Conflict, match="does not know who commits"):
        commit(root, CommitRequest("x", all=True))


def test_another_git_at_work(root):
    (root / "a").write_text("two\n")
    (root / ".git" / "index.lock").write_text("")
    for wish in (CommitRequest("x", all=True), CommitRequest("x", paths=("a",))):
        with pytest.raises(Conflict, match="Another git"):
            commit(root, wish)


def test_no_repository_and_a_bare_one(tmp_path, root):
    for folder in (tmp_path, root / ".git"):
        with pytest.raises(NotFound, match="not in a git repository"):
            commit(folder, CommitRequest("x", all=True))


def test_our_own_files_are_not_committed(root):
    (root / "state").mkdir()
    (root / "state" / "keys.yml").write_text("")
    (root / ".env").write_text("SECRET=1")
    closed = (str(root / "state"), str(root / ".env"))
    for wish in (CommitRequest("x", all=True), CommitRequest("x", paths=("state/keys.yml",))):
        with pytest.raises(Forbidden, match="is not committed"):
            commit(root, wish, closed)
    (root / ".gitignore").write_text("state\n.env\n")
    commit(root, CommitRequest("Fine", all=True), closed)
    assert list_committed(root) == {".gitignore"}
    run_git(root, "add", "-f", ".env")
    with pytest.raises(Forbidden):
        commit(root, CommitRequest("x"), closed)


# Programs that a repository names.


def install_hook(root: Path, name: str, script: str) -> None:
    path = root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_hooks_run_only_when_asked_and_may_refuse(root, canary):
    copy = WorkingCopy(str(root))
    assert do(copy.list_hooks()) == ()
    install_hook(root, "pre-commit", f"touch {canary}; echo no such luck; exit 1")
    install_hook(root, "post-commit", f"touch {canary}")
    assert do(copy.list_hooks()) == ("pre-commit", "post-commit")
    (root / "a").write_text("two\n")
    commit(root, CommitRequest("Quiet", all=True))
    assert not canary.exists()
    (root / "a").write_text("three\n")
    with pytest.raises(Conflict, match="hook of this repository refused") as result:
        commit(root, CommitRequest("Loud", all=True, run_hooks=True))
    assert "no such luck" in result.value.details
    assert canary.exists()
    assert list_subjects(root) == ["Quiet", "First"]


@pytest.mark.parametrize("name", ["clean", "process"])
def test_filters_of_the_repository_are_refused(root, canary, name):
    run_git(root, "config", f"filter.x.{name}", f"touch {canary}; cat")
    (root / ".gitattributes").write_text("* filter=x\n")
    (root / "a").write_text("two\n")
    with pytest.raises(Forbidden, match="filter"):
        commit(root, CommitRequest("x", all=True))
    assert not canary.exists()


@pytest.mark.parametrize(
    ("folder", "wish"),
    [
        ("", CommitRequest("x", run_hooks=True, paths=("new.bad",))),
        ("", CommitRequest("x", run_hooks=True, all=True)),
        ("sub", CommitRequest("x", run_hooks=True, all=True)),
        ("sub", CommitRequest("x", run_hooks=True, paths=("*.bad",))),
    ],
)
def test_the_patterns_of_a_hook_match_what_they_do_elsewhere(root, folder, wish):
    bad = "git diff --cached --name-only -- '*.bad'"
    install_hook(root, "pre-commit", f'test -z "$({bad})" || {{ echo bad; exit 1; }}')
    for name in ("new.bad", "*.bad"):
        (root / folder / name).write_text("")
    with pytest.raises(Conflict, match="hook of this repository refused"):
        commit(root / folder, wish)
    install_hook(root, "pre-commit", "exit 0")
    commit(root / folder, wish)
    wanted = {"new.bad", "*.bad"} if wish.all else set(wish.paths)
    assert list_committed(root) == {f"{folder}/{name}".lstrip("/") for name in wanted}


def test_a_hook_may_fetch_what_it_needs(root):
    install_hook(root, "pre-commit", 'git ls-remote "file://$PWD" > /dev/null')
    (root / "new").write_text("")
    commit(root, CommitRequest("x", run_hooks=True, all=True))
    assert list_committed(root) == {"new"}


def test_what_a_hook_leaves_in_the_background_does_not_hold_up_its_commit(root, monkeypatch):
    monkeypatch.setattr("agentd.workspace.git.command.GRACE", 0.2)
    install_hook(root, "post-commit", f"sleep {HOURS} &")
    (root / "a").write_text("two\n")
    made = commit(root, CommitRequest("With a hook", all=True, run_hooks=True))
    assert made.subject == "With a hook"
    assert list_subjects(root) == ["With a hook", "First"]


def test_a_file_that_became_a_folder_is_committed_after_it_was_staged(root):
    (root / "a").unlink()
    (root / "a").mkdir()
    (root / "a" / "d").write_text("inside\n")
    (root / "b").write_text("two\n")
    copy = WorkingCopy(str(root))
    for _ in range(2):
        do(copy.stage(["a"]))
    commit(root, CommitRequest("Became a folder", all=True))
    assert list_committed(root) == {"a", "a/d", "b"}


def test_no_other_program_of_the_repository_runs(root, canary):
    program = f"touch {canary}; false"
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.editor", "core.pager", "diff.external"),
        *("gpg.program", "credential.helper", "sequence.editor", "core.alternateRefsCommand"),
    ):
        run_git(root, "config", key, program)
    hooks = root / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\n{program}\n")
        (hooks / name).chmod(0o755)
    run_git(root, "config", "core.hooksPath", str(hooks))
    run_git(root, "config", "commit.gpgSign", "true")
    run_git(root, "config", "diff.x.textconv", program)
    run_git(root, "config", "gc.auto", "1")
    (root / ".gitattributes").write_text("* diff=x\n")
    canary.unlink(missing_ok=True)
    commit(root, CommitRequest("Safe", all=True))
    (root / "b").write_text("two\n")
    commit(root, CommitRequest("Safe, too", paths=("b",)))
    copy = WorkingCopy(str(root))
    do(copy.read_status())
    do(copy.diff("", "", staged=True))
    do(copy.diff("", "HEAD", staged=None))
    do(copy.log("", 5))
    assert not canary.exists()


def test_what_a_submodule_is_configured_to_run_never_runs(root, tmp_path, canary):
    run_git(tmp_path, "clone", "-q", str(root), "origin")
    run_git(root, "submodule", "--quiet", "add", str(tmp_path / "origin"), "module")
    run_git(root, "commit", "-qm", "Module")
    module = root / "module"
    run_git(module, "config", "core.fsmonitor", f"touch {canary}; false")
    run_git(module, "config", "filter.x.clean", f"touch {canary}; cat")
    (root / ".git" / "modules" / "module" / "info").mkdir(exist_ok=True)
    (root / ".git" / "modules" / "module" / "info" / "attributes").write_text("* filter=x\n")
    (module / "a").write_text("changed\n")
    (root / "a").write_text("two\n")
    canary.unlink(missing_ok=True)
    commit(root, CommitRequest("Beside", all=True))
    (root / "a").write_text("three\n")
    commit(root, CommitRequest("Beside, again", paths=("a",)))
    with pytest.raises(Conflict):
        commit(root, CommitRequest("x", all=True))
    with pytest.raises(Conflict):
        commit(root, CommitRequest("x", paths=("module",)))
    with pytest.raises(Conflict):
        commit(root, CommitRequest("x"))
    assert not canary.exists()
    assert list_committed(root) == {"a"}


def test_a_repository_within_is_left_alone(root, canary):
    inner = root / "inner"
    inner.mkdir()
    run_git(inner, "init", "-q")
    run_git(inner, "config", "core.fsmonitor", f"touch {canary}; false")
    (inner / "x").write_text("")
    (root / "a").write_text("two\n")
    commit(root, CommitRequest("Outer", all=True))
    assert list_committed(root) == {"a"}
    assert not canary.exists()


def test_a_repository_within_does_not_keep_what_else_is_chosen_from_being_staged(root):
    for name in ("inner", "folder/inner"):
        run_git(root, "init", "-q", name)
    (root / "a").write_text("two\n")
    (root / "new").write_text("")
    copy = WorkingCopy(str(root))
    status = do(copy.read_status())
    do(copy.stage([one.path for one in status.changes]))
    assert run_git(root, "diff", "--cached", "--name-only").split() == ["a", "new"]
    run_git(root, "commit", "-qm", "Outer")
    with pytest.raises(Conflict, match="in inner, which is another repository"):
        do(copy.stage(["inner"]))
    (root / "a").write_text("three\n")
    with pytest.raises(Conflict, match="in folder, which is another repository"):
        commit(root, CommitRequest("Both", paths=("a", "folder")))
    with pytest.raises(Conflict, match=r"nothing to commit in b$"):
        do(copy.stage(["a", "b"]))


# Pages of the log, and differences.


def test_pages_stay_true_while_commits_are_made(root):
    copy = WorkingCopy(str(root))
    for number in range(6):
        run_git(root, "commit", "-q", "--allow-empty", "-m", f"n{number}")
    page = do(copy.log("", 3))
    assert [one.subject for one in page.commits] == ["n5", "n4", "n3"]
    run_git(root, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    page = do(copy.log("", 3, page.next))
    assert [one.subject for one in page.commits] == ["n2", "n1", "n0"]
    page = do(copy.log("", 3, page.next))
    assert ([one.subject for one in page.commits], page.next) == (["First"], "")
    for bad in ("--output=x", "HEAD", "a.1", "0" * 40 + ".-1", "\u0663" * 40 + ".1"):
        with pytest.raises(BadRequest):
            do(copy.log("", 3, bad))
    with pytest.raises(NotFound):
        do(copy.log("", 3, "1" * 40 + ".0"))


def test_staged_and_unstaged_differences(root):
    (root / "a").write_text("two\n")
    run_git(root, "add", "a")
    (root / "b").write_text("three\n")
    copy = WorkingCopy(str(root))
    staged, rest, both = (do(copy.diff("", "", staged=one)).text for one in (True, False, None))
    assert "+two" in staged
    assert "+three" not in staged
    assert "+three" in rest
    assert "+two" not in rest
    assert "+two" in both
    assert "+three" in both
