"""``agentd serve``: run the daemon."""

import argparse
import gc
import os

from agentd.cli.options import Subcommands, resolve_config
from agentd.core.errors import AgentdError, ConfigError
from agentd.system.sd_notify import Notifier

EXAMPLES = """\
examples:
  agentd serve                               serve this folder on 127.0.0.1:8750
  agentd serve --workspace ~/src/shop        let the agent work in another folder
  agentd --state /srv/agentd serve --port 0  another state folder, any free port

It stops on Ctrl-C, SIGTERM, or SIGHUP (its terminal closes; not under nohup), after giving running
turns time to finish. No signal is needed to reload files: edits take effect when they are saved.
"""

GC_THRESHOLDS = (10_000, 20, 20)
"""The thresholds of garbage collection; with Python's own a request in three pays for it."""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    commands.add_parser(
        "serve",
        help="run the daemon",
        description="Run the daemon in the foreground.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal stops it."""
    gc.disable()  # objects made at start stay alive
    try:
        from agentd.app.daemon import run as run_daemon

        return run_daemon(*resolve_config(args), os.environ, enable_garbage_collection)
    except AgentdError as error:
        _report_failure(error)
        raise
    finally:
        gc.enable()


def _report_failure(error: AgentdError) -> None:
    """Set the line in ``systemctl status``.

    Once the unit has failed too often, systemd shows it none of the lines that are in the journal.
    """
    problems = error.problems if isinstance(error, ConfigError) else []
    what = str(problems[0]) if problems else error.message
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    notifier = Notifier.from_environment(os.environ)
    notifier.report_status(f"Failed: {what}{more}")
    notifier.close()


def enable_garbage_collection() -> None:
    """Look for cycles from now on, except among what the start has made."""
    gc.freeze()  # what lives as long as the daemon need not be walked again
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
