"""Waits for a chat, and tells the client meanwhile what happens and what the agent asks."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct

from agentd.chats.approval import Approval
from agentd.chats.events import ApprovalUpdate, ChatStateEvent, MessageUpdate
from agentd.chats.model import Message, Status, simplify_message
from agentd.chats.service import ChatService
from agentd.chats.state import Chat, ChatSummary
from agentd.chats.views import ApprovalView, Id, make_approval_view
from agentd.core.clock import Timestamp
from agentd.core.errors import NotFound
from agentd.core.events import Event, EventBus
from agentd.mcp.messages import JsonObject, MessageId, make_notification
from agentd.mcp.questions import ASK, Decision, can_be_shown, make_form, name_question, read_answer
from agentd.mcp.sessions import ClientQuestion, McpSession
from agentd.mcp.streams import KEEP_ALIVE_SECONDS, StreamSignal

MAX_NOTES = 100
"""Progress notes that wait to be sent; the oldest is dropped when there are more."""
MAX_EXCERPT = 200


class ChatOutcome(Struct, frozen=True, rename="camel"):
    """A chat after the wait."""

    chat_id: Id
    status: Status
    idle: bool
    """True if nothing more happens without a new prompt or answer."""
    held: str
    """Why the queue is held; empty: it is not."""
    waits_until: Timestamp | None
    """When a supplier's limit ends, for which the queue waits; null: it does not."""
    reply: str
    """The agent's last reply, or the error that ended its turn; empty: none yet."""
    output: Any
    """The value of a reply that fits the output schema of its prompt; null for other replies."""
    message_count: int
    questions: list[ApprovalView]
    """What the agent asks for and waits for."""


class QuestionsForClient(Struct, frozen=True):
    """The questions that the client is to ask the person before it repeats the call."""

    requests: JsonObject


class WaitCall(Struct, frozen=True):
    """A wait: until when, what to tell meanwhile, and how to ask the person."""

    chat_id: int
    seconds: float
    progress_token: MessageId | None
    can_ask: bool
    session: McpSession | None
    """None for clients that ask when they get the result."""
    answers: dict[int, JsonObject]
    """The person's answers to the questions of an earlier result, by the question's id."""


