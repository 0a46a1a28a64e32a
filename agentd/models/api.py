"""The models as the extended surface lists and selects them.

Source: the remote-control specification, section 4, 'Extended surface'; fields are ours.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct, structs

from agentd.chats.records import ChatChanged
from agentd.chats.service import ChatService
from agentd.chats.views import Id, Name
from agentd.core.errors import BadRequest, ConfigProblem, Conflict, Forbidden, NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.models.model import Model, Models
from agentd.models.program_state import (
    EngineStateView,
    ProgramAccess,
    ProgramStates,
    ProgramStateView,
)
from agentd.models.views import ModelView, make_model_view

LOOK_AGAIN = 1.0
"""Seconds for which the problems of models are cached: less than it takes a person to mend one."""


class ModelStatusView(ModelView, frozen=True, rename="camel"):
    """A model, and whether it can be used now, according to cheap checks."""

    available: bool
    problem: str
    """Why it cannot be used, such as a missing program or key; empty if no problem was found."""
    program: ProgramStateView
    """The state of its engine's program."""


class ModelStatusList(Struct, frozen=True, rename="camel"):
    """All models in the file's order."""

    models: list[ModelStatusView]
    default: str
    """The model of chats that name none; empty: ``default_engine`` is used without one."""
    default_engine: EngineStateView
    """The engine of the settings."""
    problems: tuple[ConfigProblem, ...]
    suppliers: tuple[str, ...]
    """The names that a model's ``supplier`` may have, beside ``agentd``."""


class SelectModel(Struct, frozen=True, rename="camel"):
    """The model of a chat, or without one the default model; empty: none."""

    model: Name
    chat_id: Id | None = None


class SelectedModelView(Struct, frozen=True, rename="camel"):
    """The selected model."""

    model: str
    chat_id: Id | None


class ModelFile(Protocol):
    """The current contents of ``models.yml`` (``storage.watched_file.WatchedFile``)."""

    @property
    def current(self) -> Models:
        """The models in force."""
        ...

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """The problems in the file."""
        ...

    async def refresh(self) -> None:
        """Take up what the file says at the request."""
        ...


class DefaultModelWriter(Protocol):
    """Keeps the default (``settings.defaults_writer.DefaultsWriter``)."""

    async def set_default_model(self, name: str) -> None:
        """Set the default model of chats; empty: none."""
        ...


class ModelWriter(Protocol):
    """Changes the models of the file (``storage.yaml.entries.WatchedEntries``)."""

    async def add(self, model: Model) -> Model:
        """Add a model at the end."""
        ...

    async def change(self, name: str, revise: Callable[[Model], Model]) -> Model:
        """Replace the model of this name by what ``revise`` returns; it may be renamed."""
        ...

    async def remove(self, name: str) -> Model:
        """Remove the model of this name."""
        ...


