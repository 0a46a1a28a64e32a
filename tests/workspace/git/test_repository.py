"""The real git, on repositories of friends and of strangers."""

import asyncio
import os
import subprocess
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.agent.tools.model import GitDiff, GitLog, GitStatus
from agentd.agent.tools.results import GitChange
from agentd.core.errors import AgentdError, BadRequest, Forbidden, NotFound, Unavailable
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.repository import MOST_CHANGES, GitRepository
from tests.support.examples import limit_examples

T = TypeVar("T")


def do(work: Awaitable[T]) -> T:
    async def wait() -> T:
        async with asyncio.timeout(100):
            return await work

    return asyncio.run(wait())


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
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
    """A repository with two commits."""
    work = tmp_path / "work"
    work.mkdir()
    run_git(work, "init", "-q")
    (work / "a.txt").write_text("one\n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-qm", "First")
    (work / "sub").mkdir()
    (work / "sub" / "b.txt").write_text("two\n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-qm", "Second | with `ticks`")
    return work


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that is there once a program of the repository ran."""
    return tmp_path / "canary"


def test_a_clean_repository(root):
    status = do(GitRepository(str(root)).read_status(GitStatus()))
    assert (status.branch, status.changes, status.truncated) == ("main", (), False)


def test_every_kind_of_change_is_reported(root):
    (root / "a.txt").write_text("changed\n")
    run_git(root, "mv", "sub/b.txt", "sub/ü c.txt")
    (root / "new").write_text("")
    (root / "staged").write_text("")
    run_git(root, "add", "staged")
    status = do(GitRepository(str(root)).read_status(GitStatus()))
    assert set(status.changes) == {
        GitChange(".M", "a.txt"),
        GitChange("R.", "sub/ü c.txt", "sub/b.txt"),
        GitChange("A.", "staged"),
        GitChange("??", "new"),
    }


def test_files_of_another_folder_are_not_reported_as_those_of_the_repository(root, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("canary\n")
    run_git(root, "config", "core.worktree", str(other))
    repository = GitRepository(str(root))
    for asked in (repository.diff(GitDiff()), repository.read_status(GitStatus())):
        with pytest.raises(Forbidden, match=r"core\.worktree"):
            do(asked)
    run_git(root, "config", "core.worktree", str(root))
    assert do(repository.diff(GitDiff())).text == ""


def test_what_is_protected_is_left_out_of_a_difference_and_named(root):
    (root / "sub" / ".env").write_text("KEY=canary\n")
    run_git(root, "add", "-f", "-A")
    run_git(root, "commit", "-qm", "Third")
    (root / "sub" / ".env").write_text("KEY=canary2\n")
    (root / "a.txt").write_text("changed\n")
    repository = GitRepository(str(root), ProtectedPlaces())
    for wanted in (GitDiff(), GitDiff("."), GitDiff("sub"), GitDiff(commit="HEAD")):
        text = do(repository.diff(wanted)).text
        assert "canary" not in text
        assert "(left out, since it is protected: sub/.env)" in text
        assert ("changed" in text) is (wanted.path == "." and not wanted.commit)


@pytest.mark.parametrize("setting", ["diff.noprefix", "diff.mnemonicPrefix"])
def test_a_diff_names_files_in_one_way_whatever_a_person_set(root, setting):
    run_git(root, "config", "--global", setting, "true")
    (root / "a.txt").write_text("changed\n")
    for wanted, path in ((GitDiff(), "a.txt"), (GitDiff(commit="HEAD"), "sub/b.txt")):
        diff = do(GitRepository(str(root)).diff(wanted)).text
        assert diff.startswith(f"diff --git a/{path} b/{path}\n")
        assert f"\n+++ b/{path}\n" in diff


def test_what_a_merge_changed_is_what_it_brought(root):
    run_git(root, "checkout", "-qb", "other", "HEAD~1")
    (root / "brought.txt").write_text("theirs\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "theirs")
    run_git(root, "checkout", "-q", "main")
    run_git(root, "merge", "-q", "--no-edit", "other")
    diff = do(GitRepository(str(root)).diff(GitDiff(commit="HEAD"))).text
    assert diff.count("diff --git") == 1
    assert "+++ b/brought.txt\n@@ -0,0 +1 @@\n+theirs\n" in diff


def test_a_conflict_is_reported(root):
    run_git(root, "checkout", "-qb", "other", "HEAD~1")
    (root / "a.txt").write_text("theirs\n")
    run_git(root, "commit", "-qam", "theirs")
    run_git(root, "checkout", "-q", "main")
    (root / "a.txt").write_text("ours\n")
    run_git(root, "commit", "-qam", "ours")
    subprocess.run(["git", "merge", "-q", "other"], cwd=root, check=False, capture_output=True)
    status = do(GitRepository(str(root)).read_status(GitStatus()))
    assert GitChange("UU", "a.txt") in status.changes


def test_ahead_behind_and_a_detached_head(root, tmp_path):
    run_git(tmp_path, "clone", "-q", str(root), "clone")
    clone = tmp_path / "clone"
    (clone / "c").write_text("")
    run_git(clone, "add", "c")
    run_git(clone, "commit", "-qm", "ahead")
    status = do(GitRepository(str(clone)).read_status(GitStatus()))
    assert (status.upstream, status.ahead, status.behind) == ("origin/main", 1, 0)
    run_git(clone, "checkout", "-q", "--detach")
    assert do(GitRepository(str(clone)).read_status(GitStatus())).branch == ""


def test_a_workspace_of_which_nothing_is_tracked_shows_its_files(root):
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "b.txt").write_text("")
    (root / "new" / "deep" / "c.txt").write_text("")
    changes = do(GitRepository(str(root / "new")).read_status(GitStatus())).changes
    assert sorted(changes, key=lambda one: one.path) == [
        GitChange("??", "b.txt"),
        GitChange("??", "deep/c.txt"),
    ]


@pytest.mark.parametrize(
    ("date", "at"),
    [
        ("2026-03-01T01:30:00+02:00", "2026-02-28T23:30:00.000Z"),
        ("@0 +0000", "1970-01-01T00:00:00.000Z"),
        ("@99999999999 +1400", "5138-11-16T09:46:39.000Z"),
    ],
)
def test_times_are_utc(root, monkeypatch, date, at):
    monkeypatch.setenv("GIT_AUTHOR_DATE", date)
    (root / "dated").write_text("")
    run_git(root, "add", "dated")
    run_git(root, "commit", "-qm", "Dated")
    monkeypatch.delenv("GIT_AUTHOR_DATE")
    assert do(GitRepository(str(root)).log(GitLog())).commits[0].at == at


@pytest.mark.parametrize("cut", [1, 5, 14, 70, 90, 100, 180])
def test_of_changes_that_are_too_many_to_be_read_each_listed_one_is_whole(root, monkeypatch, cut):
    for number in range(5):
        (root / f"new file {number}").write_text("")
    run_git(root, "mv", "a.txt", "named.txt")
    size = len(run_git(root, "status", "--porcelain=v2", "--branch", "-z"))
    monkeypatch.setattr("agentd.workspace.git.repository._MOST_NAMES", size - cut)
    status = do(GitRepository(str(root)).read_status(GitStatus()))
    assert status.truncated
    known = [GitChange("R.", "named.txt", "a.txt")]
    known += [GitChange("??", f"new file {number}") for number in range(5)]
    assert list(status.changes) == known[: len(status.changes)]
    assert len(status.changes) == max(5 - cut // 13, 0)


def test_many_changes_are_cut(root):
    for number in range(MOST_CHANGES + 1):
        (root / f"n{number}").write_text("")
    status = do(GitRepository(str(root)).read_status(GitStatus()))
    assert (len(status.changes), status.truncated) == (MOST_CHANGES, True)


def test_the_log_is_newest_first_and_cut_at_its_limit(root):
    repository = GitRepository(str(root))
    log = do(repository.log(GitLog(limit=1)))
    assert [(commit.author, commit.subject) for commit in log.commits] == [
        ("Ada", "Second | with `ticks`")
    ]
    assert log.truncated
    both = do(repository.log(GitLog(limit=2)))
    assert ([commit.subject for commit in both.commits][1], both.truncated) == ("First", False)
    assert [commit.subject for commit in do(repository.log(GitLog("a.txt"))).commits] == ["First"]


def test_a_diff_holds_what_is_staged_and_what_is_not(root):
    (root / "a.txt").write_text("unstaged\n")
    (root / "sub" / "b.txt").write_text("staged\n")
    run_git(root, "add", "sub")
    repository = GitRepository(str(root))
    diff = do(repository.diff(GitDiff()))
    assert "+unstaged" in diff.text
    assert "+staged" in diff.text
    only = do(repository.diff(GitDiff("sub")))
    assert "+unstaged" not in only.text
    assert "+staged" in only.text


def test_a_commit_shows_what_it_changed(root):
    repository = GitRepository(str(root))
    assert "+two" in do(repository.diff(GitDiff(commit="HEAD"))).text
    first = do(repository.diff(GitDiff(commit="main~1"))).text
    assert "+one" in first
    assert "First" not in first


@pytest.mark.parametrize("branch", ["fix/#12-ö", "naïve", "deps/@types+node=20", "_x", "日本,語"])
def test_a_branch_is_shown_by_any_name_that_people_give(root, branch):
    run_git(root, "branch", branch)
    assert "+two" in do(GitRepository(str(root)).diff(GitDiff(commit=branch))).text


def test_an_enormous_diff_is_cut(root):
    (root / "a.txt").write_text("line\n" * 100_000)
    diff = do(GitRepository(str(root)).diff(GitDiff()))
    assert diff.truncated
    assert len(diff.text) <= 128 * 1024


def test_a_repository_without_commits(tmp_path):
    run_git(tmp_path, "init", "-q", "fresh")
    fresh = tmp_path / "fresh"
    (fresh / "x").write_text("new\n")
    run_git(fresh, "add", "x")
    repository = GitRepository(str(fresh))
    assert do(repository.log(GitLog())).commits == ()
    assert do(repository.read_status(GitStatus())).changes == (GitChange("A.", "x"),)
    assert "+new" in do(repository.diff(GitDiff())).text


def test_no_repository_is_a_clear_answer(tmp_path):
    (tmp_path / "plain").mkdir()
    repository = GitRepository(str(tmp_path / "plain"))
    for work in (
        repository.read_status(GitStatus()),
        repository.log(GitLog()),
        repository.diff(GitDiff()),
        repository.diff(GitDiff(commit="HEAD")),
    ):
        with pytest.raises(NotFound, match="not in a git repository"):
            do(work)


def test_a_folder_that_vanished_and_a_missing_git_are_reported(tmp_path, root, monkeypatch):
    with pytest.raises(Unavailable, match="not there any more"):
        do(GitRepository(str(tmp_path / "gone")).read_status(GitStatus()))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="git is not installed"):
        do(GitRepository(str(root)).read_status(GitStatus()))


def test_a_workspace_within_a_larger_repository_sees_its_own_part(root):
    (root / "a.txt").write_text("outside\n")
    (root / "sub" / "b.txt").write_text("inside\n")
    repository = GitRepository(str(root / "sub"))
    assert do(repository.read_status(GitStatus())).changes == (GitChange(".M", "b.txt"),)
    diff = do(repository.diff(GitDiff())).text
    assert "a/b.txt" in diff
    assert "outside" not in diff
    subjects = [commit.subject for commit in do(repository.log(GitLog())).commits]
    assert subjects == ["Second | with `ticks`"]
    assert "one" not in do(repository.diff(GitDiff(commit="HEAD~1"))).text


def test_a_work_tree_set_elsewhere_shows_nothing_from_there(root, tmp_path):
    (tmp_path / "a.txt").write_text("secret\n")
    run_git(root, "config", "core.worktree", str(tmp_path))
    repository = GitRepository(str(root))
    for work in (repository.read_status(GitStatus()), repository.diff(GitDiff())):
        with suppress(AgentdError):
            assert "secret" not in str(do(work))


HOSTILE = ["--output=canary", "--upload-pack=touch canary", "-O/dev/null", "-p", "--", "a;touch x"]


@pytest.mark.parametrize("value", [*HOSTILE, "HEAD..main", "HEAD:a.txt", "", "x" * 300, ":/First"])
def test_a_commit_name_is_never_an_option(root, value):
    before = set(os.listdir(root))
    repository = GitRepository(str(root))
    if value:
        with pytest.raises(BadRequest, match="not the name of a commit"):
            do(repository.diff(GitDiff(commit=value)))
    with pytest.raises(NotFound, match="no such commit"):
        do(repository.diff(GitDiff(commit="nowhere")))
    assert set(os.listdir(root)) == before


@pytest.mark.parametrize("value", [*HOSTILE, ":(top)a.txt", ":!a.txt", "*"])
def test_a_path_is_never_an_option_or_a_pattern(root, value):
    (root / "a.txt").write_text("changed\n")
    before = set(os.listdir(root))
    repository = GitRepository(str(root))
    assert do(repository.diff(GitDiff(value))).text == ""
    assert do(repository.log(GitLog(value))).commits == ()
    assert set(os.listdir(root)) == before


@pytest.mark.parametrize("value", ["../x", "/etc", "sub/../../x", "a\0b"])
def test_a_path_outside_is_refused(root, value):
    repository = GitRepository(str(root))
    for work in (repository.diff(GitDiff(value)), repository.log(GitLog(value))):
        with pytest.raises(Forbidden):
            do(work)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=limit_examples(25),
)
@given(path=st.text(max_size=20), commit=st.text(max_size=20))
def test_whatever_is_asked_only_our_errors_come(root, path, commit):
    repository = GitRepository(str(root))
    for work in (repository.log(GitLog(path)), repository.diff(GitDiff(path, commit))):
        with suppress(AgentdError):
            do(work)


def run_everything(root: Path) -> list[str]:
    """Return each operation's outcome."""
    repository = GitRepository(str(root))
    outcomes = []
    for work in (
        repository.read_status(GitStatus()),
        repository.log(GitLog()),
        repository.diff(GitDiff()),
        repository.diff(GitDiff(commit="HEAD")),
    ):
        try:
            outcomes.append(str(do(work)))
        except AgentdError as error:
            outcomes.append(error.message)
    return outcomes


