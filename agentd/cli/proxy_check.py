"""``agentd proxy check``: report problems of the gateway's files, and channels not ready."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping

import msgspec
from msgspec import Struct, structs

from agentd.app.inspect import collect_problems, find_gateway_problems
from agentd.cli.check import summarize
from agentd.cli.options import Subcommands, add_json_option, resolve_layout
from agentd.core import ids
from agentd.core.errors import AgentdError, Unavailable
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.egress import Egress
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.secrets import resolve_channel_secret
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.manager import Vpns
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.models_list import SupplierModels, fetch_models
from agentd.models import store as models_store
from agentd.models.model import Models
from agentd.storage.layout import Layout
from agentd.storage.yaml import untrusted

EXAMPLES = """\
examples:
  agentd proxy check                         the files, and whether each key can be read
  agentd proxy check --online                lists each channel's models through its transport

exit codes: 0 no problems, 1 there are problems. A channel that is not ready is reported, but is not
a problem: the daemon may run in another environment.
"""


class ChannelStatus(Struct, frozen=True):
    """A channel, and whether it is ready."""

    channel: str
    url: str
    models: tuple[str, ...]
    """The gateway's models with a route through it."""
    enabled: bool
    problem: str = ""
    """Why it is not ready; empty if it is, as far as was checked."""
    unlisted: tuple[str, ...] = ()
    """Supplier models that a route names and the supplier does not list."""

    def __str__(self) -> str:
        """Describe it in one line."""
        state = f"not ready: {self.problem}" if self.problem else "ready"
        off = "" if self.enabled else ", disabled"
        details = "; ".join(part for part in (self.url, ", ".join(self.models)) if part)
        missing = (
            f"; the supplier does not list {', '.join(self.unlisted)}" if self.unlisted else ""
        )
        return f"channel {self.channel}: {state}{off} ({details}){missing}"


def add_parser(parts: Subcommands) -> None:
    """Register the command with argparse."""
    parser = parts.add_parser(
        "check",
        help="check the files and whether the channels are ready",
        description="Read the gateway's files and the channels' keys.",
        epilog=EXAMPLES,
    )
    add_json_option(parser)
    parser.add_argument("--online", action="store_true", help="also call the suppliers")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Report; return 1 when there is any problem."""
    layout = resolve_layout(args)
    problems = [
        *collect_problems(lambda: models_store.load(layout)),
        *find_gateway_problems(layout),
    ]
    channels = asyncio.run(_inspect_channels(layout, os.environ, online=args.online))
    if args.json:
        report = {"ok": not problems, "problems": problems, "channels": channels}
        print(json.dumps(msgspec.to_builtins(report)))
        return 1 if problems else 0
    for problem in problems:
        print(problem)
    for channel in channels:
        print(channel, file=sys.stderr)
    not_ready = [channel.channel for channel in channels if channel.enabled and channel.problem]
    print(summarize(len(problems), not_ready), file=sys.stderr)
    return 1 if problems else 0


async def _inspect_channels(
    layout: Layout, environ: Mapping[str, str], *, online: bool
) -> list[ChannelStatus]:
    """Inspect each channel; none while the files have problems, which are reported already."""
    try:
        channels, models = channels_store.load(layout), models_store.load(layout)
    except AgentdError:
        return []
    egress = Egress(
        Vpns(f"check.{ids.generate_request_id()}", Subscriptions(untrusted.parse_untrusted_yaml))
    )
    try:
        inspections = [
            _inspect_channel(channel, models, environ, egress, online)
            for channel in channels.values()
        ]
        return list(await asyncio.gather(*inspections))
    finally:
        await egress.close()


async def _inspect_channel(
    channel: Channel, models: Models, environ: Mapping[str, str], egress: Egress, online: bool
) -> ChannelStatus:
    status = ChannelStatus(
        channel.name, channel.url, models.list_using(channel.name), channel.enabled
    )
    try:
        keys = [
            await asyncio.to_thread(resolve_channel_secret, channel, environ, field)
            for field in channel.key_fields
        ]
        url = await asyncio.to_thread(resolve_channel_secret, channel, environ, "transport")
        if not online:
            return status
        upstream = egress.get_upstream(channel, structs.replace(channel.transport, url=url))
        for field, key in zip(channel.key_fields, keys, strict=True):
            listed = await _list_models(channel, upstream, field, key)
    except AgentdError as error:
        return structs.replace(status, problem=error.message)
    named = {
        route.model or model.name
        for model in models.proxy
        for route in model.routes
        if route.channel == channel.name
    }
    missing = sorted(named - listed.names) if listed.all and listed.names else []
    return structs.replace(status, unlisted=tuple(missing))


async def _list_models(
    channel: Channel, upstream: HttpUpstream, field: str, key: str
) -> SupplierModels:
    """List the models with one of the channel's keys; errors name it if there are several."""
    try:
        return await fetch_models(upstream, channel.dialects[0], channel.url, key, channel.headers)
    except AgentdError as error:
        if len(channel.key_fields) > 1:
            raise Unavailable(f"{field}: {error.message}") from error
        raise
