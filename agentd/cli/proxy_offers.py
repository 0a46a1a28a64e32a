"""``agentd proxy channel models``: what a supplier offers, and models created from it."""

import argparse
import asyncio
import json
import sys

import msgspec
from msgspec import structs

from agentd.cli.options import Parser
from agentd.cli.output import print_result, print_table
from agentd.cli.proxy_prices import format_prices
from agentd.cli.suppliers import connect_suppliers
from agentd.core.clock import SystemClock
from agentd.core.errors import NotFound, suggest_name
from agentd.gateway.catalogue.listed import (
    ListedPrices,
    build_routed_model,
    find_channel_prices,
)
from agentd.gateway.catalogue.store import load_catalogue
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.offers import list_offered_models
from agentd.gateway.models import store as proxy_models
from agentd.llm.upstream.models_list import OfferedModel, OfferedModels
from agentd.models import store as models_store
from agentd.models.gateway_model import GatewayModel
from agentd.storage.layout import Layout


def add_offer_options(parser: Parser) -> None:
    """Add the options of ``channel models``."""
    parser.add_argument(
        "--create",
        action="append",
        metavar="MODEL[=NAME]",
        help="create this model with a route through the channel and the catalogue's prices;"
        " repeatable, all or none",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --create: only show what would be created"
    )


def show_offer(layout: Layout, args: argparse.Namespace) -> None:
    """List what a channel's supplier offers, or create models of it."""
    channels = channels_store.load(layout)
    if args.name not in channels:
        raise NotFound(f'There is no channel "{args.name}"{suggest_name(args.name, channels)}')
    channel = channels[args.name]
    offered = asyncio.run(_list_offered(channel))
    if args.create:
        _create(layout, channel, offered, args)
    else:
        _print_offer(layout, channel, offered, args)


async def _list_offered(channel: Channel) -> OfferedModels:
    async with connect_suppliers() as reach:
        return await list_offered_models(reach, channel)


def _find_prices(layout: Layout, channel: Channel, names: list[str]) -> list[ListedPrices | None]:
    catalogue, day = load_catalogue(layout), SystemClock().now()[:10]
    return [
        find_channel_prices(catalogue, channel, name, day) if catalogue else None for name in names
    ]


def _print_offer(
    layout: Layout, channel: Channel, offered: OfferedModels, args: argparse.Namespace
) -> None:
    names = [one.name for one in offered.models]
    prices = _find_prices(layout, channel, names)
    here = {
        route.model or model.name: model.name
        for model in models_store.load(layout).proxy
        for route in model.routes
        if route.channel == channel.name
    }
    if args.json:
        rows = [
            {**msgspec.to_builtins(one), "here": here.get(one.name), "listed": listed}
            for one, listed in zip(offered.models, prices, strict=True)
        ]
        print(json.dumps(msgspec.to_builtins(rows)))
        return
    shown = [
        (
            one.name,
            str(one.context or ""),
            format_prices(listed.prices) if listed else "not listed",
            f"here as {here[one.name]}" if one.name in here else "",
        )
        for one, listed in zip(offered.models, prices, strict=True)
    ]
    if shown:
        print_table([("model", "context", "USD in/out per million", ""), *shown])
    more = "" if offered.complete else "; there are more"
    print(f"{len(shown)} models of {channel.name}{more}", file=sys.stderr)


def _create(
    layout: Layout, channel: Channel, offered: OfferedModels, args: argparse.Namespace
) -> None:
    known = {one.name: one for one in offered.models}
    wanted = [one.partition("=")[::2] for one in args.create]
    for name, _ in wanted:
        if name not in known:
            raise NotFound(
                f'The supplier of "{channel.name}" offers no model "{name}"'
                f"{suggest_name(name, known)}"
            )
    prices = _find_prices(layout, channel, [name for name, _ in wanted])
    models = [
        _build_model(new or name, channel, known[name], listed)
        for (name, new), listed in zip(wanted, prices, strict=True)
    ]
    proxy_models.open_entries(layout).add_all(models, dry_run=args.dry_run)
    done = "would be created" if args.dry_run else "created"
    lines = [
        f"model {one.name} {done}"
        f" ({format_prices(one.prices) if one.prices else 'no price: unknown_price decides'})"
        for one in models
    ]
    print_result("\n".join(lines), msgspec.to_builtins(models), as_json=args.json)


def _build_model(
    name: str, channel: Channel, offered: OfferedModel, listed: ListedPrices | None
) -> GatewayModel:
    model = build_routed_model(name, channel, offered.name, listed)
    context = offered.context if (offered.context or 0) >= 1000 else None
    return structs.replace(
        model,
        context=context or model.context,
        max_output=offered.max_output or model.max_output,
    )