class ModelEndpoints:
    """The endpoints below ``/api/models``.

    ``find_problem`` returns why a model cannot be used, ``default_engine`` the engine of chats
    without one.
    """

    def __init__(
        self,
        chats: ChatService,
        file: ModelFile,
        choices: DefaultModelWriter,
        entries: ModelWriter,
        find_problem: Callable[[Model], Awaitable[str]],
        programs: ProgramStates,
        default_engine: Callable[[], str],
    ) -> None:
        self._chats = chats
        self._file = file
        self._choices = choices
        self._entries = entries
        self._find_problem = find_problem
        self._programs = programs
        self._default_engine = default_engine
        self._looked = -LOOK_AGAIN
        self._seen: tuple[Models, list[str]] | None = None

    async def list_models(self, _: Request) -> Response:
        """List all models with their prices and whether they can be used."""
        await self._file.refresh()
        models = self._file.current
        shown = [
            ModelStatusView(
                **structs.asdict(make_model_view(model, models.default)),
                available=not problem,
                problem=problem,
                program=self._programs.get(ProgramAccess.of(model.engine, model)),
            )
            for model, problem in zip(models.models, await self._find_problems(models), strict=True)
        ]
        name = self._default_engine()
        return Response(
            ModelStatusList(
                shown,
                models.default,
                EngineStateView(name, self._programs.get(ProgramAccess(name))),
                self._file.problems,
                tuple(models.suppliers),
            )
        )

    async def get_model(self, request: Request) -> Response:
        """Return a model as the file has it."""
        await self._file.refresh()
        return Response(self._file.current.find(request.get_name()))

    async def add_model(self, request: Request) -> Response:
        """Add a model."""
        return Response(await self._entries.add(request.parse_json(Model)), 201)

    async def replace_model(self, request: Request) -> Response:
        """Replace a model, possibly under another name."""
        name, model = request.get_name(), request.parse_json(Model)
        await self._file.refresh()
        if name == self._file.current.default != model.name:
            raise Conflict(
                f'"{name[:100]}" is the default model', "Choose another default, then rename it."
            )
        return Response(await self._entries.change(name, lambda _: model))

    async def remove_model(self, request: Request) -> Response:
        """Remove a model; chats that name it report that when they should run."""
        name = request.get_name()
        await self._file.refresh()
        if name == self._file.current.default:
            raise Conflict(
                f'"{name[:100]}" is the default model', "Choose another default, then remove it."
            )
        await self._entries.remove(name)
        return Response(status=204)

    async def select_model(self, request: Request) -> Response:
        """Set the model of one chat, or the default model."""
        body = request.parse_json(SelectModel)
        await self._file.refresh()
        if body.model:
            self._file.current.find(body.model)
        if body.chat_id is None:
            await self._choices.set_default_model(body.model)
        else:
            await self._chats.change_chat(
                body.chat_id, ChatChanged(model=body.model), request.caller.identity
            )
        return Response(SelectedModelView(body.model, body.chat_id))

    async def _find_problems(self, models: Models) -> list[str]:
        """Return the problem of each; checked again after a change of the file, or a while."""
        now = asyncio.get_running_loop().time()
        if not self._seen or self._seen[0] is not models or now - self._looked >= LOOK_AGAIN:
            problems = await asyncio.gather(*map(self._find_problem, models.models))
            self._seen, self._looked = (models, problems), now
            return problems
        return self._seen[1]


SECTION = "4, extended surface"
"""The section of the remote-control specification."""


def routes(endpoints: ModelEndpoints) -> tuple[Route, ...]:
    """Return the routes of models."""
    return (
        Route(
            "GET",
            "/api/models",
            RouteGroup.EXTENDED,
            endpoints.list_models,
            "The models, what they cost and whether they can be used.",
            operation_id="list_models",
            response_type=ModelStatusList,
            section=SECTION,
        ),
        Route(
            "POST",
            "/api/models/select",
            RouteGroup.EXTENDED,
            endpoints.select_model,
            "Select a chat's model, or without a chat the default model.",
            request_type=SelectModel,
            response_type=SelectedModelView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=SECTION,
        ),
        *_edit_routes(endpoints),
    )


def _edit_routes(endpoints: ModelEndpoints) -> tuple[Route, ...]:
    """Return the routes that change models: a model's command is a program that is started."""
    one = "/api/models/{name}"
    wrong = (BadRequest, Forbidden, NotFound, Conflict, Unavailable)
    example = {"name": "fast", "engine": "native", "model": "gpt-5-mini", "supplier": "openai"}
    return (
        Route(
            "POST",
            "/api/models",
            RouteGroup.EXTENDED,
            endpoints.add_model,
            "Add a model to models.yml.",
            request_type=Model,
            example=example,
            response_type=Model,
            status=201,
            errors=(BadRequest, Forbidden, Conflict, Unavailable),
            role="administrator",
        ),
        Route(
            "GET",
            one,
            RouteGroup.EXTENDED,
            endpoints.get_model,
            "One model as models.yml has it.",
            response_type=Model,
            errors=(Forbidden, NotFound),
            role="administrator",
        ),
        Route(
            "PUT",
            one,
            RouteGroup.EXTENDED,
            endpoints.replace_model,
            "Replace a model in models.yml; absent fields become empty.",
            request_type=Model,
            example=example,
            response_type=Model,
            errors=wrong,
            role="administrator",
        ),
        Route(
            "DELETE",
            one,
            RouteGroup.EXTENDED,
            endpoints.remove_model,
            "Remove a model from models.yml, unless it is the default.",
            status=204,
            errors=wrong,
            role="administrator",
        ),
    )
