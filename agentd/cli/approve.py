"""``agentd approve``: the questions of the agent, and your answers."""

import argparse
import json
import re
from typing import Any

from agentd.cli.client import KEY_VARIABLE, Client, daemon_url, given_key
from agentd.cli.options import Subcommands, layout
from agentd.cli.tail import printable
from agentd.errors import NotFound

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd approve                             what is asked, in all chats
  agentd approve 12                          allow what question 12 asks, this once
  agentd approve 12 --session                and the very same again in this chat
  agentd approve 12 --deny --note "not on Fridays"

exit codes: 0 done, 1 it could not be done (no such question is open, no daemon)
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "approve",
        help="list and answer the agent's questions",
        description="Without a number: list the open questions. With one: answer that question.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("approval", nargs="?", metavar="NUMBER", type=_number, help="which one")
    parser.add_argument("--deny", action="store_true", help="answer no")
    parser.add_argument("--session", action="store_true", help="for the same in its chat too")
    parser.add_argument("--note", default="", help="what the agent is to know about your answer")
    parser.add_argument("--url", default="", help="the daemon's address, if it is not this state's")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List, or answer. Raises ``NotFound`` for a question that is not open."""
    with Client(args.url or daemon_url(layout(args)), given_key()) as client:
        asked = client.approvals()
        if args.approval is None:
            _list(asked, args.json)
            return 0
        question = next((one for one in asked if one["id"] == args.approval), None)
        if question is None:
            raise NotFound(f"question {args.approval} is not open", "See: agentd approve")
        answered = client.decide(
            question["chatId"],
            args.approval,
            {
                "decision": "deny" if args.deny else "allow",
                "session": args.session and not args.deny,
                "note": args.note,
            },
        )
    print(json.dumps(answered) if args.json else f"{answered['state']}: {_told(answered)}")
    return 0


def _list(asked: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(asked))
        return
    for one in asked:
        until = f" (until {one['deadline']})" if one["deadline"] else ""
        print(f"{one['id']}  chat {one['chatId']}{until}  {_told(one)}")
        if one["reason"]:
            print(f"    {printable(one['reason'])}")
    if not asked:
        print("nothing is asked")


def _told(one: dict[str, Any]) -> str:
    return f"{one['tool']}: {printable(one['subject'])}"


def _number(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,15}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a question")
    return int(text)
