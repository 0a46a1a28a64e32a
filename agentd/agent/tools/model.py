"""The tools of an agent in the workspace.

A tool is the type of its input: the class's docstring is its description, the fields are its
arguments, each with a description and a default. So the same declaration names a tool in the
history, validates a model's call, and gives the JSON Schema for the model.

Paths are relative to the workspace's root, with ``/``. Results are in ``results``; ``toolbox`` runs
the tools and asks for approval.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

ANYWHERE = "."
"""The workspace's root, as a path."""

LONGEST_LISTING = 500
LONGEST_READING = 400
MOST_HITS = 1000
MOST_CONTEXT = 10
MOST_COMMITS = 100
MOST_EDITS = 100
MOST_TODOS = 50
MOST_CHOICES = 8
MOST_TASK_STEPS = 60
LONGEST_RUN = 600
"""Seconds that a command line may take."""
MAX_ARGUMENT_LENGTH = 500
"""Characters of an argument that are shown to a reader."""

_Folder = Annotated[str, Meta(description="A folder; the whole workspace when left out.")]
_Place = Annotated[str, Meta(description="A file or folder; everything when left out.")]
_Suffixes = Annotated[
    tuple[str, ...],
    Meta(description="Only files with these suffixes, such as .py; all when left out."),
]


_Ignored = Annotated[bool, Meta(description="Also what .gitignore names.")]
_Globs = Annotated[
    tuple[str, ...],
    Meta(description="Only paths that match one, such as src/**/*.ts; !*.min.js leaves some out."),
]


class ListFiles(Struct, frozen=True):
    """List the files and folders in a folder."""

    name: ClassVar[str] = "list_files"
    path: _Folder = ANYWHERE
    depth: Annotated[int, Meta(ge=1, le=8, description="How many levels to go down.")] = 1


class FindFiles(Struct, frozen=True):
    """Find files by name, in all folders; case does not matter."""

    name: ClassVar[str] = "find_files"
    pattern: Annotated[str, Meta(description="A name or part of a path; may contain * and ?.")]
    path: _Folder = ANYWHERE
    ignored: _Ignored = False


class ReadFile(Struct, frozen=True):
    """Read a text file or some of its lines."""

    name: ClassVar[str] = "read_file"
    path: Annotated[str, Meta(description="The file.")]
    first: Annotated[
        int, Meta(description="The first line, from 1; -20 means the last 20 lines.")
    ] = 1
    last: Annotated[int, Meta(ge=0, description="The last line; 0 for as many as fit.")] = 0


class SearchText(Struct, frozen=True):
    """Find lines that contain a text or match an expression; case matters only with capitals."""

    name: ClassVar[str] = "search_text"
    text: Annotated[str, Meta(min_length=1, description="What to look for.")]
    path: _Place = ANYWHERE
    suffixes: _Suffixes = ()
    whole_word: Annotated[bool, Meta(description="Match whole words only.")] = False
    limit: Annotated[
        int, Meta(ge=1, le=MOST_HITS, description="Maximum number of lines to return.")
    ] = 200
    regex: Annotated[
        bool, Meta(description="The text is a regular expression (RE2), matched in each line.")
    ] = False
    globs: _Globs = ()
    context: Annotated[
        int, Meta(ge=0, le=MOST_CONTEXT, description="Lines to show around each hit.")
    ] = 0
    ignored: _Ignored = False


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
    """Show the git branch and the changed files."""

    name: ClassVar[str] = "git_status"


class GitLog(Struct, frozen=True):
    """Show the latest git commits."""

    name: ClassVar[str] = "git_log"
    path: _Place = ANYWHERE
    limit: Annotated[int, Meta(ge=1, le=MOST_COMMITS, description="How many commits.")] = 10


class GitDiff(Struct, frozen=True):
    """Show uncommitted changes, or what one commit changed."""

    name: ClassVar[str] = "git_diff"
    path: _Place = ANYWHERE
    commit: Annotated[str, Meta(description="A commit or branch; uncommitted when left out.")] = ""


class WriteFile(Struct, frozen=True):
    """Write a whole text file, creating or replacing it."""

    name: ClassVar[str] = "write_file"
    path: Annotated[str, Meta(description="The file; missing folders are created.")]
    text: Annotated[str, Meta(description="The complete content.")]


class EditFile(Struct, frozen=True):
    """Replace a text in a file by another; it must occur exactly once."""

    name: ClassVar[str] = "edit_file"
    path: Annotated[str, Meta(description="The file.")]
    old: Annotated[
        str, Meta(min_length=1, description="The text to replace, exactly, including whitespace.")
    ]
    new: Annotated[str, Meta(description="The replacement.")]
    all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class Replacement(Struct, frozen=True):
    """One replacement."""

    old: Annotated[str, Meta(min_length=1, description="The text to replace, exactly.")]
    new: Annotated[str, Meta(description="The replacement.")]
    all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class EditManyPlaces(Struct, frozen=True):
    """Replace several texts in one file, one after the other; all of them or none."""

    name: ClassVar[str] = "multi_edit"
    path: Annotated[str, Meta(description="The file.")]
    edits: Annotated[
        tuple[Replacement, ...], Meta(min_length=1, max_length=MOST_EDITS, description="In order.")
    ]


class ApplyPatch(Struct, frozen=True):
    """Change, create, move or delete several files by one patch."""

    name: ClassVar[str] = "apply_patch"
    patch: Annotated[
        str,
        Meta(
            description="*** Begin Patch, then for each file *** Add File: PATH with its lines"
            " after +, *** Delete File: PATH, or *** Update File: PATH (and *** Move to: PATH) with"
            " hunks: @@ and a line above the place, then lines that stay after a space, go after -"
            " and come after +. At last *** End Patch."
        ),
    ]


