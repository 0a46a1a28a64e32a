"""Parses the commands of a shell line, as far as its text shows. Pure, linear in the line.

It is read as ``/bin/sh`` reads it: quotes, operators, groups, substitutions and here-documents. It
errs on the side of uncertainty (``certain``): what a variable holds, what a pattern matches,
what a script, an alias or an interpreter does is not in the text. ``/bin/sh`` may be bash, and
other engines run lines by bash or zsh: what only these expand counts as unknown.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

MAX_LINE_LENGTH = 64 * 1024
"""Characters; longer lines are not parsed."""
_MAX_DEPTH = 12

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_UNKNOWN = re.compile(r"[$`*?\[]")
_PLAIN_VARIABLE = re.compile(r"\{[^\s'\"\\`<>&|;(){}$]*\}")
"""The rest of a variable after its ``$``, if it has nothing to be parsed in it."""
_ESCAPABLE = frozenset('$`"\\\n')
"""The characters that a backslash escapes between double quotes; before others it is literal."""
_WORD_ENDS = frozenset(" \t\n;&|()<>")

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"))
_WRAPPERS = frozenset(
    (
        *("sudo", "doas", "env", "command", "exec", "builtin", "nohup", "time", "nice", "ionice"),
        *("timeout", "setsid", "stdbuf", "xargs", "busybox", "toybox", "watch", "find", "chroot"),
        *("unshare", "flock", "script", "strace", "ltrace", "parallel", "su", "runuser", "eval"),
        *("taskset", "chrt", "setarch", "nsenter", "prlimit", "pkexec", "systemd-run"),
        *("fakeroot", "unbuffer", "xvfb-run"),
    )
)
"""Programs that run a command given in their arguments."""
_MOST_WRAPPED = 200
"""The most words of a wrapper's command; a longer one counts as hiding which program it runs."""
_LINE_WRAPPERS = frozenset(("su", "runuser", "script", "flock", "watch", "parallel"))
"""Wrappers that hand a whole line to a shell."""
_KEYWORDS = frozenset(("if", "then", "else", "elif", "do", "while", "until", "!", "{"))
"""Words after which a command begins."""
_FIND_ACTIONS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
"""Options of ``find`` that a command follows."""
_IS_NO_PROGRAM = re.compile(r"[0-9]|[A-Za-z_][A-Za-z0-9_]*=")
"""How a number or an assignment begins."""
_NO_COMMANDS = frozenset(("fi", "done", "esac", "}", "for"))
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
"""Blanks between words; a line that goes on is one, too."""
_LINE = re.compile(r"[\s;&|]")
"""A sign that a word is a command line rather than a name."""
_SPLIT_STRING = re.compile(r"-v?S|--split-string=?")
"""The option of ``env`` that takes a whole command as one word."""
_OBSCURE = frozenset(("case", "select", "function", "coproc", "[[", "alias"))
"""Words whose grammar is not parsed, or that keep commands for later."""


class ShellCommand(Struct, frozen=True):
    """A program with its arguments, quotes removed."""

    words: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    """Files of its redirections."""

    @property
    def program(self) -> str:
        """The program's name without its folder; empty if there is none."""
        return posixpath.basename(self.words[0]) if self.words else ""


class ShellLine(Struct, frozen=True):
    """The commands that a line would run."""

    commands: tuple[ShellCommand, ...]
    certain: bool = True
    """The shell itself runs nothing but these commands."""


def parse_command_line(line: str) -> ShellLine:
    """Parse a command line into its commands."""
    if len(line) > MAX_LINE_LENGTH:
        return ShellLine((), certain=False)
    return _parse(line, 0)


def iter_spellings(command: ShellCommand) -> Iterator[str]:
    """Yield every spelling a rule may use: with the folder or without, and unwrapped."""
    text = " ".join(command.words)
    most = _MOST_WRAPPED if command.program in _WRAPPERS else 1
    for at, word in enumerate(command.words[:most]):
        if not at or not word.startswith("-"):
            yield text
            yield text[word.rfind("/") + 1 :]
        text = text[len(word) + 1 :]


