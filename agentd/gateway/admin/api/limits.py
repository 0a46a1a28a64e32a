"""The report of limits: when those of keys, owners and tags are exhausted at the current rate."""

from collections.abc import Awaitable, Container, Iterator, Mapping
from datetime import tzinfo
from typing import Annotated, Protocol, get_args

from msgspec import Meta, structs

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import BadRequest
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import PAGING, ResourceListing
from agentd.gateway.admin.api.pages import define_page_with
from agentd.gateway.admin.api.report_pages import ReportPages
from agentd.gateway.admin.api.reports import CURSOR as REPORT_CURSOR
from agentd.gateway.admin.api.reports import FORMAT, build_report_route, respond_as_csv, wants_csv
from agentd.gateway.admin.api.reports import LIMIT as REPORT_LIMIT
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.budgets import Budget, BudgetScope
from agentd.gateway.limits.burn_down import BurnLine, compute_burn_down
from agentd.gateway.limits.events import ReachedLimit
from agentd.gateway.limits.meters import LimitsStatus, iter_accounts
from agentd.gateway.limits.soft_limits import ModelSpend, list_passed_soft_limits
from agentd.gateway.limits.spend import Windows
from agentd.http.parameters import make_choice_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

BurnView = shapes.define_view(BurnLine)
BurnReport = define_page_with(
    "BurnReport",
    BurnView,
    zone=Annotated[str, Meta(description="The time zone of the windows.")],
)
"""The limits of some keys or budgets, ordered by name."""

PassedView = shapes.define_view(ReachedLimit, called="PassedSoftLimitView")
PassedReport = define_page_with(
    "SoftLimitReport",
    PassedView,
    zone=Annotated[str, Meta(description="The time zone of the windows.")],
)
"""The soft limits that are passed, the one that is exceeded most first."""

_SCOPES: tuple[BudgetScope, ...] = get_args(BudgetScope)
_BY = ("key", *_SCOPES, "budget")
BY = make_choice_parameter(
    "by", "What the limits are of; budget: owners and tags; key by default.", _BY
)
OWNER = Parameter("owner", "query", "Only of keys that have this owner now.", {"type": "string"})
TAG = Parameter("tag", "query", "Only of keys that have this tag now.", {"type": "string"})


class LimitedKeys(Protocol):
    """The current access keys (``gateway.keys.store``)."""

    @property
    def keys(self) -> Keyring:
        """The valid keys."""
        ...

    def ensure_current(self) -> Awaitable[None]:
        """Return once they match their file."""
        ...


class LimitMeters(Protocol):
    """The spend of all keys (``gateway.limits.meters``)."""

    @property
    def windows(self) -> Windows:
        """The current windows."""
        ...

    @property
    def zone(self) -> tzinfo:
        """The time zone of the windows."""
        ...

    def describe_key(self, key: AccessKey) -> LimitsStatus:
        """Return what a key spent, and its own limits."""
        ...

    def describe_models(self, key: AccessKey) -> tuple[LimitsStatus, ...]:
        """Return its limits on models."""
        ...

    def describe_budget(self, budget: Budget) -> LimitsStatus:
        """Return what was spent of a budget, and its limits."""
        ...


class LimitBudgets(Protocol):
    """The budgets (``gateway.limits.budget_store.BudgetRepository``)."""

    @property
    def current(self) -> Mapping[str, Budget]:
        """The budgets by name."""
        ...

    def ensure_current(self) -> Awaitable[None]:
        """Return once they match their file."""
        ...


