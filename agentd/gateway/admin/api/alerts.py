"""Endpoints of alerts: those of late with their deliveries, and the targets that receive them."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Protocol, get_args

import msgspec
from msgspec import Meta, Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, ConfigProblem, NotFound
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import (
    CURSOR,
    DEFAULT_LIMIT,
    LIMIT,
    MAX_LIMIT,
    ResourceListing,
)
from agentd.gateway.admin.api.pages import define_page_with
from agentd.gateway.admin.api.resource import ResourceEndpoints, ResourceTypes
from agentd.gateway.admin.api.route_builders import (
    ResourceDocs,
    build_resource_routes,
    build_route,
)
from agentd.gateway.admin.changes import MaskedFields
from agentd.gateway.admin.service import ChangeLog, ManagedResource, ResourceStore
from agentd.gateway.alerts.model import Alert, AlertDelivery, AlertKind, AlertState, AlertTarget
from agentd.gateway.alerts.outbox import SendResult
from agentd.gateway.alerts.states import FiringTopic, FiringTopics
from agentd.gateway.alerts.targets import (
    drop_bound_secret,
    mask_target,
    require_plain,
)
from agentd.http.parameters import make_choice_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Route

AlertTargetView = shapes.define_view(AlertTarget)

KINDS: tuple[str, ...] = get_args(AlertKind)
STATES: tuple[str, ...] = get_args(AlertState)


class AlertDeliveryView(Struct, frozen=True, rename="camel", kw_only=True):
    """An alert on its way to one target."""

    target: str
    """Name of the target."""
    state: str
    """``pending``: it is still to be sent, or sent again; ``delivered``: the target accepted it;
    ``failed``: given up; ``skipped``: a later message replaced it, or the target is gone."""
    attempts: int
    """How often it was sent."""
    last_attempt_at: Timestamp | None
    """When it was last sent; null: never."""
    next_attempt_at: Timestamp | None
    """When it is sent next; null: it is not sent any more."""
    answer: str
    """What the target answered last, or why it could not be reached; empty: nothing yet."""


class AlertView(Struct, frozen=True, rename="camel", kw_only=True):
    """An alert, and to whom it was delivered."""

    id: str
    """Its id, which a webhook receives as webhook-id."""
    at: Timestamp
    """When it was noticed."""
    kind: str
    """What it is, such as ``channel_down``."""
    state: AlertState
    """``resolved``: it is over."""
    subject: str
    """The name or id of what it concerns; empty: the gateway."""
    text: str
    """What happened, in English."""
    since: Timestamp | None
    """Of a resolved one: when it began."""
    deliveries: list[AlertDeliveryView]
    """One for each target that receives it."""


class FiringAlertView(Struct, frozen=True, rename="camel", kw_only=True):
    """A condition that holds now."""

    kind: str
    """What it is."""
    subject: str
    """The name or id of what it concerns; empty: the gateway."""
    text: str
    """What was said when it began."""
    since: Timestamp
    """When it began."""


AlertPage = define_page_with(
    "AlertPage",
    AlertView,
    firing=Annotated[
        list[FiringAlertView], Meta(description="Conditions that hold now, the oldest first.")
    ],
    watched=Annotated[
        bool, Meta(description="False while there is no enabled target: nothing is watched then.")
    ],
)


class AlertTestView(Struct, frozen=True, kw_only=True):
    """What a target answered to a test message."""

    ok: bool
    """True if it accepted the message."""
    status: int | None
    """The HTTP status; null: there was no answer."""
    answer: str
    """The status and the text of the answer, or why the target could not be reached."""


class RaisedAlerts(Protocol):
    """The alerts (``gateway.alerts.service.AlertService``)."""

    @property
    def alerts(self) -> Sequence[Alert]:
        """The alerts of late, the oldest first."""
        ...

    @property
    def firing(self) -> FiringTopics:
        """The topics that fire."""
        ...

    @property
    def is_active(self) -> bool:
        """True if anybody is notified of anything."""
        ...

    def send_test(self, target: AlertTarget) -> Awaitable[SendResult]:
        """Send a test message, and return what the target answered."""
        ...


class ManagedAlertTargets(ResourceStore[AlertTarget], Protocol):
    """The stored targets (``gateway.alerts.targets``)."""

    @property
    def current(self) -> Mapping[str, AlertTarget]:
        """The targets by name."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Why their file is not in force."""
        ...

    def refresh(self) -> Awaitable[None]:
        """Read the file if it was edited."""
        ...


class AlertEndpoints:
    """The endpoint ``/api/agent/alerts``."""

    def __init__(self, alerts: RaisedAlerts) -> None:
        self._alerts = alerts

    def list_alerts(self, call: Request) -> Response:
        """Return one page, newest first."""
        kind, state = call.get_choice("kind", KINDS, ""), call.get_choice("state", STATES, "")
        limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        alerts = list(reversed(self._alerts.alerts))
        if cursor := call.get_query("cursor"):
            places = (number for number, one in enumerate(alerts, 1) if one.id == cursor)
            alerts = alerts[next(places, len(alerts)) :]
        wanted = (one for one in alerts if kind in ("", one.kind) and state in ("", one.state))
        found = list(islice(wanted, limit + 1))
        return Response(
            AlertPage(
                items=[_render_alert(one) for one in found[:limit]],
                next=found[limit - 1].id if len(found) > limit else "",
                firing=render_firing(self._alerts.firing),
                watched=self._alerts.is_active,
            )
        )


