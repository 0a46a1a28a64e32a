"""The command ``agentd``: a table of commands, each with a module of its own."""

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from typing import Protocol, cast

from agentd import __version__
from agentd.cli.options import Parser, Subcommands
from agentd.cli.output import print_foreign
from agentd.core.errors import AgentdError, BadRequest, ConfigError

COMMANDS = (
    "serve",
    "demo",
    "ask",
    "tail",
    "approve",
    "schedules",
    "mcp",
    "mcp-servers",
    "hooks",
    "acp",
    "keys",
    "hash-key",
    "users",
    "hash-password",
    "login-code",
    "open",
    "tls",
    "proxy",
    "licence",
    "check",
    "init",
)
"""Each is a module beside this one."""


class Command(Protocol):
    """The interface of each command's module."""

    def add_parser(self, commands: Subcommands) -> None:
        """Register the command with argparse."""
        ...


OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

_OUTPUT_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""Errors of a write that may be that of our own output."""

EXAMPLES = """\
examples:
  agentd demo                                try it; needs no configuration
  agentd serve &                             run the daemon on this folder
  agentd open                                print a link to its pages, signed in
  export AGENTD_KEY=$(agentd keys generate laptop)
  agentd ask "what is this folder?"          send one prompt, print the reply
  agentd tail                                follow what happens in all chats
  agentd check                               report every problem of every file

agentd COMMAND --help shows more. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed on standard error."""
    _replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale that has no "…" must not end a command
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(argv)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        # The interpreter must not try to flush our output again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # its reader has left, as `head` does
            _print_error(f"standard output cannot be written: {os.strerror(error.errno)}")
        code = FAILED
    return code


def _replace_closed_streams() -> None:
    """Open the standard streams that the caller closed (``>&-``), which Python leaves out.

    No other file can then get their numbers. Input is at its end, errors are lost, and printing
    fails: a key that nobody can read must not pass for one that was printed.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:  # each gets the lowest free number: its own
        os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
        if number == 0:
            sys.stdin = os.fdopen(number, closefd=False)
        elif number == 1:
            sys.stdout = os.fdopen(number, "w", closefd=False)
        else:
            sys.stderr = os.fdopen(number, "w", closefd=False)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        args = _build_parser(_find_commands(words)).parse_args(words)
        code: int = args.run(args)
    except SystemExit as stop:
        # argparse exits so after --help and after reporting wrong usage.
        code = stop.code if isinstance(stop.code, int) else OK
    except ConfigError as error:
        for problem in error.problems:
            _print_error(str(problem))
        code = FAILED
    except AgentdError as error:
        _print_error(error.message)
        if error.details:
            _print_error(error.details)
        code = USAGE if isinstance(error, BadRequest) else FAILED
    except UnicodeEncodeError:
        if all(map(_is_text, words)):
            raise
        _print_error("an argument is not text in the encoding of this locale")
        code = USAGE
    except KeyboardInterrupt:
        code = INTERRUPTED
    return code


def _is_text(word: str) -> bool:
    """Return whether an argument has no bytes that could not be decoded."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_commands(words: Sequence[str]) -> Sequence[str]:
    """Return the commands that may be meant: only these are imported, for a quick start."""
    before = list(takewhile(lambda word: word not in COMMANDS, words))
    if "-h" in before or "--help" in before:
        return COMMANDS
    if "--version" in before:
        return ()
    if len(before) == len(words):
        return COMMANDS
    return [name for name in COMMANDS if name in words]


def _build_parser(names: Sequence[str]) -> Parser:
    parser = Parser(
        prog="agentd",
        description="One daemon for a coding agent and a gateway to language models.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"agentd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        module = import_module(f"agentd.cli.{name.replace('-', '_')}")
        cast(Command, module).add_parser(commands)
    return parser


def _print_error(text: str) -> None:
    print_foreign(f"agentd: {text}", sys.stderr)
