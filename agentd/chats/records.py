"""The journal's record types: every change that a chat can undergo, one line each.

A chat is a fold over its records (``chats.fold``), so each transition is atomic by
construction: there is no moment at which half of it is true.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.chats.chat import Message, Prompt
from agentd.clock import Timestamp

Outcome: TypeAlias = Literal["completed", "failed", "stopped", "interrupted"]


class Once(Struct, frozen=True):
    """A caller's ``Idempotency-Key`` (with who called) and the digest of what was asked."""

    key: str
    digest: str


class ChatCreated(Struct, frozen=True, tag="chat.created", omit_defaults=True):
    """The chat exists; with ``prompt``, that prompt waits in its queue."""

    title: str
    model: str = ""
    skill: str = "none"
    system_prompt: str = ""
    bot_id: str = ""
    bot_linked: bool | None = None
    bot_note: str = ""
    prompt: Prompt | None = None
    once: Once | None = None


class QueueAppended(Struct, frozen=True, tag="queue.appended", omit_defaults=True):
    """A prompt waits at the end of the queue."""

    prompt: Prompt
    once: Once | None = None


class QueueRewritten(Struct, frozen=True, tag="queue.rewritten"):
    """A waiting prompt's text is another; all else of it stays."""

    id: int
    text: str


class QueueRemoved(Struct, frozen=True, tag="queue.removed"):
    """A waiting prompt is gone."""

    id: int


class QueueReplaced(Struct, frozen=True, tag="queue.replaced"):
    """These prompts, in this order, are the queue."""

    prompts: tuple[Prompt, ...]


class TurnStarted(Struct, frozen=True, tag="turn.started"):
    """A prompt left the queue and its message entered the history.

    The turn's id is the ``seq`` of this record.
    """

    prompt: int
    message: Message
    engine: str


class MessageAdded(Struct, frozen=True, tag="message.added"):
    """The engine said or did something."""

    message: Message


class TurnEnded(Struct, frozen=True, tag="turn.ended", omit_defaults=True):
    """The agent is at rest again; ``message`` tells the reason when it went wrong."""

    outcome: Outcome
    message: Message | None = None


Body: TypeAlias = (
    ChatCreated
    | QueueAppended
    | QueueRewritten
    | QueueRemoved
    | QueueReplaced
    | TurnStarted
    | MessageAdded
    | TurnEnded
)


class Entry(Struct, frozen=True):
    """One record with its circumstances: one line of ``journal.jsonl``."""

    n: int
    """The line's number in its journal, from 1 without gaps: a lost line is noticed."""
    seq: int
    """Global, ever rising, over all chats: the order of everything, and the live event id."""
    at: Timestamp
    """Never before the entry above it, even when the machine's clock jumps back."""
    by: str
    """Who caused it: ``key:laptop``, ``user:admin``, ``bot:…``, ``agent``."""
    body: Body


def message_in(body: Body) -> Message | None:
    """The message that a record puts into the history, if it does."""
    match body:
        case TurnStarted(message=message) | MessageAdded(message=message):
            return message
        case TurnEnded(message=ending):
            return ending
        case _:
            return None


def changes_queue(body: Body) -> bool:
    """True for a record after which the queue is another."""
    match body:
        case ChatCreated(prompt=prompt):
            return prompt is not None
        case MessageAdded() | TurnEnded():
            return False
        case _:
            return True


def type_of(body: Body) -> str:
    """The record's type as the journal names it, such as ``queue.appended``."""
    return str(body.__struct_config__.tag)
