"""Endpoints of access keys: limits, allowed models and channels, owners, tags and spend.

The secret of a key is shown once, when it is created or reissued.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct, structs

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import BadRequest, ConfigProblem, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.limit_views import (
    FurtherLimitsView,
    KeyRaiseRequest,
    LimitStatusView,
    SoftLimitView,
    SpentView,
    make_further_view,
    make_limit_views,
    make_raise,
    make_soft_views,
    make_spent_view,
)
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.api.resource import (
    DRY_RUN,
    IF_MATCH,
    ResourceEndpoints,
    ResourceTypes,
    parse_change_request,
)
from agentd.gateway.admin.api.route_builders import (
    CHANGE_ERRORS,
    ID,
    ResourceDocs,
    build_raise_routes,
    build_resource_routes,
    build_route,
)
from agentd.gateway.admin.changes import MaskedFields
from agentd.gateway.admin.service import ChangeLog, ManagedResource, ResourceStore
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import AccessKey, casefold_name, issue, reissue
from agentd.gateway.limits.meters import LimitsStatus
from agentd.gateway.limits.soft_limits import ModelSpend
from agentd.http.parameters import ETAG
from agentd.http.request import Request, Response
from agentd.http.routing import Route

_OURS = ("id", "secret", "created", "created_by", "before", "before_until", "raised")
_HIDDEN = ("secret", "before", "before_until")

MAX_GRACE_SECONDS = 30 * 86400
"""Maximum seconds for which the old secret stays valid after a reissue."""


_LAST4 = (
    "Its last characters, for identification; after a reissue whose response did not arrive, those"
    " of the old secret until the new one is used."
)
_MORE: dict[str, Any] = {
    "last4": Annotated[str, Meta(description=_LAST4)],
    "previous_until": Annotated[
        Timestamp | None, Meta(description="Until when the previous secret stays valid.")
    ],
    "spent": Annotated[SpentView, Meta(description="USD, by the numbers that enforce limits.")],
    "limit_usage": Annotated[
        tuple[LimitStatusView, ...], Meta(description="Each limit and how much of it is used.")
    ],
    "soft_usage": Annotated[
        tuple[SoftLimitView, ...], Meta(description="Each soft limit and how much of it is used.")
    ],
    "further_limits": Annotated[
        tuple[FurtherLimitsView, ...],
        Meta(description="Limits on models, and budgets of its owner and tags; all of them hold."),
    ],
}
_SECRET = Annotated[str, Meta(description="The key itself, shown only once; empty in a dry run.")]
AccessKeyView = shapes.define_view(AccessKey, *_HIDDEN, **_MORE)
"""A key without its secret: only its ``last4`` characters."""
IssuedKeyView = shapes.define_view(
    AccessKey, *_HIDDEN, called="IssuedKeyView", key=_SECRET, **_MORE
)
_LoggedKey = shapes.define_view(AccessKey, *_HIDDEN, called="LoggedKey", last4=str)


class ReissueRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The time for which the current secret stays valid beside the new one."""

    grace: Annotated[int, Meta(ge=0, le=MAX_GRACE_SECONDS)] = 0
    """Seconds for which the current secret stays valid."""


class ManagedKeys(Protocol):
    """The current access keys (``gateway.keys.store``)."""

    @property
    def keys(self) -> Keyring:
        """The valid keys."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """What is wrong with their file."""
        ...

    def ensure_current(self) -> Awaitable[None]:
        """Return once they match their file."""
        ...

    def reissue(
        self, key_id: str, revise: Callable[[AccessKey], AccessKey], *, dry_run: bool = False
    ) -> Awaitable[AccessKey]:
        """Give a key a new secret; the old one is valid until ``complete_reissue``."""
        ...

    def complete_reissue(self, key: AccessKey) -> Awaitable[None]:
        """Revoke the old secret: the new one is about to be sent."""
        ...

    def confirm_reissue(self, key: AccessKey, *, arrived: bool) -> None:
        """Record whether the new secret reached the caller."""
        ...


class KeySpendMeters(Protocol):
    """The spend of all keys (``gateway.limits.meters``)."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of days, weeks and months."""
        ...

    def describe_key(self, key: AccessKey) -> LimitsStatus:
        """Return what a key spent, and its own limits."""
        ...

    def describe_models(self, key: AccessKey) -> tuple[LimitsStatus, ...]:
        """Return its limits on models."""
        ...

    def describe_shared(self, key: AccessKey) -> tuple[LimitsStatus, ...]:
        """Return the budgets of its owner and tags."""
        ...


