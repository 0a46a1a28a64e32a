"""Commits of the working repository: what may be asked for, and what came of it."""

import re

from msgspec import Struct

from agentd.agent.results import Commit
from agentd.errors import BadRequest

LONGEST_MESSAGE = 64 * 1024
"""Characters of a commit's message."""
MOST_PATHS = 1000

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("reference-transaction", "post-index-change"),
)
"""The programs of a repository that git would run for a commit."""

_MARK = re.compile(r"([0-9a-f]{40,64})\.([0-9]{1,7})")


class Wish(Struct, frozen=True):
    """What to commit: some ``paths``, ``all`` that is changed, or else what is staged."""

    message: str
    paths: tuple[str, ...] = ()
    all: bool = False
    run_hooks: bool = False


class Head(Struct, frozen=True):
    """What is checked out."""

    branch: str
    """Empty when none is, only a commit."""
    commit: Commit | None
    """None before the first one."""


class Page(Struct, frozen=True):
    """Some commits, newest first; ``next`` is the mark of older ones, empty when there are none."""

    commits: tuple[Commit, ...]
    next: str = ""


class Mark(Struct, frozen=True):
    """Where a page of commits ends: so many before it, told from the commit ``head``.

    It stays true when new commits are made.
    """

    head: str
    passed: int

    def __str__(self) -> str:
        """As callers have it."""
        return f"{self.head}.{self.passed}"


def mark(text: str) -> Mark:
    """The mark that a page gave; raises ``BadRequest`` for what none gave."""
    found = _MARK.fullmatch(text)
    if not found:
        raise BadRequest(f"{text[:100]!r} is no mark of a page", "Send a page's own 'next'.")
    return Mark(found[1], int(found[2]))


def checked(wish: Wish) -> Wish:
    """The same wish; raises ``BadRequest`` when it contradicts itself or has no message."""
    if not wish.message.strip() or "\0" in wish.message:
        raise BadRequest("A commit needs a message, of text")
    if len(wish.message) > LONGEST_MESSAGE:
        raise BadRequest(f"The message is longer than {LONGEST_MESSAGE:,} characters")
    if wish.paths and wish.all:
        raise BadRequest("Either 'paths' or 'all', not both")
    if len(wish.paths) > MOST_PATHS:
        raise BadRequest(f"More than {MOST_PATHS:,} paths", "Name their folder, or send all.")
    if not all(path.strip("/.") for path in wish.paths):
        raise BadRequest("A path is empty", "Send 'all' to commit everything that is changed.")
    return wish
