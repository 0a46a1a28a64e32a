"""An external coding agent as an engine: one program per turn, which exchanges lines.

An ``EngineConversation``, one class per kind of program, decides what to say. This module starts
the program, carries lines and answers between the two, and ends it: within ten seconds, with
everything that it started, whatever it does.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from msgspec.structs import replace

from agentd.agent.engine import (
    ApprovalAnswer,
    Approver,
    EngineEvent,
    EngineStateSaved,
    Question,
    RateLimited,
    ReplyCompleted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.external.conversation import (
    EngineConversation,
    ProgramLaunch,
    SendLine,
    Step,
    TurnDone,
)
from agentd.agent.engines.external.model_list import ModelListing
from agentd.agent.engines.external.refused_images import (
    LEFT_OUT,
    has_worked,
    leave_out_images,
    make_forgetting,
    refuses_images,
)
from agentd.agent.engines.external.turn import StdioTurn, TurnTimeouts
from agentd.core.errors import AgentdError
from agentd.system.orphans import kill_orphans

PrepareTurn: TypeAlias = Callable[
    [TurnRequest], Awaitable[tuple[ProgramLaunch, EngineConversation]]
]

AskFirst: TypeAlias = Callable[[TurnRequest, Approver], Awaitable[Sequence[EngineEvent]]]
"""Asks what must be known before a turn is prepared; returns what the history is told of it."""


class StdioEngine:
    """``Engine`` for the programs that ``prepare`` can launch in ``folder``.

    ``prepare`` may raise an ``AgentdError``: then the turn fails with its message.
    ``install_hint`` is added if the program is missing; ``timeouts`` is called for each turn.
    """

    def __init__(
        self,
        name: str,
        folder: str,
        prepare: PrepareTurn,
        *,
        install_hint: str = "",
        timeouts: Callable[[], TurnTimeouts] = TurnTimeouts,
        ask_first: AskFirst | None = None,
    ) -> None:
        self._ask_first = ask_first
        self.name = name
        self._folder = folder
        self._prepare = prepare
        self._install_hint = install_hint
        self._timeouts = timeouts
        self._undelivered: dict[int, list[EngineStateSaved | UsageReported]] = {}
        """Usage and state of turns that the dispatcher left; the chat's next turn reports it."""

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Run one prompt; see ``Engine``."""
        for step in self._undelivered.pop(assignment.chat_id, []):
            yield step
            if step.engine_state:
                assignment = replace(assignment, engine_state=step.engine_state)
        if self._ask_first:
            try:
                first = await self._ask_first(assignment, approver)
            except AgentdError as error:
                yield TurnFailed(error.message)
                return
            for event in first:
                yield event
        worked, refusal = False, None
        async with aclosing(self._run_program(assignment, approver)) as events:
            async for event in events:
                if isinstance(event, TurnFailed) and refuses_images(event):
                    refusal = event  # told below, or what is done about it
                    continue
                worked = worked or has_worked(event)
                yield event
        if refusal and worked:
            for event in make_forgetting(refusal):
                yield event
        elif refusal:
            yield ToolUsed(self.name, "images", LEFT_OUT, ok=False)
            again = leave_out_images(assignment)
            async with aclosing(self._run_program(again, approver)) as events:
                async for event in events:
                    yield event

    async def _run_program(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Run the program for a prompt, from its start to its end."""
        try:
            launch, conversation = await self._prepare(assignment)
        except AgentdError as error:
            yield TurnFailed(error.message)
            return
        turn = StdioTurn(
            self.name,
            self._folder,
            launch,
            conversation,
            approver,
            assignment.turn_tag,
            self._timeouts(),
        )
        turn.install_hint = self._install_hint
        try:
            while not turn.over:
                for progress in turn.apply(await turn.wait_for_steps()):
                    yield progress
        except asyncio.CancelledError:
            await _run_shielded(self._end(assignment, turn))
            while turn.undelivered:
                yield turn.undelivered.pop(0)
            raise
        finally:
            await _run_shielded(self._end(assignment, turn))
            left = [step for step in map(_keep_countable, turn.undelivered) if step is not None]
            if left:
                self._undelivered.setdefault(assignment.chat_id, []).extend(left)

    async def find_problem(self, assignment: TurnRequest) -> str:
        """Explain why a turn would fail before its prompt; empty if the program is ready.

        The program is started up to the handshake. No prompt is sent, so nothing is spent.
        """
        try:
            launch, conversation = await self._prepare(assignment)
        except AgentdError as error:
            return error.message
        return await self._talk(assignment, launch, _Handshake(conversation))

    async def list_models(self, assignment: TurnRequest, listing: ModelListing) -> list[str]:
        """Return the models that the program offers; no prompt is sent.

        Empty if it offers none, or fails. Raises ``AgentdError`` if it cannot be prepared.
        """
        launch, _ = await self._prepare(assignment)
        await self._talk(assignment, launch, listing)
        return listing.names

    async def _talk(
        self, assignment: TurnRequest, launch: ProgramLaunch, conversation: EngineConversation
    ) -> str:
        """Carry on a conversation without a prompt to its end; return why it failed, or nothing."""
        turn = StdioTurn(
            self.name,
            self._folder,
            launch,
            conversation,
            _DenyingApprover(),
            assignment.turn_tag,
            self._timeouts(),
        )
        try:
            while not turn.over:
                for progress in turn.apply(await turn.wait_for_steps()):
                    if isinstance(progress, TurnFailed | RateLimited):
                        return progress.reason
        finally:
            await _run_shielded(self._end(assignment, turn))
        return ""

    async def _end(self, assignment: TurnRequest, turn: StdioTurn) -> None:
        try:
            await turn.end()
        finally:
            if assignment.turn_tag:
                await kill_orphans(assignment.turn_tag)


def _keep_countable(step: EngineEvent) -> EngineStateSaved | UsageReported | None:
    """Return the part of an event that counts even after its turn."""
    match step:
        case ReplyCompleted(usage=usage, cost=cost, engine_state=memory):
            return UsageReported(usage, cost, memory)
        case UsageReported():
            return step
        case EngineStateSaved():
            return step
        case _:
            return None


class _Handshake:
    """The handshake of a conversation: done when the program's answer lets it continue."""

    def __init__(self, conversation: EngineConversation) -> None:
        self._conversation = conversation

    def on_start(self) -> Iterator[Step]:
        return self._conversation.on_start()

    def on_line(self, line: bytes) -> Iterator[Step]:
        for step in self._conversation.on_line(line):
            if isinstance(step, SendLine):
                yield TurnDone()
                return
            yield step

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        return self._conversation.on_decision(ask, answer)

    def stop(self) -> Iterator[Step]:
        yield TurnDone()

    def explain_silence(self, errors: str) -> RateLimited | None:
        return self._conversation.explain_silence(errors)

    def on_exit(self) -> Iterator[Step]:
        yield from ()


class _DenyingApprover:
    """The approver for turns without a person to ask."""

    async def ask(self, question: Question) -> ApprovalAnswer:
        return ApprovalAnswer(False)


async def _run_shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, even if the caller is cancelled meanwhile."""
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
