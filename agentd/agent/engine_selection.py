"""Choosing the engine and the model for a prompt."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct

from agentd.agent.engine import Engine
from agentd.core.errors import BadRequest, Conflict, NotFound
from agentd.http.access import Caller, require_answers
from agentd.models.model import Model, Models
from agentd.models.program_state import PLAN_MODE, ProgramAccess, ProgramMode, ProgramStates

FOLLOWS_SCHEMAS = ("native", "codex", "claude-code")
"""The engines whose replies can be held to an output schema."""


def explain_no_schema(engine: str) -> str:
    """Explain that an engine's replies cannot be held to an output schema."""
    known = ", ".join(FOLLOWS_SCHEMAS)
    return f"The engine {engine} cannot hold its reply to an output schema; {known} can."


def explain_no_mode(engine: str, mode: str, modes: Iterable[ProgramMode]) -> str:
    """Explain that an engine's program has no such mode."""
    known = ", ".join(one.id for one in modes)
    has = f"it has {known}" if known else "it has none"
    return f"The engine {engine} has no mode {mode[:100]!r}; {has}."


class EngineChoice(Struct, frozen=True):
    """An engine and its model; without ``engine`` there is a ``problem``."""

    name: str
    """The engine's name, for the journal."""
    engine: Engine | None = None
    model: Model | None = None
    """None: the engine's own default."""
    problem: str = ""
    """Why the prompt cannot be run, for the person who sent it."""


class EngineRegistry:
    """The configured engines; ``default`` and ``models`` return the current settings.

    ``programs`` knows the modes of their programs.

    ``make`` is called once, for the first choice, since engines import much code.
    """

    def __init__(
        self,
        make: Callable[[], Mapping[str, Engine]],
        default: Callable[[], str],
        models: Callable[[], Models],
        programs: ProgramStates,
    ) -> None:
        self._make = make
        self._default = default
        self._models = models
        self._programs = programs

    def choose(self, wanted: str) -> EngineChoice:
        """Return the engine for a model name; empty: the default model, else the default engine."""
        models = self._models()
        name = wanted or models.default
        if not name:
            return self._build_choice(self._default(), None)
        try:
            model = models.find(name)
        except NotFound as error:
            end = "" if error.message.endswith("?") else "."
            return EngineChoice(
                "none", problem=f"{error.message}{end} Models are defined in models.yml."
            )
        return self._build_choice(model.engine, models.complete(model))

    def check_schema_support(self, model: str) -> None:
        """Raise ``BadRequest`` if the engine of a model cannot follow an output schema."""
        models = self._models()
        name = model or models.default
        known = name in models.names
        engine = models.find(name).engine if known else self._default()
        if (known or not name) and engine not in FOLLOWS_SCHEMAS:
            raise BadRequest(explain_no_schema(engine))

    def check_mode(self, model: str, mode: str, caller: Caller) -> None:
        """Raise ``Conflict`` if the program of a model has no such mode, or ``Forbidden``.

        Any but the plan mode may do unasked what agentd would ask a person.
        Nothing is known of the modes of an ACP agent before its first turn, nor of a model that is
        not there: then the turn tells.
        """
        if mode != PLAN_MODE.id:
            require_answers(caller)
        access = self._find_access(model)
        if access and (problem := self.find_mode_problem(access, mode)):
            raise Conflict(problem)

    def list_modes(self, model: str) -> tuple[ProgramMode, ...]:
        """Return the known modes of a model's program; empty: of the default model's."""
        access = self._find_access(model)
        return self._programs.get(access).modes if access else ()

    def find_mode_problem(self, access: ProgramAccess, mode: str) -> str:
        """Explain why a program cannot work in a mode; empty: it can, or may be able to."""
        modes = self._programs.get(access).modes
        if any(one.id == mode for one in modes) or (access.engine == "acp" and not modes):
            return ""
        return explain_no_mode(access.engine, mode, modes)

    def _find_access(self, model: str) -> ProgramAccess | None:
        """Return how a model's program reaches it, or None if there is no such model."""
        models = self._models()
        name = model or models.default
        if name and name not in models.names:
            return None
        return ProgramAccess.of(self._default(), models.find(name) if name else None)

    @cached_property
    def _engines(self) -> Mapping[str, Engine]:
        return self._make()

    def _build_choice(self, name: str, model: Model | None) -> EngineChoice:
        engine = self._engines.get(name)
        if engine is None:
            return EngineChoice(name, problem=f"The engine {name} is not set up on this host.")
        return EngineChoice(name, engine, model)