class LimitEndpoints:
    """The endpoints ``/api/agent/reports/limits`` and ``/api/agent/reports/soft-limits``."""

    def __init__(
        self,
        keys: LimitedKeys,
        budgets: LimitBudgets,
        meters: LimitMeters,
        model_spend: ModelSpend,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._budgets = budgets
        self._meters = meters
        self._model_spend = model_spend
        self._clock = clock
        self._pages = ReportPages(clock)
        self._listing = ResourceListing[AccessKey](
            lambda: keys.keys,
            self._list_limited_keys,
            lambda one: one.name,
            lambda one: one.enabled,
        )

    async def report_limits(self, call: Request) -> Response:
        """Return one page, key by key or budget by budget."""
        await self._keys.ensure_current()
        by = call.get_choice("by", _BY, "key")
        lines, after = await (
            self._list_keys(call) if by == "key" else self._list_budgets(call, by)
        )
        if wants_csv(call):
            name = f"limits-{self._clock.now()[:10]}"
            return respond_as_csv(call, name, BurnLine, lines, after)
        items = [shapes.to_view(one, BurnView) for one in lines]
        return Response(BurnReport(zone=str(self._meters.zone), items=items, next=after))

    async def report_soft_limits(self, call: Request) -> Response:
        """Return the soft limits that are passed now."""
        page = await self._pages.open(call, self._list_passed)
        rows = page.counted[page.slice]
        after = self._pages.follow(call, page, len(page.counted))
        if wants_csv(call):
            name = f"soft-limits-{self._clock.now()[:10]}"
            return respond_as_csv(call, name, ReachedLimit, rows, after)
        items = [shapes.to_view(one, PassedView) for one in rows]
        return Response(PassedReport(zone=str(self._meters.zone), items=items, next=after))

    async def _list_passed(self) -> list[ReachedLimit]:
        await self._keys.ensure_current()
        await self._budgets.ensure_current()
        found = await list_passed_soft_limits(
            self._keys.keys, self._budgets.current, self._meters, self._model_spend
        )
        return sorted(found, key=lambda one: (one.limit - one.spent, one.scope, one.name))

    async def _list_keys(self, call: Request) -> tuple[list[BurnLine], str]:
        """Return the limits of some keys, and the next cursor."""
        owner, tag = _parse_groups(call)
        keys, after = self._get_listing(owner, tag).get_page(call)
        await self._model_spend.count(keys)
        meters = self._meters
        return [
            line
            for key in keys
            for status in (meters.describe_key(key), *meters.describe_models(key))
            for line in self._compute(status, key.created)
        ], after

    async def _list_budgets(self, call: Request, by: str) -> tuple[list[BurnLine], str]:
        """Return the limits of some budgets, and the next cursor.

        Those of owners can be narrowed down to keys with a tag, and the other way round.
        """
        await self._budgets.ensure_current()
        owner, tag = _parse_groups(call)
        found = [one for one in self._budgets.current.values() if by in (one.scope, "budget")]
        if owner or tag:
            keys = [key for key in self._keys.keys if _is_in(key, owner, tag)]
            shared = {account for key in keys for account in iter_accounts(key)}
            found = [one for one in found if _is_of(one, owner, tag, shared)]
        listing = ResourceListing[Budget](
            lambda: found, lambda: found, lambda one: one.name, lambda one: one.enabled
        )
        page, after = listing.get_page(call)
        return [
            line for one in page for line in self._compute(self._meters.describe_budget(one), None)
        ], after

    def _compute(self, status: LimitsStatus, created: Timestamp | None) -> Iterator[BurnLine]:
        return compute_burn_down(status, created, self._meters.windows, self._clock.now())

    def _get_listing(self, owner: str, tag: str) -> ResourceListing[AccessKey]:
        """Return the keys with limits; those of an owner or a tag are looked for anew."""
        if not (owner or tag):
            return self._listing
        found = [key for key in self._list_limited_keys() if _is_in(key, owner, tag)]
        return ResourceListing[AccessKey](
            lambda: found, lambda: found, lambda one: one.name, lambda one: one.enabled
        )

    def _list_limited_keys(self) -> list[AccessKey]:
        return [
            key
            for key in self._keys.keys
            if key.limits.has_usd_limit
            or any(limits.has_usd_limit for limits in key.model_limits.values())
        ]


def _parse_groups(call: Request) -> tuple[str, str]:
    return call.get_query("owner") or "", call.get_query("tag") or ""


def _is_in(key: AccessKey, owner: str, tag: str) -> bool:
    return owner in ("", key.owner) and tag in ("", *key.tags)


def _is_of(
    budget: Budget, owner: str, tag: str, shared: Container[tuple[BudgetScope, str]]
) -> bool:
    """Return whether it is of this owner or tag, and if both are given, of keys that have both."""
    name = budget.owner or budget.tag
    own, other = (owner, tag) if budget.scope == "owner" else (tag, owner)
    return own in ("", name) and (not other or (budget.scope, name) in shared)


def routes(endpoints: LimitEndpoints) -> tuple[Route, ...]:
    """Return the routes of these reports."""
    return (
        structs.replace(
            build_report_route(
                "limits",
                endpoints.report_limits,
                "Limits in USD of keys, of owners or of tags, and how many days they last at the"
                " current rate.",
                BurnReport,
                (BY, OWNER, TAG, *PAGING, FORMAT),
            ),
            errors=(BadRequest,),
        ),
        structs.replace(
            build_report_route(
                "soft-limits",
                endpoints.report_soft_limits,
                "Soft limits of keys, models, owners and tags that are passed now, until they are"
                " raised or reset.",
                PassedReport,
                (REPORT_LIMIT, REPORT_CURSOR, FORMAT),
            ),
            errors=(BadRequest,),
        ),
    )
