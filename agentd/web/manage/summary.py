"""The main page of the gateway in short; it costs little, so it may be asked for often."""

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from agentd import __version__
from agentd.clock import Clock, Timestamp
from agentd.errors import Mistake
from agentd.proxy.keyring import AccessKeys
from agentd.proxy.licence import LicenceStatus
from agentd.proxy.overview import Overview
from agentd.proxy.routing import Standing
from agentd.proxy.tally import Totals, spent
from agentd.web.call import Answer, Call

TROUBLED = 20
"""Channels that are told by name, of those that rest or failed last."""
MISTAKES = 20


class SpanView(Struct, frozen=True, rename="camel"):
    """What was done since the beginning of a day or month."""

    requests: int
    """How many there were."""
    ok: int
    """How many went well."""
    errors: dict[str, int]
    """Requests that did not go well, by kind."""
    cost: Decimal
    """USD."""
    input_tokens: int
    """Tokens that were read."""
    output_tokens: int
    """Tokens that were written or thought."""
    secrets: int
    """That were found in requests."""


class TopModelView(Struct, frozen=True):
    """One of today's dearest models."""

    name: str
    """As callers name it."""
    requests: int
    """How many there were."""
    cost: Decimal
    """USD."""


class TroubledView(Struct, frozen=True, rename="camel"):
    """A channel that rests, or whose last call failed."""

    name: str
    """The channel's."""
    state: str
    """``ok``, ``resting`` or ``disabled``."""
    seconds: float
    """For how much longer it rests."""
    error: str
    """Why it failed last ..."""
    ago: float
    """... and how many seconds ago."""
    worked: int
    """Calls since the start."""
    failed: int
    """How many calls failed since the start."""
    resting_models: dict[str, float]
    """Its models that rest while it does not, and for how many seconds."""


class ChannelsView(Struct, frozen=True):
    """How many channels fare how, and which have trouble: those that rest first."""

    ok: int
    """Those that are used."""
    resting: int
    """Those that rest after failures."""
    disabled: int
    """Those that are switched off."""
    troubled: list[TroubledView]
    """Each that rests or failed last."""


class KeyCountsView(Struct, frozen=True):
    """How many access keys there are; an enabled one may be expired."""

    total: int
    """All of them."""
    enabled: int
    """Those that are enabled."""


class LicenceShortView(Struct, frozen=True):
    """Whether model requests are carried."""

    state: str
    """Whether it holds."""
    reason: str
    """Why it does not, with what to do; empty: it does."""
    expires: Timestamp | None
    """Until when it holds; null: there is none."""


class DamagedDayView(Struct, frozen=True):
    """A day of the ledger with lines that are not sound, which count nowhere."""

    day: str
    """In UTC."""
    lines: int
    """How many are not sound."""


class DroppedView(Struct, frozen=True):
    """What was lost since the start: lines of the service log, bodies that were to be kept."""

    notes: int
    """Lines of the service log."""
    bodies: int
    """Bodies of requests."""


class SummaryView(Struct, frozen=True, rename="camel"):
    """The gateway at a glance."""

    at: Timestamp
    """When it was looked."""
    version: str
    """Of the daemon."""
    licence: LicenceShortView
    """Whether model requests are carried."""
    zone: str
    """The time zone in which days and months begin, for limits too."""
    today: SpanView
    """Since the beginning of the day."""
    month: SpanView
    """Since the beginning of the month."""
    top_models: list[TopModelView]
    """Today's dearest models."""
    channels: ChannelsView
    """How the channels fare."""
    models: int
    """How many can be called."""
    keys: KeyCountsView
    """How many access keys there are."""
    ledger_trouble: str
    """Why requests cannot be booked now; empty: they can."""
    export_trouble: str
    """Why the ledger cannot be exported now; empty: it can, or is not to be."""
    damaged: list[DamagedDayView]
    """Days of the ledger that are not whole."""
    dropped: DroppedView
    """What was lost since the start."""
    mistakes: list[str]
    """What is wrong with the files of the configuration, as ``agentd proxy check`` tells it."""


