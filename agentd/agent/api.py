"""Endpoints of the agent: a chat's turn, settings, stop, approvals and the queue's hold.

Source: the remote-control specification, section 4, 'Extended surface'; paths below the
specification's prefixes are ours.
"""

from contextlib import suppress
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from agentd.agent.approval_rules import ApprovalRule
from agentd.agent.turn_runner import RunningReply, TurnStatus
from agentd.chats.agent_state import AgentState
from agentd.chats.approval import LONGEST_NOTE, Approval, ApprovalMode
from agentd.chats.records import ChatChanged
from agentd.chats.requests import get_chat_id
from agentd.chats.service import ChatService
from agentd.chats.state import Chat, ChatState, ChatSummary
from agentd.chats.views import (
    ApprovalView,
    ChatSettingsView,
    Id,
    Name,
    StatusView,
    make_approval_view,
    make_chat_settings_view,
    make_status_view,
)
from agentd.core.clock import Timestamp
from agentd.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    Unavailable,
)
from agentd.http.access import Caller, RouteGroup, require_answers
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class TurnStatusView(Struct, frozen=True, rename="camel"):
    """The running turn and its last sign of activity."""

    turn: int
    engine: str
    model: str
    since: Timestamp
    last_activity: Timestamp
    pid: int
    last_tool: str
    tools: list["RunningToolView"]
    """The tools at work, in the order in which they were started."""


class RunningToolView(Struct, frozen=True):
    """A tool at work; its message follows when it has ended."""

    number: int
    """Its number within the turn, as in the ``toolUse`` of messages."""
    name: str
    input: str
    parent: int
    """The number of the use that started the sub-agent whose tool this is; 0: the turn's own."""


class RunningReplyView(Struct, frozen=True, rename="camel"):
    """The reply that is being written, for clients that connect in the middle of it.

    A client that subscribes to the live events first and then requests this can apply each event
    once: within this ``turn``, a ``messageDelta`` with a higher ``number`` continues where ``text``
    ends; events of this chat whose id begins with a number up to ``seq`` are already part of the
    response; a later ``messageUpdate`` by the assistant has the whole reply and ends it.
    ``thinking`` grows by ``thinkingDelta`` in the same way; any later ``messageUpdate`` ends it.
    """

    turn: int
    text: str
    """The text published so far; empty: none since the last message."""
    number: int
    """Number of the last ``messageDelta`` in it; 0 if none was published in this turn."""
    seq: int
    """The last event of the chat before this response."""
    thinking: str = ""
    """What the model thought since the last message; empty: nothing, or its supplier hides it."""
    thinking_number: int = 0
    """Number of the last ``thinkingDelta`` in it; 0 if none was published in this turn."""


class ChatAgentView(Struct, frozen=True, rename="camel"):
    """A chat and its agent; ``state`` has also ``created`` and ``error``."""

    chat: StatusView
    state: ChatState
    held: str
    waits_until: Timestamp | None
    waits_for: str
    turn: TurnStatusView | None
    running_reply: RunningReplyView | None
    """The reply as far as it is written; null: no turn runs."""
    approvals: list[ApprovalView]
    standing_decisions: list[ApprovalView]
    """The decisions to allow or deny that hold for the whole chat, the latest first."""
    settings: "ChatSettingsView"


class ChangeSettings(Struct, frozen=True, rename="camel"):
    """The settings to change; absent fields stay unchanged."""

    model: Name | None = None
    skill: Name | None = None
    system_prompt: str | None = None
    approvals: ApprovalMode | Literal[""] | None = None
    worktree: bool | None = None
    """Give an idle chat a git work tree and branch of its own, or take it away, which is refused
    if work would be lost."""
    keep_processes: bool | None = None
    """Processes that the native engine starts in the background go on when a turn ends; false:
    what runs of an idle chat is ended."""
    mode: Name | None = None
    """The mode of its engine's program (``program.modes`` of a model), such as ``plan``; empty: the
    program's usual one."""


class StoppedView(Struct, frozen=True, rename="camel"):
    """True if a turn was running; the queue is held now."""

    chat_id: Id
    stopped: bool


class HoldQueue(Struct, frozen=True):
    """Why the queue is to be held."""

    reason: Name = "Held by hand."


class HeldView(Struct, frozen=True, rename="camel"):
    """Why the queue is held; empty if it is not."""

    chat_id: Id
    held: str


