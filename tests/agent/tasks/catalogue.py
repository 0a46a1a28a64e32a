"""All tasks."""

from tests.agent.tasks.bugs import BUGS
from tests.agent.tasks.changes import CHANGES
from tests.agent.tasks.conventions import CONVENTIONS
from tests.agent.tasks.habits import HABITS
from tests.agent.tasks.questions import QUESTIONS
from tests.agent.tasks.task import Task

TASKS: tuple[Task, ...] = (*BUGS, *CHANGES, *HABITS, *CONVENTIONS, *QUESTIONS)
