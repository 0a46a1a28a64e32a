"""A foreign coding agent as an engine: one program for each turn, spoken with in lines.

What is said is the matter of a ``Conversation``, one for each kind of program. Here the program
is started, carried lines and answers, and ended: within ten seconds, with all that it started,
whatever it does.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from agentd.agent.conversation import Conversation, Launch, Over, Send, Step
from agentd.agent.engine import (
    Answer,
    Approver,
    Assignment,
    Failed,
    Kept,
    Limited,
    Progress,
    Question,
    Replied,
    Spent,
)
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
        """What turns used and kept after the dispatcher left them; the chat's next one tells it."""

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
        except asyncio.CancelledError:
            await _surely(self._end(assignment, turn))
            while turn.unheard:
                yield turn.unheard.pop(0)
            raise
        finally:
            await _surely(self._end(assignment, turn))
            left = [step for step in map(_counted, turn.unheard) if step is not None]
            if left:
                self._unheard.setdefault(assignment.chat_id, []).extend(left)

    async def find_problem(self, assignment: Assignment) -> str:
        """Return why a turn would fail before its prompt; empty: the program is ready for one.

        The program is started and greeted as for a turn. No prompt is sent, so nothing is spent.
        """
        try:
            launch, conversation = await self._make(assignment)
        except AgentdError as error:
            return error.message
        greeting, patience = _Greeting(conversation), self._patience()
        name, mark = self.name, assignment.turn
        turn = StdioTurn(name, self._folder, launch, greeting, _Nobody(), mark, patience)
        try:
            while not turn.over:
                for progress in turn.carry_out(await turn.next()):
                    if isinstance(progress, Failed | Limited):
                        return progress.reason
        finally:
            await _surely(self._end(assignment, turn))
        return ""

    async def _end(self, assignment: Assignment, turn: StdioTurn) -> None:
        try:
            await turn.end()
        finally:
            if assignment.turn:
                await end_strays(assignment.turn)


def _counted(step: Progress) -> Kept | Spent | None:
    """Return what still counts of a step when the turn that it belongs to is over."""
    match step:
        case Replied(usage=usage, cost=cost) | Spent(usage=usage, cost=cost):
            return Spent(usage, cost)
        case Kept():
            return step
        case _:
            return None


class _Greeting:
    """The beginning of a conversation: over when the program's answer lets it go on."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def begin(self) -> Iterator[Step]:
        return self._conversation.begin()

    def heard(self, line: bytes) -> Iterator[Step]:
        for step in self._conversation.heard(line):
            if isinstance(step, Send):
                yield Over()
                return
            yield step

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        return self._conversation.answered(ask, answer)

    def stop(self) -> Iterator[Step]:
        yield Over()

    def ended(self) -> Iterator[Step]:
        yield from ()


class _Nobody:
    """The approver where nobody can be asked."""

    async def ask(self, question: Question) -> Answer:
        return Answer(False)


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
