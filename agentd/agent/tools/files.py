"""The workspace for the tools: lists, searches, reads, counts and writes files.

Each operation runs in a thread within a budget of entries, bytes and seconds, and ends soon after
its caller is cancelled. Results say what was left out.
"""

import asyncio
import codecs
import os
import stat
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from io import BufferedReader, FileIO
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import structs

from agentd.agent.tools import python_outline
from agentd.agent.tools.gitignore import IgnoreRules, build_glob_filter
from agentd.agent.tools.line_search import TextSearch
from agentd.agent.tools.model import (
    LONGEST_LISTING,
    LONGEST_READING,
    MOST_HITS,
    CountFiles,
    EditFile,
    EditManyPlaces,
    FindFiles,
    ListFiles,
    OutlineFile,
    ReadFile,
    SearchText,
    ViewFile,
    WriteFile,
    Writing,
)
from agentd.agent.tools.results import (
    Counts,
    Definition,
    DirEntry,
    DirListing,
    FileTally,
    FileText,
    Outline,
    PatchedFiles,
    SearchHit,
    SearchHits,
    ViewedFile,
    WrittenFile,
)
from agentd.agent.tools.safe_write import PlacedPatch, SafeWriter
from agentd.agent.tools.viewing import LARGEST_VIEWED, view_file
from agentd.core.errors import AgentdError, BadRequest, Forbidden
from agentd.core.threads import run_uncancellable
from agentd.system import process
from agentd.system.folder import (
    ConfinedFolder,
    Found,
    Place,
    ProtectedPath,
    WorkBudget,
    get_entry_kind,
    make_printable,
    open_regular,
)
from agentd.system.protected_paths import ProtectedPlaces, is_beneath

Result = TypeVar("Result")

LONGEST_LINE = 2000
"""Bytes of one line that are returned."""
LARGEST_SEARCHED = 4 * 2**20
LARGEST_OUTLINED = 2**20
LARGEST_READING = 128 * 1024
LARGEST_TAIL = 48 * 1024
"""Bytes of the last lines of a file: what a model is shown of a reading is cut at its end."""
MOST_KINDS = 200
LONGEST_PATTERN = 200

_BLOCK = 64 * 1024
_HEAD = 8 * 1024


