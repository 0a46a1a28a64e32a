"""Protected places that a command line plainly names. Pure but for where links lead.

A shell can reach any file without naming it; this only keeps what is written out from being
allowed unnoticed, by a pattern or by the mode ``auto``.
"""

import posixpath
import re
from collections.abc import Iterator

from agentd.agent.foreign import Bounds
from agentd.agent.shell_line import LONGEST, Command, parse

TOO_LONG = "It is too long to be looked through for protected places."

_READERS = frozenset(
    (
        *("cat", "head", "tail", "less", "more", "ls", "grep", "egrep", "fgrep", "rg", "wc"),
        *("diff", "cmp", "stat", "file", "du", "df", "tree", "cd", "test", "[", "echo", "printf"),
        *("sha256sum", "md5sum", "od", "xxd", "strings", "sort", "uniq", "cut", "jq", "source"),
    )
)
"""Programs that change no file which is named in their arguments."""

_WHOLE = frozenset(
    (
        *("rg", "ag", "ack", "tar", "zip", "7z", "cp", "mv", "rsync", "scp", "rm", "chmod"),
        *("chown", "ln", "shred"),
    )
)
"""Programs that take a folder with all that is in it."""

_WORD_ENDS = re.compile(r"[\s'\"();|&<>`]+")


def why_protected(line: str, bounds: Bounds) -> str:
    """Why a place that this line names is protected; empty when none is seen. Blocking."""
    if len(line) > LONGEST:
        return TOO_LONG
    read = parse(line)
    folder = bounds.folder
    for command in read.commands:
        if command.program == "cd":
            folder = posixpath.join(folder, _expanded(command.words[-1], bounds))
        if why := _why(command, folder, bounds):
            return why
    if read.certain:
        return ""
    return _why(Command(tuple(_WORD_ENDS.split(line))), folder, bounds)


def _why(command: Command, folder: str, bounds: Bounds) -> str:
    changes, whole = command.program not in _READERS, _takes_whole_folders(command)
    words = [(word, changes) for word in command.words]
    words += [(target, True) for target in command.targets]
    for word, changed in words:
        for path in _paths_in(_expanded(word, bounds)):
            place = posixpath.join(folder, path)
            if why := bounds.why_protected(place, changed=changed, whole=whole):
                return why
    return ""


def _expanded(word: str, bounds: Bounds) -> str:
    """A word with the home folder written out."""
    home = bounds.protected.home
    for sign in ("~", "$HOME", "${HOME}"):
        word = home if word == sign else word.replace(f"{sign}/", f"{home}/")
    return word


def _takes_whole_folders(command: Command) -> bool:
    """Tell whether a command takes folders as a whole, with all that is in them."""
    program, options = command.program, [one for one in command.words if one.startswith("-")]
    if program in ("grep", "egrep", "fgrep"):
        return any(re.match(r"--(dereference-)?rec|-[a-zA-Z]*[rR]", one) for one in options)
    if program == "find":
        return not {"-exec", "-execdir", "-delete", "-ok"}.isdisjoint(options)
    return program in _WHOLE


def _paths_in(word: str) -> Iterator[str]:
    """What may be a path in a word: all of it, or what stands behind ``=``, ``:``, ``@``."""
    known = re.split(r"[$`*?\[]", word, maxsplit=1)[0]  # a pattern up to its first unknown sign
    if known != word:
        known = known.rpartition("/")[0]
    yield from filter(None, (known, *re.split(r"[=:@,]", known)[1:]))
