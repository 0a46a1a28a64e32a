"""The journal's record types: every change that a chat can undergo, one line each.

A chat is a fold over its records (``chats.fold``), so each transition is atomic by
construction: there is no moment at which half of it is true.
"""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.chats.approval import Approval, Hold, Mode, Wait
from agentd.chats.chat import FREE, NO_TOKENS, Message, Prompt, Tokens
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
    labels: tuple[str, ...] = ()
    approvals: Mode | Literal[""] = ""
    copy_of: int = 0
    """The chat that this one is a duplicate of."""
    history: tuple[Message, ...] = ()
    """What was said in that one so far, as messages of this one."""


class ChatChanged(Struct, frozen=True, tag="chat.changed", omit_defaults=True):
    """The person chose otherwise; what is None stays."""

    title: str | None = None
    model: str | None = None
    skill: str | None = None
    system_prompt: str | None = None
    approvals: Mode | Literal[""] | None = None
    """Empty: as the settings say."""
    labels: tuple[str, ...] | None = None


class ChatDeleted(Struct, frozen=True, tag="chat.deleted"):
    """The chat is in the trash; nothing but ``ChatRestored`` can follow."""


class ChatRestored(Struct, frozen=True, tag="chat.restored"):
    """The chat was taken out of the trash."""


class QueueAppended(Struct, frozen=True, tag="queue.appended", omit_defaults=True):
    """A prompt waits at the end of the queue."""

    prompt: Prompt
    once: Once | None = None


class QueueRewritten(Struct, frozen=True, tag="queue.rewritten", omit_defaults=True):
    """A waiting prompt has this text, and perhaps another model; all else of it stays."""

    id: int
    text: str
    model: str | None = None
    """None: it stays; empty: the prompt has no model of its own any more."""


class QueueRemoved(Struct, frozen=True, tag="queue.removed"):
    """A waiting prompt is gone."""

    id: int


class QueueReplaced(Struct, frozen=True, tag="queue.replaced"):
    """These prompts, in this order, are the queue."""

    prompts: tuple[Prompt, ...]


class QueuePaused(Struct, frozen=True, tag="queue.paused"):
    """These waiting prompts are paused, or no longer so."""

    ids: tuple[int, ...]
    paused: bool


class QueueMoved(Struct, frozen=True, tag="queue.moved"):
    """A waiting prompt has so many others before it now."""

    id: int
    place: int


class QueueHeld(Struct, frozen=True, tag="queue.held", omit_defaults=True):
    """Nothing leaves the queue any more; ``asked`` and ``message`` where a person may go on."""

    hold: Hold
    asked: Approval | None = None
    message: Message | None = None


class QueueReleased(Struct, frozen=True, tag="queue.released", omit_defaults=True):
    """The queue goes on; with ``allowance``, the chat may cost that many USD in all."""

    allowance: Decimal | None = None


class TurnStarted(Struct, frozen=True, tag="turn.started", omit_defaults=True):
    """A prompt left the queue and its message entered the history, if it was not there.

    The turn's id is the ``seq`` of this record.
    """

    prompt: int
    message: Message | None
    engine: str
    model: str = ""
    """As the chat names it."""


class MessageAdded(Struct, frozen=True, tag="message.added"):
    """The engine said or did something."""

    message: Message


class EngineKept(Struct, frozen=True, tag="engine.kept"):
    """What an engine wants back in this chat's next turn."""

    engine: str
    memory: str


class ApprovalAsked(Struct, frozen=True, tag="approval.asked"):
    """The turn waits for somebody's decision; the message shows the question."""

    approval: Approval
    message: Message


class ApprovalAnswered(Struct, frozen=True, tag="approval.answered"):
    """The question is no longer open."""

    approval: Approval


class TurnDeferred(Struct, frozen=True, tag="turn.deferred", omit_defaults=True):
    """A limit ended the turn: its prompt is the first of the queue again, and waits.

    ``tokens`` and ``cost`` are what no message of the turn carries.
    """

    wait: Wait
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE


class TurnEnded(Struct, frozen=True, tag="turn.ended", omit_defaults=True):
    """The agent is at rest again; ``message`` tells the reason when it went wrong.

    ``tokens`` and ``cost`` are what no message of the turn carries.
    """

    outcome: Outcome
    message: Message | None = None
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE
    hold: Hold | None = None
    """The queue stands still from now on."""


Body: TypeAlias = (
    ChatCreated
    | ChatChanged
    | ChatDeleted
    | ChatRestored
    | QueueAppended
    | QueueRewritten
    | QueueRemoved
    | QueueReplaced
    | QueuePaused
    | QueueMoved
    | QueueHeld
    | QueueReleased
    | TurnStarted
    | MessageAdded
    | EngineKept
    | ApprovalAsked
    | ApprovalAnswered
    | TurnDeferred
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
    """The message that a record adds to the history, if it does; it is told to listeners."""
    match body:
        case MessageAdded(message=message) | ApprovalAsked(message=message):
            return message
        case TurnStarted(message=first):
            return first
        case QueueHeld(message=question):
            return question
        case TurnEnded(message=ending):
            return ending
        case _:
            return None


def messages_in(body: Body) -> tuple[Message, ...]:
    """All messages that a record puts into the history: for a duplicate, those it begins with."""
    if isinstance(body, ChatCreated):
        return body.history
    message = message_in(body)
    return () if message is None else (message,)


def changes_queue(body: Body) -> bool:
    """True for a record after which the queue is another."""
    match body:
        case ChatCreated(prompt=prompt):
            return prompt is not None
        case TurnStarted() | TurnDeferred():
            return True
        case QueueAppended() | QueueRewritten() | QueueRemoved() | QueueReplaced():
            return True
        case QueuePaused() | QueueMoved():
            return True
        case _:
            return False


def approval_in(body: Body) -> Approval | None:
    """The question that a record asks or closes."""
    match body:
        case ApprovalAsked(approval=approval) | ApprovalAnswered(approval=approval):
            return approval
        case QueueHeld(asked=asked):
            return asked
        case _:
            return None


def type_of(body: Body) -> str:
    """The record's type as the journal names it, such as ``queue.appended``."""
    return str(body.__struct_config__.tag)
