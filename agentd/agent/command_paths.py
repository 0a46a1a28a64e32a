"""Protected paths that a command line names literally. Pure, except for resolving links.

A shell can reach any file without naming it; this only keeps what is written out from being
allowed unnoticed, by a pattern or by the mode ``auto``.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator

from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.shell_parser import MAX_LINE_LENGTH, ShellCommand, parse_command_line

TOO_LONG = "The command line is too long to be checked for protected paths."
TOO_MANY = "The command line names too many paths, or too deep ones, to be checked."
MOST_PATHS = 5000
"""Paths and patterns of a line that are looked up on the disk."""
LONGEST_PATH = 4096
"""Characters of a path; Linux opens no longer one."""

_READERS = frozenset(
    (
        *("cat", "head", "tail", "less", "more", "ls", "grep", "egrep", "fgrep", "rg", "wc"),
        *("diff", "cmp", "stat", "file", "du", "df", "tree", "cd", "test", "[", "echo", "printf"),
        *("sha256sum", "md5sum", "od", "xxd", "strings", "sort", "uniq", "cut", "jq", "source"),
    )
)
"""Programs that change no file named in their arguments."""

_WHOLE = frozenset(
    (
        *("rg", "ag", "ack", "tar", "zip", "7z", "cp", "mv", "rsync", "scp", "rm", "chmod"),
        *("chown", "ln", "shred"),
    )
)
"""Programs that take a folder with everything in it."""

_PATTERN = re.compile(r"[*?\[]")
_BEHIND = re.compile(r"[=:@,{}]")
_WRITTEN_OUT = re.compile(
    r"(?:(?<![\w./~}])|(?<=[\s'\"]-[A-Za-z]))(?:~|\$HOME|\$\{HOME\})?/[^\s'\"();|&<>`,:=\\]+"
)
"""An absolute path wherever it stands: in code, a document, an assignment, behind an option."""
_WORD_ENDS = re.compile(r"[\s'\"();|&<>`]+")


def explain_protection(line: str, bounds: WorkspaceBounds) -> str:
    """Explain why a path named in this line is protected; empty if none is. Blocking."""
    if len(line) > MAX_LINE_LENGTH:
        return TOO_LONG
    try:
        return _explain_line(line, _PathCheck(bounds))
    except _TooManyPaths:
        return TOO_MANY


class _TooManyPaths(Exception):
    """A line has more paths than are looked up, or goes into a folder that is too deep."""


class _PathCheck:
    """Looks up the paths of one line; raises ``_TooManyPaths``."""

    def __init__(self, bounds: WorkspaceBounds) -> None:
        self._bounds = bounds
        self._left = MOST_PATHS
        self.folder = bounds.folder
        """The folder that relative paths are in: ``cd`` changes it."""
        self.home = bounds.protected.home

    def explain(self, path: str, *, changed: bool, whole: bool) -> str:
        """Explain why a path is protected; empty if it is not."""
        self._count()
        place = posixpath.join(self.folder, path)
        if len(place) > LONGEST_PATH:
            return ""
        return self._bounds.explain_protection(place, changed=changed, whole=whole)

    def match(self, pattern: str) -> Iterable[str]:
        """Return the protected paths that a pattern may match."""
        self._count()
        if len(pattern) > LONGEST_PATH:
            return ()
        return self._bounds.match_protected(self.folder, pattern)

    def _count(self) -> None:
        self._left -= 1 + len(self.folder) // 256  # a deep folder takes longer
        if self._left < 0 or len(self.folder) > LONGEST_PATH:
            raise _TooManyPaths


def _explain_line(line: str, check: _PathCheck) -> str:
    read = parse_command_line(line)
    for command in read.commands:
        if command.program == "cd":
            target = command.words[-1] if len(command.words) > 1 else "~"
            check.folder = posixpath.join(check.folder, _expand_home(target, check.home))
        if why := _explain_command(command, check):
            return why
    for path in dict.fromkeys(_WRITTEN_OUT.findall(line)):
        place = _expand_home(path, check.home)
        if why := check.explain(place, changed=False, whole=False):
            return why
    if read.certain:
        return ""
    return _explain_command(ShellCommand(tuple(_WORD_ENDS.split(line))), check)


def _explain_command(command: ShellCommand, check: _PathCheck) -> str:
    changes, whole = command.program not in _READERS, _takes_whole_folders(command)
    words = [(word, changes) for word in command.words]
    words += [(target, True) for target in command.targets]
    for word, changed in words:
        for path in _iter_paths(_expand_home(word, check.home), check):
            if why := check.explain(path, changed=changed, whole=whole):
                return why
    return ""


def _expand_home(word: str, home: str) -> str:
    """Return a word with ``~`` and ``$HOME`` replaced by the home folder."""
    for sign in ("~", "$HOME", "${HOME}"):
        word = home if word == sign else word.replace(f"{sign}/", f"{home}/")
    return word


def _takes_whole_folders(command: ShellCommand) -> bool:
    """Return whether a command takes folders with everything in them."""
    program, options = command.program, [one for one in command.words if one.startswith("-")]
    if program in ("grep", "egrep", "fgrep"):
        return any(re.match(r"--(dereference-)?rec|-[a-zA-Z]*[rR]", one) for one in options)
    if program == "find":
        return not {"-exec", "-execdir", "-delete", "-ok"}.isdisjoint(options)
    return program in _WHOLE


def _iter_paths(word: str, check: _PathCheck) -> Iterator[str]:
    """Yield each path that a word may name, and protected paths that its pattern may match."""
    yield from _iter_literal_paths(word)
    if _PATTERN.search(word):
        for path in (word, *_BEHIND.split(word)[1:]):
            yield from check.match(path)


def _iter_literal_paths(word: str) -> Iterator[str]:
    """Yield the possible paths in a word: all of it, and each part after a sign such as ``=``."""
    known = re.split(r"[$`*?\[]", word, maxsplit=1)[0]  # a pattern up to its first unknown sign
    if known != word:
        known = known.rpartition("/")[0]
    yield from filter(None, (known, *_BEHIND.split(known)[1:]))
