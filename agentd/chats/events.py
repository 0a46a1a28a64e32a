"""The events of chats: messages, queues, status, questions, growing replies."""

from collections.abc import Iterator
from typing import ClassVar

from agentd.chats.approval import Approval
from agentd.chats.model import Message
from agentd.chats.queue import Queue
from agentd.chats.records import (
    JournalEntry,
    changes_queue,
    get_approval,
    get_message,
    get_record_type,
)
from agentd.chats.state import ChatSummary
from agentd.chats.views import (
    DeltaView,
    make_approval_view,
    make_chat_view,
    make_message_view,
    make_prompt_view,
)
from agentd.core.events import Event, JournalState, LastEventOfRecord, StoredEvent


class MessageUpdate(StoredEvent, frozen=True):
    """A new message in a chat: ``chatId, message``."""

    name: ClassVar[str] = "messageUpdate"
    chat_id: int
    message: Message

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat_id

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat_id, make_message_view(self.message)]


class QueueUpdate(StoredEvent, frozen=True):
    """The queue, or a prompt in it, changed: ``chatId, prompts``."""

    name: ClassVar[str] = "queueUpdate"
    chat_id: int
    prompts: Queue

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat_id

    @property
    def weight(self) -> int:
        """A queue shares most of its prompts with the one before it."""
        return 100 + 8 * len(self.prompts)

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat_id, [make_prompt_view(prompt) for prompt in self.prompts]]


class ChatStateEvent(LastEventOfRecord, frozen=True):
    """A chat as it is after a record; the last event of each."""

    chat: ChatSummary

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat.id

    @property
    def journal(self) -> JournalState:
        """The journal's length: its last record."""
        return self.chat


class ChatUpdate(ChatStateEvent, frozen=True):
    """A chat was created, or its status or cost changed: ``chat`` with a ``reason``."""

    name: ClassVar[str] = "chatUpdate"
    reason: str
    """The type of the record that caused it, such as ``turn.ended``."""

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [make_chat_view(self.chat, self.reason, run)]


class ChatDeletedUpdate(ChatStateEvent, frozen=True):
    """A chat was deleted: ``chatId``. ``chat`` is as it was, and in the trash."""

    name: ClassVar[str] = "chatDeleted"

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat.id]


class ApprovalUpdate(StoredEvent, frozen=True):
    """A question to the person was asked, answered, or is no longer open: ``chatId, approval``."""

    name: ClassVar[str] = "approvalUpdate"
    chat_id: int
    approval: Approval

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat_id

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat_id, make_approval_view(self.approval, self.chat_id)]


class MessageDelta(Event, frozen=True):
    """The reply grows: ``chatId, {turn, text, number}``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "messageDelta"
    chat_id: int
    turn: int
    text: str
    """The text added since the last delta."""
    number: int
    """The number of this piece in its turn, from 1 without gaps."""

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat_id

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat_id, DeltaView(self.turn, self.text, self.number)]


class ThinkingDeltaEvent(Event, frozen=True):
    """The model thinks: ``chatId, {turn, text, number}``, as in ``MessageDelta``.

    What it thought is over with the next message of the chat; it is not stored.
    """

    name: ClassVar[str] = "thinkingDelta"
    chat_id: int
    turn: int
    text: str
    """The text added since the last delta."""
    number: int
    """The number of this piece of thinking in its turn, from 1 without gaps."""

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat_id

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat_id, DeltaView(self.turn, self.text, self.number)]


def derive_events(
    entry: JournalEntry, chat_id: int, queue: Queue, summary: ChatSummary
) -> Iterator[StoredEvent]:
    """Yield the events of one record; ``queue`` and ``summary`` are as after it.

    A ``LastEventOfRecord`` comes last: a listener that has it has all events of its ``seq``.
    """
    if changes_queue(entry.body):
        yield QueueUpdate(entry.seq, chat_id, queue)
    if message := get_message(entry.body):
        yield MessageUpdate(entry.seq, chat_id, message)
    if approval := get_approval(entry.body):
        yield ApprovalUpdate(entry.seq, chat_id, approval)
    if summary.deleted_at:
        yield ChatDeletedUpdate(entry.seq, summary)
    else:
        yield ChatUpdate(entry.seq, summary, get_record_type(entry.body))
