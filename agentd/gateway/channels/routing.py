"""Routing: the order in which a model's channels are tried, and their cooldowns after failures.

A model's routes are tried by priority, the smallest number first; those of one priority in random
order, by weight. A channel that failed by its own fault is in cooldown for its ``cool_down``, or
for as long as its supplier asked. If no other is left, the channel whose cooldown ends first is
tried all the same: a model with one channel is never refused because of a cooldown, unless the
supplier itself said when to come back.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, inf, log
from typing import Literal, Protocol

from msgspec import Struct, field, structs

from agentd.core.errors import (
    AgentdError,
    AllChannelsCoolingDown,
    BadRequest,
    Forbidden,
    NotFound,
    Unavailable,
    suggest_name,
)
from agentd.gateway.channels.cooldowns import Cooldown, Cooldowns
from agentd.gateway.channels.failures import (
    CHANNEL_FAILURES,
    KEY_FAILURES,
    MODEL_FAILURES,
    Failure,
)
from agentd.gateway.channels.masking import mask
from agentd.gateway.channels.model import Channel
from agentd.gateway.keys.model import AccessKey
from agentd.llm.endpoint import ALL_DIALECTS, ChannelDialect
from agentd.llm.parameters import ParameterChanges
from agentd.llm.price import Prices
from agentd.models.gateway_model import GatewayModel, ModelRoute

MAX_HINT_CHARS = 500
"""Maximum characters of the names in an error message."""

RECENT_CALLS = 100
"""The number of a channel's last calls whose success is remembered."""

MAX_COOLDOWN_SECONDS = 3600.0
"""Seconds; a supplier that wants more is asked again once an hour."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A channel to try."""

    model: str
    """The model as callers name it: the requested one, or a fallback."""
    channel: Channel
    supplier_model: str
    prices: Prices | None
    """``None``: not known."""
    is_passthrough: bool
    """True if the channel speaks the caller's dialect, so that nothing needs to be translated."""
    dialect: ChannelDialect
    """The one to speak to it: the caller's, else the one that the channel prefers."""
    key: str = "key"
    """The field of the channel with the key to use."""
    headers: Mapping[str, str] = {}
    """The model's own headers."""
    parameters: tuple[ParameterChanges, ...] = ()
    """The changes of parameters, the channel's before the model's."""

    @property
    def route_id(self) -> tuple[str, str, str]:
        """The model, the channel's name, and the supplier's name of the model."""
        return self.model, self.channel.name, self.supplier_model

    def is_allowed_for(self, key: AccessKey) -> bool:
        """Return whether the key may use this channel and model; checked before sending, too."""
        return key.may_call(self.model) and key.may_use(self.channel.name)


class KeyHealth(Struct, frozen=True, kw_only=True):
    """How one of several keys of a channel is."""

    field: str
    """Where it is: ``key``, or such as ``keys[0]``."""
    shown: str
    """The key, masked."""
    seconds: float = 0.0
    """The seconds until the end of its cooldown."""
    models: dict[str, float] = {}
    """The supplier's models for which it is left out: remaining seconds by name."""
    reasons: dict[str, Failure] = {}
    """Why it is for each of them, and by an empty name why for all."""


class ChannelHealth(Struct, frozen=True, kw_only=True):
    """The health of a channel."""

    state: Literal["ok", "cooldown", "disabled"]
    seconds: float = 0.0
    """The seconds until the end of its cooldown."""
    error: str = ""
    """Why it failed last; empty if it never did."""
    ago: float = 0.0
    """Seconds since then."""
    succeeded: int = 0
    failed: int = 0
    models: dict[str, float] = {}
    """The supplier's models in cooldown while the channel is not: remaining seconds by name."""
    reasons: dict[str, Failure] = {}
    """Why each of them is in cooldown, and by an empty name why the whole channel is."""
    detail: str = ""
    """More about ``error``, for operators only."""
    recent_calls: int = 0
    """Calls among the last ones that did not fail by the caller's fault ..."""
    recent_failures: int = 0
    """... and how many of them failed."""
    keys: tuple[KeyHealth, ...] = ()
    """Its keys, if it has several."""


_UNUSED, _DISABLED = ChannelHealth(state="ok"), ChannelHealth(state="disabled")
"""The health of channels that were not used since the start."""


