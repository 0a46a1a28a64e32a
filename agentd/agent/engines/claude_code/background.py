"""The agents that Claude Code runs in the background, and which of its results end a turn."""

from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list

_AGENTS = ("local_agent", "local_workflow")
"""The tasks that are waited for. Others, such as commands, end with the program and so the turn."""


class BackgroundAgents:
    """Follows the agents of one turn.

    Claude Code tells its model of each task in the background that has ended, which is a turn with
    a result of its own. After a start it does so for those that ended with the program before.
    """

    def __init__(self) -> None:
        self._running = 0
        self.answered = False
        """True once the prompt has had its result."""

    def on_changed(self, given: object) -> None:
        """Note the tasks that run now."""
        kinds = [get_text(task, "task_type") for task in iter_list(given, "tasks")]
        self._running = sum(kind in _AGENTS for kind in kinds)

    def ends_turn(self, result: object, *, well: bool, prompted: bool) -> bool:
        """Return whether a result ends the turn: the prompt was answered, and no agent works on.

        ``prompted``: the prompt was sent; a result that is about a task may still come before its
        own.
        """
        if get_text(result, "origin", "kind") == "task-notification" and not self.answered:
            waits = get_path(result, "queued_turn_count")
            if not prompted or waits or not get_path(result, "num_turns"):
                return False
        self.answered = True
        return not (well and self._running)
