"""``agentd hash-password``: from a password to what ``AGENTD_ADMIN_PASSWORD_HASH`` holds."""

import argparse

from agentd.access.password import hashed
from agentd.cli.options import Subcommands
from agentd.cli.password import asked

EXAMPLES = """\
examples:
  agentd hash-password                       asks for the password, without showing it
  pass show agentd | agentd hash-password    reads it from standard input
  echo "admin_password_hash: '$(agentd hash-password)'" >> config/agentd.yml

The name goes beside it: echo "admin_user: admin" >> config/agentd.yml. Instead of the file, the
environment may have both, as AGENTD_ADMIN_USER and AGENTD_ADMIN_PASSWORD_HASH.
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
