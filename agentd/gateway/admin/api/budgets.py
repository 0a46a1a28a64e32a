"""Endpoints of budgets: limits that the access keys of an owner, or with a tag, share."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct, structs

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import ConfigProblem
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.limit_views import (
    LimitStatusView,
    RaiseRequest,
    SoftLimitView,
    SpentView,
    make_limit_views,
    make_raise,
    make_soft_views,
    make_spent_view,
)
from agentd.gateway.admin.api.limits import LimitedKeys
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.api.resource import ResourceEndpoints, ResourceTypes
from agentd.gateway.admin.api.route_builders import (
    ResourceDocs,
    build_raise_routes,
    build_resource_routes,
)
from agentd.gateway.admin.changes import MaskedFields
from agentd.gateway.admin.service import ChangeLog, ManagedResource, ResourceStore
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.limits.budgets import Budget, BudgetScope
from agentd.gateway.limits.burn_down import compute_burn_down
from agentd.gateway.limits.meters import LimitsStatus, iter_accounts
from agentd.gateway.limits.spend import Windows
from agentd.http.request import Request, Response
from agentd.http.routing import Route

_OURS = ("created", "raised")


class ForecastView(Struct, frozen=True, rename="camel"):
    """How long a limit in USD lasts at the current rate."""

    name: str
    """``total``, ``day``, ``week`` or ``month``."""
    days_left: float | None
    """Days until it is used up, at the rate since its window began (``total``: since the month
    did); null: nothing is used."""
    lasts: bool
    """True if it then lasts until it resets."""


_MORE: dict[str, Any] = {
    "keys": Annotated[int, Meta(description="Number of access keys that share it.")],
    "spent": Annotated[SpentView, Meta(description="USD, by the numbers that enforce limits.")],
    "limit_usage": Annotated[
        tuple[LimitStatusView, ...], Meta(description="Each limit and how much of it is used.")
    ],
    "soft_usage": Annotated[
        tuple[SoftLimitView, ...], Meta(description="Each soft limit and how much of it is used.")
    ],
    "forecast": Annotated[
        tuple[ForecastView, ...], Meta(description="How long each limit in USD lasts.")
    ],
}
BudgetView = shapes.define_view(Budget, **_MORE)
_LoggedBudget = shapes.define_view(Budget, called="LoggedBudget")


class CurrentBudgets(ResourceStore[Budget], Protocol):
    """The budgets (``gateway.limits.budget_store.BudgetRepository``)."""

    @property
    def current(self) -> Mapping[str, Budget]:
        """The budgets by name."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Why their file is not in force."""
        ...


class BudgetMeters(Protocol):
    """What is spent (``gateway.limits.meters``)."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of days, weeks and months."""
        ...

    @property
    def windows(self) -> Windows:
        """The current windows."""
        ...

    def describe_budget(self, budget: Budget) -> LimitsStatus:
        """Return what was spent of a budget, and its limits."""
        ...


class BudgetEndpoints(ResourceEndpoints[Budget]):
    """The endpoints below ``/api/agent/budgets``."""

    types = ResourceTypes(
        BudgetView,
        shapes.define_page(BudgetView),
        shapes.define_new(Budget, *_OURS),
        shapes.define_patch(Budget, *_OURS, readonly=(*_OURS, *_MORE)),
    )
    noun = "budget"

    def __init__(
        self,
        budgets: CurrentBudgets,
        keys: LimitedKeys,
        meters: BudgetMeters,
        clock: Clock,
        journal: ChangeLog,
    ) -> None:
        self._budgets = budgets
        self._keys = keys
        self._meters = meters
        self._clock = clock
        self._counted: tuple[Keyring | None, Counter[tuple[BudgetScope, str]]] = (None, Counter())
        managed = ManagedResource[Budget](
            "budgets", Budget, budgets, journal, name=lambda one: one.name, show=_to_log_fields
        )
        listing = ResourceListing[Budget](
            lambda: budgets.current,
            lambda: list(budgets.current.values()),
            lambda one: one.name,
            lambda one: one.enabled,
        )
        super().__init__(managed, listing, lambda: budgets.problems)

    def create(self, new: Any) -> Budget:
        """Make a budget from a request."""
        return shapes.from_request(new, Budget, created=self._clock.now(), raised=None)

    def render(self, budget: Budget) -> Any:
        """Return the view of a budget."""
        status = self._meters.describe_budget(budget)
        return shapes.to_view(
            budget,
            BudgetView,
            keys=self._count_keys()[budget.scope, budget.owner or budget.tag],
            spent=make_spent_view(status, str(self._meters.zone)),
            limit_usage=make_limit_views(status),
            soft_usage=make_soft_views(status),
            forecast=_make_forecast(status, self._meters.windows, self._clock.now()),
        )

    async def refresh(self) -> None:
        """Read the file of the keys, which are counted, if it changed."""
        await self._keys.ensure_current()

    async def raise_limits(self, call: Request) -> Response:
        """Raise limits until a moment."""
        request = call.parse_json(RaiseRequest)
        by, now = call.caller.identity, self._clock.now()

        def revise_budget(old: Budget) -> Budget:
            return structs.replace(old, raised=make_raise(request, old.limits, {}, by, now))

        return await self._change(call, revise_budget, "raise")

    async def end_raise(self, call: Request) -> Response:
        """Let the old limits hold again now."""
        return await self._change(call, lambda old: structs.replace(old, raised=None), "end_raise")

    def _count_keys(self) -> Counter[tuple[BudgetScope, str]]:
        """Count the keys of each owner and tag, once while they are the same."""
        keys = self._keys.keys
        if self._counted[0] is not keys:
            self._counted = keys, Counter(account for key in keys for account in iter_accounts(key))
        return self._counted[1]


def _make_forecast(
    status: LimitsStatus, windows: Windows, now: Timestamp
) -> tuple[ForecastView, ...]:
    lines = compute_burn_down(status, None, windows, now)
    return tuple(ForecastView(one.window, one.days_left, one.lasts) for one in lines)


def _to_log_fields(budget: Budget) -> MaskedFields:
    fields: MaskedFields = msgspec.to_builtins(shapes.to_view(budget, _LoggedBudget))
    return fields


_DOCS = ResourceDocs(
    path="/api/agent/budgets/{name}",
    types=BudgetEndpoints.types,
    noun="budget",
    list="List budgets by name, with what is spent of each.",
    create="Add a budget: limits that the keys of one owner, or with one tag, share.",
    create_example={
        "name": "research",
        "tag": "research",
        "limits": {"day": 40, "month": 500},
        "warnAt": 0.8,
    },
    get="Get one budget, with what is spent of it and how long it lasts.",
    change="Change a budget: absent fields stay, null resets to the default.",
    change_example={"limits": {"month": 800}},
    delete="Delete a budget; its limits hold no longer, and what was spent stays known.",
    enable="Enable a budget.",
    disable="Disable a budget: it limits nothing, and what is spent is still counted.",
)


def routes(endpoints: BudgetEndpoints) -> tuple[Route, ...]:
    """Return the routes of budgets."""
    raising = build_raise_routes(endpoints, _DOCS, RaiseRequest, "a budget")
    return build_resource_routes(endpoints, _DOCS, raising)
