"""The live event of a person's preferences, for the person's other devices."""

from typing import ClassVar

from msgspec import Struct

from agentd.core.events import Event
from agentd.ui.preferences import Id, LookName, LookValue


class MeUpdateView(Struct, frozen=True):
    """What changed, with the whole of what is short."""

    seen: dict[Id, Id]
    """The chats whose number of seen messages was advanced."""
    unseen: tuple[Id, ...]
    """Chats that are not seen any more."""
    pins: tuple[Id, ...]
    """All pinned chats, in order."""
    look: dict[LookName, LookValue]
    """All settings of the look."""


class MeUpdate(Event, frozen=True):
    """A person's preferences changed. Only logins of the person receive it. Not stored."""

    name: ClassVar[str] = "meUpdate"
    user: str
    change: MeUpdateView

    @property
    def for_user(self) -> str:
        """The person."""
        return self.user

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.change]
