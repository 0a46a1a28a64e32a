"""Approvals: questions to a person, denied when nobody answers in time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from agentd.agent.approval_rules import (
    ApprovalPolicy,
    ApprovalRule,
    decide,
    explain_denial,
    find_standing_denial,
    make_question_key,
)
from agentd.agent.budget import SpendBudget
from agentd.agent.diff import cut_diff
from agentd.agent.engine import ApprovalAnswer, OccupySlot, Question
from agentd.agent.forms import YES
from agentd.chats.agent_state import AgentState
from agentd.chats.approval import Approval, ApprovalState
from agentd.chats.repository import AGENT
from agentd.chats.state import Chat
from agentd.chats.turns import TurnRecorder
from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError, BadRequest, NotFound
from agentd.core.tasks import BackgroundTasks

log = logging.getLogger(__name__)

BY_PERSON = "A person denied it."
DENIED_FOR_CHAT = "It was denied for the whole chat."
BY_NOBODY = "Nobody answered in time, so it is denied."
LONGEST_ACTION_SHOWN = 500
"""Characters of an action that the history shows where the settings denied it."""
MAX_QUESTION_LENGTH = 32 * 1024
"""Maximum characters of a question; longer ones are denied, as they cannot be shown in full."""
TOO_LONG = (
    f"The request is longer than the {MAX_QUESTION_LENGTH:,} characters that a person can be shown,"
    " so nobody was asked. Put the content into files, or do it in steps."
)


class _OpenQuestion:
    """An open question; the ``lock`` is held from a decision until that is on disk."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.approval: Approval | None = None
        """Set, with its id, just before the question is published."""
        self.lock = asyncio.Lock()
        self.decided: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()


