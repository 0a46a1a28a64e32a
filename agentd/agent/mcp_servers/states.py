"""What is known of MCP servers in this run of the daemon: the last start, and its outcome."""

from collections.abc import Callable

from msgspec import Struct

from agentd.core.clock import Clock, SystemClock, Timestamp

MOST_SERVERS = 200
"""Names that are remembered; those that were not used for longest are forgotten first."""


class ServerState(Struct, frozen=True):
    """What came of the last time that a server was started or called."""

    at: Timestamp
    tools: int | None = None
    """How many it offered; None if it did not start."""
    problem: str = ""
    """Why it did not start, or how it ended on its own; empty: neither."""


class ServerStates:
    """The states by the servers' names; ``on_change`` is called after each change."""

    def __init__(
        self, on_change: Callable[[], None] = lambda: None, clock: Clock | None = None
    ) -> None:
        self._on_change = on_change
        self._clock = clock or SystemClock()
        self._states: dict[str, ServerState] = {}

    def get(self, name: str) -> ServerState | None:
        """Return the state; None if the server has not been used."""
        return self._states.get(name)

    def note_started(self, name: str, tools: int) -> None:
        """Remember that a server works."""
        self._put(name, ServerState(self._clock.now(), tools))

    def note_problem(self, name: str, problem: str) -> None:
        """Remember that a server did not start."""
        known = self._states.get(name)
        if known is None or known.problem != problem:
            self.note_end(name, problem)

    def note_end(self, name: str, problem: str) -> None:
        """Remember that a server ended on its own; one less is running."""
        self._put(name, ServerState(self._clock.now(), problem=problem))

    def note_stopped(self) -> None:
        """Tell that servers which worked have ended as they should."""
        self._on_change()

    def _put(self, name: str, state: ServerState) -> None:
        self._states.pop(name, None)
        self._states[name] = state
        if len(self._states) > MOST_SERVERS:
            del self._states[next(iter(self._states))]
        self._on_change()
