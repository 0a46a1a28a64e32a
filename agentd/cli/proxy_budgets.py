"""``agentd proxy budget``: limits that access keys share, with or without a daemon."""

import argparse
import json
import sys
from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import structs

from agentd.cli.limit_options import (
    add_limit_options,
    add_soft_limit_options,
    add_until_option,
    call_or_bad_request,
    format_limits,
    names_limits,
    parse_limits,
    parse_raise,
    parse_warnings,
)
from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import print_result, print_table
from agentd.core.clock import SystemClock
from agentd.core.errors import BadRequest, NotFound, suggest_name
from agentd.gateway.ledger.daily_reports import DailyReports
from agentd.gateway.limits.budget_store import load, open_entries
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.spend import Used
from agentd.gateway.settings.store import load as load_settings
from agentd.storage.layout import Layout

EXAMPLES = """\
examples:
  agentd proxy budget add Research --tag research --day 40 --month 500 --warn-at 0.8
  agentd proxy budget add Ann --owner ann@example.org --month 100 --soft-week 20
  agentd proxy budget list
  agentd proxy budget change Research --month 800 --soft-month none
  agentd proxy budget raise Research --day 100 --until 2d   the old limit holds again by itself
  agentd proxy budget end-raise Research     ... or now

Keys share a budget by their owner or a tag: agentd proxy key change KEY --tag research.
budgets.yml in the configuration folder may be edited by hand; comments are preserved, and a
running daemon follows it at once.
"""

SPENT = ("day", "week", "month", "total")
"""The amounts that are told of a budget."""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "budget",
        help="make, list and change budgets of owners and tags",
        description="Manage budgets: limits that the keys of an owner, or with a tag, share.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, description, action in (
        ("add", "make a budget", _add),
        ("list", "list the budgets, and what is spent of each", _list),
        ("show", "show a budget, and what is spent of it", _show),
        ("change", "change the limits, owner, tag or name of a budget", _change),
        ("raise", "raise limits of a budget until a moment", _raise),
        ("end-raise", "let the old limits of a budget hold again now", _end_raise),
        ("enable", "let the limits of a budget hold", _enable),
        ("disable", "let a budget limit nothing; what is spent is still counted", _disable),
        ("remove", "remove a budget", _remove),
    ):
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb != "list":
            one.add_argument("budget", metavar="NAME", help="name of the budget")
        if verb in ("add", "change"):
            _add_fields(one, changing=verb == "change")
        if verb == "raise":
            add_limit_options(one, removable=False)
            add_until_option(one)
        add_json_option(one)
        one.set_defaults(run=run, action=action)


def _add_fields(parser: argparse.ArgumentParser, *, changing: bool) -> None:
    whose = parser.add_mutually_exclusive_group(required=not changing)
    whose.add_argument("--owner", metavar="NAME", help="the owner whose keys share it")
    whose.add_argument("--tag", metavar="TAG", help="the tag whose keys share it")
    add_limit_options(parser, removable=changing)
    add_soft_limit_options(parser, removable=changing)
    if changing:
        parser.add_argument("--name", help="new name")


def run(args: argparse.Namespace) -> int:
    """Run one verb."""
    action: Callable[[Layout, argparse.Namespace], None] = args.action
    action(resolve_layout(args), args)
    return 0


def _add(layout: Layout, args: argparse.Namespace) -> None:
    fields = {"name": args.budget, "created": SystemClock().now(), **_parse_fields(args, None)}
    budget = call_or_bad_request(lambda: msgspec.convert(msgspec.to_builtins(fields), Budget))
    _print_budget(open_entries(layout).add(budget), "is made", args)


def _change(layout: Layout, args: argparse.Namespace) -> None:
    def revise(budget: Budget) -> Budget:
        fields = _parse_fields(args, budget)
        if not fields:
            raise BadRequest("nothing to change: give options such as --day or --warn-at")
        changed = call_or_bad_request(lambda: structs.replace(budget, **fields))
        return call_or_bad_request(lambda: msgspec.convert(msgspec.to_builtins(changed), Budget))

    _print_budget(open_entries(layout).change(args.budget, revise), "is changed", args)


def _raise(layout: Layout, args: argparse.Namespace) -> None:
    def revise(budget: Budget) -> Budget:
        return structs.replace(budget, raised=parse_raise(args, budget.limits, {}))

    budget = open_entries(layout).change(args.budget, revise)
    assert budget.raised
    _print_budget(budget, f"has raised limits until {budget.raised.until}", args)


