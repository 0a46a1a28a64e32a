"""Chats and their queues, as callers use them: rules checked, changes durable, then published.

Each change is one record in the chat's journal. A method returns when its record is safe on
disk; the events of a change are published then, in the order of all changes.
Source: the remote-control specification, sections 2 to 4.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from functools import partial

from msgspec import Struct

from agentd.chats import queue as rules
from agentd.chats.approval import Hold
from agentd.chats.events import ChatStateEvent
from agentd.chats.idempotency import IdempotencyIndex
from agentd.chats.listing import ChatFilter, ChatPage, list_page
from agentd.chats.model import Message, Prompt
from agentd.chats.records import (
    ChatChanged,
    ChatCreated,
    QueueAppended,
    QueueHeld,
    QueueReleased,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
)
from agentd.chats.repository import ChatRepository
from agentd.chats.state import IDEMPOTENCY_WINDOW, Chat, ChatSummary, IdempotentResult
from agentd.chats.worktree import WorktreeBase, plan_worktree
from agentd.core.clock import Timestamp, parse_iso
from agentd.core.errors import Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.core.idempotency import IdempotencyKey

DEFAULT_TITLE = "Remote API Chat"


class NewChat(Struct, frozen=True):
    """The properties of a chat to create (section 2)."""

    prompt: str | None = None
    title: str = DEFAULT_TITLE
    model: str = ""
    skill: str = "none"
    system_prompt: str = ""
    bot_id: str = ""
    bot_linked: bool | None = None
    bot_note: str = ""
    once: IdempotencyKey | None = None
    worktree: WorktreeBase | None = None
    """The start of its own work tree; None: it works in the workspace."""
    not_before: Timestamp = ""
    """The time before which its prompt is not sent; empty: it has none."""
    mode: str = ""
    """The mode of its engine's program; empty: the program's usual one."""
    budget: Decimal | None = None
    """USD after which its prompt's turn is ended; None: none of its own."""
    output_schema: str = ""
    """The JSON Schema that the reply to its prompt has to fit; empty: none."""


