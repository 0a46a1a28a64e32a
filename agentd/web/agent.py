"""The agent at work, as the extended surface commands it: stop, approvals, held queues.

Source: the remote-control specification, section 4, 'Extended surface'; paths below the
specification's prefixes are ours.
"""

from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from agentd.agent.work import Evidence
from agentd.chats.approval import Approval, Mode
from agentd.chats.fold import Chat, State, Summary
from agentd.chats.records import ChatChanged
from agentd.chats.service import ChatService
from agentd.clock import Timestamp
from agentd.errors import NotFound
from agentd.web.call import Answer, Call
from agentd.web.views import ApprovalView, Id, Name, StatusView, approval_view, status_view


class EvidenceView(Struct, frozen=True, rename="camel"):
    """What shows that the agent is really at work."""

    turn: int
    engine: str
    model: str
    since: Timestamp
    last_sign: Timestamp
    process: int
    last_tool: str


class AgentView(Struct, frozen=True, rename="camel"):
    """A chat and how the agent stands to it; ``state`` also tells ``created`` and ``error``."""

    chat: StatusView
    state: State
    held: str
    waits_until: Timestamp | None
    waits_for: str
    work: EvidenceView | None
    approvals: list[ApprovalView]
    settings: "ChatSettingsView"


class ChatSettingsView(Struct, frozen=True, rename="camel"):
    """What a chat says about how its prompts are carried out; empty: as the settings say."""

    model: str
    skill: str
    system_prompt: str
    approvals: str


class ChangeSettings(Struct, frozen=True, rename="camel"):
    """What to change; what is absent stays."""

    model: Name | None = None
    skill: Name | None = None
    system_prompt: str | None = None
    approvals: Mode | Literal[""] | None = None


class StoppedView(Struct, frozen=True, rename="camel"):
    """Whether a turn was at work; its queue is held now."""

    chat_id: Id
    stopped: bool


class HoldQueue(Struct, frozen=True):
    """Why the queue is to stand still."""

    reason: Name = "Held by hand."


class HeldView(Struct, frozen=True, rename="camel"):
    """Why the queue stands still; empty: it does not."""

    chat_id: Id
    held: str


class Decide(Struct, frozen=True):
    """The answer to a question; ``session``: for the same one in this chat, too."""

    decision: Literal["allow", "deny"]
    session: bool = False
    note: Annotated[str, Meta(max_length=1000)] = ""


class ApprovalsView(Struct, frozen=True):
    """The open questions, the longest open first."""

    approvals: list[ApprovalView]


class Dispatching(Protocol):
    """What is at work (``agent.service.Dispatcher``)."""

    def evidence(self, chat_id: int) -> Evidence | None:
        """What shows that the agent is at work on a chat."""
        ...

    async def stop_turn(self, chat_id: int, by: str) -> bool:
        """End the running turn; False when there is none."""
        ...


class Deciding(Protocol):
    """The questions of the turns at work (``agent.approvals.Approvals``)."""

    async def answer(
        self, chat_id: int, number: int, *, allowed: bool, session: bool, note: str, by: str
    ) -> Approval:
        """A person's decision; ``NotFound`` when the question is not open."""
        ...


class Skills(Protocol):
    """Which skills there are."""

    async def known(self, name: str) -> bool:
        """True when a chat can be given this skill."""
        ...


class AgentAtWork:
    """The endpoints below ``/api/chat`` and the queue's hold."""

    def __init__(
        self, chats: ChatService, turns: Dispatching, approvals: Deciding, skills: Skills
    ) -> None:
        self._chats = chats
        self._turns = turns
        self._approvals = approvals
        self._skills = skills

    async def chat(self, call: Call) -> Answer:
        """One chat with all that the agent does on it."""
        chat_id = call.id("chatId", "Chat")
        chat = await self._chats.get(chat_id)
        return Answer(_agent(chat, chat.summary(), self._turns.evidence(chat_id)))

    async def change(self, call: Call) -> Answer:
        """Another model, skill, system prompt or way to decide questions."""
        wish = call.json(ChangeSettings)
        if wish.skill and not await self._skills.known(wish.skill):
            raise NotFound(f"No skill is named {wish.skill[:100]!r}")
        chat_id = call.id("chatId", "Chat")
        changed = ChatChanged(
            model=wish.model,
            skill=None if wish.skill is None else wish.skill or "none",
            system_prompt=wish.system_prompt,
            approvals=wish.approvals,
        )
        if changed != ChatChanged():
            await self._chats.change(chat_id, changed, call.caller.by)
        return Answer(_settings(await self._chats.get(chat_id)))

    async def stop(self, call: Call) -> Answer:
        """End the running turn and hold the queue."""
        chat_id = call.id("chatId", "Chat")
        self._chats.summary(chat_id)
        stopped = await self._turns.stop_turn(chat_id, call.caller.by)
        return Answer(StoppedView(chat_id, stopped))

    async def hold(self, call: Call) -> Answer:
        """Nothing leaves the queue until it is released."""
        wish = call.json(HoldQueue)
        chat_id = call.id("chatId", "Chat")
        reason = wish.reason.strip() or HoldQueue().reason
        await self._chats.hold(chat_id, reason, call.caller.by)
        return Answer(HeldView(chat_id, self._chats.summary(chat_id).held))

    async def release(self, call: Call) -> Answer:
        """The queue goes on."""
        chat_id = call.id("chatId", "Chat")
        await self._chats.release(chat_id, call.caller.by)
        return Answer(HeldView(chat_id, self._chats.summary(chat_id).held))

    async def questions(self, call: Call) -> Answer:
        """The open questions of one chat."""
        chat = await self._chats.get(call.id("chatId", "Chat"))
        return Answer(ApprovalsView(_questions([chat])))

    async def all_questions(self, _: Call) -> Answer:
        """The open questions of all chats."""
        asking = [chat.id for chat in self._chats.summaries() if chat.asking and not chat.damage]
        return Answer(ApprovalsView(_questions([await self._chats.get(one) for one in asking])))

    async def decide(self, call: Call) -> Answer:
        """Answer a question."""
        wish = call.json(Decide)
        chat_id = call.id("chatId", "Chat")
        decided = await self._approvals.answer(
            chat_id,
            call.id("approvalId", "Approval"),
            allowed=wish.decision == "allow",
            session=wish.session,
            note=wish.note,
            by=call.caller.by,
        )
        return Answer(approval_view(decided, chat_id))


def _agent(chat: Chat, summary: Summary, evidence: Evidence | None) -> AgentView:
    wait = chat.agent.wait
    return AgentView(
        chat=status_view(summary),
        state=summary.state,
        held=summary.held,
        waits_until=summary.waits_until or None,
        waits_for=wait.reason if wait else "",
        work=_evidence(evidence) if evidence else None,
        approvals=_questions([chat]),
        settings=_settings(chat),
    )


def _settings(chat: Chat) -> ChatSettingsView:
    return ChatSettingsView(chat.model, chat.skill, chat.system_prompt, chat.agent.approvals)


def _evidence(evidence: Evidence) -> EvidenceView:
    return EvidenceView(
        turn=evidence.turn,
        engine=evidence.engine,
        model=evidence.model,
        since=evidence.since,
        last_sign=evidence.last_sign,
        process=evidence.process,
        last_tool=evidence.last_tool,
    )


def _questions(chats: list[Chat]) -> list[ApprovalView]:
    asked = [(one.at, chat.id, one) for chat in chats for one in chat.agent.asked]
    asked.sort(key=lambda row: row[:2])
    return [approval_view(one, chat_id) for _, chat_id, one in asked]
