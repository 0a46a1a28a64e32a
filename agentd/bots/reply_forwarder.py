"""Sends what a bot has to say: the messages of chats, and its replies to what is written to it.

Each conversation is served in order, also after a restart, and none waits for another: the
messenger may make one wait for long.

The position of each conversation is saved after each message. A crash between sending a message
and saving the position repeats that message; none is lost.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection
from contextlib import suppress
from functools import partial

from msgspec import structs

from agentd.bots import replies
from agentd.bots.conversation import build_approval_keyboard, build_keyboard
from agentd.bots.messenger import IncomingUpdate
from agentd.bots.runtime import MessageSender, SavedState, iter_delays, log
from agentd.bots.services import BotServices
from agentd.bots.update_handler import Reply
from agentd.chats.events import ChatUpdate, MessageUpdate
from agentd.chats.model import Message, strip_buttons
from agentd.core.errors import NotFound, Unauthorized, Unavailable
from agentd.core.events import Event

TYPING_SECONDS = 4.5
"""The interval at which the typing indicator is renewed; the messenger shows it for 5 s."""
MOST_REPLIES = 100
"""The replies that may wait in one conversation; further ones are lost."""


class ReplyForwarder:
    """Sends the replies of one bot, and the messages of its chats to those whom it obeys."""

    def __init__(
        self,
        services: BotServices,
        saved: SavedState,
        sender: MessageSender,
        users: Collection[int],
    ) -> None:
        self._services = services
        self._saved = saved
        self._sender = sender
        self._users = users
        self._woken = asyncio.Event()
        self._due = set(saved.state.links)
        """Conversations to which there may be something to send."""
        self._replies: defaultdict[int, deque[tuple[IncomingUpdate, Reply]]] = defaultdict(deque)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The conversations that are served now."""
        self._moved: dict[int, int] = {}
        """The new numbers of conversations that have one."""
        self._typing: asyncio.Task[None] | None = None
        self._typed = -TYPING_SECONDS
        self._failure: BaseException | None = None
        self._leaving = False

    def reply(self, update: IncomingUpdate, reply: Reply) -> None:
        """Send a reply soon, and what is new in the conversation's chat."""
        waiting = self._replies[update.chat]
        if reply == Reply():
            pass
        elif len(waiting) < MOST_REPLIES:
            waiting.append((update, reply))
        else:
            log.warning("a reply to conversation %d is lost: too many wait", update.chat)
        self.wake(update.chat)

    def move(self, conversation: int, to: int) -> None:
        """Serve a conversation by its new number, once what is under way by the old one is done."""
        self._saved.state.move(conversation, to)
        self._moved[conversation] = to
        self.wake(to)

    def wake(self, conversation: int) -> None:
        """Send what there is for a conversation."""
        self._due.add(conversation)
        self._woken.set()

    def leave(self) -> None:
        """Send no new message of a chat; ``run`` then returns once the replies are sent."""
        self._leaving = True
        self._woken.set()

    async def run(self) -> None:
        """Send until ``leave`` is called; raises ``Unauthorized`` when the token is refused."""
        unsubscribe = self._services.bus.subscribe_to((MessageUpdate, ChatUpdate), self._on_event)
        try:
            while self._failure is None and not self._has_left:
                self._woken.clear()
                for conversation in self._due - self._list_served():
                    task = asyncio.create_task(self._serve(conversation))
                    task.add_done_callback(partial(self._on_served, conversation))
                    self._tasks[conversation] = task
                working = not self._leaving and self._show_typing()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TYPING_SECONDS if working else None):
                        await self._woken.wait()
        finally:
            unsubscribe()
            tasks = [*self._tasks.values(), *([self._typing] if self._typing else [])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        if self._failure:
            raise self._failure

    def _list_served(self) -> set[int]:
        """Return the numbers of the conversations that are served, new ones and old ones."""
        return self._tasks.keys() | {self._moved[one] for one in self._tasks if one in self._moved}

    @property
    def _has_left(self) -> bool:
        return self._leaving and not self._tasks and not self._replies

    def _on_event(self, event: Event) -> None:
        if isinstance(event, MessageUpdate) and event.message.role != "user":
            for conversation, link in self._saved.state.links.items():
                if link.chat == event.chat_id:
                    self.wake(conversation)
        elif (
            isinstance(event, ChatUpdate) and event.chat.working and self._is_linked(event.chat.id)
        ):
            self._woken.set()

    def _is_linked(self, chat_id: int) -> bool:
        return any(link.chat == chat_id for link in self._saved.state.links.values())

    async def _serve(self, conversation: int) -> None:
        """Send what there is for one conversation."""
        waits = iter_delays()
        while conversation in self._due:
            self._due.discard(conversation)  # first: what comes meanwhile adds it again
            try:
                await self._send_replies(conversation)
                await self._forward_chat(conversation)
            except Unavailable as error:  # the disk: send nothing whose position cannot be saved
                log.warning("a bot cannot save what it forwarded: %s", error.message)
                self._due.add(conversation)
                await asyncio.sleep(next(waits))

    def _on_served(self, conversation: int, task: "asyncio.Task[None]") -> None:
        del self._tasks[conversation]
        if not task.cancelled() and (error := task.exception()):
            self._failure = error
        self._woken.set()

    async def _send_replies(self, conversation: int) -> None:
        waiting = self._replies[conversation]
        while waiting:
            update, reply = waiting.popleft()
            if update.press:
                await self._sender.acknowledge(update.press, reply.note or reply.text)
            if not (update.press and reply.note):
                await self._sender.send(conversation, reply.text)
        self._replies.pop(conversation, None)

    def _show_typing(self) -> bool:
        """Show the typing indicator where the agent works; return whether it works anywhere."""
        working = [one for one in self._saved.state.links if self._is_working(one)]
        now = self._services.clock.monotonic()
        shown = self._typing is None or self._typing.done()
        if working and shown and now - self._typed >= TYPING_SECONDS:
            self._typed = now
            self._typing = asyncio.create_task(self._send_typing(working))
        return bool(working)

    def _is_working(self, conversation: int) -> bool:
        link = self._saved.state.links[conversation]
        with suppress(NotFound, Unavailable):
            return self._saved.state.may_receive(conversation, self._users) and bool(
                self._services.chats.get_summary(link.chat).working
            )
        return False

    async def _send_typing(self, conversations: Collection[int]) -> None:
        with suppress(Unauthorized):  # the poller gets the same error and reports it
            for conversation in conversations:
                await self._sender.show_typing(conversation)

    async def _forward_chat(self, conversation: int) -> None:
        """Forward the messages of the conversation's chat since the last one forwarded."""
        link = self._saved.state.links.get(conversation)
        if link is None or not self._saved.state.may_receive(conversation, self._users):
            return
        try:
            chat = await self._services.chats.get(link.chat)
            async for batch in self._services.chats.read_messages(chat, link.at):
                for message in batch:
                    await self._send_replies(conversation)
                    if self._leaving:
                        return
                    if message.id > link.sent and not await self._forward_message(
                        conversation, link.chat, message
                    ):
                        return
        except NotFound:
            return
        except Unavailable:
            if self._services.is_damaged(link.chat):
                return
            raise

    async def _forward_message(self, conversation: int, chat_id: int, message: Message) -> bool:
        """Send one message and save that; False when the conversation has another chat by now."""
        state = self._saved.state
        link = state.links.get(conversation)
        if link is None or link.chat != chat_id:
            return False
        sent = await self._send_message(conversation, chat_id, message)
        conversation = self._moved.get(conversation, conversation)
        link = state.links.get(conversation)
        if link is None or link.chat != chat_id:
            return False
        state.links[conversation] = structs.replace(link, sent=message.id, at=message.at)
        if sent:
            await self._saved.save()
        return True

    async def _send_message(self, conversation: int, chat_id: int, message: Message) -> bool:
        """Send what people are to see of a message; return whether that was anything."""
        match message.role:
            case "assistant" if message.text.strip():
                keys = build_keyboard(message.text, chat_id, self._saved.state)
                if keys:
                    await self._saved.save()  # a button must work from when it is seen
                await self._sender.send(conversation, strip_buttons(message.text), keys)
                return True
            case "error":
                await self._sender.send(conversation, f"⚠ {replies.escape_markdown(message.text)}")
                return True
            case "tool" if message.tool == "approval":
                return await self._send_approval(conversation, chat_id, message.id)
        return False

    async def _send_approval(self, conversation: int, chat_id: int, number: int) -> bool:
        """Send an approval request that is still open; return whether it was."""
        pending = (await self._services.chats.get(chat_id)).agent.asked
        for approval in pending:
            if approval.id == number:
                await self._sender.send(
                    conversation,
                    replies.render_approval(approval),
                    build_approval_keyboard(chat_id, approval),
                )
                return True
        return False
