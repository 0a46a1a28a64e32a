"""What the dispatcher and an engine say to each other.

An engine carries out one turn: it is given an ``Assignment`` and tells what happens as a
stream of progress. Whatever it yields is whole: a message, never a fragment of one.
"""

from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.chats.chat import FREE, NO_TOKENS, Tokens


class Assignment(Struct, frozen=True):
    """One prompt to carry out, with what its chat says about how."""

    chat_id: int
    prompt: str
    model: str = ""
    skill: str = "none"
    system_prompt: str = ""


class ToolUsed(Struct, frozen=True):
    """The engine used a tool; ``outcome`` is what came of it, shortened for a reader."""

    name: str
    input: str
    outcome: str


class Replied(Struct, frozen=True):
    """A whole reply of the assistant, in Markdown. Cost is in USD."""

    text: str
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE


class Failed(Struct, frozen=True):
    """The turn cannot go on; ``reason`` is a sentence for the person who sent the prompt."""

    reason: str


Progress: TypeAlias = ToolUsed | Replied | Failed


class Engine(Protocol):
    """A coding agent that carries out one turn at a time per chat, many chats at once."""

    name: str

    def run(self, assignment: Assignment) -> AsyncGenerator[Progress, None]:
        """Carry out one prompt. Closing the generator stops the turn and all that it started."""
        ...
