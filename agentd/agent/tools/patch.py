"""Patches of several files in the format that models are trained to write. Pure.

::

    *** Begin Patch
    *** Add File: new.txt
    +its lines
    *** Update File: src/a.py
    *** Move to: src/b.py
    @@ def f():
     a line that stays
    -a line that goes
    +a line that comes
    *** Delete File: old.txt
    *** End Patch

Places are found by the lines themselves, not by numbers: first exactly, then without regard to
space at the ends of lines. A place that is not found, or found twice, is an error.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from agentd.core.errors import BadRequest

MOST_FILES = 100
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_BYTE_ORDER_MARK = "\ufeff"
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"


class Hunk(Struct, frozen=True):
    """Lines to replace; ``anchor`` is a line above them, where one was named."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    anchor: str = ""
    at_end: bool = False


class FilePatch(Struct, frozen=True):
    """The change that a patch makes to one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    text: str = ""
    """The content of a new file."""
    move_to: str = ""
    hunks: tuple[Hunk, ...] = ()


def parse_patch(patch: str) -> tuple[FilePatch, ...]:
    """Parse a patch; raise ``BadRequest`` with the line that is wrong."""
    lines = patch.replace("\r\n", "\n").strip().split("\n")
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise BadRequest(f"A patch begins with the line {_BEGIN!r} and ends with {_END!r}.")
    files = list(_iter_files(lines[1:-1]))
    if not files:
        raise BadRequest("The patch names no file.")
    if len(files) > MOST_FILES:
        raise BadRequest(f"A patch changes at most {MOST_FILES} files.")
    paths = [path for file in files for path in (file.path, file.move_to) if path]
    if len(set(paths)) < len(paths):
        raise BadRequest("A patch names each file once.")
    return tuple(files)


def apply_hunks(text: str, file: FilePatch) -> str:
    """Return the text with a file's hunks applied, in their order.

    It keeps its byte order mark and its line ends; where these differ, new lines have that of the
    first line which they replace.
    """
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    windows = text.count("\r\n")
    ends = "\r\n" if windows and windows == text.count("\n") else "\n"
    lines = text.removeprefix(mark).split(ends)
    at = 0
    for number, hunk in enumerate(file.hunks, 1):
        start = _find_anchor(lines, hunk, at, file.path) if hunk.anchor else at
        if not hunk.old:
            place = start if hunk.anchor else _find_end(lines)
        else:
            place = _find_place(lines, hunk, start, f"{file.path}: hunk {number}")
        end = "\r" if hunk.old and lines[place].endswith("\r") else ""
        lines[place : place + len(hunk.old)] = [f"{line}{end}" for line in hunk.new]
        at = place + len(hunk.new)
    return mark + ends.join(lines)


def _iter_files(lines: Sequence[str]) -> Iterator[FilePatch]:
    at = 0
    while at < len(lines):
        head = lines[at]
        end = at + 1
        while end < len(lines) and not lines[end].startswith((_ADD, _DELETE, _UPDATE)):
            end += 1
        body = lines[at + 1 : end]
        if head.startswith(_ADD):
            if wrong := next((line for line in body if not line.startswith("+")), None):
                raise BadRequest(f"Each line of a new file begins with +, unlike {wrong[:200]!r}.")
            text = "".join(f"{line[1:]}\n" for line in body)
            yield FilePatch("add", head.removeprefix(_ADD).strip(), text=text)
        elif head.startswith(_DELETE):
            yield FilePatch("delete", head.removeprefix(_DELETE).strip())
        elif head.startswith(_UPDATE):
            yield _parse_update(head.removeprefix(_UPDATE).strip(), body)
        elif head.strip():
            raise BadRequest(f"This line of the patch cannot be understood: {head[:200]!r}.")
        at = end


def _parse_update(path: str, body: Sequence[str]) -> FilePatch:
    move_to = ""
    if body and body[0].startswith(_MOVE):
        move_to = body[0].removeprefix(_MOVE).strip()
        body = body[1:]
    hunks: list[Hunk] = []
    old: list[str] = []
    new: list[str] = []
    anchor = ""
    for line in body:
        if line.startswith("@@"):
            hunks += [Hunk(tuple(old), tuple(new), anchor)] if old or new else []
            old, new, anchor = [], [], line.removeprefix("@@").strip().removesuffix("@@").strip()
        elif line.strip() == _END_OF_FILE:
            hunks += [Hunk(tuple(old), tuple(new), anchor, at_end=True)] if old or new else []
            old, new, anchor = [], [], ""
        else:
            sign, rest = line[:1] or " ", line[1:]
            if sign not in " +-":
                raise BadRequest(
                    f"{path}: a line of a patch begins with a space, + or -, unlike {line[:200]!r}."
                )
            old += [rest] if sign != "+" else []
            new += [rest] if sign != "-" else []
    hunks += [Hunk(tuple(old), tuple(new), anchor)] if old or new else []
    if not hunks and not move_to:
        raise BadRequest(f"{path}: the patch changes nothing.")
    return FilePatch("update", path, move_to=move_to, hunks=tuple(hunks))


def _find_anchor(lines: Sequence[str], hunk: Hunk, start: int, path: str) -> int:
    """Return the line after the anchor; line numbers as in ``@@ -1,3 +1,4 @@`` say nothing."""
    if hunk.anchor.startswith("-"):
        return start
    for index in range(start, len(lines)):
        if lines[index].strip() == hunk.anchor:
            return index + 1
    raise BadRequest(f"{path}: the line {hunk.anchor[:200]!r} is not in the file from there on.")


def _find_place(lines: Sequence[str], hunk: Hunk, start: int, where: str) -> int:
    for clean in (str, str.rstrip):
        wanted = [clean(line) for line in hunk.old]
        last = len(lines) - len(wanted)
        found = [
            index
            for index in range(start, last + 1)
            if clean(lines[index]) == wanted[0]
            and [clean(line) for line in lines[index : index + len(wanted)]] == wanted
        ]
        if hunk.at_end and found:
            return found[-1]
        if len(found) > 1 and not hunk.anchor:
            numbers = ", ".join(str(index + 1) for index in found[:10])
            raise BadRequest(
                f"{where} fits in {len(found)} places (lines {numbers}): name more lines around it."
            )
        if found:
            return found[0]
    first = next((line for line in hunk.old if line.strip()), "")
    raise BadRequest(f"{where} does not fit: {first[:200]!r} … is not in the file from there on.")


def _find_end(lines: Sequence[str]) -> int:
    """Return the index for lines added at the end: before the text after the last newline."""
    return len(lines) - 1 if lines and not lines[-1] else len(lines)
