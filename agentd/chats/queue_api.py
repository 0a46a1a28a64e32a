"""The endpoints below ``/api/MessageQueue``: the remote queue's own, and pause, resume and move.

Source: the remote-control specification, section 4, 'Extended surface' and the queue rules;
paths below the prefix are ours.
"""

from collections.abc import Awaitable
from typing import Annotated

from msgspec import Meta, Struct

from agentd.chats import remote_api, views
from agentd.chats.commands import ChatCommands
from agentd.chats.queue import parse_not_before
from agentd.chats.remote_api import NotBefore, RemoteEndpoints, Text, make_queue_response
from agentd.chats.requests import get_chat_id, get_prompt_id, get_queue_version
from agentd.chats.service import ChatService
from agentd.chats.views import Name, make_prompt_view
from agentd.core.errors import BadRequest, Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.parameters import ETAG, IDEMPOTENCY_KEY, IF_MATCH
from agentd.http.request import Request, Response
from agentd.http.routing import Route

LAST = 2**31 - 1
"""A position behind every prompt."""


class MovePrompt(Struct, frozen=True):
    """The number of prompts that should precede it; if there are fewer, it becomes the last."""

    position: Annotated[int, Meta(ge=0, le=LAST)]


class EditPrompt(Struct, frozen=True, rename="camel"):
    """The changes to a waiting prompt; absent or null fields stay unchanged."""

    prompt: Text | None = None
    model: Name | None = None
    """The model for this prompt alone; empty: the model of its chat."""
    not_before: NotBefore | None = None
    """It is not sent before this time; empty: it has no time any more."""


class QueueEndpoints:
    """The endpoints of a chat's queue. Those shared with the remote API use its code."""

    def __init__(self, remote: RemoteEndpoints, chats: ChatService, editing: ChatCommands) -> None:
        self._remote = remote
        self._chats = chats
        self._editing = editing

    def list_queue(self, request: Request) -> "Response | Awaitable[Response]":
        """List the waiting prompts in dispatch order."""
        return self._remote.list_queue(request)

    async def send(self, request: Request) -> Response:
        """Append a prompt."""
        return await self._remote.append_prompt(request)

    async def edit_prompt(self, request: Request) -> Response:
        """Change the text, the model or the time of a prompt that waits."""
        body = request.parse_json(EditPrompt)
        chat_id, prompt_id = get_chat_id(request), get_prompt_id(request)
        version = get_queue_version(request)
        prompt = await self._chats.rewrite_prompt(
            chat_id,
            prompt_id,
            body.prompt,
            request.caller.identity,
            body.model,
            version,
            parse_not_before(body.not_before),
        )
        return Response(make_prompt_view(prompt))

    async def delete_prompt(self, request: Request) -> Response:
        """Delete a prompt."""
        return await self._remote.delete_prompt(request)

    async def pause_prompt(self, request: Request) -> Response:
        """Pause a waiting prompt."""
        return await self._pause(request, get_prompt_id(request), pause=True)

    async def resume_prompt(self, request: Request) -> Response:
        """Resume a paused prompt."""
        return await self._pause(request, get_prompt_id(request), pause=False)

    async def pause_queue(self, request: Request) -> Response:
        """Pause all prompts that wait now."""
        return await self._pause(request, None, pause=True)

    async def resume_queue(self, request: Request) -> Response:
        """Resume all paused prompts."""
        return await self._pause(request, None, pause=False)

    async def move_prompt(self, request: Request) -> Response:
        """Move a waiting prompt to another position."""
        body = request.parse_json(MovePrompt)
        chat_id, prompt_id = get_chat_id(request), get_prompt_id(request)
        moved = await self._editing.move_prompt(
            chat_id, prompt_id, body.position, request.caller.identity
        )
        return make_queue_response(chat_id, *moved)

    async def _pause(self, request: Request, prompt_id: int | None, *, pause: bool) -> Response:
        chat_id = get_chat_id(request)
        queue = await self._editing.pause_prompts(
            chat_id, prompt_id, request.caller.identity, pause=pause
        )
        return make_queue_response(chat_id, *queue)


_GROUP = RouteGroup.EXTENDED
_SECTION = "4, extended surface"
_QUEUE = "/api/MessageQueue/{chatId}"
_PROMPT = f"{_QUEUE}/{{promptId}}"


def routes(queue: QueueEndpoints) -> tuple[Route, ...]:
    """Send, list, edit, delete, pause, resume, move."""
    return (*_list_queue_routes(queue), *_list_prompt_routes(queue), *_list_order_routes(queue))


def _list_queue_routes(queue: QueueEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/chat/{chatId}/send",
            _GROUP,
            queue.send,
            "Append a prompt to the queue.",
            operation_id="send_prompt",
            request_type=remote_api.AppendPrompt,
            response_type=views.PromptView,
            status=201,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            parameters=(IDEMPOTENCY_KEY,),
            section=_SECTION,
        ),
        Route(
            "GET",
            _QUEUE,
            _GROUP,
            queue.list_queue,
            "The waiting prompts in dispatch order, including paused ones.",
            response_type=remote_api.QueueView,
            response_headers=ETAG,
            errors=(NotFound, Unavailable),
            section=_SECTION,
        ),
        Route(
            "POST",
            f"{_QUEUE}/pause",
            _GROUP,
            queue.pause_queue,
            "Pause all waiting prompts.",
            response_type=remote_api.QueueView,
            response_headers=ETAG,
            errors=(NotFound, Unavailable),
        ),
        Route(
            "POST",
            f"{_QUEUE}/resume",
            _GROUP,
            queue.resume_queue,
            "Resume all paused prompts.",
            response_type=remote_api.QueueView,
            response_headers=ETAG,
            errors=(NotFound, Unavailable),
        ),
    )


def _list_prompt_routes(queue: QueueEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "PUT",
            _PROMPT,
            _GROUP,
            queue.edit_prompt,
            "Change the text, the model or the time of a waiting prompt.",
            request_type=EditPrompt,
            response_type=views.PromptView,
            errors=(BadRequest, NotFound, PreconditionFailed, Unavailable),
            parameters=(IF_MATCH,),
            section=_SECTION,
        ),
        Route(
            "DELETE",
            _PROMPT,
            _GROUP,
            queue.delete_prompt,
            "Delete a waiting prompt.",
            status=204,
            errors=(NotFound, Unavailable),
            section=_SECTION,
        ),
    )


def _list_order_routes(queue: QueueEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_PROMPT}/pause",
            _GROUP,
            queue.pause_prompt,
            "Pause a waiting prompt.",
            response_type=remote_api.QueueView,
            response_headers=ETAG,
            errors=(NotFound, Unavailable),
            section=_SECTION,
        ),
        Route(
            "POST",
            f"{_PROMPT}/resume",
            _GROUP,
            queue.resume_prompt,
            "Resume a paused prompt.",
            response_type=remote_api.QueueView,
            response_headers=ETAG,
            errors=(NotFound, Unavailable),
        ),
        Route(
            "POST",
            f"{_PROMPT}/move",
            _GROUP,
            queue.move_prompt,
            "Move a waiting prompt to another position.",
            request_type=MovePrompt,
            response_type=remote_api.QueueView,
            response_headers=ETAG,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )
