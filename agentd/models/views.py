"""The views of models in responses and events: one shape for each, on every surface."""

from collections.abc import Iterable

from msgspec import Struct

from agentd.core.errors import ConfigProblem
from agentd.llm.price import Prices
from agentd.models.model import Model, Models


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
    problems: tuple[ConfigProblem, ...]


def make_model_view(model: Model, default: str) -> ModelView:
    """Return a model as responses and events show it."""
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


def make_models_view(models: Models, problems: Iterable[ConfigProblem]) -> ModelsView:
    """Make the view of all models for events."""
    views = [make_model_view(model, models.default) for model in models.models]
    return ModelsView(views, models.default, tuple(problems))
