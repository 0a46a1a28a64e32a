"""Handles what people write to a bot: each update once, also across crashes.

An update's number is the idempotency key of its prompt. So a daemon that was killed before it
saved that the update is handled sends the same prompt again, and gets the first one.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from agentd.bots import replies
from agentd.bots.conversation import (
    WANTS_WORDS,
    AdoptChat,
    AnswerApproval,
    AnswerInWords,
    AttachImage,
    BeginChat,
    ChooseAnswer,
    ChooseMode,
    ChooseModel,
    Instruction,
    LeaveChat,
    SendPrompt,
    SendText,
    ShowModels,
    ShowModes,
    ShowQueue,
    ShowStatus,
    StopChatTurn,
    TranscribeVoice,
    find_answered,
    find_question,
    is_for_another_bot,
    parse_prompt,
    parse_update,
)
from agentd.bots.messenger import Attachment, IncomingUpdate, Messenger
from agentd.bots.model import BotSettings
from agentd.bots.runtime import iter_delays
from agentd.bots.services import BotServices
from agentd.bots.state import BotState, ChatLink
from agentd.chats.approval import LONGEST_NOTE, Approval
from agentd.chats.records import ChatChanged
from agentd.chats.service import NewChat
from agentd.core.errors import AgentdError, NotFound, TooLarge, Unauthorized, Unavailable
from agentd.core.idempotency import IdempotencyKey
from agentd.core.ids import MAX_ID

LARGEST_FILE = 20 * 1024 * 1024
"""Bytes; the messenger delivers no larger file."""
FETCHES = 3
"""Attempts to fetch a file: everything else that is written to the bot waits meanwhile."""
NO_SPEECH = "Voice messages need speech recognition, which is not configured. Please write."
NO_UPLOADS = "Pictures cannot be uploaded here."


class Reply(NamedTuple):
    """The reply to send once the update is saved as handled; ``note`` answers a pressed button."""

    text: str = ""
    note: str = ""


NOT_OPEN = Reply("That question is not open any more.", "It is not open any more.")


class UpdateHandler:
    """Handles the updates of one bot."""

    def __init__(
        self,
        settings: BotSettings,
        services: BotServices,
        state: BotState,
        messenger: Messenger,
        name: str,
    ) -> None:
        self._settings = settings
        self._name = name
        self._services = services
        self._state = state
        self._messenger = messenger
        self._by = f"bot:{settings.id}"

    async def handle(self, update: IncomingUpdate) -> Reply:
        """Handle an update; its effects are durable on return.

        Raises ``Unavailable`` when the disk fails (the caller retries), and ``Unauthorized`` when
        the token is refused. Every other error becomes the reply.
        """
        if is_for_another_bot(update, self._name):
            return Reply()
        try:
            return await self._execute(parse_update(update, self._state), update)
        except (Unavailable, Unauthorized):
            raise
        except AgentdError as error:
            return Reply(replies.escape_markdown(error.message), error.message)

    def answers_open_question(self, update: IncomingUpdate) -> bool:
        """Return whether an update answers whichever question is open, without naming one."""
        match parse_update(update, self._state):
            case AnswerApproval(number=0) | AnswerInWords():
                return not is_for_another_bot(update, self._name)
        return False

    async def _execute(self, instruction: Instruction, update: IncomingUpdate) -> Reply:
        """Execute an instruction; what a damaged chat refuses is not tried for ever."""
        try:
            return await self._execute_once(instruction, update)
        except Unavailable as error:
            if not self._services.is_damaged(getattr(instruction, "chat", 0)):
                raise
            text = f"{error.message}. Try /new"
            return Reply(replies.escape_markdown(text), text)

    async def _execute_once(self, instruction: Instruction, update: IncomingUpdate) -> Reply:
        match instruction:
            case BeginChat(prompt):
                reply = await self._begin_chat(prompt, update)
            case SendPrompt(chat, prompt):
                reply = await self._send_prompt(chat, prompt, update)
            case TranscribeVoice(voice):
                reply = await self._transcribe_voice(voice, update)
            case AttachImage(photo, prompt):
                reply = await self._attach_image(photo, prompt, update)
            case LeaveChat():
                self._state.links.pop(update.chat, None)
                reply = Reply("The next message begins a new chat.")
            case AdoptChat(chat):
                reply = await self._adopt_chat(chat, update)
            case _:
                reply = await self._run_command(instruction)
        return reply

    async def _run_command(self, instruction: Instruction) -> Reply:
        """Handle commands that start no prompt."""
        chats = self._services.chats
        reply = Reply()
        match instruction:
            case SendText(text):
                reply = Reply(replies.escape_markdown(text), text)
            case AnswerApproval() | AnswerInWords() | ChooseAnswer():
                reply = await self._answer(instruction)
            case StopChatTurn(chat):
                stopped = await self._services.turns.stop_turn(chat, self._by)
                reply = Reply("Stopped." if stopped else "Nothing is running.")
            case ShowStatus(chat):
                reply = Reply(replies.render_status(await chats.get(chat)))
            case ShowQueue(chat):
                reply = Reply(replies.render_queue(await chats.get(chat)))
            case ChooseModel(chat, model):
                await self._choose_model(chat, model)
                reply = Reply(f"Model: {replies.escape_markdown(model)}")
            case ShowModels(chat):
                chosen = (await chats.get(chat)).model if chat else self._settings.model
                reply = Reply(replies.render_models(self._services.models(), chosen))
            case ChooseMode() | ShowModes():
                reply = await self._run_mode_command(instruction)
        return reply

    async def _begin_chat(self, prompt: str, update: IncomingUpdate) -> Reply:
        new = NewChat(
            prompt=prompt,
            title=replies.make_title(prompt),
            model=self._settings.model,
            skill=self._settings.skill,
            bot_id=self._settings.id,
            bot_linked=True,
            once=self._make_key(update),
        )
        chat = await self._services.chats.create(new, self._by)
        self._state.links[update.chat] = ChatLink(chat.id)
        return Reply(note="Sent")

    async def _send_prompt(self, chat_id: int, prompt: str, update: IncomingUpdate) -> Reply:
        """Append a prompt to a chat, or start a new chat when it was deleted."""
        chats = self._services.chats
        try:
            if chats.get_summary(chat_id).damage:
                return Reply(f"Chat {chat_id} is damaged and can only be read. Try /new")
            await chats.append_prompt(chat_id, prompt, "", self._by, self._make_key(update))
        except NotFound:
            if update.press:
                raise
            return await self._begin_chat(prompt, update)
        if any(one.kind == "question" for one in (await chats.get(chat_id)).agent.asked):
            return Reply(f"Queued. {WANTS_WORDS}", "Queued")
        if held := chats.get_summary(chat_id).held:  # what a stop held, the prompt has released
            return Reply(f"Queued; the queue is held: {replies.escape_markdown(held)}", "Queued")
        return Reply(note="Sent")

    async def _adopt_chat(self, chat_id: int, update: IncomingUpdate) -> Reply:
        """Continue a chat that is linked to this bot; its earlier messages are not sent again."""
        missing = NotFound(f"Chat {chat_id} is not linked to this bot")
        if chat_id > MAX_ID:
            raise missing
        try:
            chat = await self._services.chats.get(chat_id)
        except NotFound:
            raise missing from None
        if chat.bot_id != self._settings.id or not chat.bot_linked:
            raise missing
        self._state.links[update.chat] = ChatLink(chat_id, chat.highest_message, chat.updated_at)
        return Reply(replies.render_status(chat))

    async def _choose_model(self, chat_id: int, model: str) -> None:
        names = self._services.models()
        if model not in names:
            raise NotFound(f"No model is named {model[:100]}; /model shows them")
        await self._services.chats.change_chat(chat_id, ChatChanged(model=model), self._by)

    async def _run_mode_command(self, instruction: ChooseMode | ShowModes) -> Reply:
        """Show the modes of a chat's program, or choose one, in upper or lower case."""
        chat = await self._services.chats.get(instruction.chat)
        modes = self._services.modes(chat.model)
        if isinstance(instruction, ShowModes):
            return Reply(replies.render_modes(modes, chat.mode))
        wanted = instruction.mode
        found = {one.id.lower(): one.id for one in modes}.get(wanted.lower(), "")
        if wanted and not found:
            raise NotFound(f"The chat's program has no mode {wanted[:100]}; /mode shows them")
        await self._services.chats.change_chat(chat.id, ChatChanged(mode=found), self._by)
        return Reply(f"Mode: {replies.escape_markdown(found) or 'the usual one'}")

    async def _answer(self, what: AnswerApproval | AnswerInWords | ChooseAnswer) -> Reply:
        """Answer an open question; what the agent asks the person is answered with words alone."""
        asked = (await self._services.chats.get(what.chat)).agent.asked
        allowed, session, note = True, False, ""
        match what:
            case AnswerApproval(number=number, allowed=allowed, session=session):
                found = find_question(asked, number)
            case AnswerInWords(text=text):
                found, note = find_answered(asked, text)
            case ChooseAnswer(number=number, choice=choice):
                found = find_question(asked, number)
                note = "".join(found.choices[choice : choice + 1]) if found else ""
        if found is None:
            return self._ask_which(what, asked)
        if allowed and found.kind == "question" and not note:
            return Reply(WANTS_WORDS, WANTS_WORDS)
        if len(note) > LONGEST_NOTE:
            raise TooLarge(f"An answer has {LONGEST_NOTE:,} characters at most")
        try:
            await self._services.approvals.answer(
                what.chat, found.id, allowed=allowed, session=session, note=note, by=self._by
            )
        except NotFound:
            return NOT_OPEN
        verdict = replies.render_verdict(found.kind, allowed=allowed)
        return Reply(verdict, verdict)

    def _ask_which(
        self, what: AnswerApproval | AnswerInWords | ChooseAnswer, asked: Sequence[Approval]
    ) -> Reply:
        """Return the reply where no question, or not only one, may be meant."""
        if isinstance(what, AnswerInWords):
            asked = [one for one in asked if one.kind == "question"]
        elif what.number:
            return NOT_OPEN
        numbers = [str(one.id) for one in asked]
        return Reply(f"Which one? {', '.join(numbers)}" if numbers else "No question is open.")

    async def _transcribe_voice(self, voice: Attachment, update: IncomingUpdate) -> Reply:
        if self._services.transcriber is None:
            return Reply(NO_SPEECH)
        audio = await self._fetch(voice)
        try:
            text = await self._services.transcriber.transcribe(audio, voice.name)
        except Unavailable as error:
            return Reply(replies.escape_markdown(error.message))
        link = self._state.links.get(update.chat)
        echo = f"You said: {replies.escape_markdown(replies.to_line(text, 1000))}"
        reply = await self._execute(parse_prompt(text, link.chat if link else 0), update)
        return Reply(f"{echo}\n{reply.text}" if text.strip() else reply.text)

    async def _attach_image(self, photo: Attachment, caption: str, update: IncomingUpdate) -> Reply:
        if self._services.uploads is None:
            return Reply(NO_UPLOADS)
        content = await self._fetch(photo)
        try:
            path = await self._services.uploads.keep(content, photo.name)
        except Unavailable as error:
            return Reply(replies.escape_markdown(error.message))
        link = self._state.links.get(update.chat)
        prompt = f"{caption.strip() or 'Look at this picture.'}\n\nThe picture: {path}"
        return await self._execute(parse_prompt(prompt, link.chat if link else 0), update)

    async def _fetch(self, attachment: Attachment) -> bytes:
        if attachment.size > LARGEST_FILE:
            raise TooLarge(f"A file may have {LARGEST_FILE // 1024 // 1024} MB at most")
        for seconds in (0.0, *islice(iter_delays(), FETCHES - 1)):
            await asyncio.sleep(seconds)
            with suppress(Unavailable):
                return await self._messenger.fetch(attachment)
        raise NotFound("The file could not be fetched; send it again")

    def _make_key(self, update: IncomingUpdate) -> IdempotencyKey:
        return IdempotencyKey(f"{self._by} {self._state.account} update {update.id}", "update")
