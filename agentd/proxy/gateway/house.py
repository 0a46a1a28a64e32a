"""What the gateway works with: everything that it asks others for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentd.clock import Clock, Timestamp
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import Channel, ChannelDialect, ProxyModel
from agentd.proxy.gateway.bill import Book, Meter
from agentd.proxy.gateway.noting import Noting
from agentd.proxy.routing import Router
from agentd.proxy.secrets.hiding import Hiding
from agentd.proxy.secrets.known import Secret
from agentd.proxy.settings import GatewaySettings
from agentd.proxy.upstream import Upstream


class Suppliers(Protocol):
    """How a channel is reached."""

    def reach(self, channel: Channel) -> Awaitable[tuple[Upstream, str]]:
        """Who calls it, and its secret; raises ``Misconfigured`` or ``Unavailable``."""
        ...


class Bodies(Protocol):
    """Where the bodies of some keys' requests are kept; ``disk.bodies.BodyFiles`` is one."""

    def keep(
        self,
        id_: str,
        at: Timestamp,
        request: bytes,
        response: bytes,
        clean: Callable[[bytes], bytes],
    ) -> None:
        """Have an exchange kept, each side as ``clean`` makes it; nobody waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """What the relay works with."""

    models: Callable[[], Mapping[str, ProxyModel]]
    channels: Callable[[], Mapping[str, Channel]]
    settings: Callable[[], GatewaySettings]
    hiding: Callable[[], Hiding | None]
    """None: nothing is hidden."""
    remember: Callable[[Sequence[Secret]], Awaitable[None]]
    """Keeps what was hidden for the first time over a restart; never raises."""
    without_secrets: Callable[[bytes, ChannelDialect, str], bytes]
    """A body of a key, as it may be kept; also where nothing is hidden from suppliers."""
    licence: Callable[[], str]
    """Why nothing may flow, with what to do; empty: it may."""
    welcomes: Callable[[AccessKey], bool]
    """Whether what was begun with a key may go on."""
    meter: Callable[[AccessKey], Meter[Any]]
    router: Router
    suppliers: Suppliers
    book: Book
    bodies: Bodies
    noting: Noting
    clock: Clock
