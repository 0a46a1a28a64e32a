"""``agentd proxy spend`` and ``agentd proxy log``: what the ledger says, daemon or not."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import get_args

import msgspec

from agentd.cli.options import Subcommands, layout
from agentd.cli.tail import printable
from agentd.clock import SystemClock
from agentd.disk.gateway_settings import load as load_settings
from agentd.disk.ledger_answers import Answers
from agentd.disk.ledger_days import Days
from agentd.disk.ledger_page import page
from agentd.proxy.entry import Entry, Outcome
from agentd.proxy.local_days import slot_minutes, today_in
from agentd.proxy.page import Filter
from agentd.proxy.reports import Line, lines

SIDES = ("key", "model", "channel", "day")

SPEND_EXAMPLES = """\
examples:
  agentd proxy spend                         the last 30 days, by access key
  agentd proxy spend --by day --days 7       days are those of time_zone in proxy.yml
  agentd proxy spend --by model --json | jq '.[0].cost'
"""

LOG_EXAMPLES = """\
examples:
  agentd proxy log                           the last 20 requests, the newest last
  agentd proxy log -n 5 --key laptop         a key by its name or id
  agentd proxy log --outcome failed --json | jq -r .error
"""


def add_parser(parts: Subcommands) -> None:
    """Tell argparse about both."""
    spend = parts.add_parser(
        "spend",
        help="what was spent, by key, model, channel or day",
        description="What the requests of the last days cost, in USD.",
        epilog=SPEND_EXAMPLES,
    )
    spend.add_argument("--by", choices=SIDES, default="key", help="how to tell it apart")
    spend.add_argument("--days", type=_count, default=30, metavar="N", help="with today")
    spend.add_argument("--json", action="store_true", help="answer in JSON")
    spend.set_defaults(run=run_spend)
    log = parts.add_parser(
        "log",
        help="the last requests",
        description="The last requests that the gateway answered.",
        epilog=LOG_EXAMPLES,
    )
    log.add_argument("-n", type=_count, default=20, metavar="N", help="how many")
    log.add_argument("--key", default="", help="only of this key, by its name or id")
    log.add_argument("--model", default="", help="only of this model")
    log.add_argument("--channel", default="", help="only through this channel")
    log.add_argument("--outcome", default="", choices=get_args(Outcome), help="only such")
    log.add_argument("--json", action="store_true", help="one JSON object per request")
    log.set_defaults(run=run_log)


def run_spend(args: argparse.Namespace) -> int:
    """Print a report."""
    now, zone = SystemClock().now(), load_settings(layout(args)).zone
    today = today_in(zone, now)
    first = (date.fromisoformat(today) - timedelta(args.days - 1)).isoformat()
    slot = slot_minutes(zone)
    days = Days(layout(args), lambda: now[:10], keeps=False, slot=lambda: slot)
    answers = Answers(days, lambda: now, lambda: zone)
    found = lines(days.asked(lambda: answers.totals(args.by, first, today)))
    if args.json:
        print(json.dumps(msgspec.to_builtins(found)))
        return 0
    total = sum((line.cost for line in found), Decimal(0))
    head = (args.by.upper(), "REQUESTS", "ERRORS", "TOKENS IN", "TOKENS OUT", "USD")
    rows = [_row(line) for line in found]
    requests = str(sum(line.requests for line in found))
    _table([head, *rows, ("total", requests, "", "", "", _usd(total))])
    print(f"Days are those of {zone}, from {first} to {today}.")
    return 0


def run_log(args: argparse.Namespace) -> int:
    """Print the last requests."""
    where = layout(args)
    wanted = Filter(model=args.model, channel=args.channel, outcome=args.outcome)
    found: list[Entry] = []
    cursor = ""
    while len(found) < args.n:
        part = page(where, wanted, 1000 if args.key else args.n - len(found), cursor)
        found += [one for one in part.entries if args.key in ("", one.key, one.key_name)]
        cursor = part.next
        if not cursor:
            break
    for one in reversed(found[: args.n]):
        print(json.dumps(msgspec.to_builtins(one)) if args.json else _told(one))
    if not found and not args.json:
        chosen = any((args.key, args.model, args.channel, args.outcome))
        print("no such requests" if chosen else "no requests yet", file=sys.stderr)
    return 0


def _row(line: Line) -> tuple[str, ...]:
    into = line.input + line.cache_read + line.cache_write
    name = line.title or line.name or "(none)"
    counts = (line.requests, line.requests - line.ok, into, line.output + line.reasoning)
    mark = " ~" if line.estimated else ""
    return (printable(name), *map(str, counts), f"{_usd(line.cost)}{mark}")


def _told(one: Entry) -> str:
    """One request on one line: when, who, what, how it ended, how long it took, and its price."""
    usage = f"{one.usage.total_input}+{one.usage.total_output} tokens"
    how = one.outcome if one.outcome == "ok" else f"{one.outcome} ({one.error or one.status})"
    who = printable(one.key_name or one.key or "(no key)")
    what = f"{printable(one.model or one.endpoint)} by {one.channel or '(no channel)'}"
    took = f"{one.timings.total:.0f} ms"
    return "  ".join((one.at, who, what, how, took, usage, f"{_usd(one.cost)} USD"))


def _usd(amount: Decimal) -> str:
    return f"{amount:.6f}"


def _table(rows: Iterable[Sequence[str]]) -> None:
    known = list(rows)
    widths = [max(map(len, column)) for column in zip(*known, strict=True)]
    for name, *counts in known:
        cells = (count.rjust(width) for count, width in zip(counts, widths[1:], strict=True))
        print("  ".join((name.ljust(widths[0]), *cells)).rstrip())


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no count from 1 to 100000")
    return int(text)
