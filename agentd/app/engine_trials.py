"""One harmless turn with each installed coding agent, in a home and a workspace of its own.

The program reaches a supplier on loopback that gives one answer, and nothing of its owner's: no
sign-in, no settings, no files, no host of the network.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from msgspec import Struct, structs

from agentd.agent.engine import (
    ApprovalAnswer,
    Question,
    RateLimited,
    ReplyCompleted,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch as acp_launch
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch as claude_launch
from agentd.agent.engines.codex.conversation import CodexConversation
from agentd.agent.engines.codex.launch import build_launch as codex_launch
from agentd.agent.engines.external.common import ModelEndpoint, WorkspaceBounds
from agentd.agent.engines.external.conversation import EngineConversation, ProgramLaunch
from agentd.agent.engines.external.engine import StdioEngine
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.app.engine_inspection import (
    CODING_AGENTS,
    TESTED_VERSIONS,
    VERSION_SECONDS,
    find_program,
    parse_version,
)
from agentd.app.trial_supplier import MODEL, REPLY, TrialSupplier
from agentd.core.errors import AgentdError
from agentd.models.model import EngineName, Models
from agentd.settings.model import Settings
from agentd.system.process import build_environment, run

SILENCE_SECONDS = 60.0
"""Seconds without output after which a program has failed."""
TRIAL_SECONDS = 180.0
"""Seconds that a turn may take."""
PROMPT = "Reply with one sentence. Use no tools."
OWN_SIGN_IN = "it starts; a turn would need its own sign-in, which was left alone"
_BEGINNING = "agentd-check-"

TrialOutcome: TypeAlias = Literal["works", "starts", "fails"]


class EngineTrial(Struct, frozen=True):
    """The outcome of one program's turn."""

    engine: str
    program: str
    where: str
    version: str
    """The version that the program reports; empty: none."""
    tested: str
    """The version that agentd is tested with; empty: none."""
    outcome: TrialOutcome
    """``starts``: the handshake worked, and no prompt could be sent."""
    problem: str = ""

    def __str__(self) -> str:
        """Describe it in one line."""
        tested = f"tested with {self.tested}" if self.tested else "not among the tested programs"
        details = "; ".join(part for part in (self.where, self.version, tested) if part)
        problem = f": {self.problem}" if self.problem else ""
        return f"turn with {self.program} ({self.engine}): {self.outcome}{problem} ({details})"


class _Candidate(Struct, frozen=True):
    """A command to try."""

    engine: EngineName
    command: tuple[str, ...]
    path: str

    @property
    def program(self) -> str:
        return os.path.basename(self.command[0])


async def try_engines(settings: Settings, models: Models) -> list[EngineTrial]:
    """Try each installed program that the files name or that is known, one after another."""
    trials = []
    with TrialSupplier() as supplier:
        for candidate in _list_candidates(settings, models):
            trials.append(await _try_program(candidate, supplier.url))
    return trials


def _list_candidates(settings: Settings, models: Models) -> Iterator[_Candidate]:
    """Yield the commands of the files, then those known in general, each path once."""
    commands: list[tuple[EngineName, tuple[str, ...]]] = [
        ("codex", tuple(settings.codex_command)),
        ("claude-code", tuple(settings.claude_command)),
        ("acp", tuple(settings.acp_command)),
    ]
    commands += [(model.engine, model.command) for model in models.models if model.command]
    defaults = dict(commands[:3])
    commands += [
        (one.engine, (one.program, *one.arguments) if one.arguments else (one.program,))
        for one in CODING_AGENTS
    ]
    seen: set[tuple[str, str]] = set()
    for engine, command in commands:
        path = find_program(command[0]) if engine in defaults else ""
        if path and (engine, path) not in seen:
            seen.add((engine, path))
            yield _Candidate(engine, (path, *command[1:]), path)


