"""What an agent can do in the person's folder: the tools, and what each brings back.

A tool is the type of its input: the class's docstring describes it in one line, its fields are
what may be given, each with a description and a default. So the same declaration names a tool
in a history, checks what a model sends for it, and yields the JSON Schema that a model is shown.

``Workspace`` and ``Repository`` are what an engine asks of the world. Paths are relative to the
workspace's root, with ``/``. What can go wrong is raised: ``NotFound`` (no such path, or no git
repository), ``BadRequest`` (not of the kind that the tool reads), ``Forbidden`` (outside the
workspace, unreadable, or it would start a foreign program) and ``Unavailable`` (the folder
vanished, git is missing, it took too long).
"""

from collections.abc import Awaitable
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct

ANYWHERE = "."
"""The workspace's root, as a path."""

LONGEST_LISTING = 500
LONGEST_READING = 400
MOST_HITS = 1000
MOST_COMMITS = 100

_Folder = Annotated[str, Meta(description="A folder; the whole workspace when left out.")]
_Place = Annotated[str, Meta(description="A file or folder; everything when left out.")]
_Suffixes = Annotated[
    tuple[str, ...], Meta(description="Only files that end so, such as .py; all when left out.")
]


class ListFiles(Struct, frozen=True):
    """List the files and folders in a folder."""

    name: ClassVar[str] = "list_files"
    path: _Folder = ANYWHERE
    depth: Annotated[int, Meta(ge=1, le=8, description="How many levels to go down.")] = 1


class FindFiles(Struct, frozen=True):
    """Find files by name, wherever they are; upper and lower case are the same."""

    name: ClassVar[str] = "find_files"
    pattern: Annotated[str, Meta(description="A name or part of a path; may hold * and ?.")]
    path: _Folder = ANYWHERE


class ReadFile(Struct, frozen=True):
    """Read a text file or some of its lines."""

    name: ClassVar[str] = "read_file"
    path: Annotated[str, Meta(description="The file.")]
    first: Annotated[
        int, Meta(description="The first line, from 1; -20 means the last 20 lines.")
    ] = 1
    last: Annotated[int, Meta(ge=0, description="The last line; 0 for as many as fit.")] = 0


class SearchText(Struct, frozen=True):
    """Find lines that hold a text; its case matters only if it has capitals."""

    name: ClassVar[str] = "search_text"
    text: Annotated[str, Meta(min_length=1, description="What to look for, literally.")]
    path: _Place = ANYWHERE
    suffixes: _Suffixes = ()
    whole_word: Annotated[bool, Meta(description="Not as a part of a longer word.")] = False
    limit: Annotated[int, Meta(ge=1, le=MOST_HITS, description="The most lines to bring.")] = 200


class CountFiles(Struct, frozen=True):
    """Count files, lines and words, by kind of file."""

    name: ClassVar[str] = "count_files"
    path: _Place = ANYWHERE
    suffixes: _Suffixes = ()


class OutlineFile(Struct, frozen=True):
    """Outline a Python file: its classes and functions, with their lines."""

    name: ClassVar[str] = "outline_file"
    path: Annotated[str, Meta(description="The Python file.")]


class GitStatus(Struct, frozen=True):
    """Tell the git branch and which files are changed."""

    name: ClassVar[str] = "git_status"


class GitLog(Struct, frozen=True):
    """Tell the latest git commits."""

    name: ClassVar[str] = "git_log"
    path: _Place = ANYWHERE
    limit: Annotated[int, Meta(ge=1, le=MOST_COMMITS, description="How many commits.")] = 10


class GitDiff(Struct, frozen=True):
    """Show what is changed and not committed yet, or what one commit changed."""

    name: ClassVar[str] = "git_diff"
    path: _Place = ANYWHERE
    commit: Annotated[str, Meta(description="A commit or branch; uncommitted when left out.")] = ""


ToolUse: TypeAlias = (
    ListFiles
    | FindFiles
    | ReadFile
    | SearchText
    | CountFiles
    | OutlineFile
    | GitStatus
    | GitLog
    | GitDiff
)

TOOLS: dict[str, type[ToolUse]] = {
    tool.name: tool
    for tool in (
        ListFiles,
        FindFiles,
        ReadFile,
        SearchText,
        CountFiles,
        OutlineFile,
        GitStatus,
        GitLog,
        GitDiff,
    )
}
"""Every tool by its name."""


def told(use: ToolUse) -> str:
    """What a tool was given, for a reader: ``path=src depth=2``; what is left out is not told."""
    plain = dict(
        zip(reversed(use.__struct_fields__), reversed(use.__struct_defaults__), strict=False)
    )
    given = ((field, getattr(use, field)) for field in use.__struct_fields__)
    return " ".join(
        f"{field}={' '.join(value) if isinstance(value, tuple) else value}"
        for field, value in given
        if field not in plain or plain[field] != value
    )


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
    """One commit; ``at`` is its author's time with zone."""

    id: str
    at: str
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


ToolResult: TypeAlias = Listing | FileText | Hits | Counts | Outline | Status | Commits | Diff


def _several(number: int, one: str, many: str, more: bool = False) -> str:
    """Such as ``1 file``, ``1,200 files``, ``more than 500 files``."""
    return f"{'more than ' if more else ''}{number:,} {one if number == 1 else many}"


class Workspace(Protocol):
    """The person's folder; whatever it is asked, it never leaves it and is never slow for long."""

    def list_files(self, wanted: ListFiles) -> Awaitable[Listing]:
        """The entries of a folder, folders first at each level."""
        ...

    def find_files(self, wanted: FindFiles) -> Awaitable[Listing]:
        """The files whose name matches."""
        ...

    def read_file(self, wanted: ReadFile) -> Awaitable[FileText]:
        """Lines of a text file."""
        ...

    def search_text(self, wanted: SearchText) -> Awaitable[Hits]:
        """The lines that hold a text, file by file."""
        ...

    def count_files(self, wanted: CountFiles) -> Awaitable[Counts]:
        """How many files, lines and words."""
        ...

    def outline_file(self, wanted: OutlineFile) -> Awaitable[Outline]:
        """The definitions in a Python file."""
        ...


class Repository(Protocol):
    """The git repository that the workspace is in, if it is in one; it is only read."""

    def status(self, wanted: GitStatus) -> Awaitable[Status]:
        """The branch and the changed files."""
        ...

    def log(self, wanted: GitLog) -> Awaitable[Commits]:
        """The latest commits."""
        ...

    def diff(self, wanted: GitDiff) -> Awaitable[Diff]:
        """What differs."""
        ...
