"""``agentd users``: manage the people who may sign in, whether or not the daemon runs."""

import argparse
import json
import sys
from contextlib import suppress

from agentd.auth.key_store import KeyFile
from agentd.auth.password import hash_password
from agentd.auth.roles import User, is_user_name
from agentd.auth.user_store import UserFile
from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import print_result, print_table
from agentd.cli.password import read_new_password
from agentd.core.errors import AgentdError, BadRequest
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.management_keys.model import ManagementKey
from agentd.http.access import ROLE_ORDER
from agentd.storage.layout import Layout

EXAMPLES = """\
examples:
  agentd users add ann --role manager        asks for the password, without showing it
  pass show ann | agentd users add ann --role viewer
  agentd users list
  agentd users role ann administrator        ann must sign in again
  agentd users passwd ann                    ann must sign in again with the new password
  agentd users remove ann                    a running daemon ends their sessions at once;
                                             names the keys that ann made: they stay valid

A viewer reads, a manager commands the agent, an administrator also manages users. users.yml in
the config folder may be edited by hand; comments are preserved.
"""

ROLES = ROLE_ORDER[1:]

_REVOKING = {
    "keys": "agentd keys revoke NAME",
    "accessKeys": "agentd proxy key remove KEY",
    "managementKeys": "agentd proxy management-key remove NAME",
}
"""The commands that revoke keys, by the field of the result that lists these."""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "users",
        help="add, list and remove users who may sign in",
        description="Manage the users who may sign in, each with a role.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, description in {
        "add": "add a user",
        "passwd": "change a password; ends the user's sessions",
        "role": "change a role; ends the user's sessions",
        "remove": "remove a user",
        "list": "list the users",
    }.items():
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb != "list":
            one.add_argument("name", metavar="NAME", help="name of the user")
        if verb == "add":
            one.add_argument(
                "--role", required=True, type=str.lower, choices=ROLES, help="what the user may do"
            )
        if verb == "role":
            one.add_argument("role", type=str.lower, choices=ROLES, help="what the user may do")
        if verb in ("add", "passwd"):
            one.add_argument(
                "--stdin", action="store_true", help="read the password from standard input"
            )
        add_json_option(one)
        one.set_defaults(run=run, verb=verb)


def run(args: argparse.Namespace) -> int:
    """Run one verb."""
    layout = resolve_layout(args)
    file = UserFile(layout)
    match args.verb:
        case "list":
            _list(file, as_json=args.json)
            return 0
        case "add":
            _add(file, args)
        case "passwd":
            file.find(args.name)
            file.change(args.name, password=hash_password(_read_password(args)))
        case "role":
            file.change(args.name, role=args.role)
        case "remove":
            file.remove(args.name)
    outcomes = {"add": "may sign in", "remove": "was removed"}
    outcome = outcomes.get(args.verb, "must sign in again")
    result: dict[str, object] = {"name": args.name, "done": outcome}
    text = f"{args.name} {outcome}"
    if args.verb == "remove":
        left = _find_keys_made_by(layout, args.name)
        for field, command in _REVOKING.items():
            result[field] = left[field]
            if names := ", ".join(left[field]):
                text += f"; keys made by {args.name} that remain valid: {names} ({command})"
    print_result(text, result, as_json=args.json)
    return 0


def _find_keys_made_by(layout: Layout, user: str) -> dict[str, list[str]]:
    """Return the keys that a user made, as ``_REVOKING`` has them.

    They belong to devices and programs, so they do not end with their maker. What cannot be read
    is left out: its keys are refused, and ``agentd check`` says why.
    """
    maker, keys = f"user:{user}", KeyFile(layout, AccessKeyFile(layout))
    contents = keys.read()
    valid = [one for one in contents.named if one.sha256 not in contents.revoked]
    managing: tuple[ManagementKey, ...] = ()
    with suppress(AgentdError):
        managing = ManagementKeyFile(layout).load().keys
    return {
        "keys": [one.name for one in valid if one.created_by == maker],
        "accessKeys": [one.name for one in keys.load_access_keys().get(maker, ())],
        "managementKeys": [one.name for one in managing if one.created_by == maker],
    }


def _add(file: UserFile, args: argparse.Namespace) -> None:
    if not is_user_name(args.name):
        raise BadRequest(
            "A user's name is 1 to 64 letters, digits, dots, dashes, underscores and @,"
            " beginning with a letter or digit"
        )
    file.check_free(args.name)
    file.add(User(args.name, args.role, hash_password(_read_password(args))))


def _read_password(args: argparse.Namespace) -> str:
    return read_new_password(args.name, piped=args.stdin)


def _list(file: UserFile, *, as_json: bool) -> None:
    users = file.load()
    if as_json:
        print(json.dumps([{"name": user.name, "role": user.role} for user in users]))
    elif users:
        print_table([(user.name, user.role) for user in users])
    else:
        print("no users; add one with: agentd users add NAME --role ROLE", file=sys.stderr)
