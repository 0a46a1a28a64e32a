"""The report of limits: when each access key's are exhausted at the current rate."""

from collections.abc import Awaitable, Iterable
from datetime import tzinfo
from typing import Annotated, Protocol

from msgspec import Meta, structs

from agentd.core.clock import Clock
from agentd.core.errors import BadRequest
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import PAGING, ResourceListing
from agentd.gateway.admin.api.pages import define_page_with
from agentd.gateway.admin.api.reports import FORMAT, build_report_route, respond_as_csv, wants_csv
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.burn_down import BurnLine, compute_burn_down
from agentd.gateway.limits.meters import LimitsStatus
from agentd.gateway.limits.spend import Windows
from agentd.http.request import Request, Response
from agentd.http.routing import Route

BurnView = shapes.define_view(BurnLine)
BurnReport = define_page_with(
    "BurnReport",
    BurnView,
    zone=Annotated[str, Meta(description="The time zone of the windows.")],
)
"""The limits of some keys, ordered by name."""


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


class ModelSpend(Protocol):
    """Counts what keys spent on models (``gateway.limits.model_spend``)."""

    def count(self, keys: Iterable[AccessKey]) -> Awaitable[None]:
        """Return once the limits on models of these keys can be shown."""
        ...


class LimitEndpoints:
    """The endpoint ``/api/agent/reports/limits``."""

    def __init__(
        self, keys: LimitedKeys, meters: LimitMeters, model_spend: ModelSpend, clock: Clock
    ) -> None:
        self._keys = keys
        self._meters = meters
        self._model_spend = model_spend
        self._clock = clock
        self._listing = ResourceListing[AccessKey](
            lambda: keys.keys,
            self._list_limited_keys,
            lambda one: one.name,
            lambda one: one.enabled,
        )

    async def report_limits(self, call: Request) -> Response:
        """Return one page, key by key."""
        await self._keys.ensure_current()
        keys, after = self._listing.get_page(call)
        await self._model_spend.count(keys)
        meters, now, windows = self._meters, self._clock.now(), self._meters.windows
        lines = [
            line
            for key in keys
            for status in (meters.describe_key(key), *meters.describe_models(key))
            for line in compute_burn_down(status, key.created, windows, now)
        ]
        if wants_csv(call):
            return respond_as_csv(call, f"limits-{now[:10]}", lines, after)
        items = [shapes.to_view(one, BurnView) for one in lines]
        return Response(BurnReport(zone=str(self._meters.zone), items=items, next=after))

    def _list_limited_keys(self) -> list[AccessKey]:
        return [
            key
            for key in self._keys.keys
            if key.limits.has_usd_limit
            or any(limits.has_usd_limit for limits in key.model_limits.values())
        ]


def routes(endpoints: LimitEndpoints) -> tuple[Route, ...]:
    """Return the route of the report."""
    return (
        structs.replace(
            build_report_route(
                "limits",
                endpoints.report_limits,
                "Each key's limits in USD and how many days they last at the current rate.",
                BurnReport,
                (*PAGING, FORMAT),
            ),
            errors=(BadRequest,),
        ),
    )
