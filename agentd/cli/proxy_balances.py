"""``agentd proxy channel balance``: what is left of the accounts at suppliers that report it."""

import argparse
import asyncio
import json
import sys

import msgspec

from agentd.cli.output import excerpt, print_table
from agentd.cli.suppliers import connect_suppliers
from agentd.core.clock import SystemClock
from agentd.core.errors import NotFound, Unavailable, suggest_name
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.balance_sources import find_source
from agentd.gateway.channels.balances import ChannelBalance, KeyBalance, read_channel_balance
from agentd.gateway.channels.masking import mask
from agentd.gateway.channels.model import Channel
from agentd.storage.layout import Layout


def show_balances(layout: Layout, args: argparse.Namespace) -> None:
    """Read the balances of the named channels, or of all whose suppliers report them."""
    channels = channels_store.load(layout)
    for name in args.names:
        if name not in channels:
            raise NotFound(f'There is no channel "{name}"{suggest_name(name, channels)}')
    wanted = [channels[name] for name in args.names] or [
        one for one in channels.values() if find_source(one) is not None
    ]
    found = asyncio.run(_read_balances(wanted))
    if args.json:
        rows = [
            {"channel": balance.channel.name, "source": balance.source, **_to_json(balance, one)}
            for balance in found
            for one in balance.keys
        ]
        print(json.dumps(rows))
    elif found:
        print_table([_to_row(balance, one) for balance in found for one in balance.keys])
    else:
        print("no channel whose supplier is known to report its balance", file=sys.stderr)
    if any(one.error for balance in found for one in balance.keys):
        raise Unavailable("Not every balance could be read")


async def _read_balances(channels: list[Channel]) -> list[ChannelBalance]:
    clock = SystemClock()
    async with connect_suppliers() as reach:
        return await asyncio.gather(
            *(read_channel_balance(reach, channel, clock) for channel in channels)
        )


def _to_row(balance: ChannelBalance, one: KeyBalance) -> tuple[str, str, str]:
    channel = balance.channel
    name = f"{channel.name} ({mask(channel.get_key(one.field))})" if channel.keys else channel.name
    if one.amount is None:
        return name, "?", excerpt(one.error)
    low = channel.balance.low
    note = f"below {low:f}" if low is not None and one in balance.list_low(low) else ""
    return name, f"{one.amount:f} {one.currency}", note


def _to_json(balance: ChannelBalance, one: KeyBalance) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(one)
    return {
        **fields,
        "amount": None if one.amount is None else float(one.amount),
        "low": one in balance.list_low(balance.channel.balance.low),
    }