class AccessKeyEndpoints(ResourceEndpoints[AccessKey]):
    """The endpoints below ``/api/agent/keys``; ``store`` changes the keys in ``keys``."""

    types = ResourceTypes(
        AccessKeyView,
        shapes.define_page(AccessKeyView),
        shapes.define_new(AccessKey, *_OURS),
        shapes.define_patch(
            AccessKey, *_OURS, readonly=("id", "created", "created_by", "raised", *_MORE)
        ),
    )
    noun = "access key"
    path_parameter = "id"

    def __init__(
        self,
        keys: ManagedKeys,
        store: ResourceStore[AccessKey],
        meters: KeySpendMeters,
        model_spend: ModelSpend,
        clock: Clock,
        journal: ChangeLog,
    ) -> None:
        self._keys = keys
        self._meters = meters
        self._model_spend = model_spend
        self._clock = clock
        managed = ManagedResource[AccessKey](
            "keys", AccessKey, store, journal, name=lambda one: one.id, show=_to_log_fields
        )
        listing = ResourceListing[AccessKey](
            lambda: keys.keys, lambda: keys.keys, lambda one: one.name, lambda one: one.enabled
        )
        super().__init__(managed, listing, lambda: () if len(keys.keys) else keys.problems)

    def find_known(self, name: str) -> AccessKey | None:
        """Return a key by id, else by name."""
        known = self._keys.keys
        folded = casefold_name(name)
        return known.find(name) or next(
            (key for key in known if casefold_name(key.name) == folded), None
        )

    def render(self, key: AccessKey) -> Any:
        """Return the view of a key, without its secret."""
        return self._render(key, AccessKeyView)

    async def refresh(self) -> None:
        """Read the file of the keys if it changed, and count what they spent on models."""
        await self._keys.ensure_current()
        await self._model_spend.count(self._keys.keys.with_model_limits)

    async def add(self, call: Request) -> Response:
        """Create a key; its secret is shown only once."""
        request = call.parse_json(self.types.new)
        secret, kept = _issue(request.name, self._clock.now(), call.caller.identity)
        ours = {name: getattr(kept, name) for name in _OURS}
        key = shapes.from_request(request, AccessKey, **ours)
        answer = self.respond(await self.managed.add(key, parse_change_request(call)), 201)
        await call.confirm_caller()  # a terminal may have revoked the caller's own key meanwhile
        return self._add_secret(answer, key, call, secret)

    async def reissue_access_key(self, call: Request) -> Response:
        """Issue a new secret, shown once; the old one may stay valid for a while."""
        await self.refresh()
        grace = call.parse_json(ReissueRequest).grace
        secrets: list[str] = []

        def revise_key(old: AccessKey) -> AccessKey:
            secret, reissued = reissue(old, self._clock.now(), grace, call.caller.identity)
            secrets.append(secret)
            return reissued

        known = self.find(call.get_name("id"))
        wanted = parse_change_request(call)
        made: list[AccessKey] = []

        async def write(
            key_id: str, revise: Callable[[AccessKey], AccessKey], *, dry_run: bool
        ) -> AccessKey:
            made.append(await self._keys.reissue(key_id, revise, dry_run=dry_run))
            return made[0]

        try:
            key = await self.managed.change(known.id, revise_key, wanted, "reissue", write)
            if wanted.dry_run:
                return self._add_secret(self.respond(key), key, call, "")
            await call.confirm_caller()
            await self._keys.complete_reissue(key)
            answer = self._add_secret(self.respond(key), key, call, secrets[0])
        except BaseException as error:  # as for a caller that disconnected: nobody has the secret
            if made and not wanted.dry_run:
                self._keys.confirm_reissue(made[0], arrived=False)
            if made and isinstance(error, Unavailable):
                what = "The key was not reissued; the old secret stays valid"
                raise Unavailable(what, error.details or error.message) from error
            raise
        answer.on_sent = lambda arrived: self._keys.confirm_reissue(key, arrived=arrived)
        return answer

    def _add_secret(self, answer: Response, key: AccessKey, call: Request, secret: str) -> Response:
        """Add the secret to the response, unless it is a dry run."""
        shown = "" if parse_change_request(call).dry_run else secret
        answer.body = self._render(key, IssuedKeyView, shown)
        return answer

    async def raise_limits(self, call: Request) -> Response:
        """Raise limits until a moment."""
        request = call.parse_json(KeyRaiseRequest)
        by, now = call.caller.identity, self._clock.now()

        def revise_key(old: AccessKey) -> AccessKey:
            raised = make_raise(request, old.limits, old.model_limits, by, now)
            return structs.replace(old, raised=raised)

        return await self._change(call, revise_key, "raise")

    async def end_raise(self, call: Request) -> Response:
        """Let the old limits hold again now."""
        return await self._change(call, lambda old: structs.replace(old, raised=None), "end_raise")

    def _render(self, key: AccessKey, view: Any, secret: str = "") -> Any:
        meters, zone = self._meters, str(self._meters.zone)
        own = meters.describe_key(key)
        further = (*meters.describe_models(key), *meters.describe_shared(key))
        return shapes.to_view(
            key,
            view,
            last4=self._keys.keys.get_last4(key),
            previous_until=key.before_until,
            spent=make_spent_view(own, zone),
            limit_usage=make_limit_views(own),
            soft_usage=make_soft_views(own),
            further_limits=tuple(make_further_view(one, zone) for one in further),
            key=secret,
        )


