"""What answers and events show of the product's nouns: one shape for each, on every surface.

Source: the remote-control specification, section 2; what goes beyond it is the extended surface's.
"""

from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from agentd.chats.approval import Approval
from agentd.chats.chat import LARGEST_ID, Message, Prompt, Status, Tokens, simplified
from agentd.chats.fold import Summary
from agentd.clock import Timestamp

NAME_LIMIT = 1000
"""Characters of a title, a model's, a skill's or a bot's name."""

Id = Annotated[int, Meta(ge=1, le=LARGEST_ID)]
Name = Annotated[str, Meta(max_length=NAME_LIMIT)]


class StatusView(Struct, frozen=True, rename="camel"):
    """A chat's status: the answer of endpoint 2."""

    chat_id: Id
    status: Status
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    message_count: int
    total_cost: Decimal
    error: str = ""


class ChatView(Struct, frozen=True, rename="camel"):
    """The argument of ``chatUpdate``; ``seq`` and ``life`` are what to come back with."""

    chat_id: Id
    status: Status
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    message_count: int
    total_cost: Decimal
    held: str
    """Why the queue stands still until it is released; empty: it does not."""
    waits_until: Timestamp | None
    """When a supplier's limit is over and the queue goes on by itself; null: it does not wait."""
    asking: int
    """Questions that wait for a person."""
    labels: tuple[str, ...]
    reason: str
    seq: int
    life: str
    """Of the daemon that told it: an older copy of its state folder has other events."""


class MessageView(Struct, frozen=True, rename="camel"):
    """A message as the remote API shows it."""

    id: Id
    role: str
    content: str
    created_at: Timestamp
    tokens: Tokens
    cost: Decimal


class PromptView(Struct, frozen=True, rename="camel"):
    """A queue prompt."""

    id: Id
    prompt: str
    is_paused: bool
    model: str
    created_at: Timestamp


class ApprovalView(Struct, frozen=True, rename="camel"):
    """A question to the person, and what became of it."""

    id: Id
    chat_id: Id
    kind: str
    tool: str
    subject: str
    reason: str
    asked_at: Timestamp
    deadline: Timestamp | None
    state: str
    session: bool
    note: str
    answered_by: str
    answered_at: Timestamp | None


class DeltaView(Struct, frozen=True):
    """What a growing reply has more than before; ``turn`` tells one reply from the next."""

    turn: int
    text: str


def status_view(summary: Summary) -> StatusView:
    """A chat's status as the remote API shows it."""
    return StatusView(
        chat_id=summary.id,
        status=summary.status,
        title=summary.title,
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        message_count=summary.messages,
        total_cost=summary.cost,
    )


def chat_view(chat: Summary, reason: str, life: str) -> ChatView:
    """A chat as events show it; ``reason`` is the type of the record that changed it."""
    return ChatView(
        chat_id=chat.id,
        status=chat.status,
        title=chat.title,
        created_at=chat.created_at,
        updated_at=chat.updated_at,
        message_count=chat.messages,
        total_cost=chat.cost,
        held=chat.held,
        waits_until=chat.waits_until or None,
        asking=chat.asking,
        labels=chat.labels,
        reason=reason,
        seq=chat.seq,
        life=life,
    )


def message_view(message: Message) -> MessageView:
    """A message as answers and events show it."""
    return MessageView(
        message.id, message.role, simplified(message), message.at, message.tokens, message.cost
    )


def prompt_view(prompt: Prompt) -> PromptView:
    """A prompt as answers and events show it."""
    return PromptView(prompt.id, prompt.text, prompt.paused, prompt.model, prompt.at)


def approval_view(approval: Approval, chat_id: int) -> ApprovalView:
    """A question as answers and events show it."""
    return ApprovalView(
        id=approval.id,
        chat_id=chat_id,
        kind=approval.kind,
        tool=approval.tool,
        subject=approval.subject,
        reason=approval.reason,
        asked_at=approval.at,
        deadline=approval.deadline or None,
        state=approval.state,
        session=approval.session,
        note=approval.note,
        answered_by=approval.answered_by,
        answered_at=approval.answered_at or None,
    )
