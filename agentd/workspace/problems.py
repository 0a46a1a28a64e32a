"""Errors and warnings in what a build says, found by one table of patterns.

Lines are taken as they come, without their colours. What a tool says twice counts once. What a
problem says may stand on several lines: the place below it (cargo, ruff), the file above it
(eslint, a traceback), or the line number far above it (pytest).
"""

import re
from collections.abc import Collection, Iterator
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, structs

Severity: TypeAlias = Literal["error", "warning"]
ToolName: TypeAlias = Literal[
    "gcc", "clang", "tsc", "pytest", "python", "eslint", "ruff", "mypy", "dotnet", "cargo", "go",
    "generic",
]  # fmt: skip
"""Whose output is understood; ``clang`` speaks as ``gcc`` does, and is told as that."""

LISTED = 200
"""Problems that are kept, the errors first; more are counted."""
TEXT = 500
"""Characters of a problem's text that are kept."""

_LINE = 4096
"""Bytes of a line that are looked at."""
_PATIENCE = 4
"""Lines below a problem in which its place must stand."""
_TOLD_APART = 20_000
"""Problems that are remembered to be counted once."""
_CONTEXT = 4096
"""Bytes before a suspicious portion that may say which file it is about."""

# Control sequences, operating system commands, and other escapes: terminfo's "sgr0" of xterm, which
# mypy writes after each colour, begins with one that chooses a character set ("\x1b(B").
_COLOUR = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]+[0-~]|\x1b[@-Z\\-_]"
)
_SUSPICIOUS = (b"error", b"warn", b"fail", b"fatal", b".go:", b".py", b"-->", b"exception")
"""A portion of output without any of these has no problem in it, and is passed over at once."""


class Problem(Struct, frozen=True):
    """An error or a warning; where a tool told no place, that is empty or 0."""

    severity: Severity
    text: str
    file: str = ""
    line: int = 0
    column: int = 0
    tool: str = ""


Role: TypeAlias = Literal["problem", "begun", "below", "place", "named"]
"""What a line is: a whole ``problem``; a ``begun`` one, whose place comes; one ``below`` its
place; the ``place`` itself; a place of the test that is ``named``."""


class Row(Struct, frozen=True):
    """How one kind of line looks. Its groups are fields of ``Problem``, or ``name``."""

    tool: ToolName
    role: Role
    line: str
    severity: Severity | None = None
    """None: the group ``severity`` tells."""


_AT = r"(?P<line>\d+)(?::(?P<column>\d+))?"
_END = r"(?::\d+:\d+)?"
"""Where a problem ends (``mypy --show-error-end``)."""
_HOW = r"(?P<severity>(?:fatal )?error|warning)"
_SUMMARY = r"could not compile|aborting due to|.*generated \d+ warning|ld returned \d"
_MS = r"(?:\d+>)?(?P<file>[^\s(][^(]*?) ?\((?P<line>\d+)(?:,(?P<column>\d+))?[\d,-]*\)"

PATTERNS: tuple[Row, ...] = (
    Row("mypy", "problem", rf"(?P<file>[^\s:][^:]*\.pyi?):{_AT}{_END}: {_HOW}: (?P<text>.+)"),
    Row("gcc", "problem", rf"(?P<file>(?:[A-Za-z]:)?[^\s:][^:]*):{_AT}: {_HOW}: (?P<text>.+)"),
    Row(
        "gcc",
        "problem",
        r"(?:\S*ld: )?(?P<file>[^\s:]+):(?:(?P<line>\d+)|\([^)]*\)): (?P<text>undefined ref.+)",
        "error",
    ),
    Row("tsc", "problem", rf"{_MS}: {_HOW} (?P<text>TS\d+: .+)"),
    Row("tsc", "problem", rf"(?P<file>[^\s:][^:]*):{_AT} - {_HOW} (?P<text>TS\d+: .+)"),
    Row("dotnet", "problem", rf"\s*{_MS}: {_HOW} (?P<text>[A-Z]*\d* ?: .+?)(?: \[[^\]]+\])?"),
    Row("dotnet", "problem", rf"\s*(?:\d+>)?\w+ : {_HOW} (?P<text>[A-Z]+\d+: .+?)(?: \[.+\])?"),
    Row("eslint", "place", r"(?P<file>(?:/|[A-Za-z]:\\)[^:]*\.\w+)"),
    Row(
        "eslint",
        "below",
        rf"\s+(?P<line>\d+):(?P<column>\d+)\s+{_HOW}\s+(?P<text>.+?)",
    ),
    Row("ruff", "problem", rf"(?P<file>[^\s:][^:]*\.pyi?):{_AT}: (?P<text>[A-Z]+\d+ .+)", "error"),
    Row("ruff", "begun", r"(?P<text>[A-Z]{1,7}\d{3,4} .+|invalid-syntax: .+)", "error"),
    Row("ruff", "place", rf" +--> (?P<file>[^:]+\.pyi?):{_AT}"),
    Row(
        "cargo",
        "begun",
        r"(?P<severity>error|warning)(?:\[\w+\])?: "
        rf"(?!{_SUMMARY})(?P<text>.*[^\d\s.].*)",
    ),
    Row("cargo", "place", rf" *--> (?P<file>[^:]+):{_AT}"),
    Row("pytest", "named", r"_{3,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{3,}"),
    Row("pytest", "named", r"(?P<file>[^\s:]+\.py):(?P<line>\d+): \w+(?:Error|Exception|Failed)?"),
    Row(
        "pytest",
        "problem",
        r"(?:FAILED|ERROR) (?P<file>[^\s:]+\.py)(?:::(?P<name>.+?))?(?: - (?P<text>.*))?",
        "error",
    ),
    Row("python", "problem", r"\s*(?P<file>[^\s:]+\.py):(?P<line>\d+): (?P<text>\w+Warning: .+)",
         "warning"),
    Row("python", "place", r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+).*'),
    Row("python", "below", r"(?P<text>[A-Za-z_][\w.]*(?:Error|Exception)(?:: .*)?)", "error"),
    Row("go", "problem", rf"(?:vet: )?(?P<file>[^\s:]+\.go):{_AT}: (?P<text>.+)", "error"),
    Row("go", "problem", r"\s+(?P<file>[^\s:]+_test\.go):(?P<line>\d+): (?P<text>.+)", "error"),
    Row(
        "generic",
        "problem",
        r"(?:[\w./+-]+: )?(?i:(?P<severity>fatal error|error|fatal|warning)): "
        rf"(?!{_SUMMARY})(?P<text>.*[^\d\s.].*)",
    ),
)  # fmt: skip
"""Asked in this order; the first that is the whole line decides."""

