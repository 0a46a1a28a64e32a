"""``agentd proxy spend`` and ``agentd proxy log``: report what the ledger has recorded."""

import argparse
import json
import sys
import time
from datetime import date, timedelta
from decimal import Decimal
from typing import NoReturn, get_args

import msgspec

from agentd.cli.options import Subcommands, add_json_option, resolve_layout
from agentd.cli.output import excerpt, print_table
from agentd.core.clock import SystemClock
from agentd.core.local_days import get_slot_minutes, get_today
from agentd.gateway.ledger.daily_reports import DailyReports
from agentd.gateway.ledger.pages import read_page
from agentd.gateway.ledger.queries import LedgerQueries
from agentd.gateway.ledger.query import RequestFilter
from agentd.gateway.ledger.record import Outcome, RequestRecord
from agentd.gateway.ledger.tail import LedgerTail, LeftOut, find_end_places
from agentd.gateway.reports.reports import ReportFilter, ReportRow, build_rows
from agentd.gateway.settings.store import load as load_settings

FOLLOW_SECONDS = 0.5
"""Seconds between two looks for further requests."""

GROUPINGS = ("key", "owner", "tag", "model", "channel", "day")

SPEND_EXAMPLES = """\
examples:
  agentd proxy spend                         the last 30 days, by access key
  agentd proxy spend --by day --days 7       days are those of time_zone in proxy.yml
  agentd proxy spend --by model --json | jq '.[0].cost'
  agentd proxy spend --by owner --tag nightly
"""

LOG_EXAMPLES = """\
examples:
  agentd proxy log                           the last 20 requests, the newest last
  agentd proxy log -n 5 --key laptop         of one access key, by name or id
  agentd proxy log --outcome failed --json | jq -r .error
  agentd proxy log --follow                  go on until Ctrl-C, also while the daemon restarts
"""


def add_parser(parts: Subcommands) -> None:
    """Register both commands with argparse."""
    spend = parts.add_parser(
        "spend",
        help="report spending by key, owner, tag, model, channel or day",
        description="Report what the requests of the last days cost, in USD.",
        epilog=SPEND_EXAMPLES,
    )
    spend.add_argument("--by", choices=GROUPINGS, default="key", help="group by; default: key")
    spend.add_argument(
        "--days",
        type=_parse_count,
        default=30,
        metavar="N",
        help="number of days, including today; default: 30",
    )
    _add_group_options(spend)
    add_json_option(spend)
    spend.set_defaults(run=run_spend)
    log = parts.add_parser(
        "log",
        help="list the last requests",
        description="List the last requests that the gateway answered.",
        epilog=LOG_EXAMPLES,
    )
    log.add_argument(
        "-n", type=_parse_count, default=20, metavar="N", help="number of requests; default: 20"
    )
    log.add_argument("--key", default="", help="only of this key, by name or id")
    _add_group_options(log)
    log.add_argument("--model", default="", help="only for this model")
    log.add_argument("--channel", default="", help="only through this channel")
    log.add_argument(
        "--outcome", default="", choices=get_args(Outcome), help="only with this outcome"
    )
    log.add_argument(
        "-f", "--follow", action="store_true", help="go on with those that end from now on"
    )
    add_json_option(log, "print one JSON object per request")
    log.set_defaults(run=run_log)


