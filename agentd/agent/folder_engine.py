"""An engine for chats that work in different folders: one instance for each folder."""

from collections.abc import AsyncGenerator, Callable

from agentd.agent.engine import Approver, Engine, EngineEvent, TurnRequest


class FolderEngine:
    """Runs each turn with the engine of its folder.

    ``main`` is the engine of the workspace; ``get_other`` returns that of a work tree.
    """

    def __init__(self, main: Engine, get_other: Callable[[str], Engine]) -> None:
        self.name = main.name
        self._main = main
        self._get_other = get_other

    def run(self, assignment: TurnRequest, approver: Approver) -> AsyncGenerator[EngineEvent, None]:
        """Run one prompt; see ``Engine``."""
        engine = self._get_other(assignment.folder) if assignment.folder else self._main
        return engine.run(assignment, approver)
