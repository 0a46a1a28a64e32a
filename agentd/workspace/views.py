"""The views of the workspace in responses and events: commits and uploaded files."""

from msgspec import Struct

from agentd.agent.tools.results import Commit
from agentd.core.clock import Timestamp
from agentd.workspace.git.commits import GitHead
from agentd.workspace.uploads.rules import Upload


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


def make_commit_view(commit: Commit) -> CommitView:
    """Return the view of a commit."""
    return CommitView(commit.id, commit.at, commit.author, commit.subject)


def make_head_view(head: GitHead) -> HeadView:
    """Return the view of what is checked out."""
    return HeadView(head.branch, make_commit_view(head.commit) if head.commit else None)


def make_file_view(upload: Upload) -> FileView:
    """Return the view of an uploaded file."""
    return FileView(upload.name, upload.path, upload.size, upload.type, upload.at)
