"""``agentd approve``: list the agent's open approvals and decide them."""

import argparse
import json
import re
from typing import Any

from agentd.cli.client import KEY_VARIABLE, Client, find_daemon_url, require_key
from agentd.cli.options import Subcommands, add_json_option, add_url_option, resolve_layout
from agentd.cli.output import excerpt, list_safe_lines
from agentd.core.errors import BadRequest, NotFound

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd approve                             list the open approvals of all chats
  agentd approve 12                          allow what approval 12 asks for, once
  agentd approve 12 --session                also allow exact repetitions in the same chat
  agentd approve 12 --deny --note "not on Fridays"
  agentd approve 12 --deny --session         also deny exact repetitions in the same chat
  agentd approve 12 --note "the red one"     answer what the agent asks you

exit codes: 0 done, 1 failed (the approval is not open, or no daemon runs), 2 wrong usage
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "approve",
        help="list and decide the agent's approvals",
        description="Without a number, list the open approvals; with one, decide that approval.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "approval", nargs="?", metavar="NUMBER", type=_parse_id, help="the approval to decide"
    )
    parser.add_argument("--deny", action="store_true", help="deny instead of allow")
    parser.add_argument(
        "--session", action="store_true", help="decide exact repetitions in the same chat, too"
    )
    parser.add_argument(
        "--note",
        default="",
        help="a note for the agent about the decision, or the answer that it asks for",
    )
    add_url_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List or decide.

    Raises ``NotFound`` for an approval that is not open, and ``BadRequest`` without words
    where the agent asks for them.
    """
    with Client(args.url or find_daemon_url(resolve_layout(args)), require_key()) as client:
        approvals = client.list_approvals()
        if args.approval is None:
            _print_list(approvals, args.json)
            return 0
        approval = next((one for one in approvals if one["id"] == args.approval), None)
        if approval is None:
            raise NotFound(f"approval {args.approval} is not open", "See: agentd approve")
        if approval["kind"] == "question" and not (args.deny or args.note.strip()):
            raise BadRequest(
                "the agent asks for words", f"Answer: agentd approve {args.approval} --note ANSWER"
            )
        decided = client.decide(
            approval["chatId"],
            args.approval,
            {
                "decision": "deny" if args.deny else "allow",
                "session": args.session,
                "note": args.note,
            },
        )
    print(json.dumps(decided) if args.json else f"{decided['state']}: {_describe(decided)}")
    return 0


def _print_list(approvals: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(approvals))
        return
    for approval in approvals:
        until = f" (until {approval['deadline']})" if approval["deadline"] else ""
        first, *more = list_safe_lines(approval["subject"]) or [""]  # all of it is to be allowed
        where = f"chat {approval['chatId']}{until}"
        print(f"{approval['id']}  {where}  {excerpt(approval['tool'])}: {first}")
        for line in more:
            print(f"    | {line}")
        if approval["reason"]:
            print(f"    {excerpt(approval['reason'])}")
    if not approvals:
        print("no open approvals")


def _describe(approval: dict[str, Any]) -> str:
    return f"{excerpt(approval['tool'])}: {excerpt(approval['subject'])}"


def _parse_id(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,15}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of an approval")
    return int(text)
