"""The journal's record types: every change that a chat can undergo, one line each.

A chat is a fold over its records (``chats.state``), so each transition is atomic by
construction: there is no moment at which half of it is true.
"""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.chats.approval import Approval, ApprovalMode, Hold, QueueWait
from agentd.chats.model import NO_TOKENS, ZERO_COST, Delivery, Message, Prompt, Tokens
from agentd.chats.worktree import Worktree
from agentd.core.clock import Timestamp
from agentd.core.idempotency import IdempotencyKey

Outcome: TypeAlias = Literal["completed", "failed", "stopped", "interrupted"]


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
    once: IdempotencyKey | None = None
    labels: tuple[str, ...] = ()
    approvals: ApprovalMode | Literal[""] = ""
    copy_of: int = 0
    """The chat that this one is a duplicate of."""
    history: tuple[Message, ...] = ()
    """The history of the original so far, as messages of this chat."""
    worktree: Worktree | None = None
    """The work tree that it is to have; None: it works in the workspace itself."""
    keep_processes: bool = False
    mode: str = ""


class ChatChanged(Struct, frozen=True, tag="chat.changed", omit_defaults=True):
    """The person chose otherwise; what is None stays."""

    title: str | None = None
    model: str | None = None
    skill: str | None = None
    system_prompt: str | None = None
    approvals: ApprovalMode | Literal[""] | None = None
    """Empty: as the settings say."""
    keep_processes: bool | None = None
    """Whether processes in the background go on when a turn ends."""
    mode: str | None = None
    """The mode of its engine's program; empty: the program's usual one."""
    labels: tuple[str, ...] | None = None


class WorktreeChanged(Struct, frozen=True, tag="worktree.changed", omit_defaults=True):
    """The chat's work tree is at another step; None: it has none any more."""

    worktree: Worktree | None = None


class ChatDeleted(Struct, frozen=True, tag="chat.deleted"):
    """The chat is in the trash; only changes of its labels and ``ChatRestored`` can follow."""


class ChatRestored(Struct, frozen=True, tag="chat.restored"):
    """The chat was taken out of the trash."""


class QueueAppended(Struct, frozen=True, tag="queue.appended", omit_defaults=True):
    """A prompt waits at the end of the queue."""

    prompt: Prompt
    once: IdempotencyKey | None = None


class QueueRewritten(Struct, frozen=True, tag="queue.rewritten", omit_defaults=True):
    """A waiting prompt has this text, and perhaps another model or time; all else stays."""

    id: int
    text: str
    model: str | None = None
    """None: it stays; empty: the prompt has no model of its own any more."""
    not_before: Timestamp | None = None
    """None: it stays; empty: the prompt has no time any more."""


class QueueRemoved(Struct, frozen=True, tag="queue.removed"):
    """A waiting prompt is gone."""

    id: int


class QueueReplaced(Struct, frozen=True, tag="queue.replaced"):
    """The queue was replaced by these prompts, in this order."""

    prompts: tuple[Prompt, ...]


class QueuePaused(Struct, frozen=True, tag="queue.paused"):
    """Waiting prompts were paused, or resumed."""

    ids: tuple[int, ...]
    paused: bool


class QueueMoved(Struct, frozen=True, tag="queue.moved"):
    """A waiting prompt has so many others before it now."""

    id: int
    place: int


class QueueHeld(Struct, frozen=True, tag="queue.held", omit_defaults=True):
    """The queue is held; ``asked`` and ``message`` where a person may go on."""

    hold: Hold
    asked: Approval | None = None
    message: Message | None = None


class QueueReleased(Struct, frozen=True, tag="queue.released", omit_defaults=True):
    """The queue continues; with ``allowance``, the chat may cost that many USD in all."""

    allowance: Decimal | None = None
    hold: Hold | None = None
    """A person's hold, which stays when only a budget's question was answered."""


class TurnStarted(Struct, frozen=True, tag="turn.started", omit_defaults=True):
    """A prompt left the queue and its message entered the history, if it was not there.

    The turn's id is the ``seq`` of this record.
    """

    prompt: int
    message: Message | None
    engine: str
    model: str = ""
    """The model as the chat names it."""


class ToolUse(Struct, frozen=True, omit_defaults=True):
    """A running tool, as reported at its start."""

    number: int
    """The number of this tool use within the turn, from 1."""
    name: str
    input: str
    """The input for a reader of the history, shortened where it is long."""
    parent: int = 0
    """The number of the use that started the sub-agent whose tool this is; 0: the turn's own."""


