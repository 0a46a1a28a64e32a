"""What a killed daemon left half done with a work tree is finished or undone at the next start."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from agentd.chats.commands import ChatCommands
from agentd.chats.records import WorktreeChanged
from agentd.chats.service import NewChat
from agentd.chats.worktree import Worktree, WorktreeStep
from agentd.core.errors import NotFound
from agentd.storage.layout import Layout
from agentd.workspace.worktrees.merging import BranchMerger
from agentd.workspace.worktrees.model import WorktreeStatus
from agentd.workspace.worktrees.repository import WorktreeRepository
from agentd.workspace.worktrees.service import WorktreeService
from agentd.workspace.worktrees.setup import SetupCommand, WorktreeSetup
from agentd.workspace.worktrees.steps import WorktreeSteps
from tests.conftest import ME, Services, running_services
from tests.workspace.worktrees.conftest import run_git

pytestmark = pytest.mark.gen_test


@asynccontextmanager
async def running_worktrees(
    layout: Layout, root: Path, *, crash: bool = False
) -> AsyncIterator[tuple[Services, WorktreeService]]:
    """The work trees of a repository, as after a start; with ``crash`` the end is a kill."""
    async with running_services(layout, crash=crash) as services:
        setup = WorktreeSetup(str(root), "test", SetupCommand)
        repository = WorktreeRepository(str(root))
        merger = BranchMerger(str(root))
        chats = services.chats._chats
        steps = WorktreeSteps(chats, repository, merger, setup, layout, "test")
        trees = WorktreeService(chats, repository, merger, steps)
        await trees.finish_interrupted()
        yield services, trees


async def make_tree(services: Services, trees: WorktreeService) -> tuple[int, Path]:
    """Return a new chat with a work tree, and the folder of that."""
    chat = await services.chats.create(NewChat(worktree=await trees.plan()), ME)
    return chat.id, Path(await trees.prepare_folder(chat.id))


async def record_step(services: Services, chat_id: int, step: WorktreeStep) -> Worktree:
    """Note in the journal that a step has begun, as the daemon does before it begins it."""
    chat = await services.chats.get(chat_id)
    assert chat.worktree
    changed = replace(chat.worktree, step=step)
    repository = services.chats._chats
    await repository.record(await repository.open(chat_id), ME, WorktreeChanged(changed))
    return changed


async def test_a_rebase_that_was_cut_off_never_was(layout: Layout, root: Path) -> None:
    async with running_worktrees(layout, root, crash=True) as (services, trees):
        chat, folder = await make_tree(services, trees)
        (folder / "a").write_text("theirs\n")
        run_git(folder, "commit", "-qam", "Theirs")
        (root / "a").write_text("ours\n")
        run_git(root, "commit", "-qam", "Ours")
        await record_step(services, chat, "rebasing")
        with pytest.raises(subprocess.CalledProcessError):
            run_git(folder, "rebase", "main")
        assert "UU a" in run_git(folder, "status", "--porcelain")
    async with running_worktrees(layout, root) as (services, trees):
        assert (await trees.describe(chat)).worktree.step == "ready"
        assert run_git(folder, "status", "--porcelain", "--branch") == f"## agentd/{chat}\n"
        assert (folder / "a").read_text() == "theirs\n"


async def test_a_tree_that_is_read_while_a_rebase_begins_and_ends_has_its_branch_checked_out(
    layout: Layout, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_worktrees(layout, root) as (services, trees):
        chat, folder = await make_tree(services, trees)
        find_branch = WorktreeRepository.find_branch
        steps: list[WorktreeStep] = ["rebasing", "ready"]

        async def change_meanwhile(repository: WorktreeRepository, branch: str) -> str:
            tip = await find_branch(repository, branch)
            if steps:
                await record_step(services, chat, steps.pop(0))
                where = "--detach" if steps else branch
                run_git(folder, "checkout", "-q", where)
            return tip

        monkeypatch.setattr(WorktreeRepository, "find_branch", change_meanwhile)
        info = await trees.describe(chat)
        assert info.worktree.step == "ready"
        assert info.status and not info.status.problem


@pytest.mark.parametrize("step", ["keeping", "dropping"])
async def test_a_tree_that_is_removed_while_it_is_read_is_not_found(
    step: WorktreeStep, layout: Layout, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_worktrees(layout, root) as (services, trees):
        chat, _ = await make_tree(services, trees)
        read_status = WorktreeRepository.read_status

        async def remove_meanwhile(
            repository: WorktreeRepository, top: str, tree: Worktree
        ) -> WorktreeStatus:
            if step == "keeping":
                await trees.keep(chat, "", ME)
            else:
                await trees.drop(chat, ME, force=True)
            return await read_status(repository, top, tree)

        monkeypatch.setattr(WorktreeRepository, "read_status", remove_meanwhile)
        with pytest.raises(NotFound):
            await trees.diff(chat, "")
        with pytest.raises(NotFound):
            await trees.describe(chat)


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("step", ["keeping", "dropping"])
async def test_a_removal_that_was_cut_off_is_finished(
    step: WorktreeStep, removed: bool, layout: Layout, root: Path
) -> None:
    async with running_worktrees(layout, root, crash=True) as (services, trees):
        chat, folder = await make_tree(services, trees)
        await record_step(services, chat, step)
        if removed:
            run_git(root, "worktree", "remove", str(folder))
    async with running_worktrees(layout, root) as (services, trees):
        assert (await services.chats.get(chat)).worktree is None
        assert await trees.prepare_folder(chat) == ""
        assert not folder.exists()
        assert bool(run_git(root, "branch", "--list", f"agentd/{chat}")) is (step == "keeping")


@pytest.mark.parametrize("step", ["keeping", "dropping"])
async def test_what_was_changed_since_a_removal_began_is_not_lost(
    step: WorktreeStep, layout: Layout, root: Path
) -> None:
    async with running_worktrees(layout, root, crash=True) as (services, trees):
        chat, folder = await make_tree(services, trees)
        await record_step(services, chat, step)
        (folder / "late").write_text("work\n")
    async with running_worktrees(layout, root) as (services, trees):
        assert (await trees.describe(chat)).worktree.step == "ready"
        assert (folder / "late").read_text() == "work\n"


async def test_a_half_made_tree_is_removed_at_start_and_never_used(
    layout: Layout, root: Path
) -> None:
    async with running_worktrees(layout, root, crash=True) as (services, trees):
        chat, folder = await make_tree(services, trees)
        await record_step(services, chat, "planned")
        os.unlink(folder / "a")
    async with running_worktrees(layout, root) as (services, trees):
        assert not folder.exists()
        assert await trees.prepare_folder(chat) == str(folder)
        assert (folder / "a").exists()
        assert run_git(root, "branch", "--list", "agentd/*").split() == ["+", f"agentd/{chat}"]


async def test_the_state_of_a_work_tree_survives_a_crash(layout: Layout, root: Path) -> None:
    async with running_worktrees(layout, root, crash=True) as (services, trees):
        chat, folder = await make_tree(services, trees)
        assert services.chats.get_summary(chat).worktree == "ready"
    async with running_worktrees(layout, root) as (services, trees):
        assert services.chats.get_summary(chat).worktree == "ready"
        assert await trees.prepare_folder(chat) == str(folder)
        assert services.chats.get_summary(chat).worktree == "ready"


async def duplicate(services: Services, trees: WorktreeService, chat_id: int) -> int:
    """Duplicate a chat, without its history; return the id of the copy."""
    editing = ChatCommands(services.chats._chats)
    chat = await services.chats.get(chat_id)
    base = await trees.plan_copy(chat_id)
    return (await editing.duplicate_chat(chat, (), "Copy", ME, worktree=base)).id


async def test_a_duplicate_has_a_work_tree_of_its_own_from_the_originals_last_commit(
    layout: Layout, root: Path
) -> None:
    async with running_worktrees(layout, root) as (services, trees):
        chat, folder = await make_tree(services, trees)
        (folder / "made.txt").write_text("one\n")
        run_git(folder, "add", "made.txt")
        run_git(folder, "commit", "--quiet", "-m", "made")
        (folder / "open.txt").write_text("not committed\n")
        copy = await duplicate(services, trees, chat)
        theirs = Path(await trees.prepare_folder(copy))
        assert theirs != folder
        assert (theirs / "made.txt").read_text() == "one\n"
        assert not (theirs / "open.txt").exists()
        shown = await trees.describe(copy)
        assert shown.worktree.branch == f"agentd/{copy}-copy"
        assert shown.status and shown.status.ahead == 1, "what the original has is a change, too"
        (theirs / "made.txt").write_text("two\n")
        assert (folder / "made.txt").read_text() == "one\n"


async def test_a_duplicate_begins_like_an_original_that_is_not_made_and_has_no_tree_without_one(
    layout: Layout, root: Path
) -> None:
    async with running_worktrees(layout, root) as (services, trees):
        base = await trees.plan()
        planned = (await services.chats.create(NewChat(worktree=base), ME)).id
        assert await trees.plan_copy(planned) == base
        assert services.chats.get_summary(await duplicate(services, trees, planned)).worktree
        plain = (await services.chats.create(NewChat(), ME)).id
        assert not services.chats.get_summary(await duplicate(services, trees, plain)).worktree
        made, _ = await make_tree(services, trees)
        await trees.keep(made, "", ME)
        assert await trees.plan_copy(made) is None
