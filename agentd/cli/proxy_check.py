"""``agentd proxy check``: whether the gateway's files are in order, and its channels ready."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping

import msgspec
from msgspec import Struct, structs

from agentd import ids
from agentd.catalog.models import Models
from agentd.cli.check import summary
from agentd.cli.options import Subcommands, layout
from agentd.disk import channels, clash, models
from agentd.disk.inspect import gateway_mistakes, mistakes_of
from agentd.disk.layout import Layout
from agentd.disk.secret import of_channel
from agentd.errors import AgentdError
from agentd.outside.egress import Egress
from agentd.outside.models_list import models_list
from agentd.outside.subscription import Subscriptions
from agentd.outside.vpn import Vpns
from agentd.proxy.channel import Channel

EXAMPLES = """\
examples:
  agentd proxy check                         the files, and whether each key is to be had
  agentd proxy check --online                asks each channel for its models, its own way

exit codes: 0 no mistakes, 1 there are mistakes; a channel that is not ready here is told only,
since the daemon may have another environment
"""


class ChannelFound(Struct, frozen=True):
    """A channel, and whether it is ready."""

    channel: str
    url: str
    models: tuple[str, ...]
    """Those of the gateway that have a way through it."""
    enabled: bool
    problem: str = ""
    """Why it is not ready; empty: it is, as far as was looked."""
    unlisted: tuple[str, ...] = ()
    """Models of the supplier that a way names, and that it does not list."""

    def __str__(self) -> str:
        """For a reader, in one line."""
        state = f"not ready: {self.problem}" if self.problem else "ready"
        off = "" if self.enabled else ", switched off"
        told = "; ".join(part for part in (self.url, ", ".join(self.models)) if part)
        missing = f"; it does not list {', '.join(self.unlisted)}" if self.unlisted else ""
        return f"channel {self.channel}: {state}{off} ({told}){missing}"


def add_parser(parts: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = parts.add_parser(
        "check",
        help="whether all is in order and ready",
        description="Read the files of the gateway, and look for the channels' keys.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument("--online", action="store_true", help="call the suppliers, too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check all; 1 when there is any mistake."""
    where = layout(args)
    wrong = [*mistakes_of(lambda: models.load(where)), *gateway_mistakes(where)]
    ready = asyncio.run(_ready(where, os.environ, online=args.online))
    if args.json:
        told = {"ok": not wrong, "mistakes": wrong, "channels": ready}
        print(json.dumps(msgspec.to_builtins(told)))
        return 1 if wrong else 0
    for mistake in wrong:
        print(mistake)
    for channel in ready:
        print(channel, file=sys.stderr)
    waiting = [channel.channel for channel in ready if channel.enabled and channel.problem]
    print(summary(len(wrong), waiting), file=sys.stderr)
    return 1 if wrong else 0


async def _ready(where: Layout, environ: Mapping[str, str], *, online: bool) -> list[ChannelFound]:
    """Each channel looked at; none while the files have mistakes, which are told already."""
    try:
        known, named = channels.load(where), models.load(where)
    except AgentdError:
        return []
    egress = Egress(Vpns(f"check.{ids.new_request_id()}", Subscriptions(clash.read)))
    try:
        looked = [_looked(one, named, environ, egress, online) for one in known.values()]
        return list(await asyncio.gather(*looked))
    finally:
        await egress.close()


async def _looked(
    channel: Channel, named: Models, environ: Mapping[str, str], egress: Egress, online: bool
) -> ChannelFound:
    found = ChannelFound(channel.name, channel.url, named.using(channel.name), channel.enabled)
    try:
        key = await asyncio.to_thread(of_channel, channel, environ)
        url = await asyncio.to_thread(of_channel, channel, environ, "transport")
        if not online:
            return found
        upstream = egress.upstream(channel, structs.replace(channel.transport, url=url))
        listed = await models_list(upstream, channel.dialects[0], channel.url, key, channel.headers)
    except AgentdError as error:
        return structs.replace(found, problem=error.message)
    wanted = {
        way.model or model.name
        for model in named.proxy
        for way in model.ways
        if way.channel == channel.name
    }
    missing = sorted(wanted - listed.names) if listed.all and listed.names else []
    return structs.replace(found, unlisted=tuple(missing))