class FolderWorkspace:
    """``Workspace`` on a real folder. ``protected`` paths need approval, and searches skip them.

    The folder ``skills`` is listed and its files are read, too, by their absolute paths. New files
    and folders get their mode by ``umask``.
    """

    def __init__(
        self,
        root: str,
        *,
        protected: ProtectedPlaces | None = None,
        umask: int = process.DEFAULT_UMASK,
        executor: Executor | None = None,
        skills: str = "",
    ) -> None:
        self._tree = ConfinedFolder(root, protected)
        self._skills = skills
        self._skill_tree = ConfinedFolder(skills or root, protected)
        self._writer = SafeWriter(root, protected or ProtectedPlaces(), umask)
        self._executor = executor

    def list_files(self, wanted: ListFiles) -> Awaitable[DirListing]:
        """List the entries of a folder, in order of name."""
        return self._run_in_thread(lambda budget: self._list_either(wanted, budget))

    def find_files(self, wanted: FindFiles) -> Awaitable[DirListing]:
        """Find files by name, or by path if the pattern has a ``/``."""
        return self._run_in_thread(lambda budget: _find(self._tree, wanted, budget))

    def read_file(self, wanted: ReadFile, allowed: Place | None = None) -> Awaitable[FileText]:
        """Read lines of a text file."""
        return self._run_in_thread(
            lambda budget: _read(self._open_path(wanted.path, allowed), wanted, budget)
        )

    def view_file(self, wanted: ViewFile, allowed: Place | None = None) -> Awaitable[ViewedFile]:
        """Read an image, a PDF or a notebook."""
        return self._run_in_thread(lambda _: _view(self._open_path(wanted.path, allowed), wanted))

    def search_text(self, wanted: SearchText) -> Awaitable[SearchHits]:
        """Find the lines that contain a text, file by file."""
        return self._run_in_thread(lambda budget: _search(self._tree, wanted, budget))

    def count_files(self, wanted: CountFiles) -> Awaitable[Counts]:
        """Count files, lines and words."""
        return self._run_in_thread(lambda budget: _count(self._tree, wanted, budget))

    async def outline_file(self, wanted: OutlineFile) -> Outline:
        """Return the definitions in a Python file, parsed in a child process."""
        source = await self._run_in_thread(lambda _: _read_source(self._tree, wanted.path))
        ended = await process.run(
            [sys.executable, "-I", python_outline.__file__],
            folder=self._tree.root,
            given=source,
            timeout=20.0,
        )
        return _parse_outline(wanted.path, ended)

    def resolve_place(self, path: str) -> Awaitable[Place]:
        """Resolve a path to write to, with its links."""
        return self._run_in_thread(lambda _: self._writer.resolve_place(path))

    def write_file(self, wanted: WriteFile, place: Place) -> Awaitable[WrittenFile]:
        """Write a whole file atomically, with missing folders; nothing once cancelled."""
        return run_uncancellable(self._writer.write, wanted, place)

    def edit_file(self, wanted: EditFile | EditManyPlaces, place: Place) -> Awaitable[WrittenFile]:
        """Replace texts in a UTF-8 file; raise ``Conflict`` if the file changes meanwhile."""
        return run_uncancellable(self._writer.edit, wanted, place)

    def preview_change(self, wanted: Writing, place: Place) -> Awaitable[str]:
        """Return the changes of a write as a diff; empty if they are unknown."""
        return self._run_in_thread(lambda _: self._writer.preview(wanted, place))

    def preview_patch(self, changes: PlacedPatch) -> Awaitable[str]:
        """Return the changes of a patch as a diff; raise if it does not apply."""
        return self._run_in_thread(lambda _: self._writer.preview_patch(changes))

    def apply_patch(self, changes: PlacedPatch) -> Awaitable[PatchedFiles]:
        """Change the files of a patch; none where it does not fit."""
        return run_uncancellable(self._writer.apply_patch, changes)

    def _open_path(self, path: str, allowed: Place | None) -> AbstractContextManager[int]:
        """Open a file of the workspace, or of a skill."""
        tree, inner = self._find_tree(path)
        return tree.open_file(tree.resolve(inner, allowed), path)

    def _find_tree(self, path: str) -> tuple[ConfinedFolder, str]:
        """Return the workspace or the folder of skills, and the path within it."""
        plain = os.path.normpath(path)
        if not self._skills or not is_beneath(plain, self._skills):
            return self._tree, path
        inner = os.path.relpath(plain, self._skills)
        try:
            self._skill_tree.resolve(inner)
        except ProtectedPath as error:  # to ask about it, it would have to be in the workspace
            raise Forbidden(f"{path}: {error.place.protected}") from None
        return self._skill_tree, inner

    def _list_either(self, wanted: ListFiles, budget: WorkBudget) -> DirListing:
        tree, inner = self._find_tree(wanted.path)
        found = _list(tree, structs.replace(wanted, path=inner), budget)
        if tree is self._tree:
            return found
        entries = (structs.replace(one, path=f"{self._skills}/{one.path}") for one in found.entries)
        return DirListing(wanted.path, tuple(entries), found.truncated)

    async def _run_in_thread(self, work: Callable[[WorkBudget], Result]) -> Result:
        budget = WorkBudget()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, budget)
        finally:
            budget.stop()


def _list(tree: ConfinedFolder, wanted: ListFiles, budget: WorkBudget) -> DirListing:
    steps = tree.resolve(wanted.path)
    if not tree.is_folder(steps, wanted.path):
        raise BadRequest(f"{wanted.path} is a file, not a folder.")
    depth = min(max(wanted.depth, 1), 8)
    entries = [
        DirEntry(
            make_printable(found.path),
            get_entry_kind(found.mode),
            found.size if stat.S_ISREG(found.mode) else 0,
        )
        for found in islice(tree.walk(steps, budget, depth), LONGEST_LISTING + 1)
    ]
    truncated = budget.truncated or len(entries) > LONGEST_LISTING
    return DirListing(wanted.path, tuple(entries[:LONGEST_LISTING]), truncated)


def _find(tree: ConfinedFolder, wanted: FindFiles, budget: WorkBudget) -> DirListing:
    steps = tree.resolve(wanted.path)
    pattern = wanted.pattern.lower()
    if len(pattern) > LONGEST_PATTERN:
        raise BadRequest(f"A pattern has at most {LONGEST_PATTERN} characters.")
    if not any(sign in pattern for sign in "*?["):
        pattern = f"*{pattern}*"
    matching = (
        DirEntry(make_printable(found.path), "file", found.size)
        for found in tree.walk(
            steps, budget, skip=None if wanted.ignored else IgnoreRules(tree).ignore
        )
        if stat.S_ISREG(found.mode)
        and fnmatchcase((found.path if "/" in pattern else found.name).lower(), pattern)
    )
    entries = list(islice(matching, LONGEST_LISTING + 1))
    truncated = budget.truncated or len(entries) > LONGEST_LISTING
    return DirListing(wanted.path, tuple(entries[:LONGEST_LISTING]), truncated)