def _issue(name: str, now: Timestamp, by: str) -> tuple[str, AccessKey]:
    try:
        return issue(name, now, by)
    except ValueError as error:
        raise BadRequest("Invalid access key", str(error)) from error


def _to_log_fields(key: AccessKey) -> MaskedFields:
    fields: MaskedFields = msgspec.to_builtins(
        shapes.to_view(key, _LoggedKey, last4=key.secret.last4)
    )
    return fields


_DOCS = ResourceDocs(
    path="/api/agent/keys/{id}",
    types=AccessKeyEndpoints.types,
    noun="access_key",
    create_verb="issue",
    list="List access keys by name, with what each has spent.",
    create="Create an access key; it is shown only once.",
    create_example={
        "name": "ann",
        "models": ["large", "gpt-*"],
        "limits": {"day": 5, "month": 50},
    },
    get="Get one access key by its id or name, without its secret.",
    change="Change a key's limits, lists or name: absent fields stay, null resets to the default.",
    change_example={"limits": {"day": 10}, "expires": "2099-01-01T00:00:00Z"},
    delete="Delete a key; it is refused from then on.",
    enable="Enable a key.",
    disable="Disable a key from the next request on.",
)


def routes(endpoints: AccessKeyEndpoints) -> tuple[Route, ...]:
    """Return the routes of access keys."""
    reissue_route = build_route(
        "POST",
        f"{_DOCS.path}/reissue",
        endpoint=endpoints.reissue_access_key,
        summary="Issue a new secret for a key, shown once; the old one may stay valid for a while.",
        request_type=ReissueRequest,
        example={"grace": 3600},
        response_type=IssuedKeyView,
        response_headers=ETAG,
        errors=CHANGE_ERRORS,
        parameters=(ID, DRY_RUN, IF_MATCH),
    )
    raising = build_raise_routes(endpoints, _DOCS, KeyRaiseRequest, "an access key")
    return build_resource_routes(endpoints, _DOCS, (reissue_route, *raising), IssuedKeyView)
