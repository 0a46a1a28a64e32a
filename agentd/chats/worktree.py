"""A chat's own work tree: what the journal says of it. Types and rules, without I/O.

A chat with a work tree works in a folder and on a branch of its own. Each step that takes more than
one moment is recorded before it begins, so that a daemon that was killed knows what to finish.
"""

import re
import unicodedata
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

WorktreeStep: TypeAlias = Literal["planned", "ready", "rebasing", "keeping", "dropping"]
"""The state of a work tree: ``planned`` until it is made and set up, which the next turn waits for;
``keeping`` and ``dropping`` until its folder is removed, without or with its branch."""

BRANCHES = "agentd/"
"""The prefix of the branches of chats."""

_LONGEST_SLUG = 40


class WorktreeBase(Struct, frozen=True):
    """The start of a new work tree: the commit that is checked out in the workspace."""

    commit: str
    branch: str = ""
    """The branch that is checked out there; empty: none is."""


class Worktree(Struct, frozen=True, omit_defaults=True):
    """The work tree of a chat."""

    branch: str
    base: str
    """The commit that it began with."""
    source: str = ""
    """The branch that was checked out in the workspace then; empty: none was."""
    step: WorktreeStep = "planned"
    force: bool = False
    """While it is dropped: work that is only there is dropped, too."""
    problem: str = ""
    """Why it could not be made, or set up; empty: nothing is known to be wrong."""


class WorktreePlanner(Protocol):
    """Finds what a new work tree begins with (``workspace.worktrees.service``)."""

    async def plan(self) -> WorktreeBase:
        """Return the workspace's commit; ``Conflict`` if there can be no work tree."""
        ...


def plan_worktree(chat_id: int, title: str, base: WorktreeBase) -> Worktree:
    """Return the work tree that a chat is to have."""
    return Worktree(name_branch(chat_id, title), base.commit, base.branch)


def name_branch(chat_id: int, title: str) -> str:
    """Return the name of a chat's branch: its id, and what can be written of its title."""
    plain = unicodedata.normalize("NFKD", title[:1000]).encode("ascii", "ignore").decode()
    words = re.findall("[a-z0-9]+", plain.lower())
    slug = "-".join(words)[:_LONGEST_SLUG].strip("-")
    return f"{BRANCHES}{chat_id}-{slug}" if slug else f"{BRANCHES}{chat_id}"