TOOLS: tuple[ToolName, ...] = get_args(ToolName)


def plain(text: str) -> str:
    """The text as a terminal without colours would show it."""
    return _COLOUR.sub("", text)


class Finder:
    """Finds problems in one output, portion by portion; ``tools`` names whose, empty: all."""

    def __init__(self, tools: Collection[ToolName] = ()) -> None:
        self.errors = 0
        self.warnings = 0
        wanted = {"gcc" if tool == "clang" else tool for tool in tools or TOOLS}
        self._patterns = [(row, re.compile(row.line)) for row in PATTERNS if row.tool in wanted]
        self._rest = b""
        self._skipping = False
        self._context = b""
        self._listed: dict[Severity, list[Problem]] = {"error": [], "warning": []}
        self._seen: set[int] = set()
        self._begun: Problem | None = None
        self._patience = 0
        self._place = Problem("error", "")
        self._name = ""
        self._named: dict[str, int] = {}

    @property
    def problems(self) -> list[Problem]:
        """The first of them, errors before warnings."""
        return [*self._listed["error"], *self._listed["warning"]][:LISTED]

    def feed(self, data: bytes) -> None:
        """The next portion, cut anywhere."""
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            whole = self._rest + whole
            if self._skipping:
                whole = whole.partition(b"\n")[2]
                self._skipping = False
            self._rest = b""
            self._lines(whole)
        if not self._skipping:
            self._rest += rest
        if len(self._rest) > 16 * _LINE:  # a line without an end: its beginning is enough
            self._lines(self._rest[:_LINE])
            self._rest, self._skipping = b"", True

    def end(self) -> None:
        """There is no more."""
        self._lines(self._rest)
        self._rest = b""
        self._settle()

    def _lines(self, whole: bytes) -> None:
        low = whole.lower()
        if not any(mark in low for mark in _SUSPICIOUS):
            self._context = whole[-_CONTEXT:]
            return
        if self._context:
            for line in self._context.split(b"\n"):
                self._line(line)
            self._context = b""
        for line in whole.split(b"\n"):
            self._line(line)

    def _line(self, raw: bytes) -> None:
        line = plain(raw[:_LINE].decode("utf-8", "replace").rstrip())
        line = line.rpartition("\r")[2]
        if self._begun and not self._patience:
            self._settle()
        self._patience -= 1
        if not line:
            return
        for row, pattern in self._patterns:
            if found := pattern.fullmatch(line):
                self._take(row, found.groupdict())
                return

    def _take(self, row: Row, groups: dict[str, str | None]) -> None:
        told = _problem(row, groups)
        match row.role:
            case "problem":
                name = (groups.get("name") or "").replace("::", ".")
                if name:
                    text = f"{name}: {told.text}" if told.text else name
                    told = structs.replace(told, text=text[:TEXT], line=self._named.get(name, 0))
                self._note(told)
            case "begun":
                self._settle()
                self._begun, self._patience = told, _PATIENCE
            case "below":
                line = told.line or self._place.line
                self._note(structs.replace(told, file=self._place.file, line=line))
            case "place":
                if self._begun:
                    place = {"file": told.file, "line": told.line, "column": told.column}
                    self._begun = structs.replace(self._begun, **place)
                    self._settle()
                self._place = told
            case "named":
                if test := groups.get("name"):
                    self._name = test
                elif self._name and len(self._named) < _TOLD_APART:
                    self._named[self._name] = told.line

    def _settle(self) -> None:
        """The place of what was begun is known, or will not come."""
        begun, self._begun = self._begun, None
        if begun:
            self._note(begun if begun.file else structs.replace(begun, tool="generic"))

    def _note(self, problem: Problem) -> None:
        mark = hash((problem.severity, problem.file, problem.line, problem.column, problem.text))
        if mark in self._seen:
            return
        if len(self._seen) < _TOLD_APART:
            self._seen.add(mark)
        if problem.severity == "error":
            self.errors += 1
        else:
            self.warnings += 1
        listed = self._listed[problem.severity]
        if len(listed) < LISTED:
            listed.append(problem)


def found_in(output: bytes, tools: Collection[ToolName] = ()) -> Iterator[Problem]:
    """All problems of a whole output, as far as they are listed."""
    finder = Finder(tools)
    finder.feed(output)
    finder.end()
    yield from finder.problems


def _problem(row: Row, groups: dict[str, str | None]) -> Problem:
    severity = row.severity
    if severity is None:
        severity = "warning" if (groups.get("severity") or "").lower() == "warning" else "error"
    return Problem(
        severity,
        " ".join((groups.get("text") or "").split())[:TEXT],
        (groups.get("file") or "")[:TEXT],
        _number(groups.get("line")),
        _number(groups.get("column")),
        row.tool,
    )


def _number(digits: str | None) -> int:
    return int(digits) if digits and len(digits) < 10 else 0
