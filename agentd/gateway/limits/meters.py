"""The meters of all access keys and of what they share, each made when it is first used."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial

from msgspec import Struct

from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.events import Event
from agentd.gateway.keys.limits import NO_LIMITS, KeyLimits, SoftLimits, compute_soft_limits
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.budgets import Budget, BudgetScope, index_by_account
from agentd.gateway.limits.request_limits import AppliedLimits, LimitAnnouncer, RequestLimits
from agentd.gateway.limits.spend import (
    LimitHolder,
    LimitStatus,
    SoftLimitStatus,
    UsageMeter,
    Used,
    WindowCalendar,
    Windows,
)
from agentd.gateway.limits.spend_by_quarter_hour import (
    SpendByQuarterHour,
    format_shared_account,
)
from agentd.llm.price import sum_amounts


class LimitsStatus(Struct, frozen=True):
    """What somebody spent, and all limits on it, by the numbers that enforce them."""

    holder: LimitHolder
    used: Used
    limits: tuple[LimitStatus, ...]
    soft: tuple[SoftLimitStatus, ...]
    has_total: bool = True
    """False if ``used`` in total is not all: of models within a key only recent days count, unless
    a limit on them never resets."""


class KeyMeters:
    """What is spent by keys, models within keys, owners and tags, and the limits on that.

    ``publish`` takes the events of limits that are reached.
    """

    def __init__(
        self, zone: tzinfo, clock: Clock, publish: Callable[[Event], object] = lambda _: None
    ) -> None:
        self._clock = clock
        self._zone = zone
        self._calendar = WindowCalendar(zone, clock)
        self._counted_from = self.windows.day.start
        self._sums = SpendByQuarterHour()
        self._meters: dict[str, UsageMeter] = {}
        self._shared: dict[tuple[BudgetScope, str], UsageMeter] = {}
        self._models: dict[str, dict[str, UsageMeter]] = {}
        """The meters of models within a key, by its id and their name or pattern ..."""
        self._counted: dict[str, bool] = {}
        """... and the keys whose models are counted up to now; True: since the key was made."""
        self._budgets: Mapping[tuple[BudgetScope, str], Budget] = {}
        self.announcer = LimitAnnouncer(publish)

    @property
    def zone(self) -> tzinfo:
        """The time zone in which days, weeks and months begin."""
        return self._zone

    @property
    def windows(self) -> Windows:
        """The day, the week and the month of now."""
        return self._calendar.now()[1]

    @property
    def is_counted_for_another_day(self) -> bool:
        """True if the sums are those of another day: the clock was wrong when they were made.

        It was ahead if that is a later day. It was behind if that is an earlier one, and the sums
        know already what was spent on the present one.
        """
        day, counted = self.windows.day.start, self._counted_from
        return day < counted or counted < day <= format_iso(self._sums.latest)

    def iter_window_starts(self, zone: tzinfo | None = None) -> Iterator[datetime]:
        """Yield the beginnings of the windows of now: the moments since which sums are wanted."""
        calendar = self._calendar if zone is None else WindowCalendar(zone, self._clock)
        _, windows = calendar.now()
        for span in (windows.day, windows.week, windows.month):
            yield parse_iso(span.start)

    def set_budgets(self, budgets: Iterable[Budget]) -> None:
        """Let these budgets hold from the next request on."""
        self._budgets = index_by_account(budgets)

    def reset_to(self, sums: SpendByQuarterHour, zone: tzinfo) -> None:
        """Count from these sums on, in this zone, where they hold all that was settled by now.

        Calls under way keep what they reserved. Models within keys are to be counted again.
        """
        self._sums, self._zone = sums, zone
        self._calendar = WindowCalendar(zone, self._clock)
        self._counted_from = self.windows.day.start
        for key_id, meter in self._meters.items():
            meter.reset_to(self._sum_used(sums, key_id), self._calendar)
        for account, meter in self._shared.items():
            meter.reset_to(self._sum_used(sums, format_shared_account(*account)), self._calendar)
        self._counted = {}

    def has_counted_models(self, key: AccessKey) -> bool:
        """Return whether what a key spent on the models of its limits is known."""
        known = self._models.get(key.id, {})
        return not key.model_limits or (
            key.id in self._counted
            and known.keys() == key.model_limits.keys()
            and (self._counted[key.id] or not key.limits_models_in_total)
        )

    def set_model_spend(self, key: AccessKey, sums: SpendByQuarterHour) -> None:
        """Count a key's models from these sums on, as ``reset_to`` does; they are by model."""
        before, meters = self._models.get(key.id, {}), dict[str, UsageMeter]()
        for pattern in key.model_limits:
            meters[pattern] = before.get(pattern) or UsageMeter(self._calendar)
            spent = partial(_sum_models, sums, key.id, pattern)
            meters[pattern].reset_to(self._calendar.sum_used(spent), self._calendar)
        self._models[key.id] = meters
        self._counted[key.id] = key.limits_models_in_total

    def limit_request(self, key: AccessKey, model: str) -> RequestLimits:
        """Return all limits on a request; those on models must be counted."""
        own, of_models = self._apply_own(key), partial(self._iter_model_meters, key.id, model)
        if not (key.owner or key.tags or key.model_limits):
            return RequestLimits((own,), self.announcer, of_models)
        patterns = (one for one in self._iter_patterns(key) if fnmatchcase(model, one))
        return RequestLimits(
            (
                own,
                *(self._apply_model(key, pattern) for pattern in patterns),
                *(self._apply_shared(*account) for account in iter_accounts(key)),
            ),
            self.announcer,
            of_models,
        )

    def for_key(self, key: AccessKey) -> UsageMeter:
        """Return the meter of a key."""
        meter = self._meters.get(key.id)
        if meter is None:
            used = self._sum_used(self._sums, key.id)
            meter = self._meters[key.id] = UsageMeter(self._calendar, used)
        return meter

    def forget_removed(self, exists: Callable[[str], object]) -> None:
        """Forget the meters of keys that ``exists`` does not find, unless a call was counted.

        A removed key may be restored, and a counted call is only in its meter until a recount.
        """
        gone = [id_ for id_, one in self._meters.items() if one.is_untouched and not exists(id_)]
        for key_id in gone:
            del self._meters[key_id]

    def describe_limits(self, key: AccessKey) -> tuple[LimitStatus, ...]:
        """Describe each limit of a key and its use: the numbers that enforce it."""
        return self.for_key(key).describe_limits(key.get_limits(self._now))

    def describe_key(self, key: AccessKey) -> LimitsStatus:
        """Describe a key's own limits on all of its requests."""
        return _describe(self._apply_own(key))

    def describe_models(self, key: AccessKey) -> tuple[LimitsStatus, ...]:
        """Describe a key's limits on models, as far as these were counted."""
        return tuple(
            _describe(self._apply_model(key, pattern), has_total=self._counted.get(key.id, False))
            for pattern in self._iter_patterns(key)
        )

    def iter_meters(self, one: AccessKey | Budget) -> Iterator[UsageMeter]:
        """Yield the meters of a budget, or of a key and of its limited models."""
        if isinstance(one, Budget):
            yield self._get_shared(one.scope, one.owner or one.tag)
            return
        yield self.for_key(one)
        yield from (self._models[one.id][pattern] for pattern in self._iter_patterns(one))

    def describe_shared(self, key: AccessKey) -> tuple[LimitsStatus, ...]:
        """Describe the budgets that hold for a key."""
        return tuple(
            _describe(self._apply_shared(*account))
            for account in iter_accounts(key)
            if (budget := self._budgets.get(account)) and budget.enabled
        )

    def describe_budget(self, budget: Budget) -> LimitsStatus:
        """Describe a budget, also one that is not enabled."""
        meter = self._get_shared(budget.scope, budget.owner or budget.tag)
        return _describe(self._apply_budget(budget, meter))

    @property
    def _now(self) -> Timestamp:
        return self._calendar.now()[0]

    def _apply_own(self, key: AccessKey) -> AppliedLimits:
        limits = key.limits if key.raised is None else key.get_limits(self._now)
        return AppliedLimits(
            LimitHolder("key", key.name, key.id),
            self.for_key(key),
            limits,
            _get_soft_limits(key, limits, key.soft_limits),
        )

    def _iter_patterns(self, key: AccessKey) -> Iterator[str]:
        """Yield the names and patterns of models that are limited and counted.

        A request of a key that was changed meanwhile may have others.
        """
        known = self._models.get(key.id, {})
        yield from (pattern for pattern in key.model_limits if pattern in known)

    def _iter_model_meters(self, key_id: str, model: str) -> Iterator[UsageMeter]:
        """Yield the meters that count a key's requests of a model, removed limits' included."""
        for pattern, meter in self._models.get(key_id, {}).items():
            if fnmatchcase(model, pattern):
                yield meter

    def _apply_model(self, key: AccessKey, pattern: str) -> AppliedLimits:
        limits = key.get_model_limits(pattern, self._now)
        return AppliedLimits(
            LimitHolder("model", key.name, key.id, pattern),
            self._models[key.id][pattern],
            limits,
            _get_soft_limits(key, limits, SoftLimits()),
        )

    def _apply_shared(self, scope: BudgetScope, name: str) -> AppliedLimits:
        meter, budget = self._get_shared(scope, name), self._budgets.get((scope, name))
        if budget is None or not budget.enabled:
            return AppliedLimits(LimitHolder(scope, name), meter, NO_LIMITS)
        return self._apply_budget(budget, meter)

    def _apply_budget(self, budget: Budget, meter: UsageMeter) -> AppliedLimits:
        now = self._now
        return AppliedLimits(
            budget.holder, meter, budget.get_limits(now), budget.get_soft_limits(now)
        )

    def _get_shared(self, scope: BudgetScope, name: str) -> UsageMeter:
        meter = self._shared.get((scope, name))
        if meter is None:
            used = self._sum_used(self._sums, format_shared_account(scope, name))
            meter = self._shared[scope, name] = UsageMeter(self._calendar, used)
        return meter

    def _sum_used(self, sums: SpendByQuarterHour, account: str) -> Used:
        return self._calendar.sum_used(partial(sums.get_spend, account))


def iter_accounts(key: AccessKey) -> Iterator[tuple[BudgetScope, str]]:
    """Yield what a key may share a budget by: its owner and its tags."""
    if key.owner:
        yield "owner", key.owner
    for tag in key.tags:
        yield "tag", tag


def _sum_models(
    sums: SpendByQuarterHour, key_id: str, pattern: str, since: datetime | None
) -> Decimal:
    return sum_amounts(
        sums.get_spend(account, since)
        for account in sums.list_accounts()
        if account.startswith(f"{key_id}/") and fnmatchcase(account[len(key_id) + 1 :], pattern)
    )


def _get_soft_limits(key: AccessKey, limits: KeyLimits, soft: SoftLimits) -> SoftLimits:
    return soft if key.warn_at is None else compute_soft_limits(limits, soft, key.warn_at)


def _describe(part: AppliedLimits, *, has_total: bool = True) -> LimitsStatus:
    meter = part.meter
    return LimitsStatus(
        part.holder,
        meter.used,
        meter.describe_limits(part.limits),
        meter.describe_soft_limits(part.soft),
        has_total,
    )
