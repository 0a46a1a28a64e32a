"""Questions to the person: asked, shown, answered, or denied when nobody answers in time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from agentd.agent.approval import Policy, decide
from agentd.agent.budget import Budget
from agentd.agent.engine import Answer, Place, Question
from agentd.chats.approval import Approval, State
from agentd.chats.fold import Chat
from agentd.chats.shelf import AGENT
from agentd.chats.turns import Turns
from agentd.clock import Clock, iso, parse_iso
from agentd.errors import AgentdError, NotFound

log = logging.getLogger(__name__)

BY_RULE = "The settings do not allow it."
BY_PERSON = "A person denied it."
BY_NOBODY = "Nobody answered in time, so it is denied."
LONGEST = 32 * 1024
"""Characters of a question: nobody is asked about what is not shown whole."""
TOO_LONG = (
    f"It is longer than the {LONGEST:,} characters that a person can be shown, so nobody was asked."
    " Put what it holds into files, or do it in steps."
)


class _Open:
    """A question that waits; whoever decides it holds the ``lock`` until that is on disk."""

    def __init__(self) -> None:
        self.approval: Approval | None = None
        """With its id, from just before it is told to anybody."""
        self.lock = asyncio.Lock()
        self.decided: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()


class Approvals:
    """The open questions of all turns at work; ``policy`` and ``budget`` tell what holds now.

    ``named_in`` tells why a place that a command line names is protected; it may block.
    """

    def __init__(
        self,
        turns: Turns,
        clock: Clock,
        policy: Callable[[], Policy],
        budget: Callable[[], Budget],
        named_in: Callable[[str], str] = lambda command: "",
    ) -> None:
        self._turns = turns
        self._budget = budget
        self._clock = clock
        self._policy = policy
        self._named_in = named_in
        self._open: dict[int, _Open] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, chat_id: int, place: Place = lambda wanted: None) -> "Desk":
        """Whom an engine asks that works for this chat."""
        return Desk(self, chat_id, place)

    async def ask(
        self, chat_id: int, question: Question, place: Place = lambda wanted: None
    ) -> Answer:
        """The decision of a rule at once, else of a person, at the latest at the deadline.

        While a person is waited for, the turn does not need its ``place``.
        """
        agent = (await self._turns.look(chat_id)).agent
        policy = self._policy()
        if question.kind == "shell":
            protected = await asyncio.to_thread(self._named_in, question.subject)
            question = replace(question, protected=protected)
        match decide(question, policy, agent.approvals, agent.granted):
            case "allow":
                return Answer(True)
            case "deny":
                return Answer(False, reason=question.refusal or BY_RULE)
        if len(question.subject) > LONGEST:
            return Answer(False, reason=TOO_LONG)
        waiting = _Open()
        try:
            asked, opened = self._asked(question, policy.seconds), partial(self._opened, waiting)
            await self._turns.ask(chat_id, asked, _shown(question), opened)
            place(False)
            try:
                await asyncio.wait([waiting.decided], timeout=policy.seconds)
            finally:
                place(True)
            return _answer(await self._decided(chat_id, waiting))
        except asyncio.CancelledError:  # the turn ended, or the engine needs no answer any more
            self._withdraw(chat_id, waiting)
            raise
        finally:
            if waiting.approval:
                del self._open[waiting.approval.id]

    async def answer(
        self, chat_id: int, number: int, *, allowed: bool, session: bool, note: str, by: str
    ) -> Approval:
        """A person's decision; ``session``: it holds for the same question in this chat.

        Raises ``NotFound`` for a question that is not open in this chat, any more or yet.
        """
        chat = await self._turns.look(chat_id)
        asked = next((one for one in chat.agent.asked if one.id == number), None)
        if asked is None:
            raise _not_open(chat_id, number)
        decided = replace(
            asked,
            state="allowed" if allowed else "denied",
            session=session and allowed,
            note=note,
            answered_by=by,
            answered_at=self._clock.now(),
        )
        written = self._release if asked.kind == "budget" else self._tell
        await asyncio.shield(self._begin(written(chat, decided, by)))
        return decided

    async def _release(self, chat: Chat, decided: Approval, by: str) -> None:
        if decided.state == "allowed":
            await self._turns.release(chat.id, by, self._budget().allowance(chat))
        await self._turns.answer(chat.id, decided, by)

    async def _tell(self, chat: Chat, decided: Approval, by: str) -> None:
        waiting = self._open.get(decided.id)
        if waiting is None:
            raise _not_open(chat.id, decided.id)
        async with waiting.lock:
            if waiting.decided.done():
                raise _not_open(chat.id, decided.id)
            await self._turns.answer(chat.id, decided, by)
            waiting.decided.set_result(decided)

    async def close(self) -> None:
        """Finish what is being written."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _opened(self, waiting: _Open, approval: Approval) -> None:
        waiting.approval = approval
        self._open[approval.id] = waiting

    def _asked(self, question: Question, seconds: float) -> Approval:
        deadline = parse_iso(self._clock.now()) + timedelta(seconds=seconds)
        return Approval(
            id=0,
            kind=question.kind,
            tool=question.tool[:200],
            subject=question.subject,
            at="",
            deadline=iso(deadline),
            reason=_reason(question),
        )

    async def _decided(self, chat_id: int, waiting: _Open) -> Approval:
        """What became of it; when nobody has answered by now, it is denied."""
        await self._close_question(chat_id, waiting, "expired", BY_NOBODY)
        return waiting.decided.result()

    async def _close_question(self, chat_id: int, waiting: _Open, state: State, note: str) -> None:
        """Unless somebody decides it in this very moment."""
        assert waiting.approval
        async with waiting.lock:
            if waiting.decided.done():
                return
            closed = replace(
                waiting.approval, state=state, note=note, answered_at=self._clock.now()
            )
            waiting.decided.set_result(closed)
            try:
                await self._turns.answer(chat_id, closed, AGENT)
            except AgentdError as error:  # denied all the same
                log.warning("the end of a question of chat %d was not written: %s", chat_id, error)

    def _withdraw(self, chat_id: int, waiting: _Open) -> None:
        if waiting.approval and not waiting.decided.done():
            self._begin(self._close_question(chat_id, waiting, "withdrawn", ""))

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Have it done, whoever leaves meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Desk:
    """The questions of one chat; satisfies ``agent.engine.Approver``."""

    def __init__(self, approvals: Approvals, chat_id: int, place: Place) -> None:
        self._approvals = approvals
        self._chat_id = chat_id
        self._place = place

    async def ask(self, question: Question) -> Answer:
        """The decision, of a rule or of a person."""
        return await self._approvals.ask(self._chat_id, question, self._place)


def _shown(question: Question) -> str:
    """The question as the history shows it."""
    reason = _reason(question)
    why = f"\n\n{reason}" if reason else ""
    return f"May the agent use {question.tool}?\n\n{question.subject}{why}"


def _reason(question: Question) -> str:
    """Why it is asked, and why the engine wants it."""
    return "\n".join(filter(None, (question.protected, question.reason)))[:LONGEST]


def _answer(decided: Approval) -> Answer:
    if decided.state == "allowed":
        return Answer(True, session=decided.session)
    return Answer(False, reason=decided.note or BY_PERSON)


def _not_open(chat_id: int, number: int) -> NotFound:
    return NotFound(
        f"Approval {number} of chat {chat_id} not found",
        "It was never asked here, or it was answered, expired or withdrawn.",
    )
