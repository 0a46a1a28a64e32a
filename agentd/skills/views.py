"""Skills as answers and events show them."""

from collections.abc import Iterable

from msgspec import Struct

from agentd.core.errors import ConfigProblem
from agentd.skills.model import Skill, SkillSet


class SkillView(Struct, frozen=True, rename="camel"):
    """A skill without its text."""

    name: str
    description: str
    source: str
    """Its file."""
    color: str
    default: bool


class SkillsView(Struct, frozen=True, rename="camel"):
    """All skills in their order; also the argument of ``skillsUpdate``."""

    skills: list[SkillView]
    default: str
    problems: tuple[ConfigProblem, ...]


def make_skill_view(skill: Skill, default: str) -> SkillView:
    """Return a skill as responses and events show it."""
    source = f"{skill.folder}/SKILL.md"
    return SkillView(skill.name, skill.description, source, skill.color, skill.name == default)


def make_skills_view(skills: SkillSet, problems: Iterable[ConfigProblem]) -> SkillsView:
    """Make the view of all skills for answers and events."""
    views = [make_skill_view(skill, skills.default) for skill in skills.all]
    return SkillsView(views, skills.default, tuple(problems))
