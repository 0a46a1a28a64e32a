"""The results of tools; ``str`` gives a short summary of each."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.system.folder import EntryKind


class DirEntry(Struct, frozen=True):
    """A file or folder of a listing; ``size`` in bytes, 0 for anything but a file."""

    path: str
    kind: EntryKind
    size: int = 0


class DirListing(Struct, frozen=True):
    """The content of a folder; ``truncated`` when there is more."""

    path: str
    entries: tuple[DirEntry, ...]
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        return _count_noun(len(self.entries), "entry", "entries", self.truncated)


class FileText(Struct, frozen=True):
    """A part of a file: lines, the first of them numbered ``first``."""

    path: str
    lines: tuple[str, ...]
    first: int
    total: int
    """Lines in the whole file; a minimum when ``counted`` is false."""
    size: int
    """Bytes in the whole file."""
    counted: bool = True
    encoding: str = "utf-8"
    shortened: int = 0
    """The number of shortened lines."""

    def __str__(self) -> str:
        """Return a short summary."""
        lines = _count_noun(self.total, "line", "lines", not self.counted)
        cut = f", {self.shortened} of them cut off" if self.shortened else ""
        read = "" if self.encoding == "utf-8" else f", not UTF-8: read as {self.encoding.title()}"
        return f"{len(self.lines)} of {lines}{cut}{read}"


class SearchHit(Struct, frozen=True):
    """One line that matches, with the lines around it where they were asked for."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class SearchHits(Struct, frozen=True):
    """The hits of a search. ``passed_over`` counts files too large or not readable."""

    hits: tuple[SearchHit, ...]
    searched: int
    passed_over: int = 0
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        return (
            f"{_count_noun(len(self.hits), 'line', 'lines', self.truncated)}"
            f" in {_count_noun(len({hit.path for hit in self.hits}), 'file', 'files')}"
        )


class FileTally(Struct, frozen=True):
    """The files of one kind; binary files have no lines and words."""

    suffix: str
    files: int = 0
    lines: int = 0
    words: int = 0
    size: int = 0


class Counts(Struct, frozen=True):
    """The counts per kind, the kind with most files first."""

    tallies: tuple[FileTally, ...]
    passed_over: int = 0
    truncated: bool = False

    @property
    def total(self) -> FileTally:
        """The number of all kinds together."""
        return FileTally(
            "",
            sum(tally.files for tally in self.tallies),
            sum(tally.lines for tally in self.tallies),
            sum(tally.words for tally in self.tallies),
            sum(tally.size for tally in self.tallies),
        )

    def __str__(self) -> str:
        """Return a short summary."""
        total = self.total
        return (
            f"{_count_noun(total.files, 'file', 'files', self.truncated)},"
            f" {_count_noun(total.lines, 'line', 'lines')}"
        )


class Definition(Struct, frozen=True):
    """A class or function; ``depth`` is its nesting depth."""

    kind: Literal["class", "def", "async def"]
    name: str
    line: int
    depth: int = 0
    arguments: str = ""
    doc: str = ""
    """The first line of its docstring."""


class Outline(Struct, frozen=True):
    """The definitions of a Python file, in file order."""

    path: str
    definitions: tuple[Definition, ...]
    doc: str = ""
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        return _count_noun(len(self.definitions), "definition", "definitions", self.truncated)


class GitChange(Struct, frozen=True):
    """A changed file: git's two letters (index, then work tree; ``??`` is not tracked)."""

    code: str
    path: str
    before: str = ""
    """Its former path, when it was renamed or copied."""


class RepositoryStatus(Struct, frozen=True):
    """The branch (empty when none is checked out) and the changed files."""

    branch: str
    changes: tuple[GitChange, ...]
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        changed = _count_noun(len(self.changes), "changed file", "changed files", self.truncated)
        return f"on {self.branch or 'no branch'}, {changed if self.changes else 'clean'}"


class Commit(Struct, frozen=True):
    """A commit; ``at`` is its author's time, in UTC."""

    id: str
    at: Timestamp
    author: str
    subject: str


class Commits(Struct, frozen=True):
    """The latest commits, newest first; ``truncated`` when there are older ones."""

    commits: tuple[Commit, ...]
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        return _count_noun(len(self.commits), "commit", "commits")


