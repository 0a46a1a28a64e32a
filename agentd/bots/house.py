"""What the bots are given: the house that they serve, and what it lets them do."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from agentd.bots.memory import Memory
from agentd.chats.approval import Approval
from agentd.chats.service import ChatService
from agentd.clock import Clock
from agentd.events import Bus


class Turns(Protocol):
    """The turns at work (``agent.service.Dispatcher``)."""

    async def stop_turn(self, chat_id: int, by: str) -> bool:
        """End the running turn; False when there is none."""
        ...


class Approvals(Protocol):
    """The open questions (``agent.approvals.Approvals``)."""

    async def answer(
        self, chat_id: int, number: int, *, allowed: bool, session: bool, note: str, by: str
    ) -> Approval:
        """A person's decision; ``NotFound`` when the question is not open."""
        ...


class Transcriber(Protocol):
    """Speech recognition, where there is any."""

    async def transcribe(self, audio: bytes, name: str) -> str:
        """What is said in a sound file; raises an ``AgentdError`` that tells why not."""
        ...


class Uploads(Protocol):
    """The folder of the workspace for what is sent in, where there is any."""

    async def keep(self, content: bytes, name: str) -> str:
        """The file's path, relative to the workspace; raises an ``AgentdError``."""
        ...


class MemoryStore(Protocol):
    """Where bots keep their memories. Both block."""

    def load(self, bot_id: str) -> Memory:
        """What was kept last; a fresh one when there is none."""
        ...

    def save(self, bot_id: str, memory: Memory) -> None:
        """Keep it; durable when it returns, or ``Unavailable``."""
        ...


class House(Struct, frozen=True):
    """What the bots may see and do."""

    chats: ChatService
    turns: Turns
    approvals: Approvals
    clock: Clock
    bus: Bus
    models: Callable[[], Sequence[str]]
    """The names of the models that a chat can choose."""
    transcriber: Transcriber | None = None
    uploads: Uploads | None = None
