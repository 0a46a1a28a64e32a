"""Work trees: what is known of one, and how git's words about merges are read. Pure."""

from collections.abc import Sequence
from typing import NoReturn

from msgspec import Struct

from agentd.chats.model import strip_buttons
from agentd.core.errors import Conflict

MOST_NAMED = 20
"""Files that an error names."""
LONGEST_SUBJECT = 100


class WorktreeStatus(Struct, frozen=True):
    """A work tree compared with the workspace."""

    into: str
    """The branch that is checked out in the workspace; empty: none is."""
    commit: str
    """The latest commit of the chat's branch."""
    base: str
    """The latest commit that both have: what changes are shown against."""
    ahead: int
    """Commits that the workspace lacks."""
    behind: int
    """Commits of the workspace that the chat's branch lacks."""
    uncommitted: int
    """Files that are changed or new and not committed."""
    problem: str = ""
    """That something else than its branch is checked out in it; empty: nothing is wrong."""


class MergeTree(Struct, frozen=True):
    """The merge of two commits: a tree, or the files in conflict."""

    tree: str
    conflicts: tuple[str, ...] = ()


def parse_merge_tree(output: bytes, code: int) -> MergeTree:
    """Read ``git merge-tree --write-tree --name-only -z``, which ended with 0 or 1."""
    first, *fields = output.decode("utf-8", "replace").split("\0")
    if code == 0:
        return MergeTree(first)
    names = fields[: fields.index("")] if "" in fields else fields
    return MergeTree(first, tuple(dict.fromkeys(names)) or ("(git does not say which files)",))


def parse_listed_files(message: str) -> tuple[str, ...]:
    """Return the files that git lists in a refusal, each in a line that begins with a tab."""
    return tuple(line[1:].rstrip() for line in message.splitlines() if line.startswith("\t"))


def raise_conflict(message: str, files: Sequence[str], advice: str = "") -> NoReturn:
    """Raise ``Conflict`` with the names of files."""
    named = ", ".join(files[:MOST_NAMED])
    more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
    raise Conflict(message, f"{named}{more}" + (f". {advice}" if advice else ""))


def name_changes(chat_id: int, title: str) -> str:
    """Return the commit message for what a chat changed, where nobody gives one."""
    subject = " ".join(strip_buttons(title).split())[:LONGEST_SUBJECT]
    return f"{subject or 'Changes'}\n\nChanged by chat {chat_id} of agentd."
