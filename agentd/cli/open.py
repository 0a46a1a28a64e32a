"""``agentd open``: a link that signs a person in to the browser interface, once."""

import argparse
import json
import sys

from agentd.auth.sign_in_links import SignInLinks
from agentd.cli.client import find_public_url
from agentd.cli.options import Subcommands, add_json_option, resolve_layout
from agentd.core.clock import SystemClock

EXAMPLES = """\
examples:
  agentd open
  xdg-open "$(agentd open)"
  ssh server agentd open                     then replace the address with the server's

The link works once, within five minutes, and signs in as administrator for 90 days: anyone who can
write the state folder could do as much. The part after the # is a secret until it is used; a
browser sends it only to sign in.
"""


def add_parser(commands: Subcommands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "open",
        help="print a link that opens the browser interface, signed in",
        description="Print a link that signs a person in to the running daemon, once.",
        epilog=EXAMPLES,
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the link alone to standard output."""
    layout = resolve_layout(args)
    link = SignInLinks(layout, SystemClock()).create(find_public_url(layout))
    if args.json:
        print(json.dumps({"link": link}))
        return 0
    print("Open this link once, within five minutes:", file=sys.stderr)
    print(link)
    return 0
