"""``agentd proxy prices``: the price catalogue, and the models' prices beside it."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping

import msgspec

from agentd.cli.options import Parser, Subcommands, add_json_option, resolve_layout
from agentd.cli.output import print_result, print_table
from agentd.core.clock import SystemClock
from agentd.core.errors import Conflict
from agentd.gateway.catalogue.extraction import extract_catalogue
from agentd.gateway.catalogue.listed import (
    ListedPrices,
    find_model_prices,
    has_other_prices,
    list_prices,
    take_listed_prices,
)
from agentd.gateway.catalogue.store import require_catalogue, save_catalogue
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.model import Channel
from agentd.gateway.models import store as proxy_models
from agentd.llm.price import Prices
from agentd.models import store as models_store
from agentd.models.gateway_model import GatewayModel
from agentd.storage.layout import Layout

EXAMPLES = """\
examples:
  agentd proxy prices update                 read the installed library (the daemon does so daily)
  agentd proxy prices list sonnet            what the catalogue has
  agentd proxy prices compare                the models' own prices beside the catalogue's
  agentd proxy prices apply sonnet --dry-run what the model would cost; without --dry-run it does
  agentd proxy prices apply --unpriced       all models that have no prices and are listed
  agentd proxy prices apply --all            all that are listed, in place of their own prices

The catalogue needs an extra: pip install 'agentd-workstation[prices]'. A model's own prices are
used until the catalogue's are applied.
"""


def add_parser(parts: Subcommands) -> None:
    """Register the command with argparse."""
    parser = parts.add_parser(
        "prices",
        help="prices of known models: list, compare, apply",
        description="Prices and context sizes of known models, from a catalogue.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_verb(verbs, "update", "read the catalogue from the installed library", _update)
    listing = _add_verb(verbs, "list", "list the catalogue", _list)
    listing.add_argument(
        "text", metavar="TEXT", nargs="?", default="", help="part of a model's or supplier's name"
    )
    _add_verb(verbs, "compare", "show the models' prices beside the catalogue's", _compare)
    applying = _add_verb(verbs, "apply", "give models the catalogue's prices", _apply)
    which = applying.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", nargs="?", help="name of the model")
    which.add_argument("--all", action="store_true", help="all models that are listed")
    which.add_argument(
        "--unpriced", action="store_true", help="those of them that have no prices yet"
    )
    applying.add_argument("--dry-run", action="store_true", help="only show what would change")


def require_listed_prices(
    layout: Layout, channels: Mapping[str, Channel], model: GatewayModel
) -> ListedPrices:
    """Return the catalogue's prices of a model. ``Unavailable``, or ``Conflict`` if none."""
    day = SystemClock().now()[:10]
    listed = find_model_prices(require_catalogue(layout), channels, model, day)
    if listed is None:
        raise Conflict(
            f'The price catalogue does not list the model "{model.name}"',
            "It looks for the supplier's name of the model at the address of its first route"
            " without prices of its own.",
        )
    return listed


def _add_verb(
    verbs: Subcommands,
    name: str,
    description: str,
    action: Callable[[Layout, argparse.Namespace], None],
) -> Parser:
    parser = verbs.add_parser(name, help=description, description=f"{description.capitalize()}.")
    add_json_option(parser)

    def run(args: argparse.Namespace) -> int:
        action(resolve_layout(args), args)
        return 0

    parser.set_defaults(run=run)
    return parser


def _update(layout: Layout, args: argparse.Namespace) -> None:
    catalogue = extract_catalogue(SystemClock().now())
    save_catalogue(layout, msgspec.json.encode(catalogue))
    count = sum(len(supplier.models) for supplier in catalogue.suppliers)
    result = {"source": catalogue.source, "at": catalogue.at, "models": count}
    print_result(f"{count} models from {catalogue.source}", result, as_json=args.json)


def _list(layout: Layout, args: argparse.Namespace) -> None:
    catalogue, day = require_catalogue(layout), SystemClock().now()[:10]
    part = args.text.casefold()
    found = [
        list_prices(supplier.id, model, day)
        for supplier in catalogue.suppliers
        for model in supplier.models
        if part in f"{supplier.id}/{model.id} {model.name}".casefold()
    ]
    if args.json:
        print(json.dumps(msgspec.to_builtins(found)))
        return
    rows = [(one.supplier, one.model, format_prices(one.prices), one.since) for one in found]
    if rows:
        print_table([("supplier", "model", "USD in/out per million", "since"), *rows])
    print(f"{len(rows)} models, from {catalogue.source}, read {catalogue.at}", file=sys.stderr)


def _compare(layout: Layout, args: argparse.Namespace) -> None:
    rows = list(_list_comparisons(layout))
    if args.json:
        print(json.dumps(msgspec.to_builtins(rows)))
        return
    shown = [
        (
            row.model,
            format_prices(row.prices) if row.prices else "no price",
            format_prices(row.listed.prices) if row.listed else "not listed",
            "differs" if row.differs else "",
        )
        for row in rows
    ]
    if shown:
        print_table([("model", "own", "catalogue", ""), *shown])


class ModelComparison(msgspec.Struct, frozen=True):
    """A model's own prices beside the catalogue's."""

    model: str
    prices: Prices | None
    listed: ListedPrices | None
    differs: bool


def _list_comparisons(layout: Layout) -> Iterator[ModelComparison]:
    catalogue, day = require_catalogue(layout), SystemClock().now()[:10]
    channels = channels_store.load(layout)
    for model in models_store.load(layout).proxy:
        listed = find_model_prices(catalogue, channels, model, day)
        yield ModelComparison(model.name, model.prices, listed, has_other_prices(model, listed))


def _apply(layout: Layout, args: argparse.Namespace) -> None:
    if not args.name:
        _apply_to_many(layout, args)
        return
    channels = channels_store.load(layout)

    def revise(old: GatewayModel) -> GatewayModel:
        return take_listed_prices(old, require_listed_prices(layout, channels, old))

    entries = proxy_models.open_entries(layout)
    changed = entries.change(args.name, revise, dry_run=args.dry_run)
    text = _describe_cost(changed, dry_run=args.dry_run)
    print_result(text, msgspec.to_builtins(changed), as_json=args.json)


def _apply_to_many(layout: Layout, args: argparse.Namespace) -> None:
    listed = {
        row.model: row.listed
        for row in _list_comparisons(layout)
        if row.listed and row.differs and (args.all or row.prices is None)
    }
    edited = proxy_models.open_entries(layout).edit_all(
        list(listed), lambda old: take_listed_prices(old, listed[old.name]), dry_run=args.dry_run
    )
    changed = [after for _, after in edited if after]
    lines = [_describe_cost(one, dry_run=args.dry_run) for one in changed]
    text = "\n".join(lines) or "no model has other prices in the catalogue"
    print_result(text, msgspec.to_builtins(changed), as_json=args.json)


def _describe_cost(model: GatewayModel, *, dry_run: bool) -> str:
    assert model.prices
    text = f"model {model.name} {'would cost' if dry_run else 'costs'}"
    return f"{text} {format_prices(model.prices)} USD per million tokens"


def format_prices(prices: Prices) -> str:
    """Format the rates of input and output, such as ``3/15``."""
    return f"{prices.input}/{prices.output}"
