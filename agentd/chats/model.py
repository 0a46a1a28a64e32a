"""The nouns: a prompt that waits, a message that was said, and how each is shown.

Source: the remote-control specification, sections 2 and 3.
"""

import re
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.chats.approval import ApprovalDecision
from agentd.core.clock import Timestamp

Role: TypeAlias = Literal["user", "assistant", "tool", "error"]
Status: TypeAlias = Literal["processing", "queued", "completed"]

MAX_PROMPT_BYTES = 256 * 1024
"""The longest prompt, in bytes of UTF-8."""
AUTOFIX = "autofix"
"""The author of the prompts that the daemon itself sends, when a build fails."""


class Tokens(Struct, frozen=True, gc=False):
    """The token usage of a reply."""

    input: int = 0
    output: int = 0


NO_TOKENS = Tokens()
ZERO_COST = Decimal(0)


Delivery: TypeAlias = Literal["yes", "perhaps", "no"]
"""How certain it is that an engine got a prompt whose turn was ended to be tried again."""


class Prompt(Struct, frozen=True, omit_defaults=True, gc=False):
    """A prompt that waits in a chat's queue."""

    id: int
    text: str
    at: Timestamp
    model: str = ""
    """An override for this prompt alone; empty if there is none."""
    paused: bool = False
    not_before: Timestamp = ""
    """It is not sent before this time; empty: it has none."""
    message: int = 0
    """Its message, where it is in the history already: a limit ended its first try, or agentd."""
    delivered: Delivery = "yes"
    """For one with a message: a limit (``yes``) or agentd (``perhaps``, ``no``) ended its try."""
    budget: Decimal | None = None
    """USD after which its turn is ended; None: as much as the chat may cost."""
    output_schema: str = ""
    """The JSON Schema that its reply has to fit; empty: any text will do."""


class ToolReport(Struct, frozen=True, omit_defaults=True):
    """The details of a tool's use beside the text of its message."""

    input_length: int
    """Characters of the text that are its input; the rest, after a blank line, is the outcome."""
    ok: bool = True
    seconds: float = 0.0
    """The duration; 0: unknown."""
    diff: str = ""
    """The change in files, as a unified diff; empty: none, or unknown."""
    number: int = 0
    """The number within its turn of a use that started a sub-agent; 0 for others."""
    parent: int = 0
    """The number of the use that started the sub-agent whose tool this is; 0: the turn's own."""


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """An entry of a chat's history."""

    id: int
    role: Role
    text: str
    at: Timestamp
    tool: str = ""
    """The tool's name for role ``tool``; ``text`` then has its input and its outcome."""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    """USD, exact."""
    report: ToolReport | None = None
    """The report of a tool's use; None for other messages, and those of earlier versions."""
    decision: ApprovalDecision | None = None
    """What was decided about an action, for the tool ``decision``."""
    structured: bool = False
    """True if the text is JSON that fits the output schema of its prompt."""


_BUTTON_LINE = re.compile(r"[ \t]*(?:\[\[[^\[\]\n]+\]\][ \t]*)+")


def strip_buttons(reply: str) -> str:
    """Strip the lines of ``[[Label]]`` or ``[[Label|prompt]]`` marks at a reply's end."""
    end = whole = len(reply.rstrip())
    while reply.endswith("]]", 0, end):
        begin = reply.rfind("\n", 0, end) + 1
        if not _BUTTON_LINE.fullmatch(reply, begin, end):
            break
        end = begin
        while end and reply[end - 1].isspace():
            end -= 1
    return reply if end == whole else reply[:end]


def simplify_message(message: Message) -> str:
    """Return a message's text as the remote API shows it (section 2, 'Message object')."""
    match message.role:
        case "tool":
            return f"Tool: {message.tool}"
        case "assistant":
            return strip_buttons(message.text)
        case _:
            return message.text


def derive_status(*, working: bool, waiting: bool) -> Status:
    """Derive the status by the rule of the status endpoint (section 3)."""
    if working:
        return "processing"
    return "queued" if waiting else "completed"
