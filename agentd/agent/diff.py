"""Shows a change of a text file as a unified diff, for a person to read. Pure, and bounded.

Lines at the beginning and the end that stay are found first; only what is between them is compared
line by line, and where that is long, all of it counts as replaced. So the time is linear.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import TypeAlias

MAX_DIFF = 32_000
"""Characters of a diff; the rest is left out."""
MAX_COMPARED_BYTES = 1024 * 1024
"""Longer texts are not compared."""
_MAX_PAIRS = 10_000
"""Pairs of lines that are compared: the comparison may need time in proportion to them."""
_CONTEXT = 3
_CUT = "… (the rest is left out)"


def make_diff(path: str, before: str | None, after: str | None) -> str:
    """Return the diff of a file; None if it does not exist before, or after."""
    if before == after or len(before or "") + len(after or "") > MAX_COMPARED_BYTES:
        return ""
    old, new = split_lines(before or ""), split_lines(after or "")
    lines = [
        "--- /dev/null" if before is None else f"--- a/{path.lstrip('/')}",
        "+++ /dev/null" if after is None else f"+++ b/{path.lstrip('/')}",
    ]
    hunks = [_render_hunk(old, new, group) for group in _group_changes(old, new)]
    return cut_diff("\n".join(chain(lines, *hunks))) if hunks else ""


def split_lines(text: str) -> list[str]:
    """Return the lines as editors count them: a form feed, or U+2028, ends none."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def cut_diff(diff: str) -> str:
    """Return a diff that is not too long: whole lines from its beginning."""
    if len(diff) <= MAX_DIFF:
        return diff
    end = diff.rfind("\n", 0, MAX_DIFF)
    return f"{diff[: end if end > 0 else MAX_DIFF]}\n{_CUT}"


_Change: TypeAlias = tuple[str, int, int, int, int]


def _group_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[list[_Change]]:
    """Yield the changes that are near each other, with the lines around them."""
    same = _count_common(old, new)
    tail = _count_common(old[same:][::-1], new[same:][::-1])
    start = max(same - _CONTEXT, 0)
    after = max(tail - _CONTEXT, 0)
    near_old, near_new = old[start : len(old) - after], new[start : len(new) - after]
    if len(near_old) * len(near_new) <= _MAX_PAIRS:
        groups = list(SequenceMatcher(None, near_old, near_new).get_grouped_opcodes(_CONTEXT))
    else:
        before, behind = same - start, tail - after
        end_old, end_new = len(near_old) - behind, len(near_new) - behind
        groups = [
            [
                ("equal", 0, before, 0, before),
                ("replace", before, end_old, before, end_new),
                ("equal", end_old, len(near_old), end_new, len(near_new)),
            ]
        ]
    for group in groups:
        yield [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in group]


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _render_hunk(old: Sequence[str], new: Sequence[str], group: list[_Change]) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_render_range(first[1], last[2])} +{_render_range(first[3], last[4])} @@"
    for kind, a, b, c, d in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[a:b])
            continue
        yield from (f"-{line}" for line in old[a:b])
        yield from (f"+{line}" for line in new[c:d])


def _render_range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"
