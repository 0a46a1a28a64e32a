"""Commands for chats and prompts beyond the remote API: pause, move, label, copy.

Each is one record in the chat's journal, as in ``chats.service``.
Source: the remote-control specification, section 4, 'Extended surface'.
"""

from collections.abc import Iterable
from decimal import Decimal

from msgspec.structs import replace

from agentd.chats import queue as rules
from agentd.chats.model import NO_TOKENS, Message
from agentd.chats.queue import Queue
from agentd.chats.records import ChatChanged, ChatCreated, QueueMoved, QueuePaused
from agentd.chats.repository import ChatRepository
from agentd.chats.state import Chat
from agentd.chats.worktree import WorktreeBase, plan_worktree
from agentd.core.errors import NotFound, TooLarge

HISTORY_LIMIT = 8 * 1024 * 1024
"""The longest history that can be copied, in bytes of its journal: the copy is one record."""


class ChatCommands:
    """Commands of the extended surface; raises ``NotFound`` and ``Unavailable``."""

    def __init__(self, chats: ChatRepository) -> None:
        self._chats = chats

    async def pause_prompts(
        self, chat_id: int, prompt_id: int | None, by: str, *, pause: bool
    ) -> tuple[Queue, int]:
        """Pause or resume a waiting prompt, or all; return the queue after it.

        With it comes its version. What is so already is not recorded again.
        """
        chat = await self._chats.open(chat_id)
        if prompt_id is not None:
            await self._require_waiting(chat, prompt_id)
        ids = tuple(
            prompt.id
            for prompt in chat.queue
            if prompt.paused != pause and prompt_id in (None, prompt.id)
        )
        if not ids:
            await self._chats.store.wait_durable(chat)
            return chat.queue, chat.queue_version
        done = self._chats.record(chat, by, QueuePaused(ids, pause))
        queue = chat.queue, chat.queue_version
        await done
        return queue

    async def move_prompt(
        self, chat_id: int, prompt_id: int, place: int, by: str
    ) -> tuple[Queue, int]:
        """Move a waiting prompt to a position, or to the end; return the queue after it."""
        chat = await self._chats.open(chat_id)
        await self._require_waiting(chat, prompt_id)
        if rules.move_prompt(chat.queue, prompt_id, place) == chat.queue:
            await self._chats.store.wait_durable(chat)
            return chat.queue, chat.queue_version
        done = self._chats.record(chat, by, QueueMoved(prompt_id, place))
        queue = chat.queue, chat.queue_version
        await done
        return queue

    async def change_labels(
        self, chat_id: int, by: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Add and remove labels of a chat; return its labels after it."""
        chat = await self._chats.open(chat_id)
        labels = replace_labels(chat.labels, add, remove)
        if labels != chat.labels:
            await self._chats.record(chat, by, ChatChanged(labels=labels))
        return labels

    async def duplicate_chat(
        self,
        chat: Chat,
        history: Iterable[Message],
        title: str,
        by: str,
        *,
        worktree: WorktreeBase | None = None,
    ) -> Chat:
        """Create a copy of a chat with this history; queued prompts are not copied.

        With ``worktree`` it has a work tree of its own that begins there.

        The messages keep their times and get ids of their own. They cost nothing: they are paid
        for where they were said. All of it is one record, so it is there whole or not at all.
        """
        sequences = self._chats.sequences
        copy = self._chats.store.create(sequences.next("chat"))
        body = ChatCreated(
            title=title,
            model=chat.model,
            skill=chat.skill,
            system_prompt=chat.system_prompt,
            labels=chat.labels,
            approvals=chat.agent.approvals,
            keep_processes=chat.keep_processes,
            mode=chat.mode,
            copy_of=chat.id,
            worktree=plan_worktree(copy.id, title, worktree) if worktree else None,
            history=tuple(
                replace(message, id=sequences.next("message"), tokens=NO_TOKENS, cost=Decimal(0))
                for message in history
            ),
        )
        await self._chats.record(copy, by, body)
        return copy

    async def _require_waiting(self, chat: Chat, prompt_id: int) -> None:
        if rules.find_prompt(chat.queue, prompt_id) is None:
            await self._chats.store.wait_durable(chat)
            raise NotFound(f"Prompt {prompt_id} not found in the queue of chat {chat.id}")


def replace_labels(
    labels: Iterable[str], add: Iterable[str], remove: Iterable[str]
) -> tuple[str, ...]:
    """Return a chat's labels after some were removed and others added."""
    gone = set(remove)
    kept = [name for name in labels if name not in gone]
    return (*kept, *dict.fromkeys(name for name in add if name not in kept))


def require_copyable(chat: Chat) -> None:
    """Raise ``TooLarge`` for a history that cannot be copied in one step."""
    if chat.size > HISTORY_LIMIT:
        raise TooLarge(
            f"The history of chat {chat.id} is too long to be copied",
            f"At most {HISTORY_LIMIT} bytes can be; export it, or copy the settings alone.",
        )
