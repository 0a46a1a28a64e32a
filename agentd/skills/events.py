"""The events of skills."""

from typing import ClassVar

from agentd.core.errors import ConfigProblem
from agentd.core.events import Event
from agentd.skills.model import SkillSet
from agentd.skills.views import make_skills_view


class SkillsUpdate(Event, frozen=True):
    """The skills changed: ``skills``."""

    name: ClassVar[str] = "skillsUpdate"
    skills: SkillSet
    problems: tuple[ConfigProblem, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [make_skills_view(self.skills, self.problems)]
