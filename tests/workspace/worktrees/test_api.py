"""``/api/chat/{chatId}/worktree`` of a serving daemon, on real repositories."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.daemon import Client, Serving
from tests.support.fixtures import Serve
from tests.support.waiting import until
from tests.workspace.worktrees.conftest import build_writer, run_git, work_in_tree


def get_tree(client: Client, chat: int) -> dict[str, object]:
    reply = client.get(f"/api/chat/{chat}/worktree")
    assert reply.status == 200, reply.body
    found: dict[str, object] = reply.json()
    return found


def get_folder(client: Client, chat: int) -> Path:
    return Path(str(get_tree(client, chat)["folder"]))


def test_a_chat_with_a_work_tree_leaves_the_workspace_alone_until_it_is_merged(
    client: Client, root: Path, daemon: Serving
) -> None:
    chat = client.create_chat(worktree=True, title="Fix the *parser*!")
    planned = get_tree(client, chat)
    assert (planned["step"], planned["branch"]) == ("planned", f"agentd/{chat}-fix-the-parser")
    assert planned["base"] == run_git(root, "rev-parse", "HEAD").strip()
    assert client.get(f"/api/chat/{chat}/worktree/diff")["diff"] == ""
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "a=changed\nnew=made"})
    client.messages(chat)
    tree = get_tree(client, chat)
    folder = Path(daemon.layout.get_worktree_folder(chat))
    assert (tree["step"], tree["folder"], tree["into"]) == ("ready", str(folder), "main")
    assert (tree["ahead"], tree["behind"], tree["uncommitted"]) == (0, 0, 2)
    assert (folder.parent.stat().st_mode & 0o777, (folder / "new").exists()) == (0o700, True)
    assert run_git(root, "status", "--porcelain") == ""
    diff = client.get(f"/api/chat/{chat}/worktree/diff")["diff"]
    assert "+changed" in diff
    assert "+made" in diff
    assert run_git(folder, "status", "--porcelain") == " M a\n?? new\n"
    one = client.get(f"/api/chat/{chat}/worktree/diff?path=new")["diff"]
    assert ("+made" in one, "+changed" in one) == (True, False)
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {"message": "Parse", "into": "main"})
    assert reply.status == 200, reply.body
    assert (root / "new").read_text() == "made\n"
    assert run_git(root, "log", "-1", "--format=%H %s").split() == [reply["commit"], "Parse"]
    assert (reply["worktree"]["ahead"], reply["worktree"]["uncommitted"]) == (0, 0)
    assert client.get(f"/api/chat/{chat}/worktree/diff")["diff"] == ""
    assert client.post(f"/api/chat/{chat}/worktree/merge", {})["commit"] == reply["commit"]


def test_many_may_look_at_a_diff_at_once(client: Client, daemon: Serving) -> None:
    chat = work_in_tree(client, "a=theirs\nnew=theirs")
    path = f"/api/chat/{chat}/worktree/diff"
    whole = client.get(path)["diff"]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: daemon.client().get(path)["diff"], range(24)))
    assert found == [whole] * 24
    left = run_git(get_folder(client, chat), "rev-parse", "--absolute-git-dir").strip()
    assert not list(Path(left).glob("index.agentd*"))


def test_a_change_within_the_second_of_the_checkout_is_seen(client: Client) -> None:
    """Of the same size, too: git tells it by the times of the file and the index only."""
    chat = work_in_tree(client, "a=1234")
    changed = get_folder(client, chat) / "a"
    run_git(changed.parent, "checkout", "-q", "--", "a")
    changed.write_text(changed.read_text().replace("5", "x"))
    until(lambda: time.time() >= int(changed.stat().st_mtime) + 1)
    assert "-5\n+x\n" in client.get(f"/api/chat/{chat}/worktree/diff?path=a")["diff"]


def test_a_merge_with_conflicts_names_the_files_and_changes_nothing(
    client: Client, root: Path
) -> None:
    chat = work_in_tree(client, "a=theirs\nb=theirs")
    (root / "a").write_text("ours\n")
    run_git(root, "commit", "-qam", "Ours")
    head = run_git(root, "rev-parse", "HEAD")
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {})
    assert (reply.status, reply["details"].startswith("a. ")) == (409, True)
    assert "conflicts" in reply["message"]
    assert (run_git(root, "rev-parse", "HEAD"), run_git(root, "status", "--porcelain")) == (
        head,
        "",
    )
    reply = client.post(f"/api/chat/{chat}/worktree/rebase", {})
    advice = "Have the agent merge main into its branch, and resolve them."
    assert (reply.status, reply["details"]) == (409, f"a. {advice}")
    tree = get_tree(client, chat)
    assert (tree["step"], tree["ahead"], tree["behind"], tree["uncommitted"]) == ("ready", 1, 1, 0)
    assert (get_folder(client, chat) / "a").read_text() == "theirs\n"


def test_conflicts_that_the_agent_resolved_in_its_tree_are_merged(
    client: Client, root: Path
) -> None:
    chat = work_in_tree(client, "a=theirs")
    (root / "a").write_text("ours\n")
    run_git(root, "commit", "-qam", "Ours")
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {})
    assert "Have the agent merge main into its branch" in reply["details"]
    folder = get_folder(client, chat)
    run_git(folder, "merge", "--quiet", "--strategy-option=theirs", "main")
    (folder / "a").write_text("both\n")
    assert client.post(f"/api/chat/{chat}/worktree/merge", {}).status == 200
    assert (root / "a").read_text() == "both\n"


def test_both_sides_of_a_merge_are_there(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "new=theirs")
    (root / "a").write_text("ours\n")
    run_git(root, "commit", "-qam", "Ours")
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {})
    assert (root / "new").read_text() == "theirs\n"
    assert (root / "a").read_text() == "ours\n"
    parents = run_git(root, "log", "-1", "--format=%P", reply["commit"]).split()
    assert len(parents) == 2


def test_commits_are_named_after_what_the_chat_was_asked(client: Client, root: Path) -> None:
    chat = client.create_chat(worktree=True, prompt="new=made")
    client.messages(chat)
    assert client.post(f"/api/chat/{chat}/worktree/merge", {}).status == 200
    assert run_git(root, "log", "-1", "--format=%s") == "New made\n"


def test_changes_in_the_workspace_that_are_in_the_way_are_named_and_stay(
    client: Client, root: Path
) -> None:
    chat = work_in_tree(client, "a=theirs")
    (root / "a").write_text("not committed\n")
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {})
    assert (reply.status, reply["details"].startswith("a. ")) == (409, True)
    assert (root / "a").read_text() == "not committed\n"
    run_git(root, "checkout", "-q", "a")
    (root / "b").write_text("not committed\n")
    assert client.post(f"/api/chat/{chat}/worktree/merge", {}).status == 200
    assert (root / "b").read_text() == "not committed\n"


def test_a_merge_into_another_branch_than_was_shown_is_refused(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "a=theirs")
    run_git(root, "checkout", "-qb", "other")
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {"into": "main"})
    assert (reply.status, "other" in reply["message"]) == (409, True)


def test_a_rebase_puts_the_chat_on_top_of_the_workspace(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "new=theirs")
    (root / "a").write_text("ours\n")
    run_git(root, "commit", "-qam", "Ours")
    tree = client.post(f"/api/chat/{chat}/worktree/rebase", {}).json()
    assert (tree["step"], tree["ahead"], tree["behind"]) == ("ready", 1, 0)
    assert tree["base"] == run_git(root, "rev-parse", "HEAD").strip()
    assert (get_folder(client, chat) / "a").read_text() == "ours\n"


def test_work_is_dropped_only_by_force(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "a=theirs")
    folder = get_folder(client, chat)
    for ask in (
        lambda: client.post(f"/api/chat/{chat}/worktree/drop", {}),
        lambda: client.put(f"/api/chat/{chat}/settings", {"worktree": False}),
        lambda: client.delete(f"/api/chats/{chat}"),
    ):
        reply = ask()
        assert (reply.status, "files that are not committed: 1" in reply["message"]) == (409, True)
    run_git(folder, "commit", "-qam", "Work")
    reply = client.post(f"/api/chat/{chat}/worktree/drop", {})
    assert (reply.status, "no other branch has: 1" in reply["message"]) == (409, True)
    assert (folder / "a").read_text() == "theirs\n"
    reply = client.post(f"/api/chat/{chat}/worktree/drop", {"force": True})
    assert (reply.status, folder.exists()) == (200, False)
    assert run_git(root, "branch", "--list", "agentd/*") == ""
    assert client.get(f"/api/chat/{chat}/worktree").status == 404
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "a=in the workspace"})
    client.messages(chat)
    assert (root / "a").read_text() == "in the workspace\n"


@pytest.mark.parametrize("how", [("-qb", "feature"), ("-q", "--detach")])
def test_work_that_is_not_on_the_chat_s_branch_is_told_and_neither_lost_nor_left_out(
    client: Client, root: Path, how: tuple[str, ...]
) -> None:
    chat = work_in_tree(client, "a=mine")
    folder = get_folder(client, chat)
    branch = get_tree(client, chat)["branch"]
    run_git(folder, "checkout", *how)
    other = "feature" if "feature" in how else "no branch"
    assert get_tree(client, chat)["problem"] == (
        f"The work tree has {other} checked out, not {branch}."
    )
    for deed in ("merge", "rebase", "keep"):
        reply = client.post(f"/api/chat/{chat}/worktree/{deed}", {})
        assert (reply.status, f"has {other} checked out" in reply["message"]) == (409, True)
    assert (folder / "a").read_text() == "mine\n"
    run_git(folder, "commit", "-qam", "Of the agent")
    dropped = client.post(f"/api/chat/{chat}/worktree/drop", {})
    if other == "feature":
        assert dropped.status == 200
        assert run_git(root, "log", "-1", "--format=%s", "feature") == "Of the agent\n"
        return
    assert (dropped.status, "no other branch has: 1" in dropped["message"]) == (409, True)
    run_git(folder, "checkout", "-qB", str(branch))
    assert get_tree(client, chat)["problem"] == ""
    assert client.post(f"/api/chat/{chat}/worktree/merge", {}).status == 200
    assert (root / "a").read_text() == "mine\n"


def test_a_repository_that_an_agent_cloned_into_its_tree_is_in_the_way_of_no_merge(
    client: Client, root: Path
) -> None:
    chat = work_in_tree(client, "a=mine")
    folder = get_folder(client, chat)
    run_git(folder, "commit", "-qam", "Of the agent")
    run_git(folder, "init", "-q", "cloned")
    for deed in ("rebase", "merge"):
        reply = client.post(f"/api/chat/{chat}/worktree/{deed}", {})
        assert reply.status == 200, reply.body
    assert (root / "a").read_text() == "mine\n"
    kept = client.post(f"/api/chat/{chat}/worktree/keep", {})
    assert (kept.status, "not committed" in kept["message"]) == (409, True)
    assert (folder / "cloned" / ".git").exists()


def test_a_tree_with_submodules_is_kept_once_somebody_removed_it(
    client: Client, root: Path, tmp_path: Path, home: Path
) -> None:
    with (home / ".gitconfig").open("a") as settings:
        settings.write('[protocol "file"]\n allow = always\n')
    run_git(tmp_path, "clone", "-q", str(root), "inner")
    run_git(root, "submodule", "-q", "add", str(tmp_path / "inner"), "inner")
    run_git(root, "commit", "-qm", "With a submodule")
    chat = work_in_tree(client, "a=mine")
    folder = get_folder(client, chat)
    run_git(folder, "submodule", "-q", "update", "--init")
    kept = client.post(f"/api/chat/{chat}/worktree/keep", {})
    assert (kept.status, "submodules may hold work" in kept["message"]) == (409, True)
    run_git(root, *kept["details"].removeprefix("If not: git ").split())
    kept = client.post(f"/api/chat/{chat}/worktree/keep", {})
    assert kept.status == 200, kept.body
    assert run_git(root, "show", f"{kept['branch']}:a") == "mine\n"


def test_a_kept_branch_has_everything(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "new=theirs")
    folder = get_folder(client, chat)
    reply = client.post(f"/api/chat/{chat}/worktree/keep", {"message": "Kept"})
    assert (reply["kept"], folder.exists()) == (True, False)
    assert run_git(root, "show", f"{reply['branch']}:new") == "theirs\n"
    assert run_git(root, "worktree", "list").count("\n") == 1
    assert client.get(f"/api/chat/{chat}")["settings"]["worktree"] is False


def test_a_deleted_chat_takes_its_work_tree_with_it(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "a=theirs")
    folder = get_folder(client, chat)
    assert client.post(f"/api/chat/{chat}/worktree/merge", {}).status == 200
    assert client.delete(f"/api/chats/{chat}").status == 200
    assert not folder.exists()
    assert run_git(root, "branch", "--list", "agentd/*") == ""
    other = work_in_tree(client, "a=lost")
    assert client.delete(f"/api/chats/{other}?force=true").status == 200
    assert run_git(root, "worktree", "list").count("\n") == 1


def test_an_idle_chat_gets_a_work_tree_by_its_settings(
    client: Client, daemon: Serving, root: Path
) -> None:
    chat = client.create_chat(prompt="a=1")
    client.messages(chat)
    daemon.engine.hold()
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "a=2"})
    until(lambda: len(daemon.engine.given) == 2)
    reply = client.put(f"/api/chat/{chat}/settings", {"worktree": True})
    assert (reply.status, "working" in reply["message"]) == (409, True)
    daemon.engine.release()
    client.messages(chat)
    assert client.put(f"/api/chat/{chat}/settings", {"worktree": True})["worktree"] is True
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "b=tree"})
    client.messages(chat)
    assert daemon.engine.given[-1].folder == str(get_folder(client, chat))
    assert (root / "b").read_text() != "tree\n"


def test_a_diff_in_the_chat_s_tree_shows_nothing_that_is_protected(client: Client) -> None:
    chat = work_in_tree(client, "a=theirs")
    folder = get_folder(client, chat)
    (folder / ".env").write_text("KEY=canary\n")
    run_git(folder, "add", "-f", ".env")
    diff = client.get(f"/api/git/diff?chatId={chat}")["diff"]
    assert "+theirs" in diff
    assert "canary" not in diff
    assert "(left out, since it is protected: .env)" in diff


def test_git_endpoints_work_in_the_chat_s_tree(client: Client, root: Path) -> None:
    chat = work_in_tree(client, "a=theirs\nnew=theirs")
    query = f"chatId={chat}"
    status = client.get(f"/api/git/status?{query}").json()
    assert status["branch"].startswith("agentd/")
    assert (status["untracked"], [one["path"] for one in status["changed"]]) == (["new"], ["a"])
    assert "+theirs" in client.get(f"/api/git/diff?{query}")["diff"]
    assert client.post(f"/api/git/stage?{query}", {"paths": ["a"]})["staged"]
    assert client.post(f"/api/git/unstage?{query}", {"paths": ["a"]})["staged"] == []
    made = client.post(f"/api/git/commit?{query}", {"message": "Mine", "all": True})
    assert client.get(f"/api/git/log?{query}")["commits"][0]["id"] == made["id"]
    assert client.get("/api/git/log")["commits"][0]["subject"] == "First"
    plain = client.create_chat()
    assert client.get(f"/api/git/status?chatId={plain}")["branch"] == "main"
    assert client.get("/api/git/status?chatId=999").status == 404


def test_a_setup_that_fails_is_told_with_its_output_and_tried_again(
    serve: Serve, root: Path
) -> None:
    command = ["sh", "-c", 'echo "in $(basename "$PWD") of $WORKTREE_SOURCE"; test -e go || exit 3']
    daemon = serve(workspace=str(root), worktree_setup=command)
    daemon.engine.says = build_writer(root)
    client = daemon.client()
    chat = client.create_chat(prompt="new=theirs", worktree=True)
    said = client.messages(chat)[-1]
    assert (said["role"], "ended with 3" in said["content"]) == ("error", True)
    assert f"in {chat} of {root}" in said["content"]
    tree = get_tree(client, chat)
    assert (tree["step"], "ended with 3" in str(tree["problem"])) == ("planned", True)
    assert daemon.engine.given == []
    (root / "go").write_text("")
    run_git(root, "add", "go")
    run_git(root, "commit", "-qm", "Go")
    other = work_in_tree(client, "new=theirs")
    assert get_tree(client, other)["problem"] == ""
    client.post(f"/api/chat/{chat}/worktree/drop", {})
    assert run_git(root, "branch", "--list", f"agentd/{chat}*") == ""


def test_a_setup_is_bounded(serve: Serve, root: Path) -> None:
    daemon = serve(workspace=str(root), worktree_setup=["sleep", "600"], worktree_setup_seconds=1)
    client = daemon.client()
    chat = client.create_chat(prompt="x", worktree=True)
    assert "did not end within 1 seconds" in client.messages(chat)[-1]["content"]


def test_where_there_is_no_repository_there_is_no_work_tree(serve: Serve, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    client = serve(workspace=str(empty)).client()
    for path in ("/api/remote/chats", "/api/chats"):
        reply = client.post(path, {"worktree": True})
        assert (reply.status, "no work tree" in reply["message"]) == (409, True)
    assert client.get("/api/chats")["chats"] == []
    run_git(empty, "init", "-q")
    reply = client.post("/api/chats", {"worktree": True})
    assert (reply.status, "no commit" in reply["message"]) == (409, True)


def test_a_chat_works_in_the_same_part_of_a_larger_repository(serve: Serve, root: Path) -> None:
    part = root / "part"
    part.mkdir()
    (part / "c").write_text("1\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Part")
    daemon = serve(workspace=str(part))
    daemon.engine.says = build_writer(part)
    client = daemon.client()
    chat = work_in_tree(client, "c=2")
    assert daemon.engine.given[-1].folder == str(get_folder(client, chat) / "part")
    assert "+2" in client.get(f"/api/chat/{chat}/worktree/diff?path=c")["diff"]
    assert client.post(f"/api/chat/{chat}/worktree/merge", {}).status == 200
    assert (part / "c").read_text() == "2\n"


def test_a_branch_of_others_is_left_alone(client: Client, root: Path) -> None:
    run_git(root, "checkout", "-qb", "agentd/1-mine")
    run_git(root, "commit", "-qm", "Others'", "--allow-empty")
    run_git(root, "checkout", "-q", "main")
    chat = work_in_tree(client, "a=1", title="mine")
    assert chat == 1
    assert get_tree(client, chat)["branch"] == "agentd/1-mine-2"
    client.post(f"/api/chat/{chat}/worktree/drop", {"force": True})
    assert run_git(root, "branch", "--format=%(refname:short)") == "agentd/1-mine\nmain\n"


def test_a_tree_whose_branch_is_gone_is_told_and_dropped_by_force(
    client: Client, root: Path
) -> None:
    chat = work_in_tree(client, "a=theirs")
    run_git(root, "update-ref", "-d", f"refs/heads/{get_tree(client, chat)['branch']}")
    assert "is gone" in str(get_tree(client, chat)["problem"])
    for what in ("merge", "rebase", "keep", "drop"):
        assert client.post(f"/api/chat/{chat}/worktree/{what}", {}).status == 409
    assert client.post(f"/api/chat/{chat}/worktree/drop", {"force": True}).status == 200
    assert client.post(f"/api/chat/{chat}/worktree/drop", {"force": True}).status == 404


def test_a_repository_that_names_programs_for_git_is_refused(
    client: Client, root: Path, tmp_path: Path
) -> None:
    chat = work_in_tree(client, "a=theirs")
    ran = tmp_path / "ran"
    for name in ("filter.evil.clean", "filter.evil.smudge", "merge.evil.driver"):
        run_git(root, "config", name, f"touch {ran}; cat")
    (root / ".git" / "info" / "attributes").write_text("* filter=evil merge=evil\n")
    for what in ("merge", "rebase", "keep", "drop"):
        reply = client.post(f"/api/chat/{chat}/worktree/{what}", {})
        assert (reply.status, "refused here" in reply["message"]) == (403, True)
    assert client.get(f"/api/chat/{chat}/worktree").status == 403
    reply = client.post("/api/chats", {"worktree": True})
    assert (reply.status, "no work tree" in reply["message"]) == (409, True)
    for name in ("filter.evil.clean", "filter.evil.smudge"):
        run_git(root, "config", "--unset", name)
    reply = client.post(f"/api/chat/{chat}/worktree/merge", {})
    assert (reply.status, "merge.evil.driver" in reply["message"]) == (403, True)
    assert client.post(f"/api/chat/{chat}/worktree/drop", {"force": True}).status == 200
    assert not ran.exists()


def test_a_folder_that_somebody_removed_is_made_again_from_its_branch(
    client: Client, root: Path
) -> None:
    chat = work_in_tree(client, "a=theirs")
    folder = get_folder(client, chat)
    run_git(folder, "commit", "-qam", "Work")
    run_git(root, "worktree", "remove", "--force", str(folder))
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "b=theirs"})
    client.messages(chat)
    assert (folder / "a").read_text() == "theirs\n"
    assert (folder / "b").read_text() == "theirs\n"


@pytest.mark.parametrize("what", ["merge", "rebase", "keep", "drop"])
def test_nothing_is_done_under_a_working_agent_s_hands(
    what: str, client: Client, daemon: Serving
) -> None:
    daemon.engine.hold()
    chat = client.create_chat(prompt="a=1", worktree=True)
    until(lambda: daemon.engine.given)
    assert client.post(f"/api/chat/{chat}/worktree/{what}", {}).status == 409
    daemon.engine.release()
    client.messages(chat)


def test_a_restart_leaves_a_work_tree_as_it_is(serve: Serve, root: Path, tmp_path: Path) -> None:
    daemon = serve(tmp_path / "again", workspace=str(root))
    daemon.engine.says = build_writer(root)
    client = daemon.client()
    chat = work_in_tree(client, "a=theirs")
    before = get_tree(client, chat)
    daemon.stop()
    daemon.join()
    client = serve(tmp_path / "again", workspace=str(root)).client()
    assert get_tree(client, chat) == before
