"""``agentd proxy alert``: the gateway's alerts, and who is notified."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, get_args
from urllib.parse import quote

from agentd.cli.client import Client
from agentd.cli.management_key import add_daemon_options, open_management
from agentd.cli.options import Parser, Subcommands, to_sentence
from agentd.cli.output import excerpt, print_result, print_table
from agentd.core.errors import BadRequest
from agentd.gateway.alerts.model import AlertKind, TargetKind
from agentd.storage import document

EXAMPLES = """\
examples:
  agentd proxy alert list                    what holds now, and the last alerts
  agentd proxy alert targets                 who is notified
  agentd proxy alert add ops --address-file hook.url --secret-file hook.secret \\
      --alert channel_down --alert limit_hit
                                             a signed webhook; the files have one line each
  agentd proxy alert add phone --kind telegram --bot my-bot --chat 123456789
  agentd proxy alert test ops                sends a message, and shows the answer
  agentd proxy alert remove ops

The running daemon does this for the holder of the management key. Addresses and secrets are read
from private files (chmod 600), because other users of this machine can see options.
"""

_MAX_LINE = 10_000
_TARGETS = "/api/agent/alert-targets"


def add_parser(parts: Subcommands) -> None:
    """Register the command with argparse."""
    description = "list alerts, and manage who is notified"
    parser = parts.add_parser(
        "alert", help=description, description=to_sentence(description), epilog=EXAMPLES
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = _add_verb(verbs, "list", "show what holds now, and the last alerts", _list)
    listing.add_argument("--limit", type=int, default=20, help="at most so many; default: 20")
    _add_verb(verbs, "targets", "list who is notified of alerts", _list_targets)
    _add_fields(_add_verb(verbs, "add", "add a target of alerts", _add, named=True))
    _add_verb(verbs, "test", "send a test message to a target", _test, named=True)
    _add_verb(verbs, "enable", "notify a target again", _make_switch("enable"), named=True)
    _add_verb(verbs, "disable", "stop notifying a target", _make_switch("disable"), named=True)
    _add_verb(verbs, "remove", "remove a target", _remove, named=True)


def _add_verb(
    verbs: Subcommands,
    name: str,
    description: str,
    action: Callable[[Client, argparse.Namespace], int],
    *,
    named: bool = False,
) -> Parser:
    parser = verbs.add_parser(name, help=description, description=to_sentence(description))
    if named:
        parser.add_argument("name", metavar="NAME", help="name of the target")
    add_daemon_options(parser)

    def run(args: argparse.Namespace) -> int:
        with open_management(args) as client:
            return action(client, args)

    parser.set_defaults(run=run)
    return parser


def _add_fields(parser: Parser) -> None:
    parser.add_argument(
        "--kind", choices=get_args(TargetKind), default="webhook", help="default: webhook"
    )
    parser.add_argument("--address-file", metavar="FILE", help="file with the address")
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="file with what signs a webhook (whsec_...), or the bearer token of text",
    )
    parser.add_argument("--bot", default="", help="of Telegram: id of the bot that sends it")
    parser.add_argument("--chat", type=int, help="of Telegram: id of the conversation")
    parser.add_argument(
        "--alert",
        action="append",
        default=[],
        choices=get_args(AlertKind),
        help="notify it of this; repeatable; default: of all",
    )
    parser.add_argument(
        "--local", action="store_true", help="the address is on this machine or its network"
    )


def _list(client: Client, args: argparse.Namespace) -> int:
    found = client.request("GET", f"/api/agent/alerts?limit={args.limit}")
    if args.json:
        print(json.dumps(found))
        return 0
    for one in found["firing"]:
        subject = f" ({one['subject']})" if one["subject"] else ""
        print(excerpt(f"now: {one['kind']}{subject} since {one['since']}: {one['text']}"))
    rows = [_format_alert(one) for one in found["items"]]
    if rows:
        print_table([("AT", "KIND", "STATE", "TOLD", "TEXT"), *rows])
    if not found["watched"]:
        print("nobody is notified: agentd proxy alert add NAME ...", file=sys.stderr)
    return 0


def _format_alert(alert: dict[str, Any]) -> tuple[str, ...]:
    deliveries = ", ".join(f"{one['target']}: {one['state']}" for one in alert["deliveries"])
    return alert["at"], alert["kind"], alert["state"], deliveries, excerpt(alert["text"])


def _list_targets(client: Client, args: argparse.Namespace) -> int:
    found = client.list_managed("alert-targets")
    if args.json:
        print(json.dumps(found))
    for one in () if args.json else found:
        state = "on" if one["enabled"] else "off"
        where = one["url"] or f"{one['bot']}, chat {one['chat']}"
        alerts = ", ".join(one["alerts"]) or "all"
        print(excerpt(f"{one['name']}: {state}, {one['kind']} to {where} (alerts: {alerts})"))
    if not found and not args.json:
        print("no targets; add one with: agentd proxy alert add NAME ...", file=sys.stderr)
    return 0


def _add(client: Client, args: argparse.Namespace) -> int:
    target = {
        "name": args.name,
        "kind": args.kind,
        "url": _read_line(args.address_file),
        "secret": _read_line(args.secret_file),
        "bot": args.bot,
        "chat": args.chat,
        "alerts": args.alert,
        "local": args.local,
    }
    made = client.request("POST", _TARGETS, target)
    print_result(
        f"target {args.name} added; agentd proxy alert test {args.name} tries it",
        made,
        as_json=args.json,
    )
    return 0


def _test(client: Client, args: argparse.Namespace) -> int:
    result = client.request("POST", f"{_TARGETS}/{quote(args.name, safe='')}/test")
    outcome = "was notified" if result["ok"] else "could not be notified"
    answer = " ".join(str(part) for part in (result["status"], result["answer"]) if part)
    text = excerpt(f"target {args.name} {outcome}: {answer}")
    print_result(text, result, as_json=args.json)
    return 0 if result["ok"] else 1


def _make_switch(action: str) -> Callable[[Client, argparse.Namespace], int]:
    def switch(client: Client, args: argparse.Namespace) -> int:
        changed = client.request("POST", f"{_TARGETS}/{quote(args.name, safe='')}/{action}")
        print_result(f"target {args.name} {action}d", changed, as_json=args.json)
        return 0

    return switch


def _remove(client: Client, args: argparse.Namespace) -> int:
    client.request("DELETE", f"{_TARGETS}/{quote(args.name, safe='')}")
    print_result(f"target {args.name} removed", {"name": args.name}, as_json=args.json)
    return 0


def _read_line(path: str | None) -> str:
    """Return what a file of the person has; empty without a file."""
    if path is None:
        return ""
    found = document.read_document(path, _MAX_LINE, private=True)
    if found is None:
        raise BadRequest(f"{path} does not exist")
    return found.data.decode("utf-8", "replace").strip()
