"""``agentd tail``: follow the live events, also across lost connections and restarts."""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from agentd.cli.client import KEY_VARIABLE, EventListener, find_daemon_url, require_key
from agentd.cli.options import Subcommands, add_json_option, add_url_option, resolve_layout
from agentd.cli.output import excerpt
from agentd.core.clock import SystemClock
from agentd.core.errors import Unavailable
from agentd.core.sse import ServerSentEvent

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
"""Seconds between attempts to reconnect."""
_ID = re.compile("[1-9][0-9]{0,15}", re.ASCII)
_CURSOR = re.compile(r"[0-9]{1,16}(\.[0-9]{1,4})?(~[0-9a-f]{8})?")

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd tail                                all chats, from now on
  agentd tail 3 7 --since 0                  two chats, from their first event on
  agentd tail --json | jq -c .arguments      for programs; --since takes an "id"

It reconnects when the connection is lost or the daemon restarts, and prints the events
that were missed; Ctrl-C ends it.
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "tail",
        help="follow what happens in the chats",
        description="Follow the live events of the running daemon.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "chats", nargs="*", metavar="CHAT", type=_parse_chat, help="only these chats"
    )
    parser.add_argument(
        "--since", metavar="ID", type=_parse_cursor, help="id of the last event seen"
    )
    add_url_option(parser)
    add_json_option(parser, "print one JSON object per event")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Follow until interrupted; retry a lost connection, but not the first one.

    Events go to standard output, the state of the connection to standard error.
    """
    listener = EventListener(require_key(), args.chats, args.since or "")
    render = _render_json if args.json else _EventRenderer().render
    connected, lost, delay = False, False, FIRST_DELAY
    while True:
        try:
            url = args.url or find_daemon_url(resolve_layout(args))
            for event in listener.listen(url):
                if lost:
                    _print_status(f"connected again, to {url}")
                connected, lost, delay = True, False, FIRST_DELAY
                for line in render(event):
                    print(line, flush=True)
        except Unavailable as error:
            if not connected:
                raise
            if not lost:
                _print_status(f"connection lost ({error.message}); reconnecting")
            lost = True
        time.sleep(delay)
        delay = min(2 * delay, LONGEST_DELAY)


def _render_json(event: ServerSentEvent) -> Iterator[str]:
    if event.name not in ("resumed", "alive"):
        data = json.loads(event.data)
        arguments = data if isinstance(data, list) else [data]
        yield json.dumps({"id": event.id, "event": event.name, "arguments": arguments})


class _EventRenderer:
    """Renders events as lines of text."""

    def __init__(self) -> None:
        self._untimed: list[str] = []

    def render(self, event: ServerSentEvent) -> Iterator[str]:
        """Yield lines of time, chat and what happened.

        Events of queues and approvals have no time; they are printed with the chat's event that
        always follows. Parts of a reply are skipped: the whole reply follows.
        """
        match event.name, json.loads(event.data):
            case "queueUpdate", [chat, prompts]:
                self._untimed.append(f"chat {chat}  queue: {len(prompts)} waiting")
            case "messageUpdate", [chat, message]:
                yield from self._add_time(
                    message["createdAt"], f"chat {chat}  {_describe(message)}"
                )
            case "chatUpdate", [chat]:
                text = f"chat {chat['chatId']}  {chat['status']} ({chat['reason']})"
                yield from self._add_time(chat["updatedAt"], text)
            case "approvalUpdate", [chat, approval]:
                self._untimed.append(f"chat {chat}  {_describe_approval(approval)}")
            case "gap", span:
                text = f"gap: events from {span['from']} to {span['to']} are no longer available"
                yield from self._add_time(SystemClock().now(), text)
            case "keysUpdate", [names]:
                yield from self._add_time(
                    SystemClock().now(), f"keys: {', '.join(names) or 'none'}"
                )

    def _add_time(self, at: str, text: str) -> Iterator[str]:
        for line in (*self._untimed, text):
            yield f"{at}  {line}"
        self._untimed.clear()


def _describe(message: dict[str, Any]) -> str:
    return f"{message['role']}: {excerpt(message['content'])}"


def _describe_approval(approval: dict[str, Any]) -> str:
    subject = f"{excerpt(approval['tool'])}: {excerpt(approval['subject'])}"
    if approval["state"] == "open":
        more = len(approval["subject"].strip().splitlines()) - 1
        subject += f" (and {more} more lines: agentd approve lists them)" if more > 0 else ""
        return f"needs your approval: {subject}  (agentd approve {approval['id']})"
    return f"{approval['state']}: {subject}"


def _parse_chat(text: str) -> int:
    if not _ID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a chat")
    return int(text)


def _parse_cursor(text: str) -> str:
    if not _CURSOR.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of an event")
    return text


def _print_status(text: str) -> None:
    print(f"agentd: {text}", file=sys.stderr, flush=True)
