"""Endpoints that enable, disable or delete several resources of one kind at once."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct

from agentd.core.errors import BadRequest, Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.gateway.admin.api.resource import (
    DRY_RUN,
    IF_MATCH,
    ResourceEndpoints,
    parse_change_request,
)
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.batches import ManagedBatch
from agentd.gateway.keys.model import MAX_LABEL, MAX_TAGS, AccessKey, add_tags, remove_tags
from agentd.http.parameters import ETAG
from agentd.http.request import Request, Response
from agentd.http.routing import Route

E = TypeVar("E", bound=Struct)

MAX_NAMES = 500

BatchAction: TypeAlias = Literal["enable", "disable", "delete"]
KeyBatchAction: TypeAlias = Literal["enable", "disable", "delete", "tag", "untag"]


class BatchRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be done with several resources, with all or none of them."""

    action: BatchAction
    """What to do."""
    names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_NAMES)]
    """Their names; of access keys also their ids."""


class KeyBatchRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be done with several access keys, with all or none of them."""

    action: KeyBatchAction
    """What to do; ``tag`` adds ``tags``, and ``untag`` removes them."""
    names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_NAMES)]
    """Their names or ids."""
    tags: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=MAX_LABEL)], ...],
        Meta(max_length=MAX_TAGS),
    ] = ()
    """The tags of ``tag`` and ``untag``."""


class BatchView(Struct, frozen=True, kw_only=True):
    """The outcome of a batch."""

    changed: list[str]
    """The names, or ids, of what was changed, or with dry_run would be."""
    unchanged: list[str]
    """Those that were so already."""
    change: int | None
    """The number of the change, by which all of it is undone; null: a dry run, or nothing had to
    be changed."""


class BatchEndpoints(Generic[E]):
    """The endpoint below the path of one kind of resource: ``/api/agent/models/batch``."""

    request_type: type[Any] = BatchRequest
    """The schema of the request."""

    def __init__(self, resources: ResourceEndpoints[E], managed: ManagedBatch[E]) -> None:
        self._resources = resources
        self.managed = managed

    async def change_all(self, call: Request) -> Response:
        """Do it with all that the request names, or with none."""
        wanted = call.parse_json(self.request_type)
        edit = self._choose_edit(wanted)
        await self._resources.refresh()
        name_of = self._resources.managed.name
        names = [name_of(self._resources.find(name)) for name in dict.fromkeys(wanted.names)]
        request = parse_change_request(call)
        result = await self.managed.change(names, edit, request, wanted.action)
        pairs = [(name_of(old), old != new) for old, new in result.pairs if old is not None]
        number = result.change.number if result.change and not request.dry_run else None
        view = BatchView(
            changed=[name for name, differs in pairs if differs],
            unchanged=[name for name, differs in pairs if not differs],
            change=number,
        )
        return Response(view, headers={"ETag": f'"{result.tag}"'})

    def _choose_edit(self, wanted: Any) -> Callable[[E], E | None]:
        """Return the edit of a request. Raises ``BadRequest``."""
        if wanted.action == "delete":
            return lambda _: None
        return lambda old: self._resources.set_enabled(old, wanted.action == "enable")


class KeyBatchEndpoints(BatchEndpoints[AccessKey]):
    """The endpoint ``/api/agent/keys/batch``."""

    request_type = KeyBatchRequest

    def _choose_edit(self, wanted: KeyBatchRequest) -> Callable[[AccessKey], AccessKey | None]:
        is_about_tags = wanted.action in ("tag", "untag")
        if is_about_tags != bool(wanted.tags):
            raise BadRequest(
                f"tags: {'missing' if is_about_tags else 'unexpected'} with {wanted.action}"
            )
        if not is_about_tags:
            return super()._choose_edit(wanted)
        revise = add_tags if wanted.action == "tag" else remove_tags

        def edit(key: AccessKey) -> AccessKey:
            try:
                return revise(key, wanted.tags)
            except ValueError as error:
                raise BadRequest(f'"{key.name}": {error}') from error

        return edit


def build_batch_route(
    endpoints: BatchEndpoints[Any],
    resource: str,
    noun: str,
    example: str,
    verbs: str = "Enable, disable or delete",
) -> Route:
    """Build the route for the resources below ``/api/agent/RESOURCE``; ``noun`` is in plural."""
    return build_route(
        "POST",
        f"/api/agent/{resource}/batch",
        endpoint=endpoints.change_all,
        summary=f"{verbs} several {noun}, all or none, as one change that is"
        " undone as one. The ETag of a dry run makes the batch fail if one was changed since.",
        operation_id=f"change_{noun.replace(' ', '_')}",
        request_type=endpoints.request_type,
        example={"action": "disable", "names": [example]},
        response_type=BatchView,
        response_headers=ETAG,
        errors=(BadRequest, NotFound, Conflict, PreconditionFailed, Unavailable),
        parameters=(DRY_RUN, IF_MATCH),
    )
