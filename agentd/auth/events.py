"""The live event of API keys."""

from typing import ClassVar

from agentd.core.events import Event


class KeysUpdate(Event, frozen=True):
    """The named API keys changed; ``names`` are all of them. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "keysUpdate"
    names: tuple[str, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.names]
