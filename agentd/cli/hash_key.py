"""``agentd hash-key``: print the SHA-256 of a key that the owner chose."""

import argparse
import getpass
import sys
from hashlib import sha256

from agentd.auth.key import MAX_KEY_BYTES
from agentd.cli.options import Subcommands
from agentd.core.errors import BadRequest

EXAMPLES = """\
examples:
  agentd hash-key                            asks for the key, without showing it
  pass show agentd | agentd hash-key         reads it from standard input
  echo "AGENT_API_KEY=$(agentd hash-key)" >> .env

A long random key is best: openssl rand -hex 32
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    commands.add_parser(
        "hash-key",
        help="print the SHA-256 of a key, for AGENT_API_KEY or PROXY_APP_HASH",
        description="Read a key and print its SHA-256 in lowercase hexadecimal digits.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Read a key and print its hash."""
    key = getpass.getpass("key: ") if sys.stdin.isatty() else _read_stdin()
    if not key:
        raise BadRequest("no key was given")
    if len(key) > MAX_KEY_BYTES:
        raise BadRequest(f"the key is longer than {MAX_KEY_BYTES} characters")
    if not (key.isascii() and key.isprintable() and key.strip() == key and "," not in key):
        raise BadRequest(
            "the key cannot be sent in a header: use visible ASCII characters,"
            " no comma, and no blank at either end"
        )
    print(sha256(key.encode()).hexdigest())
    return 0


def _read_stdin() -> str:
    """Return standard input without its final line break."""
    data = sys.stdin.buffer.read(MAX_KEY_BYTES + 3)
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
