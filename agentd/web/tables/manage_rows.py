"""The kinds of rows that every resource of the management has."""

from functools import partial

from agentd.access.gate import Surface
from agentd.errors import BadRequest, Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.web.manage.listing import PAGING
from agentd.web.manage.resource import DRY_RUN, IF_MATCH
from agentd.web.table import Endpoint, Parameter, Route

row = partial(Route, surface=Surface.MANAGE, section="2")
"""A row of the management, by its keywords."""

_WRITING = (BadRequest, Conflict, Unavailable)
_CHANGING = (*_WRITING, NotFound, PreconditionFailed)


ID = Parameter("id", "path", "Its id.", {"type": "string", "minLength": 1})
"""What names a resource without a name."""


def many(path: str, endpoint: Endpoint, summary: str, page: type) -> Route:
    """A list, page by page."""
    return row(
        "GET",
        path,
        endpoint=endpoint,
        summary=summary,
        gives=page,
        errors=(BadRequest,),
        parameters=PAGING,
    )


def one(path: str, endpoint: Endpoint, summary: str, view: type, operation: str) -> Route:
    """One of a list."""
    return row(
        "GET",
        path,
        endpoint=endpoint,
        summary=summary,
        operation=operation,
        gives=view,
        errors=(NotFound,),
        parameters=_id(path),
    )


def create(
    path: str,
    endpoint: Endpoint,
    summary: str,
    wish: type,
    view: type,
    example: object = None,
) -> Route:
    """One more; below another one: made from it. ``example`` is a body."""
    return row(
        "POST",
        path,
        endpoint=endpoint,
        summary=summary,
        takes=wish,
        example=example,
        gives=view,
        status=201,
        errors=(*_WRITING, NotFound) if "{" in path else _WRITING,
        parameters=(*_id(path), DRY_RUN),
    )


def change(
    path: str,
    endpoint: Endpoint,
    summary: str,
    patch: type,
    view: type,
    example: object = None,
) -> Route:
    """Another one in its place."""
    return row(
        "PATCH",
        path,
        endpoint=endpoint,
        summary=summary,
        takes=patch,
        example=example,
        gives=view,
        errors=_CHANGING,
        parameters=(*_id(path), DRY_RUN, IF_MATCH),
    )


def switch(path: str, endpoint: Endpoint, summary: str, view: type) -> Route:
    """A change that needs no body."""
    return row(
        "POST",
        path,
        endpoint=endpoint,
        summary=summary,
        gives=view,
        errors=_CHANGING,
        parameters=(*_id(path), DRY_RUN, IF_MATCH),
    )


def delete(path: str, endpoint: Endpoint, summary: str) -> Route:
    """One less."""
    return row(
        "DELETE",
        path,
        endpoint=endpoint,
        summary=summary,
        status=204,
        errors=_CHANGING,
        parameters=(*_id(path), DRY_RUN, IF_MATCH),
    )


def _id(path: str) -> tuple[Parameter, ...]:
    return (ID,) if "{id}" in path else ()
