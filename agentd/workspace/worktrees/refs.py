"""Questions to git about commits and branches."""

from agentd.workspace.git.command import Git, raise_git_error

CHECKOUT_SECONDS = 600.0
"""The time limit for whatever writes all files of a tree."""


async def find_tip(git: Git, branch: str) -> str:
    """Return a branch's latest commit; empty: there is no such branch."""
    found = await git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
    return found.output.decode().strip() if found.code == 0 else ""


async def find_merge_base(git: Git, one: str, other: str) -> str:
    """Return the latest commit that both have; empty: there is none."""
    found = await git.run("merge-base", one, other)
    if found.code not in (0, 1):
        raise_git_error(found)
    return found.output.decode().strip()


async def get_branch(git: Git) -> str:
    """Return the branch that is checked out; empty: none is."""
    asked = await git.run("symbolic-ref", "--quiet", "--short", "HEAD")
    return asked.output.decode("utf-8", "replace").strip() if asked.code == 0 else ""


async def resolve_commit(git: Git, name: str) -> str:
    """Return the id of a commit; ``NotFound``."""
    found = await git.run_checked("rev-parse", "--verify", f"{name}^{{commit}}")
    return found.output.decode().strip()