class Ledger(Protocol):
    """Who adds up (``disk.ledger.Ledger``)."""

    @property
    def trouble(self) -> str:
        """Why requests cannot be booked now; empty: they can."""
        ...

    @property
    def zone(self) -> tzinfo:
        """In which days and months begin."""
        ...

    def overview(self) -> Awaitable[Overview]:
        """The present day and month in short."""
        ...


class Licences(Protocol):
    """The licence as it is now (``disk.licence.LicenceBook``)."""

    @property
    def status(self) -> LicenceStatus:
        """What holds now."""
        ...

    def refresh(self) -> Awaitable[None]:
        """Return once it is as its files are."""
        ...


class Gateway(Protocol):
    """What a summary asks of the gateway, each by a look at what is in memory."""

    @property
    def models(self) -> int:
        """How many can be called."""
        ...

    @property
    def keys(self) -> AccessKeys:
        """Those that are valid."""
        ...

    def standing(self) -> Mapping[str, Standing]:
        """How each channel fares, by name."""
        ...

    def dropped(self) -> tuple[int, int]:
        """Notes and bodies that were lost since the start."""
        ...

    @property
    def export_trouble(self) -> str:
        """Why the ledger cannot be exported now; empty: it can, or is not to be."""
        ...

    def mistakes(self) -> Awaitable[Sequence[Mistake]]:
        """What is wrong with the files of the configuration."""
        ...


class SummaryDesk:
    """The endpoint ``/api/agent/summary``."""

    def __init__(self, gateway: Gateway, ledger: Ledger, licences: Licences, clock: Clock) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._licences = licences
        self._clock = clock
        self._counted: tuple[AccessKeys | None, KeyCountsView] = (None, KeyCountsView(0, 0))

    async def summary(self, _: Call) -> Answer:
        """All of it from memory, but for a look at the licence's files."""
        await self._licences.refresh()
        overview = await self._ledger.overview()
        gateway, licence = self._gateway, self._licences.status
        mistakes = await gateway.mistakes()
        return Answer(
            SummaryView(
                at=self._clock.now(),
                version=__version__,
                licence=_licence(licence),
                zone=str(self._ledger.zone),
                today=_span(overview.today),
                month=_span(overview.month),
                top_models=[
                    TopModelView(name, one.requests, one.cost) for name, one in overview.models
                ],
                channels=_channels(gateway.standing()),
                models=gateway.models,
                keys=self._keys(),
                ledger_trouble=self._ledger.trouble,
                export_trouble=gateway.export_trouble,
                damaged=[DamagedDayView(one.day, one.lines) for one in overview.damaged],
                dropped=DroppedView(*gateway.dropped()),
                mistakes=[str(one) for one in mistakes[:MISTAKES]],
            )
        )

    def _keys(self) -> KeyCountsView:
        keys = self._gateway.keys
        if self._counted[0] is not keys:
            self._counted = keys, KeyCountsView(len(keys), sum(one.enabled for one in keys))
        return self._counted[1]


def _span(totals: Totals) -> SpanView:
    output = totals.output + totals.reasoning
    return SpanView(
        requests=totals.requests,
        ok=totals.ok,
        errors=totals.errors,
        cost=totals.cost,
        input_tokens=spent(totals).tokens - output,
        output_tokens=output,
        secrets=sum(totals.hidden.values()),
    )


def _licence(status: LicenceStatus) -> LicenceShortView:
    expires = status.licence.expires if status.licence else None
    return LicenceShortView(status.state, status.reason, expires)


def _channels(standing: Mapping[str, Standing]) -> ChannelsView:
    states = Counter(one.state for one in standing.values())
    trouble = [name for name, one in standing.items() if one.error or one.models or one.seconds]
    trouble.sort(key=lambda name: (standing[name].state != "resting", standing[name].ago, name))
    return ChannelsView(
        ok=states["ok"],
        resting=states["resting"],
        disabled=states["disabled"],
        troubled=[_troubled(name, standing[name]) for name in trouble[:TROUBLED]],
    )


def _troubled(name: str, one: Standing) -> TroubledView:
    return TroubledView(
        name=name,
        state=one.state,
        seconds=round(one.seconds, 1),
        error=one.error,
        ago=round(one.ago, 1),
        worked=one.worked,
        failed=one.failed,
        resting_models={model: round(seconds, 1) for model, seconds in one.models.items()},
    )
