"""How the offline engine answers each request, without doing anything itself.

An answer is a generator: it yields the tools that it wants used, is sent what each brought (or
has the error thrown in), and returns Markdown. So what is asked next can depend on what came,
and yet nothing here waits.
"""

from collections.abc import Generator
from typing import Any, TypeAlias

from agentd.agent.offline import manual, replies, replies_git
from agentd.agent.offline.requests import (
    Changed,
    Count,
    Define,
    Describe,
    Help,
    Refused,
    Request,
    Unknown,
)
from agentd.agent.results import Counts, Diff, FileText, Hits, Listing, Status
from agentd.agent.tools import (
    ANYWHERE,
    MOST_HITS,
    CountFiles,
    FindFiles,
    GitDiff,
    GitLog,
    GitStatus,
    ListFiles,
    OutlineFile,
    ReadFile,
    RunCommand,
    SearchText,
    ToolUse,
)
from agentd.errors import AgentdError, BadRequest, NotFound

Answer: TypeAlias = Generator[ToolUse, Any, str]
"""Yields tool uses, is sent each one's result, returns Markdown."""

_SHORT_DIFF = 120
"""Lines of a diff that may come along unasked."""
_README_LINES = 80


def answer(request: Request) -> Answer:  # noqa: PLR0911 - one for each kind
    """The answer to one request. Raises what a tool raised, if there is no way around it."""
    match request:
        case Help() | Refused() | Unknown():
            return _at_once(request)
        case Describe(path=path):
            return _describe(path)
        case Define():
            return _define(request)
        case Count():
            return _count(request)
        case Changed(path=path):
            return _changed(path)
        case ListFiles():
            return _list(request)
        case ReadFile() | OutlineFile():
            return _open(request)
        case SearchText():
            return _search(request)
        case FindFiles() | GitStatus() | GitLog() | GitDiff() | RunCommand():
            return _use(request)


def _at_once(request: Help | Refused | Unknown) -> Answer:
    yield from ()
    match request:
        case Help():
            return manual.help_text()
        case Refused():
            return manual.refusal(request)
        case Unknown():
            return manual.not_understood(request)


def _use(use: FindFiles | GitStatus | GitLog | GitDiff | RunCommand) -> Answer:
    """One tool, and what it brought."""
    return replies.result(use, (yield use))


def _list(use: ListFiles) -> Answer:
    """A folder's entries; when it is a file, the file."""
    try:
        listing: Listing = yield use
    except BadRequest:
        return (yield from _open(ReadFile(use.path)))
    except NotFound as error:
        return (yield from _open(ReadFile(use.path), error))
    return replies.listing(listing)


def _open(use: ReadFile | OutlineFile, missing: NotFound | None = None) -> Answer:
    """A file; when it is not where it was said to be, the only one of that name."""
    if missing is None:
        try:
            return replies.result(use, (yield use))
        except NotFound as error:
            missing = error
    name = use.path.rstrip("/").rpartition("/")[2]
    try:
        found: Listing = yield FindFiles(name)
    except BadRequest:
        raise missing from None
    # README is often README.md, clock often clock.py: the same name before the suffix.
    alike = [
        entry.path
        for entry in found.entries
        if name.lower() in (base := entry.path.rpartition("/")[2].lower(), base.rpartition(".")[0])
    ]
    top = [path for path in alike if "/" not in path]
    if len(alike) == 1 or len(top) == 1:
        path = top[0] if len(top) == 1 else alike[0]
        if isinstance(use, OutlineFile):
            nearer: ReadFile | OutlineFile = OutlineFile(path)
        else:
            nearer = ReadFile(path, use.first, use.last)
        return replies.result(nearer, (yield nearer))
    return replies.missing(missing.message, alike or [entry.path for entry in found.entries])


def _search(use: SearchText) -> Answer:
    hits: Hits = yield use
    return replies.hits(use, hits)


def _define(wanted: Define) -> Answer:
    """Where a word is defined, by what stands before it; otherwise where it is used."""
    use = SearchText(wanted.word, wanted.path, whole_word=True, limit=MOST_HITS)
    hits: Hits = yield use
    return replies.definitions(use, hits)


def _count(wanted: Count) -> Answer:
    counts: Counts = yield wanted.files
    return replies.counts(wanted, counts)


def _changed(path: str) -> Answer:
    """The changed files, with the difference when it is short."""
    status: Status = yield GitStatus()
    diff: Diff = yield GitDiff(path)
    return replies_git.changed(path, status, diff, _SHORT_DIFF)


def _describe(path: str) -> Answer:
    """What a folder is, from what lies in it."""
    try:
        listing: Listing = yield ListFiles(path)
    except BadRequest:
        return (yield from _open(ReadFile(path)))
    readme = next(
        (
            entry.path
            for entry in listing.entries
            if entry.kind == "file" and entry.path.lower().rpartition("/")[2].startswith("readme")
        ),
        "",
    )
    text: FileText | None = None
    if readme:
        try:
            text = yield ReadFile(readme, 1, _README_LINES)
        except AgentdError:
            readme = ""
    counts: Counts = yield CountFiles(path)
    status: Status | None = None
    if path == ANYWHERE:
        try:
            status = yield GitStatus()
        except AgentdError:
            status = None
    return replies.description(listing, text, counts, status)
