"""The turns of subagents of Codex, each a thread of its own."""

from collections.abc import Callable, Iterator

from agentd.agent.engines.external.json_rpc import get_text


class SubAgentTurns:
    """Follows which subagents work; ``is_agent`` says whether a thread is that of one.

    Codex ends the turn of the chat's thread without them. What they would still do, and ask, would
    be lost with the program.
    """

    def __init__(self, is_agent: Callable[[str], bool]) -> None:
        self._is_agent = is_agent
        self._running: dict[str, str] = {}
        """The running turn of each thread but the chat's own."""

    @property
    def is_running(self) -> bool:
        """True while one of them works."""
        return any(self.iter_running())

    def iter_running(self) -> Iterator[tuple[str, str]]:
        """Yield the thread and the turn of each that works."""
        yield from (one for one in self._running.items() if self._is_agent(one[0]))

    def on_started(self, params: object) -> None:
        """Note a turn of another thread than the chat's."""
        thread, turn = get_text(params, "threadId"), get_text(params, "turn", "id")
        if thread and turn:
            self._running[thread] = turn

    def on_completed(self, params: object) -> None:
        """Note the end of such a turn."""
        thread = get_text(params, "threadId")
        if self._running.get(thread) == get_text(params, "turn", "id"):
            self._running.pop(thread, None)
