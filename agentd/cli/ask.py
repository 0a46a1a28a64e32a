"""``agentd ask``: one prompt to a running daemon, its progress, its answer."""

import argparse
import json
import sys

from agentd.cli.client import KEY_VARIABLE, Client, daemon_url, given_key
from agentd.cli.options import Subcommands, layout
from agentd.errors import BadRequest

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd ask "where is parse_iso defined?"
  git diff | agentd ask -                    the prompt from standard input
  agentd ask --json "list the files" | jq .content

exit codes: 0 answered, 1 the turn failed or no daemon answers, 2 wrong usage
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "ask",
        help="send one prompt to the running daemon and print the answer",
        description="Create a chat on the running daemon, show its progress, print the answer.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", help="the prompt, or - to read it from standard input")
    parser.add_argument("--model", default="", help="the model for this chat")
    parser.add_argument("--title", default="agentd ask", help="the chat's title")
    parser.add_argument("--url", default="", help="the daemon's address, if it is not this state's")
    parser.add_argument("--json", action="store_true", help="print the answer message as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask; the exit code tells whether there was an answer."""
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if not prompt.strip():
        raise BadRequest("the prompt is empty", 'Ask something: agentd ask "what is this?"')
    key = given_key()
    wish = {"prompt": prompt, "title": args.title}
    if args.model:
        wish["model"] = args.model
    with Client(args.url or daemon_url(layout(args)), key) as client:
        return converse(client, wish, as_json=args.json)


def converse(client: Client, wish: dict[str, str], *, as_json: bool = False) -> int:
    """Create the chat, tell what happens on standard error and the answer on standard output."""
    chat_id = client.create(wish)
    print(f"chat {chat_id}: queued", file=sys.stderr)
    last: dict[str, object] = {}
    for message in client.follow(chat_id):
        if message["role"] == "user":
            print(f"chat {chat_id}: processing", file=sys.stderr)
        elif message["role"] == "tool":
            print(f"chat {chat_id}: {message['content']}", file=sys.stderr)
            if message["content"] == "Tool: approval":
                print(f"it asks for your leave: agentd approve {message['id']}", file=sys.stderr)
        else:
            last = message
            if not as_json:
                stream = sys.stdout if message["role"] == "assistant" else sys.stderr
                print(message["content"], file=stream, flush=True)
    if as_json:
        print(json.dumps(last))
    return 0 if last.get("role") == "assistant" else 1
