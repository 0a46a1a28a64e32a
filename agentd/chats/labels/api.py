"""The endpoints below ``/api/chat-labels``; the list itself is ``labels.yml``.

Source: the remote-control specification, section 4, 'Extended surface'; paths and bodies below
its prefix are ours.
"""

from collections.abc import Collection
from typing import Annotated

from msgspec import Meta, Struct

from agentd.chats.labels.model import Color, Label, LabelName, validate_name
from agentd.chats.labels.service import LabelService
from agentd.chats.views import Id
from agentd.core.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route

MOST_CHATS = 1000
"""Chats that one request gives a label to."""


class LabelRow(Struct, frozen=True):
    """A label, and the number of chats that have it."""

    name: str
    color: str
    chats: int


class LabelsView(Struct, frozen=True):
    """All labels, in their order."""

    labels: list[LabelRow]


class ChangeLabel(Struct, frozen=True):
    """The changes to a label; absent fields stay unchanged."""

    name: LabelName | None = None
    color: Color | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            validate_name(self.name)


class LabelledChats(Struct, frozen=True, rename="camel"):
    """The ids of chats."""

    chat_ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_CHATS)]


class LabelEndpoints:
    """The endpoints of labels and of their assignment to chats."""

    def __init__(self, labelling: LabelService) -> None:
        self._labelling = labelling

    async def list_labels(self, _: Request) -> Response:
        """List all labels."""
        rows = [
            LabelRow(label.name, label.color, chats)
            for label, chats in await self._labelling.list_with_counts()
        ]
        return Response(LabelsView(rows))

    async def create_label(self, request: Request) -> Response:
        """Add a label at the end of the list."""
        label = request.parse_json(Label)
        await self._labelling.create(label)
        return Response(label, 201)

    async def change_label(self, request: Request) -> Response:
        """Change the name, which the chats with the label follow, or the colour."""
        body = request.parse_json(ChangeLabel)
        by = request.caller.identity
        return Response(await self._labelling.change(request.get_name(), body.name, body.color, by))

    async def delete_label(self, request: Request) -> Response:
        """Delete a label, and remove it from all chats."""
        await self._labelling.delete(request.get_name(), request.caller.identity)
        return Response(status=204)

    async def assign_label(self, request: Request) -> Response:
        """Add a label to chats."""
        name, chats = request.get_name(), _parse_chats(request)
        await self._labelling.add_to_chats(name, chats, request.caller.identity)
        return Response(status=204)

    async def unassign_label(self, request: Request) -> Response:
        """Remove a label from chats."""
        name, chats = request.get_name(), _parse_chats(request)
        await self._labelling.remove_from_chats(name, chats, request.caller.identity)
        return Response(status=204)


def _parse_chats(request: Request) -> Collection[int]:
    """Return the chats that the body names, each once."""
    return dict.fromkeys(request.parse_json(LabelledChats).chat_ids)


_GROUP = RouteGroup.EXTENDED
_SECTION = "4, extended surface"
_LABEL = "/api/chat-labels/{name}"


def routes(labels: LabelEndpoints) -> tuple[Route, ...]:
    """Return the routes of the labels, and of giving them to chats."""
    return (*_list_routes(labels), *_list_assignment_routes(labels))


def _list_routes(labels: LabelEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chat-labels",
            _GROUP,
            labels.list_labels,
            "The labels, in order, with the number of chats that have each.",
            response_type=LabelsView,
            section=_SECTION,
        ),
        Route(
            "POST",
            "/api/chat-labels",
            _GROUP,
            labels.create_label,
            "Add a label at the end of the list.",
            request_type=Label,
            response_type=Label,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            section=_SECTION,
        ),
        Route(
            "PUT",
            _LABEL,
            _GROUP,
            labels.change_label,
            "Rename a label, in the chats too, or change its colour.",
            request_type=ChangeLabel,
            response_type=Label,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=_SECTION,
        ),
        Route(
            "DELETE",
            _LABEL,
            _GROUP,
            labels.delete_label,
            "Delete a label, and remove it from all chats.",
            status=204,
            errors=(NotFound, Conflict, Unavailable),
        ),
    )


def _list_assignment_routes(labels: LabelEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_LABEL}/assign",
            _GROUP,
            labels.assign_label,
            "Add a label to chats.",
            request_type=LabelledChats,
            status=204,
            errors=(BadRequest, NotFound, Unavailable),
            section=_SECTION,
        ),
        Route(
            "POST",
            f"{_LABEL}/unassign",
            _GROUP,
            labels.unassign_label,
            "Remove a label from chats.",
            request_type=LabelledChats,
            status=204,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )
