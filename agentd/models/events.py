"""The events of models."""

from typing import ClassVar

from agentd.core.errors import ConfigProblem
from agentd.core.events import Event
from agentd.models.model import Models
from agentd.models.views import make_models_view


class ModelsUpdate(Event, frozen=True):
    """The models changed: ``models``."""

    name: ClassVar[str] = "modelsUpdate"
    models: Models
    problems: tuple[ConfigProblem, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [make_models_view(self.models, self.problems)]
