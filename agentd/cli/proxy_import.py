"""``agentd proxy import``: move the configuration of another gateway into this one."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from agentd.cli.limit_options import format_limits
from agentd.cli.management_key import add_daemon_options, open_management
from agentd.cli.options import Subcommands
from agentd.cli.output import excerpt
from agentd.cli.proxy_prices import format_prices
from agentd.core.errors import BadRequest
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.budgets import BudgetEndpoints
from agentd.gateway.admin.api.channels import ChannelEndpoints
from agentd.gateway.admin.api.models import ProxyModelEndpoints
from agentd.gateway.migration.plan import ImportPlan
from agentd.gateway.migration.reading import Origin, map_configuration
from agentd.gateway.migration.reconcile import reconcile
from agentd.storage import document
from agentd.storage.yaml.reader import decode_text
from agentd.storage.yaml.untrusted import MAX_TEXT_SIZE

EXAMPLES = """\
examples:
  agentd proxy import config.yaml --dry-run  shows what a LiteLLM configuration becomes
  agentd proxy import config.yaml            creates it, as one change that can be undone
  agentd proxy import channels.json --from new-api --key-file ~/.agentd-management-key

Reads the config.yaml of a LiteLLM proxy, or the channels of new-api as JSON: what its
GET /api/channel/ returns (without keys), or the rows of its table channels; likewise its users,
whose quotas become budgets. The running daemon creates channels, models and budgets for the holder
of the management key, all or none; what exists stays as it is. os.environ/NAME is looked up in this
command's environment, and the value stored in channels.yml. Whatever cannot be taken is listed,
with its place; then the exit code is 1. Models without prices get those of the price catalogue
(agentd proxy prices), where it lists them. Keys of callers are not moved: make access keys with
agentd proxy key add.
"""

UNPRICED = """\
Models without a price: unknown_price in proxy.yml decides what happens to their requests; by
default they are refused. Prices: agentd proxy prices update, agentd proxy prices apply --unpriced,
or agentd proxy model change NAME --input USD --output USD"""


def add_parser(parts: Subcommands) -> None:
    """Register ``agentd proxy import`` with argparse."""
    parser = parts.add_parser(
        "import",
        help="move the channels, models and budgets of LiteLLM or new-api over",
        description="Create the channels, models and budgets of another gateway's configuration.",
        epilog=EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", help="the other gateway's configuration")
    parser.add_argument(
        "--from",
        dest="origin",
        choices=("litellm", "new-api"),
        help="whose configuration it is; default: found by its content",
    )
    parser.add_argument(
        "--no-catalogue-prices",
        action="store_true",
        help="leave models without prices as they are; default: they get those of the catalogue",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be created")
    add_daemon_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Create the channels and models; return 1 if anything could not be taken."""
    plan = read_plan(args.file, args.origin, os.environ)
    with open_management(args) as client:
        channels = {one["name"]: one["url"] for one in client.list_managed("channels")}
        models = {one["name"] for one in client.list_managed("models")}
        budgets = [
            (one["name"], one["owner"], one["tag"]) for one in client.list_managed("budgets")
        ]
        plan = reconcile(plan, channels, models, budgets)
        done: Mapping[str, Any] = {"change": None, "cataloguePriced": []}
        if plan.channels or plan.models or plan.budgets:
            entries = {**_encode(plan), "cataloguePrices": not args.no_catalogue_prices}
            done = client.import_entries(entries, dry_run=args.dry_run)
    if args.json:
        print(json.dumps(_describe(plan, done)))
    else:
        _print_plan(plan, done, dry_run=args.dry_run)
    return 1 if plan.leftovers else 0


def read_plan(path: str, origin: Origin | None, environ: Mapping[str, str]) -> ImportPlan:
    """Read and map a configuration. Raises ``BadRequest`` and ``ConfigError``. Blocking."""
    found = document.read_document(path, MAX_TEXT_SIZE)
    if found is None:
        raise BadRequest(f"{path} does not exist")
    text = decode_text(path, found.data, MAX_TEXT_SIZE)
    return map_configuration(PurePath(path).name, text, origin, environ)


def _encode(plan: ImportPlan) -> dict[str, object]:
    """Return the request that creates what a plan has."""
    return {
        name: [msgspec.to_builtins(shapes.to_view(one, kind)) for one in entries]
        for name, entries, kind in (
            ("channels", plan.channels, ChannelEndpoints.types.new),
            ("models", plan.models, ProxyModelEndpoints.types.new),
            ("budgets", plan.budgets, BudgetEndpoints.types.new),
        )
    }


def _describe(plan: ImportPlan, done: Mapping[str, Any]) -> dict[str, object]:
    return {
        "channels": [one.name for one in plan.channels],
        "models": [one.name for one in plan.models],
        "budgets": [one.name for one in plan.budgets],
        "cataloguePriced": done["cataloguePriced"],
        "change": done["change"],
        "notTaken": [{"place": one.place, "why": one.why} for one in plan.leftovers],
        "notes": list(plan.notes),
    }


def _print_plan(plan: ImportPlan, done: Mapping[str, Any], *, dry_run: bool) -> None:
    priced, change = done["cataloguePriced"], done["change"]
    for channel in plan.channels:
        state = "" if channel.enabled else ", disabled"
        print(excerpt(f"channel {channel.name}: {channel.url}{state}"))
    for model in plan.models:
        routes = ", ".join(f"{one.channel}={one.model or model.name}" for one in model.routes)
        unpriced = "the catalogue's price" if model.name in priced else "no price"
        price = format_prices(model.prices) if model.prices else unpriced
        print(excerpt(f"model {model.name}: {routes} ({price})"))
    for budget in plan.budgets:
        whose = f"{budget.scope} {budget.owner or budget.tag}"
        print(excerpt(f"budget {budget.name}: {whose}, {format_limits(budget.limits)}"))
    for leftover in plan.leftovers:
        print(f"not taken: {excerpt(leftover.place)}: {excerpt(leftover.why)}", file=sys.stderr)
    for note in plan.notes:
        print(excerpt(note), file=sys.stderr)
    if any(not model.is_priced and model.name not in priced for model in plan.models):
        print(UNPRICED, file=sys.stderr)
    counts = f"{len(plan.channels)} channels and {len(plan.models)} models"
    if plan.budgets:
        counts = f"{counts.replace(' and', ',')} and {len(plan.budgets)} budgets"
    if dry_run:
        print(f"{counts} would be created; nothing was changed", file=sys.stderr)
    elif change is None:
        print("nothing new to create", file=sys.stderr)
    else:
        undo = f"agentd proxy changes undo {change}, or Changes in the browser, undoes it"
        print(f"created {counts} as change {change}; {undo}", file=sys.stderr)
