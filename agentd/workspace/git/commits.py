"""Commits of the working repository: requests and results."""

import re

from msgspec import Struct

from agentd.agent.tools.results import Commit
from agentd.core.errors import BadRequest

LONGEST_MESSAGE = 64 * 1024
"""Characters of a commit's message."""
MOST_PATHS = 1000

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("reference-transaction", "post-index-change"),
)
"""The programs of a repository that git would run for a commit."""

_MARK = re.compile(r"([0-9a-f]{40,64})\.([0-9]{1,7})")


class CommitRequest(Struct, frozen=True):
    """The files to commit: some ``paths``, ``all`` changed ones, or by default the staged ones."""

    message: str
    paths: tuple[str, ...] = ()
    all: bool = False
    run_hooks: bool = False


class GitHead(Struct, frozen=True):
    """The checked-out branch or commit."""

    branch: str
    """Empty when none is, only a commit."""
    commit: Commit | None
    """None before the first one."""


class CommitPage(Struct, frozen=True):
    """A page of commits, newest first; ``next`` marks the older ones, empty when there are none."""

    commits: tuple[Commit, ...]
    next: str = ""


class LogCursor(Struct, frozen=True):
    """The end of a page of commits: their number before it, counted from the commit ``head``.

    It stays true when new commits are made.
    """

    head: str
    passed: int

    def __str__(self) -> str:
        """Return the form that callers see."""
        return f"{self.head}.{self.passed}"


def parse_log_cursor(text: str) -> LogCursor:
    """Parse the cursor of a page; raises ``BadRequest`` for anything else."""
    found = _MARK.fullmatch(text)
    if not found:
        raise BadRequest(f"{text[:100]!r} is not a page cursor", "Send a page's own 'next'.")
    return LogCursor(found[1], int(found[2]))


def validate_commit(request: CommitRequest) -> CommitRequest:
    """Return the request unchanged; raise ``BadRequest`` if it is invalid."""
    if not request.message.strip() or "\0" in request.message:
        raise BadRequest("A commit needs a message, of text")
    if len(request.message) > LONGEST_MESSAGE:
        raise BadRequest(f"The message is longer than {LONGEST_MESSAGE:,} characters")
    if request.paths and request.all:
        raise BadRequest("Either 'paths' or 'all', not both")
    if len(request.paths) > MOST_PATHS:
        raise BadRequest(f"More than {MOST_PATHS:,} paths", "Name their folder, or send all.")
    if not all(path.strip("/.") for path in request.paths):
        raise BadRequest("A path is empty", "Send 'all' to commit everything that is changed.")
    return request
