"""The running software: the version, its licence, and the engines with their versions."""

import asyncio
import platform
from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from agentd import __version__
from agentd.app.engine_inspection import EngineStatus, inspect_all_engines
from agentd.core.clock import Clock
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.models.model import Models
from agentd.models.program_state import ProgramAccess, ProgramStates, ProgramStateView
from agentd.settings.model import Settings

LOOK_AGAIN = 30.0
"""Seconds for which the versions of programs are remembered: each costs a process."""


class AboutEngineView(EngineStatus, frozen=True, kw_only=True):
    """An engine with the state of its program."""

    program: ProgramStateView


class AboutView(Struct, frozen=True, rename="camel"):
    """The daemon and its engines."""

    version: str
    python: str
    """The version of Python, with the operating system."""
    licence: str
    engines: tuple[AboutEngineView, ...]
    """The engines that the settings or ``models.yml`` name, then the others."""


class AboutEndpoints:
    """The endpoint. ``settings`` and ``models`` return what is in force."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        models: Callable[[], Models],
        environ: Mapping[str, str],
        clock: Clock,
        programs: ProgramStates,
    ) -> None:
        self._settings = settings
        self._models = models
        self._environ = environ
        self._clock = clock
        self._programs = programs
        self._lock = asyncio.Lock()
        self._seen: tuple[Settings, Models, float, list[EngineStatus]] | None = None

    async def get_about(self, _: Request) -> Response:
        """Return the version, and the engines with theirs."""
        async with self._lock:
            engines = await self._inspect()
        view = AboutView(
            __version__,
            f"{platform.python_version()} on {platform.system()} {platform.machine()}",
            "MIT",
            tuple(map(self._make_engine_view, engines)),
        )
        return Response(view)

    def _make_engine_view(self, status: EngineStatus) -> AboutEngineView:
        models = self._models()
        used = [one for one in models.models if one.name in status.models]
        access = ProgramAccess.of(status.engine, used[0] if used else None)
        return AboutEngineView(**structs.asdict(status), program=self._programs.get(access))

    async def _inspect(self) -> list[EngineStatus]:
        settings, models, now = self._settings(), self._models(), self._clock.monotonic()
        seen = self._seen
        if seen and seen[0] is settings and seen[1] is models and now - seen[2] < LOOK_AGAIN:
            return seen[3]
        engines = await inspect_all_engines(settings, models, self._environ)
        self._seen = settings, models, now, engines
        return engines


def routes(endpoints: AboutEndpoints) -> tuple[Route, ...]:
    """Return the route."""
    return (
        Route(
            "GET",
            "/api/about",
            RouteGroup.EXTENDED,
            endpoints.get_about,
            "The versions of agentd and of each engine, configured or not.",
            operation_id="get_about",
            response_type=AboutView,
        ),
    )
