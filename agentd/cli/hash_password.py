"""``agentd hash-password``: from a password to what ``AGENTD_ADMIN_PASSWORD_HASH`` holds."""

import argparse

from agentd.access.password import hashed
from agentd.cli.options import Subcommands
from agentd.cli.password import asked

EXAMPLES = """\
examples:
  agentd hash-password                       asks for the password, without showing it
  pass show agentd | agentd hash-password    reads it from standard input
  echo "AGENTD_ADMIN_PASSWORD_HASH='$(agentd hash-password)'" >> .env

The name goes beside it: echo AGENTD_ADMIN_USER=admin >> .env
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    commands.add_parser(
        "hash-password",
        help="print the scrypt hash of a password, for AGENTD_ADMIN_PASSWORD_HASH",
        description="Read a password and print what is kept of it.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Read one password, print its hash."""
    print(hashed(asked("")))
    return 0