def _read(opened: AbstractContextManager[int], wanted: ReadFile, budget: WorkBudget) -> FileText:
    path = wanted.path
    with opened as descriptor:
        file = _open_buffered(descriptor)
        size = os.fstat(descriptor).st_size
        if _is_binary(file):
            raise BadRequest(f"{path} is not a text file ({size:,} bytes).{_suggest_viewing(path)}")
        first, total, kept = _pick_lines(file, wanted, budget)
    lines, encoding = _decode(kept)
    return FileText(
        path,
        lines,
        first=first,
        total=total,
        size=size,
        counted=not budget.truncated,
        encoding=encoding,
        shortened=sum(shortened for _, shortened in kept),
    )


def _suggest_viewing(path: str) -> str:
    viewed = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
    return " view_file shows it." if path.lower().endswith(viewed) else ""


def _view(opened: AbstractContextManager[int], wanted: ViewFile) -> ViewedFile:
    path = wanted.path
    with opened as descriptor:
        content = _open_buffered(descriptor).read(LARGEST_VIEWED + 1)
    return view_file(path, content)


def _pick_lines(
    file: BufferedReader, wanted: ReadFile, budget: WorkBudget
) -> tuple[int, int, list[tuple[bytes, bool]]]:
    """Return the first line's number, the number of all lines, and the lines (with cut flags)."""
    first = wanted.first or 1
    last = wanted.last or sys.maxsize
    tail: deque[tuple[bytes, bool]] = deque(maxlen=min(max(-first, 1), LONGEST_READING))
    kept: list[tuple[bytes, bool]] = []
    room = LARGEST_READING
    total = 0
    for total, line in enumerate(_iter_lines(file, budget), 1):
        if first < 0:
            tail.append(line)
        elif first <= total <= last and len(kept) < LONGEST_READING and room > 0:
            kept.append(line)
            room -= len(line[0])
    if first < 0:
        size = sum(len(line) for line, _ in tail)
        while size > LARGEST_TAIL:
            size -= len(tail.popleft()[0])
        return max(total - len(tail) + 1, 1), total, list(tail)
    return first, total, kept


def _iter_lines(file: BufferedReader, budget: WorkBudget) -> Iterator[tuple[bytes, bool]]:
    """Yield each line without its end, and whether it was cut."""
    while line := file.readline(LONGEST_LINE + len(b"\r\n")):
        size, rest = len(line), line
        while not rest.endswith(b"\n") and (rest := file.readline(_BLOCK)):
            size += len(rest)
            if not budget.take(size=len(rest)):
                break
        if not budget.take(size=len(line)):
            return
        text = line.rstrip(b"\r\n")
        yield text[:LONGEST_LINE], size > len(line) or len(text) > LONGEST_LINE


def _search(tree: ConfinedFolder, wanted: SearchText, budget: WorkBudget) -> SearchHits:
    search = TextSearch(wanted)
    limit = min(max(wanted.limit, 1), MOST_HITS)
    hits: list[SearchHit] = []
    searched = passed_over = 0
    files = _iter_files(
        tree, wanted.path, wanted.suffixes, budget, globs=wanted.globs, ignored=wanted.ignored
    )
    for path, opened in files:
        content = None if opened is None else _read_whole(opened)
        if content is None or len(content) > LARGEST_SEARCHED:
            passed_over += 1
            continue
        searched += 1
        if budget.take(size=len(content)) and b"\0" not in content[:_HEAD]:
            text = _decode([(content, False)])[0][0]
            hits += islice(search.iter_hits(path, text), limit + 1 - len(hits))
        if len(hits) > limit:
            break
    truncated = budget.truncated or len(hits) > limit
    return SearchHits(tuple(hits[:limit]), searched, passed_over, truncated)


def _read_whole(file: BufferedReader) -> bytes | None:
    """Return the bytes of a file, one more than are searched; None if it cannot be read."""
    try:
        return file.read(LARGEST_SEARCHED + 1)
    except OSError:
        return None


def _count(tree: ConfinedFolder, wanted: CountFiles, budget: WorkBudget) -> Counts:
    tallies: dict[str, FileTally] = {}
    passed_over = 0
    for path, file in _iter_files(tree, wanted.path, wanted.suffixes, budget):
        counted = None if file is None else _count_file(file, budget)
        if counted is None:
            passed_over += 1
            continue
        lines, words, size = counted
        suffix = os.path.splitext(path)[1].lower()
        suffix = suffix if suffix in tallies or len(tallies) < MOST_KINDS else ""
        so_far = tallies.get(suffix, FileTally(suffix))
        tallies[suffix] = FileTally(
            suffix,
            so_far.files + 1,
            so_far.lines + lines,
            so_far.words + words,
            so_far.size + size,
        )
    ordered = sorted(tallies.values(), key=lambda tally: (-tally.files, tally.suffix))
    return Counts(tuple(ordered), passed_over, budget.truncated)


