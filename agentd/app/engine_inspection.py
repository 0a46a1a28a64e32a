"""The engines that the configuration names: where each is, its version, whether it is ready."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

from msgspec import Struct, structs

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.external.common import ModelEndpoint, WorkspaceBounds
from agentd.agent.suppliers import SupplierDirectory
from agentd.core.errors import AgentdError, ConfigError
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.models_list import fetch_models
from agentd.models.model import GATEWAY, EngineName, Model, Models, Supplier
from agentd.models.store import read_supplier_key
from agentd.settings.model import Settings
from agentd.system.process import build_environment, run

VERSION_SECONDS = 15.0
"""The seconds a program may take to print its version."""
LISTING_SECONDS = 20.0
"""The seconds a program may take to list its models."""
HANDSHAKE_SECONDS = 60.0
"""The seconds a program may take to answer the handshake of a turn."""


class CodingAgent(Struct, frozen=True):
    """A coding agent that agentd can start, as one usually installs it."""

    program: str
    title: str
    engine: EngineName
    arguments: tuple[str, ...]
    """The arguments of its program; empty: as in the settings."""
    credentials: tuple[str, ...]
    """Files of the home folder, one of which is there once somebody has signed in."""
    sign_in: str
    """The command that signs in."""

    @property
    def model(self) -> Model:
        """The entry for ``models.yml``."""
        command = (self.program, *self.arguments) if self.arguments else ()
        return Model(name=self.program, engine=self.engine, command=command)


CODING_AGENTS = (
    CodingAgent("codex", "Codex", "codex", (), (".codex/auth.json",), "codex login"),
    CodingAgent(
        "claude",
        "Claude Code",
        "claude-code",
        (),
        (".claude/.credentials.json",),
        "claude",
    ),
    CodingAgent(
        "opencode",
        "opencode",
        "acp",
        ("acp",),
        (".local/share/opencode/auth.json",),
        "opencode auth login",
    ),
    CodingAgent(
        "gemini",
        "Gemini CLI",
        "acp",
        ("--acp",),
        (".gemini/oauth_creds.json",),
        "gemini",
    ),
)
"""The programs to look for in ``PATH``."""

TESTED_VERSIONS: Mapping[str, str] = {
    "codex": "0.171.0",
    "claude": "2.1.332",
    "opencode": "1.18.33",
    "codex-acp": "2.6.0",
}
"""The versions of programs that agentd is tested with, by the program's name."""

_COMMANDS = {"codex": "codex_command", "claude-code": "claude_command", "acp": "acp_command"}
_MAX_VERSION = 100
"""Characters of a version that are shown."""


class EngineStatus(Struct, frozen=True):
    """An engine with its program, or with the supplier that it calls."""

    engine: str
    models: tuple[str, ...]
    """The models of ``models.yml`` that use it; empty: only the settings name it."""
    where: str = ""
    """The program's path, or the supplier's URL."""
    version: str = ""
    problem: str = ""
    """Why it is not ready; empty if no problem was found without sending a prompt."""

    def __str__(self) -> str:
        """Describe it in one line."""
        parts = [self.where, self.version, ", ".join(self.models)]
        details = "; ".join(part for part in parts if part)
        state = f"not ready: {self.problem}" if self.problem else "ready"
        return f"engine {self.engine}: {state}" + (f" ({details})" if details else "")


async def inspect_engines(
    settings: Settings, models: Models, environ: Mapping[str, str], *, online: bool = False
) -> list[EngineStatus]:
    """Inspect every engine that the settings and ``models.yml`` name.

    ``online`` calls the suppliers and starts each program as a turn would, without a prompt;
    otherwise programs are asked for their version only. A supplier's key is read from
    ``environ``, which may differ from the daemon's environment.
    """
    handshake = _HandshakeProbe(settings, models, environ).find_problem if online else None
    inspections = [
        _inspect_program(engine, names, target, handshake)
        if engine in _COMMANDS
        else _inspect_supplier(engine, names, target, models.suppliers, environ, online=online)
        for (engine, target, _), names in _group_models(settings, models).items()
    ]
    return list(await asyncio.gather(*inspections))


async def inspect_all_engines(
    settings: Settings, models: Models, environ: Mapping[str, str]
) -> list[EngineStatus]:
    """Inspect the named engines and, by their usual programs, those that nothing names."""
    named = await inspect_engines(settings, models, environ)
    known = {status.engine for status in named}
    others = [
        _inspect_program(engine, (), str(getattr(settings, setting)[0]), None)
        for engine, setting in _COMMANDS.items()
        if engine not in known
    ]
    return [*named, *await asyncio.gather(*others)]


async def list_program_models(
    settings: Settings, model: Model, environ: Mapping[str, str]
) -> list[str]:
    """Return the models that a model's program offers; no prompt is sent.

    Empty if it fails, or takes too long.
    """
    probe = _HandshakeProbe(settings, Models(models=(model,)), environ)
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            return await probe.list_models(model)
    except (AgentdError, TimeoutError):
        return []


