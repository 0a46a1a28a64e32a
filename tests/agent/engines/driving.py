"""Real programs as engines: a chat whose turns are carried out, and what was asked meanwhile."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import structs

from agentd.agent.conversation import Conversation, Launch
from agentd.agent.engine import Alive, Answer, Assignment, Kept, Progress, Question
from agentd.agent.foreign import Bounds, Endpoint
from agentd.outside.stdio_engine import StdioEngine
from agentd.outside.stdio_turn import Patience
from tests.agent.engines.programs import CLAUDE_ALONE, KEY, MODEL, Place, opencode_alone
from tests.conftest import until
from tests.supplier.supplier import Supplier

Launcher = Callable[[Assignment, tuple[str, ...], Endpoint | None], Launch]


class Chat:
    """A chat with one program at a place; ``asked`` are the questions so far."""

    def __init__(
        self,
        where: Place,
        supplier: Supplier | None,
        command: tuple[str, ...],
        launch: Launcher,
        converse: Callable[[Assignment, Bounds, Launch], Conversation],
    ) -> None:
        self.where = where
        self.asked: list[Question] = []
        self.decide: Callable[[Question], bool] = lambda _: True
        self.note = ""
        """What the model is told with each decision."""
        self.process = 0
        self.memory = ""
        self.told: list[Progress] = []
        self._turns = f"engines-{uuid4().hex}.1"  # no other chat's programs are ended with its own
        self._endpoint = Endpoint(supplier.url, KEY) if supplier else None
        self._command = command
        self._launch = launch
        self._converse = converse
        self.environment = {
            "HOME": str(where.home),
            "CODEX_HOME": str(where.home / "codex"),
            **opencode_alone(where.home),
            **CLAUDE_ALONE,
        }
        self.engine = StdioEngine("real", str(where.workspace), self._make)

    def be_patient(self, patience: Patience) -> None:
        """Wait for the program so long, from the next turn on."""
        self.engine = StdioEngine(
            "real", str(self.where.workspace), self._make, patience=lambda: patience
        )

    async def _make(self, assignment: Assignment) -> tuple[Launch, Conversation]:
        launch = self._launch(assignment, self._command, self._endpoint)
        bounds = Bounds(str(self.where.workspace), os.path.realpath)
        made = structs.replace(launch, environment={**launch.environment, **self.environment})
        return made, self._converse(assignment, bounds, made)

    async def ask(self, question: Question) -> Answer:
        """The approver: everything is noted, and decided by ``decide``."""
        self.asked.append(question)
        return Answer(self.decide(question), reason=self.note)

    async def turn(
        self, prompt: str, until: Callable[[Progress], bool] = lambda _: False, **more: Any
    ) -> list[Progress]:
        """Carry out a prompt, to its end or until something was told; then it is stopped."""
        if self._endpoint:
            more = {"model": MODEL, "supplier": "scripted", **more}
        assignment = Assignment(1, prompt, memory=self.memory, turn=f"{self._turns}.1", **more)
        told = self.told = []
        async with aclosing(self.engine.run(assignment, self)) as progress:
            async for step in progress:
                told.append(step)
                if isinstance(step, Kept):
                    self.memory = step.memory
                elif isinstance(step, Alive):
                    self.process = step.process
                if until(step):
                    break
        return told

    async def stopped(self, prompt: str, when: Callable[[], object]) -> list[Progress]:
        """Carry out a prompt until this is true, and stop it then; what was told meanwhile."""
        turn = asyncio.ensure_future(self.turn(prompt))
        await until(lambda: turn.done() or when(), 120)
        assert not turn.done(), self.told
        turn.cancel()
        await asyncio.wait([turn])
        return self.told


def alive(group: int) -> list[str]:
    """The processes of a group, as the kernel tells them, but not the dead that nobody fetched."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                told = (entry / "stat").read_text()
                state, _, leader, *_ = told.rpartition(")")[2].split()
                if int(leader) == group and state not in "ZX":
                    found.append(told)
    return found


def running(words: str) -> list[int]:
    """The processes with these words in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and words.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