class ViewFile(Struct, frozen=True):
    """Look at an image (PNG, JPEG, GIF, WebP), a PDF, or a Jupyter notebook with its outputs."""

    name: ClassVar[str] = "view_file"
    path: Annotated[str, Meta(description="The file.")]


class FetchPage(Struct, frozen=True):
    """Get a page of the public web by its address, as text."""

    name: ClassVar[str] = "web_fetch"
    url: Annotated[str, Meta(max_length=2000, description="The address: http or https.")]


class StartProcess(Struct, frozen=True):
    """Start a command line in the background, such as a server; it may be ended with this turn."""

    name: ClassVar[str] = "start_process"
    command: Annotated[str, Meta(min_length=1, description="The command line, for /bin/sh.")]


class ReadProcess(Struct, frozen=True):
    """Read what a process in the background wrote since it was last read, and whether it runs."""

    name: ClassVar[str] = "read_process"
    id: Annotated[int, Meta(ge=1, description="The number that start_process gave.")]
    seconds: Annotated[
        int, Meta(ge=0, le=60, description="Wait so long for new output or its end.")
    ] = 0


class StopProcess(Struct, frozen=True):
    """Stop a process in the background with all that it started."""

    name: ClassVar[str] = "stop_process"
    id: Annotated[int, Meta(ge=1, description="The number that start_process gave.")]


class TodoItem(Struct, frozen=True):
    """One step of a plan."""

    text: Annotated[str, Meta(min_length=1, max_length=300, description="What is to be done.")]
    status: Annotated[
        Literal["pending", "in_progress", "completed"], Meta(description="How far it is.")
    ] = "pending"


class UpdateTodos(Struct, frozen=True):
    """Show the person a plan of several steps and how far you are; replaces the plan before."""

    name: ClassVar[str] = "update_todos"
    items: Annotated[tuple[TodoItem, ...], Meta(max_length=MOST_TODOS, description="All steps.")]


class AskPerson(Struct, frozen=True):
    """Ask the person something that you cannot find out or decide yourself, and wait."""

    name: ClassVar[str] = "ask_person"
    question: Annotated[str, Meta(min_length=1, max_length=2000, description="The question.")]
    choices: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
        Meta(max_length=MOST_CHOICES, description="Answers to choose from; others are possible."),
    ] = ()


class RunTask(Struct, frozen=True):
    """Give a part of the work to a helper with your abilities; several calls run in parallel."""

    name: ClassVar[str] = "run_task"
    prompt: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="The task with all that the helper needs to know, and what to reply.",
        ),
    ]
    tools: Annotated[
        Literal["read", "all"], Meta(description="Whether it only reads, or may change things.")
    ] = "read"
    steps: Annotated[
        int, Meta(ge=1, le=MOST_TASK_STEPS, description="How many replies it may need.")
    ] = 20
    cost: Annotated[
        float, Meta(ge=0, le=1000, description="USD that it may cost; 0 for no limit of its own.")
    ] = 0


class RunCommand(Struct, frozen=True):
    """Run a command line with /bin/sh in the workspace, and return its output."""

    name: ClassVar[str] = "shell"
    command: Annotated[str, Meta(min_length=1, description="The command line.")]
    seconds: Annotated[
        int, Meta(ge=1, le=LONGEST_RUN, description="It is ended after this many seconds.")
    ] = 120


Reading: TypeAlias = (
    ListFiles
    | FindFiles
    | ReadFile
    | ViewFile
    | SearchText
    | CountFiles
    | OutlineFile
    | GitStatus
    | GitLog
    | GitDiff
)

Writing: TypeAlias = WriteFile | EditFile | EditManyPlaces
Process: TypeAlias = StartProcess | ReadProcess | StopProcess
ToolUse: TypeAlias = (
    Reading
    | Writing
    | ApplyPatch
    | RunCommand
    | Process
    | FetchPage
    | UpdateTodos
    | AskPerson
    | RunTask
)

TOOLS: dict[str, type[ToolUse]] = {
    tool.name: tool
    for tool in (
        ListFiles,
        FindFiles,
        ReadFile,
        ViewFile,
        SearchText,
        CountFiles,
        OutlineFile,
        GitStatus,
        GitLog,
        GitDiff,
        WriteFile,
        EditFile,
        EditManyPlaces,
        ApplyPatch,
        RunCommand,
        StartProcess,
        ReadProcess,
        StopProcess,
        FetchPage,
        UpdateTodos,
        AskPerson,
        RunTask,
    )
}
"""Every tool by its name."""


def describe_arguments(use: ToolUse) -> str:
    """Return a tool's arguments for a reader, such as ``path=src depth=2``, without defaults.

    Each value is shortened: the content of a file may be long.
    """
    plain = dict(
        zip(reversed(use.__struct_fields__), reversed(use.__struct_defaults__), strict=False)
    )
    given = ((field, getattr(use, field)) for field in use.__struct_fields__)
    return " ".join(
        f"{field}={_shorten(_describe_value(value))}"
        for field, value in given
        if field not in plain or plain[field] != value
    )


def _shorten(value: str) -> str:
    return value if len(value) <= MAX_ARGUMENT_LENGTH else value[:MAX_ARGUMENT_LENGTH] + "…"


def _describe_value(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return " ".join(_describe_item(one) for one in value)


def _describe_item(item: object) -> str:
    match item:
        case Replacement():
            return f"[{item.old} → {item.new}]"
        case TodoItem():
            return f"[{item.text}: {item.status}]"
        case _:
            return str(item)
