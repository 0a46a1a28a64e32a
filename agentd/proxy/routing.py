"""Through which channel a request goes, which is tried next, and which rests after failing.

A model's ways are tried by priority, the smallest number first; among equals chance decides, by
weight. A channel that failed by its own making rests for its ``cool_down``, or for as long as the
supplier asked. When nothing else is left, the one that is soonest ready is tried all the same:
for a model with one channel the router is then as good as none. Only a channel whose supplier
itself said when to come back is left alone until then.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf, log
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.errors import (
    AgentdError,
    BadRequest,
    Forbidden,
    NotFound,
    Resting,
    Unavailable,
    nearest,
)
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import Channel, ChannelDialect, ProxyModel, Way
from agentd.proxy.dialects.conversation import ErrorKind
from agentd.proxy.price import Prices

Failure: TypeAlias = ErrorKind | Literal["unreachable"]
"""``unreachable``: no answer came at all."""

OF_THE_CHANNEL: frozenset[Failure] = frozenset(
    {
        "authentication",
        "rate_limit",
        "quota",
        "overloaded",
        "server",
        "garbled",
        "broken",
        "unreachable",
    }
)
"""What makes a channel rest. Any other failure a caller could bring about for everybody:
``permission`` is also how suppliers tell that they will not answer a certain prompt."""

OF_THE_MODEL: frozenset[Failure] = frozenset({"rate_limit", "overloaded"})
"""... or makes only the supplier's one model rest, when it is told which: suppliers count so."""

WORTH_ANOTHER: frozenset[Failure] = OF_THE_CHANNEL | {"permission", "not_found"}
"""After these another channel may do better; a request that is wrong is wrong everywhere."""

LONGEST_HINT = 500
"""Characters; more names than that help nobody."""

LONGEST_REST = 3600.0
"""Seconds; a supplier that wants more is asked again once an hour."""


class Choice(Struct, frozen=True, kw_only=True):
    """One channel to try."""

    model: str
    """As the caller named it."""
    channel: Channel
    supplier_model: str
    prices: Prices | None
    """``None``: not known."""
    passes: bool
    """Whether the channel speaks the caller's dialect, so that nothing needs to be translated."""
    dialect: ChannelDialect
    """The one to speak to it: the caller's, else the one that the channel prefers."""

    @property
    def place(self) -> tuple[str, str]:
        """The channel's name and the supplier's of the model."""
        return self.channel.name, self.supplier_model

    def allowed_for(self, key: AccessKey) -> bool:
        """Whether the key may call this model through this channel; asked again before sending."""
        return key.may_call(self.model) and key.may_use(self.channel.name)


class Standing(Struct, frozen=True, kw_only=True):
    """How a channel fares."""

    state: Literal["ok", "resting", "disabled"]
    seconds: float = 0.0
    """For how much longer it rests."""
    error: str = ""
    """Why it failed last; empty: it never did."""
    ago: float = 0.0
    """Seconds since then."""
    worked: int = 0
    failed: int = 0
    models: dict[str, float] = {}
    """The supplier's models that rest while the channel does not, and for how many seconds."""


class _Rest(Struct):
    """Why and until when; ``told``: the supplier itself named the time."""

    channel: Channel
    until: float
    told: bool
    kind: Failure


class _Record(Struct):
    """What is remembered of a channel."""

    worked: int = 0
    failed: int = 0
    error: Failure | Literal[""] = ""
    at: float = 0.0


class Hearing(Protocol):
    """Who hears of channels (``proxy.gateway.noting.Noting``)."""

    def rests(self, channel: Channel, why: str, seconds: float) -> None:
        """A whole channel is left alone for so long."""
        ...

    def worked(self, channel: Channel) -> None:
        """A channel answered."""
        ...


