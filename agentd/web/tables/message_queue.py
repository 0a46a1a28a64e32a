"""The rows of the prompts that wait."""

from agentd.access.gate import Surface
from agentd.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.web import message_queue as shapes
from agentd.web import remote, views
from agentd.web.message_queue import MessageQueue
from agentd.web.parameters import ONCE
from agentd.web.table import Route

_DOOR = Surface.EXTENDED
_RULED = "4, extended surface"
_QUEUE = "/api/MessageQueue/{chatId}"
_PROMPT = f"{_QUEUE}/{{promptId}}"


def rows(queue: MessageQueue) -> tuple[Route, ...]:
    """Send, list, edit, delete, pause, resume, move."""
    return (*_queue(queue), *_prompts(queue), *_order(queue))


def _queue(queue: MessageQueue) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/chat/{chatId}/send",
            _DOOR,
            queue.send,
            "Append a prompt to the queue.",
            operation="send_prompt",
            takes=remote.AppendPrompt,
            gives=views.PromptView,
            status=201,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            parameters=(ONCE,),
            section=_RULED,
        ),
        Route(
            "GET",
            _QUEUE,
            _DOOR,
            queue.list_queue,
            "The prompts that wait, in dispatch order, paused ones included.",
            gives=remote.QueueView,
            errors=(NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            f"{_QUEUE}/pause",
            _DOOR,
            queue.pause_queue,
            "Pass over all prompts that wait now, until they are resumed.",
            gives=remote.QueueView,
            errors=(NotFound, Unavailable),
        ),
        Route(
            "POST",
            f"{_QUEUE}/resume",
            _DOOR,
            queue.resume_queue,
            "Pass over no prompt any longer.",
            gives=remote.QueueView,
            errors=(NotFound, Unavailable),
        ),
    )


def _prompts(queue: MessageQueue) -> tuple[Route, ...]:
    return (
        Route(
            "PUT",
            _PROMPT,
            _DOOR,
            queue.edit_prompt,
            "Change the text or the model of a prompt that waits.",
            takes=shapes.EditPrompt,
            gives=views.PromptView,
            errors=(BadRequest, NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "DELETE",
            _PROMPT,
            _DOOR,
            queue.delete_prompt,
            "Delete a prompt that waits.",
            status=204,
            errors=(NotFound, Unavailable),
            section=_RULED,
        ),
    )


def _order(queue: MessageQueue) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_PROMPT}/pause",
            _DOOR,
            queue.pause_prompt,
            "Pass over a prompt until it is resumed.",
            gives=remote.QueueView,
            errors=(NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            f"{_PROMPT}/resume",
            _DOOR,
            queue.resume_prompt,
            "Pass over a prompt no longer.",
            gives=remote.QueueView,
            errors=(NotFound, Unavailable),
        ),
        Route(
            "POST",
            f"{_PROMPT}/move",
            _DOOR,
            queue.move_prompt,
            "Have a prompt's turn come earlier or later.",
            takes=shapes.MovePrompt,
            gives=remote.QueueView,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )
