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
"""The tools whose output is parsed; ``clang`` output has the form of ``gcc``'s."""

MAX_LISTED = 200
"""Problems that are kept, the errors first; more are counted."""
MAX_TEXT = 500
"""Characters of a problem's text that are kept."""

_LINE = 4096
"""The maximum bytes of a line that are parsed."""
_PATIENCE = 4
"""Lines below a problem in which its place must stand."""
_MAX_REMEMBERED = 20_000
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
    """An error or a warning; without a place from the tool, that is empty or 0."""

    severity: Severity
    text: str
    file: str = ""
    line: int = 0
    column: int = 0
    tool: str = ""


Role: TypeAlias = Literal["problem", "begun", "below", "place", "named"]
"""The role of a line: a whole ``problem``; a ``begun`` one, whose place follows; one ``below`` its
place; the ``place`` itself; a place of the test that is ``named``."""


class ProblemPattern(Struct, frozen=True):
    """The pattern of one kind of line. Its groups are fields of ``Problem``, or ``name``."""

    tool: ToolName
    role: Role
    line: str
    severity: Severity | None = None
    """None: the group ``severity`` decides."""


_AT = r"(?P<line>\d+)(?::(?P<column>\d+))?"
_END = r"(?::\d+:\d+)?"
"""The end of a problem's place (``mypy --show-error-end``)."""
_HOW = r"(?P<severity>(?:fatal )?error|warning)"
_SUMMARY = r"could not compile|aborting due to|.*generated \d+ warning|ld returned \d"
_MS = r"(?:\d+>)?(?P<file>[^\s(][^(]*?) ?\((?P<line>\d+)(?:,(?P<column>\d+))?[\d,-]*\)"

PATTERNS: tuple[ProblemPattern, ...] = (
    ProblemPattern(
        "mypy", "problem", rf"(?P<file>[^\s:][^:]*\.pyi?):{_AT}{_END}: {_HOW}: (?P<text>.+)"
    ),
    ProblemPattern(
        "gcc", "problem", rf"(?P<file>(?:[A-Za-z]:)?[^\s:][^:]*):{_AT}: {_HOW}: (?P<text>.+)"
    ),
    ProblemPattern(
        "gcc",
        "problem",
        r"(?:\S*ld: )?(?P<file>[^\s:]+):(?:(?P<line>\d+)|\([^)]*\)): (?P<text>undefined ref.+)",
        "error",
    ),
    ProblemPattern("tsc", "problem", rf"{_MS}: {_HOW} (?P<text>TS\d+: .+)"),
    ProblemPattern("tsc", "problem", rf"(?P<file>[^\s:][^:]*):{_AT} - {_HOW} (?P<text>TS\d+: .+)"),
    ProblemPattern(
        "dotnet", "problem", rf"\s*{_MS}: {_HOW} (?P<text>[A-Z]*\d* ?: .+?)(?: \[[^\]]+\])?"
    ),
    ProblemPattern(
        "dotnet", "problem", rf"\s*(?:\d+>)?\w+ : {_HOW} (?P<text>[A-Z]+\d+: .+?)(?: \[.+\])?"
    ),
    ProblemPattern("eslint", "place", r"(?P<file>(?:/|[A-Za-z]:\\)[^:]*\.\w+)"),
    ProblemPattern(
        "eslint",
        "below",
        rf"\s+(?P<line>\d+):(?P<column>\d+)\s+{_HOW}\s+(?P<text>.+?)",
    ),
    ProblemPattern(
        "ruff", "problem", rf"(?P<file>[^\s:][^:]*\.pyi?):{_AT}: (?P<text>[A-Z]+\d+ .+)", "error"
    ),
    ProblemPattern("ruff", "begun", r"(?P<text>[A-Z]{1,7}\d{3,4} .+|invalid-syntax: .+)", "error"),
    ProblemPattern("ruff", "place", rf" +--> (?P<file>[^:]+\.pyi?):{_AT}"),
    ProblemPattern(
        "cargo",
        "begun",
        r"(?P<severity>error|warning)(?:\[\w+\])?: "
        rf"(?!{_SUMMARY})(?P<text>.*[^\d\s.].*)",
    ),
    ProblemPattern("cargo", "place", rf" *--> (?P<file>[^:]+):{_AT}"),
    ProblemPattern("pytest", "named", r"_{3,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{3,}"),
    ProblemPattern(
        "pytest", "named", r"(?P<file>[^\s:]+\.py):(?P<line>\d+): \w+(?:Error|Exception|Failed)?"
    ),
    ProblemPattern(
        "pytest",
        "problem",
        r"(?:FAILED|ERROR) (?P<file>[^\s:]+\.py)(?:::(?P<name>.+?))?(?: - (?P<text>.*))?",
        "error",
    ),
    ProblemPattern(
        "python",
        "problem",
        r"\s*(?P<file>[^\s:]+\.py):(?P<line>\d+): (?P<text>\w+Warning: .+)",
        "warning",
    ),
    ProblemPattern("python", "place", r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+).*'),
    ProblemPattern(
        "python", "below", r"(?P<text>[A-Za-z_][\w.]*(?:Error|Exception)(?:: .*)?)", "error"
    ),
    ProblemPattern(
        "go", "problem", rf"(?:vet: )?(?P<file>[^\s:]+\.go):{_AT}: (?P<text>.+)", "error"
    ),
    ProblemPattern(
        "go", "problem", r"\s+(?P<file>[^\s:]+_test\.go):(?P<line>\d+): (?P<text>.+)", "error"
    ),
    ProblemPattern(
        "generic",
        "problem",
        r"(?:[\w./+-]+: )?(?i:(?P<severity>fatal error|error|fatal|warning)): "
        rf"(?!{_SUMMARY})(?P<text>.*[^\d\s.].*)",
    ),
)
"""Asked in this order; the first that is the whole line decides."""