class DecideApproval(Struct, frozen=True):
    """The answer to a question; ``session``: yes or no to the same one in this chat, too.

    What the agent asks the person (kind ``question``) and budgets are always asked about.
    """

    decision: Literal["allow", "deny"]
    session: bool = False
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""
    """Why, for the agent; of a ``question`` the answer, without which it is not allowed unless
    ``Yes`` is one of its choices."""
    rule: ApprovalRule | None = None
    """A rule that decides this question as the answer does, by an administrator: it is added to
    ``approval_rules`` of ``agentd.yml``, before the first rule that decides it now, else at the
    end."""


class ApprovalsView(Struct, frozen=True):
    """The open questions, the longest open first."""

    approvals: list[ApprovalView]


class TurnDispatcher(Protocol):
    """The running turns (``agent.dispatcher.Dispatcher``)."""

    def get_turn_status(self, chat_id: int) -> TurnStatus | None:
        """Return the status of a chat's running turn; None when none runs."""
        ...

    def get_running_reply(self, chat_id: int) -> RunningReply | None:
        """Return the unfinished reply of a chat's running turn; None when none runs."""
        ...

    async def stop_turn(self, chat_id: int, by: str) -> bool:
        """End the running turn; False if there is none."""
        ...


class ApprovalDecider(Protocol):
    """The questions of the running turns (``agent.approvals.ApprovalService``)."""

    async def answer(
        self,
        chat_id: int,
        number: int,
        *,
        allowed: bool,
        session: bool,
        note: str,
        by: str,
        rule: ApprovalRule | None,
    ) -> Approval:
        """Record a person's decision and its rule; ``NotFound`` if the question is not open."""
        ...

    def list_standing(self, agent: AgentState) -> list[Approval]:
        """Return what was decided for the whole chat, the latest first."""
        ...

    async def withdraw(self, chat_id: int, number: int, by: str) -> Approval:
        """Withdraw a decision for the whole chat; ``NotFound``."""
        ...


class SkillChecker(Protocol):
    """The known skills."""

    async def is_known(self, name: str) -> bool:
        """Return whether a chat can use this skill."""
        ...


class ModeChecker(Protocol):
    """The modes of the engines' programs (``agent.engine_selection.EngineRegistry``)."""

    def check_mode(self, model: str, mode: str, caller: Caller) -> None:
        """Raise ``Conflict`` if the program has no such mode, or ``Forbidden``."""
        ...


class WorktreeSwitch(Protocol):
    """The work trees of chats (``workspace.worktrees.service.WorktreeService``)."""

    async def add(self, chat_id: int, by: str) -> None:
        """Give an idle chat a work tree; ``Conflict``."""
        ...

    async def drop(self, chat_id: int, by: str, *, force: bool) -> object:
        """Take an idle chat's work tree away; ``Conflict`` if work would be lost."""
        ...


