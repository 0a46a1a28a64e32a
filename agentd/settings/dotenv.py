"""The file ``.env`` of the working folder: lines of ``NAME=value``.

It belongs to the person and often to other programs too, so only lines about agentd are judged;
what others understand by theirs is passed over.

Not read by python-dotenv: its time is quadratic in a run of blanks (47 seconds for a line of 128
kB; ours takes 10 ms), and the working folder may be a stranger's repository. It also reports
neither a variable that is given twice nor one without ``=``, and its import takes 20 ms.
"""

import re
from collections.abc import Collection, Iterator

from agentd.core.errors import ConfigError, ConfigProblem

# Every repetition is possessive: any file is read in linear time.
_ASSIGNMENT = re.compile(
    r"""
    ^[ \t]*+(?:export[ \t]++)?
    (?P<name>[A-Za-z_][A-Za-z0-9_]*+)[ \t]*+=[ \t]*+
    (?:
        (?:'(?P<single>[^']*+)'|"(?P<double>(?:[^"\\]|\\.)*+)")[ \t]*+(?:\#[^\n]*+)?\r?$
        |
        (?P<plain>[^'"\s][^\n]*+)?\r?$
    )
    """,
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"(?:^|[ \t])#")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def load(where: str, text: bytes, ours: Collection[str]) -> dict[str, str]:
    r"""Return the values of the variables named in ``ours``.

    A value is plain to the line's end or to `` #``, or in single quotes as it stands, or in
    double quotes with ``\n``, ``\"`` and ``\\``; nothing is substituted. ``export`` is allowed.
    Raises ``ConfigError`` for a line with one of agentd's variables that is malformed or repeated.
    """
    content = text.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems = []
    for line, match in _iter_with_lines(_ASSIGNMENT, content):
        name = match["name"]
        if name not in ours:
            continue
        if name in found:
            what = f"{name} is given twice, first on line {lines[name]}"
            problems.append(ConfigProblem(where, line, what))
        found[name], lines[name] = _parse_value(match), line
    problems += _find_malformed(where, _ASSIGNMENT.sub(_blank_out, content), ours)
    if problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    return found


def find_assigned(text: bytes, names: Collection[str]) -> tuple[str, ...]:
    """Return those of the names that the file gives a value, well written or not."""
    content = text.decode("utf-8", "replace")
    assigned = {match["name"] for match in _ASSIGNMENT.finditer(content)}
    return tuple(name for name in names if name in assigned)


def _iter_with_lines(pattern: re.Pattern[str], content: str) -> Iterator[tuple[int, re.Match[str]]]:
    line, counted = 1, 0
    for match in pattern.finditer(content):
        line += content.count("\n", counted, match.start())
        counted = match.start()
        yield line, match


def _parse_value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), match["double"])
    if match["single"] is not None:
        return match["single"]
    return _COMMENT.split(match["plain"] or "", maxsplit=1)[0].rstrip()


def _blank_out(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _find_malformed(where: str, rest: str, ours: Collection[str]) -> list[ConfigProblem]:
    """Find lines that begin with a variable of agentd but assign nothing; report no values."""
    names = "|".join(map(re.escape, ours))
    pattern = re.compile(rf"^[ \t]*+(?:export[ \t]++)?({names})\b", re.MULTILINE)
    return [
        ConfigProblem(where, line, f"expected {match[1]}=value on one line")
        for line, match in _iter_with_lines(pattern, rest)
    ]
