"""A foreign coding agent as an engine: one program for each turn, spoken with in lines.

What is said is the matter of a ``Conversation``, one for each kind of program. Here the program
is started, carried lines and answers, and ended: within ten seconds, with all that it started,
whatever it does.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from msgspec.structs import replace

from agentd.agent.conversation import Conversation, Launch
from agentd.agent.engine import Approver, Assignment, Failed, Kept, Progress, Spent
from agentd.errors import AgentdError
from agentd.outside.stdio_turn import Patience, StdioTurn
from agentd.outside.strays import end_strays

Make: TypeAlias = Callable[[Assignment], Awaitable[tuple[Launch, Conversation]]]


class StdioEngine:
    """``Engine`` for the programs that ``make`` can speak with, in ``folder``.

    ``make`` may raise an ``AgentdError``: then the turn fails for its reason. ``advice`` says
    what to do when the program is not there, ``patience`` holds for the turns that begin.
    """

    def __init__(
        self,
        name: str,
        folder: str,
        make: Make,
        *,
        advice: str = "",
        patience: Callable[[], Patience] = Patience,
    ) -> None:
        self.name = name
        self._folder = folder
        self._make = make
        self._advice = advice
        self._patience = patience
        self._unheard: dict[int, list[Kept | Spent]] = {}
        """What stopped turns used and kept while nobody listened; the chat's next turn tells it."""

    async def run(
        self, assignment: Assignment, approver: Approver
    ) -> AsyncGenerator[Progress, None]:
        """Carry out one prompt; see ``Engine``."""
        for step in self._unheard.pop(assignment.chat_id, []):
            yield step
            if isinstance(step, Kept):
                assignment = replace(assignment, memory=step.memory)
        try:
            launch, conversation = await self._make(assignment)
        except AgentdError as error:
            yield Failed(error.message)
            return
        turn = StdioTurn(
            self.name,
            self._folder,
            launch,
            conversation,
            approver,
            assignment.turn,
            self._patience(),
        )
        turn.advice = self._advice
        try:
            while not turn.over:
                for progress in turn.carry_out(await turn.next()):
                    yield progress
        finally:
            await _surely(self._end(assignment, turn))

    async def _end(self, assignment: Assignment, turn: StdioTurn) -> None:
        try:
            await turn.end()
        finally:
            if turn.unheard:
                self._unheard.setdefault(assignment.chat_id, []).extend(turn.unheard)
            if assignment.turn:
                await end_strays(assignment.turn)


async def _surely(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, also when whoever waits for it is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
