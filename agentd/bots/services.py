"""The services of the daemon that bots use."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from agentd.bots.state import BotState
from agentd.chats.approval import Approval
from agentd.chats.service import ChatService
from agentd.core.clock import Clock
from agentd.core.errors import NotFound, Unavailable
from agentd.core.events import EventBus
from agentd.models.program_state import ProgramMode


class TurnStopper(Protocol):
    """The turns at work (``agent.dispatcher.Dispatcher``)."""

    async def stop_turn(self, chat_id: int, by: str) -> bool:
        """End the running turn; False if there is none."""
        ...


class ApprovalAnswerer(Protocol):
    """The open questions (``agent.approvals.ApprovalService``)."""

    async def answer(
        self, chat_id: int, number: int, *, allowed: bool, session: bool, note: str, by: str
    ) -> Approval:
        """Record a person's decision; ``NotFound`` when the approval is not open."""
        ...


class Transcriber(Protocol):
    """Speech recognition, where there is any."""

    async def transcribe(self, audio: bytes, name: str) -> str:
        """Return the text spoken in a sound file; raises an ``AgentdError`` with the reason."""
        ...


class Uploads(Protocol):
    """The folder of the workspace for what is sent in, where there is any."""

    async def keep(self, content: bytes, name: str) -> str:
        """Store a file and return its path in the workspace; raises an ``AgentdError``."""
        ...


class BotStateStore(Protocol):
    """Stores the state of bots. Both methods block."""

    def load(self, bot_id: str) -> BotState:
        """Return the state last saved; a new one if there is none."""
        ...

    def save(self, bot_id: str, state: BotState) -> None:
        """Save the state; durable when it returns, or ``Unavailable``."""
        ...


class BotServices(Struct, frozen=True):
    """The services that all bots share."""

    chats: ChatService
    turns: TurnStopper
    approvals: ApprovalAnswerer
    clock: Clock
    bus: EventBus
    models: Callable[[], Sequence[str]]
    """The names of the models that a chat can choose."""
    modes: Callable[[str], Sequence[ProgramMode]]
    """The known modes of a model's program; of the default model's for an empty name."""
    transcriber: Transcriber | None = None
    uploads: Uploads | None = None

    def is_damaged(self, chat_id: int) -> bool:
        """Return whether a chat is damaged, so that what failed in it will fail again."""
        try:
            return bool(self.chats.get_summary(chat_id).damage)
        except NotFound:
            return False
        except Unavailable:
            return True
