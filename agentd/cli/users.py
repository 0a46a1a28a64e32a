"""``agentd users``: the people who may sign in, whether or not the daemon runs."""

import argparse
import json
import sys

from agentd.access.login import RANKS, User, is_name
from agentd.access.password import hashed
from agentd.cli.options import Subcommands, layout
from agentd.cli.password import asked
from agentd.disk.users import UserFile
from agentd.errors import BadRequest

EXAMPLES = """\
examples:
  agentd users add ann --role manager        asks for her password, without showing it
  pass show ann | agentd users add ann --role viewer
  agentd users list
  agentd users role ann administrator        she must sign in again
  agentd users passwd ann                    so must she with another password
  agentd users remove ann                    a running daemon signs her out at once

A viewer reads, a manager commands the agent, an administrator also manages people. users.yml
in the config folder may be edited by hand; your comments stay.
"""

ROLES = RANKS[1:]


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "users",
        help="add, list and remove people who may sign in",
        description="The people who may sign in, each with a role.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, told in {
        "add": "let one more person sign in",
        "passwd": "give another password; it signs out",
        "role": "give another role; it signs out",
        "remove": "let a person sign in no more",
        "list": "list the people",
    }.items():
        one = verbs.add_parser(verb, help=told, description=told)
        if verb != "list":
            one.add_argument("name", metavar="NAME", help="the person")
        if verb == "add":
            one.add_argument("--role", required=True, type=str.lower, choices=ROLES)
        if verb == "role":
            one.add_argument("role", type=str.lower, choices=ROLES)
        if verb in ("add", "passwd"):
            one.add_argument("--stdin", action="store_true", help="read it from standard input")
        one.add_argument("--json", action="store_true", help="answer in JSON")
        one.set_defaults(run=run, verb=verb)


def run(args: argparse.Namespace) -> int:
    """Do one verb."""
    file = UserFile(layout(args))
    match args.verb:
        case "list":
            _list(file, as_json=args.json)
            return 0
        case "add":
            _add(file, args)
        case "passwd":
            file.find(args.name)
            file.change(args.name, password=hashed(_asked(args)))
        case "role":
            file.change(args.name, role=args.role)
        case "remove":
            file.remove(args.name)
    told = {"add": "may sign in", "remove": "may sign in no more"}
    _tell(args.name, told.get(args.verb, "must sign in again"), as_json=args.json)
    return 0


def _add(file: UserFile, args: argparse.Namespace) -> None:
    if not is_name(args.name):
        raise BadRequest(
            "A person's name is 1 to 64 letters, digits, dots, dashes, underscores and @,"
            " beginning with a letter or digit"
        )
    file.check_free(args.name)
    file.add(User(args.name, args.role, hashed(_asked(args))))


def _asked(args: argparse.Namespace) -> str:
    return asked(args.name, piped=args.stdin)


def _list(file: UserFile, *, as_json: bool) -> None:
    users = file.load()
    if as_json:
        print(json.dumps([{"name": user.name, "role": user.role} for user in users]))
    elif users:
        width = max(len(user.name) for user in users)
        for user in users:
            print(f"{user.name:{width}}  {user.role}")
    else:
        print("nobody; add one with: agentd users add NAME --role ROLE", file=sys.stderr)


def _tell(name: str, what: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"name": name, "done": what}))
    else:
        print(f"{name} {what}", file=sys.stderr)
