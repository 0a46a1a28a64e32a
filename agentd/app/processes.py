"""Wires the processes in the background of chats."""

from typing import Self

from agentd.agent.processes import api
from agentd.agent.processes.api import ProcessEndpoints
from agentd.agent.processes.events import ProcessesUpdate
from agentd.agent.processes.table import ProcessTable
from agentd.chats.events import ChatStateEvent
from agentd.chats.service import ChatService
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.core.events import EventBus
from agentd.core.tasks import BackgroundTasks
from agentd.http.routing import Route


class ProcessesComponent:
    """Ends the processes of chats that are deleted or do not keep them, and all at its end."""

    def __init__(self, chats: ChatService, clock: Clock, bus: EventBus) -> None:
        self._chats = chats
        self._bus = bus
        self._ending = BackgroundTasks()
        self.table = ProcessTable(self._keeps, lambda one: bus.publish(ProcessesUpdate(one)), clock)
        """The processes."""
        self.rows: tuple[Route, ...] = api.routes(ProcessEndpoints(chats, self.table))
        """The routes of processes."""

    async def __aenter__(self) -> Self:
        """Follow the chats."""
        self._unsubscribe = self._bus.subscribe_to((ChatStateEvent,), self._on_chat_changed)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all processes."""
        self._unsubscribe()
        await self._ending.wait()
        await self.table.close()

    def _keeps(self, chat_id: int) -> bool:
        try:
            return self._chats.get_summary(chat_id).keep_processes
        except AgentdError:  # deleted, or damaged
            return False

    def _on_chat_changed(self, event: ChatStateEvent) -> None:
        chat = event.chat
        if not self.table.has_processes(chat.id):
            return
        if chat.deleted_at or not (chat.working or chat.keep_processes):
            self._ending.start(self.table.end_chat(chat.id))
