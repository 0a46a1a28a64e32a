"""``agentd keys``: the named API keys, whether or not the daemon runs."""

import argparse
import json
import sys

import msgspec

from agentd.auth.key import AccessKeyRef, check_name, issue_key
from agentd.auth.key_service import KeyInfo, describe_keys
from agentd.auth.key_store import KeyFile
from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import print_result, print_table
from agentd.core.clock import SystemClock
from agentd.core.errors import Unavailable
from agentd.gateway.keys.file import AccessKeyFile

EXAMPLES = """\
examples:
  export AGENTD_KEY=$(agentd keys generate laptop)   the key is shown only now
  agentd keys generate ci --no-answers       a key that cannot decide what agents ask people
  agentd keys list
  agentd keys regenerate laptop              a new key; the old one is refused at once
  agentd keys revoke laptop                  a running daemon refuses it from the next request on
  agentd keys revoke laptop --with-children  also the keys that were made with it, including the
                                             model gateway's access keys
  agentd keys reinstate laptop               after restoring an older keys.yml on purpose

keys.yml holds salted hashes only: it is safe to commit and to edit by hand.
"""

_VERBS = {
    "generate": "make a key for a new name and print it",
    "regenerate": "make a new key for a name; the old one is revoked",
    "revoke": "revoke a key",
    "reinstate": "accept a revoked key again that keys.yml contains",
}


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "keys",
        help="make, list and revoke API keys",
        description="Manage the named API keys, one per device or program.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, description in _VERBS.items():
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        one.add_argument("name", metavar="NAME", help="name of the device or program")
        add_json_option(one)
        if verb == "generate":
            one.add_argument(
                "--no-answers",
                dest="answers",
                action="store_false",
                help="the key may not decide what agents ask people",
            )
        if verb == "revoke":
            one.add_argument(
                "--with-children",
                action="store_true",
                help="also revoke the keys that were made with it, including access keys",
            )
        one.set_defaults(run=run, verb=verb)
    listing = verbs.add_parser("list", help="list the keys", description="List the keys.")
    add_json_option(listing)
    listing.set_defaults(run=run, verb="list")


def run(args: argparse.Namespace) -> int:
    """Run one verb."""
    layout = resolve_layout(args)
    file = KeyFile(layout, AccessKeyFile(layout))
    if args.verb == "list":
        _list(file, as_json=args.json)
    elif args.verb in ("generate", "regenerate"):
        _issue(file, args)
    elif args.verb == "revoke":
        _revoke(file, args)
    else:
        file.reinstate(args.name)
        result = {"name": args.name, "reinstated": True}
        print_result(f"{args.name} is accepted again", result, as_json=args.json)
    return 0


def _revoke(file: KeyFile, args: argparse.Namespace) -> None:
    """Revoke a key, and list the keys made with it: its holder knows those, too."""
    revoked = file.revoke(args.name, SystemClock().now(), with_children=args.with_children)
    result = {
        "name": args.name,
        "revoked": True,
        "withChildren": revoked.revoked,
        "children": revoked.children,
        "revokedAccessKeys": msgspec.to_builtins(revoked.revoked_access_keys),
        "accessKeys": msgspec.to_builtins(revoked.access_keys),
    }
    text = f"{', '.join(revoked.revoked)} {'is' if len(revoked.revoked) == 1 else 'are'} revoked"
    if revoked.revoked_access_keys:
        text += f", as well as the access keys {_format_names(revoked.revoked_access_keys)}"
    if revoked.children:
        left = ", ".join(revoked.children)
        text += f"; keys made with it that remain valid: {left} (agentd keys revoke NAME)"
    if revoked.access_keys:
        left = _format_names(revoked.access_keys)
        text += f"; access keys that remain valid: {left} (agentd proxy key remove KEY)"
    print_result(text, result, as_json=args.json)


def _format_names(keys: tuple[AccessKeyRef, ...]) -> str:
    return ", ".join(f"{key.name} ({key.id})" for key in keys)


def _issue(file: KeyFile, args: argparse.Namespace) -> None:
    """Make a key and print it, alone on the last line of standard output."""
    check_name(args.name)
    at = SystemClock().now()
    if args.verb == "generate":
        secret, key = issue_key(args.name, at, "cli", answers=args.answers)
        file.add(key)
    else:
        secret, key = issue_key(args.name, at, "cli")
        file.renew(key)
    if args.json:
        print(json.dumps({"name": key.name, "key": secret, "created": key.created}), flush=True)
    else:
        print(f"{key.name}: the key is shown only now", file=sys.stderr)
        print(secret, flush=True)
    if args.verb == "regenerate":  # the old key ends only after the new one was printed
        file.complete_renewal(key.name, key.sha256, key.created)


def _list(file: KeyFile, *, as_json: bool) -> None:
    contents = file.read()
    if contents.problem:
        raise Unavailable("no named key is accepted", contents.problem)
    keys = describe_keys(contents, file.load_last_used(), file.load_access_keys())
    if as_json:
        print(json.dumps(msgspec.to_builtins(keys)))
    elif keys:
        head = ("NAME", "ANSWERS", "CREATED", "LAST USED", "MADE BY")
        print_table([head, *map(_format_row, keys)])
    else:
        print("no keys; make one with: agentd keys generate NAME", file=sys.stderr)


def _format_row(key: KeyInfo) -> tuple[str, ...]:
    used = "revoked" if key.revoked else key.last_used or "never"
    return key.name, "yes" if key.answers else "no", key.created, used, key.created_by
