"""What answers and events show of the skills and models: one shape for each, on every surface."""

from collections.abc import Iterable

from msgspec import Struct

from agentd.catalog.models import Model, Models
from agentd.catalog.skills import Skill, Skills
from agentd.errors import Mistake
from agentd.proxy.price import Prices


class ModelView(Struct, frozen=True, rename="camel"):
    """A model of ``models.yml``; nothing of its supplier but the name."""

    name: str
    engine: str
    model: str
    supplier: str
    effort: str
    context: int | None
    prices: Prices | None
    default: bool


class ModelsView(Struct, frozen=True, rename="camel"):
    """The argument of ``modelsUpdate``: all models in the file's order."""

    models: list[ModelView]
    default: str
    mistakes: tuple[Mistake, ...]


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
    mistakes: tuple[Mistake, ...]


def model_view(model: Model, default: str) -> ModelView:
    """A model as answers and events show it."""
    return ModelView(
        name=model.name,
        engine=model.engine,
        model=model.model,
        supplier=model.supplier,
        effort=model.effort,
        context=model.context,
        prices=model.prices,
        default=model.name == default,
    )


def models_view(models: Models, mistakes: Iterable[Mistake]) -> ModelsView:
    """All models as events show them."""
    told = [model_view(model, models.default) for model in models.models]
    return ModelsView(told, models.default, tuple(mistakes))


def skill_view(skill: Skill, default: str) -> SkillView:
    """A skill as answers and events show it."""
    source = f"{skill.folder}/SKILL.md"
    return SkillView(skill.name, skill.description, source, skill.color, skill.name == default)


def skills_view(skills: Skills, mistakes: Iterable[Mistake]) -> SkillsView:
    """All skills as answers and events show them."""
    told = [skill_view(skill, skills.default) for skill in skills.all]
    return SkillsView(told, skills.default, tuple(mistakes))
