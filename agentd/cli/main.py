"""The command ``agentd``: one module per command, one table of them."""

import os
import sys
from collections.abc import Sequence

from agentd import __version__
from agentd.cli import (
    approve,
    ask,
    check,
    demo,
    hash_key,
    hash_password,
    init,
    keys,
    licence,
    login_code,
    proxy,
    serve,
    tail,
    users,
)
from agentd.cli.options import Parser
from agentd.errors import AgentdError, BadRequest, Misconfigured

COMMANDS = (
    serve,
    demo,
    ask,
    tail,
    approve,
    keys,
    hash_key,
    users,
    hash_password,
    login_code,
    proxy,
    licence,
    check,
    init,
)

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
    try:
        args = _parser().parse_args(argv)
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


def _parser() -> Parser:
    parser = Parser(
        prog="agentd",
        description="A coding agent behind one well-kept door.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"agentd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def _tell(text: str) -> None:
    print(f"agentd: {text}", file=sys.stderr)
