"""The endpoints below ``/api/MessageQueue``: the remote queue's own, and pause, resume and move.

Source: the remote-control specification, section 4, 'Extended surface' and the queue rules;
paths below the prefix are ours.
"""

from collections.abc import Awaitable
from typing import Annotated

from msgspec import Meta, Struct

from agentd.chats.editing import Editing
from agentd.chats.service import ChatService
from agentd.web.call import Answer, Call
from agentd.web.remote import Remote, Text, queue_answer
from agentd.web.views import Name, prompt_view

LAST = 2**31 - 1
"""A position behind every prompt."""


class MovePrompt(Struct, frozen=True):
    """How many prompts are to be before it; more than there are: it becomes the last."""

    position: Annotated[int, Meta(ge=0, le=LAST)]


class EditPrompt(Struct, frozen=True):
    """What changes about a prompt that waits; what is absent or null stays."""

    prompt: Text | None = None
    model: Name | None = None
    """The model for this prompt alone; empty: the model of its chat."""


class MessageQueue:
    """What waits in a chat. What the remote API does too is done by its code."""

    def __init__(self, remote: Remote, chats: ChatService, editing: Editing) -> None:
        self._remote = remote
        self._chats = chats
        self._editing = editing

    def list_queue(self, call: Call) -> "Answer | Awaitable[Answer]":
        """The prompts that wait, in dispatch order."""
        return self._remote.queue(call)

    async def send(self, call: Call) -> Answer:
        """One more prompt at the end."""
        return await self._remote.append(call)

    async def edit_prompt(self, call: Call) -> Answer:
        """Change the text, the model, or both of a prompt that waits."""
        wish = call.json(EditPrompt)
        chat_id, prompt_id = call.id("chatId", "Chat"), call.id("promptId", "Prompt")
        prompt = await self._chats.rewrite(
            chat_id, prompt_id, wish.prompt, call.caller.by, wish.model
        )
        return Answer(prompt_view(prompt))

    async def delete_prompt(self, call: Call) -> Answer:
        """One prompt less."""
        return await self._remote.remove(call)

    async def pause_prompt(self, call: Call) -> Answer:
        """A prompt is passed over until it is resumed."""
        return await self._pause(call, call.id("promptId", "Prompt"), pause=True)

    async def resume_prompt(self, call: Call) -> Answer:
        """A prompt is passed over no longer."""
        return await self._pause(call, call.id("promptId", "Prompt"), pause=False)

    async def pause_queue(self, call: Call) -> Answer:
        """All prompts that wait now are passed over."""
        return await self._pause(call, None, pause=True)

    async def resume_queue(self, call: Call) -> Answer:
        """No prompt is passed over."""
        return await self._pause(call, None, pause=False)

    async def move_prompt(self, call: Call) -> Answer:
        """A prompt's turn comes earlier or later."""
        wish = call.json(MovePrompt)
        chat_id, prompt_id = call.id("chatId", "Chat"), call.id("promptId", "Prompt")
        moved = await self._editing.move(chat_id, prompt_id, wish.position, call.caller.by)
        return queue_answer(chat_id, *moved)

    async def _pause(self, call: Call, prompt_id: int | None, *, pause: bool) -> Answer:
        chat_id = call.id("chatId", "Chat")
        queue = await self._editing.pause(chat_id, prompt_id, call.caller.by, pause=pause)
        return queue_answer(chat_id, *queue)
