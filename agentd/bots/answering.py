"""What a person said in a messenger, carried out: each update once, whatever dies when.

An update's number is the once-key of the prompt that it becomes. So a daemon that was killed
before it could note that the update is handled makes the same prompt again, which is the first.
"""

from typing import NamedTuple

from agentd.bots import answers
from agentd.bots.conversation import (
    Ask,
    Begin,
    Choose,
    Decide,
    Instruction,
    Leave,
    Listen,
    Look,
    Say,
    ShowModels,
    ShowQueue,
    ShowStatus,
    Stop,
    TakeUp,
    instruction,
    prompted,
)
from agentd.bots.house import House
from agentd.bots.memory import Link, Memory
from agentd.bots.messenger import Attachment, Incoming, Messenger
from agentd.catalog.bots import BotSettings
from agentd.chats.chat import LARGEST_ID
from agentd.chats.records import ChatChanged, Once
from agentd.chats.service import NewChat
from agentd.errors import AgentdError, NotFound, TooLarge, Unauthorized, Unavailable

LARGEST_FILE = 20 * 1024 * 1024
"""Bytes; the messenger hands out no larger one."""
NO_SPEECH = "Voice messages need speech recognition, which is not configured here. Please write."
NO_UPLOADS = "Pictures cannot be taken in here."


class Reply(NamedTuple):
    """What to say when the update is noted as handled; ``note`` is for a pressed button."""

    text: str = ""
    note: str = ""


