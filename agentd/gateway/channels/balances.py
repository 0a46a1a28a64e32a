"""The balances of channels whose suppliers tell them: read at intervals, and on demand."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

from msgspec import Struct, structs

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import AgentdError, BadRequest, Forbidden, TooLarge, Unavailable
from agentd.core.redaction import escape_unprintable, mask_values, scrub
from agentd.gateway.channels.balance_sources import find_source, get_base_url, read_balance
from agentd.gateway.channels.check import Reach
from agentd.gateway.channels.masking import list_sent_secrets
from agentd.gateway.channels.model import BalanceSource, Channel
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest, merge_headers

INTERVAL = 600.0
"""The seconds between two readings of a channel's balance."""
DELAY = 15.0
"""The seconds from a start, or a change of the channels, to the readings that it calls for."""
SECONDS = 30.0
"""The most that the reading of one balance may take."""

_TIMEOUTS = Timeouts(connect=10, head=15, idle=10, total=20)
_MAX_BYTES = 256 * 1024
_MAX_ERROR_CHARS = 500


class KeyBalance(Struct, frozen=True, kw_only=True):
    """The balance of the account of one of a channel's keys."""

    field: str
    """Where the key is: one of ``Channel.key_fields``."""
    amount: Decimal | None = None
    """What was left at ``read_at``; None: it was never read."""
    currency: str = ""
    read_at: Timestamp = ""
    error: str = ""
    """Why the last reading failed; empty: it did not."""


class ChannelBalance(Struct, frozen=True):
    """What is known of a channel's balance."""

    channel: Channel
    """The channel as it was when this was read."""
    source: BalanceSource
    keys: tuple[KeyBalance, ...]
    """One for each key, since each may be of another account."""

    @property
    def is_read(self) -> bool:
        """True if the last reading told the balance of every key."""
        return all(one.amount is not None and not one.error for one in self.keys)

    def list_low(self, low: Decimal | None) -> list[KeyBalance]:
        """Return those of which less than ``low`` is left."""
        if low is None:
            return []
        return [one for one in self.keys if one.amount is not None and one.amount < low]

    def is_of(self, channel: Channel) -> bool:
        """Return whether it was read with the keys and at the address that the channel has."""
        read = self.channel
        return (read.url, read.key, read.keys) == (channel.url, channel.key, channel.keys)


async def read_channel_balance(
    reach: Reach, channel: Channel, clock: Clock, known: ChannelBalance | None = None
) -> ChannelBalance:
    """Ask a channel's supplier for the balance of each key, the way that requests go.

    What cannot be read keeps its ``known`` amount, with the error, which never holds a key. Raises
    ``BadRequest`` for a channel whose supplier does not tell its balance.
    """
    source = find_source(channel)
    if source is None:
        raise BadRequest(
            f'The supplier of "{channel.name}" is not known to report its balance',
            "Set balance.source of the channel if it does.",
        )
    before = {one.field: one for one in known.keys} if known else {}
    found = [
        await _read_key(reach, channel, source, before.get(field, KeyBalance(field=field)), clock)
        for field in channel.key_fields
    ]
    return ChannelBalance(channel, source, tuple(found))


async def _read_key(
    reach: Reach, channel: Channel, source: BalanceSource, known: KeyBalance, clock: Clock
) -> KeyBalance:
    key = ""
    try:
        async with asyncio.timeout(SECONDS):
            upstream, key = await reach(channel, known.field)
            headers = merge_headers({"authorization": f"Bearer {key}"}, channel.headers)
            base = get_base_url(channel.url)

            async def ask(path: str) -> bytes:
                request = UpstreamRequest("GET", base + path, headers, timeouts=_TIMEOUTS)
                async with upstream.send(request) as answer:
                    body = await answer.read(_MAX_BYTES)
                _require_success(answer.status)
                return body

            found = await read_balance(source, channel.url, ask, clock.now()[:10])
    except TimeoutError:
        return structs.replace(known, error=f"it takes longer than {SECONDS:g} s")
    except TooLarge:
        return structs.replace(known, error="its answer is too long for a balance")
    except AgentdError as error:
        reason = mask_values(error.message, list_sent_secrets(channel, key))
        shown = escape_unprintable(scrub(reason))[:_MAX_ERROR_CHARS]
        return structs.replace(known, error=shown)
    return KeyBalance(
        field=known.field, amount=found.amount, currency=found.currency, read_at=clock.now()
    )


def _require_success(status: int) -> None:
    if status in (401, 403):
        raise Forbidden(f"it does not accept its key for this (HTTP {status})")
    if status in (404, 405, 501):
        raise Unavailable(f"it tells no balance (HTTP {status}): is the source right?")
    if status != 200:
        raise Unavailable(f"it answers HTTP {status} to a request for the balance")


class BalanceService:
    """Keeps the balances of channels, in memory only; on the loop only."""

    def __init__(
        self, reach: Reach, channels: Callable[[], Mapping[str, Channel]], clock: Clock
    ) -> None:
        self._reach = reach
        self._channels = channels
        self._clock = clock
        self._found: dict[str, ChannelBalance] = {}
        self._read_at: dict[str, float] = {}
        """Monotonic seconds of the last reading, by the channel's name."""
        self._changed = asyncio.Event()

    def get(self, channel: Channel) -> ChannelBalance | None:
        """Return what is known of a channel; None: its supplier does not tell its balance."""
        source = find_source(channel)
        if source is None:
            return None
        found = self._found.get(channel.name)
        if found and found.source == source and found.is_of(channel):
            return found
        unread = tuple(KeyBalance(field=field) for field in channel.key_fields)
        return ChannelBalance(channel, source, unread)

    def iter_known(self) -> Iterator[tuple[Channel, ChannelBalance]]:
        """Yield the enabled channels whose balance was read, or could not be."""
        if not self._found:
            return
        for channel in self._channels().values():
            if channel.enabled and channel.name in self._found and (found := self.get(channel)):
                yield channel, found

    def on_channels_changed(self) -> None:
        """Forget the channels that are gone, and look for those to read."""
        names = self._channels().keys()
        self._found = {name: one for name, one in self._found.items() if name in names}
        self._read_at = {name: at for name, at in self._read_at.items() if name in names}
        self._changed.set()

    async def read(self, channel: Channel) -> ChannelBalance:
        """Read a channel's balance now. Raises ``BadRequest`` as ``read_channel_balance``."""
        self._read_at[channel.name] = self._clock.monotonic()
        known = self.get(channel)
        found = await read_channel_balance(self._reach, channel, self._clock, known)
        if channel.name in self._channels():
            self._found[channel.name] = found
        return found

    async def run(self) -> None:
        """Read balances regularly; sleeps while no supplier tells one."""
        while True:
            self._changed.clear()
            await asyncio.sleep(DELAY)
            await self.read_due()
            try:
                async with asyncio.timeout(INTERVAL if self._list_telling() else None):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def read_due(self) -> None:
        """Read the balances that were not read lately, or with other keys."""
        now = self._clock.monotonic()
        due = [
            channel
            for channel in self._list_telling()
            if not self._is_known(channel)
            or now - self._read_at.get(channel.name, -INTERVAL) >= INTERVAL
        ]
        await asyncio.gather(*map(self.read, due))

    def _is_known(self, channel: Channel) -> bool:
        found = self._found.get(channel.name)
        return found is not None and found is self.get(channel)

    def _list_telling(self) -> list[Channel]:
        return [
            one for one in self._channels().values() if one.enabled and find_source(one) is not None
        ]
