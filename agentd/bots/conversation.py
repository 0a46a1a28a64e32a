"""Parses what people write to a bot into instructions. Pure.

Text is a prompt for the conversation's chat; the first one creates it, ``/new`` creates another.
A pressed button below a reply sends the prompt of that button.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from agentd.bots.messenger import Attachment, IncomingUpdate, Keyboard, KeyboardButton
from agentd.bots.replies import to_line
from agentd.bots.state import BotState
from agentd.chats.approval import Approval
from agentd.chats.model import strip_buttons
from agentd.core.ids import MAX_ID

HELP = """\
Write what you want done; it goes to this conversation's chat.
/new begins another chat, /new TEXT with that text
/stop ends what the agent is doing
/status shows the state of the chat
/queue shows what waits
/model shows the models, /model NAME chooses one
/mode shows the modes of the program, such as plan, /mode NAME chooses one, /mode off the usual one
/approve and /deny answer the agent's question, with always for the same one later in this chat, too
/answer TEXT says in words what the agent asks you
/chat ID continues a chat that is linked to this bot
/help shows this"""
USUAL_MODE = "off"
"""The argument of ``/mode`` for the usual mode of the chat's program."""
NO_CHAT = "There is no chat yet: send a message to create one."
TOO_OLD = "That button is too old."
WANTS_WORDS = "The agent asks for words: /answer TEXT"
LONGEST_LABEL = 60
MOST_BUTTONS = 24
"""Below one message."""

_MARK = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_COMMAND = re.compile(r"/([A-Za-z_]{1,32})(?P<bot>@\w+)?(?:\s+(?P<rest>.*))?", re.DOTALL)
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_QUESTION = re.compile(
    r"a:([1-9][0-9]{0,15}):([1-9][0-9]{0,15}):(allow|always|deny|never|[0-9]{1,2})"
)


class SendText(Struct, frozen=True):
    """Send this text."""

    text: str


class BeginChat(Struct, frozen=True):
    """Create a chat with this prompt for the conversation."""

    prompt: str


class LeaveChat(Struct, frozen=True):
    """Detach the conversation from its chat; the next prompt creates one."""


class SendPrompt(Struct, frozen=True):
    """Append a prompt to a chat's queue."""

    chat: int
    prompt: str


class StopChatTurn(Struct, frozen=True):
    """End the running turn of a chat."""

    chat: int


class ShowStatus(Struct, frozen=True):
    """Show the state of a chat."""

    chat: int


class ShowQueue(Struct, frozen=True):
    """Show the queue of a chat."""

    chat: int


class ShowModels(Struct, frozen=True):
    """Show the models, and which one a chat has; 0: the conversation has no chat."""

    chat: int


class ChooseModel(Struct, frozen=True):
    """Change the model of a chat."""

    chat: int
    model: str


class ShowModes(Struct, frozen=True):
    """Show the modes of a chat's program, and which one the chat has."""

    chat: int


class ChooseMode(Struct, frozen=True):
    """Change the mode of a chat; empty: its program's usual one."""

    chat: int
    mode: str


class AnswerApproval(Struct, frozen=True):
    """Allow or deny what a question of a chat is about; number 0: the only one that is open."""

    chat: int
    number: int
    allowed: bool
    session: bool = False


class AnswerInWords(Struct, frozen=True):
    """Answer what the agent of a chat asks the person.

    The text may begin with the question's number, which it must where several are open.
    """

    chat: int
    text: str


class ChooseAnswer(Struct, frozen=True):
    """Answer a question of a chat with one of the answers that it offers, counted from 0."""

    chat: int
    number: int
    choice: int


class AdoptChat(Struct, frozen=True):
    """Continue a chat that is linked to the bot in this conversation."""

    chat: int


class TranscribeVoice(Struct, frozen=True):
    """Use the transcript of a recording as the prompt."""

    voice: Attachment


class AttachImage(Struct, frozen=True):
    """Store a picture where the agent can read it, and name it in the prompt."""

    photo: Attachment
    prompt: str


Instruction: TypeAlias = (
    SendText
    | BeginChat
    | LeaveChat
    | SendPrompt
    | StopChatTurn
    | ShowStatus
    | ShowQueue
    | ShowModels
    | ChooseModel
    | ShowModes
    | ChooseMode
    | AnswerApproval
    | AnswerInWords
    | ChooseAnswer
    | AdoptChat
    | TranscribeVoice
    | AttachImage
)


def parse_update(update: IncomingUpdate, state: BotState) -> Instruction:
    """Return the instruction that follows from an allowed user's update."""
    link = state.links.get(update.chat)
    chat = link.chat if link else 0
    if update.press:
        return _parse_press(update.data, state)
    if update.attachment and update.attachment.kind == "voice":
        return TranscribeVoice(update.attachment)
    if update.attachment:
        return AttachImage(update.attachment, update.text)
    command = _COMMAND.fullmatch(update.text.strip())
    if command:
        return _parse_command(command[1].lower(), (command["rest"] or "").strip(), chat)
    return parse_prompt(update.text, chat)


def is_for_another_bot(update: IncomingUpdate, name: str) -> bool:
    """Return whether a command in a group is another bot's, as ``/stop@other_bot``.

    ``name`` is this bot's own, such as ``@the_bot``.
    """
    command = _COMMAND.fullmatch(update.text.strip())
    called = command["bot"] if command and update.chat != update.user else None
    return called is not None and called.lower() != name.lower()


