"""The events of processes in the background."""

from typing import ClassVar

from agentd.core.events import Event


class ProcessesUpdate(Event, frozen=True):
    """A process in the background of a chat began or ended: ``chatId``. Not stored: no ``seq``."""

    name: ClassVar[str] = "processesUpdate"
    chat_id: int

    @property
    def about_chat(self) -> int:
        """The chat."""
        return self.chat_id

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.chat_id]