class ApprovalService:
    """The open questions of all running turns; ``policy`` and ``budget`` give current settings.

    ``find_protected`` says why a path in a command line is protected that is run in a folder
    (empty: the workspace); it may block. What a person decides for a whole chat holds in this
    ``workspace``, a path without links. ``store_rule`` adds a rule to the settings, durably, and
    raises ``BadRequest`` if that does not decide the question.
    """

    def __init__(
        self,
        turns: TurnRecorder,
        clock: Clock,
        policy: Callable[[], ApprovalPolicy],
        budget: Callable[[], SpendBudget],
        store_rule: Callable[[ApprovalRule, Question], Awaitable[None]],
        find_protected: Callable[[str, str], str] = lambda command, folder: "",
        workspace: str = "",
    ) -> None:
        self._workspace = workspace
        self._turns = turns
        self._budget = budget
        self._clock = clock
        self._policy = policy
        self._store_rule = store_rule
        self._find_protected = find_protected
        self._open: dict[int, _OpenQuestion] = {}
        self._budget_lock = asyncio.Lock()
        """Held while the answer to a question of budget is written: the second one finds none."""
        self._tasks = BackgroundTasks()

    def for_chat(
        self, chat_id: int, place: OccupySlot = lambda wanted: None, folder: str = ""
    ) -> "ChatApprover":
        """Return the approver for an engine that works for this chat, in its folder."""
        return ChatApprover(self, chat_id, place, folder)

    async def ask(
        self,
        chat_id: int,
        question: Question,
        place: OccupySlot = lambda wanted: None,
        folder: str = "",
    ) -> ApprovalAnswer:
        """Return the decision of a rule at once, else of a person, at the latest at the deadline.

        While waiting for a person, the turn does not occupy its slot.
        """
        agent = (await self._turns.get_latest(chat_id)).agent
        policy = self._policy()
        if question.kind == "shell":
            protected = await asyncio.to_thread(self._find_protected, question.subject, folder)
            question = replace(question, protected=protected)
        standing = self._select_valid_here(agent)
        match decide(question, policy, agent.approvals, standing):
            case "allow":
                return ApprovalAnswer(True)
            case "deny" if denial := find_standing_denial(question, policy, standing):
                reason = " ".join(filter(None, (DENIED_FOR_CHAT, denial.note)))
                return await self._deny(chat_id, question, reason, denial.answered_by)
            case "deny":
                return await self._deny(chat_id, question, explain_denial(question, policy))
        if len(question.subject) > MAX_QUESTION_LENGTH:
            return await self._deny(chat_id, question, TOO_LONG)
        waiting = _OpenQuestion(question)
        try:
            asked, opened = (
                self._to_approval(question, policy.seconds),
                partial(self._on_opened, waiting),
            )
            await self._turns.ask_approval(chat_id, asked, _render_question(question), opened)
            place(False)
            try:
                await asyncio.wait([waiting.decided], timeout=policy.seconds)
            finally:
                place(True)
            return _to_answer(await self._expire(chat_id, waiting))
        except asyncio.CancelledError:  # the turn ended, or the engine no longer needs an answer
            self._withdraw(chat_id, waiting)
            raise
        finally:
            if waiting.approval:
                del self._open[waiting.approval.id]

    async def answer(
        self,
        chat_id: int,
        number: int,
        *,
        allowed: bool,
        session: bool,
        note: str,
        by: str,
        rule: ApprovalRule | None = None,
    ) -> Approval:
        """Record a person's decision; ``session``: it holds for the same question in this chat.

        ``rule`` is stored before the decision is, and decides such questions from then on. Raises
        ``NotFound`` for a question that is not open in this chat, any more or yet, ``BadRequest``
        for an answer without words where the agent wants some, and what ``store_rule`` raises; then
        it is still open.
        """
        chat = await self._turns.get_latest(chat_id)
        asked = next((one for one in chat.agent.asked if one.id == number), None)
        if asked is None:
            raise _make_not_open_error(chat_id, number)
        if allowed and asked.kind == "question" and not note.strip() and YES not in asked.choices:
            raise BadRequest(
                "The agent asks for words, not for permission",
                "Put the answer into the note, or deny the question to leave it unanswered.",
            )
        session = session and asked.kind not in ("question", "budget")  # they are always asked
        decided = replace(
            asked,
            state="allowed" if allowed else "denied",
            session=session,
            workspace=self._workspace if session else "",
            note=note,
            answered_by=by,
            answered_at=self._clock.now(),
            diff="",
        )
        if asked.kind != "budget":
            written = self._resolve(chat, decided, by, rule)
        elif rule:
            raise BadRequest("No rule decides about budgets")
        else:
            written = self._resolve_budget(chat, decided, by)
        await asyncio.shield(self._tasks.start(written))
        return decided

    def list_standing(self, agent: AgentState) -> list[Approval]:
        """Return what was decided for the whole chat and holds here, the latest first."""
        latest = {make_question_key(one): one for one in self._select_valid_here(agent)}
        return sorted(latest.values(), key=lambda one: (one.answered_at, one.id), reverse=True)

    async def withdraw(self, chat_id: int, number: int, by: str) -> Approval:
        """Withdraw a decision for the whole chat: the settings, or a person, decide again.

        Raises ``NotFound`` if nothing that was asked under this number holds.
        """
        chat = await self._turns.get_latest(chat_id)
        standing = self._select_valid_here(chat.agent)
        found = next((one for one in standing if one.id == number), None)
        if found is None:
            raise NotFound(
                f"No decision {number} holds for the whole chat {chat_id}",
                "It was withdrawn, made for one time, or made in another workspace.",
            )
        at, key = self._clock.now(), make_question_key(found)
        # The oldest first, so that none holds again because the one after it is gone already.
        for same in (one for one in standing if make_question_key(one) == key):
            written = self._turns.close_approval(chat_id, _mark_withdrawn(same, by, at), by)
            await asyncio.shield(self._tasks.start(written))
        return _mark_withdrawn(found, by, at)

    def _select_valid_here(self, agent: AgentState) -> list[Approval]:
        return [one for one in agent.standing if one.workspace == self._workspace]

    async def _deny(
        self, chat_id: int, question: Question, reason: str, by: str = "rule"
    ) -> ApprovalAnswer:
        """Deny what nobody is asked about; the history shows it, if the disk takes that."""
        subject = question.subject
        more = "…" if len(subject) > LONGEST_ACTION_SHOWN else ""
        action = f"{question.tool}: {subject[:LONGEST_ACTION_SHOWN]}{more}"
        try:
            await self._turns.add_denial(chat_id, reason, action, by)
        except AgentdError as error:
            log.warning("a denial in chat %d was not written: %s", chat_id, error.message)
        return ApprovalAnswer(False, reason=reason)

    async def _resolve_budget(self, chat: Chat, decided: Approval, by: str) -> None:
        async with self._budget_lock:
            chat = await self._turns.get_latest(chat.id)
            if all(one.id != decided.id for one in chat.agent.asked):
                raise _make_not_open_error(chat.id, decided.id)
            if decided.state == "allowed":
                allowance = self._budget().compute_allowance(chat)
                await self._turns.release_budget(chat.id, by, allowance)
            await self._turns.close_approval(chat.id, decided, by)

    async def _resolve(
        self, chat: Chat, decided: Approval, by: str, rule: ApprovalRule | None
    ) -> None:
        waiting = self._open.get(decided.id)
        if waiting is None:
            raise _make_not_open_error(chat.id, decided.id)
        async with waiting.lock:
            if waiting.decided.done():
                raise _make_not_open_error(chat.id, decided.id)
            if rule:
                await self._store_rule(rule, waiting.question)
            await self._turns.close_approval(chat.id, decided, by)
            waiting.decided.set_result(decided)

    async def close(self) -> None:
        """Wait for pending writes."""
        await self._tasks.wait()

    def _on_opened(self, waiting: _OpenQuestion, approval: Approval) -> None:
        waiting.approval = approval
        self._open[approval.id] = waiting

    def _to_approval(self, question: Question, seconds: float) -> Approval:
        deadline = parse_iso(self._clock.now()) + timedelta(seconds=seconds)
        return Approval(
            id=0,
            kind=question.kind,
            tool=question.tool[:200],
            subject=question.subject,
            at="",
            deadline=format_iso(deadline),
            reason=_join_reasons(question),
            diff=cut_diff(question.diff),
            choices=question.choices,
        )

    async def _expire(self, chat_id: int, waiting: _OpenQuestion) -> Approval:
        """Return the outcome; an unanswered question is denied."""
        await self._close_question(chat_id, waiting, "expired", BY_NOBODY)
        return waiting.decided.result()

    async def _close_question(
        self, chat_id: int, waiting: _OpenQuestion, state: ApprovalState, note: str
    ) -> None:
        """Close the question, unless it is being decided at this moment."""
        assert waiting.approval
        async with waiting.lock:
            if waiting.decided.done():
                return
            closed = replace(
                waiting.approval, state=state, note=note, answered_at=self._clock.now(), diff=""
            )
            waiting.decided.set_result(closed)
            try:
                await self._turns.close_approval(chat_id, closed, AGENT)
            except AgentdError as error:  # denied all the same
                log.warning("the end of a question of chat %d was not written: %s", chat_id, error)

    def _withdraw(self, chat_id: int, waiting: _OpenQuestion) -> None:
        if waiting.approval and not waiting.decided.done():
            self._tasks.start(self._close_question(chat_id, waiting, "withdrawn", ""))


