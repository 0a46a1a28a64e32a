"""``agentd tail``: what happens in the chats, as it happens, through breaks and restarts."""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from agentd.cli.client import KEY_VARIABLE, Listener, daemon_url, given_key
from agentd.cli.options import Subcommands, layout
from agentd.clock import SystemClock
from agentd.errors import Unavailable
from agentd.wire.sse import Received

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
_WIDTH = 200
_ID = re.compile("[1-9][0-9]{0,15}", re.ASCII)
_MARK = re.compile(r"[0-9]{1,16}(\.[0-9]{1,4})?(~[0-9a-f]{8})?")

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd tail                                all chats, from now on
  agentd tail 3 7 --since 0                  two chats, from their first event on
  agentd tail --json | jq -c .arguments      for a program; "id" is what --since takes

It comes back by itself when the connection breaks or the daemon restarts, and tells what happened
meanwhile; Ctrl-C ends it.
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "tail",
        help="follow what happens in the chats",
        description="Follow the live events of the running daemon.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("chats", nargs="*", metavar="CHAT", type=_chat, help="only these chats")
    parser.add_argument("--since", metavar="ID", type=_mark, help="the last event seen")
    parser.add_argument("--url", default="", help="the daemon's address, if it is not this state's")
    parser.add_argument("--json", action="store_true", help="one JSON object per event")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Follow until interrupted. A daemon that is not there at first is an error; later it is not.

    Events go to standard output, what befalls the connection to standard error.
    """
    listener = Listener(given_key(), args.chats, args.since or "")
    lines = _as_json if args.json else _Told().lines
    connected, lost, delay = False, False, FIRST_DELAY
    while True:
        try:
            url = args.url or daemon_url(layout(args))
            for event in listener.listen(url):
                if lost:
                    _tell(f"connected again, to {url}")
                connected, lost, delay = True, False, FIRST_DELAY
                for line in lines(event):
                    print(line, flush=True)
        except Unavailable as error:
            if not connected:
                raise
            if not lost:
                _tell(f"the connection is lost ({error.message}); trying again")
            lost = True
        time.sleep(delay)
        delay = min(2 * delay, LONGEST_DELAY)


def _as_json(event: Received) -> Iterator[str]:
    if event.name != "resumed":
        data = json.loads(event.data)
        arguments = data if isinstance(data, list) else [data]
        yield json.dumps({"id": event.id, "event": event.name, "arguments": arguments})


class _Told:
    """Events as lines for a person."""

    def __init__(self) -> None:
        self._untimed: list[str] = []

    def lines(self, event: Received) -> Iterator[str]:
        """Time, chat and what happened.

        A queue's event bears no time, nor does a question's; each is told with the event of its
        chat that always follows. Pieces of a reply are passed over: the whole one comes.
        """
        match event.name, json.loads(event.data):
            case "queueUpdate", [chat, prompts]:
                self._untimed.append(f"chat {chat}  queue: {len(prompts)} waiting")
            case "messageUpdate", [chat, message]:
                yield from self._timed(message["createdAt"], f"chat {chat}  {_said(message)}")
            case "chatUpdate", [chat]:
                what = f"chat {chat['chatId']}  {chat['status']} ({chat['reason']})"
                yield from self._timed(chat["updatedAt"], what)
            case "approvalUpdate", [chat, one]:
                self._untimed.append(f"chat {chat}  {_asked(one)}")
            case "gap", span:
                what = f"gap: events from {span['from']} to {span['to']} cannot be told any more"
                yield from self._timed(SystemClock().now(), what)
            case "keysUpdate", [names]:
                yield from self._timed(SystemClock().now(), f"keys: {', '.join(names) or 'none'}")

    def _timed(self, at: str, what: str) -> Iterator[str]:
        for line in (*self._untimed, what):
            yield f"{at}  {line}"
        self._untimed.clear()


def _said(message: dict[str, Any]) -> str:
    """Who said it, and the first line."""
    return f"{message['role']}: {printable(message['content'])}"


def _asked(one: dict[str, Any]) -> str:
    what = f"{one['tool']}: {printable(one['subject'])}"
    if one["state"] == "open":
        return f"asks for leave: {what}  (agentd approve {one['id']})"
    return f"{one['state']}: {what}"


def printable(text: str) -> str:
    """The first line, not too long, without what a terminal would obey."""
    first = next(iter(text.strip().splitlines()), "")
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in first
    )
    return f"{shown[:_WIDTH]}{'…' if len(shown) > _WIDTH else ''}"


def _chat(text: str) -> int:
    if not _ID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no id of a chat")
    return int(text)


def _mark(text: str) -> str:
    if not _MARK.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no id of an event")
    return text


def _tell(text: str) -> None:
    print(f"agentd: {text}", file=sys.stderr, flush=True)
