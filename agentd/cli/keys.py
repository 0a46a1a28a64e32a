"""``agentd keys``: the named access keys, whether or not the daemon runs."""

import argparse
import json
import sys

import msgspec

from agentd.access.key import check_name, issue
from agentd.access.service import KeyInfo, described
from agentd.cli.options import Subcommands, layout
from agentd.clock import SystemClock
from agentd.disk.keys import KeyFile
from agentd.errors import Unavailable

EXAMPLES = """\
examples:
  export AGENTD_KEY=$(agentd keys generate laptop)   the key is shown this once
  agentd keys list
  agentd keys regenerate laptop              another key; the one before is refused at once
  agentd keys revoke laptop                  a running daemon refuses it from the next request on
  agentd keys revoke laptop --with-children  ... and the keys that were made with it
  agentd keys reinstate laptop               after an older keys.yml was restored on purpose

keys.yml holds salted hashes only: it is safe to commit, and to edit by hand.
"""

_WORDS = {
    "generate": "make a key for a new name and print it",
    "regenerate": "make another key for a name; the one before is revoked",
    "revoke": "take a key away",
    "reinstate": "accept a revoked key that stands in keys.yml again",
}


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "keys",
        help="make, list and revoke access keys",
        description="Named access keys, one per device or program.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, told in _WORDS.items():
        one = verbs.add_parser(verb, help=told, description=told)
        one.add_argument("name", metavar="NAME", help="the device or program")
        one.add_argument("--json", action="store_true", help="answer in JSON")
        if verb == "revoke":
            with_children = "the keys that it made, too, and those that they made"
            one.add_argument("--with-children", action="store_true", help=with_children)
        one.set_defaults(run=run, verb=verb)
    listing = verbs.add_parser("list", help="list the keys", description="list the keys")
    listing.add_argument("--json", action="store_true", help="answer in JSON")
    listing.set_defaults(run=run, verb="list")


def run(args: argparse.Namespace) -> int:
    """Do one verb."""
    file = KeyFile(layout(args))
    if args.verb == "list":
        _list(file, as_json=args.json)
    elif args.verb in ("generate", "regenerate"):
        _issue(file, args)
    elif args.verb == "revoke":
        _revoke(file, args)
    else:
        file.reinstate(args.name)
        _tell(f"{args.name} is reinstated", {"name": args.name, "reinstated": True}, args.json)
    return 0


def _revoke(file: KeyFile, args: argparse.Namespace) -> None:
    """Revoke a key, and tell which keys it made: whoever had it knows those, too."""
    done = file.revoke(args.name, SystemClock().now(), with_children=args.with_children)
    told = {
        "name": args.name,
        "revoked": True,
        "withChildren": done.revoked,
        "children": done.children,
    }
    text = f"{', '.join(done.revoked)} {'is' if len(done.revoked) == 1 else 'are'} revoked"
    if done.children:
        left = ", ".join(done.children)
        text += f"; still good are the keys that it made: {left} (agentd keys revoke NAME)"
    _tell(text, told, args.json)


def _issue(file: KeyFile, args: argparse.Namespace) -> None:
    """The key goes to standard output, alone on the last line."""
    check_name(args.name)
    key, kept = issue(args.name, SystemClock().now(), "cli")
    if args.verb == "generate":
        file.add(kept)
    else:
        file.renew(kept)
    if args.json:
        print(json.dumps({"name": kept.name, "key": key, "created": kept.created}), flush=True)
    else:
        print(f"{kept.name}: its key is shown this once", file=sys.stderr)
        print(key, flush=True)
    if args.verb == "regenerate":  # it was told: the one before ends, and not earlier
        file.settle(kept.name, kept.sha256, kept.created)


def _list(file: KeyFile, *, as_json: bool) -> None:
    kept = file.read()
    if kept.trouble:
        raise Unavailable("no named key is accepted", kept.trouble)
    keys = described(kept, file.last_used())
    if as_json:
        print(json.dumps(msgspec.to_builtins(keys)))
    elif keys:
        rows = [("NAME", "CREATED", "LAST USED", "MADE BY"), *map(_row, keys)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    else:
        print("no keys; make one with: agentd keys generate NAME", file=sys.stderr)


def _row(key: KeyInfo) -> tuple[str, str, str, str]:
    used = "revoked" if key.revoked else key.last_used or "never"
    return key.name, key.created, used, key.created_by


def _tell(text: str, value: dict[str, object], as_json: bool) -> None:
    if as_json:
        print(json.dumps(value))
    else:
        print(text, file=sys.stderr)