def _add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by what keys had in common when the requests were made."""
    parser.add_argument("--owner", default="", help="only of keys that had this owner")
    parser.add_argument("--tag", default="", help="only of keys that had this tag")


def run_spend(args: argparse.Namespace) -> int:
    """Print a report."""
    layout = resolve_layout(args)
    now, zone = SystemClock().now(), load_settings(layout).zone
    today = get_today(zone, now)
    first = (date.fromisoformat(today) - timedelta(args.days - 1)).isoformat()
    slot = get_slot_minutes(zone)
    days = DailyReports(layout, lambda: now[:10], writes=False, slot=lambda: slot)
    queries = LedgerQueries(days, lambda: now, lambda: zone)
    only = ReportFilter(owner=args.owner, tag=args.tag)
    table = days.query(lambda: queries.get_totals(args.by, first, today, only))
    report = build_rows(table)
    if args.json:
        print(json.dumps(msgspec.to_builtins(report)))
        return 0
    head = (args.by.upper(), "REQUESTS", "ERRORS", "TOKENS IN", "TOKENS OUT", "USD")
    end = ("total", str(table.total.requests), "", "", "", _format_usd(table.total.cost))
    print_table([head, *map(_format_row, report), end], numbers=True)
    print(f"{first} to {today}, days in {zone}")
    return 0


def run_log(args: argparse.Namespace) -> int:
    """Print the last requests."""
    layout = resolve_layout(args)
    chosen = RequestFilter(
        owner=args.owner,
        tag=args.tag,
        model=args.model,
        channel=args.channel,
        outcome=args.outcome,
    )
    places = find_end_places(layout, _get_no_size, SystemClock().now()[:10])
    found: list[RequestRecord] = []
    cursor = ""
    while len(found) < args.n:
        page = read_page(layout, chosen, 1000 if args.key else args.n - len(found), cursor)
        found += [one for one in page.records if args.key in ("", one.key, one.key_name)]
        cursor = page.next
        if not cursor:
            break
    for one in reversed(found[: args.n]):
        _print_request(one, args)
    if args.follow:
        tail = LedgerTail(layout, _get_no_size, places)
        _follow(tail, chosen, {one.id for one in found}, args)
    if not found and not args.json:
        filtered = bool(args.key) or chosen != RequestFilter()
        print("no matching requests" if filtered else "no requests yet", file=sys.stderr)
    return 0


def _follow(
    tail: LedgerTail, chosen: RequestFilter, shown: set[str], args: argparse.Namespace
) -> NoReturn:
    """Print what is recorded until interrupted; ``shown`` are ids of what is printed already."""
    while True:
        batch = tail.read(chosen)
        for _, one in batch.entries:
            if isinstance(one, LeftOut):
                count = "" if one.lines is None else f"{one.lines} "
                print(f"agentd: {count}requests of {one.day} are {one.reason}", file=sys.stderr)
            elif one.id not in shown and args.key in ("", one.key, one.key_name):
                _print_request(one, args)
        if batch.is_last:
            time.sleep(FOLLOW_SECONDS)


def _print_request(one: RequestRecord, args: argparse.Namespace) -> None:
    line = json.dumps(msgspec.to_builtins(one)) if args.json else _format_request(one)
    print(line, flush=args.follow)


def _get_no_size(_: str) -> None:
    """Return how much of a day's file is complete: only the daemon knows, so all lines are read."""


def _format_row(row: ReportRow) -> tuple[str, ...]:
    tokens_in = row.input + row.cache_read + row.cache_write
    name = row.title or row.name or "(none)"
    counts = (row.requests, row.requests - row.ok, tokens_in, row.output + row.reasoning)
    estimated = " ~" if row.estimated else ""
    return (excerpt(name), *map(str, counts), f"{_format_usd(row.cost)}{estimated}")


def _format_request(record: RequestRecord) -> str:
    """Return one line: time, key, model, outcome, duration, tokens and cost."""
    tokens = f"{record.usage.total_input}+{record.usage.total_output} tokens"
    failed = f" ({record.error or record.status})" if record.outcome != "ok" else ""
    key = excerpt(record.key_name or record.key or "(no key)")
    model = f"{excerpt(record.model or record.endpoint)} by {record.channel or '(no channel)'}"
    duration = f"{record.timings.total:.0f} ms"
    cost = f"{_format_usd(record.cost)} USD"
    return "  ".join((record.at, key, model, f"{record.outcome}{failed}", duration, tokens, cost))


def _format_usd(amount: Decimal) -> str:
    return f"{amount:.6f}"


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)