def parse_prompt(text: str, chat: int) -> Instruction:
    """Return the instruction for a text; ``chat`` is the conversation's chat, 0 without one."""
    if not text.strip():
        return SendText("Only text, voice messages and photos are understood here.")
    return SendPrompt(chat, text) if chat else BeginChat(text)


def _parse_command(name: str, rest: str, chat: int) -> Instruction:
    match name:
        case "help" | "start":
            return SendText(HELP)
        case "new":
            return BeginChat(rest) if rest else LeaveChat()
        case "model":
            return _parse_model_command(rest, chat)
        case "chat":
            return (
                AdoptChat(int(rest))
                if _NUMBER.fullmatch(rest)
                else SendText("Which chat? /chat ID")
            )
        case "stop" | "status" | "queue" | "mode" | "approve" | "deny" | "answer":
            return _parse_chat_command(name, rest, chat) if chat else SendText(NO_CHAT)
    return SendText(f"/{name} is not a command of this bot.\n{HELP}")


def _parse_model_command(name: str, chat: int) -> Instruction:
    if not name:
        return ShowModels(chat)
    return ChooseModel(chat, name) if chat else SendText(NO_CHAT)


def _parse_chat_command(name: str, rest: str, chat: int) -> Instruction:
    """Parse a command about the conversation's chat."""
    match name:
        case "stop":
            return StopChatTurn(chat)
        case "status":
            return ShowStatus(chat)
        case "queue":
            return ShowQueue(chat)
        case "mode":
            usual = rest.lower() == USUAL_MODE
            return ChooseMode(chat, "" if usual else rest) if rest else ShowModes(chat)
        case "answer":
            return AnswerInWords(chat, rest) if rest else SendText(WANTS_WORDS)
    return _parse_decision(name, rest, chat)


def _parse_decision(name: str, rest: str, chat: int) -> Instruction:
    """Parse ``/approve`` or ``/deny``."""
    session = rest == "always"
    if rest and not session and not _is_id(rest):
        return SendText(f"/{name} takes a question's number, or nothing when only one is open.")
    number = int(rest) if rest and not session else 0
    return AnswerApproval(chat, number, allowed=name == "approve", session=session)


def _is_id(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and int(text) <= MAX_ID


def _parse_press(data: str, state: BotState) -> Instruction:
    if question := _QUESTION.fullmatch(data):
        chat, number, answer = int(question[1]), int(question[2]), question[3]
        if all(link.chat != chat for link in state.links.values()):
            return SendText(TOO_OLD)
        if answer.isdecimal():
            return ChooseAnswer(chat, number, int(answer))
        allowed, session = answer in ("allow", "always"), answer in ("always", "never")
        return AnswerApproval(chat, number, allowed=allowed, session=session)
    kind, _, digits = data.partition(":")
    button = state.buttons.get(int(digits)) if kind == "b" and _NUMBER.fullmatch(digits) else None
    return SendPrompt(button.chat, button.prompt) if button else SendText(TOO_OLD)


def find_question(asked: Sequence[Approval], number: int) -> Approval | None:
    """Return the open question with a number; with 0, the only one."""
    if not number:
        return asked[0] if len(asked) == 1 else None
    return next((one for one in asked if one.id == number), None)


def find_answered(asked: Sequence[Approval], text: str) -> tuple[Approval | None, str]:
    """Return the question of the agent that a text answers, and the answer in it."""
    wanting = [one for one in asked if one.kind == "question"]
    begin, _, words = text.partition(" ")
    for one in wanting:
        if begin == str(one.id) and words.strip():
            return one, words.strip()
    return find_question(wanting, 0), text


def parse_buttons(reply: str) -> list[list[tuple[str, str]]]:
    """Return the buttons of a reply, row by row: label and prompt."""
    tail = reply[len(strip_buttons(reply)) :]
    rows = []
    left = MOST_BUTTONS
    for line in tail.split("\n"):
        row = [_parse_button(found) for found in _MARK.findall(line)][:left]
        left -= len(row)
        if row:
            rows.append(row)
    return rows


def _parse_button(inside: str) -> tuple[str, str]:
    label, bar, prompt = inside.partition("|")
    label = label.strip() or prompt.strip() or "…"
    return label[:LONGEST_LABEL], prompt.strip() if bar and prompt.strip() else label


def build_keyboard(reply: str, chat: int, state: BotState) -> Keyboard:
    """Build the buttons of a reply, and remember the prompt of each."""
    return tuple(
        tuple(KeyboardButton(label, f"b:{state.add_button(chat, prompt)}") for label, prompt in row)
        for row in parse_buttons(reply)
    )


def build_approval_keyboard(chat: int, asked: Approval) -> Keyboard:
    """Build the buttons that answer an approval; a question of the agent wants words."""
    begin = f"a:{chat}:{asked.id}:"
    if asked.kind == "question":
        offered = (
            (KeyboardButton(to_line(choice, LONGEST_LABEL) or "…", f"{begin}{place}"),)
            for place, choice in enumerate(asked.choices[:MOST_BUTTONS])
        )
        return (*offered, (KeyboardButton("No answer", f"{begin}deny"),))
    decide = (KeyboardButton("Allow", f"{begin}allow"), KeyboardButton("Deny", f"{begin}deny"))
    for_chat = (
        KeyboardButton("Allow in this chat", f"{begin}always"),
        KeyboardButton("Deny in this chat", f"{begin}never"),
    )
    return (decide,) if asked.kind == "budget" else (decide, for_chat)
