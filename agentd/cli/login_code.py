"""``agentd login-code``: a code by which a person signs in to the browser interface, once."""

import argparse
import getpass
import json
import sys

from agentd.access.key import LONGEST
from agentd.cli.client import Client, daemon_url
from agentd.cli.options import Subcommands, layout
from agentd.disk import document
from agentd.errors import BadRequest, Unauthorized

EXAMPLES = """\
examples:
  agentd login-code                          asks for the management key, without showing it
  agentd login-code --key-file ~/.agentd-management-key
  pass show agentd/management | agentd login-code --json | jq -r .code

The code is good for five minutes and once; it signs in as administrator, for 90 days. It is asked
of the running daemon with the management key, of which the daemon knows only the SHA-256
(PROXY_APP_HASH): so the key is typed, piped, or read from a file that nobody else may read, and
never taken from the command line or the environment, where other programs can see it.
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "login-code",
        help="a one-time code for signing in to the browser interface",
        description="Print a code that signs a person in as administrator, once.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--key-file", metavar="FILE", help="holds the management key")
    parser.add_argument("--url", default="", help="the daemon's address, if it is not this state's")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The code goes to standard output, alone."""
    url = args.url or daemon_url(layout(args))
    key = _from(args.key_file) if args.key_file else _asked()
    if not (key and key.isascii() and key.isprintable()):
        raise BadRequest("this is no management key: expected visible ASCII characters")
    with Client(url, key) as client:
        try:
            made = client.login_code()
        except Unauthorized as error:
            raise Unauthorized(
                error.message, "It is the key whose SHA-256 (agentd hash-key) is PROXY_APP_HASH."
            ) from error
    if args.json:
        print(json.dumps(made))
        return 0
    print(f"Enter it once, before {made['expiresAt']}:", file=sys.stderr)
    print(made["code"])
    return 0


def _from(path: str) -> str:
    found = document.read(path, LONGEST + 2, private=True)
    if found is None:
        raise BadRequest(f"there is no file {path}")
    return found.data.decode("utf-8", "replace").strip()


def _asked() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("management key: ")
    return sys.stdin.buffer.read(LONGEST + 3).decode("utf-8", "replace").strip()