class ChatWaiter:
    """Waits for chats; after ``keep_alive`` seconds without news it yields None again."""

    def __init__(
        self, chats: ChatService, bus: EventBus, keep_alive: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._chats = chats
        self._bus = bus
        self._keep_alive = keep_alive

    async def wait(
        self,
        call: WaitCall,
        signal: StreamSignal,
        decide: Callable[[int, Decision], Awaitable[None]],
    ) -> AsyncGenerator[JsonObject | ChatOutcome | QuestionsForClient | None, None]:
        """Yield messages for the client, None as a sign of life, and at last the outcome.

        The first sign comes before anything is waited for: the client's answer begins with it.
        ``decide`` records the answer to a question of the chat. Raises ``NotFound`` and
        ``Unavailable`` for a chat that cannot be read, and ``Unauthorized`` once the client's key
        is no longer valid.
        """
        dialogue = _Dialogue(call, signal, decide)
        now = asyncio.get_running_loop().time
        deadline = now() + call.seconds
        with self._collect_notes(call.chat_id, signal) as notes:
            await dialogue.record_given(await self._list_questions(call.chat_id))
            numbers = count(1)
            if not self._chats.is_idle(call.chat_id):
                yield None
            while True:
                signal.check_caller()
                for note in _take(notes, call.progress_token):
                    yield _make_progress(call.progress_token, next(numbers), note)
                questions = await self._list_questions(call.chat_id)
                async for message in dialogue.go_on(questions):
                    yield message
                if dialogue.requests:
                    yield QuestionsForClient(dialogue.requests)
                    return
                left = deadline - now()
                if left <= 0 or signal.ended or dialogue.is_stuck(questions):
                    break
                if self._chats.is_idle(call.chat_id):
                    break
                if not await signal.wait(min(left, self._keep_alive)):
                    yield None
            signal.check_caller()
            for note in _take(notes, call.progress_token):  # what came while it was looked at
                yield _make_progress(call.progress_token, next(numbers), note)
            for message in dialogue.withdraw():
                yield message
        yield await self._describe(call.chat_id)

    @contextmanager
    def _collect_notes(self, chat_id: int, signal: StreamSignal) -> Iterator[deque[str]]:
        """Yield the notes on what happens in the chat; each event wakes the stream."""
        notes: deque[str] = deque(maxlen=MAX_NOTES)

        def on_event(event: Event) -> None:
            if event.about_chat == chat_id and (note := _describe_event(event)) is not None:
                if note:
                    notes.append(note)
                signal.wake()

        self._chats.get_summary(chat_id)
        stop = self._bus.subscribe(on_event)
        try:
            yield notes
        finally:
            stop()

    async def _list_questions(self, chat_id: int) -> list[ApprovalView]:
        if not self._chats.get_summary(chat_id).asking:
            return []
        return _view_questions(await self._chats.get(chat_id))

    async def _describe(self, chat_id: int) -> ChatOutcome:
        chat = await self._chats.get(chat_id)
        summary: ChatSummary = self._chats.get_summary(chat_id)
        reply = _find_reply(chat.recent)
        return ChatOutcome(
            chat_id=chat_id,
            status=summary.status,
            idle=self._chats.is_idle(chat_id),
            held=summary.held,
            waits_until=summary.waits_until or None,
            reply=simplify_message(reply) if reply else "",
            output=msgspec.json.decode(reply.text) if reply and reply.structured else None,
            message_count=summary.messages,
            questions=_view_questions(chat),
        )


class _Dialogue:
    """The questions of one wait that the client puts to the person."""

    def __init__(
        self,
        call: WaitCall,
        signal: StreamSignal,
        decide: Callable[[int, Decision], Awaitable[None]],
    ) -> None:
        self._call = call
        self._signal = signal
        self._decide = decide
        self._asked: dict[int, ClientQuestion] = {}
        self._decided: set[int] = set()
        self._put_off: set[int] = set()
        """Questions that the person did not decide here, or that cannot be shown."""
        self.requests: JsonObject = {}
        """Questions that a client without a session asks the person before it calls again."""

    async def record_given(self, questions: list[ApprovalView]) -> None:
        """Record the answers that came with the call."""
        for question in questions:
            if question.id in self._call.answers:
                await self._record(question, self._call.answers[question.id])

    async def go_on(self, questions: list[ApprovalView]) -> AsyncGenerator[JsonObject, None]:
        """Record what was answered, and yield the requests that ask what is open."""
        still_open = {question.id for question in questions}
        for number in [one for one in self._asked if one not in still_open]:
            yield self._forget(number)
        for question in questions:
            asked = self._asked.get(question.id)
            if question.id in self._decided:
                continue
            if asked is None:
                if request := self._ask(question):
                    yield request
            elif asked.reply:
                del self._asked[question.id]
                await self._record(question, asked.reply.result or {})

    def is_stuck(self, questions: list[ApprovalView]) -> bool:
        """Return whether there is a question that only the caller can take care of."""
        return any(one.id not in self._asked and one.id not in self._decided for one in questions)

    def withdraw(self) -> Iterator[JsonObject]:
        """Yield the withdrawals of the requests that are not answered."""
        for number in list(self._asked):
            yield self._forget(number)

    def _ask(self, question: ApprovalView) -> JsonObject | None:
        if not self._call.can_ask or question.id in self._put_off or not can_be_shown(question):
            return None
        form = make_form(question)
        if self._call.session is None:
            self.requests[name_question(question)] = {"method": ASK, "params": form}
            return None
        asked = self._call.session.ask(ASK, form, self._signal.wake)
        self._asked[question.id] = asked
        return asked.request

    def _forget(self, number: int) -> JsonObject:
        asked = self._asked.pop(number)
        if self._call.session:
            self._call.session.forget(asked)
        return asked.cancellation

    async def _record(self, question: ApprovalView, answer: JsonObject) -> None:
        decision = read_answer(question, answer)
        if decision is None:
            self._put_off.add(question.id)
            return
        with suppress(NotFound):  # somebody else answered, or the turn has ended
            await self._decide(question.id, decision)
        self._decided.add(question.id)


def _take(notes: deque[str], token: MessageId | None) -> Iterator[str]:
    if token is None:
        notes.clear()
    while notes:
        yield notes.popleft()


def _make_progress(token: MessageId | None, count: int, note: str) -> JsonObject:
    params = {"progressToken": token, "progress": count, "message": note}
    return make_notification("notifications/progress", params)


def _describe_event(event: Event) -> str | None:
    """Return what an event means for a waiting client; empty: nothing to tell; None: nothing."""
    match event:
        case MessageUpdate(message=message):
            return f"{message.role}: {_shorten(simplify_message(message))}"
        case ApprovalUpdate(approval=approval):
            return _describe_approval(approval)
        case ChatStateEvent():
            return ""
    return None


def _describe_approval(approval: Approval) -> str:
    if approval.state == "open":
        return f"question: {approval.tool}: {_shorten(approval.subject)}"
    return f"{approval.state}: {approval.tool}"


def _shorten(text: str) -> str:
    line = " ".join(text[: 2 * MAX_EXCERPT].split())
    return line if len(line) <= MAX_EXCERPT else f"{line[:MAX_EXCERPT]}…"


def _find_reply(messages: list[Message]) -> Message | None:
    for message in reversed(messages):
        if message.role in ("assistant", "error"):
            return message
        if message.role == "user":
            break
    return None


def _view_questions(chat: Chat) -> list[ApprovalView]:
    return [make_approval_view(one, chat.id) for one in chat.agent.asked]