TOOLS: tuple[ToolName, ...] = get_args(ToolName)


def strip_escapes(text: str) -> str:
    """Return the text without terminal escape sequences."""
    return _COLOUR.sub("", text)


class ProblemFinder:
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
        return [*self._listed["error"], *self._listed["warning"]][:MAX_LISTED]

    def feed(self, data: bytes) -> None:
        """Feed the next portion, cut anywhere."""
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            whole = self._rest + whole
            if self._skipping:
                whole = whole.partition(b"\n")[2]
                self._skipping = False
            self._rest = b""
            self._read_lines(whole)
        if not self._skipping:
            self._rest += rest
        if len(self._rest) > 16 * _LINE:  # a line without an end: its beginning is enough
            self._read_lines(self._rest[:_LINE])
            self._rest, self._skipping = b"", True

    def close(self) -> None:
        """Handle the end of the output."""
        self._read_lines(self._rest)
        self._rest = b""
        self._settle()

    def _read_lines(self, whole: bytes) -> None:
        low = whole.lower()
        if not any(mark in low for mark in _SUSPICIOUS):
            self._context = whole[-_CONTEXT:]
            return
        if self._context:
            for line in self._context.split(b"\n"):
                self._read_line(line)
            self._context = b""
        for line in whole.split(b"\n"):
            self._read_line(line)

    def _read_line(self, raw: bytes) -> None:
        line = strip_escapes(raw[:_LINE].decode("utf-8", "replace").rstrip())
        line = line.rpartition("\r")[2]
        if self._begun and not self._patience:
            self._settle()
        self._patience -= 1
        if not line:
            return
        for row, pattern in self._patterns:
            if found := pattern.fullmatch(line):
                self._on_match(row, found.groupdict())
                return

    def _on_match(self, row: ProblemPattern, groups: dict[str, str | None]) -> None:
        parsed = _make_problem(row, groups)
        match row.role:
            case "problem":
                name = (groups.get("name") or "").replace("::", ".")
                if name:
                    text = f"{name}: {parsed.text}" if parsed.text else name
                    parsed = structs.replace(
                        parsed, text=text[:MAX_TEXT], line=self._named.get(name, 0)
                    )
                self._add(parsed)
            case "begun":
                self._settle()
                self._begun, self._patience = parsed, _PATIENCE
            case "below":
                line = parsed.line or self._place.line
                self._add(structs.replace(parsed, file=self._place.file, line=line))
            case "place":
                if self._begun:
                    place = {"file": parsed.file, "line": parsed.line, "column": parsed.column}
                    self._begun = structs.replace(self._begun, **place)
                    self._settle()
                self._place = parsed
            case "named":
                if test := groups.get("name"):
                    self._name = test
                elif self._name and len(self._named) < _MAX_REMEMBERED:
                    self._named[self._name] = parsed.line

    def _settle(self) -> None:
        """Add the pending problem: its place is known, or will not come."""
        begun, self._begun = self._begun, None
        if begun:
            self._add(begun if begun.file else structs.replace(begun, tool="generic"))

    def _add(self, problem: Problem) -> None:
        mark = hash((problem.severity, problem.file, problem.line, problem.column, problem.text))
        if mark in self._seen:
            return
        if len(self._seen) < _MAX_REMEMBERED:
            self._seen.add(mark)
        if problem.severity == "error":
            self.errors += 1
        else:
            self.warnings += 1
        listed = self._listed[problem.severity]
        if len(listed) < MAX_LISTED:
            listed.append(problem)


def find_problems(output: bytes, tools: Collection[ToolName] = ()) -> Iterator[Problem]:
    """Yield the listed problems of a complete output."""
    finder = ProblemFinder(tools)
    finder.feed(output)
    finder.close()
    yield from finder.problems


def _make_problem(row: ProblemPattern, groups: dict[str, str | None]) -> Problem:
    severity = row.severity
    if severity is None:
        severity = "warning" if (groups.get("severity") or "").lower() == "warning" else "error"
    return Problem(
        severity,
        " ".join((groups.get("text") or "").split())[:MAX_TEXT],
        (groups.get("file") or "")[:MAX_TEXT],
        _parse_number(groups.get("line")),
        _parse_number(groups.get("column")),
        row.tool,
    )


def _parse_number(digits: str | None) -> int:
    return int(digits) if digits and len(digits) < 10 else 0