def poison(root: Path, canary: Path) -> dict[str, str]:
    run = f"touch {canary}; false"
    script = root.parent / "script"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o755)
    return {
        "core.fsmonitor": str(script),
        "core.pager": run,
        "pager.log": run,
        "pager.diff": run,
        "diff.external": str(script),
        "core.sshCommand": run,
        "core.askPass": str(script),
        "core.editor": run,
        "gpg.program": str(script),
        "credential.helper": f"!{run}",
        "diff.evil.textconv": run,
        "diff.evil.command": run,
        "interactive.diffFilter": run,
        "log.showSignature": "true",
        "diff.submodule": "diff",
        "alias.status": f"!{run}",
        "core.alternateRefsCommand": run,
    }


def sign(root: Path) -> None:
    """Give the last commit a signature, so that showing it could check that."""
    head, _, message = run_git(root, "cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    commit = f"{head}\n{signature}\n\n{message}"
    signed = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=root,
        input=commit.encode(),
        check=True,
        capture_output=True,
    )
    run_git(root, "reset", "-q", "--soft", signed.stdout.decode().strip())


def test_no_program_that_a_repository_names_is_run(root, canary):
    sign(root)
    for name, value in poison(root, canary).items():
        run_git(root, "config", name, value)
    hooks = root / ".git" / "hooks"
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (hooks / hook).chmod(0o755)
    (root / ".gitattributes").write_text("* diff=evil\n")
    (root / "a.txt").write_text("changed\n")
    assert run_everything(root)[1] == "2 commits"
    assert not canary.exists()
    assert "+changed" in do(GitRepository(str(root)).diff(GitDiff())).text


