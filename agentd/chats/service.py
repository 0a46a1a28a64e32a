"""Chats and their queues, as callers command them: rules checked, durable, then told.

Each change is one record in the chat's journal. A method returns when its record is safe on
disk; the events of a change are published then, in the order of all changes.
Source: the remote-control specification, sections 2 to 4.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

from msgspec import Struct

from agentd.chats import queue as rules
from agentd.chats.approval import Hold
from agentd.chats.chat import Message, Prompt
from agentd.chats.created import Created
from agentd.chats.fold import ONCE_FOR, Chat, Remembered, Summary
from agentd.chats.listing import Filter, Page, page
from agentd.chats.records import (
    ChatChanged,
    ChatCreated,
    Once,
    QueueAppended,
    QueueHeld,
    QueueReleased,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
)
from agentd.chats.shelf import Shelf
from agentd.clock import Timestamp, parse_iso
from agentd.errors import Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.events import Event, Last

DEFAULT_TITLE = "Remote API Chat"


class NewChat(Struct, frozen=True):
    """What a caller says of the chat to create (section 2)."""

    prompt: str | None = None
    title: str = DEFAULT_TITLE
    model: str = ""
    skill: str = "none"
    system_prompt: str = ""
    bot_id: str = ""
    bot_linked: bool | None = None
    bot_note: str = ""
    once: Once | None = None


class ChatService:
    """All that can be done with chats."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._created = Created((*shelf.known.values(), *shelf.deleted.values()))

    # What is there.

    def summary(self, chat_id: int) -> Summary:
        """A chat at a glance, as it is on disk; ``NotFound`` or ``Unavailable``."""
        return self._shelf.summary(chat_id)

    def summaries(self) -> list[Summary]:
        """Every chat at a glance, the damaged ones too."""
        return list(self._shelf.known.values())

    def page(self, wanted: Filter, before: int | None, limit: int) -> Page:
        """Some chats, the newest first; what it costs does not grow with their number."""
        return page(self._shelf.ids, self._shelf.known, wanted, before, limit)

    def recorded(self) -> list[Summary]:
        """All that has a journal: every chat, those in the trash too."""
        return [*self._shelf.known.values(), *self._shelf.deleted.values()]

    def at_hand(self, chat_id: int) -> Chat | None:
        """What ``get`` would return, if that is known at once; to be read at once, too."""
        self.summary(chat_id)
        return self._shelf.store.at_hand(chat_id)

    async def get(self, chat_id: int) -> Chat:
        """A chat's state at one moment, showing nothing that a crash could still undo."""
        while True:
            chat = await self._shelf.open(chat_id)
            seen = chat.snapshot()
            try:
                await self._shelf.store.settled(chat)
            except Unavailable:  # what it had taken in is not on disk: look at what is
                continue
            return seen

    async def messages(self, chat: Chat, since: Timestamp) -> AsyncIterator[Sequence[Message]]:
        """The messages from ``since`` on, that moment included (section 4, endpoint 3).

        Raises ``Unavailable`` at the place where the history turns out to be damaged; the chat
        is then read-only.
        """
        recent = chat.since(since)
        if recent is not None:
            yield recent
            return
        try:
            async for portion in self._shelf.store.history(chat, since):
                yield portion
        except Unavailable:
            await self._shelf.open(chat.id)  # its damage is told from now on
            raise

    async def rest(self, chat_id: int, seconds: float) -> Summary:
        """The chat at a glance once nothing more will happen to it by itself, or after that long.

        A chat rests when the agent is not working and no prompt is ready to be sent.
        """
        arrived = asyncio.get_running_loop().create_future()

        def look(event: Event) -> None:
            if not isinstance(event, Last) or event.chat.id != chat_id:
                return
            if event.chat.at_rest and not arrived.done():
                arrived.set_result(None)

        if not self.summary(chat_id).at_rest:
            stop = self._shelf.bus.subscribe(look)
            try:
                await asyncio.wait([arrived], timeout=seconds)
            finally:
                stop()
        return self.summary(chat_id)

    # What callers change.

    async def create(self, new: NewChat, by: str) -> Chat:
        """A new chat; its prompt, if any, waits in its queue (section 3).

        With ``once``, the same key and words within 24 hours answer with the first chat; other
        words raise ``Conflict``.
        """
        if new.prompt is not None:
            rules.checked_text(new.prompt)
        if new.once and (chat := await self._created_before(new.once)):
            return chat
        chat = self._shelf.store.create(self._shelf.sequences.next("chat"))
        at = self._shelf.clock.now()
        body = ChatCreated(
            title=new.title,
            model=new.model,
            skill=new.skill,
            system_prompt=new.system_prompt,
            bot_id=new.bot_id,
            bot_linked=new.bot_linked,
            bot_note=new.bot_note,
            prompt=None if new.prompt is None else self._prompt(at, new.prompt),
            once=new.once,
        )
        done = self._shelf.record(chat, by, body, at)
        if new.once:
            self._created.note(new.once.key, chat.id, at)
        try:
            await done
        except Unavailable:
            if new.once:
                self._created.forget(new.once.key)
            raise
        return chat

    async def append(
        self, chat_id: int, text: str, model: str, by: str, once: Once | None = None
    ) -> Prompt:
        """A prompt at the end of the queue (endpoint 5); ``once`` as in ``create``."""
        chat = await self._shelf.open(chat_id)
        if once and (earlier := self._remembered(chat, once)) and earlier.prompt:
            await self._shelf.store.settled(chat)
            return earlier.prompt
        at = self._shelf.moment(chat)
        prompt = self._prompt(at, rules.checked_text(text), model=model)
        await self._shelf.record(chat, by, QueueAppended(prompt, once), at)
        return prompt

    async def rewrite(
        self, chat_id: int, prompt_id: int, text: str | None, by: str, model: str | None = None
    ) -> Prompt:
        """Another text or model for a waiting prompt (endpoint 6 changes the text); None stays."""
        if text is not None:
            rules.checked_text(text)
        chat = await self._shelf.open(chat_id)
        prompt = await self._waiting(chat, prompt_id)
        if text is None and model is None:
            await self._shelf.store.settled(chat)
            return prompt
        text = prompt.text if text is None else text
        done = self._shelf.record(chat, by, QueueRewritten(prompt_id, text, model))
        prompt = await self._waiting(chat, prompt_id)
        await done
        return prompt

    async def remove(self, chat_id: int, prompt_id: int, by: str) -> None:
        """A waiting prompt less (endpoint 7)."""
        chat = await self._shelf.open(chat_id)
        await self._waiting(chat, prompt_id)
        await self._shelf.record(chat, by, QueueRemoved(prompt_id))

    async def replace(
        self, chat_id: int, wanted: Sequence[rules.Wanted], by: str, version: int | None = None
    ) -> tuple[rules.Queue, int]:
        """Another queue (endpoint 8), and its version.

        With ``version``, only if the queue is still that one: else ``PreconditionFailed``.
        """
        rules.check_wanted(wanted)
        chat = await self._shelf.open(chat_id)
        if version is not None and version != chat.queue_version:
            raise PreconditionFailed(f"The queue of chat {chat_id} has changed", "Read it anew.")
        at = self._shelf.moment(chat)
        try:
            queue = rules.replaced(chat.queue, wanted, chat.sent, partial(self._prompt, at))
        except NotFound:
            await self._shelf.store.settled(chat)
            raise
        done = self._shelf.record(chat, by, QueueReplaced(queue), at)
        version = chat.queue_version
        await done
        return queue, version

    async def change(self, chat_id: int, wish: ChatChanged, by: str) -> Chat:
        """Another title, model, skill, system prompt or way to decide questions."""
        chat = await self._shelf.open(chat_id)
        await self._shelf.record(chat, by, wish)
        return chat

    async def hold(self, chat_id: int, reason: str, by: str) -> None:
        """Nothing leaves the queue until it is released by hand."""
        chat = await self._shelf.open(chat_id)
        at = self._shelf.moment(chat)
        await self._shelf.record(chat, by, QueueHeld(Hold("hand", reason, by, at)), at)

    async def release(self, chat_id: int, by: str) -> None:
        """The queue goes on, whatever held it; a used-up budget holds it again."""
        chat = await self._shelf.open(chat_id)
        if chat.agent.hold or chat.agent.wait:
            await self._shelf.record(chat, by, QueueReleased())

    # How it is done.

    async def _waiting(self, chat: Chat, prompt_id: int) -> Prompt:
        if prompt := rules.find(chat.queue, prompt_id):
            return prompt
        await self._shelf.store.settled(chat)  # a refusal is an answer too: no crash may undo it
        raise NotFound(f"Prompt {prompt_id} not found in the queue of chat {chat.id}")

    def _prompt(self, at: Timestamp, text: str, paused: bool = False, model: str = "") -> Prompt:
        return Prompt(self._shelf.sequences.next("prompt"), text, at, model=model, paused=paused)

    async def _created_before(self, once: Once) -> Chat | None:
        chat_id = self._created.chat_of(once.key)
        if chat_id is None:
            return None
        if chat_id in self._shelf.deleted:
            raise NotFound(f"Chat {chat_id} not found", "It was created so, and is deleted.")
        try:
            chat = await self._shelf.store.open(chat_id)
        except NotFound:  # it never reached the disk, and its caller left before that was known
            return None
        if self._remembered(chat, once) is None:
            return None
        await self._shelf.store.settled(chat)
        return chat

    def _remembered(self, chat: Chat, once: Once) -> Remembered | None:
        """What this key did in this chat before; ``Conflict`` if it was asked in other words."""
        earlier = chat.once.get(once.key)
        if earlier is None or parse_iso(self._shelf.clock.now()) - parse_iso(earlier.at) > ONCE_FOR:
            return None
        if earlier.digest != once.digest:
            raise Conflict(
                "This Idempotency-Key was used for another request",
                "Use a new key for each request, and the same one only to repeat it.",
            )
        return earlier