def is_unknown(word: str) -> bool:
    """Return whether a shell expands a word; ``{a,b}`` and ``{1..9}`` are braces of bash."""
    return bool(_UNKNOWN.search(word)) or ("{" in word and ("," in word or ".." in word))


def _parse(line: str, depth: int) -> ShellLine:
    reader = _Reader(line, depth)
    reader.read()
    commands, certain = [], reader.certain
    for command in reader.commands:
        inner, sure = _strip_prefix(command, depth)
        commands += inner
        certain = certain and sure
    return ShellLine(tuple(commands), certain)


def _strip_prefix(command: ShellCommand, depth: int) -> tuple[list[ShellCommand], bool]:
    """Return a command without keywords and assignments, and those it hands to a shell."""
    words = command.words
    starts = (at for at, word in enumerate(words) if not _precedes_command(word))
    words = words[next(starts, len(words)) :]
    if not words or words[0] in _NO_COMMANDS:
        kept = [ShellCommand((), command.targets)] if command.targets else []
        return kept, "do" not in words  # of "for" without "in"
    found = ShellCommand(words, command.targets)
    certain = words[0] not in _OBSCURE and not _hides_program(words)
    script = _extract_script(found)
    if script is None:
        return [found], certain and not _reads_commands(found)
    if depth >= _MAX_DEPTH:
        return [found], False
    inner = _parse(script, depth + 1)
    return [found, *inner.commands], certain and inner.certain and not is_unknown(script)


def _precedes_command(word: str) -> bool:
    return word in _KEYWORDS or _ASSIGNMENT.match(word) is not None


def _hides_program(words: Sequence[str]) -> bool:
    """Return whether the text does not show which program runs, itself or by wrappers."""
    if len(words) > _MOST_WRAPPED and posixpath.basename(words[0]) in _WRAPPERS:
        return True
    at = 0
    while at < len(words):
        word, name = words[at], posixpath.basename(words[at])
        if is_unknown(word) or word.startswith(("{", "=", "-")):  # bash: {fd}>file; zsh: =program
            return True
        if name == "find":
            pairs = pairwise(words[at:])
            return any(before in _FIND_ACTIONS and is_unknown(one) for before, one in pairs)
        if name not in _WRAPPERS:
            return False
        at = _find_wrapped(words, at + 1)
    return False


def _find_wrapped(words: Sequence[str], at: int) -> int:
    """Return the place of the program that a wrapper runs; the number of words if there is none.

    It is the first word that is neither an option, nor the value of one, an assignment or a
    number; or one that may be anything.
    """
    while at < len(words):
        word, follows_option = words[at], words[at - 1].startswith("-")
        if is_unknown(word) or (word.startswith("-") and any(map(str.isspace, word))):
            return at
        if not (word.startswith("-") or follows_option or _IS_NO_PROGRAM.match(word)):
            return at
        at += 1
    return at


def _extract_script(command: ShellCommand) -> str | None:
    """Return the script that a shell is given as an argument; None when there is none."""
    words = command.words[:_MOST_WRAPPED]
    names = [posixpath.basename(word) for word in words]
    for at, (word, name) in enumerate(zip(words, names, strict=True)):
        rest = command.words[at + 1 :]
        if name == "eval":
            return " ".join(rest[1:] if rest[:1] == ("--",) else rest)
        if name == "trap":
            return next((one for one in rest if one != "--"), None)
        if name in _SHELLS:
            return _read_shell_arguments(rest)[0]
        if name in _LINE_WRAPPERS and (lines := [one for one in rest if _LINE.search(one)]):
            return "\n".join(lines)
        if (split := _SPLIT_STRING.match(word)) and "env" in names[:at]:
            return word[split.end() :] or " ".join(rest)
        if command.program not in _WRAPPERS:
            break
    return None


