"""``agentd login-code``: a one-time code with which a person signs in to the browser interface."""

import argparse
import getpass
import json
import sys

from agentd.auth.key import MAX_KEY_BYTES
from agentd.cli.client import Client, find_daemon_url
from agentd.cli.options import Subcommands, add_json_option, add_url_option, resolve_layout
from agentd.core.errors import BadRequest, Unauthorized
from agentd.storage import document

EXAMPLES = """\
examples:
  agentd login-code                          asks for the management key, without showing it
  agentd login-code --key-file ~/.agentd-management-key
  pass show agentd/management | agentd login-code --json | jq -r .code

The code works once, within five minutes, and signs in as administrator for 90 days. The running
daemon issues it to the holder of the management key, of which it knows only the SHA-256
(PROXY_APP_HASH). The key is typed, piped, or read from a private file; never pass it on the command
line or in the environment, where other programs can see it.
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "login-code",
        help="print a one-time code for signing in to the browser interface",
        description="Print a one-time code that signs a person in as administrator.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--key-file", metavar="FILE", help="file with the management key")
    add_url_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the code, alone on standard output."""
    url = args.url or find_daemon_url(resolve_layout(args))
    key = _read_file(args.key_file) if args.key_file else _read_key()
    if not (key and key.isascii() and key.isprintable()):
        raise BadRequest("the management key must consist of visible ASCII characters")
    with Client(url, key) as client:
        try:
            login = client.create_login_code()
        except Unauthorized as error:
            raise Unauthorized(
                error.message, "Expected the key whose SHA-256 (agentd hash-key) is PROXY_APP_HASH."
            ) from error
    if args.json:
        print(json.dumps(login))
        return 0
    print(f"Enter it once, before {login['expiresAt']}:", file=sys.stderr)
    print(login["code"])
    return 0


def _read_file(path: str) -> str:
    found = document.read_document(path, MAX_KEY_BYTES + 2, private=True)
    if found is None:
        raise BadRequest(f"{path} does not exist")
    return found.data.decode("utf-8", "replace").strip()


def _read_key() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("management key: ")
    return sys.stdin.buffer.read(MAX_KEY_BYTES + 3).decode("utf-8", "replace").strip()
