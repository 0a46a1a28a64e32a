"""Claude Code's plans: its list of todos, and its tasks, which it creates and changes singly."""

from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.plan import PlanStep, make_step

TODOS = "TodoWrite"
TASKS = ("TaskCreate", "TaskUpdate", "TaskList")


class ClaudePlan:
    """The tasks of a session as far as this turn has seen them."""

    def __init__(self) -> None:
        self._tasks: dict[str, PlanStep] = {}

    def read_use(self, tool: str, given: object, result: object) -> list[PlanStep]:
        """Return the plan after a use of a tool; empty if it is unknown, or the tool another.

        ``result`` is the structured result of the tool.
        """
        if tool == TODOS:
            return _read_todos(given)
        if tool not in TASKS:
            return []
        number = get_text(result, "task", "id") or get_text(given, "taskId")
        match tool:
            case "TaskCreate":
                self._tasks[number] = make_step(get_text(given, "subject"), "pending")
            case "TaskUpdate":
                self._change(number, given)
            case "TaskList":
                self._tasks = {
                    get_text(task, "id"): make_step(
                        get_text(task, "subject"), get_text(task, "status")
                    )
                    for task in iter_list(result, "tasks")
                }
        return list(self._tasks.values())

    def _change(self, number: str, given: object) -> None:
        status, known = get_text(given, "status"), self._tasks.get(number)
        if known is None:  # of an earlier turn: the whole list is unknown
            self._tasks.clear()
        elif status == "deleted":
            del self._tasks[number]
        else:
            text = get_text(given, "subject") or known.text
            self._tasks[number] = make_step(text, status or known.status)


def _read_todos(given: object) -> list[PlanStep]:
    found = get_path(given, "todos")
    return [
        make_step(get_text(todo, "content"), get_text(todo, "status"))
        for todo in (found if isinstance(found, list) else ())
        if get_text(todo, "content")
    ]
