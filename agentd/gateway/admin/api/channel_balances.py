"""What the state of a channel shows of its balance, and the endpoint that reads it now."""

from collections.abc import Awaitable
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, NotFound
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.channels.balances import ChannelBalance, KeyBalance
from agentd.gateway.channels.masking import mask
from agentd.gateway.channels.model import BalanceSource, Channel
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class KeyBalanceView(Struct, frozen=True, rename="camel"):
    """The balance of the account of one key."""

    field: str
    """Where the key is: ``key``, or such as ``keys[0]``."""
    key: str
    """The key, masked."""
    amount: Decimal | None
    """What was left when it was last read; null: it was never read."""
    currency: str
    """The currency of the amount, such as ``USD``; empty: it was never read."""
    read_at: Timestamp | None
    """When it was read; null: never."""
    error: str
    """Why the last reading failed; empty: it did not."""
    low: bool
    """True if it is less than the channel's ``balance.low``."""


class ChannelBalanceView(Struct, frozen=True):
    """The balance of a channel."""

    source: BalanceSource
    """The supplier whose way of telling it is used."""
    low: Decimal | None
    """The amount below which there is an alert; null: there is none."""
    keys: list[KeyBalanceView]
    """One for each key: they may be of several accounts, or all of one."""


class ReadableBalances(Protocol):
    """Reads balances (``gateway.channels.balances.BalanceService``)."""

    def read(self, channel: Channel, /) -> Awaitable[ChannelBalance]:
        """Read a channel's balance now. ``BadRequest`` if its supplier does not tell it."""
        ...


class FindChannel(Protocol):
    """Finds a channel by its name."""

    def __call__(self, name: str, /) -> Channel:
        """Return it. Raises ``NotFound``."""
        ...


class ChannelBalanceEndpoints:
    """The endpoint ``/api/agent/channels/{name}/balance``."""

    def __init__(self, find: FindChannel, balances: ReadableBalances) -> None:
        self._find = find
        self._balances = balances

    async def read_balance(self, call: Request) -> Response:
        """Read the balance of a channel now."""
        channel = self._find(call.get_name())
        return Response(render_balance(channel, await self._balances.read(channel)))


def render_balance(channel: Channel, balance: ChannelBalance) -> ChannelBalanceView:
    """Return the view of what is known of a channel's balance."""
    low = balance.list_low(channel.balance.low)
    return ChannelBalanceView(
        balance.source,
        channel.balance.low,
        [_render_key(channel, one, one in low) for one in balance.keys],
    )


def _render_key(channel: Channel, one: KeyBalance, low: bool) -> KeyBalanceView:
    return KeyBalanceView(
        field=one.field,
        key=mask(channel.get_key(one.field)),
        amount=one.amount,
        currency=one.currency,
        read_at=one.read_at or None,
        error=one.error,
        low=low,
    )


def routes(endpoints: ChannelBalanceEndpoints) -> tuple[Route, ...]:
    """Return the route of balances."""
    return (
        build_route(
            "POST",
            "/api/agent/channels/{name}/balance",
            endpoint=endpoints.read_balance,
            summary="Read the balance of a channel now, if its supplier tells it; the state of the"
            " channel shows what was read last.",
            operation_id="read_channel_balance",
            response_type=ChannelBalanceView,
            errors=(BadRequest, NotFound),
        ),
    )