class Answering:
    """Carries out what is said to one bot."""

    def __init__(
        self, settings: BotSettings, house: House, memory: Memory, messenger: Messenger
    ) -> None:
        self._settings = settings
        self._house = house
        self._memory = memory
        self._messenger = messenger
        self._by = f"bot:{settings.id}"

    async def carry_out(self, said: Incoming) -> Reply:
        """Do what was said; when it returns, that is durable.

        ``Unavailable`` when the disk does not take it, to be tried again, and ``Unauthorized``
        when a file could not be fetched for that. All else that goes wrong is told.
        """
        try:
            return await self._do(instruction(said, self._memory), said)
        except (Unavailable, Unauthorized):
            raise
        except AgentdError as error:
            return Reply(answers.literal(error.message), error.message)

    async def _do(self, what: Instruction, said: Incoming) -> Reply:
        match what:
            case Begin(prompt):
                reply = await self._begin(prompt, said)
            case Ask(chat, prompt):
                reply = await self._ask(chat, prompt, said)
            case Listen(voice):
                reply = await self._listen(voice, said)
            case Look(photo, prompt):
                reply = await self._look(photo, prompt, said)
            case Leave():
                self._memory.links.pop(said.chat, None)
                reply = Reply("The next message begins a new chat.")
            case TakeUp(chat):
                reply = await self._take_up(chat, said)
            case _:
                reply = await self._about(what)
        return reply

    async def _about(self, what: Instruction) -> Reply:
        """What begins no prompt."""
        chats = self._house.chats
        reply = Reply()
        match what:
            case Say(text):
                reply = Reply(answers.literal(text), text)
            case Decide():
                reply = await self._decide(what)
            case Stop(chat):
                stopped = await self._house.turns.stop_turn(chat, self._by)
                reply = Reply("Stopped." if stopped else "Nothing is at work.")
            case ShowStatus(chat):
                reply = Reply(answers.status(await chats.get(chat)))
            case ShowQueue(chat):
                reply = Reply(answers.queue(await chats.get(chat)))
            case Choose(chat, model):
                await self._choose(chat, model)
                reply = Reply(f"Model: {answers.literal(model)}")
            case ShowModels(chat):
                chosen = (await chats.get(chat)).model if chat else self._settings.model
                reply = Reply(answers.models(self._house.models(), chosen))
        return reply

    async def _begin(self, prompt: str, said: Incoming) -> Reply:
        new = NewChat(
            prompt=prompt,
            title=answers.title(prompt),
            model=self._settings.model,
            skill=self._settings.skill,
            bot_id=self._settings.id,
            bot_linked=True,
            once=self._once(said),
        )
        chat = await self._house.chats.create(new, self._by)
        self._memory.links[said.chat] = Link(chat.id)
        return Reply(note="Sent")

    async def _ask(self, chat_id: int, prompt: str, said: Incoming) -> Reply:
        """A prompt for a chat; for another, new one when it is deleted."""
        chats = self._house.chats
        try:
            seen = chats.summary(chat_id)
            if seen.damage:
                return Reply(f"Chat {chat_id} is damaged and can only be read. Try /new")
            await chats.append(chat_id, prompt, "", self._by, self._once(said))
        except NotFound:
            if said.press:
                raise
            return await self._begin(prompt, said)
        if seen.held and seen.outcome != "stopped":
            return Reply(f"It waits; the queue is held: {answers.literal(seen.held)}", "It waits")
        return Reply(note="Sent")

    async def _take_up(self, chat_id: int, said: Incoming) -> Reply:
        """Only what was linked to this bot; what was said there so far is not told again."""
        missing = NotFound(f"Chat {chat_id} is not linked to this bot")
        if chat_id > LARGEST_ID:
            raise missing
        try:
            chat = await self._house.chats.get(chat_id)
        except NotFound:
            raise missing from None
        if chat.bot_id != self._settings.id or not chat.bot_linked:
            raise missing
        self._memory.links[said.chat] = Link(chat_id, chat.highest_message, chat.updated_at)
        return Reply(answers.status(chat))

    async def _choose(self, chat_id: int, model: str) -> None:
        names = self._house.models()
        if model not in names:
            raise NotFound(f"No model is named {model[:100]}; /model shows them")
        await self._house.chats.change(chat_id, ChatChanged(model=model), self._by)

    async def _decide(self, what: Decide) -> Reply:
        number = what.number
        if not number:
            asked = (await self._house.chats.get(what.chat)).agent.asked
            if len(asked) != 1:
                open_ = ", ".join(str(one.id) for one in asked)
                return Reply(f"Which one? {open_}" if asked else "No question is open.")
            number = asked[0].id
        try:
            await self._house.approvals.answer(
                what.chat, number, allowed=what.allowed, session=what.session, note="", by=self._by
            )
        except NotFound:
            return Reply("That question is not open any more.", "It is not open any more.")
        told = "Allowed." if what.allowed else "Denied."
        return Reply(told, told)

    async def _listen(self, voice: Attachment, said: Incoming) -> Reply:
        if self._house.transcriber is None:
            return Reply(NO_SPEECH)
        audio = await self._fetched(voice)
        try:
            text = await self._house.transcriber.transcribe(audio, voice.name)
        except Unavailable as error:
            return Reply(answers.literal(error.message))
        link = self._memory.links.get(said.chat)
        heard = f"You said: {answers.literal(answers.line_of(text, 1000))}"
        reply = await self._do(prompted(text, link.chat if link else 0), said)
        return Reply(f"{heard}\n{reply.text}" if text.strip() else reply.text)

    async def _look(self, photo: Attachment, caption: str, said: Incoming) -> Reply:
        if self._house.uploads is None:
            return Reply(NO_UPLOADS)
        content = await self._fetched(photo)
        try:
            path = await self._house.uploads.keep(content, photo.name)
        except Unavailable as error:
            return Reply(answers.literal(error.message))
        link = self._memory.links.get(said.chat)
        prompt = f"{caption.strip() or 'Look at this picture.'}\n\nThe picture: {path}"
        return await self._do(prompted(prompt, link.chat if link else 0), said)

    async def _fetched(self, attachment: Attachment) -> bytes:
        if attachment.size > LARGEST_FILE:
            raise TooLarge(f"A file may have {LARGEST_FILE // 1024 // 1024} MB at most")
        return await self._messenger.fetch(attachment)

    def _once(self, said: Incoming) -> Once:
        return Once(f"{self._by} {self._memory.account} update {said.update}", "update")
