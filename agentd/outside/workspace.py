"""The person's folder, as the tools see it: listed, searched, read, counted and written.

Every piece of work runs in a thread within a budget of entries, bytes and seconds, and ends
soon after nobody waits for it any more. What had to be left out is told in the answer.
"""

import asyncio
import codecs
import os
import stat
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from fnmatch import fnmatchcase
from io import BufferedReader, FileIO
from itertools import islice
from typing import Literal, TypeVar

import msgspec

from agentd.agent.protected import ProtectedPlaces
from agentd.agent.results import (
    Counts,
    Definition,
    Entry,
    FileText,
    Hit,
    Hits,
    Listing,
    Outline,
    Tally,
    Written,
)
from agentd.agent.toolbox import Place
from agentd.agent.tools import (
    LONGEST_LISTING,
    LONGEST_READING,
    MOST_HITS,
    CountFiles,
    EditFile,
    FindFiles,
    ListFiles,
    OutlineFile,
    ReadFile,
    SearchText,
    WriteFile,
)
from agentd.errors import AgentdError, BadRequest
from agentd.outside import outline, process
from agentd.outside.tree import Budget, Found, Tree, open_regular, shown
from agentd.outside.writing import Pen
from agentd.threads import finished

Result = TypeVar("Result")

LONGEST_LINE = 2000
"""Bytes of one line that are read out."""
LONGEST_EXCERPT = 240
"""Characters of a line that a search brings."""
LARGEST_SEARCHED = 4 * 2**20
LARGEST_OUTLINED = 2**20
LARGEST_READING = 128 * 1024
MOST_KINDS = 200
LONGEST_PATTERN = 200

_BLOCK = 64 * 1024
_HEAD = 8 * 1024


class FolderWorkspace:
    """``Workspace`` on a real folder. What is ``protected`` takes leave, and no search finds it.

    New files and folders get their mode by ``umask``.
    """

    def __init__(
        self,
        root: str,
        *,
        protected: ProtectedPlaces | None = None,
        umask: int = process.USUAL_UMASK,
        executor: Executor | None = None,
    ) -> None:
        self._tree = Tree(root, protected)
        self._pen = Pen(root, protected or ProtectedPlaces(), umask)
        self._executor = executor

    def list_files(self, wanted: ListFiles) -> Awaitable[Listing]:
        """The entries of a folder, in order of name."""
        return self._work(lambda budget: _list(self._tree, wanted, budget))

    def find_files(self, wanted: FindFiles) -> Awaitable[Listing]:
        """The files whose name, or path if the pattern has a ``/``, matches."""
        return self._work(lambda budget: _find(self._tree, wanted, budget))

    def read_file(self, wanted: ReadFile, allowed: Place | None = None) -> Awaitable[FileText]:
        """Lines of a text file."""
        return self._work(lambda budget: _read(self._tree, wanted, allowed, budget))

    def search_text(self, wanted: SearchText) -> Awaitable[Hits]:
        """The lines that hold a text, file by file."""
        return self._work(lambda budget: _search(self._tree, wanted, budget))

    def count_files(self, wanted: CountFiles) -> Awaitable[Counts]:
        """How many files, lines and words."""
        return self._work(lambda budget: _count(self._tree, wanted, budget))

    async def outline_file(self, wanted: OutlineFile) -> Outline:
        """The definitions in a Python file, parsed in a child process."""
        source = await self._work(lambda _: _source(self._tree, wanted.path))
        ended = await process.run(
            [sys.executable, "-I", outline.__file__],
            folder=self._tree.root,
            given=source,
            timeout=20.0,
        )
        return _outlined(wanted.path, ended)

    def place(self, path: str) -> Awaitable[Place]:
        """Where a path to be written leads, its links resolved."""
        return self._work(lambda _: self._pen.place(path))

    def write_file(self, wanted: WriteFile, place: Place) -> Awaitable[Written]:
        """Write a whole file at once; missing folders are made. Once cancelled, nothing follows."""
        return finished(self._pen.write, wanted, place)

    def edit_file(self, wanted: EditFile, place: Place) -> Awaitable[Written]:
        """Replace a text in a UTF-8 file that nobody else writes meanwhile."""
        return finished(self._pen.edit, wanted, place)

    async def _work(self, work: Callable[[Budget], Result]) -> Result:
        budget = Budget()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, budget)
        finally:
            budget.stop()


def _list(tree: Tree, wanted: ListFiles, budget: Budget) -> Listing:
    steps = tree.resolve(wanted.path)
    if not tree.is_folder(steps, wanted.path):
        raise BadRequest(f"{wanted.path} is a file, not a folder.")
    depth = min(max(wanted.depth, 1), 8)
    entries = [
        Entry(shown(found.path), _kind(found.mode), found.size if stat.S_ISREG(found.mode) else 0)
        for found in islice(tree.walk(steps, budget, depth), LONGEST_LISTING + 1)
    ]
    cut = budget.cut or len(entries) > LONGEST_LISTING
    return Listing(wanted.path, tuple(entries[:LONGEST_LISTING]), cut)


