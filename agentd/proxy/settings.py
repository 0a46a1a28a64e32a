"""The settings of the model gateway, as a person writes them into ``proxy.yml``."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from msgspec import Meta, Struct

from agentd.errors import nearest
from agentd.proxy.price import Prices
from agentd.proxy.pricing import UnknownPrice

MIB = 2**20


class Bodies(Struct, frozen=True, kw_only=True):
    """For how long and up to which size bodies are kept, of the keys that say so."""

    keep_days: Annotated[int, Meta(ge=1, le=3650)] = 7
    max_bytes: Annotated[int, Meta(ge=1024, le=64 * MIB)] = MIB
    """Of each; what is longer is cut."""


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """What holds for all requests."""

    time_zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"
    """In which days, weeks and months of spend begin: a name such as ``Europe/Berlin``."""
    unknown_price: UnknownPrice = "refuse"
    assumed_prices: Prices = Prices(input=Decimal(5), output=Decimal(25))
    """USD per million tokens, where ``unknown_price`` is ``estimate``."""
    when_unbooked: Literal["stop", "continue"] = "stop"
    """Whether requests are taken while the ledger cannot be written, as on a full disk."""
    sync_ledger: bool = True
    """Whether an answer ends only when its line of the ledger would survive a power cut."""
    keep_days: Annotated[int, Meta(ge=1, le=36500)] | None = None
    """Days for which the ledger is kept; ``None``: for ever."""
    bodies: Bodies = Bodies()
    hiding: bool = True
    """Whether secrets are hidden from suppliers."""
    max_body: Annotated[int, Meta(ge=1024, le=1024 * MIB)] = 64 * MIB
    """The largest request, in bytes."""
    idle_timeout: Annotated[float, Meta(ge=1, le=3600)] = 120.0
    """Seconds for which a supplier's stream may be silent."""
    tries: Annotated[int, Meta(ge=1, le=100)] = 4
    """The most channels that are asked for one request."""

    @property
    def zone(self) -> ZoneInfo:
        """The time zone; it is read from the system once."""
        return ZoneInfo(self.time_zone)


def contradictions(settings: GatewaySettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What the schema cannot tell to be wrong: where, and why."""
    try:
        found = bool(settings.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError
        found = False
    if not found:
        near = nearest(settings.time_zone, sorted(available_timezones()))
        hint = near if near.startswith(";") else "; expected a name such as Europe/Berlin"
        yield ("time_zone",), f'"{settings.time_zone}" is no time zone that is known here{hint}'
