"""The settings of the model gateway, as a person writes them into ``proxy.yml``."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from msgspec import Meta, Struct

from agentd.core.errors import suggest_name
from agentd.core.secret_text import SecretText, explain_malformed_secret, get_secret_part
from agentd.gateway.alerts.model import AlertRules
from agentd.gateway.pricing.bounds import UnknownPrice
from agentd.llm.endpoint import SupplierUrl
from agentd.llm.price import Prices
from agentd.llm.upstream.header_rules import find_header_problem
from agentd.llm.upstream.request import explain_malformed_address

MIB = 2**20


class BodySettings(Struct, frozen=True, kw_only=True):
    """The time and size limits of stored bodies, for the keys that store them."""

    keep_days: Annotated[int, Meta(ge=1, le=3650)] = 7
    """Days for which they are kept."""
    max_bytes: Annotated[int, Meta(ge=1024, le=64 * MIB)] = MIB
    """Maximum size of each in bytes; a longer one is cut."""


Identifier: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[A-Za-z_][A-Za-z0-9_]{0,63}",
        extra={"form": "at most 64 letters, digits and _, not beginning with a digit"},
    ),
]
"""The name of a database or a table, which needs no quotes."""


class ExportSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The analytics database, a ClickHouse, to which the ledger is sent day by day."""

    url: SupplierUrl | None = None
    """URL of its HTTP interface, such as ``http://127.0.0.1:8123``; ``None``: nothing is sent."""
    database: Identifier = "default"
    """Name of the database, which must exist."""
    table: Identifier = "agentd_requests"
    """Name of the table, which is created."""
    user: Annotated[
        str,
        Meta(max_length=200, pattern="[!-~]*", extra={"form": "visible ASCII characters"}),
    ] = ""
    """The database user."""
    password: SecretText = ""
    """Its secret; in the file also `env:NAME` or `file:PATH` that names it. Shown masked."""
    enabled: bool = True
    """True if anything is sent."""
    since: (
        Annotated[
            str,
            Meta(pattern="[0-9]{4}-[0-9]{2}-[0-9]{2}", extra={"form": "a day such as 2026-01-31"}),
        ]
        | None
    ) = None
    """The first day (UTC) that is sent automatically; ``None``: all days."""
    today: bool = False
    """True to send the current day too, each hour; else each day is sent when it is over."""

    def __repr__(self) -> str:
        """Return a representation without the password, for logs and tracebacks."""
        return f"ExportSettings({self.url!r}, {self.database}.{self.table})"

    @property
    def is_active(self) -> bool:
        """True if days are sent."""
        return self.enabled and self.url is not None


class TracingSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The OpenTelemetry collector that receives a span of each request and of each attempt."""

    endpoint: SupplierUrl | None = None
    """URL of its OTLP receiver over HTTP, such as ``http://127.0.0.1:4318``; ``null``: that of the
    daemon's environment (``OTEL_EXPORTER_OTLP_ENDPOINT``), or else nothing is sent."""
    headers: dict[str, SecretText] = {}
    """Sent with the spans, such as an API key; in the file also `env:NAME` or `file:PATH` in its
    place, or after the scheme, as in `Bearer env:NAME`. Shown masked."""
    enabled: bool = True
    """True if spans are sent."""
    sample: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The share of requests of which spans are sent, unless the caller's ``traceparent`` decides;
    ``null``: as ``OTEL_TRACES_SAMPLER`` says, or else all."""
    forward_context: bool = False
    """True to pass ``traceparent`` on to suppliers."""

    def __repr__(self) -> str:
        """Return a representation without the headers, for logs and tracebacks."""
        return f"TracingSettings({self.endpoint!r})"


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """Settings for all requests: each with its default and its description for people."""

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
            description="The treatment of a request whose price is unknown: its model has none, or"
            " it asks for another tier of service."
        ),
    ] = "refuse"
    assumed_prices: Annotated[
        Prices,
        Meta(description="USD per million tokens, where unknown_price is estimate."),
    ] = Prices(input=Decimal(5), output=Decimal(25))
    on_ledger_failure: Annotated[
        Literal["refuse", "continue"],
        Meta(
            description="Refuse requests while the ledger cannot be written, as on a full disk, or"
            " continue without records."
        ),
    ] = "refuse"
    sync_ledger: Annotated[
        bool,
        Meta(
            description="End a response only when its line of the ledger would survive a power cut."
            " In either case a power cut may lose calls whose supplier was called within the last"
            " 50 ms; a crash of the daemon loses none."
        ),
    ] = True
    keep_days: Annotated[
        Annotated[int, Meta(ge=1, le=36500)] | None,
        Meta(description="Days for which the ledger is kept; null: for ever."),
    ] = None
    bodies: Annotated[
        BodySettings,
        Meta(description="For how long, and up to which size, bodies of requests are kept."),
    ] = BodySettings()
    mask_secrets: Annotated[
        bool, Meta(description="Mask secrets in requests before suppliers see them.")
    ] = True
    max_body: Annotated[
        int, Meta(ge=1024, le=1024 * MIB, description="The largest request, in bytes.")
    ] = 64 * MIB
    idle_timeout: Annotated[
        float,
        Meta(ge=1, le=3600, description="Seconds for which a supplier's stream may be silent."),
    ] = 120.0
    tries: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="The most channels of a model that are called for one request.",
        ),
    ] = 4
    disable_channel_after: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(
            description="Disable a channel after so many calls in a row in which its supplier did"
            " not accept its key; null: never."
        ),
    ] = None
    export: Annotated[
        ExportSettings,
        Meta(description="The analytics database (ClickHouse) to which the ledger is sent."),
    ] = ExportSettings()
    tracing: Annotated[
        TracingSettings,
        Meta(
            description="The OpenTelemetry collector that gets a span for each request and for each"
            " attempt, without any content."
        ),
    ] = TracingSettings()
    alerts: Annotated[
        AlertRules, Meta(description="From when on there are alerts; alerts.yml says for whom.")
    ] = AlertRules()

    @property
    def requires_ledger(self) -> bool:
        """True if a request is refused that cannot be recorded."""
        return self.on_ledger_failure == "refuse"

    @property
    def zone(self) -> ZoneInfo:
        """The time zone; it is read from the system once."""
        return ZoneInfo(self.time_zone)


def validate(settings: GatewaySettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield problems that the schema cannot express: where, and why."""
    try:
        found = bool(settings.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError
        found = False
    if not found:
        near = suggest_name(settings.time_zone, sorted(available_timezones()))
        hint = near if near.startswith(";") else "; expected a name such as Europe/Berlin"
        yield ("time_zone",), f'"{settings.time_zone}" is not a known time zone{hint}'
    addresses = {("export", "url"): settings.export.url}
    addresses |= {("tracing", "endpoint"): settings.tracing.endpoint}
    for place, url in addresses.items():
        if url and (wrong := explain_malformed_address(url)):
            yield place, wrong
    if wrong := explain_malformed_secret(settings.export.password):
        yield ("export", "password"), wrong
    for name, value in settings.tracing.headers.items():
        secret = get_secret_part(value)
        if wrong := find_header_problem(name, value) or explain_malformed_secret(secret):
            yield ("tracing", "headers", name), wrong
    if settings.export.since and not _is_day(settings.export.since):
        yield ("export", "since"), f'"{settings.export.since}" is not a valid date'


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