def _kind(mode: int) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _find(tree: Tree, wanted: FindFiles, budget: Budget) -> Listing:
    steps = tree.resolve(wanted.path)
    pattern = wanted.pattern.lower()
    if len(pattern) > LONGEST_PATTERN:
        raise BadRequest(f"A pattern has at most {LONGEST_PATTERN} characters.")
    if not any(sign in pattern for sign in "*?["):
        pattern = f"*{pattern}*"
    matching = (
        Entry(shown(found.path), "file", found.size)
        for found in tree.walk(steps, budget)
        if stat.S_ISREG(found.mode)
        and fnmatchcase((found.path if "/" in pattern else found.name).lower(), pattern)
    )
    entries = list(islice(matching, LONGEST_LISTING + 1))
    cut = budget.cut or len(entries) > LONGEST_LISTING
    return Listing(wanted.path, tuple(entries[:LONGEST_LISTING]), cut)


def _read(tree: Tree, wanted: ReadFile, allowed: Place | None, budget: Budget) -> FileText:
    path = wanted.path
    with tree.open_file(tree.resolve(path, allowed), path) as descriptor:
        file = _buffered(descriptor)
        size = os.fstat(descriptor).st_size
        if _is_binary(file):
            raise BadRequest(f"{path} is not a text file ({size:,} bytes).")
        first, total, kept = _pick(file, wanted, budget)
    lines, encoding = _decoded(kept)
    return FileText(
        path,
        lines,
        first=first,
        total=total,
        size=size,
        counted=not budget.cut,
        encoding=encoding,
        shortened=sum(shortened for _, shortened in kept),
    )


def _pick(
    file: BufferedReader, wanted: ReadFile, budget: Budget
) -> tuple[int, int, list[tuple[bytes, bool]]]:
    """The number of the first line taken, of all lines, and those taken (line, whether cut)."""
    first = wanted.first or 1
    last = wanted.last or sys.maxsize
    tail: deque[tuple[bytes, bool]] = deque(maxlen=min(max(-first, 1), LONGEST_READING))
    kept: list[tuple[bytes, bool]] = []
    room = LARGEST_READING
    total = 0
    for total, line in enumerate(_lines(file, budget), 1):
        if first < 0:
            tail.append(line)
        elif first <= total <= last and len(kept) < LONGEST_READING and room > 0:
            kept.append(line)
            room -= len(line[0])
    if first < 0:
        return max(total - len(tail) + 1, 1), total, list(tail)
    return first, total, kept


def _lines(file: BufferedReader, budget: Budget) -> Iterator[tuple[bytes, bool]]:
    """Each line without its end, and whether it is longer than what is kept of it."""
    while line := file.readline(LONGEST_LINE):
        size, rest = len(line), line
        while not rest.endswith(b"\n") and (rest := file.readline(_BLOCK)):
            size += len(rest)
            if not budget.take(size=len(rest)):
                break
        if not budget.take(size=len(line)):
            return
        yield line.rstrip(b"\r\n"), size > len(line) + len(b"\r\n")


def _search(tree: Tree, wanted: SearchText, budget: Budget) -> Hits:
    if not wanted.text.strip():
        raise BadRequest("There is nothing to search for.")
    limit = min(max(wanted.limit, 1), MOST_HITS)
    hits: list[Hit] = []
    searched = passed_over = 0
    for path, opened in _texts(tree, wanted.path, wanted.suffixes, budget):
        content = None if opened is None else opened.read(LARGEST_SEARCHED + 1)
        if content is None or len(content) > LARGEST_SEARCHED:
            passed_over += 1
            continue
        searched += 1
        if budget.take(size=len(content)) and b"\0" not in content[:_HEAD]:
            hits += islice(_found(content, path, wanted), limit + 1 - len(hits))
        if len(hits) > limit:
            break
    cut = budget.cut or len(hits) > limit
    return Hits(tuple(hits[:limit]), searched, passed_over, cut)


def _found(content: bytes, path: str, wanted: SearchText) -> Iterator[Hit]:
    exact = any(sign.isupper() for sign in wanted.text)
    text = _decoded([(content, False)])[0][0]
    needle = wanted.text if exact else wanted.text.lower()
    if needle not in (text if exact else text.lower()):
        return
    for number, line in enumerate(text.split("\n"), 1):
        at = _position(line if exact else line.lower(), needle, wanted.whole_word)
        if at >= 0:
            yield Hit(path, number, _excerpt(line.rstrip("\r"), at))


