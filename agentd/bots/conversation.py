"""The rules of a conversation: what a person said comes in, what is to be done comes out. Pure.

Text is a prompt for the conversation's chat, which begins with the first one; ``/new`` begins
another. A press on a button below a reply is the prompt that the button carries.
"""

import re
from typing import TypeAlias

from msgspec import Struct

from agentd.bots.memory import Memory
from agentd.bots.messenger import Attachment, Incoming, Key, Keyboard
from agentd.chats.chat import LARGEST_ID, without_buttons

HELP = """\
Write what you want done; it goes to this conversation's chat.
/new begins another chat, /new TEXT with that text
/stop ends what the agent is doing
/status tells how the chat stands
/queue shows what waits
/model shows the models, /model NAME chooses one
/approve and /deny answer the agent's question, /approve always for all like it
/chat ID takes up a chat that was linked to this bot
/help shows this"""
TOO_OLD = "That button is too old."
LONGEST_LABEL = 60
MOST_BUTTONS = 24
"""Below one message."""

_MARK = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_COMMAND = re.compile(r"/([A-Za-z_]{1,32})(?:@\w+)?(?:\s+(.*))?", re.DOTALL)
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_QUESTION = re.compile(r"a:([1-9][0-9]{0,15}):([1-9][0-9]{0,15}):(allow|always|deny)")


class Say(Struct, frozen=True):
    """Say this."""

    text: str


class Begin(Struct, frozen=True):
    """Begin a chat with this prompt; it is the conversation's from now on."""

    prompt: str


class Leave(Struct, frozen=True):
    """The conversation has no chat any more: its next prompt begins one."""


class Ask(Struct, frozen=True):
    """A prompt at the end of a chat's queue."""

    chat: int
    prompt: str


class Stop(Struct, frozen=True):
    """End the running turn of a chat."""

    chat: int


class ShowStatus(Struct, frozen=True):
    """Tell how a chat stands."""

    chat: int


class ShowQueue(Struct, frozen=True):
    """Tell what waits in a chat."""

    chat: int


class ShowModels(Struct, frozen=True):
    """Tell which models there are, and which a chat has; 0: the conversation has none."""

    chat: int


class Choose(Struct, frozen=True):
    """Another model for a chat."""

    chat: int
    model: str


class Decide(Struct, frozen=True):
    """Answer a question of a chat; number 0: the only one that is open."""

    chat: int
    number: int
    allowed: bool
    session: bool = False


class TakeUp(Struct, frozen=True):
    """A chat that is linked to the bot is the conversation's from now on."""

    chat: int


class Listen(Struct, frozen=True):
    """What was spoken is the prompt."""

    voice: Attachment


class Look(Struct, frozen=True):
    """A picture, to be put where the agent can see it; the prompt tells of it."""

    photo: Attachment
    prompt: str


Instruction: TypeAlias = (
    Say
    | Begin
    | Leave
    | Ask
    | Stop
    | ShowStatus
    | ShowQueue
    | ShowModels
    | Choose
    | Decide
    | TakeUp
    | Listen
    | Look
)


def instruction(said: Incoming, memory: Memory) -> Instruction:
    """What is to be done about an update of somebody whom the bot obeys."""
    link = memory.links.get(said.chat)
    chat = link.chat if link else 0
    if said.press:
        return _pressed(said.data, memory)
    if said.attachment and said.attachment.kind == "voice":
        return Listen(said.attachment)
    if said.attachment:
        return Look(said.attachment, said.text)
    command = _COMMAND.fullmatch(said.text.strip())
    if command:
        return _command(command[1].lower(), (command[2] or "").strip(), chat)
    return prompted(said.text, chat)


def prompted(text: str, chat: int) -> Instruction:
    """What a text is, when it is no command; ``chat`` is the conversation's, 0 without one."""
    if not text.strip():
        return Say("Only text, voice messages and photos are understood here.")
    return Ask(chat, text) if chat else Begin(text)


def _command(name: str, rest: str, chat: int) -> Instruction:
    match name:
        case "help" | "start":
            return Say(HELP)
        case "new":
            return Begin(rest) if rest else Leave()
        case "model":
            return Choose(chat, rest) if rest and chat else ShowModels(chat)
        case "chat":
            return TakeUp(int(rest)) if _NUMBER.fullmatch(rest) else Say("Which one? /chat ID")
        case "stop" | "status" | "queue" | "approve" | "deny":
            return _about(name, rest, chat) if chat else Say("There is no chat yet: write to me.")
    return Say(f"/{name} is not known here.\n{HELP}")


def _about(name: str, rest: str, chat: int) -> Instruction:
    """A command about the chat that the conversation has."""
    match name:
        case "stop":
            return Stop(chat)
        case "status":
            return ShowStatus(chat)
        case "queue":
            return ShowQueue(chat)
    session = rest == "always"
    if rest and not session and not _is_id(rest):
        return Say(f"/{name} takes a question's number, or nothing when only one is open.")
    number = int(rest) if rest and not session else 0
    return Decide(chat, number, allowed=name == "approve", session=session and name == "approve")


def _is_id(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and int(text) <= LARGEST_ID


def _pressed(data: str, memory: Memory) -> Instruction:
    if asked := _QUESTION.fullmatch(data):
        chat, number, answer = int(asked[1]), int(asked[2]), asked[3]
        if any(link.chat == chat for link in memory.links.values()):
            return Decide(chat, number, allowed=answer != "deny", session=answer == "always")
        return Say(TOO_OLD)
    kind, _, digits = data.partition(":")
    button = memory.buttons.get(int(digits)) if kind == "b" and _NUMBER.fullmatch(digits) else None
    return Ask(button.chat, button.prompt) if button else Say(TOO_OLD)


def marks(reply: str) -> list[list[tuple[str, str]]]:
    """The buttons of a reply, row by row: label and prompt."""
    tail = reply[len(without_buttons(reply)) :]
    rows = []
    left = MOST_BUTTONS
    for line in tail.split("\n"):
        row = [_mark(found) for found in _MARK.findall(line)][:left]
        left -= len(row)
        if row:
            rows.append(row)
    return rows


def _mark(inside: str) -> tuple[str, str]:
    label, bar, prompt = inside.partition("|")
    label = label.strip() or prompt.strip() or "…"
    return label[:LONGEST_LABEL], prompt.strip() if bar and prompt.strip() else label


def keyboard(reply: str, chat: int, memory: Memory) -> Keyboard:
    """The buttons of a reply of a chat; what each says is remembered."""
    return tuple(
        tuple(Key(label, f"b:{memory.button(chat, prompt)}") for label, prompt in row)
        for row in marks(reply)
    )


def question_keys(chat: int, number: int) -> Keyboard:
    """The buttons that answer a question."""
    begin = f"a:{chat}:{number}:"
    return (
        (Key("Allow", f"{begin}allow"), Key("Deny", f"{begin}deny")),
        (Key("Allow all like it", f"{begin}always"),),
    )
