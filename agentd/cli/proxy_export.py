"""``agentd proxy export``: how far the ledger was sent to the analytics database, daemon or not."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import date
from typing import TypeVar

import msgspec

from agentd.cli.options import Subcommands, layout
from agentd.cli.tail import printable
from agentd.clock import SystemClock
from agentd.disk.export_state import ExportFile
from agentd.disk.gateway_settings import load
from agentd.disk.layout import Layout
from agentd.disk.ledger_export import LedgerDays
from agentd.disk.secret import resolve
from agentd.outside.clickhouse import ClickHouses
from agentd.proxy.export.service import EVER, Exporter
from agentd.proxy.settings import Export

T = TypeVar("T")

EXAMPLES = """\
examples:
  agentd proxy export status                 the days that are not sent, and why
  agentd proxy export status --all --json    every day
  agentd proxy export check                  whether the database is ready; nothing is sent
  agentd proxy export backfill --dry-run     rows and bytes of all days that are missed or changed
  agentd proxy export backfill --from 2026-01-01 --to 2026-01-31
                                             the daemon sends them within half a minute, or once
                                             it runs
"""


def add_parser(parts: Subcommands) -> None:
    """Tell argparse about the commands."""
    parser = parts.add_parser(
        "export",
        help="the export of the ledger to an analytics database",
        description="The export of the ledger to the database of proxy.yml, section export.",
        epilog=EXAMPLES,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    status = commands.add_parser("status", help="how far each day was sent")
    status.add_argument("--all", action="store_true", help="the days that are done, too")
    status.set_defaults(run=run_status)
    check = commands.add_parser("check", help="whether the database is ready")
    check.set_defaults(run=run_check)
    backfill = commands.add_parser("backfill", help="have days sent that are missed or changed")
    backfill.add_argument("--from", dest="first", type=_day, default=EVER.first, metavar="DAY")
    backfill.add_argument("--to", dest="last", type=_day, default=EVER.last, metavar="DAY")
    backfill.add_argument("--dry-run", action="store_true", help="only tell what would be sent")
    backfill.set_defaults(run=run_backfill)
    for command in (status, check, backfill):
        command.add_argument("--json", action="store_true", help="answer in JSON")


def run_status(args: argparse.Namespace) -> int:
    """Print the days."""
    where = layout(args)
    to = load(where).export
    now = asyncio.run(_opened(where, to, Exporter.standing))
    days = {name: day for name, day in sorted(now.days.items()) if args.all or day.state != "done"}
    if args.json:
        told = {
            name: {"state": day.state, "rows": day.rows, "error": day.error}
            for name, day in days.items()
        }
        print(json.dumps({"active": to.active, "lag_days": now.lag_days, "days": told}))
        return 0
    for name, day in days.items():
        rows = f"{day.rows} rows sent"
        print("  ".join(filter(None, (name, day.state.ljust(7), rows, printable(day.error)))))
    target = f"to {to.url}, {to.database}.{to.table}" if to.active else "switched off"
    print(f"{target}; {now.lag_days} closed day(s) to be sent", file=sys.stderr)
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Print each step; 1 when one failed."""
    where = layout(args)
    rungs = asyncio.run(ClickHouses(_password).check(load(where).export))
    if args.json:
        print(json.dumps(msgspec.to_builtins(rungs)))
    else:
        for rung in rungs:
            print(f"{rung.name}: {'' if rung.passed else 'failed: '}{printable(rung.told)}")
    return 0 if all(rung.passed for rung in rungs) else 1


def run_backfill(args: argparse.Namespace) -> int:
    """Print the days, and have the daemon send them."""
    where = layout(args)
    found = asyncio.run(
        _opened(
            where,
            load(where).export,
            lambda one: one.backfill(args.first, args.last, dry_run=args.dry_run),
        )
    )
    if args.json:
        print(json.dumps(msgspec.to_builtins(found)))
        return 0
    for one in found:
        about = "" if one.exact else "about "
        print(f"{one.day}  {one.state}  {about}{one.rows} rows, {one.bytes} bytes")
    total = f"{sum(one.rows for one in found)} rows, {sum(one.bytes for one in found)} bytes"
    what = "would be sent" if args.dry_run else "will be sent by the daemon"
    print(f"{len(found)} day(s), {total} {what}", file=sys.stderr)
    return 0


async def _opened(where: Layout, to: Export, ask: Callable[[Exporter], Awaitable[T]]) -> T:
    """What the export answers that is not running here, but knows what the daemon's has kept."""
    connect, clock = ClickHouses(_password), SystemClock()
    exporter = Exporter(lambda: to, connect, LedgerDays(where), ExportFile(where), clock)
    await exporter.open()
    return await ask(exporter)


async def _password(to: Export) -> str:
    return resolve(to.password, os.environ, "export.password", "the database's")


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day such as 2026-01-31") from error