class AlertTargetEndpoints(ResourceEndpoints[AlertTarget]):
    """The endpoints below ``/api/agent/alert-targets``."""

    types = ResourceTypes(
        AlertTargetView,
        shapes.define_page(AlertTargetView),
        shapes.define_new(AlertTarget),
        shapes.define_patch(AlertTarget),
    )
    noun = "target"

    def __init__(
        self, targets: ManagedAlertTargets, alerts: RaisedAlerts, journal: ChangeLog
    ) -> None:
        self._targets = targets
        self._alerts = alerts
        managed = ManagedResource[AlertTarget](
            "alert-targets",
            AlertTarget,
            targets,
            journal,
            name=lambda one: one.name,
            show=_to_log_fields,
        )
        listing = ResourceListing[AlertTarget](
            lambda: targets.current,
            self._list_targets,
            lambda one: one.name,
            lambda one: one.enabled,
        )
        super().__init__(managed, listing, lambda: targets.problems)

    async def refresh(self) -> None:
        """Read the file of the targets."""
        await self._targets.refresh()

    def _list_targets(self) -> Iterable[AlertTarget]:
        return self._targets.current.values()

    def render(self, entry: AlertTarget) -> Any:
        """Return the view of a target."""
        return shapes.to_view(mask_target(entry), AlertTargetView)

    def create(self, new: Any) -> AlertTarget:
        """Make a target, which needs its secrets themselves and no masks of them."""
        return require_plain(super().create(new))

    def revise(self, old: AlertTarget, patch: Any) -> AlertTarget:
        """Apply a patch; a target's secret is never sent to another address."""
        along = drop_bound_secret(old, super().revise(old, patch))
        return require_plain(super().revise(along, patch), old)

    async def test_alert_target(self, call: Request) -> Response:
        """Send a test message to the target named in the path; it may be disabled."""
        await self.refresh()
        result = await self._alerts.send_test(self.find(call.get_name()))
        return Response(
            AlertTestView(ok=result.ok, status=result.status or None, answer=result.answer)
        )


def _render_alert(alert: Alert) -> AlertView:
    return AlertView(
        id=alert.id,
        at=alert.at,
        kind=alert.kind,
        state=alert.state,
        subject=alert.subject,
        text=alert.text,
        since=alert.since or None,
        deliveries=list(map(_render_delivery, alert.deliveries)),
    )


def _render_delivery(delivery: AlertDelivery) -> AlertDeliveryView:
    return AlertDeliveryView(
        target=delivery.target,
        state=delivery.state,
        attempts=delivery.attempts,
        last_attempt_at=delivery.at or None,
        next_attempt_at=delivery.not_before if delivery.state == "pending" else None,
        answer=delivery.answer,
    )


def render_firing(topics: Iterable[FiringTopic]) -> list[FiringAlertView]:
    """Return the conditions among topics that fire: events are over at once."""
    return [
        FiringAlertView(kind=one.kind, subject=one.subject, text=one.text, since=one.since)
        for one in topics
        if not one.quiet_until
    ]


def _to_log_fields(entry: AlertTarget) -> MaskedFields:
    fields: MaskedFields = msgspec.to_builtins(shapes.to_view(mask_target(entry), AlertTargetView))
    return fields


_DOCS = ResourceDocs(
    path="/api/agent/alert-targets/{name}",
    types=AlertTargetEndpoints.types,
    noun="alert_target",
    list="List who is notified of alerts, by name; addresses and secrets are masked.",
    create="Create a target of alerts: a webhook as of Standard Webhooks, which is signed; Slack or"
    " Discord; plain text, as ntfy takes; or Telegram, by a bot of this daemon.",
    create_example={
        "name": "operations",
        "url": "https://example.org/alerts",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "alerts": ["channel_down", "ledger_failing", "limit_hit"],
    },
    get="Get one target; its address and its secret are masked.",
    change="Change a target: absent fields stay, null resets to the default. A masked value stands"
    " for the stored one; with another address the secret must be sent, too.",
    change_example={"minInterval": 300},
    delete="Delete a target; alerts that it has not received yet are skipped.",
    enable="Enable a target.",
    disable="Disable a target: it is sent nothing; alerts not yet received are skipped.",
)


def list_target_routes(endpoints: AlertTargetEndpoints) -> tuple[Route, ...]:
    """Return the routes of targets."""
    test = build_route(
        "POST",
        f"{_DOCS.path}/test",
        endpoint=endpoints.test_alert_target,
        summary="Send a test message to a target, also to a disabled one, and return its answer.",
        response_type=AlertTestView,
        errors=(NotFound,),
    )
    return build_resource_routes(endpoints, _DOCS, (test,))


def routes(endpoints: AlertEndpoints) -> tuple[Route, ...]:
    """Return the route of the alerts."""
    return (
        build_route(
            "GET",
            "/api/agent/alerts",
            endpoint=endpoints.list_alerts,
            summary="List the last 500 alerts with their deliveries, newest first, and what holds"
            " now.",
            response_type=AlertPage,
            errors=(BadRequest,),
            parameters=(
                LIMIT,
                CURSOR,
                make_choice_parameter("kind", "Only this kind of alert.", KINDS),
                make_choice_parameter("state", "Only alerts in this state.", STATES),
            ),
        ),
    )
