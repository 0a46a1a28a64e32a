"""What is said in the chats of a bot, told in its conversations: in order, and after a restart too.

How far each conversation was told is kept after each message. A crash between a message's going
out and that note tells that one message twice; none is lost.
"""

import asyncio
from contextlib import suppress

from msgspec import structs

from agentd.bots import answers
from agentd.bots.conversation import keyboard, question_keys
from agentd.bots.house import House
from agentd.bots.memory import Link
from agentd.bots.work import Notebook, Voice, delays, log
from agentd.chats.chat import Message, without_buttons
from agentd.errors import NotFound, Unauthorized, Unavailable
from agentd.events import ChatUpdate, Event, MessageUpdate

TYPING_SECONDS = 4.5
"""How often it is shown that the agent is at work; the messenger shows it for five."""


class Telling:
    """Tells one bot's conversations what their chats say."""

    def __init__(self, house: House, notebook: Notebook, voice: Voice) -> None:
        self._house = house
        self._notebook = notebook
        self._voice = voice
        self._woken = asyncio.Event()
        self._due = {link.chat for link in notebook.memory.links.values()}
        """Chats that may have more to tell."""
        self._typed = -TYPING_SECONDS
        self._leaving = False

    def wake(self, chat_id: int) -> None:
        """Look at this chat."""
        self._due.add(chat_id)
        self._woken.set()

    def leave(self) -> None:
        """Begin to say nothing new; ``run`` ends by itself."""
        self._leaving = True
        self._woken.set()

    async def run(self) -> None:
        """Tell until it is to leave, or the token is taken no more."""
        unsubscribe = self._house.bus.subscribe(self._heard)
        waits = delays()
        try:
            while not self._leaving:
                self._woken.clear()
                try:
                    await self._tell_due()
                    waits = delays()
                except Unavailable as error:  # the disk: nothing is told that cannot be noted
                    log.warning("a bot cannot note what it told: %s", error.message)
                    await asyncio.sleep(next(waits))
                    continue
                working = await self._show_work()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TYPING_SECONDS if working else None):
                        await self._woken.wait()
        except Unauthorized:
            return  # who polls hears of it, too
        finally:
            unsubscribe()

    def _heard(self, event: Event) -> None:
        if isinstance(event, MessageUpdate) and event.message.role != "user":
            if self._tells(event.chat_id):
                self.wake(event.chat_id)
        elif isinstance(event, ChatUpdate) and event.chat.working and self._tells(event.chat.id):
            self._woken.set()

    def _tells(self, chat_id: int) -> bool:
        return any(link.chat == chat_id for link in self._notebook.memory.links.values())

    async def _tell_due(self) -> None:
        while self._due and not self._leaving:
            chat_id = self._due.pop()  # before: what is said meanwhile is due again
            try:
                for place, link in tuple(self._notebook.memory.links.items()):
                    if link.chat == chat_id:
                        await self._tell(place, link)
            except Unavailable:
                self._due.add(chat_id)
                raise

    async def _show_work(self) -> bool:
        """Show where the agent is at work; whether it is anywhere."""
        working = False
        now = self._house.clock.monotonic()
        due = now - self._typed >= TYPING_SECONDS
        for place, link in tuple(self._notebook.memory.links.items()):
            with suppress(NotFound, Unavailable):
                if self._house.chats.summary(link.chat).working:
                    working = True
                    if due:
                        self._typed = now
                        await self._voice.typing(place)
        return working

    async def _tell(self, place: int, link: Link) -> None:
        """What the chat said since."""
        try:
            chat = await self._house.chats.get(link.chat)
            async for portion in self._house.chats.messages(chat, link.at):
                for message in portion:
                    if self._leaving:
                        return
                    if message.id > link.told and not await self._told(place, link.chat, message):
                        return
        except NotFound:
            return
        except Unavailable:
            if self._house.chats.summary(link.chat).damage:
                return
            raise

    async def _told(self, place: int, chat_id: int, message: Message) -> bool:
        """Tell one message and note it; False when the conversation has another chat by now."""
        memory = self._notebook.memory
        link = memory.links.get(place)
        if link is None or link.chat != chat_id:
            return False
        said = await self._say(place, chat_id, message)
        link = memory.links.get(place)
        if link is None or link.chat != chat_id:
            return False
        memory.links[place] = structs.replace(link, told=message.id, at=message.at)
        if said:
            await self._notebook.keep()
        return True

    async def _say(self, place: int, chat_id: int, message: Message) -> bool:
        """Say what is to be told of a message, if anything."""
        match message.role:
            case "assistant" if message.text.strip():
                keys = keyboard(message.text, chat_id, self._notebook.memory)
                if keys:
                    await self._notebook.keep()  # a button must work from when it is seen
                await self._voice.say(place, without_buttons(message.text), keys)
                return True
            case "error":
                await self._voice.say(place, f"⚠ {answers.literal(message.text)}")
                return True
            case "tool" if message.tool == "approval":
                return await self._ask(place, chat_id, message.id)
        return False

    async def _ask(self, place: int, chat_id: int, number: int) -> bool:
        """Show a question that is still open."""
        asked = (await self._house.chats.get(chat_id)).agent.asked
        for one in asked:
            if one.id == number:
                await self._voice.say(place, answers.question(one), question_keys(chat_id, number))
                return True
        return False
