"""The first run in a browser: which engines are here, whether one works, and using it.

Endpoints and routes of ``/api/setup``, for administrators.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.app.engine_inspection import (
    CODING_AGENTS,
    CodingAgent,
    EngineStatus,
    find_installed_agents,
    inspect_engines,
    list_program_models,
)
from agentd.core.errors import AgentdError, BadRequest, ConfigError, Conflict, NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.models_list import fetch_models, fetch_offered_models
from agentd.models.default_writer import write_default
from agentd.models.model import (
    LEAST_CONTEXT,
    LEAST_OUTPUT,
    MAX_OUTPUT,
    Model,
    Models,
    Supplier,
)
from agentd.settings.model import Settings
from agentd.storage import secret_ref
from agentd.storage.layout import Layout
from agentd.system.process import build_environment

MAX_LISTED_MODELS = 500
"""The most models of a supplier that are listed."""

ProgramName: TypeAlias = Literal["codex", "claude", "opencode", "gemini"]


class InstalledAgentView(Struct, frozen=True, rename="camel"):
    """A coding agent that is installed on this machine."""

    program: str
    title: str
    path: str
    version: str
    """Empty: the program does not report it."""
    signed_in: bool
    """True if its sign-in was found; it may have another, such as a key in its settings."""
    sign_in: str
    """The command that signs in."""


class SetupView(Struct, frozen=True, rename="camel"):
    """The state of the first run."""

    workspace: str
    """The folder that the agent works in."""
    default: str
    """The model of chats that name none; empty: ``engine`` decides."""
    engine: str
    agents: list[InstalledAgentView]


class SupplierChoice(Supplier, frozen=True, kw_only=True):
    """A supplier, and which of its models."""

    model: Annotated[str, Meta(max_length=200)] = ""


class EngineChoiceRequest(Struct, frozen=True):
    """The engine to use: an installed program, a supplier, or without both the offline engine."""

    program: ProgramName | None = None
    supplier: SupplierChoice | None = None


class TrialStep(Struct, frozen=True):
    """A step of a trial."""

    name: str
    ok: bool
    detail: str = ""


class TrialView(Struct, frozen=True):
    """The steps of a trial, in order; the last step is the failed one, if any."""

    ok: bool
    steps: list[TrialStep]
    seconds: float
    models: list[str]
    """The models that the supplier or the program lists."""


class UsedModelView(Struct, frozen=True):
    """The model that answers in chats that name none."""

    model: str


class SetupEndpoints:
    """Find engines, try one, use it. ``refresh`` takes up a change of ``models.yml``."""

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        settings: Callable[[], Settings],
        models: Callable[[], Models],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        self._layout = layout
        self._environ = environ
        self._settings = settings
        self._models = models
        self._refresh = refresh
        self._trying = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def get_setup(self, _: Request) -> Response:
        """Return the engines of this machine and which one is used."""
        await self._refresh()
        installed = await asyncio.to_thread(find_installed_agents)
        found = await asyncio.gather(*(self._describe(*one) for one in installed))
        now = self._settings()
        folder = await asyncio.to_thread(os.path.realpath, now.workspace)
        return Response(SetupView(folder, self._models().default, now.engine, list(found)))

    async def try_engine(self, request: Request) -> Response:
        """Start a program as a turn would, or ask a supplier for its models: no prompt is sent."""
        choice = _parse_choice(request)
        async with self._trying:
            began = asyncio.get_running_loop().time()
            if choice.supplier:
                steps, names = await self._try_supplier(choice.supplier)
            elif choice.program:
                agent = _find_agent(choice.program)
                steps = await self._try_program(agent)
                names = await self._list_models(agent) if all(one.ok for one in steps) else []
            else:
                steps, names = [TrialStep("built in", True)], list[str]()
            seconds = asyncio.get_running_loop().time() - began
        ok = all(step.ok for step in steps)
        return Response(TrialView(ok, steps, round(seconds, 2), names))

    async def use_engine(self, request: Request) -> Response:
        """Make it the default, in ``models.yml``."""
        choice = _parse_choice(request)
        model, supplier = _get_model(choice)
        if supplier:
            model = await self._add_sizes(model, supplier)
        async with self._writing:
            try:
                written = await asyncio.to_thread(
                    partial(write_default, self._layout, model, supplier)
                )
            except ConfigError as error:
                raise BadRequest("This cannot be written to models.yml", error.message) from error
            await self._refresh()
        return Response(UsedModelView(written.default))

    async def _add_sizes(self, model: Model, supplier: Supplier) -> Model:
        """Return the model with the sizes that its supplier tells, if it does."""
        upstream = HttpUpstream()
        try:
            key = await self._resolve_key(supplier)
            offered = await fetch_offered_models(upstream, supplier.dialect, supplier.url, key)
        except AgentdError:  # whether it answers was tried before
            return model
        finally:
            await upstream.close()
        found = next((one for one in offered.models if one.name == model.model), None)
        if found is None:
            return model
        context, longest = found.context or 0, found.max_output or 0
        return structs.replace(
            model,
            context=context if context >= LEAST_CONTEXT else None,
            max_output=longest if LEAST_OUTPUT <= longest <= MAX_OUTPUT else None,
        )

    async def _resolve_key(self, supplier: Supplier) -> str:
        return await asyncio.to_thread(
            secret_ref.resolve_secret, supplier.key, self._environ, "key", "the supplier's"
        )

    async def _describe(self, path: str, agent: CodingAgent) -> InstalledAgentView:
        status = await self._inspect(agent, online=False)
        signed_in = await asyncio.to_thread(_is_signed_in, agent)
        return InstalledAgentView(
            agent.program, agent.title, path, status.version, signed_in, agent.sign_in
        )

    async def _inspect(self, agent: CodingAgent, *, online: bool) -> EngineStatus:
        # Alone: the settings and models that there are may name programs that hang.
        settings = structs.replace(self._settings(), engine="native")
        models = Models(models=(agent.model,))
        (status,) = await inspect_engines(settings, models, self._environ, online=online)
        return status

    async def _try_program(self, agent: CodingAgent) -> list[TrialStep]:
        status = await self._inspect(agent, online=True)
        if not status.where:
            return [TrialStep("found", False, status.problem)]
        steps = [TrialStep("found", True, status.where)]
        if not status.version and status.problem:
            return [*steps, TrialStep("starts", False, status.problem)]
        steps.append(TrialStep("starts", True, status.version))
        return [*steps, TrialStep("speaks its protocol", not status.problem, status.problem)]

    async def _list_models(self, agent: CodingAgent) -> list[str]:
        found = await list_program_models(self._settings(), agent.model, self._environ)
        return found[:MAX_LISTED_MODELS]

    async def _try_supplier(self, supplier: SupplierChoice) -> tuple[list[TrialStep], list[str]]:
        upstream = HttpUpstream()
        try:
            key = await self._resolve_key(supplier)
            listed = await fetch_models(upstream, supplier.dialect, supplier.url, key)
        except NotFound as error:  # it answers, which is all that can be seen without a prompt
            return [TrialStep("answers", True, error.message)], []
        except AgentdError as error:
            return [TrialStep("answers", False, error.message)], []
        finally:
            await upstream.close()
        names = sorted(listed.names)[:MAX_LISTED_MODELS]
        steps = [TrialStep("answers", True), TrialStep("accepts the key", True)]
        if supplier.model and listed.all:
            known = supplier.model in listed.names
            steps.append(
                TrialStep("has the model", known, "" if known else f"no {supplier.model} listed")
            )
        return steps, names


def _parse_choice(request: Request) -> EngineChoiceRequest:
    choice = request.parse_json(EngineChoiceRequest)
    if choice.program and choice.supplier:
        raise BadRequest("Choose a program or a supplier, not both")
    return choice


def _find_agent(program: str) -> CodingAgent:
    return next(agent for agent in CODING_AGENTS if agent.program == program)


def _get_model(choice: EngineChoiceRequest) -> tuple[Model, Supplier | None]:
    if choice.program:
        return _find_agent(choice.program).model, None
    if choice.supplier is None:
        return Model(name="offline", engine="offline"), None
    if not choice.supplier.model.strip():
        raise BadRequest("Which model of the supplier? Name one.")
    model = choice.supplier.model.strip()
    supplier = Supplier(choice.supplier.dialect, choice.supplier.url, choice.supplier.key)
    return Model(name=model, engine="native", model=model), supplier


def _is_signed_in(agent: CodingAgent) -> bool:
    home = build_environment().get("HOME", "")
    return any(os.path.isfile(os.path.join(home, path)) for path in agent.credentials)


def routes(endpoints: SetupEndpoints) -> tuple[Route, ...]:
    """Return the routes of the first run."""
    group, path = RouteGroup.EXTENDED, "/api/setup"
    return (
        Route(
            "GET",
            path,
            group,
            endpoints.get_setup,
            "The coding agents that are installed, and which engine is used.",
            response_type=SetupView,
            role="administrator",
        ),
        Route(
            "POST",
            f"{path}/try",
            group,
            endpoints.try_engine,
            "Try an engine without a prompt: start it, or ask a supplier for its models.",
            request_type=EngineChoiceRequest,
            response_type=TrialView,
            errors=(BadRequest,),
            role="administrator",
        ),
        Route(
            "POST",
            f"{path}/use",
            group,
            endpoints.use_engine,
            "Use an engine for chats that name no model; written to models.yml.",
            request_type=EngineChoiceRequest,
            response_type=UsedModelView,
            errors=(BadRequest, Conflict, Unavailable),
            role="administrator",
        ),
    )
