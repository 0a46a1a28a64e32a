"""Real programs as engines: a chat whose turns are carried out, and what was asked meanwhile."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import structs

from agentd.agent.engine import (
    ApprovalAnswer,
    EngineEvent,
    EngineStarted,
    EngineStateSaved,
    Question,
    ReplyCompleted,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.external.common import ModelEndpoint, WorkspaceBounds
from agentd.agent.engines.external.conversation import EngineConversation, ProgramLaunch
from agentd.agent.engines.external.engine import StdioEngine
from agentd.agent.engines.external.turn import TurnTimeouts
from tests.agent.engines.real.programs import (
    CLAUDE_ALONE,
    CODEX_SANDBOXED,
    KEY,
    MODEL,
    Place,
    isolate_opencode,
)
from tests.conftest import until
from tests.supplier.supplier import Supplier

Launcher = Callable[[TurnRequest, tuple[str, ...], ModelEndpoint | None], ProgramLaunch]


class Chat:
    """A chat with one program at a place; ``asked`` are the questions so far."""

    def __init__(
        self,
        where: Place,
        supplier: Supplier | None,
        command: tuple[str, ...],
        launch: Launcher,
        converse: Callable[[TurnRequest, WorkspaceBounds, ProgramLaunch], EngineConversation],
    ) -> None:
        self.where = where
        self.asked: list[Question] = []
        self.decide: Callable[[Question], bool] = lambda _: True
        self.note = ""
        """The reason that goes to the model with each decision."""
        self.process = 0
        self.memory = ""
        self.told: list[EngineEvent] = []
        self._turns = f"engines-{uuid4().hex}.1"  # no other chat's programs are ended with its own
        self._endpoint = ModelEndpoint(supplier.url, KEY) if supplier else None
        self._command = command
        self._launch = launch
        self._converse = converse
        self.environment = {
            "HOME": str(where.home),
            "CODEX_HOME": str(where.home / "codex"),
            **CODEX_SANDBOXED,
            **isolate_opencode(where.home),
            **CLAUDE_ALONE,
        }
        self.engine = StdioEngine("real", str(where.workspace), self._make)

    def be_patient(self, patience: TurnTimeouts) -> None:
        """Wait for the program so long, from the next turn on."""
        self.engine = StdioEngine(
            "real", str(self.where.workspace), self._make, timeouts=lambda: patience
        )

    async def _make(self, assignment: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        launch = self._launch(assignment, self._command, self._endpoint)
        bounds = WorkspaceBounds(str(self.where.workspace), os.path.realpath)
        made = structs.replace(launch, environment={**launch.environment, **self.environment})
        return made, self._converse(assignment, bounds, made)

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Record each question, and answer it by ``decide``."""
        self.asked.append(question)
        return ApprovalAnswer(
            self.decide(question), reason=self.note, note=self.note, by_person=bool(self.note)
        )

    def make_request(self, prompt: str, **more: Any) -> TurnRequest:
        """Return the request of the next turn."""
        if self._endpoint:
            more = {"model": MODEL, "supplier": "scripted", **more}
        return TurnRequest(1, prompt, engine_state=self.memory, turn_tag=f"{self._turns}.1", **more)

    async def run_turn(
        self, prompt: str, until: Callable[[EngineEvent], bool] = lambda _: False, **more: Any
    ) -> list[EngineEvent]:
        """Run a turn to its end, or until an event is wanted; then it is stopped."""
        assignment = self.make_request(prompt, **more)
        told = self.told = []
        async with aclosing(self.engine.run(assignment, self)) as progress:
            async for step in progress:
                told.append(step)
                if isinstance(step, EngineStateSaved | ReplyCompleted | UsageReported):
                    self.memory = step.engine_state or self.memory
                elif isinstance(step, EngineStarted):
                    self.process = step.pid
                if until(step):
                    break
        return told

    async def stop_when(self, prompt: str, when: Callable[[], object]) -> list[EngineEvent]:
        """Run a turn until this is true, and stop it then; return the events until its end."""
        turn = asyncio.ensure_future(self.run_turn(prompt))
        await until(lambda: turn.done() or when(), 120)
        assert not turn.done(), self.told
        turn.cancel()
        await asyncio.wait([turn])
        return self.told


def list_group(group: int) -> list[str]:
    """Return the living processes of a group as the kernel lists them, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                told = (entry / "stat").read_text()
                state, _, leader, *_ = told.rpartition(")")[2].split()
                if int(leader) == group and state not in "ZX":
                    found.append(told)
    return found


def find_processes(words: str) -> list[int]:
    """Return the processes with these words in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and words.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
