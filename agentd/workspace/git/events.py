"""The events of the working copy."""

from typing import ClassVar

from agentd.core.events import Event
from agentd.workspace.git.commits import GitHead
from agentd.workspace.views import make_head_view


class GitUpdate(Event, frozen=True):
    """Another commit or branch was checked out, by anyone: ``{branch, commit}``."""

    name: ClassVar[str] = "gitUpdate"
    head: GitHead

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [make_head_view(self.head)]
