"""``agentd serve``: the daemon."""

import argparse
import gc
import os

from agentd.cli.options import Subcommands, place

EXAMPLES = """\
examples:
  agentd serve                               serve this folder on 127.0.0.1:8750
  agentd serve --workspace ~/src/shop        let the agent work in another folder
  agentd --state /srv/agentd serve --port 0  another state folder, any free port

It stops on Ctrl-C or SIGTERM, after running turns had time to end.
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    commands.add_parser(
        "serve",
        help="run the daemon",
        description="Run the daemon in the foreground.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    gc.disable()  # what a start makes is there to stay; the daemon has it enabled once it is up
    try:
        from agentd import daemon

        return daemon.run(*place(args), os.environ)
    finally:
        gc.enable()
