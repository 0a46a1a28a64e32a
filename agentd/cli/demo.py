"""``agentd demo``: one prompt about the current folder, on a daemon of its own."""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

from agentd.app.state import read_daemon_info
from agentd.cli import demo_supplier
from agentd.cli.client import Client
from agentd.cli.options import Subcommands
from agentd.cli.output import print_foreign
from agentd.core import ids
from agentd.core.clock import SystemClock
from agentd.core.errors import Unavailable
from agentd.gateway.licence.store import LicenceFile
from agentd.storage.layout import Layout

PROMPT = "What is this folder?"
START_SECONDS = 30.0

EXAMPLES = """\
examples:
  agentd demo                                about this folder
  agentd demo "how many lines of Python are there?"
  agentd demo --supplier 8760                a supplier that echoes, to try the gateway

It needs no configuration and leaves nothing behind.
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "demo",
        help="try agentd: one prompt about this folder, through the HTTP API",
        description="Start a daemon on a temporary state folder, send it a prompt, show each step.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "prompt", nargs="?", default=PROMPT, help=f"the prompt; default: {PROMPT!r}"
    )
    parser.add_argument(
        "--supplier",
        type=int,
        metavar="PORT",
        help="instead, run a model supplier on this port that echoes, to try the model gateway",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show it; return 0 when the agent replied."""
    if args.supplier is not None:
        return demo_supplier.serve(args.supplier)
    with tempfile.TemporaryDirectory(prefix="agentd-demo-") as scratch:
        key = ids.generate_key()
        layout = Layout(os.path.join(scratch, "state"), os.path.join(scratch, "config"))
        LicenceFile(layout).install_own(SystemClock().now())
        print(f"1. a daemon on a temporary state folder, with the offline engine, in {os.getcwd()}")
        with _start_daemon(layout, key, os.path.join(scratch, "log")) as process:
            try:
                url = _wait_for_url(layout, process, os.path.join(scratch, "log"))
                print(f"   it listens on {url}\n")
                return _show_chat(url, key, args.prompt)
            finally:
                process.terminate()


def _start_daemon(layout: Layout, key: str, log: str) -> "subprocess.Popen[bytes]":
    options = {
        "--state": layout.state,
        "--config": layout.config,
        "--workspace": os.getcwd(),
        "--host": "127.0.0.1",
        "--port": "0",
        "--agent-api-key": hashlib.sha256(key.encode()).hexdigest(),
    }
    command = [sys.executable, "-P", "-m", "agentd", "serve"]  # nothing of this folder is run
    for name, value in options.items():
        command += [name, value]
    with open(log, "wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _wait_for_url(layout: Layout, process: "subprocess.Popen[bytes]", log: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if daemon := read_daemon_info(layout):
            return daemon.url
        time.sleep(0.02)
    with open(log, errors="replace") as output:
        raise Unavailable("the demo's daemon did not start", output.read()[-2000:])


def _show_chat(url: str, key: str, prompt: str) -> int:
    request = {"prompt": prompt, "title": "Demo"}
    print("2. a chat with a prompt, as any program would create it:\n")
    print(f"   curl -X POST {url}/api/remote/chats -H 'X-API-Key: ...' \\")
    print(f"        -H 'Content-Type: application/json' -d '{json.dumps(request)}'\n")
    with Client(url, key) as client:
        chat_id = client.create_chat(request)
        print(f"3. chat {chat_id} is queued; the daemon processes it:\n")
        replied = False
        for message in client.follow_chat(chat_id):
            print(f"   {message['createdAt']}  {message['role']:9}", end="")
            if message["role"] == "assistant":
                replied = True
                print_foreign(f"\n\n{message['content']}\n", sys.stdout)
            else:
                print_foreign(f" {message['content']}", sys.stdout)
        status = client.get_status(chat_id, 0)
        print(f"4. {json.dumps(status)}\n")
    print("Next steps:\n")
    print("   agentd serve &                                     your own daemon")
    print("   export AGENTD_KEY=$(agentd keys generate laptop)   a key for it, shown once")
    print('   agentd ask "help"                                  what the offline engine can do')
    return 0 if replied else 1