def _end_raise(layout: Layout, args: argparse.Namespace) -> None:
    _replace(layout, args, "has its old limits", raised=None)


def _enable(layout: Layout, args: argparse.Namespace) -> None:
    _replace(layout, args, "is enabled", enabled=True)


def _disable(layout: Layout, args: argparse.Namespace) -> None:
    _replace(layout, args, "is disabled", enabled=False)


def _remove(layout: Layout, args: argparse.Namespace) -> None:
    _print_budget(open_entries(layout).remove(args.budget), "is removed", args)


def _replace(layout: Layout, args: argparse.Namespace, outcome: str, **fields: Any) -> None:
    budget = open_entries(layout).change(args.budget, lambda old: structs.replace(old, **fields))
    _print_budget(budget, outcome, args)


def _list(layout: Layout, args: argparse.Namespace) -> None:
    budgets = load(layout).values()
    spent = _count_spent(layout, budgets)
    if args.json:
        print(json.dumps([_to_fields(one, spent[one.name]) for one in budgets]))
    elif budgets:
        head = ("NAME", "OF", "STATE", "LIMITS", "SPENT (USD)")
        print_table([head, *(_format_row(one, spent[one.name]) for one in budgets)])
    else:
        print(
            "no budgets; make one with: agentd proxy budget add NAME --tag TAG --month USD",
            file=sys.stderr,
        )


def _show(layout: Layout, args: argparse.Namespace) -> None:
    budgets = load(layout)
    if args.budget not in budgets:
        suggestion = suggest_name(args.budget, budgets)
        raise NotFound(f'There is no budget "{args.budget[:100]}"{suggestion}')
    budget = budgets[args.budget]
    fields = _to_fields(budget, _count_spent(layout, [budget])[budget.name])
    if args.json:
        print(json.dumps(fields))
        return
    for name, value in fields.items():
        print(f"{name:12}  {value if isinstance(value, str) else json.dumps(value)}")


def _count_spent(layout: Layout, budgets: Collection[Budget]) -> dict[str, Used]:
    """Return what the ledger's files say is spent of each budget, by its name."""
    if not budgets:
        return {}
    clock, zone = SystemClock(), load_settings(layout).zone
    meters = KeyMeters(zone, clock)
    days = DailyReports(layout, lambda: clock.now()[:10], writes=False)
    counted = days.query(lambda: days.count_spend(meters.iter_window_starts()))
    meters.reset_to(counted.spend, zone)
    return {one.name: meters.describe_budget(one).used for one in budgets}


def _to_fields(budget: Budget, used: Used) -> dict[str, Any]:
    """Return what ``--json`` prints of a budget: its file's fields, and ``spent`` in USD."""
    spent = {name: getattr(used, name) for name in SPENT}
    return {**msgspec.to_builtins(budget), "spent": msgspec.to_builtins(spent)}


def _parse_fields(args: argparse.Namespace, budget: Budget | None) -> dict[str, Any]:
    """Return the fields that the options name."""
    before = budget or call_or_bad_request(
        lambda: Budget(name=args.budget, owner=args.owner or "", tag=args.tag or "")
    )
    found = parse_warnings(args, before.soft_limits)
    if names_limits(args):
        found["limits"] = parse_limits(args, before.limits)
    if args.owner is not None or args.tag is not None:
        found |= {"owner": args.owner or "", "tag": args.tag or ""}
    if getattr(args, "name", None) is not None:
        found["name"] = args.name
    return found


def _format_row(budget: Budget, used: Used) -> tuple[str, ...]:
    limits = format_limits(budget.limits)
    if budget.raised and budget.raised.until > SystemClock().now():
        limits += f" (raised until {budget.raised.until})"
    whose = f"{budget.scope} {budget.owner or budget.tag}"
    spent = ", ".join(f"{name} {getattr(used, name):.4f}" for name in SPENT)
    return budget.name, whose, "enabled" if budget.enabled else "disabled", limits, spent


def _print_budget(budget: Budget, outcome: str, args: argparse.Namespace) -> None:
    print_result(f"budget {budget.name} {outcome}", msgspec.to_builtins(budget), as_json=args.json)
