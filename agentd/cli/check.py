"""``agentd check``: read every file, tell every mistake."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from agentd.cli.options import Subcommands, layout, place
from agentd.disk import models, skills
from agentd.disk.inspect import damaged_chats
from agentd.disk.jobs import load_builds, load_deployments
from agentd.disk.keys import KeyFile
from agentd.disk.modes import unsafe
from agentd.disk.users import UserFile
from agentd.errors import AgentdError, Misconfigured, Mistake

EXAMPLES = """\
examples:
  agentd check                               before the daemon is started anew
  agentd check --json | jq -r '.mistakes[].where'

exit codes: 0 all is in order, 1 there are mistakes
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "check",
        help="read every file and report every mistake",
        description="Read the settings, models, skills, users, keys and chats; change nothing.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check all; 1 when there is any mistake."""
    mistakes = list(_mistakes(args))
    if args.json:
        print(json.dumps({"ok": not mistakes, "mistakes": msgspec.to_builtins(mistakes)}))
    else:
        for mistake in mistakes:
            print(mistake)
        told = f"{len(mistakes)} mistake(s)" if mistakes else "all is in order"
        print(told, file=sys.stderr)
    return 1 if mistakes else 0


def _mistakes(args: argparse.Namespace) -> Iterable[Mistake]:
    settings = _caught(lambda: place(args))
    yield from settings
    try:
        where = layout(args)
    except Misconfigured:
        return
    yield from _caught(lambda: models.check(where))
    yield from _caught(UserFile(where).load)
    yield from skills.check(where)
    for jobs in (load_builds, load_deployments):
        yield from _caught(partial(jobs, where))
    file = KeyFile(where)
    for look in (file.check, file.graves):
        yield from _caught(look)
    yield from unsafe(where.state)
    yield from damaged_chats(where)


def _caught(look: Callable[[], object]) -> list[Mistake]:
    try:
        look()
    except Misconfigured as error:
        return error.mistakes
    except AgentdError as error:
        return [Mistake("agentd", 0, error.message)]
    return []
