"""``agentd proxy export``: manage the export of the ledger to the analytics database."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import date
from typing import TypeVar

import msgspec

from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import excerpt
from agentd.core.clock import SystemClock
from agentd.gateway.export.clickhouse import ClickHouseConnector
from agentd.gateway.export.service import ALL_DAYS, Exporter
from agentd.gateway.export.state_store import ExportStateFile
from agentd.gateway.ledger.export_reader import LedgerFileReader
from agentd.gateway.settings.model import ExportSettings
from agentd.gateway.settings.store import load
from agentd.storage.layout import Layout
from agentd.storage.secret_ref import resolve_secret

T = TypeVar("T")

EXAMPLES = """\
examples:
  agentd proxy export status                 days that are not fully sent, and why
  agentd proxy export status --all --json    every day
  agentd proxy export check                  check the database; sends nothing
  agentd proxy export backfill --dry-run     rows and bytes of all missing or changed days
  agentd proxy export backfill --from 2026-01-01 --to 2026-01-31
                                             the daemon sends them within half a minute, or after
                                             its next start
"""


def add_parser(parts: Subcommands) -> None:
    """Register the commands with argparse."""
    parser = parts.add_parser(
        "export",
        help="manage the export of the ledger to an analytics database",
        description="Manage the export of the ledger to the database that proxy.yml names.",
        epilog=EXAMPLES,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    status = _add_command(commands, "status", "show which days were sent")
    status.add_argument("--all", action="store_true", help="include the days that are done")
    status.set_defaults(run=run_status)
    check = _add_command(commands, "check", "check whether the database is ready")
    check.set_defaults(run=run_check)
    backfill = _add_command(commands, "backfill", "send missing or changed days")
    backfill.add_argument(
        "--from",
        dest="first",
        type=_parse_day,
        default=ALL_DAYS.first,
        metavar="DAY",
        help="first day (UTC); default: the first of the ledger",
    )
    backfill.add_argument(
        "--to",
        dest="last",
        type=_parse_day,
        default=ALL_DAYS.last,
        metavar="DAY",
        help="last day (UTC); default: the last of the ledger",
    )
    backfill.add_argument("--dry-run", action="store_true", help="only show what would be sent")
    backfill.set_defaults(run=run_backfill)


def _add_command(commands: Subcommands, name: str, description: str) -> argparse.ArgumentParser:
    """Add one command, with ``--json``."""
    parser = commands.add_parser(name, help=description, description=to_sentence(description))
    add_json_option(parser)
    return parser


def run_status(args: argparse.Namespace) -> int:
    """Print the days and their state."""
    layout = resolve_layout(args)
    export = load(layout).export
    status = asyncio.run(_ask_exporter(layout, export, Exporter.get_status))
    days = {
        name: day for name, day in sorted(status.days.items()) if args.all or day.state != "done"
    }
    if args.json:
        states = {
            name: {"state": day.state, "rows": day.rows, "error": day.error}
            for name, day in days.items()
        }
        report = {"active": export.is_active, "lag_days": status.lag_days, "days": states}
        print(json.dumps(report))
        return 0
    for name, day in days.items():
        rows = f"{day.rows} rows sent"
        print("  ".join(filter(None, (name, day.state.ljust(7), rows, excerpt(day.error)))))
    target = f"to {export.url}, {export.database}.{export.table}" if export.is_active else "off"
    print(f"{target}; closed days to be sent: {status.lag_days}", file=sys.stderr)
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Print each step; return 1 when one failed."""
    layout = resolve_layout(args)
    steps = asyncio.run(ClickHouseConnector(_resolve_password).check(load(layout).export))
    if args.json:
        print(json.dumps(msgspec.to_builtins(steps)))
    else:
        for step in steps:
            print(f"{step.name}: {'' if step.passed else 'failed: '}{excerpt(step.detail)}")
    return 0 if all(step.passed for step in steps) else 1


def run_backfill(args: argparse.Namespace) -> int:
    """Print the days, and request the daemon to send them."""
    layout = resolve_layout(args)
    days = asyncio.run(
        _ask_exporter(
            layout,
            load(layout).export,
            lambda exporter: exporter.backfill(args.first, args.last, dry_run=args.dry_run),
        )
    )
    if args.json:
        print(json.dumps(msgspec.to_builtins(days)))
        return 0
    for day in days:
        about = "" if day.exact else "about "
        print(f"{day.day}  {day.state}  {about}{day.rows} rows, {day.bytes} bytes")
    total = f"{sum(day.rows for day in days)} rows, {sum(day.bytes for day in days)} bytes"
    outcome = "would be sent" if args.dry_run else "will be sent by the daemon"
    print(f"days: {len(days)}; {total} {outcome}", file=sys.stderr)
    return 0


async def _ask_exporter(
    layout: Layout, export: ExportSettings, ask: Callable[[Exporter], Awaitable[T]]
) -> T:
    """Return the answer of an exporter with the state that the daemon's exporter has stored."""
    connect, clock = ClickHouseConnector(_resolve_password), SystemClock()
    exporter = Exporter(
        lambda: export, connect, LedgerFileReader(layout), ExportStateFile(layout), clock
    )
    await exporter.open()
    return await ask(exporter)


async def _resolve_password(export: ExportSettings) -> str:
    return resolve_secret(export.password, os.environ, "export.password", "the database's")


def _parse_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-01-31") from error