def _position(line: str, needle: str, whole_word: bool) -> int:
    at = line.find(needle)
    while whole_word and at >= 0:
        around = line[at - 1 : at] + line[at + len(needle) : at + len(needle) + 1]
        if not any(sign.isalnum() or sign == "_" for sign in around):
            break
        at = line.find(needle, at + 1)
    return at


def _excerpt(line: str, at: int) -> str:
    if len(line) <= LONGEST_EXCERPT:
        return line
    start = max(0, min(at - LONGEST_EXCERPT // 4, len(line) - LONGEST_EXCERPT))
    end = start + LONGEST_EXCERPT
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def _count(tree: Tree, wanted: CountFiles, budget: Budget) -> Counts:
    tallies: dict[str, Tally] = {}
    passed_over = 0
    for path, file in _texts(tree, wanted.path, wanted.suffixes, budget):
        if file is None:
            passed_over += 1
            continue
        suffix = os.path.splitext(path)[1].lower()
        suffix = suffix if suffix in tallies or len(tallies) < MOST_KINDS else ""
        so_far = tallies.get(suffix, Tally(suffix))
        size = os.fstat(file.fileno()).st_size
        lines, words = (0, 0) if _is_binary(file) else _measure(file, budget)
        tallies[suffix] = Tally(
            suffix,
            so_far.files + 1,
            so_far.lines + lines,
            so_far.words + words,
            so_far.size + size,
        )
    ordered = sorted(tallies.values(), key=lambda tally: (-tally.files, tally.suffix))
    return Counts(tuple(ordered), passed_over, budget.cut)


def _measure(file: BufferedReader, budget: Budget) -> tuple[int, int]:
    """Lines and words; a last line without an end counts too."""
    lines = words = 0
    before = b"\n"
    while (block := file.read(_BLOCK)) and budget.take(size=len(block)):
        lines += block.count(b"\n")
        words += len(block.split()) - (not before.isspace() and not block[:1].isspace())
        before = block[-1:]
    return lines + (before != b"\n"), words


def _texts(
    tree: Tree, path: str, suffixes: tuple[str, ...], budget: Budget
) -> Iterator[tuple[str, BufferedReader | None]]:
    """Each file of a place, open; None for one that cannot be opened."""
    steps = tree.resolve(path)
    if not tree.is_folder(steps, path):
        with tree.open_file(steps, path) as descriptor:
            yield path, _buffered(descriptor)
        return
    for found in tree.walk(steps, budget):
        if not stat.S_ISREG(found.mode) or not _wanted(found, suffixes):
            continue
        try:
            descriptor = open_regular(found.folder, found.name, found.path)
        except AgentdError:
            yield shown(found.path), None
            continue
        try:
            yield shown(found.path), _buffered(descriptor)
        finally:
            os.close(descriptor)


def _wanted(found: Found, suffixes: tuple[str, ...]) -> bool:
    return not suffixes or found.name.lower().endswith(suffixes)


def _buffered(descriptor: int) -> BufferedReader:
    return BufferedReader(FileIO(descriptor, closefd=False), _BLOCK)


def _is_binary(file: BufferedReader) -> bool:
    return b"\0" in file.peek(_HEAD)[:_HEAD]


def _decoded(parts: list[tuple[bytes, bool]]) -> tuple[tuple[str, ...], str]:
    """Text from bytes (each with whether it was cut, maybe within a letter), and the encoding.

    It is UTF-8, or else Latin-1, which never fails.
    """
    if parts and parts[0][0].startswith(codecs.BOM_UTF8):
        parts = [(parts[0][0][len(codecs.BOM_UTF8) :], parts[0][1]), *parts[1:]]
    utf8 = codecs.getincrementaldecoder("utf-8")
    try:
        return tuple(utf8().decode(part, final=not cut) for part, cut in parts), "utf-8"
    except UnicodeDecodeError:
        return tuple(part.decode("latin-1") for part, _ in parts), "latin-1"


def _source(tree: Tree, path: str) -> bytes:
    if not path.lower().endswith((".py", ".pyi")):
        raise BadRequest(f"{path} is not a Python file; only those can be outlined.")
    with tree.open_file(tree.resolve(path), path) as descriptor:
        source = _buffered(descriptor).read(LARGEST_OUTLINED + 1)
    if len(source) > LARGEST_OUTLINED:
        raise BadRequest(f"{path} is larger than {LARGEST_OUTLINED:,} bytes, too large to outline.")
    return source


class _Told(msgspec.Struct):
    """What the child says."""

    definitions: tuple[Definition, ...] = ()
    doc: str = ""
    cut: bool = False
    error: str = ""
    line: int = 0


def _outlined(path: str, ended: process.Finished) -> Outline:
    try:
        told = msgspec.json.decode(ended.output, type=_Told)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path} cannot be outlined: it is too complicated.") from error
    if told.error:
        raise BadRequest(f"{path}:{told.line}: this is not valid Python: {told.error}.")
    return Outline(path, told.definitions, told.doc, told.cut)