class ChatApprover:
    """The questions of one chat; satisfies ``agent.engine.Approver``."""

    def __init__(
        self, approvals: ApprovalService, chat_id: int, place: OccupySlot, folder: str
    ) -> None:
        self._approvals = approvals
        self._chat_id = chat_id
        self._place = place
        self._folder = folder

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Return the decision of a rule or of a person."""
        return await self._approvals.ask(self._chat_id, question, self._place, self._folder)


def _mark_withdrawn(decided: Approval, by: str, at: Timestamp) -> Approval:
    return replace(decided, state="withdrawn", session=False, answered_by=by, answered_at=at)


def _render_question(question: Question) -> str:
    """Render the question for the history."""
    reason = _join_reasons(question)
    if question.kind == "question":
        return question.subject
    why = f"\n\n{reason}" if reason else ""
    return f"May the agent use {question.tool}?\n\n{question.subject}{why}"


def _join_reasons(question: Question) -> str:
    """Join why approval is needed and why the engine wants it."""
    return "\n".join(filter(None, (question.protected, question.reason)))[:MAX_QUESTION_LENGTH]


def _to_answer(decided: Approval) -> ApprovalAnswer:
    if decided.state == "allowed":
        note, by = decided.note, decided.answered_by
        return ApprovalAnswer(True, decided.session, note, note, by_person=True, by=by)
    why = decided.note or BY_PERSON
    if decided.state != "denied":
        return ApprovalAnswer(False, reason=why)
    by = decided.answered_by
    return ApprovalAnswer(False, reason=why, note=decided.note, by_person=True, by=by)


def _make_not_open_error(chat_id: int, number: int) -> NotFound:
    return NotFound(
        f"Approval {number} of chat {chat_id} not found",
        "It was never asked here, or it was answered, expired or withdrawn.",
    )