class AgentEndpoints:
    """The endpoints below ``/api/chat`` and the queue's hold."""

    def __init__(
        self,
        chats: ChatService,
        turns: TurnDispatcher,
        approvals: ApprovalDecider,
        skills: SkillChecker,
        worktrees: WorktreeSwitch,
        modes: ModeChecker,
    ) -> None:
        self._worktrees = worktrees
        self._modes = modes
        self._chats = chats
        self._turns = turns
        self._approvals = approvals
        self._skills = skills

    async def get_chat(self, call: Request) -> Response:
        """Return one chat with its agent's status."""
        chat_id = get_chat_id(call)
        chat = await self._chats.get(chat_id)
        view = _make_agent_view(
            chat,
            chat.summarize(),
            self._turns.get_turn_status(chat_id),
            self._get_running_reply(chat_id),
            self._approvals.list_standing(chat.agent),
        )
        return Response(view)

    def _get_running_reply(self, chat_id: int) -> RunningReplyView | None:
        reply = self._turns.get_running_reply(chat_id)
        if reply is None:
            return None
        # Both as of this moment, whatever was awaited before: what was published goes together.
        seq = self._chats.get_summary(chat_id).seq
        return RunningReplyView(
            reply.turn, reply.text, reply.number, seq, reply.thinking, reply.thinking_number
        )

    async def change_settings(self, call: Request) -> Response:
        """Change the model, skill, system prompt or approval mode."""
        changes = call.parse_json(ChangeSettings)
        if changes.approvals in ("auto", ""):  # allows what a person would be asked
            require_answers(call.caller)
        if changes.skill and not await self._skills.is_known(changes.skill):
            raise NotFound(f"No skill is named {changes.skill[:100]!r}")
        chat_id = get_chat_id(call)
        if changes.mode:
            model = (
                (await self._chats.get(chat_id)).model if changes.model is None else changes.model
            )
            self._modes.check_mode(model, changes.mode, call.caller)
        changed = ChatChanged(
            model=changes.model,
            skill=None if changes.skill is None else changes.skill or "none",
            system_prompt=changes.system_prompt,
            approvals=changes.approvals,
            keep_processes=changes.keep_processes,
            mode=changes.mode,
        )
        if changes.worktree:
            await self._worktrees.add(chat_id, call.caller.identity)
        elif changes.worktree is False:
            await self._worktrees.drop(chat_id, call.caller.identity, force=False)
        if changed != ChatChanged():
            await self._chats.change_chat(chat_id, changed, call.caller.identity)
        return Response(make_chat_settings_view(await self._chats.get(chat_id)))

    async def stop_turn(self, call: Request) -> Response:
        """End the running turn and hold the queue."""
        chat_id = get_chat_id(call)
        self._chats.get_summary(chat_id)
        stopped = await self._turns.stop_turn(chat_id, call.caller.identity)
        return Response(StoppedView(chat_id, stopped))

    async def hold_queue(self, call: Request) -> Response:
        """Hold the queue until it is released."""
        changes = call.parse_json(HoldQueue)
        chat_id = get_chat_id(call)
        reason = changes.reason.strip() or HoldQueue().reason
        await self._chats.hold_queue(chat_id, reason, call.caller.identity)
        return Response(HeldView(chat_id, self._chats.get_summary(chat_id).held))

    async def release_queue(self, call: Request) -> Response:
        """Release the queue; the open question of a used-up budget is answered by that."""
        chat_id = get_chat_id(call)
        by = call.caller.identity
        agent = (await self._chats.get(chat_id)).agent
        asked = next((one.id for one in agent.asked if one.kind == "budget"), 0)
        if asked or (agent.hold and agent.hold.kind == "budget"):
            require_answers(call.caller)
        if asked:  # the answer releases what the budget holds
            with suppress(NotFound):  # answered meanwhile
                await self._approvals.answer(
                    chat_id, asked, allowed=True, session=False, note="", by=by, rule=None
                )
            agent = (await self._chats.get(chat_id)).agent
        if not asked or (agent.hold and agent.hold.kind == "hand"):
            await self._chats.release_queue(chat_id, by)
        return Response(HeldView(chat_id, self._chats.get_summary(chat_id).held))

    async def list_approvals(self, call: Request) -> Response:
        """List the open approvals of one chat."""
        chat = await self._chats.get(get_chat_id(call))
        return Response(ApprovalsView(_make_approval_views([chat])))

    async def list_all_approvals(self, _: Request) -> Response:
        """List the open approvals of all chats."""
        asking = [
            chat.id for chat in self._chats.list_summaries() if chat.asking and not chat.damage
        ]
        chats = []
        for chat_id in asking:
            with suppress(NotFound):  # deleted meanwhile, with its questions
                chats.append(await self._chats.get(chat_id))
        return Response(ApprovalsView(_make_approval_views(chats)))

    async def decide_approval(self, call: Request) -> Response:
        """Answer a question."""
        changes = call.parse_json(DecideApproval)
        if changes.rule and call.caller.role != "administrator":
            raise Forbidden(
                "Only an administrator may add a rule",
                "It would decide in other chats, too. Answer without it, or sign in as one.",
            )
        if changes.rule and changes.rule.decision != changes.decision:
            raise BadRequest("rule.decision: expected the decision about this question")
        chat_id = get_chat_id(call)
        decided = await self._approvals.answer(
            chat_id,
            call.get_id("approvalId", "Approval"),
            allowed=changes.decision == "allow",
            session=changes.session,
            note=changes.note,
            by=call.caller.identity,
            rule=changes.rule,
        )
        return Response(make_approval_view(decided, chat_id))

    async def withdraw_decision(self, call: Request) -> Response:
        """Withdraw a decision for the whole chat."""
        chat_id, number = get_chat_id(call), call.get_id("approvalId", "Approval")
        withdrawn = await self._approvals.withdraw(chat_id, number, call.caller.identity)
        return Response(make_approval_view(withdrawn, chat_id))


def _make_agent_view(
    chat: Chat,
    summary: ChatSummary,
    evidence: TurnStatus | None,
    running_reply: RunningReplyView | None,
    standing: list[Approval],
) -> ChatAgentView:
    wait = chat.agent.wait
    return ChatAgentView(
        chat=make_status_view(summary),
        state=summary.state,
        held=summary.held,
        waits_until=summary.waits_until or None,
        waits_for=wait.reason if wait else "",
        turn=_make_turn_status_view(evidence, chat) if evidence else None,
        running_reply=running_reply,
        approvals=_make_approval_views([chat]),
        standing_decisions=[make_approval_view(one, chat.id) for one in standing],
        settings=make_chat_settings_view(chat),
    )


