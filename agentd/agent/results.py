"""What each tool brings back; as text, each tells itself in short."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.clock import Timestamp


class Entry(Struct, frozen=True):
    """One file or folder of a listing; ``size`` in bytes, 0 for what is no file."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0


class Listing(Struct, frozen=True):
    """What is in a folder; ``cut`` when there is more than is told."""

    path: str
    entries: tuple[Entry, ...]
    cut: bool = False

    def __str__(self) -> str:
        """In short."""
        return _several(len(self.entries), "entry", "entries", self.cut)


class FileText(Struct, frozen=True):
    """Some lines of a file, the first of them numbered ``first``."""

    path: str
    lines: tuple[str, ...]
    first: int
    total: int
    """Lines in the whole file; at least so many, when ``counted`` is false."""
    size: int
    """Bytes in the whole file."""
    counted: bool = True
    encoding: str = "utf-8"
    shortened: int = 0
    """How many of the lines are too long to be told whole."""

    def __str__(self) -> str:
        """In short."""
        return f"{len(self.lines)} of {_several(self.total, 'line', 'lines', not self.counted)}"


class Hit(Struct, frozen=True):
    """One line that holds what was looked for."""

    path: str
    line: int
    text: str


class Hits(Struct, frozen=True):
    """What a search found. ``passed_over`` counts files too large or not readable."""

    hits: tuple[Hit, ...]
    searched: int
    passed_over: int = 0
    cut: bool = False

    def __str__(self) -> str:
        """In short."""
        return (
            f"{_several(len(self.hits), 'line', 'lines', self.cut)}"
            f" in {_several(len({hit.path for hit in self.hits}), 'file', 'files')}"
        )


class Tally(Struct, frozen=True):
    """The files of one kind; those that are not text have no lines and no words."""

    suffix: str
    files: int = 0
    lines: int = 0
    words: int = 0
    size: int = 0


class Counts(Struct, frozen=True):
    """What was counted, the kind with most files first."""

    tallies: tuple[Tally, ...]
    passed_over: int = 0
    cut: bool = False

    @property
    def total(self) -> Tally:
        """All kinds together."""
        return Tally(
            "",
            sum(tally.files for tally in self.tallies),
            sum(tally.lines for tally in self.tallies),
            sum(tally.words for tally in self.tallies),
            sum(tally.size for tally in self.tallies),
        )

    def __str__(self) -> str:
        """In short."""
        total = self.total
        return (
            f"{_several(total.files, 'file', 'files', self.cut)},"
            f" {_several(total.lines, 'line', 'lines')}"
        )


class Definition(Struct, frozen=True):
    """A class or function; ``depth`` is how many others it stands in."""

    kind: Literal["class", "def", "async def"]
    name: str
    line: int
    depth: int = 0
    arguments: str = ""
    doc: str = ""
    """The first line of its docstring."""


class Outline(Struct, frozen=True):
    """What a Python file defines, in its order."""

    path: str
    definitions: tuple[Definition, ...]
    doc: str = ""
    cut: bool = False

    def __str__(self) -> str:
        """In short."""
        return _several(len(self.definitions), "definition", "definitions", self.cut)


class Change(Struct, frozen=True):
    """A changed file: git's two letters (index, then work tree; ``??`` is not tracked)."""

    code: str
    path: str
    before: str = ""
    """Its former path, when it was renamed or copied."""


class Status(Struct, frozen=True):
    """The branch (empty when none is checked out) and the changed files."""

    branch: str
    changes: tuple[Change, ...]
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    cut: bool = False

    def __str__(self) -> str:
        """In short."""
        changed = _several(len(self.changes), "changed file", "changed files", self.cut)
        return f"on {self.branch or 'no branch'}, {changed if self.changes else 'clean'}"


class Commit(Struct, frozen=True):
    """One commit; ``at`` is its author's time, in UTC."""

    id: str
    at: Timestamp
    author: str
    subject: str


class Commits(Struct, frozen=True):
    """The latest commits, newest first; ``cut`` when there are older ones."""

    commits: tuple[Commit, ...]
    cut: bool = False

    def __str__(self) -> str:
        """In short."""
        return _several(len(self.commits), "commit", "commits")


class Diff(Struct, frozen=True):
    """A unified diff; empty when nothing differs."""

    text: str
    cut: bool = False

    def __str__(self) -> str:
        """In short."""
        lines = len(self.text.splitlines())
        return _several(lines, "line", "lines", self.cut) if lines else "no difference"


class Written(Struct, frozen=True):
    """A file was written: ``created``, or replaced; ``places`` were edited, 0 for a whole file.

    ``path`` is where it really is: relative to the workspace's root, absolute outside of it.
    """

    path: str
    lines: int
    created: bool = False
    places: int = 0

    def __str__(self) -> str:
        """In short."""
        if self.places:
            return _several(self.places, "place edited", "places edited", False)
        whole = _several(self.lines, "line written", "lines written", False)
        return f"new file, {whole}" if self.created else whole


class Ran(Struct, frozen=True):
    """How a command line ended, and what it said on both its outputs together."""

    code: int
    """Negative when a signal ended it."""
    output: str
    """With a note in its middle where something had to be left out."""
    late: bool = False
    """It took longer than allowed and was ended for that."""

    def __str__(self) -> str:
        """In short."""
        lines = _several(len(self.output.splitlines()), "line", "lines")
        if self.late:
            return f"ended for taking too long, {lines}"
        return (
            f"ended by signal {-self.code}, {lines}"
            if self.code < 0
            else (f"exit code {self.code}, {lines}")
        )


ToolResult: TypeAlias = (
    Listing | FileText | Hits | Counts | Outline | Status | Commits | Diff | Written | Ran
)


def _several(number: int, one: str, many: str, more: bool = False) -> str:
    """Such as ``1 file``, ``1,200 files``, ``more than 500 files``."""
    return f"{'more than ' if more else ''}{number:,} {one if number == 1 else many}"
