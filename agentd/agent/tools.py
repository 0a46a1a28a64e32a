"""What an agent can do in the person's folder: the tools.

A tool is the type of its input: the class's docstring describes it in one line, its fields are
what may be given, each with a description and a default. So the same declaration names a tool
in a history, checks what a model sends for it, and yields the JSON Schema that a model is shown.

Paths are relative to the workspace's root, with ``/``. What each tool brings back is in
``results``; who carries them out, and what is asked before, in ``toolbox``.
"""

from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, Struct

ANYWHERE = "."
"""The workspace's root, as a path."""

LONGEST_LISTING = 500
LONGEST_READING = 400
MOST_HITS = 1000
MOST_COMMITS = 100
LONGEST_RUN = 600
"""Seconds that a command line may take at most."""
LONGEST_TOLD = 500
"""Characters of what a field was given that a reader is told."""

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


class WriteFile(Struct, frozen=True):
    """Write a whole text file, a new one or in place of what is there."""

    name: ClassVar[str] = "write_file"
    path: Annotated[str, Meta(description="The file; missing folders are made.")]
    text: Annotated[str, Meta(description="All that shall be in it.")]


class EditFile(Struct, frozen=True):
    """Replace a text in a file by another; it must stand there exactly once."""

    name: ClassVar[str] = "edit_file"
    path: Annotated[str, Meta(description="The file.")]
    old: Annotated[
        str, Meta(min_length=1, description="What to replace, exactly as it stands, with blanks.")
    ]
    new: Annotated[str, Meta(description="What to put in its place.")]
    all: Annotated[bool, Meta(description="Replace it wherever it stands.")] = False


class RunCommand(Struct, frozen=True):
    """Run a command line with /bin/sh in the workspace, and bring what it says."""

    name: ClassVar[str] = "shell"
    command: Annotated[str, Meta(min_length=1, description="The command line.")]
    seconds: Annotated[
        int, Meta(ge=1, le=LONGEST_RUN, description="It is ended after so many seconds.")
    ] = 120


Reading: TypeAlias = (
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

Writing: TypeAlias = WriteFile | EditFile
ToolUse: TypeAlias = Reading | Writing | RunCommand

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
        WriteFile,
        EditFile,
        RunCommand,
    )
}
"""Every tool by its name."""


def told(use: ToolUse) -> str:
    """What a tool was given, for a reader: ``path=src depth=2``; what is left out is not told.

    Each value is shortened: a file that is written may be long.
    """
    plain = dict(
        zip(reversed(use.__struct_fields__), reversed(use.__struct_defaults__), strict=False)
    )
    given = ((field, getattr(use, field)) for field in use.__struct_fields__)
    return " ".join(
        f"{field}={_shortened(' '.join(value) if isinstance(value, tuple) else str(value))}"
        for field, value in given
        if field not in plain or plain[field] != value
    )


def _shortened(value: str) -> str:
    return value if len(value) <= LONGEST_TOLD else value[:LONGEST_TOLD] + "…"