class ChatService:
    """All that can be done with chats."""

    def __init__(self, chats: ChatRepository) -> None:
        self._chats = chats
        self._created = IdempotencyIndex((*chats.summaries.values(), *chats.deleted.values()))

    # What is there.

    def get_summary(self, chat_id: int) -> ChatSummary:
        """Return the summary of a chat, as it is on disk; ``NotFound`` or ``Unavailable``."""
        return self._chats.get_summary(chat_id)

    def list_summaries(self) -> list[ChatSummary]:
        """List the summary of every chat, damaged ones included."""
        return list(self._chats.summaries.values())

    def list_page(self, wanted: ChatFilter, before: int | None, limit: int) -> ChatPage:
        """Return a page of chats, newest first; the cost does not grow with their number."""
        return list_page(self._chats.ids, self._chats.summaries, wanted, before, limit)

    def list_all_summaries(self) -> list[ChatSummary]:
        """List the summary of every chat with a journal, those in the trash included."""
        return [*self._chats.summaries.values(), *self._chats.deleted.values()]

    def get_cached(self, chat_id: int) -> Chat | None:
        """Return the chat if it is in memory; read it before the next await."""
        self.get_summary(chat_id)
        return self._chats.store.get_cached(chat_id)

    async def get(self, chat_id: int) -> Chat:
        """Return a snapshot of a chat that shows nothing a crash could still undo."""
        while True:
            chat = await self._chats.open(chat_id)
            seen = chat.snapshot()
            try:
                await self._chats.store.wait_durable(chat)
            except Unavailable:  # what it had taken in is not on disk: look at what is
                continue
            return seen

    async def read_messages(self, chat: Chat, since: Timestamp) -> AsyncIterator[Sequence[Message]]:
        """Read the messages from ``since`` on, inclusive (section 4, endpoint 3).

        Raises ``Unavailable`` at the place where the history turns out to be damaged; the chat
        is then read-only.
        """
        recent = chat.get_messages_since(since)
        if recent is not None:
            yield recent
            return
        try:
            async for portion in self._chats.store.read_history(chat, since):
                yield portion
        except Unavailable:
            await self._chats.open(chat.id)  # its damage is reported from now on
            raise

    def is_idle(self, chat_id: int) -> bool:
        """Return whether a chat rests: the agent is not working, and no prompt is ready to be sent.

        Raises ``NotFound``.
        """
        return self.get_summary(chat_id).is_idle_at(self._chats.clock.now())

    async def wait_until_idle(self, chat_id: int, seconds: float) -> ChatSummary:
        """Return the summary once the chat is idle, or after that long."""
        arrived = asyncio.get_running_loop().create_future()

        def on_chat_changed(event: ChatStateEvent) -> None:
            if arrived.done() or event.chat.id != chat_id:
                return
            if event.chat.is_idle_at(self._chats.clock.now()):
                arrived.set_result(None)

        if not self.is_idle(chat_id):
            stop = self._chats.bus.subscribe_to((ChatStateEvent,), on_chat_changed)
            try:
                await asyncio.wait([arrived], timeout=seconds)
            finally:
                stop()
        return self.get_summary(chat_id)

    # What callers change.

    async def create(self, new: NewChat, by: str) -> Chat:
        """Create a chat; its prompt, if any, waits in its queue (section 3).

        With ``once``, the same key and words within 24 hours answer with the first chat; other
        words raise ``Conflict``.
        """
        if new.prompt is not None:
            rules.validate_text(new.prompt)
        if new.once and (chat := await self._find_created(new.once)):
            return chat
        chat = self._chats.store.create(self._chats.sequences.next("chat"))
        at = self._chats.clock.now()
        title = (new.prompt or "") if new.title == DEFAULT_TITLE else new.title
        body = ChatCreated(
            title=new.title,
            model=new.model,
            skill=new.skill,
            system_prompt=new.system_prompt,
            bot_id=new.bot_id,
            bot_linked=new.bot_linked,
            bot_note=new.bot_note,
            mode=new.mode,
            prompt=None
            if new.prompt is None
            else self._make_prompt(
                at,
                new.prompt,
                not_before=new.not_before,
                budget=new.budget,
                output_schema=new.output_schema,
            ),
            once=new.once,
            worktree=plan_worktree(chat.id, title, new.worktree) if new.worktree else None,
        )
        done = self._chats.record(chat, by, body, at)
        if new.once:
            self._created.add(new.once.key, chat.id, at)
        try:
            await done
        except Unavailable:
            if new.once:
                self._created.remove(new.once.key)
            raise
        return chat

    async def append_prompt(
        self,
        chat_id: int,
        text: str,
        model: str,
        by: str,
        once: IdempotencyKey | None = None,
        not_before: Timestamp = "",
        budget: Decimal | None = None,
        output_schema: str = "",
        *,
        paused: bool = False,
    ) -> Prompt:
        """Append a prompt to the queue (endpoint 5); ``once`` as in ``create``.

        It is not sent ``not_before`` a time; a time that has passed is as none. Its turn is ended
        after ``budget`` USD, and its reply has to fit the ``output_schema``.
        """
        chat = await self._chats.open(chat_id)
        if once and (earlier := self._find_earlier_result(chat, once)) and earlier.prompt:
            await self._chats.store.wait_durable(chat)
            return earlier.prompt
        at = self._chats.get_next_timestamp(chat)
        rules.validate_text(text)
        prompt = self._make_prompt(at, text, paused, model, not_before, budget, output_schema)
        await self._chats.record(chat, by, QueueAppended(prompt, once), at)
        return prompt

    async def rewrite_prompt(
        self,
        chat_id: int,
        prompt_id: int,
        text: str | None,
        by: str,
        model: str | None = None,
        version: int | None = None,
        not_before: Timestamp | None = None,
    ) -> Prompt:
        """Change the text (endpoint 6), the model or the time of a waiting prompt; None keeps it.

        With ``version``, only if the queue is still that one: else ``PreconditionFailed``.
        """
        if text is not None:
            rules.validate_text(text)
        chat = await self._chats.open(chat_id)
        prompt = await self._get_waiting(chat, prompt_id)
        _require_version(chat, version)
        if text is None and model is None and not_before is None:
            await self._chats.store.wait_durable(chat)
            return prompt
        text = prompt.text if text is None else text
        done = self._chats.record(chat, by, QueueRewritten(prompt_id, text, model, not_before))
        prompt = await self._get_waiting(chat, prompt_id)
        await done
        return prompt

    async def remove_prompt(self, chat_id: int, prompt_id: int, by: str) -> None:
        """Remove a waiting prompt (endpoint 7)."""
        chat = await self._chats.open(chat_id)
        await self._get_waiting(chat, prompt_id)
        await self._chats.record(chat, by, QueueRemoved(prompt_id))

    async def replace_queue(
        self, chat_id: int, wanted: Sequence[rules.QueueItem], by: str, version: int | None = None
    ) -> tuple[rules.Queue, int]:
        """Replace the queue (endpoint 8); return it with its version.

        With ``version``, only if the queue is still that one: else ``PreconditionFailed``.
        """
        rules.validate_queue(wanted)
        chat = await self._chats.open(chat_id)
        _require_version(chat, version)
        at = self._chats.get_next_timestamp(chat)
        try:
            queue = rules.replace_queue(
                chat.queue, wanted, chat.sent, partial(self._make_prompt, at)
            )
        except NotFound:
            await self._chats.store.wait_durable(chat)
            raise
        done = self._chats.record(chat, by, QueueReplaced(queue), at)
        version = chat.queue_version
        await done
        return queue, version

    async def change_chat(self, chat_id: int, changes: ChatChanged, by: str) -> Chat:
        """Change the title, model, skill, system prompt or way to decide questions."""
        chat = await self._chats.open(chat_id)
        await self._chats.record(chat, by, changes)
        return chat

    async def hold_queue(self, chat_id: int, reason: str, by: str) -> None:
        """Hold the queue: no prompt is dispatched until it is released by hand."""
        chat = await self._chats.open(chat_id)
        at = self._chats.get_next_timestamp(chat)
        await self._chats.record(chat, by, QueueHeld(Hold("hand", reason, by, at)), at)

    async def release_queue(self, chat_id: int, by: str) -> None:
        """Release the queue, whatever held it; a used-up budget holds it again."""
        chat = await self._chats.open(chat_id)
        if chat.agent.hold or chat.agent.wait:
            await self._chats.record(chat, by, QueueReleased())

    # How it is done.

    async def _get_waiting(self, chat: Chat, prompt_id: int) -> Prompt:
        if prompt := rules.find_prompt(chat.queue, prompt_id):
            return prompt
        await self._chats.store.wait_durable(
            chat
        )  # a refusal is an answer too: no crash may undo it
        raise NotFound(f"Prompt {prompt_id} not found in the queue of chat {chat.id}")

    def _make_prompt(
        self,
        at: Timestamp,
        text: str,
        paused: bool = False,
        model: str = "",
        not_before: Timestamp = "",
        budget: Decimal | None = None,
        output_schema: str = "",
    ) -> Prompt:
        later = not_before if not_before > self._chats.clock.now() else ""
        number = self._chats.sequences.next("prompt")
        return Prompt(
            number, text, at, model, paused, later, budget=budget, output_schema=output_schema
        )

    async def _find_created(self, once: IdempotencyKey) -> Chat | None:
        chat_id = self._created.find_chat(once.key, self._chats.clock.now())
        if chat_id is None:
            return None
        if chat_id in self._chats.deleted:
            raise NotFound(
                f"Chat {chat_id} not found", "It was created with this key and has been deleted."
            )
        try:
            chat = await self._chats.store.open(chat_id)
        except NotFound:  # it never reached the disk, and its caller left before that was known
            return None
        if self._find_earlier_result(chat, once) is None:
            return None
        await self._chats.store.wait_durable(chat)
        return chat

    def _find_earlier_result(self, chat: Chat, once: IdempotencyKey) -> IdempotentResult | None:
        """Return this key's earlier result in this chat; ``Conflict`` for another request."""
        earlier = chat.once.get(once.key)
        if (
            earlier is None
            or parse_iso(self._chats.clock.now()) - parse_iso(earlier.at) > IDEMPOTENCY_WINDOW
        ):
            return None
        if earlier.digest != once.digest:
            raise Conflict(
                "This Idempotency-Key was used for another request",
                "Use a new key for each request, and the same one only to repeat it.",
            )
        return earlier


def _require_version(chat: Chat, version: int | None) -> None:
    """Raise ``PreconditionFailed`` when the caller expects another queue; None expects nothing."""
    if version is not None and version != chat.queue_version:
        raise PreconditionFailed(f"The queue of chat {chat.id} has changed", "Read it again.")