class Diff(Struct, frozen=True):
    """A unified diff; empty when nothing differs."""

    text: str
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        lines = len(self.text.splitlines())
        return _count_noun(lines, "line", "lines", self.truncated) if lines else "no difference"


class WrittenFile(Struct, frozen=True):
    """A file was written: ``created``, or replaced; ``places`` were edited, 0 for a whole file.

    ``path`` is where it really is: relative to the workspace's root, absolute outside of it.
    """

    path: str
    lines: int
    created: bool = False
    places: int = 0
    diff: str = ""
    """The change, for a person; empty for protected files, and those not compared."""

    def __str__(self) -> str:
        """Return a short summary."""
        if self.places:
            return _count_noun(self.places, "place edited", "places edited", False)
        whole = _count_noun(self.lines, "line written", "lines written", False)
        return f"new file, {whole}" if self.created else whole


class CommandResult(Struct, frozen=True):
    """The exit of a command line, and its output on stdout and stderr together."""

    code: int
    """Negative when a signal ended it."""
    output: str
    """The output, with a note in the middle if something was left out."""
    late: bool = False
    """True if it was ended because it exceeded its time limit."""

    def __str__(self) -> str:
        """Return a short summary."""
        lines = _count_noun(len(self.output.splitlines()), "line", "lines")
        if self.late:
            return f"timed out, {lines}"
        return (
            f"ended by signal {-self.code}, {lines}"
            if self.code < 0
            else (f"exit code {self.code}, {lines}")
        )


class PatchedFiles(Struct, frozen=True):
    """The files that a patch changed, by their new names."""

    paths: tuple[str, ...]
    diff: str = ""
    """The changes as a diff for a person, without protected files."""

    def __str__(self) -> str:
        """Return a short summary."""
        return _count_noun(len(self.paths), "file changed", "files changed")


class ViewedPart(Struct, frozen=True):
    """An image or PDF, as base64."""

    media_type: str
    data: str


class ViewedFile(Struct, frozen=True):
    """A file that is not plain text, as a model can look at it."""

    path: str
    kind: Literal["image", "PDF", "notebook"]
    size: int
    """Bytes of the file."""
    text: str = ""
    """The text; the cells of a notebook."""
    attachments: tuple[ViewedPart, ...] = ()

    def __str__(self) -> str:
        """Return a short summary."""
        return f"{self.kind}, {self.size:,} bytes"


class BackgroundOutput(Struct, frozen=True):
    """A process in the background, and what it wrote since it was last read."""

    id: int
    running: bool
    code: int = 0
    """Its exit code, once it has ended; negative when a signal ended it."""
    output: str = ""
    kept: bool = False
    """It goes on when the turn ends."""

    def __str__(self) -> str:
        """Return a short summary."""
        state = "running" if self.running else f"ended with exit code {self.code}"
        lines = _count_noun(len(self.output.splitlines()), "new line", "new lines")
        kept = "; it goes on after this turn" if self.kept else ""
        return f"process {self.id} {state}, {lines}{kept}"


class WebPage(Struct, frozen=True):
    """A page as text."""

    url: str
    """The final address, after redirects."""
    status: int
    media_type: str
    text: str
    truncated: bool = False

    def __str__(self) -> str:
        """Return a short summary."""
        return f"status {self.status}, {len(self.text):,} characters"


class PersonAnswer(Struct, frozen=True):
    """The person's answer to a question; empty if there is none."""

    text: str
    given: bool = True

    def __str__(self) -> str:
        """Return a short summary."""
        return self.text


class TodoList(Struct, frozen=True):
    """A plan as a person reads it."""

    markdown: str
    done: int
    total: int

    def __str__(self) -> str:
        """Return a short summary."""
        return f"{self.done} of {_count_noun(self.total, 'step', 'steps')} done"


ToolResult: TypeAlias = (
    DirListing
    | FileText
    | ViewedFile
    | SearchHits
    | Counts
    | Outline
    | RepositoryStatus
    | Commits
    | Diff
    | WrittenFile
    | PatchedFiles
    | CommandResult
    | BackgroundOutput
    | WebPage
    | TodoList
    | PersonAnswer
)


def _count_noun(number: int, one: str, many: str, more: bool = False) -> str:
    """Return such as ``1 file``, ``1,200 files``, ``more than 500 files``."""
    return f"{'more than ' if more else ''}{number:,} {one if number == 1 else many}"
