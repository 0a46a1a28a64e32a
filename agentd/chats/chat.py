"""The nouns: a prompt that waits, a message that was said, and how each is shown.

Source: the remote-control specification, sections 2 and 3.
"""

import re
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.clock import Timestamp

Role: TypeAlias = Literal["user", "assistant", "tool", "error"]
Status: TypeAlias = Literal["processing", "queued", "completed"]

PROMPT_LIMIT = 256 * 1024
"""The longest prompt, in bytes of UTF-8."""

LARGEST_ID = 2**53 - 1
"""Ids stay exact in every JSON reader."""


class Tokens(Struct, frozen=True, gc=False):
    """What a reply used."""

    input: int = 0
    output: int = 0


NO_TOKENS = Tokens()
FREE = Decimal(0)


class Prompt(Struct, frozen=True, omit_defaults=True, gc=False):
    """A prompt that waits in a chat's queue."""

    id: int
    text: str
    at: Timestamp
    model: str = ""
    """An override for this prompt alone; empty when there is none."""
    paused: bool = False
    message: int = 0
    """Its message, where it is in the history already: a limit ended its first try."""


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of a chat's history."""

    id: int
    role: Role
    text: str
    at: Timestamp
    tool: str = ""
    """For role ``tool``: its name; ``text`` then tells what it was given and what came of it."""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE
    """USD, exact."""


_BUTTON_LINE = re.compile(r"[ \t]*(?:\[\[[^\[\]\n]+\]\][ \t]*)+")


def without_buttons(reply: str) -> str:
    """A reply without the lines of ``[[Label]]`` or ``[[Label|prompt]]`` marks at its end."""
    end = whole = len(reply.rstrip())
    while reply.endswith("]]", 0, end):
        begin = reply.rfind("\n", 0, end) + 1
        if not _BUTTON_LINE.fullmatch(reply, begin, end):
            break
        end = begin
        while end and reply[end - 1].isspace():
            end -= 1
    return reply if end == whole else reply[:end]


def simplified(message: Message) -> str:
    """A message's text as the remote API shows it (section 2, 'Message object')."""
    match message.role:
        case "tool":
            return f"Tool: {message.tool}"
        case "assistant":
            return without_buttons(message.text)
        case _:
            return message.text


def status_of(*, working: bool, waiting: bool) -> Status:
    """The rule of the status endpoint (section 3)."""
    if working:
        return "processing"
    return "queued" if waiting else "completed"
