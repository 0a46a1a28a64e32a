"""``agentd ask``: send one prompt to the running daemon, show its progress, print the reply."""

import argparse
import json
import sys
from datetime import datetime

from agentd.cli.client import KEY_VARIABLE, Client, find_daemon_url, require_key
from agentd.cli.options import (
    Subcommands,
    add_json_option,
    add_schema_option,
    add_url_option,
    read_schema,
    resolve_layout,
)
from agentd.cli.output import print_foreign
from agentd.core.clock import format_iso
from agentd.core.errors import BadRequest

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd ask "where is parse_iso defined?"
  git diff | agentd ask -                    the prompt from standard input
  agentd ask --not-before 2026-11-24T18:30 "run the slow tests"
  agentd ask --json "list the files" | jq .content

exit codes: 0 the agent replied, 1 the turn failed or no daemon runs, 2 wrong usage
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "ask",
        help="send one prompt to the running daemon and print the reply",
        description="Create a chat on the running daemon, show its progress, print the reply.",
        epilog=EXAMPLES,
    )
    parser.add_argument("prompt", help="the prompt, or - to read it from standard input")
    parser.add_argument("--model", default="", help="model of the chat")
    parser.add_argument(
        "--not-before",
        metavar="TIME",
        default="",
        help="send it at this time or later, in ISO 8601, by this machine's zone if it names none"
        " (2026-11-24T09:00); the command does not wait for the reply",
    )
    add_schema_option(parser, "the reply")
    parser.add_argument("--title", default="agentd ask", help="title of the chat")
    add_url_option(parser)
    add_json_option(parser, "print the reply message as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Send the prompt; return 0 when the agent replied."""
    prompt = _read_stdin() if args.prompt == "-" else args.prompt
    if not prompt.strip():
        raise BadRequest("the prompt is empty", 'Ask something: agentd ask "what is this?"')
    key = require_key()
    request: dict[str, object] = {"prompt": prompt, "title": args.title}
    if args.model:
        request["model"] = args.model
    if args.not_before:
        request["notBefore"] = _parse_time(args.not_before)
    if args.schema:
        request["outputSchema"] = read_schema(args.schema)
    with Client(args.url or find_daemon_url(resolve_layout(args)), key) as client:
        if args.not_before:
            return _send_later(client, request, as_json=args.json)
        return _converse(client, request, as_json=args.json)


def _read_stdin() -> str:
    """Return standard input as text: a diff may have bytes of any encoding."""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _parse_time(text: str) -> str:
    try:
        return format_iso(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise BadRequest(
            f"--not-before is {text!r}, expected a time", "Such as 2026-11-24T09:00+01:00."
        ) from None


def _send_later(client: Client, request: dict[str, object], *, as_json: bool) -> int:
    chat_id = client.create_chat(request)
    if as_json:
        print(json.dumps({"chatId": chat_id, "notBefore": request["notBefore"]}))
    else:
        print(f"chat {chat_id}: to be sent at {request['notBefore']} or later")
    return 0


def _converse(client: Client, request: dict[str, object], *, as_json: bool) -> int:
    """Create the chat; print progress on standard error and the reply on standard output."""
    chat_id = client.create_chat(request)
    print(f"chat {chat_id}: queued", file=sys.stderr)
    last: dict[str, object] = {}
    for message in client.follow_chat(chat_id):
        if message["role"] == "user":
            print(f"chat {chat_id}: processing", file=sys.stderr)
        elif message["role"] == "tool":
            print_foreign(f"chat {chat_id}: {message['content']}", sys.stderr)
            if message["content"] == "Tool: approval":
                print(f"needs your approval: agentd approve {message['id']}", file=sys.stderr)
        else:
            last = message
            if not as_json:
                stream = sys.stdout if message["role"] == "assistant" else sys.stderr
                print_foreign(str(message["content"]), stream)
    if as_json:
        print(json.dumps(last))
    return 0 if last.get("role") == "assistant" else 1
