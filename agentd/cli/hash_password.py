"""``agentd hash-password``: print the hash of a password for ``AGENTD_ADMIN_PASSWORD_HASH``."""

import argparse

from agentd.auth.password import hash_password
from agentd.cli.options import Subcommands
from agentd.cli.password import read_new_password

EXAMPLES = """\
examples:
  agentd hash-password                       asks for the password, without showing it
  pass show agentd | agentd hash-password    reads it from standard input
  echo "admin_password_hash: '$(agentd hash-password)'" >> config/agentd.yml

The administrator's name goes beside it: echo "admin_user: admin" >> config/agentd.yml. Both can be
set in the environment instead, as AGENTD_ADMIN_USER and AGENTD_ADMIN_PASSWORD_HASH.
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    commands.add_parser(
        "hash-password",
        help="print the scrypt hash of a password, for AGENTD_ADMIN_PASSWORD_HASH",
        description="Read a password and print its salted scrypt hash.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Read a password and print its hash."""
    print(hash_password(read_new_password()))
    return 0