async def _try_program(candidate: _Candidate, url: str) -> EngineTrial:
    """Return the outcome; the folders of the turn are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=_BEGINNING, ignore_cleanup_errors=True) as folder:
        place = await asyncio.to_thread(_make_place, Path(folder))
        version = await _read_version(candidate, place)
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                outcome, problem = await _run_trial(candidate, place, url)
        except TimeoutError:
            outcome, problem = "fails", f"no reply within {TRIAL_SECONDS:g} seconds"
    tested = TESTED_VERSIONS.get(candidate.program, "")
    return EngineTrial(
        candidate.engine, candidate.program, candidate.path, version, tested, outcome, problem
    )


class _Place(Struct, frozen=True):
    workspace: str
    environment: Mapping[str, str]


def _make_place(folder: Path) -> _Place:
    """Make an empty home and workspace, and the settings that keep programs off the network."""
    home, workspace = folder / "home", folder / "workspace"
    codex, opencode = home / ".codex", home / ".config" / "opencode"
    for made in (codex, workspace, opencode / "node_modules"):
        made.mkdir(parents=True)
    (workspace / "notes.txt").write_text("Nothing is to be done here.\n")
    (codex / "config.toml").write_text("[features]\nplugins = false\n")
    there = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (opencode / "package-lock.json").write_text(json.dumps(there))
    (opencode / "models.json").write_text("{}")
    environment = {
        "HOME": str(home),
        "CODEX_HOME": str(codex),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_MODELS_PATH": str(opencode / "models.json"),
    }
    return _Place(str(workspace), environment)


async def _read_version(candidate: _Candidate, place: _Place) -> str:
    try:
        output = await run(
            [candidate.path, "--version"],
            folder=place.workspace,
            env=build_environment(**place.environment),
            timeout=VERSION_SECONDS,
            limit=4096,
        )
    except AgentdError:
        return ""
    return "" if output.late or output.code else parse_version(output.output)


async def _run_trial(candidate: _Candidate, place: _Place, url: str) -> tuple[TrialOutcome, str]:
    engine = _build_engine(candidate, place, url)
    request = TurnRequest(
        chat_id=0,
        prompt=PROMPT,
        model=MODEL,
        supplier=MODEL,
        command=candidate.command,
        turn_tag=f"check-{uuid4().hex}",
    )
    if candidate.engine == "acp" and candidate.program != "opencode":
        problem = await engine.find_problem(request)
        return ("fails", problem) if problem else ("starts", OWN_SIGN_IN)
    replies: list[str] = []
    async with aclosing(engine.run(request, _Denier())) as events:
        async for event in events:
            if isinstance(event, TurnFailed | RateLimited):
                return "fails", event.reason
            if isinstance(event, ReplyCompleted):
                replies.append(event.text)
    if REPLY in "".join(replies):
        return "works", ""
    return "fails", f"the reply was {''.join(replies)[:200]!r}, not {REPLY!r}"


def _build_engine(candidate: _Candidate, place: _Place, url: str) -> StdioEngine:
    endpoint = ModelEndpoint(url, f"sk-{MODEL}")
    bounds = WorkspaceBounds(place.workspace, os.path.realpath)

    async def prepare(request: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        launch = _LAUNCHES[candidate.engine](request, candidate.command, endpoint)
        environment = {**launch.environment, **place.environment}
        launch = structs.replace(launch, environment=environment)
        return launch, _converse(candidate.engine, request, bounds, launch)

    timeouts = TurnTimeouts(silence=SILENCE_SECONDS)
    return StdioEngine(candidate.program, place.workspace, prepare, timeouts=lambda: timeouts)


_LAUNCHES: Mapping[
    str, Callable[[TurnRequest, tuple[str, ...], ModelEndpoint | None], ProgramLaunch]
] = {"codex": codex_launch, "claude-code": claude_launch, "acp": acp_launch}


def _converse(
    engine: EngineName, request: TurnRequest, bounds: WorkspaceBounds, launch: ProgramLaunch
) -> EngineConversation:
    match engine:
        case "codex":
            return CodexConversation(request, bounds)
        case "claude-code":
            return ClaudeConversation(request, bounds, launch)
    return AcpConversation(request, bounds)


class _Denier:
    """The approver of a turn that is to do nothing."""

    async def ask(self, question: Question) -> ApprovalAnswer:
        return ApprovalAnswer(False)
