"""Forwards the messages of chats to the conversations of a bot: in order, also after a restart.

The position of each conversation is saved after each message. A crash between sending a message
and saving the position repeats that message; none is lost.
"""

import asyncio
from contextlib import suppress

from msgspec import structs

from agentd.bots import replies
from agentd.bots.conversation import build_approval_keyboard, build_keyboard
from agentd.bots.runtime import MessageSender, SavedState, iter_delays, log
from agentd.bots.services import BotServices
from agentd.bots.state import ChatLink
from agentd.chats.events import ChatUpdate, MessageUpdate
from agentd.chats.model import Message, strip_buttons
from agentd.core.errors import NotFound, Unauthorized, Unavailable
from agentd.core.events import Event

TYPING_SECONDS = 4.5
"""The interval at which the typing indicator is renewed; the messenger shows it for 5 s."""


class ReplyForwarder:
    """Forwards the messages of one bot's chats."""

    def __init__(self, services: BotServices, saved: SavedState, sender: MessageSender) -> None:
        self._services = services
        self._saved = saved
        self._sender = sender
        self._woken = asyncio.Event()
        self._due = {link.chat for link in saved.state.links.values()}
        """Chats that may have messages to forward."""
        self._typed = -TYPING_SECONDS
        self._leaving = False

    def wake(self, chat_id: int) -> None:
        """Forward what is new in this chat."""
        self._due.add(chat_id)
        self._woken.set()

    def leave(self) -> None:
        """Send nothing new; ``run`` then returns."""
        self._leaving = True
        self._woken.set()

    async def run(self) -> None:
        """Forward messages until ``leave`` is called or the token is refused."""
        unsubscribe = self._services.bus.subscribe_to((MessageUpdate, ChatUpdate), self._on_event)
        waits = iter_delays()
        try:
            while not self._leaving:
                self._woken.clear()
                try:
                    await self._forward_due()
                    waits = iter_delays()
                except (
                    Unavailable
                ) as error:  # the disk: send nothing whose position cannot be saved
                    log.warning("a bot cannot save what it forwarded: %s", error.message)
                    await asyncio.sleep(next(waits))
                    continue
                working = await self._show_typing()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TYPING_SECONDS if working else None):
                        await self._woken.wait()
        except Unauthorized:
            return  # the poller gets the same error and reports it
        finally:
            unsubscribe()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, MessageUpdate) and event.message.role != "user":
            if self._is_linked(event.chat_id):
                self.wake(event.chat_id)
        elif (
            isinstance(event, ChatUpdate) and event.chat.working and self._is_linked(event.chat.id)
        ):
            self._woken.set()

    def _is_linked(self, chat_id: int) -> bool:
        return any(link.chat == chat_id for link in self._saved.state.links.values())

    async def _forward_due(self) -> None:
        while self._due and not self._leaving:
            chat_id = self._due.pop()  # first: a message that comes meanwhile adds it again
            try:
                for conversation, link in tuple(self._saved.state.links.items()):
                    if link.chat == chat_id:
                        await self._forward_chat(conversation, link)
            except Unavailable:
                self._due.add(chat_id)
                raise

    async def _show_typing(self) -> bool:
        """Show the typing indicator where the agent works; return whether it works anywhere."""
        working = False
        now = self._services.clock.monotonic()
        due = now - self._typed >= TYPING_SECONDS
        for conversation, link in tuple(self._saved.state.links.items()):
            with suppress(NotFound, Unavailable):
                if self._services.chats.get_summary(link.chat).working:
                    working = True
                    if due:
                        self._typed = now
                        await self._sender.show_typing(conversation)
        return working

    async def _forward_chat(self, conversation: int, link: ChatLink) -> None:
        """Forward the chat's messages since the last one forwarded."""
        try:
            chat = await self._services.chats.get(link.chat)
            async for batch in self._services.chats.read_messages(chat, link.at):
                for message in batch:
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
