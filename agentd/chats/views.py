"""The views of chats in responses and events: one shape for each, on every surface.

Source: the remote-control specification, section 2; what goes beyond it is the extended surface's.
"""

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from agentd.chats.approval import Approval
from agentd.chats.model import Message, Prompt, Status, Tokens, simplify_message
from agentd.chats.state import Chat, ChatSummary
from agentd.core.clock import Timestamp
from agentd.core.ids import MAX_ID


class ChatSettingsView(Struct, frozen=True, rename="camel"):
    """A chat's settings for running its prompts; empty: as the daemon's settings say."""

    model: str
    skill: str
    system_prompt: str
    approvals: str
    worktree: bool
    """The chat has a git work tree and branch of its own."""
    keep_processes: bool
    """Processes that the native engine starts in the background go on when a turn ends."""
    mode: str
    """The mode of its engine's program, such as ``plan``; empty: the program's usual one."""


NAME_LIMIT = 1000
"""Characters of a title, a model's, a skill's or a bot's name."""

Id = Annotated[int, Meta(ge=1, le=MAX_ID)]
Name = Annotated[str, Meta(max_length=NAME_LIMIT)]


class StatusView(Struct, frozen=True, rename="camel"):
    """A chat's status."""

    chat_id: Id
    status: Status
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    message_count: int
    total_cost: Decimal
    error: str = ""


class ChatView(Struct, frozen=True, rename="camel"):
    """The argument of ``chatUpdate``; ``seq`` and ``runId`` are what to come back with."""

    chat_id: Id
    status: Status
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    message_count: int
    total_cost: Decimal
    held: str
    """The reason why the queue is held until it is released; empty if it is not held."""
    waits_until: Timestamp | None
    """The time at which a supplier's limit ends and the queue continues; null: not waiting."""
    asking: int
    """Questions that wait for a person."""
    labels: tuple[str, ...]
    reason: str
    seq: int
    run_id: str
    """The daemon's run that sent it: an older copy of its state folder has other events."""


class MessageView(Struct, frozen=True, rename="camel"):
    """A message as the remote API shows it."""

    id: Id
    role: str
    content: str
    created_at: Timestamp
    tokens: Tokens
    cost: Decimal


class PromptView(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A queue prompt."""

    id: Id
    prompt: str
    is_paused: bool
    model: str
    created_at: Timestamp
    not_before: Timestamp | None = None
    """The time before which it is not sent; absent: it has none. It does not block those behind."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema that its reply has to fit; absent: any text will do."""


class ApprovalDetailView(Struct, frozen=True):
    """The subject of a decision: the change as a unified diff, or the whole command line."""

    kind: Literal["diff", "command"]
    text: str


class ApprovalView(Struct, frozen=True, rename="camel"):
    """A question of the agent, and its outcome."""

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
    detail: ApprovalDetailView | None
    """Null where the subject says all, and once the question is closed."""
    choices: tuple[str, ...]
    """The answers that the agent offers (kind ``question``); a decision's note is, with
    ``allow``, one of these or any other."""


class DeltaView(Struct, frozen=True):
    """The text that a growing reply gained; the ``messageUpdate`` that follows has all of it.

    ``number`` counts the pieces of a turn: ``runningReply`` of a chat says up to which it reaches.
    """

    turn: int
    text: str
    number: int


def make_status_view(summary: ChatSummary) -> StatusView:
    """Return a chat's status as the remote API shows it."""
    return StatusView(
        chat_id=summary.id,
        status=summary.status,
        title=summary.title,
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        message_count=summary.messages,
        total_cost=summary.cost,
    )


def make_chat_view(chat: ChatSummary, reason: str, run_id: str) -> ChatView:
    """Return a chat as events show it; ``reason`` is the type of the record."""
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
        run_id=run_id,
    )


def make_message_view(message: Message) -> MessageView:
    """Return a message as responses and events show it."""
    return MessageView(
        message.id,
        message.role,
        simplify_message(message),
        message.at,
        message.tokens,
        message.cost,
    )


def make_prompt_view(prompt: Prompt) -> PromptView:
    """Return a prompt as responses and events show it."""
    schema = prompt.output_schema
    return PromptView(
        prompt.id,
        prompt.text,
        prompt.paused,
        prompt.model,
        prompt.at,
        prompt.not_before or None,
        msgspec.json.decode(schema) if schema else None,
    )


def make_approval_view(approval: Approval, chat_id: int) -> ApprovalView:
    """Return an approval as responses and events show it."""
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
        detail=_get_detail(approval),
        choices=approval.choices,
    )


def _get_detail(approval: Approval) -> ApprovalDetailView | None:
    if approval.state != "open":
        return None
    if approval.diff:
        return ApprovalDetailView("diff", approval.diff)
    return ApprovalDetailView("command", approval.subject) if approval.kind == "shell" else None


def make_chat_settings_view(chat: Chat) -> ChatSettingsView:
    """Return a chat's settings."""
    return ChatSettingsView(
        chat.model,
        chat.skill,
        chat.system_prompt,
        chat.agent.approvals,
        worktree=chat.worktree is not None,
        keep_processes=chat.keep_processes,
        mode=chat.mode,
    )
