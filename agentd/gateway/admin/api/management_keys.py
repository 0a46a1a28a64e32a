"""Endpoints of named management keys: the keys of these endpoints themselves, with scopes."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from agentd.core.clock import Clock, Timestamp
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.api.resource import (
    ResourceEndpoints,
    ResourceTypes,
    parse_change_request,
)
from agentd.gateway.admin.api.route_builders import ResourceDocs, build_resource_routes
from agentd.gateway.admin.changes import MaskedFields
from agentd.gateway.admin.service import ChangeLog, ManagedResource
from agentd.gateway.management_keys.model import ManagementKey, issue_management_key
from agentd.gateway.management_keys.store import ManagementKeyRepository
from agentd.http.request import Request, Response
from agentd.http.routing import Route

_HASH = ("sha256", "salt")
_OURS = (*_HASH, "created", "created_by")
_LAST_USED = Annotated[
    Timestamp | None, Meta(description="When it was last used, to the second; null: never.")
]
_SECRET = Annotated[str, Meta(description="The key itself, shown only once; empty in a dry run.")]

ManagementKeyView = shapes.define_view(ManagementKey, *_HASH, last_used=_LAST_USED)
IssuedManagementKeyView = shapes.define_view(
    ManagementKey, *_HASH, called="IssuedManagementKeyView", key=_SECRET, last_used=_LAST_USED
)


class ManagementKeyEndpoints(ResourceEndpoints[ManagementKey]):
    """The endpoints below ``/api/agent/management-keys``."""

    types = ResourceTypes(
        ManagementKeyView,
        shapes.define_page(ManagementKeyView),
        shapes.define_new(ManagementKey, *_OURS),
        shapes.define_patch(
            ManagementKey,
            "name",
            *_OURS,
            readonly=("name", "created", "created_by", "last_used"),
        ),
    )
    noun = "management key"

    def __init__(self, keys: ManagementKeyRepository, clock: Clock, journal: ChangeLog) -> None:
        self._keys = keys
        self._clock = clock
        managed = ManagedResource[ManagementKey](
            "management-keys",
            ManagementKey,
            keys,
            journal,
            name=lambda one: one.name,
            show=_to_log_fields,
        )
        listing = ResourceListing[ManagementKey](
            lambda: keys.keys, lambda: keys.keys, lambda one: one.name, lambda one: one.enabled
        )
        super().__init__(managed, listing, lambda: () if any(keys.keys) else keys.problems)

    def render(self, entry: ManagementKey) -> Any:
        """Return the view of a key, without its hash."""
        last_used = self._keys.get_last_used(entry)
        return shapes.to_view(entry, ManagementKeyView, last_used=last_used)

    async def refresh(self) -> None:
        """Read the file of the keys if it changed."""
        await self._keys.ensure_current()

    async def add(self, call: Request) -> Response:
        """Create a key, which is shown only once."""
        request = call.parse_json(self.types.new)
        secret, issued = issue_management_key(
            request.name, request.scope, self._clock.now(), call.caller.identity
        )
        key = structs.replace(issued, enabled=request.enabled)
        wanted = parse_change_request(call)
        answer = self.respond(await self.managed.add(key, wanted), 201)
        await call.confirm_caller()  # a terminal may have revoked the caller's own key meanwhile
        shown = "" if wanted.dry_run else secret
        answer.body = shapes.to_view(key, IssuedManagementKeyView, last_used=None, key=shown)
        return answer


def _to_log_fields(key: ManagementKey) -> MaskedFields:
    view = shapes.define_view(ManagementKey, *_HASH, called="LoggedManagementKey")
    fields: MaskedFields = msgspec.to_builtins(shapes.to_view(key, view))
    return fields


_DOCS = ResourceDocs(
    path="/api/agent/management-keys/{name}",
    types=ManagementKeyEndpoints.types,
    noun="management_key",
    create_verb="issue",
    list="List the named management keys: their scopes, and when each was last used.",
    create="Create a management key with a scope; it is shown only once.",
    create_example={"name": "spending-monitor", "scope": "read"},
    get="Get one management key, without its hash.",
    change="Change the scope of a management key; its open streams end.",
    change_example={"scope": "keys"},
    delete="Revoke a management key: it is refused from then on, and its open streams end.",
    enable="Enable a management key.",
    disable="Disable a management key; its open streams end.",
)


def routes(endpoints: ManagementKeyEndpoints) -> tuple[Route, ...]:
    """Return the routes of management keys, which need the scope ``all`` even for reading."""
    return tuple(
        structs.replace(route, scopes=("all",))
        for route in build_resource_routes(endpoints, _DOCS, (), IssuedManagementKeyView)
    )
