"""``agentd hash-key``: from a key of the owner's choice to its hash for ``AGENT_API_KEY``."""

import argparse
import getpass
import sys
from hashlib import sha256

from agentd.access.key import LONGEST
from agentd.cli.options import Subcommands
from agentd.errors import BadRequest

EXAMPLES = """\
examples:
  agentd hash-key                            asks for the key, without showing it
  pass show agentd | agentd hash-key         reads it from standard input
  echo "AGENT_API_KEY=$(agentd hash-key)" >> .env

A long random key is best: openssl rand -hex 32
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    commands.add_parser(
        "hash-key",
        help="print the SHA-256 of a key, for AGENT_API_KEY",
        description="Read a key and print its SHA-256 in lowercase hexadecimal digits.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Read one key, print its hash."""
    key = getpass.getpass("key: ") if sys.stdin.isatty() else _line()
    if not key:
        raise BadRequest("no key was given")
    if len(key) > LONGEST:
        raise BadRequest(f"the key is longer than {LONGEST} characters")
    if not (key.isascii() and key.isprintable() and key.strip() == key and "," not in key):
        raise BadRequest(
            "a key travels in a header: it must be of visible ASCII characters,"
            " without a comma, and without blanks at its ends"
        )
    print(sha256(key.encode()).hexdigest())
    return 0


def _line() -> str:
    """Standard input without the line break at its end."""
    data = sys.stdin.buffer.read(LONGEST + 3)
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
