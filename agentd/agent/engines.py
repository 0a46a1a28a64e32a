"""Which engine carries out a prompt, and with which model."""

from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import Struct, structs

from agentd.agent.engine import Engine
from agentd.catalog.models import GATEWAY, Model, Models
from agentd.errors import NotFound


class Choice(Struct, frozen=True):
    """An engine, and the model that it is to use; without ``engine`` a ``problem``."""

    name: str
    """The engine's name, for the journal."""
    engine: Engine | None = None
    model: Model | None = None
    """None: the engine's own default."""
    problem: str = ""
    """Why the prompt cannot be carried out, for the person who sent it."""


class Engines:
    """The engines that are configured; ``default`` and ``models`` tell what the files say now.

    ``make`` is called for the first choice, and once: engines are much code.
    """

    def __init__(
        self,
        make: Callable[[], Mapping[str, Engine]],
        default: Callable[[], str],
        models: Callable[[], Models],
    ) -> None:
        self._make = make
        self._default = default
        self._models = models

    def choose(self, wanted: str) -> Choice:
        """The engine for a model's name; empty: the default model, else the default engine."""
        models = self._models()
        name = wanted or models.default
        if not name:
            return self._with(self._default(), None)
        try:
            model = models.find(name)
        except NotFound as error:
            return Choice("none", problem=f"{error.message} It would stand in models.yml.")
        if model.supplier == GATEWAY and model.prices is None:
            model = structs.replace(model, prices=models.gateway_prices(model.model))
        return self._with(model.engine, model)

    @cached_property
    def _engines(self) -> Mapping[str, Engine]:
        return self._make()

    def _with(self, name: str, model: Model | None) -> Choice:
        engine = self._engines.get(name)
        if engine is None:
            return Choice(name, problem=f"The engine {name} is not set up on this host.")
        return Choice(name, engine, model)
