"""The offline engine's answer to each request, without any I/O of its own.

An answer is a generator: it yields tool uses, is sent each result (or has the error thrown in),
and returns Markdown. So the next tool use can depend on results, and yet nothing here waits.
"""

from collections.abc import Generator
from typing import Any, TypeAlias

from agentd.agent.engines.offline import help_texts, replies, replies_git
from agentd.agent.engines.offline.requests import (
    Count,
    DeclinedRequest,
    Define,
    Describe,
    DescribeChanges,
    ExplainModels,
    Help,
    NotUnderstood,
    Request,
)
from agentd.agent.tools.model import (
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
from agentd.agent.tools.results import (
    Counts,
    Diff,
    DirListing,
    FileText,
    RepositoryStatus,
    SearchHits,
)
from agentd.core.errors import AgentdError, BadRequest, NotFound

Answer: TypeAlias = Generator[ToolUse, Any, str]
"""Yields tool uses, is sent each one's result, returns Markdown."""

_SHORT_DIFF = 120
"""Lines of a diff that is shown unasked."""
_README_LINES = 80


def answer_request(request: Request) -> Answer:  # noqa: PLR0911 - one for each kind
    """Return the answer to one request. Raises what a tool raised if there is no fallback."""
    match request:
        case Help() | ExplainModels() | DeclinedRequest() | NotUnderstood():
            return _answer_at_once(request)
        case Describe(path=path):
            return _describe(path)
        case Define():
            return _define(request)
        case Count():
            return _count(request)
        case DescribeChanges(path=path):
            return _show_changes(path)
        case ListFiles():
            return _list(request)
        case ReadFile() | OutlineFile():
            return _open(request)
        case SearchText():
            return _search(request)
        case FindFiles() | GitStatus() | GitLog() | GitDiff() | RunCommand():
            return _use(request)


def _answer_at_once(request: Help | ExplainModels | DeclinedRequest | NotUnderstood) -> Answer:
    yield from ()
    match request:
        case Help():
            return help_texts.render_help()
        case ExplainModels():
            return help_texts.explain_models()
        case DeclinedRequest():
            return help_texts.explain_refusal(request)
        case NotUnderstood():
            return help_texts.explain_not_understood(request)


def _use(use: FindFiles | GitStatus | GitLog | GitDiff | RunCommand) -> Answer:
    """Use one tool and show its result."""
    return replies.render_result(use, (yield use))


def _list(use: ListFiles) -> Answer:
    """List a folder; if it is a file, show the file."""
    try:
        listing: DirListing = yield use
    except BadRequest:
        return (yield from _open(ReadFile(use.path)))
    except NotFound as error:
        return (yield from _open(ReadFile(use.path), error))
    return replies.render_listing(listing)


def _open(use: ReadFile | OutlineFile, missing: NotFound | None = None) -> Answer:
    """Show a file; if it is not at that path, the only one of that name."""
    if missing is None:
        try:
            return replies.render_result(use, (yield use))
        except NotFound as error:
            missing = error
    name = use.path.rstrip("/").rpartition("/")[2]
    try:
        found: DirListing = yield FindFiles(name)
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
        return replies.render_result(nearer, (yield nearer))
    return replies.render_missing(missing.message, alike or [entry.path for entry in found.entries])


def _search(use: SearchText) -> Answer:
    hits: SearchHits = yield use
    return replies.render_hits(use, hits)


def _define(wanted: Define) -> Answer:
    """Find where a word is defined, by the text before it, else where it is used."""
    use = SearchText(wanted.word, wanted.path, whole_word=True, limit=MOST_HITS)
    hits: SearchHits = yield use
    return replies.render_definitions(use, hits)


def _count(wanted: Count) -> Answer:
    counts: Counts = yield wanted.files
    return replies.render_counts(wanted, counts)


def _show_changes(path: str) -> Answer:
    """Show the changed files, with the diff if it is short."""
    status: RepositoryStatus = yield GitStatus()
    diff: Diff = yield GitDiff(path)
    return replies_git.render_changes(path, status, diff, _SHORT_DIFF)


def _describe(path: str) -> Answer:
    """Describe a folder by its content."""
    try:
        listing: DirListing = yield ListFiles(path)
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
    status: RepositoryStatus | None = None
    if path == ANYWHERE:
        try:
            status = yield GitStatus()
        except AgentdError:
            status = None
    return replies.render_description(listing, text, counts, status)
