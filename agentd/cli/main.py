"""The command ``agentd``: one module per command, one table of them."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from typing import Protocol, cast

from agentd import __version__
from agentd.cli.options import Parser, Subcommands
from agentd.errors import AgentdError, BadRequest, Misconfigured

COMMANDS = (
    "serve",
    "demo",
    "ask",
    "tail",
    "approve",
    "keys",
    "hash-key",
    "users",
    "hash-password",
    "login-code",
    "proxy",
    "licence",
    "check",
    "init",
)
"""Each is a module beside this one."""


class Command(Protocol):
    """What such a module has."""

    def add_parser(self, commands: Subcommands) -> None:
        """Tell argparse about the command."""
        ...


OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

EXAMPLES = """\
examples:
  agentd demo                                see it work; needs no configuration
  agentd serve &                             run the daemon on this folder
  export AGENTD_KEY=$(agentd keys generate laptop)
  agentd ask "what is this folder?"          one prompt, its answer
  agentd tail                                what happens in all chats, as it happens
  agentd check                               read every file, tell every mistake

agentd COMMAND --help shows more. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what goes wrong is told on standard error."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output went away; the interpreter must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    return code


def _run(argv: Sequence[str] | None) -> int:
    given = sys.argv[1:] if argv is None else argv
    try:
        args = _parser(_named(given)).parse_args(given)
        code: int = args.run(args)
    except SystemExit as stop:
        # argparse ends so after --help, and after telling what is wrong with the usage.
        code = stop.code if isinstance(stop.code, int) else OK
    except Misconfigured as error:
        for mistake in error.mistakes:
            _tell(str(mistake))
        code = FAILED
    except AgentdError as error:
        _tell(error.message)
        if error.details:
            _tell(error.details)
        code = USAGE if isinstance(error, BadRequest) else FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    return code


def _named(given: Sequence[str]) -> Sequence[str]:
    """The commands that may be meant: only these are imported, or each start would take longer."""
    before = list(takewhile(lambda word: word not in COMMANDS, given))
    if "-h" in before or "--help" in before:
        return COMMANDS
    if "--version" in before:
        return ()
    if len(before) == len(given):
        return COMMANDS
    return [name for name in COMMANDS if name in given]


def _parser(names: Sequence[str]) -> Parser:
    parser = Parser(
        prog="agentd",
        description="A coding agent behind one well-kept door.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"agentd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        module = import_module(f"agentd.cli.{name.replace('-', '_')}")
        cast(Command, module).add_parser(commands)
    return parser


def _tell(text: str) -> None:
    print(f"agentd: {text}", file=sys.stderr)
