"""Which engines the files name, where each is, of which version, and whether it is ready."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from uuid import uuid4

from msgspec import Struct, structs

from agentd.agent.engine import Assignment
from agentd.agent.foreign import Bounds, Endpoint
from agentd.catalog.models import GATEWAY, Model, Models, Supplier
from agentd.catalog.settings import Settings
from agentd.daemon.engines import program_engines
from agentd.disk.models import supplier_key
from agentd.disk.suppliers import SupplierBook
from agentd.errors import AgentdError, Misconfigured
from agentd.outside.models_list import models_list
from agentd.outside.process import environment, run
from agentd.outside.upstream import HttpUpstream

VERSION_SECONDS = 15.0
"""How long a program may take to tell its version."""
GREETING_SECONDS = 60.0
"""How long a program may take to answer the handshake of a turn."""

_COMMANDS = {"codex": "codex_command", "claude-code": "claude_command", "acp": "acp_command"}
_LONGEST_VERSION = 100
"""Characters; what says more is no version."""


class EngineFound(Struct, frozen=True):
    """An engine with its program, or with the supplier that it calls."""

    engine: str
    models: tuple[str, ...]
    """Those of ``models.yml`` that it drives; empty: only the settings name it."""
    where: str = ""
    """The program's path, or the supplier's address."""
    version: str = ""
    problem: str = ""
    """Why it is not ready; empty: it is, as far as can be told without a prompt."""

    def __str__(self) -> str:
        """For a reader, in one line."""
        parts = [self.where, self.version, ", ".join(self.models)]
        told = "; ".join(part for part in parts if part)
        state = f"not ready: {self.problem}" if self.problem else "ready"
        return f"engine {self.engine}: {state}" + (f" ({told})" if told else "")


async def engines(
    settings: Settings, models: Models, environ: Mapping[str, str], *, online: bool = False
) -> list[EngineFound]:
    """All that the settings and ``models.yml`` name, each looked at.

    ``online`` calls the suppliers and greets each program as a turn would, without a prompt;
    otherwise programs are asked for their version only. A supplier's key is looked for in
    ``environ``, which may be another than the daemon's.
    """
    greet = _Greeter(settings, models, environ).find_problem if online else None
    looked = [
        _program(engine, names, target, greet)
        if engine in _COMMANDS
        else _supplier(engine, names, target, models.suppliers, environ, online=online)
        for (engine, target, _), names in _named(settings, models).items()
    ]
    return list(await asyncio.gather(*looked))


class _Greeter:
    """Starts the engines' programs as the daemon would."""

    def __init__(self, settings: Settings, models: Models, environ: Mapping[str, str]) -> None:
        book = SupplierBook(lambda: models, environ)
        book.gateway = Endpoint(f"http://127.0.0.1:{settings.port}")  # it is not called
        patience = structs.replace(settings, silence_seconds=GREETING_SECONDS)
        self._models = models
        self._engines = program_engines(Bounds(settings.workspace), lambda: patience, book)

    async def find_problem(self, engine: str, name: str) -> str:
        """Return why a turn of the model, or without one, would fail before its prompt."""
        model = self._models.find(name) if name else None
        assignment = Assignment(
            chat_id=0,
            prompt="",
            model=model.model if model else "",
            supplier=model.supplier if model else "",
            command=model.command if model else (),
            turn=f"check-{uuid4().hex}",
        )
        return await self._engines[engine].find_problem(assignment)


def found(program: str) -> str:
    """The path of a program as an engine would find it; empty when there is none."""
    return shutil.which(program, path=environment().get("PATH")) or ""


def _named(settings: Settings, models: Models) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Return the models that use each engine with each target and supplier.

    The target is a program, or else the supplier.
    """
    named: dict[tuple[str, str, str], tuple[str, ...]] = {}
    if settings.engine != "native":  # which needs a model, so it is below
        named[settings.engine, _target(settings, None), ""] = ()
    for model in models.models:
        place = model.engine, _target(settings, model), model.supplier
        named[place] = (*named.get(place, ()), model.name)
    return named


def _target(settings: Settings, model: Model | None) -> str:
    engine = model.engine if model else settings.engine
    if setting := _COMMANDS.get(engine):
        command = (model.command if model else ()) or getattr(settings, setting)
        return str(command[0])
    return model.supplier if model else ""


async def _program(
    engine: str,
    names: tuple[str, ...],
    program: str,
    greet: Callable[[str, str], Awaitable[str]] | None,
) -> EngineFound:
    path = await asyncio.to_thread(found, program)
    if not path:
        missing = f"the program {program} is not installed, or not in PATH"
        return EngineFound(engine, names, problem=missing)
    try:
        told = await run([path, "--version"], folder=os.sep, timeout=VERSION_SECONDS, limit=4096)
    except AgentdError as error:
        return EngineFound(engine, names, path, problem=error.message)
    if told.late:
        return EngineFound(
            engine, names, path, problem=f"no version within {VERSION_SECONDS:g} seconds"
        )
    if told.code:
        problem = f"{program} --version ended with exit code {told.code}"
        return EngineFound(engine, names, path, problem=problem)
    problem = await greet(engine, names[0] if names else "") if greet else ""
    return EngineFound(engine, names, path, _version(told.output), problem)


def _version(told: bytes) -> str:
    lines = told.decode("utf-8", "replace").strip().splitlines()
    line = lines[0] if lines else ""
    return "".join(letter for letter in line if letter.isprintable())[:_LONGEST_VERSION]


async def _supplier(
    engine: str,
    names: tuple[str, ...],
    name: str,
    suppliers: Mapping[str, Supplier],
    environ: Mapping[str, str],
    *,
    online: bool,
) -> EngineFound:
    if not name:
        return EngineFound(engine, names)
    if name == GATEWAY:
        return EngineFound(engine, names, "the gateway of this daemon")
    supplier = suppliers[name]
    try:
        key = await asyncio.to_thread(supplier_key, name, supplier, environ)
    except Misconfigured as error:
        return EngineFound(engine, names, supplier.url, problem=str(error))
    problem = await _why_not_answering(supplier, key) if online else ""
    return EngineFound(engine, names, supplier.url, problem=problem)


async def _why_not_answering(supplier: Supplier, key: str) -> str:
    """What keeps the supplier from telling its models; empty: it told them."""
    upstream = HttpUpstream()
    try:
        await models_list(upstream, supplier.dialect, supplier.url, key)
    except AgentdError as error:
        return error.message
    finally:
        await upstream.close()
    return ""


def entries() -> Iterator[tuple[str, str]]:
    """For each agent that is installed: where, and its line of ``models.yml``."""
    for program, line in (
        ("codex", "{name: codex, engine: codex}"),
        ("claude", "{name: claude, engine: claude-code}"),
        ("opencode", "{name: opencode, engine: acp, command: [opencode, acp]}"),
        ("gemini", "{name: gemini, engine: acp, command: [gemini, --acp]}"),
    ):
        if path := found(program):
            yield path, line
