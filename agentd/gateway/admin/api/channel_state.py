"""Endpoint of a channel's live state: its cooldowns, its last failure, how well and fast it is."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, Protocol

from msgspec import Struct

from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import NotFound, suggest_name
from agentd.core.redaction import scrub
from agentd.gateway.admin.api.channel_balances import ChannelBalanceView
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.channels.recent_times import CallTimes
from agentd.gateway.channels.routing import ChannelHealth, KeyHealth
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class ModelCooldownView(Struct, frozen=True, rename="camel"):
    """A supplier's model that this channel is not used for, although it is for others."""

    supplier_model: str
    """The supplier's name for the model."""
    until: Timestamp
    """When the cooldown ends."""
    reason: str
    """Kind of the error that started it."""


class KeyStateView(Struct, frozen=True, rename="camel"):
    """One of several keys of a channel."""

    field: str
    """Where it is: ``key``, or such as ``keys[0]``."""
    key: str
    """The key, masked."""
    state: Literal["ok", "cooldown"]
    """``cooldown``: it is not used after a failure."""
    cooldown_until: Timestamp | None
    """When its cooldown ends; null: it is in none."""
    cooldown_reason: str
    """Kind of the error that started it; empty: it is in none."""
    model_cooldowns: list[ModelCooldownView]
    """The models for which it is not used, by name."""


class ChannelFailureView(Struct, frozen=True):
    """The last call that failed."""

    at: Timestamp
    """When it failed."""
    error: str
    """Kind of the error, such as ``rate_limit`` or ``unreachable``."""
    detail: str
    """Details of the failure, without secrets; empty for an error that the supplier sent, since its
    text may quote a caller's request."""


class RecentCallsView(Struct, frozen=True, rename="camel"):
    """The last calls, at most 100."""

    calls: int
    """The number of calls, without those that failed by the caller's fault."""
    success_rate: float | None
    """The share of successful ones, from 0 to 1; null: there is no call."""
    timed_calls: int
    """The number of successful calls that the following times are of: milliseconds from the call
    of the supplier."""
    head_ms_p50: float | None
    """Until the response began, at the median; null: not known."""
    head_ms_p95: float | None
    """Until the response began, at the 95th percentile; null: not known."""
    first_token_ms_p50: float | None
    """Until the first part of the reply was sent, at the median; null: not known."""
    first_token_ms_p95: float | None
    """Until the first part of the reply was sent, at the 95th percentile; null: not known."""


class ChannelStateView(Struct, frozen=True, rename="camel"):
    """The live state of a channel, as it is known since the start of the daemon."""

    name: str
    """Name of the channel."""
    state: Literal["ok", "cooldown", "disabled"]
    """``cooldown``: it is left out after a failure."""
    cooldown_until: Timestamp | None
    """When the cooldown of the whole channel ends; null: it is in none."""
    cooldown_reason: str
    """Kind of the error that started it; empty if it is in none."""
    model_cooldowns: list[ModelCooldownView]
    """Its models in cooldown while the channel is not, by name."""
    last_failure: ChannelFailureView | None
    """The last call that failed; null: none did."""
    succeeded: int
    """Successful calls since the start."""
    failed: int
    """Failed calls since the start."""
    recent: RecentCallsView
    """The last calls."""
    keys: list[KeyStateView]
    """Its keys, if it has several; the channel is in cooldown when all of them are."""
    balance: ChannelBalanceView | None
    """The balance of the supplier's account, as it was last read; null: it does not tell it."""


class LiveChannels(Protocol):
    """The channels and how they are, all of it from memory."""

    def get_health(self) -> Mapping[str, ChannelHealth]:
        """Return the health of each channel by name."""
        ...

    def get_times(self, channel: str, /) -> CallTimes:
        """Return a channel's recent response times."""
        ...

    def find_balance(self, channel: str, /) -> ChannelBalanceView | None:
        """Return what was last read of a channel's balance; None: its supplier does not tell it."""
        ...


class ChannelStateEndpoints:
    """The endpoint ``/api/agent/channels/{name}/state``."""

    def __init__(self, channels: LiveChannels, clock: Clock) -> None:
        self._channels = channels
        self._clock = clock

    def get_channel_state(self, call: Request) -> Response:
        """Return the state of one channel."""
        name, known = call.get_name(), self._channels.get_health()
        if name not in known:
            raise NotFound(f'There is no channel "{name[:100]}"{suggest_name(name, known)}')
        return Response(self._render(name, known[name]))

    def _render(self, name: str, health: ChannelHealth) -> ChannelStateView:
        return ChannelStateView(
            name=name,
            state=health.state,
            cooldown_until=self._moment(health.seconds) if health.seconds else None,
            cooldown_reason=health.reasons.get("", ""),
            model_cooldowns=self._render_models(health),
            last_failure=self._render_failure(health),
            succeeded=health.succeeded,
            failed=health.failed,
            recent=_render_recent(health, self._channels.get_times(name)),
            keys=list(map(self._render_key, health.keys)),
            balance=self._channels.find_balance(name),
        )

    def _render_key(self, key: KeyHealth) -> KeyStateView:
        return KeyStateView(
            field=key.field,
            key=key.shown,
            state="cooldown" if key.seconds else "ok",
            cooldown_until=self._moment(key.seconds) if key.seconds else None,
            cooldown_reason=key.reasons.get("", ""),
            model_cooldowns=self._render_models(key),
        )

    def _render_models(self, health: ChannelHealth | KeyHealth) -> list[ModelCooldownView]:
        return [
            ModelCooldownView(model, self._moment(seconds), health.reasons.get(model, ""))
            for model, seconds in sorted(health.models.items())
        ]

    def _render_failure(self, health: ChannelHealth) -> ChannelFailureView | None:
        if not health.error:
            return None
        at, detail = self._moment(-health.ago), scrub(health.detail)
        return ChannelFailureView(at, health.error, detail)

    def _moment(self, seconds: float) -> Timestamp:
        """Return the time in so many seconds from now."""
        return format_iso(parse_iso(self._clock.now()) + timedelta(seconds=seconds))


def _render_recent(health: ChannelHealth, times: CallTimes) -> RecentCallsView:
    calls, failed = health.recent_calls, health.recent_failures
    return RecentCallsView(
        calls=calls,
        success_rate=round((calls - failed) / calls, 4) if calls else None,
        timed_calls=times.calls,
        head_ms_p50=_round(times.head_p50),
        head_ms_p95=_round(times.head_p95),
        first_token_ms_p50=_round(times.first_p50),
        first_token_ms_p95=_round(times.first_p95),
    )


def _round(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 1)


def routes(endpoints: ChannelStateEndpoints) -> tuple[Route, ...]:
    """Return the route of the state."""
    return (
        build_route(
            "GET",
            "/api/agent/channels/{name}/state",
            endpoint=endpoints.get_channel_state,
            summary="The live state of a channel: until when and why it is in cooldown, its last"
            " failure, how reliable and fast its last calls were, how each of several keys is,"
            " and its balance.",
            operation_id="get_channel_state",
            response_type=ChannelStateView,
            errors=(NotFound,),
        ),
    )
