"""Builders of the routes of the management API."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from agentd.core.errors import (
    AgentdError,
    BadRequest,
    Conflict,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from agentd.gateway.admin.api.listing import PAGING
from agentd.gateway.admin.api.resource import (
    DRY_RUN,
    IF_MATCH,
    CopyableEndpoints,
    CopyRequest,
    ResourceEndpoints,
    ResourceTypes,
)
from agentd.http.access import RouteGroup
from agentd.http.parameters import ETAG
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

build_route = partial(Route, group=RouteGroup.MANAGE, section="2")
"""Build a management route from keyword arguments."""

_GET_ERRORS = (NotFound, Unavailable)
_CREATE_ERRORS = (BadRequest, Conflict, Unavailable)
CHANGE_ERRORS = (*_CREATE_ERRORS, NotFound, PreconditionFailed)
"""The errors of a route that changes a resource."""


ID = Parameter("id", "path", "The id.", {"type": "string", "minLength": 1})
"""Identifies a resource that has no name."""


class ResourceDocs(Struct, frozen=True, kw_only=True):
    """The descriptions of the routes of one kind of resource, as clients read them."""

    path: str
    """The path of one resource, such as ``/api/agent/channels/{name}``."""
    types: ResourceTypes
    noun: str
    """The noun of operation ids, such as ``channel``."""
    create_verb: str = "add"
    """The verb in the operation id of the route that creates one."""
    list: str
    list_errors: tuple[type[AgentdError], ...] = (BadRequest, Unavailable)
    """The errors of the list; ``Unavailable``: its file cannot be read, and nothing is known."""
    create: str
    create_example: object
    create_parameters: tuple[Parameter, ...] = ()
    """Further parameters of the route that creates one."""
    get: str
    change: str
    change_example: object
    delete: str
    enable: str
    disable: str


def build_resource_routes(
    endpoints: ResourceEndpoints[Any],
    docs: ResourceDocs,
    actions: Iterable[Route] = (),
    created_view: Any = None,
) -> tuple[Route, ...]:
    """Build the routes of one kind of resource; ``actions`` is what else can be done with one.

    ``created_view`` is the type of the response to creating one, if it is not the view.
    """
    ids = (ID,) if "{id}" in docs.path else ()
    return (
        *_build_collection_routes(endpoints, docs, created_view),
        *_build_item_routes(endpoints, docs, ids),
        *actions,
        *_build_switch_routes(endpoints, docs, ids),
    )


class RaisableEndpoints(Protocol):
    """The endpoints of resources whose limits can be raised for a while."""

    async def raise_limits(self, call: Request) -> Response:
        """Raise limits until a moment."""
        ...

    async def end_raise(self, call: Request) -> Response:
        """Let the old limits hold again now."""
        ...


def build_raise_routes(
    endpoints: RaisableEndpoints, docs: ResourceDocs, request_type: type[Struct], what: str
) -> tuple[Route, ...]:
    """Build the routes that raise the limits of a resource for a while, and end that."""
    parameters = (*((ID,) if "{id}" in docs.path else ()), DRY_RUN, IF_MATCH)
    return (
        build_route(
            "POST",
            f"{docs.path}/raise",
            endpoint=endpoints.raise_limits,
            summary=f"Raise limits of {what} until a moment; the old ones then hold by themselves.",
            operation_id=f"raise_{docs.noun}_limits",
            request_type=request_type,
            example={"limits": {"day": 50}, "until": "2099-01-01T00:00:00Z"},
            response_type=docs.types.view,
            response_headers=ETAG,
            errors=CHANGE_ERRORS,
            parameters=parameters,
        ),
        build_route(
            "DELETE",
            f"{docs.path}/raise",
            endpoint=endpoints.end_raise,
            summary=f"Let the old limits of {what} hold again now.",
            operation_id=f"end_{docs.noun}_raise",
            response_type=docs.types.view,
            response_headers=ETAG,
            errors=CHANGE_ERRORS,
            parameters=parameters,
        ),
    )


def build_copy_route(
    endpoints: CopyableEndpoints[Any], docs: ResourceDocs, summary: str, example: str
) -> Route:
    """Build the route that copies a resource; ``example`` is the copy's name."""
    return build_route(
        "POST",
        f"{docs.path}/copy",
        endpoint=endpoints.copy,
        summary=summary,
        operation_id=f"copy_{docs.noun}",
        request_type=CopyRequest,
        example={"name": example},
        response_type=docs.types.view,
        response_headers=ETAG,
        status=201,
        errors=(*_CREATE_ERRORS, NotFound),
        parameters=(DRY_RUN,),
    )


def _build_collection_routes(
    endpoints: ResourceEndpoints[Any], docs: ResourceDocs, created_view: Any
) -> tuple[Route, ...]:
    path, types = docs.path.rpartition("/")[0], docs.types
    return (
        build_route(
            "GET",
            path,
            endpoint=endpoints.list_page,
            summary=docs.list,
            operation_id=f"list_{docs.noun}s",
            response_type=types.page,
            errors=docs.list_errors,
            parameters=PAGING,
        ),
        build_route(
            "POST",
            path,
            endpoint=endpoints.add,
            summary=docs.create,
            operation_id=f"{docs.create_verb}_{docs.noun}",
            request_type=types.new,
            example=docs.create_example,
            response_type=created_view or types.view,
            response_headers=ETAG,
            status=201,
            errors=_CREATE_ERRORS,
            parameters=(DRY_RUN, *docs.create_parameters),
        ),
    )


def _build_item_routes(
    endpoints: ResourceEndpoints[Any], docs: ResourceDocs, ids: tuple[Parameter, ...]
) -> tuple[Route, ...]:
    path, types = docs.path, docs.types
    return (
        build_route(
            "GET",
            path,
            endpoint=endpoints.get,
            summary=docs.get,
            operation_id=f"get_{docs.noun}",
            response_type=types.view,
            response_headers=ETAG,
            errors=_GET_ERRORS,
            parameters=ids,
        ),
        build_route(
            "PATCH",
            path,
            endpoint=endpoints.change,
            summary=docs.change,
            operation_id=f"change_{docs.noun}",
            request_type=types.patch,
            example=docs.change_example,
            response_type=types.view,
            response_headers=ETAG,
            errors=CHANGE_ERRORS,
            parameters=(*ids, DRY_RUN, IF_MATCH),
        ),
        build_route(
            "DELETE",
            path,
            endpoint=endpoints.remove,
            summary=docs.delete,
            operation_id=f"remove_{docs.noun}",
            status=204,
            errors=CHANGE_ERRORS,
            parameters=(*ids, DRY_RUN, IF_MATCH),
        ),
    )


def _build_switch_routes(
    endpoints: ResourceEndpoints[Any], docs: ResourceDocs, ids: tuple[Parameter, ...]
) -> tuple[Route, ...]:
    return tuple(
        build_route(
            "POST",
            f"{docs.path}/{verb}",
            endpoint=endpoint,
            summary=summary,
            operation_id=f"{verb}_{docs.noun}",
            response_type=docs.types.view,
            response_headers=ETAG,
            errors=CHANGE_ERRORS,
            parameters=(*ids, DRY_RUN, IF_MATCH),
        )
        for verb, endpoint, summary in (
            ("enable", endpoints.enable, docs.enable),
            ("disable", endpoints.disable, docs.disable),
        )
    )
