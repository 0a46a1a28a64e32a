"""Protected paths that a command line names literally. Pure, except for resolving links.

A shell can reach any file without naming it; this only keeps what is written out from being
allowed unnoticed, by a pattern or by the mode ``auto``.
"""

import posixpath
import re
from collections.abc import Iterator

from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.shell_parser import MAX_LINE_LENGTH, ShellCommand, parse_command_line

TOO_LONG = "The command line is too long to be checked for protected paths."

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
    read = parse_command_line(line)
    folder = bounds.folder
    for command in read.commands:
        if command.program == "cd":
            target = command.words[-1] if len(command.words) > 1 else "~"
            folder = posixpath.join(folder, _expand_home(target, bounds))
        if why := _explain_command(command, folder, bounds):
            return why
    for path in dict.fromkeys(_WRITTEN_OUT.findall(line)):
        place = _expand_home(path, bounds)
        if why := bounds.explain_protection(place, changed=False, whole=False):
            return why
    if read.certain:
        return ""
    return _explain_command(ShellCommand(tuple(_WORD_ENDS.split(line))), folder, bounds)


def _explain_command(command: ShellCommand, folder: str, bounds: WorkspaceBounds) -> str:
    changes, whole = command.program not in _READERS, _takes_whole_folders(command)
    words = [(word, changes) for word in command.words]
    words += [(target, True) for target in command.targets]
    for word, changed in words:
        for place in _iter_places(_expand_home(word, bounds), folder, bounds):
            if why := bounds.explain_protection(place, changed=changed, whole=whole):
                return why
    return ""


def _expand_home(word: str, bounds: WorkspaceBounds) -> str:
    """Return a word with ``~`` and ``$HOME`` replaced by the home folder."""
    home = bounds.protected.home
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


def _iter_places(word: str, folder: str, bounds: WorkspaceBounds) -> Iterator[str]:
    """Yield each path that a word may name, and protected paths that its pattern may match."""
    for path in _iter_paths(word):
        yield posixpath.join(folder, path)
    if _PATTERN.search(word):
        for path in (word, *_BEHIND.split(word)[1:]):
            yield from bounds.match_protected(folder, path)


def _iter_paths(word: str) -> Iterator[str]:
    """Yield the possible paths in a word: all of it, and what signs such as ``=`` precede."""
    known = re.split(r"[$`*?\[]", word, maxsplit=1)[0]  # a pattern up to its first unknown sign
    if known != word:
        known = known.rpartition("/")[0]
    yield from filter(None, (known, *_BEHIND.split(known)[1:]))