@pytest.mark.parametrize("what", ["clean", "smudge", "process"])
@pytest.mark.parametrize("name", ["evil", "Evil.dots", "filter.x"])
def test_where_a_repository_sets_a_filter_comparing_is_refused(root, canary, what, name):
    with open(root / ".git" / "config", "a") as config:
        config.write(f'[FILTER "{name}"]\n {what} = "touch {canary}; cat"\n')
    (root / ".gitattributes").write_text(f"* filter={name}\n")
    (root / "a.txt").write_text("changed\n")
    repository = GitRepository(str(root))
    for work in (repository.read_status(GitStatus()), repository.diff(GitDiff())):
        with pytest.raises(Forbidden, match="a program that git would run"):
            do(work)
    assert len(do(repository.log(GitLog())).commits) == 2
    assert "+two" in do(repository.diff(GitDiff(commit="HEAD"))).text
    assert not canary.exists()


def test_a_filter_hidden_in_an_included_file_or_a_work_trees_own_is_found(root, canary):
    (root / ".git" / "more").write_text(f'[filter "evil"]\n clean = touch {canary}\n')
    (root / ".gitattributes").write_text("* filter=evil\n")
    (root / "a.txt").write_text("changed\n")
    run_git(root, "config", "include.path", "more")
    with pytest.raises(Forbidden):
        do(GitRepository(str(root)).read_status(GitStatus()))
    run_git(root, "config", "--unset", "include.path")
    run_git(root, "config", "extensions.worktreeConfig", "true")
    run_git(root, "config", "--worktree", "filter.evil.clean", f"touch {canary}")
    with pytest.raises(Forbidden):
        do(GitRepository(str(root)).read_status(GitStatus()))
    assert not canary.exists()