class _HandshakeProbe:
    """Starts the engines' programs as the daemon would."""

    def __init__(self, settings: Settings, models: Models, environ: Mapping[str, str]) -> None:
        # Imported when it is needed: it is much code, and the daemon's start does not wait for it.
        from agentd.app.engines import build_program_engines  # noqa: PLC0415

        suppliers = SupplierDirectory(lambda: models, environ)
        suppliers.gateway = ModelEndpoint(f"http://127.0.0.1:{settings.port}")  # it is not called
        limited = structs.replace(settings, silence_seconds=HANDSHAKE_SECONDS)
        self._folder = settings.workspace
        self._models = models
        self._engines = build_program_engines(
            WorkspaceBounds(settings.workspace), lambda: limited, suppliers
        )

    async def find_problem(self, engine: str, name: str) -> str:
        """Explain why a turn with this model, or with none, would fail at once; empty if not."""
        model = self._models.find(name) if name else None
        return await self._engines[engine].find_problem(_make_request(model))

    async def list_models(self, model: Model) -> list[str]:
        """Return the models that the program of a model offers."""
        from agentd.agent.engines.acp.model_list import AcpModelListing  # noqa: PLC0415
        from agentd.agent.engines.claude_code.model_list import ClaudeModelListing  # noqa: PLC0415
        from agentd.agent.engines.codex.model_list import CodexModelListing  # noqa: PLC0415

        listing = (
            CodexModelListing()
            if model.engine == "codex"
            else ClaudeModelListing()
            if model.engine == "claude-code"
            else AcpModelListing(self._folder)
        )
        return await self._engines[model.engine].list_models(_make_request(model), listing)


def _make_request(model: Model | None) -> TurnRequest:
    """Return the request of a turn without a prompt."""
    return TurnRequest(
        chat_id=0,
        prompt="",
        model=model.model if model else "",
        supplier=model.supplier if model else "",
        command=model.command if model else (),
        turn_tag=f"check-{uuid4().hex}",
    )


def find_program(program: str) -> str:
    """Return the path of a program as an engine would find it; empty if there is none."""
    return shutil.which(program, path=build_environment().get("PATH")) or ""


def _group_models(
    settings: Settings, models: Models
) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Return the models by engine, target (a program, or else the supplier) and supplier."""
    grouped: dict[tuple[str, str, str], tuple[str, ...]] = {}
    if settings.engine != "native":  # which needs a model, so it is below
        grouped[settings.engine, _get_target(settings, None), ""] = ()
    for model in models.models:
        group = model.engine, _get_target(settings, model), model.supplier
        grouped[group] = (*grouped.get(group, ()), model.name)
    return grouped


def _get_target(settings: Settings, model: Model | None) -> str:
    engine = model.engine if model else settings.engine
    if setting := _COMMANDS.get(engine):
        command = (model.command if model else ()) or getattr(settings, setting)
        return str(command[0])
    return model.supplier if model else ""


async def _inspect_program(
    engine: str,
    names: tuple[str, ...],
    program: str,
    handshake: Callable[[str, str], Awaitable[str]] | None,
) -> EngineStatus:
    path = await asyncio.to_thread(find_program, program)
    if not path:
        missing = f"the program {program} is not installed, or not in PATH"
        return EngineStatus(engine, names, problem=missing)
    try:
        output = await run([path, "--version"], folder=os.sep, timeout=VERSION_SECONDS, limit=4096)
    except AgentdError as error:
        return EngineStatus(engine, names, path, problem=error.message)
    if output.late:
        return EngineStatus(
            engine, names, path, problem=f"no version within {VERSION_SECONDS:g} seconds"
        )
    if output.code:
        problem = f"{program} --version ended with exit code {output.code}"
        return EngineStatus(engine, names, path, problem=problem)
    problem = await handshake(engine, names[0] if names else "") if handshake else ""
    return EngineStatus(engine, names, path, parse_version(output.output), problem)


def parse_version(output: bytes) -> str:
    """Return the first line of what a program says about its version, made safe to show."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    line = lines[0] if lines else ""
    return "".join(letter for letter in line if letter.isprintable())[:_MAX_VERSION]


async def _inspect_supplier(
    engine: str,
    names: tuple[str, ...],
    name: str,
    suppliers: Mapping[str, Supplier],
    environ: Mapping[str, str],
    *,
    online: bool,
) -> EngineStatus:
    if not name:
        return EngineStatus(engine, names)
    if name == GATEWAY:
        return EngineStatus(engine, names, "the gateway of this daemon")
    supplier = suppliers[name]
    try:
        key = await asyncio.to_thread(read_supplier_key, name, supplier, environ)
    except ConfigError as error:
        return EngineStatus(engine, names, supplier.url, problem=str(error))
    problem = await _find_supplier_problem(supplier, key) if online else ""
    return EngineStatus(engine, names, supplier.url, problem=problem)


async def _find_supplier_problem(supplier: Supplier, key: str) -> str:
    """Explain why the supplier does not list its models; empty if it does."""
    upstream = HttpUpstream()
    try:
        await fetch_models(upstream, supplier.dialect, supplier.url, key)
    except AgentdError as error:
        return error.message
    finally:
        await upstream.close()
    return ""


def find_installed_agents() -> list[tuple[str, CodingAgent]]:
    """Return the path of each coding agent that is installed, and how it is used."""
    return [(path, agent) for agent in CODING_AGENTS if (path := find_program(agent.program))]