class Router:
    """Chooses channels and remembers how they fare. One for all requests, on one loop.

    ``random`` tells a number from 0 to below 1; ``now`` tells seconds that only rise. ``heard`` is
    told which channel rests and which answered.
    """

    def __init__(
        self, random: Callable[[], float], now: Callable[[], float], heard: Hearing | None = None
    ) -> None:
        self._random = random
        self._now = now
        self._heard = heard
        self._rests: dict[tuple[str, str], _Rest] = {}
        """By the channel's name and the supplier's model; an empty one is the whole channel."""
        self._records: dict[str, _Record] = {}

    def ways(
        self,
        model: ProxyModel,
        channels: Mapping[str, Channel],
        key: AccessKey,
        dialect: ChannelDialect,
        *,
        translate: bool = True,
    ) -> list[Choice]:
        """What to try for a request in this dialect, in this order; empty: see ``why_none``.

        Without ``translate`` only channels that speak the dialect themselves. Ways of weight 0
        come after all others of their priority.
        """
        usable = []
        for way in model.ways:
            channel = channels.get(way.channel)
            if model.enabled and channel and channel.enabled:
                choice = _choice(model, way, channel, dialect)
                if choice.allowed_for(key) and (translate or choice.passes):
                    usable.append((way, choice))
        ready = [pair for pair in usable if not self._rest(pair[1])] if self._rests else usable
        if len(ready) > 1:
            ready.sort(key=self._rank)
        return [choice for _, choice in ready] + self._last_resort(usable)

    def failed(
        self,
        channel: Channel,
        kind: Failure,
        retry_after: float | None = None,
        supplier_model: str = "",
        why: str = "",
    ) -> None:
        """A call failed. ``retry_after``: seconds that the supplier wants to be left alone.

        Only what is in ``OF_THE_CHANNEL`` makes it rest, and never one without a ``cool_down``.
        ``why`` is more for whoever looks after the gateway.
        """
        record = self._records.setdefault(channel.name, _Record())
        record.failed += 1
        record.error, record.at = kind, self._now()
        if kind not in OF_THE_CHANNEL or not channel.cool_down:
            return
        seconds = channel.cool_down if retry_after is None else min(retry_after, LONGEST_REST)
        now = self._now()
        self._rests = {place: rest for place, rest in self._rests.items() if rest.until > now}
        place = channel.name, supplier_model if kind in OF_THE_MODEL else ""
        self._rests[place] = _Rest(channel, now + seconds, retry_after is not None, kind)
        if self._heard and not place[1]:
            self._heard.rests(channel, f"{kind} ({why})" if why else kind, seconds)

    def worked(self, channel: Channel) -> None:
        """A call succeeded. What rests goes on to: the call may be older than the failure."""
        self._records.setdefault(channel.name, _Record()).worked += 1
        if self._heard:
            self._heard.worked(channel)

    def standing(self, channels: Mapping[str, Channel]) -> dict[str, Standing]:
        """How each channel fares; those that are no more are forgotten."""
        for name in self._records.keys() - channels.keys():
            del self._records[name]
        for place in [place for place in self._rests if place[0] not in channels]:
            del self._rests[place]
        return {name: self._standing(channel) for name, channel in channels.items()}

    def why_none(
        self,
        model: ProxyModel,
        channels: Mapping[str, Channel],
        key: AccessKey,
        dialect: ChannelDialect,
        *,
        translate: bool = True,
    ) -> AgentdError:
        """Which error tells why there is no way: asked with what ``ways`` was."""
        if not (model.enabled and key.may_call(model.name)):
            return unknown(model.name, ())
        known = [channels[way.channel] for way in model.ways if way.channel in channels]
        enabled = [channel for channel in known if channel.enabled]
        allowed = [channel for channel in enabled if key.may_use(channel.name)]
        if not enabled:
            off = f'Every channel of the model "{model.name}" is switched off.'
            return Unavailable(off if known else f'No channel of "{model.name}" is there.')
        if not allowed:
            return Forbidden(f'This key may use none of the channels of "{model.name}".')
        if not (translate or any(dialect in channel.dialects for channel in allowed)):
            return BadRequest(f'No channel of "{model.name}" understands this endpoint.')
        resting = [
            rest
            for way in model.ways
            if channels.get(way.channel) in allowed
            and (rest := self._rest(_choice(model, way, channels[way.channel], dialect)))
        ]
        wait = min((rest.until for rest in resting), default=self._now()) - self._now()
        return Resting(
            f'Every supplier of the model "{model.name}" asked to be left alone for now.',
            max(ceil(wait), 1),
            rate_limited=bool(resting) and all(rest.kind == "rate_limit" for rest in resting),
        )

    def _rest(self, choice: Choice) -> _Rest | None:
        """Until when a choice must wait; a channel that was edited since is given a new chance."""
        if not self._rests:
            return None
        found = [
            rest
            for model in {"", choice.supplier_model}
            if (rest := self._rests.get((choice.channel.name, model)))
            and rest.until > self._now()
            and rest.channel == choice.channel
        ]
        return max(found, key=lambda rest: rest.until, default=None)

    def _rank(self, pair: tuple[Way, Choice]) -> tuple[int, float]:
        """Sorting by it draws without putting back, each with a chance by its weight."""
        way, _ = pair
        return way.priority, -log(1.0 - self._random()) / way.weight if way.weight else inf

    def _last_resort(self, usable: Sequence[tuple[Way, Choice]]) -> list[Choice]:
        if not self._rests:
            return []
        resting = [(rest, choice) for _, choice in usable if (rest := self._rest(choice))]
        patient = [pair for pair in resting if not pair[0].told]
        return [choice for _, choice in sorted(patient, key=lambda pair: pair[0].until)[:1]]

    def _standing(self, channel: Channel) -> Standing:
        now, record = self._now(), self._records.get(channel.name, _Record())
        rests = {
            model: rest.until - now
            for (name, model), rest in self._rests.items()
            if name == channel.name and rest.until > now and rest.channel == channel
        }
        seconds = rests.pop("", 0.0)
        return Standing(
            state="disabled" if not channel.enabled else "resting" if seconds else "ok",
            seconds=seconds,
            error=record.error,
            ago=now - record.at if record.error else 0.0,
            worked=record.worked,
            failed=record.failed,
            models=rests,
        )


def found(models: Mapping[str, ProxyModel], name: str, key: AccessKey) -> ProxyModel:
    """The model of exactly this name, if the key may call it: no folding, nothing trimmed.

    ``NotFound`` is the same for a model that is not there, is switched off, or is not for this
    key, and tells the nearest one of those that it may call.
    """
    model = models.get(name)
    if model and model.enabled and key.may_call(name):
        return model
    raise unknown(name, callable_by(models, key))


def callable_by(models: Mapping[str, ProxyModel], key: AccessKey) -> list[str]:
    """The names of the models that a key may call, in the file's order."""
    return [name for name, model in models.items() if model.enabled and key.may_call(name)]


def unknown(name: str, known: Sequence[str]) -> NotFound:
    """That a caller has no such model, and which may be meant of those that he has."""
    near = nearest(name, known)
    if len(near) > LONGEST_HINT:
        near = "; GET /v1/models lists those that it may"
    return NotFound(f'There is no model "{name[:100]}", or this key may not call it{near}')


def _choice(model: ProxyModel, way: Way, channel: Channel, dialect: ChannelDialect) -> Choice:
    passes = dialect in channel.dialects
    return Choice(
        model=model.name,
        channel=channel,
        supplier_model=way.model or model.name,
        prices=way.prices or model.prices,
        passes=passes,
        dialect=dialect if passes else channel.dialects[0],
    )
