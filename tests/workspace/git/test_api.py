"""``/api/git`` of a serving daemon, on real repositories."""

import json
import re
import select
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from agentd.workspace.git import working_copy
from tests.live.test_sse_api import listening
from tests.support.daemon import Client, Serving, until
from tests.support.fixtures import Serve


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    """The workspace: a repository with one commit of ``a`` and ``b``."""
    work = tmp_path / "work"
    work.mkdir()
    run_git(work, "init", "-q")
    for name in ("a", "b"):
        (work / name).write_text("one\n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-qm", "First")
    return work


@pytest.fixture
def daemon(serve: Serve, root: Path) -> Serving:
    """A daemon that works there."""
    return serve(workspace=str(root))


@pytest.fixture
def client(daemon: Serving) -> Client:
    """A client of it."""
    return daemon.client()


def commit(client: Client, **wish: Any) -> Any:
    return client.post("/api/git/commit", {"message": "x", **wish})


def test_a_day_with_the_repository(client: Client, root: Path) -> None:
    """Specification 4, extended surface: status and commit of the working repository."""
    (root / "a").write_text("two\n")
    run_git(root, "mv", "b", "c")
    (root / "new").write_text("")
    status = client.get("/api/git/status").json()
    assert (status["branch"], status["upstream"], status["conflicts"]) == ("main", "", [])
    assert status["staged"] == [{"path": "c", "change": "renamed", "before": "b"}]
    assert status["changed"] == [{"path": "a", "change": "modified", "before": ""}]
    assert (status["untracked"], status["hooks"], status["truncated"]) == (["new"], [], False)
    assert "+two" in client.get("/api/git/diff?path=a")["diff"]
    assert client.get("/api/git/diff?path=a&staged=true")["diff"] == ""
    reply = commit(client, message="All of it", all=True)
    assert reply.status == 201
    assert (reply["subject"], reply["author"]) == ("All of it", "Ada")
    assert re.fullmatch(r"[0-9T:-]{19}\.000Z", reply["at"])
    log = client.get("/api/git/log?limit=1").json()
    assert [one["id"] for one in log["commits"]] == [reply["id"]]
    older = client.get(f"/api/git/log?limit=5&before={log['next']}").json()
    assert [one["subject"] for one in older["commits"]] == ["First"]
    assert older["next"] == ""
    assert "+two" in client.get(f"/api/git/diff?commit={reply['id']}")["diff"]
    clean = client.get("/api/git/status").json()
    assert not any(clean[one] for one in ("staged", "changed", "untracked", "conflicts"))


def test_what_cannot_be_committed_is_reported_clearly(client: Client, root: Path) -> None:
    reply = commit(client)
    assert (reply.status, reply["message"]) == (409, "There is nothing to commit")
    assert commit(client, paths=["a"]).status == 409
    (root / "a").write_text("two\n")
    assert commit(client, message="").status == 400
    assert commit(client, message=" ", all=True).status == 400
    assert commit(client, paths=["a"], all=True).status == 400
    assert commit(client, paths=["../a"]).status == 403
    assert commit(client, paths=[""]).status == 400
    assert commit(client, paths="a").status == 400
    assert client.post("/api/git/commit", {"all": True}).status == 400
    (root / ".git" / "index.lock").write_text("")
    assert commit(client, all=True).status == 409
    (root / ".git" / "index.lock").unlink()
    assert commit(client, all=True).status == 201


def test_files_are_staged_and_unstaged_and_only_what_is_staged_is_committed(
    client: Client, root: Path
) -> None:
    (root / "a").write_text("two\n")
    (root / ":(glob)*").write_text("odd name")
    (root / "b").unlink()
    status = client.post("/api/git/stage", {"paths": ["a", ":(glob)*"]}).json()
    assert [one["path"] for one in status["staged"]] == [":(glob)*", "a"]
    assert [one["path"] for one in status["changed"]] == ["b"]
    status = client.post("/api/git/unstage", {"paths": [":(glob)*"]}).json()
    assert [one["path"] for one in status["staged"]] == ["a"]
    assert status["untracked"] == [":(glob)*"]
    assert commit(client).status == 201
    assert client.post("/api/git/stage", {"paths": ["b"]})["staged"][0]["change"] == "deleted"
    for paths in ([], [""], ["../a"], ["."], ["none"]):
        assert client.post("/api/git/stage", {"paths": paths}).status in (400, 403, 409)
    assert client.post("/api/git/unstage", {"paths": ["none"]}).status == 200


