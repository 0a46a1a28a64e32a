"""What answers and events show of the workspace: commits, and files that were uploaded."""

from msgspec import Struct

from agentd.agent.results import Commit
from agentd.clock import Timestamp
from agentd.workspace.commits import Head
from agentd.workspace.uploads import Upload


class CommitView(Struct, frozen=True):
    """A commit; ``at`` is its author's time."""

    id: str
    at: Timestamp
    author: str
    subject: str


class HeadView(Struct, frozen=True):
    """The argument of ``gitUpdate``: what is checked out; an empty ``branch``: only a commit."""

    branch: str
    commit: CommitView | None


class FileView(Struct, frozen=True):
    """An uploaded file; ``path`` is relative to the workspace, ``size`` in bytes."""

    name: str
    path: str
    size: int
    type: str
    at: Timestamp


class FilesChangeView(Struct, frozen=True):
    """The argument of ``filesUpdate``: the files that are new, the names of those gone."""

    added: list[FileView]
    removed: list[str]


def commit_view(commit: Commit) -> CommitView:
    """A commit as callers have it."""
    return CommitView(commit.id, commit.at, commit.author, commit.subject)


def head_view(head: Head) -> HeadView:
    """What is checked out."""
    return HeadView(head.branch, commit_view(head.commit) if head.commit else None)


def file_view(upload: Upload) -> FileView:
    """An uploaded file as callers have it."""
    return FileView(upload.name, upload.path, upload.size, upload.type, upload.at)
