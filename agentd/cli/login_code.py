"""``agentd login-code``: a one-time code with which a person signs in to the browser interface."""

import argparse
import json
import sys

from agentd.cli.client import Client, find_daemon_url
from agentd.cli.management_key import (
    add_key_file_option,
    explain_refused_key,
    read_management_key,
)
from agentd.cli.options import Subcommands, add_json_option, add_url_option, resolve_layout

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
    add_key_file_option(parser)
    add_url_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the code, alone on standard output."""
    url = args.url or find_daemon_url(resolve_layout(args))
    with Client(url, read_management_key(args.key_file)) as client, explain_refused_key():
        login = client.create_login_code()
    if args.json:
        print(json.dumps(login))
        return 0
    print(f"Enter it once, before {login['expiresAt']}:", file=sys.stderr)
    print(login["code"])
    return 0