def test_the_persons_own_filter_is_trusted(root, home):
    run_git(root, "config", "--global", "filter.own.clean", "cat")
    (root / ".gitattributes").write_text("* filter=own\n")
    assert do(GitRepository(str(root)).read_status(GitStatus())).changes


def test_without_the_guard_the_filter_would_have_run(root, canary):
    run_git(root, "config", "filter.evil.clean", f"touch {canary}; cat")
    (root / ".gitattributes").write_text("* filter=evil\n")
    (root / "a.txt").write_text("two\n")
    run_git(root, "-c", "core.fsmonitor=false", "status")
    assert canary.exists()


def test_a_lacking_object_is_not_fetched(root, canary):
    blob = run_git(root, "rev-parse", "HEAD:a.txt").strip()
    os.unlink(root / ".git" / "objects" / blob[:2] / blob[2:])
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::sh -c touch% {canary}",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }.items():
        run_git(root, "config", name, value)
    (root / "a.txt").write_text("changed\n")
    run_everything(root)
    assert not canary.exists()
    subprocess.run(["git", "diff"], cwd=root, check=False, capture_output=True)
    assert canary.exists(), "this repository is not hostile enough"


def test_a_submodules_own_filter_is_not_run(root, canary, tmp_path):
    run_git(tmp_path, "init", "-q", "inner")
    inner = tmp_path / "inner"
    (inner / "x").write_text("x\n")
    run_git(inner, "add", "x")
    run_git(inner, "commit", "-qm", "inner")
    run_git(
        root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod"
    )
    run_git(root, "commit", "-qm", "with a submodule")
    run_git(root / "mod", "config", "filter.evil.clean", f"touch {canary}; cat")
    (root / "mod" / ".gitattributes").write_text("* filter=evil\n")
    (root / "mod" / "x").write_text("y\n")
    run_everything(root)
    assert not canary.exists()
    run_git(root, "status")
    assert canary.exists(), "this repository is not hostile enough"


