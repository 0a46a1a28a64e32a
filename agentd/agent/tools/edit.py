"""Replaces an exact text in a file's content, or says why it cannot."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from heapq import nsmallest

from agentd.agent.diff import split_lines
from agentd.core.errors import BadRequest

_MOST_COMPARED = 5000
"""Lines of a file that are compared for the nearest one ..."""
_MOST_MEASURED = 50
"""... and those of them that are compared character by character."""
_NEAR = 0.6
_MOST_SHOWN = 12


def replace_text(text: str, old: str, new: str, *, everywhere: bool = False) -> tuple[str, int]:
    """Return the text with ``old`` replaced, and in how many places.

    A text with CR LF line ends is edited as if they were LF, and keeps them. Raises
    ``BadRequest`` when ``old`` does not occur (with the nearest lines) or, unless
    ``everywhere``, occurs more than once (with the line numbers).
    """
    if not old:
        raise BadRequest("The text to replace is empty; write the whole file instead.")
    if old == new:
        raise BadRequest("Nothing would change: the old and the new text are the same.")
    old, new = _fit_line_ends(text, old, new)
    places = text.count(old)
    if not places:
        raise BadRequest(f"The text to replace is not in the file.{_describe_nearest(text, old)}")
    if places > 1 and not everywhere:
        raise BadRequest(
            f"The text to replace occurs in {places} places (lines"
            f" {_list_line_numbers(text, old)}): include more of the text around the right one, or"
            " replace all of them."
        )
    return text.replace(old, new), places


def _fit_line_ends(text: str, old: str, new: str) -> tuple[str, str]:
    """Return both texts with the line ends of the file, unless these are what is to change."""
    windows = text.count("\r\n")
    if not windows or (old in text and windows < text.count("\n")):
        return old, new
    fitted = [part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new)]
    return (old, new) if fitted[0] == fitted[1] else (fitted[0], fitted[1])


def _list_line_numbers(text: str, old: str) -> str:
    """Return the numbers of the first lines at which ``old`` begins."""
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < _MOST_SHOWN:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(numbers) + ("" if at < 0 else ", …")


def _describe_nearest(text: str, old: str) -> str:
    """Return the lines most like ``old``, numbered, or a note that there are none."""
    wanted = [line.strip() for line in split_lines(old)]
    number = next((number for number, line in enumerate(wanted) if line), -1)
    lines = split_lines(text)
    if number < 0:
        return ""
    at = _find_nearest(lines[:_MOST_COMPARED], wanted[number])
    if at < 0:
        return " No line is similar: read the file again."
    first = max(at - number, 0)
    shown = lines[first : first + min(max(len(wanted), 1), _MOST_SHOWN)]
    near = "\n".join(f"{first + 1 + index}: {line[:200]}" for index, line in enumerate(shown))
    return f" The nearest lines are (without the numbers):\n{near}"


def _find_nearest(lines: Sequence[str], wanted: str) -> int:
    """Return the index of the line most like ``wanted``; -1: there is none.

    Only the lines with the most pieces in common are compared character by character: that is
    slow.
    """
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:200])
    pieces = _split_into_pieces(wanted[:200])
    likely: list[tuple[int, int]] = []
    for index, line in enumerate(lines):
        short = line.strip()[:200]
        matcher.set_seq1(short)
        if matcher.real_quick_ratio() > _NEAR and matcher.quick_ratio() > _NEAR:
            likely.append((-len(pieces & _split_into_pieces(short)), index))
    best, at = _NEAR, -1
    for _, index in nsmallest(_MOST_MEASURED, likely):
        matcher.set_seq1(lines[index].strip()[:200])
        if (ratio := matcher.ratio()) > best:
            best, at = ratio, index
    return at


def _split_into_pieces(line: str) -> set[str]:
    """Return each run of four characters in a line; a shorter line is one piece."""
    return {line[at : at + 4] for at in range(max(len(line) - 3, 1))}
