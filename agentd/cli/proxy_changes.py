"""``agentd proxy changes``, ``batch`` and ``reprice``: changes that the daemon makes and undoes."""

import argparse
import json
import sys
from datetime import date
from typing import Any, get_args
from urllib.parse import urlencode

from agentd.cli.management_key import add_daemon_options, open_management
from agentd.cli.options import Parser, Subcommands, to_sentence
from agentd.cli.output import excerpt, print_result, print_table
from agentd.gateway.admin.api.batches import BatchAction

CHANGES_EXAMPLES = """\
examples:
  agentd proxy changes list --resource models --limit 5 --key-file ~/.agentd-management-key
  agentd proxy changes undo 17 --dry-run     whether it can be undone; without --dry-run it is

Changes by the API and the browser, and those of commands that are given the management key, are in
this journal. What a person or another command edits in the files is not. The running daemon reads
and undoes them for the holder of the management key.
"""

BATCH_EXAMPLES = """\
examples:
  agentd proxy batch disable channels openai azure --dry-run
  agentd proxy batch disable channels openai azure
                                             all or none, as one change that is undone as one
  agentd proxy batch delete keys old-laptop old-phone

The running daemon does this for the holder of the management key.
"""

REPRICE_EXAMPLES = """\
examples:
  agentd proxy reprice plan --from 2026-01-01 --to 2026-01-31
                                             what the requests would cost; changes nothing
  agentd proxy reprice apply --from 2026-01-01 --to 2026-01-31 --prices catalogue
                                             by the catalogue's prices of each request's day

The first cost of each request is kept. At most 92 days at once; days are UTC. The running daemon
does this for the holder of the management key.
"""


def add_changes_parser(parts: Subcommands) -> None:
    """Register ``agentd proxy changes`` with argparse."""
    verbs = _add_group(parts, "changes", "list and undo changes of the gateway", CHANGES_EXAMPLES)
    listing = _add_verb(verbs, "list", "list who changed what, the newest first")
    for name in ("resource", "name", "action", "by"):
        listing.add_argument(f"--{name}", default="", help=f"only this {name}")
    listing.add_argument("--limit", type=int, default=50, help="at most so many; default: 50")
    listing.set_defaults(run=_list_changes)
    undoing = _add_verb(verbs, "undo", "undo a change, unless it was changed again since")
    undoing.add_argument("number", type=int, metavar="NUMBER", help="number of the change")
    undoing.add_argument("--dry-run", action="store_true", help="only say whether it can be done")
    undoing.set_defaults(run=_undo_change)


def add_batch_parser(parts: Subcommands) -> None:
    """Register ``agentd proxy batch`` with argparse."""
    verbs = _add_group(parts, "batch", "change several at once, with one undo", BATCH_EXAMPLES)
    for action in get_args(BatchAction):
        one = _add_verb(verbs, action, f"{action} several, all or none")
        one.add_argument("resource", choices=("channels", "models", "keys"), help="what they are")
        one.add_argument("names", nargs="+", metavar="NAME", help="names; of keys also ids")
        one.add_argument("--dry-run", action="store_true", help="only show what would change")
        one.set_defaults(run=_change_batch, action=action)


def add_reprice_parser(parts: Subcommands) -> None:
    """Register ``agentd proxy reprice`` with argparse."""
    what = "price recorded requests again"
    verbs = _add_group(parts, "reprice", what, REPRICE_EXAMPLES)
    for verb, description in (
        ("plan", "show what recorded requests would cost"),
        ("apply", "price recorded requests again"),
    ):
        one = _add_verb(verbs, verb, description)
        for option, which in (("from", "first"), ("to", "last")):
            one.add_argument(
                f"--{option}",
                dest=which,
                type=date.fromisoformat,
                required=True,
                metavar="DAY",
                help=f"the {which} day, such as 2026-01-31",
            )
        one.add_argument(
            "--prices",
            choices=("current", "catalogue"),
            default="current",
            help="the models' prices, or the catalogue's of each day; default: current",
        )
        one.set_defaults(run=_reprice, dry_run=verb == "plan")


def _add_group(parts: Subcommands, name: str, description: str, epilog: str) -> Subcommands:
    parser = parts.add_parser(
        name, help=description, description=to_sentence(description), epilog=epilog
    )
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def _add_verb(verbs: Subcommands, name: str, description: str) -> Parser:
    parser = verbs.add_parser(name, help=description, description=to_sentence(description))
    add_daemon_options(parser)
    return parser


def _list_changes(args: argparse.Namespace) -> int:
    wanted = {name: getattr(args, name) for name in ("resource", "name", "action", "by")}
    query = urlencode({"limit": args.limit} | {key: one for key, one in wanted.items() if one})
    with open_management(args) as client:
        found: list[dict[str, Any]] = client.request("GET", f"/api/agent/changes?{query}")["items"]
    if args.json:
        print(json.dumps(found))
    elif found:
        head = ("NUMBER", "AT", "BY", "ACTION", "RESOURCE", "NAME")
        print_table([head, *(_format_change(one) for one in found)])
    else:
        print("no changes", file=sys.stderr)
    return 0


def _format_change(change: dict[str, Any]) -> tuple[str, ...]:
    undoes = f" {change['undoes']}" if change.get("undoes") else ""
    names = ("at", "by", "action", "resource", "name")
    at, by, action, resource, name = (excerpt(str(change[one])) for one in names)
    return str(change["number"]), at, by, f"{action}{undoes}", resource, name


def _undo_change(args: argparse.Namespace) -> int:
    path = f"/api/agent/changes/{args.number}/undo?dry_run={str(args.dry_run).lower()}"
    with open_management(args) as client:
        done = client.request("POST", path)
    text = (
        f"change {args.number} can be undone"
        if args.dry_run
        else (f"change {args.number} is undone, by change {done['number']}")
    )
    print_result(text, done, as_json=args.json)
    return 0


def _change_batch(args: argparse.Namespace) -> int:
    path = f"/api/agent/{args.resource}/batch?dry_run={str(args.dry_run).lower()}"
    with open_management(args) as client:
        done = client.request("POST", path, {"action": args.action, "names": args.names})
    changed, number = ", ".join(done["changed"]) or "none", done["change"]
    if args.dry_run:
        text = f"{args.action} would change: {changed}"
    else:
        undo = f"; agentd proxy changes undo {number} undoes it" if number else ""
        text = f"{args.action} changed: {changed}{undo}"
    print_result(text, done, as_json=args.json)
    return 0


def _reprice(args: argparse.Namespace) -> int:
    path = f"/api/agent/requests/reprice?dry_run={str(args.dry_run).lower()}"
    span = {"from": str(args.first), "to": str(args.last), "prices": args.prices}
    with open_management(args) as client:
        found = client.request("POST", path, span)
    text = f"{found['changed']} requests cost {found['after']} USD, before {found['before']} USD"
    if found["change"]:
        text += f"; agentd proxy changes undo {found['change']} undoes it"
    print_result(f"{text}; nothing was changed" if args.dry_run else text, found, as_json=args.json)
    return 0