def test_a_hidden_bare_repository_is_not_taken(tmp_path, canary):
    bare = tmp_path / "work" / "bare"
    run_git(tmp_path, "init", "-q", "--bare", str(bare))
    run_git(bare, "config", "core.bare", "false")
    run_git(bare, "config", "core.worktree", str(bare))
    run_git(bare, "config", "core.fsmonitor", f"touch {canary}")
    assert all("not in a git repository" in outcome for outcome in run_everything(bare))
    assert not canary.exists()


def test_a_damaged_configuration_is_reported(root):
    (root / ".git" / "config").write_text("[core\n")
    assert all("bad config line" in outcome for outcome in run_everything(root))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_repository_is_not_trusted(root):
    for folder, _, _ in os.walk(root):
        os.chown(folder, 65534, 65534)
    with pytest.raises(Forbidden, match="belongs to another user"):
        do(GitRepository(str(root)).read_status(GitStatus()))


def test_reading_takes_no_lock_and_writes_nothing(root):
    (root / "a.txt").write_text("one\n")
    os.utime(root / "a.txt", (1, 1))
    before = (root / ".git" / "index").stat().st_mtime_ns
    run_everything(root)
    assert (root / ".git" / "index").stat().st_mtime_ns == before
    assert do(GitRepository(str(root)).read_status(GitStatus())).changes == ()
    assert do(GitRepository(str(root)).diff(GitDiff())).text == ""
