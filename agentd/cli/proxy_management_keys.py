"""``agentd proxy management-key``: the named management keys, with or without a daemon."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, get_args

import msgspec
from msgspec import structs

from agentd.auth.key import check_name
from agentd.auth.key_store import LastUsedJson
from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import print_result, print_table
from agentd.core.clock import SystemClock
from agentd.core.errors import AgentdError
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.management_keys.model import ManagementKey, issue_management_key
from agentd.http.access import ManagementScope
from agentd.storage.json_document import read_json
from agentd.storage.layout import Layout

EXAMPLES = """\
examples:
  agentd proxy management-key add monitor --scope read     reads what shows no secrets
  agentd proxy management-key add onboarding --scope keys  reads and changes access keys only
  agentd proxy management-key add deployer --scope all     may do everything
  agentd proxy management-key list
  agentd proxy management-key remove monitor     a running daemon refuses it at once

Programs send the key as X-API-Key to /api/agent. management-keys.yml in the state folder holds
hashes only and may be edited by hand; comments are preserved.
"""

_MAX_USES = 1024 * 1024


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "management-key",
        help="make, list and remove management keys",
        description="Manage the keys with which programs manage the model gateway.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, description, action in (
        ("add", "make a key and print it", _add),
        ("list", "list the keys", _list),
        ("scope", "change what a key may do", _change_scope),
        ("enable", "accept a disabled key again", _enable),
        ("disable", "refuse a key until it is enabled", _disable),
        ("remove", "remove a key", _remove),
        ("reinstate", "accept a removed key again that a backup brought back", _reinstate),
    ):
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb != "list":
            one.add_argument("name", metavar="NAME", help="name of the program that uses it")
        if verb in ("add", "scope"):
            one.add_argument(
                "--scope",
                required=True,
                choices=get_args(ManagementScope),
                help="read: all that shows no secrets; keys: access keys only; all: everything",
            )
        add_json_option(one)
        one.set_defaults(run=run, action=action)


def run(args: argparse.Namespace) -> int:
    """Run one verb."""
    layout = resolve_layout(args)
    action: Callable[[Layout, ManagementKeyFile, argparse.Namespace], None] = args.action
    action(layout, ManagementKeyFile(layout), args)
    return 0


def _add(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    """Make a key and print it, alone on the last line of standard output."""
    check_name(args.name)
    secret, key = issue_management_key(args.name, args.scope, SystemClock().now(), "cli")
    file.add(key)
    if args.json:
        print(json.dumps({**_to_json(key), "key": secret}), flush=True)
        return
    print(f"{key.name}: the key is shown only now", file=sys.stderr)
    print(secret, flush=True)


def _list(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    contents = file.load()
    for problem in contents.problems:
        print(f"agentd: {problem}", file=sys.stderr)
    uses = _load_uses(layout)
    if args.json:
        listed = ({**_to_json(key), "last_used": uses.get(key.sha256)} for key in contents.keys)
        print(json.dumps(list(listed)))
    elif contents.keys:
        rows = [
            (
                key.name,
                key.scope,
                "enabled" if key.enabled else "disabled",
                uses.get(key.sha256, "never"),
                key.created_by or "unknown",
            )
            for key in contents.keys
        ]
        print_table([("NAME", "SCOPE", "STATE", "LAST USED", "MADE BY"), *rows])
    else:
        print(
            "no management keys; make one with: agentd proxy management-key add NAME --scope read",
            file=sys.stderr,
        )


def _change_scope(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    key = file.change(args.name, lambda old: structs.replace(old, scope=args.scope))
    _print_key(key, f"has the scope {key.scope}", args)


def _enable(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    key = file.change(args.name, lambda old: structs.replace(old, enabled=True))
    _print_key(key, "is enabled", args)


def _disable(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    key = file.change(args.name, lambda old: structs.replace(old, enabled=False))
    _print_key(key, "is disabled", args)


def _remove(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    _print_key(file.remove(args.name, at=SystemClock().now()), "is removed", args)


def _reinstate(layout: Layout, file: ManagementKeyFile, args: argparse.Namespace) -> None:
    file.reinstate(args.name)
    result = {"name": args.name, "reinstated": True}
    print_result(f"management key {args.name} is accepted again", result, as_json=args.json)


def _load_uses(layout: Layout) -> dict[str, str]:
    try:
        return read_json(layout.management_keys_used, LastUsedJson, _MAX_USES).last_used
    except AgentdError:
        return {}


def _to_json(key: ManagementKey) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(key)
    return {
        "name": key.name,
        "scope": key.scope,
        "enabled": key.enabled,
        **{name: fields[name] for name in ("created", "created_by") if name in fields},
    }


def _print_key(key: ManagementKey, outcome: str, args: argparse.Namespace) -> None:
    print_result(f"management key {key.name} {outcome}", _to_json(key), as_json=args.json)
