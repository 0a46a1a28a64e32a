"""``agentd acp``: the chats of the running daemon for editors with the Agent Client Protocol.

Standard output carries the protocol alone; what is to be said goes to standard error.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from agentd.acp.connection import read_lines
from agentd.acp.server import AcpServer
from agentd.cli.client import (
    KEY_VARIABLE,
    Client,
    EventListener,
    find_daemon_url,
    read_key_file,
    require_key,
)
from agentd.cli.options import Subcommands, add_url_option, resolve_layout
from agentd.core.errors import Unavailable
from agentd.core.sse import ServerSentEvent

REPEAT_SECONDS = 20.0
"""Seconds for which a request is repeated whose answer was lost."""
_REPEAT_DELAY = 0.2

EXAMPLES = f"""\
The editor starts it, with a key in {KEY_VARIABLE} (agentd keys generate editor). In Zed's settings.json:

  "agent_servers": {{
    "agentd": {{
      "type": "custom",
      "command": "agentd",
      "args": ["acp"],
      "env": {{"{KEY_VARIABLE}": "agent_..."}}
    }}
  }}

config/editors.md has the settings of other editors. The editor's folder must be the daemon's
workspace or a folder in it.
"""  # noqa: E501


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "acp",
        help="serve the Agent Client Protocol on standard input and output",
        description="Connect an editor with the Agent Client Protocol to the running daemon.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help=f"file with the API key; default: {KEY_VARIABLE}"
    )
    parser.add_argument(
        "--worktree",
        action="store_true",
        help="give each new chat a git work tree and branch of its own",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="report lost connections on standard error"
    )
    add_url_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until standard input ends; a daemon or a key that is missing is told to the editor."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if args.verbose else logging.WARNING,
        format="agentd acp: %(message)s",
    )
    layout = resolve_layout(args)

    def find_url() -> str:
        url: str = args.url or find_daemon_url(layout)
        return url

    def find_key() -> str:
        return read_key_file(args.key_file) if args.key_file else require_key()

    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write among the messages
    daemon = HttpDaemon(find_url, find_key)
    with suppress(BrokenPipeError):
        AcpServer(daemon, output, isolated=args.worktree).serve(read_lines(sys.stdin.buffer))
    return 0


class HttpDaemon:
    """The daemon over HTTP; each request looks for it anew, for it may have been restarted.

    Satisfies ``agentd.acp.daemon.DaemonApi``.
    """

    def __init__(self, find_url: Callable[[], str], find_key: Callable[[], str]) -> None:
        self._find_url = find_url
        self._find_key = find_key

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        once: str = "",
    ) -> dict[str, Any]:
        """Return the answer to a request; with ``once``, an idempotency key, it is repeated."""
        headers = {"Idempotency-Key": once} if once else {}
        end = time.monotonic() + REPEAT_SECONDS
        while True:
            key, url = self._find_key(), self._find_url()
            try:
                with Client(url, key) as client:
                    return client.request(method, path, body, headers)
            except Unavailable:
                if not once or time.monotonic() >= end:
                    raise
                time.sleep(_REPEAT_DELAY)

    def upload_picture(self, data: bytes, kind: str) -> str:
        """Upload a picture and return its path in the workspace."""
        headers = {"Content-Type": kind if kind.startswith("image/") else "image/*"}
        with Client(self._find_url(), self._find_key()) as client:
            stored = client.request("POST", "/api/files/clipboard", data, headers)
        return str(stored["files"][0]["path"])

    def listen(self, chat_id: int) -> Iterator[ServerSentEvent]:
        """Yield the live events of a chat over one connection."""
        return EventListener(self._find_key(), [chat_id]).listen(self._find_url())