def _count_file(file: BufferedReader, budget: WorkBudget) -> tuple[int, int, int] | None:
    """Count the lines, words and bytes of a file; None if it cannot be read."""
    try:
        lines, words = (0, 0) if _is_binary(file) else _measure(file, budget)
        return lines, words, os.fstat(file.fileno()).st_size
    except OSError:
        return None


def _measure(file: BufferedReader, budget: WorkBudget) -> tuple[int, int]:
    """Count lines and words, including a last line without an end."""
    lines = words = 0
    before = b"\n"
    while (block := file.read(_BLOCK)) and budget.take(size=len(block)):
        lines += block.count(b"\n")
        words += len(block.split()) - (not before.isspace() and not block[:1].isspace())
        before = block[-1:]
    return lines + (before != b"\n"), words


def _iter_files(
    tree: ConfinedFolder,
    path: str,
    suffixes: tuple[str, ...],
    budget: WorkBudget,
    *,
    globs: tuple[str, ...] = (),
    ignored: bool = True,
) -> Iterator[tuple[str, BufferedReader | None]]:
    """Yield each file of a place, open; None for one that cannot be opened.

    Unless ``ignored``, what ``.gitignore`` names is left out; a file that is asked for never is.
    """
    is_wanted = build_glob_filter(globs)
    steps = tree.resolve(path)
    if not tree.is_folder(steps, path):
        with tree.open_file(steps, path) as descriptor:
            yield path, _open_buffered(descriptor)
        return
    for found in tree.walk(steps, budget, skip=None if ignored else IgnoreRules(tree).ignore):
        if not stat.S_ISREG(found.mode) or not _has_suffix(found, suffixes):
            continue
        if not is_wanted(make_printable(found.path)):
            continue
        try:
            descriptor = open_regular(found.folder, found.name, found.path)
        except AgentdError:
            yield make_printable(found.path), None
            continue
        try:
            yield make_printable(found.path), _open_buffered(descriptor)
        finally:
            os.close(descriptor)


def _has_suffix(found: Found, suffixes: tuple[str, ...]) -> bool:
    return not suffixes or found.name.lower().endswith(suffixes)


def _open_buffered(descriptor: int) -> BufferedReader:
    return BufferedReader(FileIO(descriptor, closefd=False), _BLOCK)


def _is_binary(file: BufferedReader) -> bool:
    return b"\0" in file.peek(_HEAD)[:_HEAD]


def _decode(parts: list[tuple[bytes, bool]]) -> tuple[tuple[str, ...], str]:
    """Decode lines (with cut flags); return the texts and the encoding.

    It is UTF-8, or else Latin-1, which never fails.
    """
    if parts and parts[0][0].startswith(codecs.BOM_UTF8):
        parts = [(parts[0][0][len(codecs.BOM_UTF8) :], parts[0][1]), *parts[1:]]
    utf8 = codecs.getincrementaldecoder("utf-8")
    try:
        return tuple(utf8().decode(part, final=not cut) for part, cut in parts), "utf-8"
    except UnicodeDecodeError:
        return tuple(part.decode("latin-1") for part, _ in parts), "latin-1"


def _read_source(tree: ConfinedFolder, path: str) -> bytes:
    if not path.lower().endswith((".py", ".pyi")):
        raise BadRequest(f"{path} is not a Python file; only those can be outlined.")
    with tree.open_file(tree.resolve(path), path) as descriptor:
        source = _open_buffered(descriptor).read(LARGEST_OUTLINED + 1)
    if len(source) > LARGEST_OUTLINED:
        raise BadRequest(f"{path} is larger than {LARGEST_OUTLINED:,} bytes, too large to outline.")
    return source


class _OutlineReply(msgspec.Struct):
    """The output of the child process."""

    definitions: tuple[Definition, ...] = ()
    doc: str = ""
    truncated: bool = False
    error: str = ""
    line: int = 0


def _parse_outline(path: str, ended: process.Finished) -> Outline:
    try:
        reply = msgspec.json.decode(ended.output, type=_OutlineReply)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path} cannot be outlined: it is too complicated.") from error
    if reply.error:
        raise BadRequest(f"{path}:{reply.line}: this is not valid Python: {reply.error}.")
    return Outline(path, reply.definitions, reply.doc, reply.truncated)
