"""``agentd demo``: all of it once, on a scratch state folder, about the current folder."""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

from agentd import ids
from agentd.cli import demo_supplier
from agentd.cli.client import Client
from agentd.cli.options import Subcommands
from agentd.clock import SystemClock
from agentd.disk.layout import Layout
from agentd.disk.licence import LicenceFile
from agentd.disk.state import announced
from agentd.errors import Unavailable

PROMPT = "What is this folder?"
START_SECONDS = 30.0

EXAMPLES = """\
examples:
  agentd demo                                about this folder
  agentd demo "how many lines of Python are there?"
  agentd demo --supplier 8760                a supplier that repeats, to try the model gateway with

It needs no configuration and leaves nothing behind.
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "demo",
        help="see it work: one prompt about this folder, through the HTTP API",
        description="Start a daemon on a scratch folder, ask it something, show every step.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", nargs="?", default=PROMPT, help=f"default: {PROMPT!r}")
    parser.add_argument(
        "--supplier",
        type=int,
        metavar="PORT",
        help="instead: be a supplier for the model gateway, which repeats what it is sent",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show it; 0 when there was an answer."""
    if args.supplier is not None:
        return demo_supplier.serve(args.supplier)
    with tempfile.TemporaryDirectory(prefix="agentd-demo-") as scratch:
        key = ids.new_key()
        layout = Layout(os.path.join(scratch, "state"), os.path.join(scratch, "config"))
        LicenceFile(layout).install_own(SystemClock().now())
        print(f"1. a daemon on a scratch state folder, with the offline engine, in {os.getcwd()}")
        with _daemon(layout, key, os.path.join(scratch, "log")) as process:
            try:
                url = _await(layout, process, os.path.join(scratch, "log"))
                print(f"   it answers at {url}\n")
                return _converse(url, key, args.prompt)
            finally:
                process.terminate()


def _daemon(layout: Layout, key: str, log: str) -> "subprocess.Popen[bytes]":
    options = {
        "--state": layout.state,
        "--config": layout.config,
        "--workspace": os.getcwd(),
        "--host": "127.0.0.1",
        "--port": "0",
        "--agent-api-key": hashlib.sha256(key.encode()).hexdigest(),
    }
    command = [sys.executable, "-m", "agentd", "serve"]
    for name, value in options.items():
        command += [name, value]
    with open(log, "wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _await(layout: Layout, process: "subprocess.Popen[bytes]", log: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if daemon := announced(layout):
            return daemon.url
        time.sleep(0.02)
    with open(log, errors="replace") as output:
        raise Unavailable("the demo's daemon did not start", output.read()[-2000:])


def _converse(url: str, key: str, prompt: str) -> int:
    wish = {"prompt": prompt, "title": "Demo"}
    print("2. a chat with a prompt, as any program would create it:\n")
    print(f"   curl -X POST {url}/api/remote/chats -H 'X-API-Key: ...' \\")
    print(f"        -H 'Content-Type: application/json' -d '{json.dumps(wish)}'\n")
    with Client(url, key) as client:
        chat_id = client.create(wish)
        print(f"3. chat {chat_id} is queued; the daemon processes it by itself:\n")
        answered = False
        for message in client.follow(chat_id):
            print(f"   {message['createdAt']}  {message['role']:9}", end="")
            if message["role"] == "assistant":
                answered = True
                print("\n\n" + message["content"] + "\n")
            else:
                print(f" {message['content']}")
        status = client.status(chat_id, 0)
        print(f"4. {json.dumps(status)}\n")
    print("How to go on:\n")
    print("   agentd serve &                                     your own daemon")
    print("   export AGENTD_KEY=$(agentd keys generate laptop)   a key for it, shown once")
    print('   agentd ask "help"                                  what the offline engine can do')
    return 0 if answered else 1