class _History(Struct):
    """The recent history of a channel."""

    succeeded: int = 0
    failed: int = 0
    refused: int = 0
    """Calls in a row in which the supplier did not accept the channel's key ..."""
    refused_as: Channel | None = None
    """... as the channel was then."""
    error: Failure | Literal[""] = ""
    detail: str = ""
    at: float = 0.0
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT_CALLS))
    """The last calls: true if they succeeded; failures by the caller's fault are left out."""


class ChannelListener(Protocol):
    """Listens to channels (``gateway.relay.service_log_writer.ServiceLogWriter``)."""

    def on_cooldown(self, channel: Channel, why: str, seconds: float) -> None:
        """Handle that a whole channel is in cooldown for so many seconds."""
        ...

    def on_key_cooldown(self, channel: Channel, key: str, why: str, seconds: float) -> None:
        """Handle that one of a channel's keys (a field) is in cooldown for so many seconds."""
        ...

    def on_success(self, channel: Channel) -> None:
        """Handle that a channel answered."""
        ...


class Router:
    """Chooses channels and remembers their failures. One for all requests, on one loop.

    ``random`` returns a number from 0 to below 1; ``now`` returns monotonic seconds.
    ``on_refused`` is called with a channel whose supplier did not accept its key, and in how many
    calls in a row; if it returns true, they are counted anew. ``listener``
    is called when a channel goes into cooldown, and when one answers.
    """

    def __init__(
        self,
        random: Callable[[], float],
        now: Callable[[], float],
        listener: ChannelListener | None = None,
        on_refused: Callable[[Channel, int], bool] = lambda channel, count: False,
    ) -> None:
        self._random = random
        self._now = now
        self._listener = listener
        self._on_refused = on_refused
        self._cooldowns = Cooldowns(now)
        self._records: dict[str, _History] = {}

    def find_candidates(
        self,
        model: GatewayModel,
        channels: Mapping[str, Channel],
        key: AccessKey,
        dialect: ChannelDialect,
        *,
        others: Collection[ChannelDialect] = ALL_DIALECTS,
    ) -> list[Candidate]:
        """Return the candidates for a request in this dialect, in the order in which to try them.

        ``others`` are the dialects into which the request can be translated for channels that do
        not speak its own. Routes of weight 0 come after all others of their priority. If the list
        is empty, ``explain_no_candidates`` says why.
        """
        usable = []
        for route in model.routes:
            channel = channels.get(route.channel)
            if model.enabled and channel and channel.enabled:
                candidate = _make_candidate(model, route, channel, dialect, others)
                if candidate and candidate.is_allowed_for(key):
                    usable.append((route, candidate))
        # Each is looked at once: one that becomes ready meanwhile must not be in neither part.
        looked_at = [(pair, self._find_cooldown(pair[1])) for pair in usable]
        ready = [pair for pair, cooldown in looked_at if cooldown is None]
        resting = [(cooldown, pair[1]) for pair, cooldown in looked_at if cooldown]
        if len(ready) > 1:
            ready.sort(key=self._rank)
        return [candidate for _, candidate in ready] + _find_last_resort(resting)

    def iter_attempts(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield the calls to try: one of each candidate, or of each of its keys, in turn."""
        for candidate in candidates:
            if candidate.channel.keys:
                keys = self._cooldowns.iter_keys(candidate.channel, candidate.supplier_model)
                yield from (structs.replace(candidate, key=key) for key in keys)
            else:
                yield candidate

    def record_failure(
        self,
        channel: Channel,
        kind: Failure,
        retry_after: float | None = None,
        supplier_model: str = "",
        detail: str = "",
        key: str = "key",
    ) -> None:
        """Record a failed call with a key of the channel.

        ``retry_after`` is the time in seconds for which the supplier asks not to be called. Only
        the kinds in ``CHANNEL_FAILURES`` start a cooldown, and only if the channel's ``cool_down``
        is not 0. ``detail`` is for the operator.
        """
        record = self._records.setdefault(channel.name, _History())
        record.failed += 1
        if kind == "authentication" and not detail:  # with one, the key could not be read here
            self._count_refusal(channel, record)
        record.error, record.detail, record.at = kind, detail, self._now()
        if kind in CHANNEL_FAILURES:
            record.recent.append(False)
        if kind not in CHANNEL_FAILURES or not channel.cool_down:
            return
        seconds = (
            channel.cool_down if retry_after is None else min(retry_after, MAX_COOLDOWN_SECONDS)
        )
        model = supplier_model if kind in MODEL_FAILURES else ""
        place = key if kind in KEY_FAILURES and len(channel.key_fields) > 1 else ""
        now = self._now()
        started = Cooldown(channel, now + seconds, retry_after is not None, kind)
        seconds = self._cooldowns.start(place, model, started).until - now
        if self._listener and not model:
            why = f"{kind} ({detail})" if detail else kind
            if not place or self._cooldowns.find_of_all_keys(channel, ""):
                self._listener.on_cooldown(channel, why, seconds)
            else:
                self._listener.on_key_cooldown(channel, place, why, seconds)

    def record_success(self, channel: Channel) -> None:
        """Record a successful call. It ends no cooldown: the call may be older than the failure."""
        record = self._records.setdefault(channel.name, _History())
        record.succeeded += 1
        record.refused = 0
        record.recent.append(True)
        if self._listener:
            self._listener.on_success(channel)

    def get_health(self, channels: Mapping[str, Channel]) -> dict[str, ChannelHealth]:
        """Return the health of each channel by name; deleted channels are forgotten."""
        for name in self._records.keys() - channels.keys():
            del self._records[name]
        self._cooldowns.retain_only(channels)
        return {name: self._describe_health(channel) for name, channel in channels.items()}

    def explain_no_candidates(
        self,
        model: GatewayModel,
        channels: Mapping[str, Channel],
        key: AccessKey,
        dialect: ChannelDialect,
        *,
        others: Collection[ChannelDialect] = ALL_DIALECTS,
    ) -> AgentdError:
        """Return the error that explains an empty result of ``find_candidates``; same arguments."""
        if not (model.enabled and key.may_call(model.name)):
            return make_not_found(model.name, ())
        known = [channels[route.channel] for route in model.routes if route.channel in channels]
        enabled = [channel for channel in known if channel.enabled]
        allowed = [channel for channel in enabled if key.may_use(channel.name)]
        if not enabled:
            disabled = f'Every channel of the model "{model.name}" is disabled.'
            missing = f'No channel of the model "{model.name}" exists.'
            return Unavailable(disabled if known else missing)
        if not allowed:
            return Forbidden(f'This key may use none of the channels of the model "{model.name}".')
        if not any(_choose_dialect(channel, dialect, others) for channel in allowed):
            return BadRequest(f'No channel of the model "{model.name}" supports this endpoint.')
        in_cooldown = [
            cooldown
            for route in model.routes
            if channels.get(route.channel) in allowed
            and (
                candidate := _make_candidate(model, route, channels[route.channel], dialect, others)
            )
            and (cooldown := self._find_cooldown(candidate))
        ]
        wait = min((cooldown.until for cooldown in in_cooldown), default=self._now()) - self._now()
        return AllChannelsCoolingDown(
            f'Every channel of the model "{model.name}" is in cooldown.',
            max(ceil(wait), 1),
            rate_limited={cooldown.kind for cooldown in in_cooldown} == {"rate_limit"},
        )

    def _count_refusal(self, channel: Channel, record: _History) -> None:
        record.refused = record.refused + 1 if record.refused_as == channel else 1
        record.refused_as = channel
        if self._on_refused(channel, record.refused):
            record.refused = 0

    def _find_cooldown(self, candidate: Candidate) -> Cooldown | None:
        """Return a candidate's cooldown, if any; a channel that was edited since has none."""
        return self._cooldowns.find(candidate.channel, candidate.supplier_model)

    def _rank(self, pair: tuple[ModelRoute, Candidate]) -> tuple[int, float]:
        """Return a random sort key: sorting by it is a weighted draw without replacement."""
        route, _ = pair
        return route.priority, -log(1.0 - self._random()) / route.weight if route.weight else inf

    def _describe_health(self, channel: Channel) -> ChannelHealth:
        known = self._records.get(channel.name)
        if known is None and not self._cooldowns.by_place and not channel.keys:
            return _UNUSED if channel.enabled else _DISABLED
        now, record = self._now(), known or _History()
        cooldowns = self._cooldowns.find_by_model(channel)
        whole = cooldowns.get("")
        seconds = whole.until - now if whole else 0.0
        return ChannelHealth(
            state="disabled" if not channel.enabled else "cooldown" if seconds else "ok",
            seconds=seconds,
            error=record.error,
            ago=now - record.at if record.error else 0.0,
            succeeded=record.succeeded,
            failed=record.failed,
            models={model: one.until - now for model, one in cooldowns.items() if model},
            reasons={model: one.kind for model, one in cooldowns.items()},
            detail=record.detail,
            recent_calls=len(record.recent),
            recent_failures=record.recent.count(False),
            keys=self._describe_keys(channel) if len(channel.key_fields) > 1 else (),
        )

    def _describe_keys(self, channel: Channel) -> tuple[KeyHealth, ...]:
        now = self._now()
        found: dict[str, dict[str, Cooldown]] = {field: {} for field in channel.key_fields}
        for key, model, one in self._cooldowns.iter_of_channel(channel):
            if key:
                found[key][model] = one
        return tuple(
            KeyHealth(
                field=field,
                shown=mask(channel.get_key(field)),
                seconds=cooldowns[""].until - now if "" in cooldowns else 0.0,
                models={model: one.until - now for model, one in cooldowns.items() if model},
                reasons={model: one.kind for model, one in cooldowns.items()},
            )
            for field, cooldowns in found.items()
        )


def _find_last_resort(resting: Iterable[tuple[Cooldown, Candidate]]) -> list[Candidate]:
    """Return the candidate that is ready first, but for those that a supplier set aside."""
    retryable = [pair for pair in resting if not pair[0].by_supplier]
    return [candidate for _, candidate in sorted(retryable, key=lambda pair: pair[0].until)[:1]]


def find_model(models: Mapping[str, GatewayModel], name: str, key: AccessKey) -> GatewayModel:
    """Return the model of exactly this name, if the key may call it; case and spaces count.

    ``NotFound`` is the same for a model that does not exist, is disabled, or is not allowed for
    this key, and names the nearest one of those that it may call.
    """
    model = models.get(name)
    if model and model.enabled and key.may_call(name):
        return model
    raise make_not_found(name, list_callable(models, key))


def find_preferred_dialects(
    model: GatewayModel, channels: Mapping[str, Channel]
) -> tuple[ChannelDialect, ...]:
    """Return the dialects of the channel that is tried first: in these nothing is translated.

    Of channels with the same priority this is the one with the greatest weight.
    """
    routes = sorted(model.routes, key=lambda route: (route.priority, -route.weight))
    found = (channels[route.channel] for route in routes if route.channel in channels)
    return next((channel.dialects for channel in found if channel.enabled), ())


def list_callable(models: Mapping[str, GatewayModel], key: AccessKey) -> list[str]:
    """Return the names of the models that a key may call, in the file's order."""
    return [name for name, model in models.items() if model.enabled and key.may_call(name)]


def make_not_found(name: str, known: Sequence[str]) -> NotFound:
    """Build the error for a model that the caller does not have, with the nearest known name."""
    near = suggest_name(name, known)
    if len(near) > MAX_HINT_CHARS:
        near = "; GET /v1/models lists those that it may call"
    return NotFound(f'There is no model "{name[:100]}", or this key may not call it{near}')


def _choose_dialect(
    channel: Channel, dialect: ChannelDialect, others: Collection[ChannelDialect]
) -> ChannelDialect | None:
    """Return the dialect to speak to a channel: the caller's, else the first that can be."""
    if dialect in channel.dialects:
        return dialect
    return next((one for one in channel.dialects if one in others), None)


def _make_candidate(
    model: GatewayModel,
    route: ModelRoute,
    channel: Channel,
    dialect: ChannelDialect,
    others: Collection[ChannelDialect],
) -> Candidate | None:
    """Return how a route is called, or None if its channel speaks none of the dialects."""
    spoken = _choose_dialect(channel, dialect, others)
    if spoken is None:
        return None
    return Candidate(
        model=model.name,
        channel=channel,
        supplier_model=route.model or model.name,
        prices=route.prices or model.prices,
        is_passthrough=spoken == dialect,
        dialect=spoken,
        headers=model.headers,
        parameters=_list_parameter_changes(model, channel),
    )


def _list_parameter_changes(model: GatewayModel, channel: Channel) -> tuple[ParameterChanges, ...]:
    if model.parameters is None and channel.parameters is None:
        return ()
    return tuple(one for one in (channel.parameters, model.parameters) if one is not None)