def _make_turn_status_view(evidence: TurnStatus, chat: Chat) -> TurnStatusView:
    turn = chat.agent.turn
    running = turn.tools if turn and turn.id == evidence.turn else ()
    return TurnStatusView(
        turn=evidence.turn,
        engine=evidence.engine,
        model=evidence.model,
        since=evidence.since,
        last_activity=evidence.last_activity,
        pid=evidence.pid,
        last_tool=evidence.last_tool,
        tools=[RunningToolView(one.number, one.name, one.input, one.parent) for one in running],
    )


def _make_approval_views(chats: list[Chat]) -> list[ApprovalView]:
    asked = [(one.at, chat.id, one) for chat in chats for one in chat.agent.asked]
    asked.sort(key=lambda row: row[:2])
    return [make_approval_view(one, chat_id) for _, chat_id, one in asked]


def routes(agent: AgentEndpoints) -> tuple[Route, ...]:
    """Return the routes of the agent's turns, approvals and holds."""
    return (*_list_turn_routes(agent), *_list_approval_routes(agent), *_hold_routes(agent))


def _list_turn_routes(agent: AgentEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chat/{chatId}",
            RouteGroup.EXTENDED,
            agent.get_chat,
            "Get a chat with its running turn, its open approvals, what was decided for the whole"
            " chat, and why its queue is held.",
            operation_id="get_chat_work",
            response_type=ChatAgentView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
        Route(
            "PUT",
            "/api/chat/{chatId}/settings",
            RouteGroup.EXTENDED,
            agent.change_settings,
            "Change a chat's model, skill, system prompt, approval mode or work tree, and whether"
            " its processes in the background go on when a turn ends. An API key needs the scope"
            " answers for the approval mode auto, and to remove the chat's own mode.",
            operation_id="change_chat_settings",
            request_type=ChangeSettings,
            response_type=ChatSettingsView,
            errors=(BadRequest, Forbidden, NotFound, Conflict),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/chat/{chatId}/stop",
            RouteGroup.EXTENDED,
            agent.stop_turn,
            "Stop the running turn with everything it started, and hold the queue. Processes in the"
            " background go on if the chat keeps them.",
            operation_id="stop_chat",
            response_type=StoppedView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
    )


def _list_approval_routes(agent: AgentEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chat/approvals",
            RouteGroup.EXTENDED,
            agent.list_all_approvals,
            "List the open approvals of all chats.",
            operation_id="list_all_approvals",
            response_type=ApprovalsView,
            section="4, extended surface",
        ),
        Route(
            "GET",
            "/api/chat/{chatId}/approvals",
            RouteGroup.EXTENDED,
            agent.list_approvals,
            "List the open approvals of a chat.",
            operation_id="list_approvals",
            response_type=ApprovalsView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/chat/{chatId}/approvals/{approvalId}",
            RouteGroup.EXTENDED,
            agent.decide_approval,
            "Allow or deny a question of the agent; an API key needs the scope answers. An"
            " administrator may add a rule that decides such questions from then on.",
            operation_id="decide_approval",
            needs_answers=True,
            request_type=DecideApproval,
            response_type=ApprovalView,
            errors=(BadRequest, Forbidden, NotFound, Conflict, Unavailable),
            section="4, extended surface",
        ),
        Route(
            "DELETE",
            "/api/chat/{chatId}/approvals/{approvalId}",
            RouteGroup.EXTENDED,
            agent.withdraw_decision,
            "Withdraw what was allowed or denied for the whole chat (its standingDecisions): the"
            " settings, or a person, decide again. An API key needs the scope answers.",
            operation_id="withdraw_decision",
            needs_answers=True,
            response_type=ApprovalView,
            errors=(Forbidden, NotFound, Unavailable),
            section="4, extended surface",
        ),
    )


def _hold_routes(agent: AgentEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/MessageQueue/{chatId}/hold",
            RouteGroup.EXTENDED,
            agent.hold_queue,
            "Hold the queue: no prompt starts until it is released.",
            operation_id="hold_queue",
            request_type=HoldQueue,
            response_type=HeldView,
            errors=(BadRequest, NotFound),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/MessageQueue/{chatId}/release",
            RouteGroup.EXTENDED,
            agent.release_queue,
            "Release the queue, whatever the reason for its hold. If that is a budget, this allows"
            " to spend as much again, as the answer to its question does, and an API key needs the"
            " scope answers; after a denial it is asked again.",
            operation_id="release_queue",
            response_type=HeldView,
            errors=(Forbidden, NotFound),
            section="4, extended surface",
        ),
    )
