"""The events of hooks."""

from typing import ClassVar

from agentd.core.events import Event


class HooksUpdate(Event, frozen=True):
    """``hooks.yml``, or a decision about a workspace's hooks, changed. Not stored."""

    name: ClassVar[str] = "hooksUpdate"
    for_administrators: ClassVar[bool] = True

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire: none, for they are read by ``/api/hooks``."""
        return []
