"""The way to the suppliers of channels for commands, without a daemon."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import structs

from agentd.core import ids
from agentd.gateway.channels.check import Reach
from agentd.gateway.channels.egress import Egress
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.secrets import resolve_channel_secret
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.manager import Vpns
from agentd.llm.upstream.client import HttpUpstream
from agentd.storage.yaml import untrusted


@asynccontextmanager
async def connect_suppliers() -> AsyncIterator[Reach]:
    """Yield what reaches a channel by its own proxy or VPN, with the secrets of this process."""
    vpns = Vpns(f"cli.{ids.generate_request_id()}", Subscriptions(untrusted.parse_untrusted_yaml))
    egress = Egress(vpns)

    async def reach(channel: Channel, field: str) -> tuple[HttpUpstream, str]:
        key = await asyncio.to_thread(resolve_channel_secret, channel, os.environ, field)
        url = await asyncio.to_thread(resolve_channel_secret, channel, os.environ, "transport")
        return egress.get_upstream(channel, structs.replace(channel.transport, url=url)), key

    try:
        yield reach
    finally:
        await egress.close()