def test_files_are_unstaged_before_the_first_commit(serve: Serve, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    run_git(fresh, "init", "-q")
    (fresh / "a").write_text("one\n")
    client = serve(workspace=str(fresh)).client()
    assert client.post("/api/git/stage", {"paths": ["a"]})["staged"]
    assert client.post("/api/git/unstage", {"paths": ["a"]})["untracked"] == ["a"]
    assert (fresh / "a").read_text() == "one\n"


def test_a_conflict_is_reported_and_not_committed(client: Client, root: Path) -> None:
    run_git(root, "checkout", "-qb", "other")
    (root / "a").write_text("theirs\n")
    run_git(root, "commit", "-qam", "theirs")
    run_git(root, "checkout", "-q", "main")
    (root / "a").write_text("ours\n")
    run_git(root, "commit", "-qam", "ours")
    subprocess.run(["git", "merge", "-q", "other"], cwd=root, check=False, capture_output=True)
    status = client.get("/api/git/status").json()
    assert (status["conflicts"], status["staged"], status["changed"]) == (["a"], [], [])
    reply = commit(client, all=True)
    assert (reply.status, reply["details"]) == (409, "a")


def test_questions_that_make_no_sense(client: Client) -> None:
    for query in (
        *("log?limit=0", "log?limit=x", "log?limit=101", "log?before=HEAD", "diff?staged=yes"),
        *("diff?commit=--output%3D/tmp/x", "diff?commit=a..b"),
    ):
        assert client.get(f"/api/git/{query}").status == 400
    for path in ("/etc", "..%2Fx", "a%00b"):
        assert client.get(f"/api/git/log?path={path}").status == 403
        assert client.get(f"/api/git/diff?path={path}").status == 403
    assert client.get("/api/git/diff?commit=nowhere").status == 404


def test_a_repository_that_runs_programs_is_refused(
    client: Client, root: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    run_git(root, "config", "filter.x.clean", f"touch {canary}; cat")
    (root / ".gitattributes").write_text("* filter=x\n")
    (root / "a").write_text("two\n")
    for reply in (
        client.get("/api/git/status"),
        client.get("/api/git/diff"),
        commit(client, all=True),
    ):
        assert reply.status == 403
        assert "filter.x.clean" in reply["message"]
    assert not canary.exists()


def test_hooks_are_reported_and_run_only_when_asked(
    client: Client, root: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {canary}\necho refused; exit 1\n")
    hook.chmod(0o755)
    (root / "a").write_text("two\n")
    assert client.get("/api/git/status")["hooks"] == ["pre-commit"]
    assert commit(client, all=True).status == 201
    assert not canary.exists()
    (root / "a").write_text("three\n")
    reply = commit(client, all=True, runHooks=True)
    assert (reply.status, reply["details"]) == (409, "refused")
    assert canary.exists()


HOOKS = ["exec sleep 1000", "sleep 1000 & wait", "trap '' TERM; while :; do sleep 1; done"]
"""The ends of hooks that would not end by themselves; the last refuses to be asked."""


def install_hanging_hook(root: Path, end: str) -> Path:
    """Have a commit with hooks wait in one; the returned file is there once it does."""
    begun = root / ".git" / "begun"
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {begun}\n{end}\n")
    hook.chmod(0o755)
    (root / "a").write_text("two\n")
    return begun


def list_locks(root: Path) -> list[Path]:
    return [*(root / ".git").rglob("*.lock"), *(root / ".git").glob("next-index-*")]


@pytest.mark.parametrize("paths", [{"all": True}, {"paths": ["a"]}])
@pytest.mark.parametrize("end", HOOKS)
def test_a_stop_during_a_commit_answers_and_leaves_no_lock(
    daemon: Serving, root: Path, end: str, paths: Any
) -> None:
    begun = install_hanging_hook(root, end)
    found: list[Any] = []
    client = daemon.client()
    caller = threading.Thread(target=lambda: found.append(commit(client, runHooks=True, **paths)))
    caller.start()
    until(begun.exists)
    assert bool(list_locks(root)) == ("paths" in paths)
    daemon.stop()
    caller.join()
    daemon.join()
    assert (found[0].status, found[0]["error"]) == (503, "Unavailable")
    assert list_locks(root) == []
    assert run_git(root, "log", "--format=%s").splitlines() == ["First"]


@pytest.mark.parametrize("end", HOOKS)
def test_a_commit_that_takes_too_long_leaves_no_lock(
    client: Client, root: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_copy, "COMMIT_SECONDS", 2.0)
    install_hanging_hook(root, end)
    reply = commit(client, all=True, runHooks=True)
    assert (reply.status, "did not finish" in reply["message"]) == (503, True)
    assert list_locks(root) == []
    assert commit(client, all=True).status == 201


def test_a_hook_that_never_stops_talking_ends_the_commit_and_leaves_no_lock(
    client: Client, root: Path
) -> None:
    install_hanging_hook(root, "exec yes")
    reply = commit(client, all=True, runHooks=True)
    assert (reply.status, "said more" in reply["message"]) == (409, True)
    assert list_locks(root) == []
    assert commit(client, all=True).status == 201


def test_no_repository_is_reported_clearly(serve: Serve, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    client = serve(workspace=str(empty)).client()
    for reply in (
        client.get("/api/git/status"),
        client.get("/api/git/log"),
        client.get("/api/git/diff"),
        commit(client, all=True),
    ):
        assert reply.status == 404
        assert reply["message"] == "The workspace is not in a git repository."


def test_the_daemons_own_files_are_never_committed(serve: Serve, root: Path) -> None:
    """State and configuration lie in the workspace, and nobody told git to ignore them."""
    daemon = serve(folder=root, workspace=str(root))
    client = daemon.client()
    (root / ".env").write_text("KEY=1\n")
    (root / "a").write_text("two\n")
    assert commit(client, all=True).status == 403
    assert commit(client, paths=["config"]).status == 403
    assert commit(client, paths=["a"]).status == 201


def test_a_diff_shows_nothing_of_what_the_workspace_does_not_show(
    client: Client, root: Path
) -> None:
    """``/api/workspace/file`` refuses it to everybody, so no viewer may get it as a change."""
    (root / ".env").write_text("KEY=canary-1\n")
    run_git(root, "add", "-f", ".env")
    run_git(root, "commit", "-qm", "Second")
    (root / ".env").write_text("KEY=canary-2\n")
    (root / "a").write_text("two\n")
    assert client.get("/api/workspace/file?path=.env").status == 403
    commit = client.get("/api/git/log")["commits"][0]["id"]
    for query in ("", "?path=.env", "?staged=false", f"?commit={commit}"):
        diff = client.get(f"/api/git/diff{query}")["diff"]
        assert "canary" not in diff
        assert "(left out, since it is protected: .env)" in diff
    assert "+two" in client.get("/api/git/diff")["diff"]


def test_commits_at_the_same_time_all_come_through(serve: Serve, root: Path) -> None:
    daemon = serve(workspace=str(root))
    found: list[int] = []

    def commit_one(number: int) -> None:
        (root / f"n{number}").write_text("")
        client = daemon.client()
        found.append(commit(client, message=f"n{number}", paths=[f"n{number}"]).status)

    threads = [threading.Thread(target=commit_one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [201] * 8
    assert len(run_git(root, "log", "--format=%s").splitlines()) == 9


# What is told.


def list_heads(stream: Any) -> list[Any]:
    return [json.loads(one.data)[0] for one in stream.events if one.name == "gitUpdate"]


def test_a_commit_is_published_live(client: Client, daemon: Serving, root: Path) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        (root / "a").write_text("two\n")
        made = commit(client, all=True)
        stream.read_until(lambda: list_heads(stream))
        assert list_heads(stream) == [{"branch": "main", "commit": made.json()}]
        assert commit(client, all=True).status == 409  # nothing to commit, and nothing to tell
        (root / "a").write_text("three\n")
        commit(client, all=True)
        stream.read_until(lambda: len(list_heads(stream)) > 1)
        assert [one["commit"]["subject"] for one in list_heads(stream)] == ["x", "x"]
        assert len({one["commit"]["id"] for one in list_heads(stream)}) == 2


def test_what_is_checked_out_by_hand_is_published_live(
    client: Client, daemon: Serving, root: Path
) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        number = 0

        def switch() -> bool:
            """Once the daemon looks on, each is told."""
            nonlocal number
            number += 1
            run_git(root, "switch", "-qc", f"branch-{number}")
            if select.select([stream.socket], [], [], 0.3)[0]:
                stream.take()
            return bool(list_heads(stream))

        until(switch)
        run_git(root, "switch", "-q", "--detach")
        stream.read_until(lambda: list_heads(stream)[-1]["branch"] == "")
        run_git(root, "commit", "-q", "--allow-empty", "-m", "By hand")
        stream.read_until(lambda: list_heads(stream)[-1]["commit"]["subject"] == "By hand")


def test_a_repository_that_is_made_later_is_followed(
    serve: Serve, tmp_path: Path, home: Path
) -> None:
    work = tmp_path / "empty"
    work.mkdir()
    daemon = serve(workspace=str(work))
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        run_git(work, "init", "-q")
        stream.read_until(lambda: list_heads(stream) == [{"branch": "main", "commit": None}])
