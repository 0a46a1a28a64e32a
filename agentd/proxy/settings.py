"""The settings of the model gateway, as a person writes them into ``proxy.yml``."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from msgspec import Meta, Struct

from agentd.errors import nearest
from agentd.proxy.channel import Address, SecretText, malformed
from agentd.proxy.price import Prices
from agentd.proxy.pricing import UnknownPrice

MIB = 2**20


class Bodies(Struct, frozen=True, kw_only=True):
    """For how long and up to which size bodies are kept, of the keys that say so."""

    keep_days: Annotated[int, Meta(ge=1, le=3650)] = 7
    """Days for which they are kept."""
    max_bytes: Annotated[int, Meta(ge=1024, le=64 * MIB)] = MIB
    """Of each; what is longer is cut."""


Identifier: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[A-Za-z_][A-Za-z0-9_]{0,63}",
        extra={"form": "at most 64 letters, digits and _, of which the first is no digit"},
    ),
]
"""The name of a database or a table, which needs no quotes."""


class Export(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The analytics database, a ClickHouse, to which the ledger is sent day by day."""

    url: Address | None = None
    """Of its HTTP interface, such as ``http://127.0.0.1:8123``; ``None``: nothing is sent."""
    database: Identifier = "default"
    """It must be there ..."""
    table: Identifier = "agentd_requests"
    """... but not the table, which is made."""
    user: Annotated[str, Meta(max_length=200, pattern="[!-~]*")] = ""
    """Who signs in there."""
    password: SecretText = ""
    """Its secret; in the file also `env:NAME` or `file:PATH` that names it. Shown masked."""
    enabled: bool = True
    """Whether anything is sent."""
    since: (
        Annotated[
            str,
            Meta(pattern="[0-9]{4}-[0-9]{2}-[0-9]{2}", extra={"form": "a day such as 2026-01-31"}),
        ]
        | None
    ) = None
    """The first day (UTC) that is sent by itself; ``None``: all that there are."""
    today: bool = False
    """Whether the present day is sent, too, each hour; else a day is sent once it is over."""

    def __repr__(self) -> str:
        """Without the password, wherever it is printed."""
        return f"Export({self.url!r}, {self.database}.{self.table})"

    @property
    def active(self) -> bool:
        """Whether days are sent."""
        return self.enabled and self.url is not None


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """What holds for all requests: each setting with its default and, for a person, its use."""

    time_zone: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=64,
            description="In which days, weeks and months of limits and reports begin, such as"
            " Europe/Berlin.",
        ),
    ] = "UTC"
    unknown_price: Annotated[
        UnknownPrice,
        Meta(
            description="What becomes of a request whose price is not known: its model has none, or"
            " it asks for another tier of service."
        ),
    ] = "refuse"
    assumed_prices: Annotated[
        Prices,
        Meta(description="USD per million tokens, where unknown_price is estimate."),
    ] = Prices(input=Decimal(5), output=Decimal(25))
    when_unbooked: Annotated[
        Literal["stop", "continue"],
        Meta(
            description="Whether requests are taken while the ledger cannot be written, as on a"
            " full disk."
        ),
    ] = "stop"
    sync_ledger: Annotated[
        bool,
        Meta(
            description="Whether an answer ends only when its line of the ledger would survive a"
            " power cut."
        ),
    ] = True
    keep_days: Annotated[
        Annotated[int, Meta(ge=1, le=36500)] | None,
        Meta(description="Days for which the ledger is kept; null: for ever."),
    ] = None
    bodies: Annotated[
        Bodies, Meta(description="For how long, and up to which size, bodies of requests are kept.")
    ] = Bodies()
    hiding: Annotated[bool, Meta(description="Whether secrets are hidden from suppliers.")] = True
    max_body: Annotated[
        int, Meta(ge=1024, le=1024 * MIB, description="The largest request, in bytes.")
    ] = 64 * MIB
    idle_timeout: Annotated[
        float,
        Meta(ge=1, le=3600, description="Seconds for which a supplier's stream may be silent."),
    ] = 120.0
    tries: Annotated[
        int, Meta(ge=1, le=100, description="The most channels that are asked for one request.")
    ] = 4
    export: Annotated[
        Export,
        Meta(description="The analytics database (ClickHouse) to which the ledger is sent."),
    ] = Export()

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
    if wrong := malformed(settings.export.password):
        yield ("export", "password"), wrong
    if settings.export.since and not _is_day(settings.export.since):
        yield ("export", "since"), f'"{settings.export.since}" is no day that there is'


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
