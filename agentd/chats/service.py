"""Chats and their queues, as callers command them: rules checked, durable, then told.

Each change is one record in the chat's journal. A method returns when its record is safe on
disk; the events of a change are published then, in the order of all changes.
Source: the remote-control specification, sections 2 to 4.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Protocol

from msgspec import Struct

from agentd.chats import queue as rules
from agentd.chats.chat import FREE, NO_TOKENS, Message, Prompt, Role, Tokens
from agentd.chats.created import Created
from agentd.chats.fold import ONCE_FOR, Chat, Remembered, Summary
from agentd.chats.records import (
    Body,
    ChatCreated,
    Entry,
    MessageAdded,
    Once,
    Outcome,
    QueueAppended,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
    TurnEnded,
    TurnStarted,
)
from agentd.clock import Clock, Timestamp, parse_iso
from agentd.errors import Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.events import Bus, ChatUpdate, Event, told_by
from agentd.ids import Sequences

log = logging.getLogger(__name__)

DEFAULT_TITLE = "Remote API Chat"
INTERRUPTED = (
    "Interrupted: agentd ended while this prompt was being carried out. It is not sent again by"
    " itself, since part of it may have been done; send it once more if you want it repeated."
)
AGENT = "agent"
"""Who causes what happens during a turn."""


class ChatStore(Protocol):
    """Where chats are kept (``disk.chats.ChatFiles``)."""

    def create(self, chat_id: int) -> Chat:
        """A chat that exists once its first record is appended."""
        ...

    async def open(self, chat_id: int) -> Chat:
        """The state of a chat; ``NotFound`` or ``Unavailable``."""
        ...

    def at_hand(self, chat_id: int) -> Chat | None:
        """The state of a chat that is in memory and ``settled``; None: ``open`` it."""
        ...

    def append(
        self, chat: Chat, at: Timestamp, by: str, body: Body, told: Callable[[Entry], None]
    ) -> "asyncio.Future[None]":
        """Apply a record at once; the future is done when it is safe."""
        ...

    async def settled(self, chat: Chat) -> None:
        """Return when the state shows nothing that a crash could undo."""
        ...

    def history(self, chat: Chat, since: Timestamp) -> AsyncIterator[list[Message]]:
        """Messages from a moment on, oldest first, in portions."""
        ...


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

    def __init__(
        self,
        store: ChatStore,
        clock: Clock,
        sequences: Sequences,
        bus: Bus,
        known: dict[int, Summary],
    ) -> None:
        self._store = store
        self._clock = clock
        self._sequences = sequences
        self._bus = bus
        self._known = known
        self._created = Created(known.values())

    # What is there.

    def summary(self, chat_id: int) -> Summary:
        """A chat at a glance, as it is on disk.

        Raises ``NotFound``, or ``Unavailable`` for a chat of which nothing could be read.
        """
        found = self._known.get(chat_id)
        if found is None:
            raise NotFound(f"Chat {chat_id} not found")
        if not found.created_at:
            raise Unavailable(f"Chat {chat_id} cannot be read", found.damage)
        return found

    def summaries(self) -> list[Summary]:
        """Every chat at a glance, the damaged ones too."""
        return list(self._known.values())

    def at_hand(self, chat_id: int) -> Chat | None:
        """What ``get`` would return, if that is known at once; to be read at once, too."""
        self.summary(chat_id)
        return self._store.at_hand(chat_id)

    async def get(self, chat_id: int) -> Chat:
        """A chat's state at one moment, showing nothing that a crash could still undo."""
        while True:
            chat = await self._open(chat_id)
            seen = chat.snapshot()
            try:
                await self._store.settled(chat)
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
            async for portion in self._store.history(chat, since):
                yield portion
        except Unavailable:
            await self._open(chat.id)  # its damage is told from now on
            raise

    async def rest(self, chat_id: int, seconds: float) -> Summary:
        """The chat at a glance once nothing more will happen to it by itself, or after that long.

        A chat rests when the agent is not working and no prompt is ready to be sent.
        """
        arrived = asyncio.get_running_loop().create_future()

        def look(event: Event) -> None:
            if not isinstance(event, ChatUpdate) or event.chat.id != chat_id:
                return
            if event.chat.at_rest and not arrived.done():
                arrived.set_result(None)

        if not self.summary(chat_id).at_rest:
            stop = self._bus.subscribe(look)
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
        chat = self._store.create(self._sequences.next("chat"))
        at = self._clock.now()
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
        done = self._record(chat, by, body, at)
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
        chat = await self._open(chat_id)
        if once and (earlier := self._remembered(chat, once)) and earlier.prompt:
            await self._store.settled(chat)
            return earlier.prompt
        at = chat.moment(self._clock.now())
        prompt = self._prompt(at, rules.checked_text(text), model=model)
        await self._record(chat, by, QueueAppended(prompt, once), at)
        return prompt

    async def rewrite(self, chat_id: int, prompt_id: int, text: str, by: str) -> Prompt:
        """Another text for a waiting prompt (endpoint 6)."""
        rules.checked_text(text)
        chat = await self._open(chat_id)
        await self._waiting(chat, prompt_id)
        done = self._record(chat, by, QueueRewritten(prompt_id, text))
        prompt = await self._waiting(chat, prompt_id)
        await done
        return prompt

    async def remove(self, chat_id: int, prompt_id: int, by: str) -> None:
        """A waiting prompt less (endpoint 7)."""
        chat = await self._open(chat_id)
        await self._waiting(chat, prompt_id)
        await self._record(chat, by, QueueRemoved(prompt_id))

    async def replace(
        self, chat_id: int, wanted: Sequence[rules.Wanted], by: str, version: int | None = None
    ) -> tuple[rules.Queue, int]:
        """Another queue (endpoint 8), and its version.

        With ``version``, only if the queue is still that one: else ``PreconditionFailed``.
        """
        rules.check_wanted(wanted)
        chat = await self._open(chat_id)
        if version is not None and version != chat.queue_version:
            raise PreconditionFailed(f"The queue of chat {chat_id} has changed", "Read it anew.")
        at = chat.moment(self._clock.now())
        try:
            queue = rules.replaced(chat.queue, wanted, chat.sent, partial(self._prompt, at))
        except NotFound:
            await self._store.settled(chat)
            raise
        done = self._record(chat, by, QueueReplaced(queue), at)
        version = chat.queue_version
        await done
        return queue, version

    # What the agent does.

    async def end_interrupted(self) -> None:
        """Close the turns that a crash left open; their prompts are not sent again.

        Where the disk takes nothing now, the dispatcher tries until it does.
        """
        for chat in self.summaries():
            if chat.working:
                try:
                    await self.end_turn(chat.id, "interrupted", INTERRUPTED)
                except Unavailable as error:
                    log.warning("the open turn of chat %d stays open: %s", chat.id, error.message)

    async def start_turn(self, chat_id: int, engine: str) -> tuple[Chat, Prompt] | None:
        """Take the next prompt out of the queue and into the history, in one step.

        None when the agent is at work on this chat already, or nothing is ready. When this
        returns a prompt, it is the only time that this prompt is returned, ever.
        """
        chat = await self._open(chat_id)
        prompt = rules.next_up(chat.queue)
        if chat.turn or prompt is None:
            return None
        at = chat.moment(self._clock.now())
        message = Message(self._sequences.next("message"), "user", prompt.text, at)
        await self._record(chat, AGENT, TurnStarted(prompt.id, message, engine), at)
        return chat, prompt

    async def add(
        self,
        chat_id: int,
        role: Role,
        text: str,
        *,
        tool: str = "",
        tokens: Tokens = NO_TOKENS,
        cost: Decimal = FREE,
    ) -> None:
        """A message of the running turn; cost in USD."""
        chat = await self._open(chat_id)
        at = chat.moment(self._clock.now())
        number = self._sequences.next("message")
        message = Message(number, role, text, at, tool=tool, tokens=tokens, cost=cost)
        await self._record(chat, AGENT, MessageAdded(message), at)

    async def end_turn(self, chat_id: int, outcome: Outcome, reason: str = "") -> None:
        """The running turn is over; a ``reason`` becomes an error message in the history."""
        chat = await self._open(chat_id)
        if chat.turn is None:
            return
        at = chat.moment(self._clock.now())
        message = None
        if reason:
            message = Message(self._sequences.next("message"), "error", reason, at)
        await self._record(chat, AGENT, TurnEnded(outcome, message), at)

    # How it is done.

    async def _open(self, chat_id: int) -> Chat:
        self.summary(chat_id)
        chat = await self._store.open(chat_id)
        if chat.damage and not self._known[chat_id].damage:
            self._known[chat_id] = chat.summary()
        return chat

    async def _waiting(self, chat: Chat, prompt_id: int) -> Prompt:
        if prompt := rules.find(chat.queue, prompt_id):
            return prompt
        await self._store.settled(chat)  # a refusal is an answer too: no crash may undo it
        raise NotFound(f"Prompt {prompt_id} not found in the queue of chat {chat.id}")

    def _prompt(self, at: Timestamp, text: str, paused: bool = False, model: str = "") -> Prompt:
        return Prompt(self._sequences.next("prompt"), text, at, model=model, paused=paused)

    def _record(
        self, chat: Chat, by: str, body: Body, at: Timestamp = ""
    ) -> "asyncio.Future[None]":
        """Apply and append; once the record is safe, what it changed is known and told."""

        def told(entry: Entry) -> None:
            self._known[chat.id] = summary
            for event in told_by(entry, chat.id, queue, summary):
                self._bus.publish(event)

        at = at or chat.moment(self._clock.now())
        done = self._store.append(chat, at, by, body, told)
        queue, summary = chat.queue, chat.summary()
        return asyncio.shield(done)  # many wait for it: one who leaves must not cancel the rest

    async def _created_before(self, once: Once) -> Chat | None:
        chat_id = self._created.chat_of(once.key)
        if chat_id is None:
            return None
        try:
            chat = await self._store.open(chat_id)
        except NotFound:  # it never reached the disk, and its caller left before that was known
            return None
        if self._remembered(chat, once) is None:
            return None
        await self._store.settled(chat)
        return chat

    def _remembered(self, chat: Chat, once: Once) -> Remembered | None:
        """What this key did in this chat before; ``Conflict`` if it was asked in other words."""
        earlier = chat.once.get(once.key)
        if earlier is None or parse_iso(self._clock.now()) - parse_iso(earlier.at) > ONCE_FOR:
            return None
        if earlier.digest != once.digest:
            raise Conflict(
                "This Idempotency-Key was used for another request",
                "Use a new key for each request, and the same one only to repeat it.",
            )
        return earlier