class ToolUseStarted(Struct, frozen=True, tag="tool.started"):
    """The engine begins to use a tool; the message with its outcome names its number.

    After a crash it shows which tools were interrupted.
    """

    use: ToolUse


class MessageAdded(Struct, frozen=True, tag="message.added", omit_defaults=True):
    """The engine said or did something."""

    message: Message
    tool_use: int = 0
    """The number of the tool use whose outcome this is; 0: of none whose beginning was recorded."""
    memory: str = ""
    """The engine's state for its next turn, after this record; empty: unchanged."""


class EngineMemorySaved(Struct, frozen=True, tag="engine.kept"):
    """The engine's state for this chat's next turn."""

    engine: str
    memory: str


class ApprovalAsked(Struct, frozen=True, tag="approval.asked"):
    """The turn waits for somebody's decision; the message shows the question."""

    approval: Approval
    message: Message


class ApprovalAnswered(Struct, frozen=True, tag="approval.answered", omit_defaults=True):
    """The question is no longer open; the message shows the decision."""

    approval: Approval
    message: Message | None = None
    """None where the turn was over, and in journals of earlier versions."""


class TurnDeferred(Struct, frozen=True, tag="turn.deferred", omit_defaults=True):
    """A limit or agentd's end ended the turn: its prompt waits, first of the queue.

    ``tokens`` and ``cost`` are what no message of the turn carries.
    """

    wait: QueueWait
    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    memory: str = ""
    """The same as in ``MessageAdded``."""
    delivered: Delivery = "yes"
    """``yes`` after a limit; ``no`` is said of this try alone, not of those before."""


class TurnEnded(Struct, frozen=True, tag="turn.ended", omit_defaults=True):
    """The agent is idle again; ``message`` has the reason for a failure.

    ``tokens`` and ``cost`` are what no message of the turn carries.
    """

    outcome: Outcome
    message: Message | None = None
    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    hold: Hold | None = None
    """The queue is held from now on."""
    wait: QueueWait | None = None
    """The queue waits: it was not the first turn in a row that failed."""
    memory: str = ""
    """The same as in ``MessageAdded``."""


RecordBody: TypeAlias = (
    ChatCreated
    | ChatChanged
    | WorktreeChanged
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
    | ToolUseStarted
    | MessageAdded
    | EngineMemorySaved
    | ApprovalAsked
    | ApprovalAnswered
    | TurnDeferred
    | TurnEnded
)


class JournalEntry(Struct, frozen=True):
    """A record with its metadata: one line of ``journal.jsonl``."""

    n: int
    """The line's number in its journal, from 1 without gaps: a lost line is noticed."""
    seq: int
    """Global, ever rising, over all chats: the order of everything, and the live event id."""
    at: Timestamp
    """Never before the entry above it, even when the machine's clock jumps back."""
    by: str
    """The author: ``key:laptop``, ``user:admin``, ``bot:…``, ``agent``."""
    body: RecordBody


def get_message(body: RecordBody) -> Message | None:
    """Return the message that a record adds to the history, if any; it becomes an event."""
    match body:
        case MessageAdded(message=message) | ApprovalAsked(message=message):
            return message
        case TurnStarted(message=first):
            return first
        case ApprovalAnswered(message=decided):
            return decided
        case QueueHeld(message=question):
            return question
        case TurnEnded(message=ending):
            return ending
        case _:
            return None


def get_messages(body: RecordBody) -> tuple[Message, ...]:
    """Return all messages that a record adds to the history; a duplicate begins with several."""
    if isinstance(body, ChatCreated):
        return body.history
    message = get_message(body)
    return () if message is None else (message,)


def changes_queue(body: RecordBody) -> bool:
    """Return True for a record that changes the queue."""
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


def get_approval(body: RecordBody) -> Approval | None:
    """Return the approval that a record opens or closes."""
    match body:
        case ApprovalAsked(approval=approval) | ApprovalAnswered(approval=approval):
            return approval
        case QueueHeld(asked=asked):
            return asked
        case _:
            return None


def get_record_type(body: RecordBody) -> str:
    """Return the record's type as the journal names it, such as ``queue.appended``."""
    return str(body.__struct_config__.tag)