def _read_shell_arguments(words: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return the script of a shell's ``-c``, and whether it reads its commands from its input."""
    flags, at = "", 0
    while at < len(words) and words[at].startswith(("-", "+")):
        word = words[at]
        at += 1
        if word in ("-", "--"):
            break
        if word.startswith("--"):
            at += word in ("--rcfile", "--init-file")
            continue
        flags += word[1:] if word.startswith("-") else ""
        at += word.lower().count("o")  # each takes the name of an option
    operands = words[at:]
    if "c" in flags:
        return (operands[0] if operands else None), False
    return None, "s" in flags or not operands or operands[0].startswith(("/dev/", "/proc/"))


def _reads_commands(command: ShellCommand) -> bool:
    """Return whether a shell reads commands from its input or from a file."""
    if command.program in (".", "source"):
        return True
    for at, word in enumerate(command.words):
        if posixpath.basename(word) in _SHELLS:
            return _read_shell_arguments(command.words[at + 1 :])[1]
        if command.program not in _WRAPPERS:
            break
    return False


class _Reader:
    """Reads one line into its commands, from left to right."""

    def __init__(self, line: str, depth: int) -> None:
        self.commands: list[ShellCommand] = []
        self.certain = True
        self._line = line
        self._at = 0
        self._depth = depth
        self._words: list[str] = []
        self._targets: list[str] = []
        self._redirects = False
        """The next word is the file of a redirection."""
        self._documents: list[tuple[str, str]] = []
        """Here-documents that begin on the next line: their end, and what may precede it."""

    def read(self, closing: str = "") -> None:
        """Read up to an unquoted ``closing``, or to the end."""
        while self._at < len(self._line):
            sign = self._line[self._at]
            if sign == closing:
                self._at += 1
                break
            self._read_character(sign)
        else:
            self.certain = self.certain and not closing
        self._end_command()

    def _read_character(self, sign: str) -> None:
        match sign:
            case " " | "\t":
                self._at += 1
            case "\\" if self._line.startswith("\n", self._at + 1):  # the line goes on
                self._at += 2
            case "\n":
                self._at += 1
                self._end_command()
                self._skip_documents()
            case ";" | "|" | "&":
                self._at += 1
                self._end_command()
            case "<" | ">":
                self._read_redirection()
            case "(":
                # else a function, an array or arithmetic
                is_group = not self._words and not self._line.startswith("((", self._at)
                self.certain = self.certain and is_group
                self._at += 1
                self._end_command()
                self._read_nested(")")
            case ")":
                self._at += 1
                self.certain = False
                self._end_command()
            case "#":
                end = self._line.find("\n", self._at)
                self._at = end if end >= 0 else len(self._line)
            case _:
                self._end_word(self._read_word())

    def _read_redirection(self) -> None:
        following = self._line[self._at + 1 : self._at + 2]
        if following == "(":  # a substitution: its commands, instead of a file
            self._at += 2
            self._read_nested(")")
            return
        is_numbered = self._line[self._at - 1 : self._at].isdecimal()
        if is_numbered and self._words and self._words[-1].isdecimal():
            self._words.pop()  # a descriptor's number
        if self._line.startswith("<<", self._at) and not self._line.startswith("<<<", self._at):
            indented = self._line.startswith("<<-", self._at)
            self._at += 3 if indented else 2
            self._skip_blanks()
            self._documents.append((self._read_word(), "\t" if indented else ""))
            return
        while self._at < len(self._line) and self._line[self._at] in "<>&|":
            self._at += 1
        if self._line.startswith("\\\n", self._at):
            self.certain = False  # the operator may go on
        self._redirects = True

    def _read_word(self) -> str:
        parts: list[str] = []
        while self._at < len(self._line) and self._line[self._at] not in _WORD_ENDS:
            sign = self._line[self._at]
            self._at += 1
            match sign:
                case "\\":
                    following = self._line[self._at : self._at + 1]
                    parts.append("" if following == "\n" else following)
                    self._at += 1
                case "'":
                    parts.append(self._read_single_quoted())
                case '"':
                    parts.append(self._read_double_quoted())
                case "$" | "`":
                    parts.append(self._read_expansion(sign))
                case _:
                    parts.append(sign)
        return "".join(parts)

    def _read_single_quoted(self) -> str:
        end = self._line.find("'", self._at)
        if end < 0:
            self.certain = False
            end = len(self._line)
        text = self._line[self._at : end]
        self._at = end + 1
        return text

    def _read_double_quoted(self) -> str:
        parts: list[str] = []
        while self._at < len(self._line):
            sign = self._line[self._at]
            self._at += 1
            if sign == '"':
                return "".join(parts)
            if sign == "\\":
                following = self._line[self._at : self._at + 1]
                parts.append(sign if following not in _ESCAPABLE else "")
                parts.append(following if following != "\n" else "")
                self._at += 1
            elif sign in "$`":
                parts.append(self._read_expansion(sign))
            else:
                parts.append(sign)
        self.certain = False
        return "".join(parts)

    def _read_expansion(self, sign: str) -> str:
        """Read an expansion: a variable stays as written, a substitution's commands are read."""
        if sign == "`":
            end = self._line.find("`", self._at)
            inner = self._line[self._at : end if end >= 0 else len(self._line)]
            self._at = end + 1 if end >= 0 else len(self._line)
            if end < 0 or "\\" in inner or self._depth >= _MAX_DEPTH:
                self.certain = False
            else:
                self._merge(_parse(inner, self._depth + 1))
        elif self._line.startswith("(", self._at):
            if self._line.startswith("((", self._at):
                self.certain = False  # arithmetic, mostly
            self._at += 1
            self._read_nested(")")
        elif self._line.startswith(("'", '"', "["), self._at):
            self.certain = False  # escapes of their own, or arithmetic
        elif self._line.startswith("{", self._at):
            plain = _PLAIN_VARIABLE.match(self._line, self._at)
            self.certain = self.certain and plain is not None
        return "$"

    def _read_nested(self, closing: str) -> None:
        """Read the commands of a group or a substitution."""
        if self._depth >= _MAX_DEPTH:
            self.certain = False
            self._at = len(self._line)
            return
        inner = _Reader(self._line, self._depth + 1)
        inner._at = self._at
        inner.read(closing)
        self._at = inner._at
        self._documents += inner._documents
        self.commands += inner.commands
        self.certain = self.certain and inner.certain

    def _merge(self, inner: ShellLine) -> None:
        self.commands += inner.commands
        self.certain = self.certain and inner.certain

    def _skip_blanks(self) -> None:
        while blank := _BLANKS.match(self._line, self._at):
            self._at = blank.end()

    def _skip_documents(self) -> None:
        """Skip the text of here-documents; what the shell would expand in it is not read."""
        for word, indent in self._documents:
            while self._at < len(self._line):
                end = self._line.find("\n", self._at)
                end = end if end >= 0 else len(self._line)
                text = self._line[self._at : end]
                self._at = end + 1
                if (text.lstrip(indent) if indent else text) == word:
                    break
                if "$(" in text or "`" in text or text.endswith("\\"):
                    self.certain = False
            else:
                self.certain = False  # the marker may be another than the one that was read
        self._documents.clear()

    def _end_word(self, word: str) -> None:
        if self._redirects:
            self._redirects = False
            self._targets.append(word)
        else:
            self._words.append(word)

    def _end_command(self) -> None:
        if self._words or self._targets:
            self.commands.append(ShellCommand(tuple(self._words), tuple(self._targets)))
        self._words, self._targets, self._redirects = [], [], False
