"""Every event that a listener may hear of, with its wire name and its arguments.

An event is a statement about the disk: it is published only after its write is safe, in the
order of ``seq``. Several events may share one ``seq`` when one record changed several things.
Source: the remote-control specification, section 6.
"""

import logging
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeAlias

from msgspec import Struct

from agentd.catalog.bots import Bot
from agentd.catalog.labels import Label
from agentd.catalog.models import Models
from agentd.catalog.skills import Skills
from agentd.catalog.standing import SettingsView
from agentd.chats.approval import Approval
from agentd.chats.chat import Message
from agentd.chats.fold import Summary
from agentd.chats.queue import Queue
from agentd.chats.records import Entry, approval_in, changes_queue, message_in, type_of
from agentd.errors import Mistake
from agentd.workspace.build import BuildStatus
from agentd.workspace.commits import Head
from agentd.workspace.deployment import DeploymentStatus
from agentd.workspace.fixing import AutofixStatus
from agentd.workspace.uploads import Upload

log = logging.getLogger(__name__)


class MessageUpdate(Struct, frozen=True):
    """A new message in a chat: ``chatId, message``."""

    name: ClassVar[str] = "messageUpdate"
    seq: int
    chat_id: int
    message: Message


class QueueUpdate(Struct, frozen=True):
    """The queue, or a prompt in it, changed: ``chatId, prompts``."""

    name: ClassVar[str] = "queueUpdate"
    seq: int
    chat_id: int
    prompts: Queue


class ChatUpdate(Struct, frozen=True):
    """A chat was created, or its status or cost changed: ``chat`` with a ``reason``."""

    name: ClassVar[str] = "chatUpdate"
    seq: int
    chat: Summary
    reason: str
    """The type of the record that caused it, such as ``turn.ended``."""


class ChatGone(Struct, frozen=True):
    """A chat was deleted: ``chatId``. ``chat`` is as it was, and in the trash."""

    name: ClassVar[str] = "chatDeleted"
    seq: int
    chat: Summary


class ApprovalUpdate(Struct, frozen=True):
    """A question to the person was asked, answered, or is no longer open: ``chatId, approval``."""

    name: ClassVar[str] = "approvalUpdate"
    seq: int
    chat_id: int
    approval: Approval


class MessageDelta(Struct, frozen=True):
    """The reply grows: ``chatId, {turn, text}``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "messageDelta"
    chat_id: int
    turn: int
    text: str
    """What is new since the last one."""


class KeysUpdate(Struct, frozen=True):
    """The named access keys are others: ``names``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "keysUpdate"
    names: tuple[str, ...]


class SettingsUpdate(Struct, frozen=True):
    """The settings, or what is wrong with a hand-written file, are others: ``settings``, masked."""

    name: ClassVar[str] = "settingsUpdate"
    settings: SettingsView


class SkillsUpdate(Struct, frozen=True):
    """The skills are others: ``skills``."""

    name: ClassVar[str] = "skillsUpdate"
    skills: Skills
    mistakes: tuple[Mistake, ...]


class ModelsUpdate(Struct, frozen=True):
    """The models are others: ``models``."""

    name: ClassVar[str] = "modelsUpdate"
    models: Models
    mistakes: tuple[Mistake, ...]


class BotsUpdate(Struct, frozen=True):
    """A bot is another, began, ended or has trouble: ``bots``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "botsUpdate"
    bots: tuple[Bot, ...]


class BuildUpdate(Struct, frozen=True):
    """A build began, ended, or found more problems: ``build``. No ``seq``, as all below."""

    name: ClassVar[str] = "buildUpdate"
    build: BuildStatus


class BuildOutput(Struct, frozen=True):
    """A build said more: ``{name, run, text, skipped}``; gathered, not each line apart."""

    name: ClassVar[str] = "buildOutput"
    build: str
    run: str
    text: str
    """What is new since the last one ..."""
    skipped: int
    """... but for so many bytes before it."""


class DeploymentUpdate(Struct, frozen=True):
    """A deployment is in another state: ``deployment``."""

    name: ClassVar[str] = "deploymentUpdate"
    deployment: DeploymentStatus


class DeploymentOutput(Struct, frozen=True):
    """A deployment said more: ``{name, run, text, skipped}``; gathered, not each line apart."""

    name: ClassVar[str] = "deploymentOutput"
    deployment: str
    run: str
    text: str
    """What is new since the last one ..."""
    skipped: int
    """... but for so many bytes before it."""


class AutofixUpdate(Struct, frozen=True):
    """Fixing by itself was switched, or tried again: ``autofix``."""

    name: ClassVar[str] = "autofixUpdate"
    autofix: AutofixStatus


class LabelsUpdate(Struct, frozen=True):
    """The labels are others: ``labels``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "labelsUpdate"
    labels: tuple[Label, ...]


class GitUpdate(Struct, frozen=True):
    """Another commit or branch is checked out, whoever did it: ``{branch, commit}``."""

    name: ClassVar[str] = "gitUpdate"
    head: Head


class FilesUpdate(Struct, frozen=True):
    """Files are new in the upload folder, or gone from it: ``{added, removed}``."""

    name: ClassVar[str] = "filesUpdate"
    added: tuple[Upload, ...]
    removed: tuple[str, ...]
    """Their names."""


Last: TypeAlias = ChatUpdate | ChatGone
"""What is told last of each record: whoever has it has all of its ``seq``."""
Stored: TypeAlias = MessageUpdate | QueueUpdate | ApprovalUpdate | Last
"""What the journals tell again after a restart; each has the ``seq`` of its record."""
Event: TypeAlias = (
    Stored
    | MessageDelta
    | BotsUpdate
    | KeysUpdate
    | LabelsUpdate
    | SettingsUpdate
    | SkillsUpdate
    | ModelsUpdate
    | BuildUpdate
    | BuildOutput
    | DeploymentUpdate
    | DeploymentOutput
    | AutofixUpdate
    | GitUpdate
    | FilesUpdate
)
Listener: TypeAlias = Callable[[Event], None]


def told_by(entry: Entry, chat_id: int, queue: Queue, summary: Summary) -> Iterator[Stored]:
    """What one record has to tell, the chat and its queue being as they are after it.

    A ``Last`` comes last: whoever has it has all of its ``seq``.
    """
    if changes_queue(entry.body):
        yield QueueUpdate(entry.seq, chat_id, queue)
    if message := message_in(entry.body):
        yield MessageUpdate(entry.seq, chat_id, message)
    if approval := approval_in(entry.body):
        yield ApprovalUpdate(entry.seq, chat_id, approval)
    if summary.deleted_at:
        yield ChatGone(entry.seq, summary)
    else:
        yield ChatUpdate(entry.seq, summary, type_of(entry.body))


class Bus:
    """Tells each event to all who listen: at once, in order, on the loop's thread."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have ``listener`` called with each event; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, event: Event) -> None:
        """Tell everyone. One listener's failure is logged and never reaches another."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", event.name)
