"""``agentd check``: read every file, tell every mistake, and whether the engines are ready."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from os.path import realpath

import msgspec

from agentd.agent.protected import why_risky_workspace
from agentd.cli.engines import EngineFound, engines
from agentd.cli.options import Subcommands, layout, place
from agentd.disk import labels, models, skills
from agentd.disk.bots import BotsYmlFile
from agentd.disk.inspect import damaged_chats, gateway_mistakes, mistakes_of, state_mistakes
from agentd.disk.jobs import load_builds, load_deployments
from agentd.disk.keys import KeyFile
from agentd.disk.modes import unsafe
from agentd.disk.protected import find_protected_places
from agentd.disk.settings import describe_unused
from agentd.disk.speech import load as load_speech
from agentd.disk.users import UserFile
from agentd.errors import AgentdError, Misconfigured, Mistake

EXAMPLES = """\
examples:
  agentd check                               before the daemon is started anew
  agentd check --json | jq -r '.mistakes[].where'
  agentd check --online                      asks each supplier for its models, greets each program

exit codes: 0 no mistakes, 1 there are mistakes; an engine that is not ready here is told only,
since the daemon may have another user, PATH and environment
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
    parser.add_argument(
        "--online",
        action="store_true",
        help="call the suppliers and start the engines' programs, too; no prompt is sent",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check all; 1 when there is any mistake."""
    mistakes, ready = list(_mistakes(args)), _engines(args)
    if args.json:
        told = {"ok": not mistakes, "mistakes": mistakes, "engines": ready}
        print(json.dumps(msgspec.to_builtins(told)))
    else:
        _print_sources(args)
        for mistake in mistakes:
            print(mistake)
        for engine in ready:
            print(engine, file=sys.stderr)
        waiting = [engine.engine for engine in ready if engine.problem]
        print(summary(len(mistakes), waiting), file=sys.stderr)
    return 1 if mistakes else 0


def _print_sources(args: argparse.Namespace) -> None:
    """Tell on standard error whose word the settings are, unless they cannot be read."""
    with suppress(AgentdError):
        where = place(args)
        print(where.sources, file=sys.stderr)
        if unused := describe_unused(where.outside):
            print(unused, file=sys.stderr)
        home = find_protected_places(where.layout).home
        if risk := why_risky_workspace(realpath(where.settings.workspace), home):
            print(risk, file=sys.stderr)


def summary(mistakes: int, waiting: Iterable[str]) -> str:
    """What a check came to: how many mistakes, or what is ``waiting`` though there are none."""
    if mistakes:
        return f"{mistakes} mistake(s)"
    named = ", ".join(dict.fromkeys(waiting))
    return f"no mistakes, but not ready: {named}" if named else "all is in order"


def _mistakes(args: argparse.Namespace) -> Iterable[Mistake]:
    settings = mistakes_of(lambda: place(args))
    yield from settings
    try:
        where = layout(args)
    except Misconfigured:
        return
    yield from mistakes_of(lambda: models.check(where))
    yield from mistakes_of(UserFile(where).load)
    yield from mistakes_of(BotsYmlFile(where).load)
    yield from mistakes_of(lambda: load_speech(where))
    yield from mistakes_of(lambda: labels.load(where))
    yield from gateway_mistakes(where)
    yield from skills.check(where)
    for jobs in (load_builds, load_deployments):
        yield from mistakes_of(partial(jobs, where))
    file = KeyFile(where)
    for look in (file.check, file.graves):
        yield from mistakes_of(look)
    yield from unsafe(where.state)
    yield from state_mistakes(where)
    yield from damaged_chats(where)


def _engines(args: argparse.Namespace) -> list[EngineFound]:
    """None while the settings or models cannot be read: their mistakes are told already."""
    try:
        where = place(args)
        known = models.load(where.layout)
    except AgentdError:
        return []
    return asyncio.run(engines(where.settings, known, os.environ, online=args.online))
