"""Turns requests of an ACP agent into questions; every request gets a response."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from agentd.agent.engine import ApprovalAnswer, Question
from agentd.agent.engines.acp.events import AcpEvents
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import AskApproval, QuestionCancelled, Step
from agentd.agent.engines.external.json_rpc import (
    RpcPeer,
    RpcRequest,
    get_path,
    get_text,
    iter_list,
)
from agentd.agent.forms import read_form
from agentd.agent.mcp_servers.model import ReadyServer

_Outcome: TypeAlias = Mapping[str, object]

_CANCELLED: _Outcome = {"outcome": {"outcome": "cancelled"}}


class AcpQuestions:
    """The requests of the agent."""

    def __init__(
        self,
        peer: RpcPeer,
        work: AcpEvents,
        bounds: WorkspaceBounds,
        mcp_servers: Sequence[ReadyServer] = (),
    ) -> None:
        self._mcp_servers = [server.name for server in mcp_servers]
        """The names of those that the agent is handed."""
        self._peer = peer
        self._work = work
        self._bounds = bounds
        self._open: dict[str, RpcRequest] = {}
        self._closed = False

    def on_request(self, request: RpcRequest) -> Iterator[Step]:
        """Ask for approval, or respond at once if approval is impossible."""
        ask = json.dumps(request.id)
        match request.method:
            case "session/request_permission" if self._closed:
                yield self._peer.respond(request.id, _CANCELLED)
            case "session/request_permission":
                if ask not in self._open:
                    self._open[ask] = request
                    call = get_path(request.params, "toolCall")
                    bare = not get_path(call, "rawInput") and not any(iter_list(call, "locations"))
                    tool = self._work.get_tool(call)
                    question = tool.to_question(self._bounds, self._mcp_servers, bare=bare)
                    yield AskApproval(ask, question)
            case "elicitation/create":
                yield from self._ask_person(ask, request)
            case _:
                yield self._peer.respond_error(
                    request.id, "agentd serves no files and no terminals"
                )

    def on_update(self, update: object) -> None:
        """Follow the agent into another mode, such as once a person has allowed its plan."""
        if mode := get_text(update, "currentModeId"):
            self._bounds = self._bounds.follow_mode(mode)

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Send the decision to the agent."""
        request = self._open.pop(ask, None)
        if request and request.method == "elicitation/create":
            yield self._peer.respond(request.id, _fill_in_form(request.params, answer))
        elif request:
            yield self._peer.respond(request.id, _choose_option(request.params, answer))

    def on_cancelled(self, params: object) -> Iterator[Step]:
        """Cancel a request that the agent withdraws."""
        ask = json.dumps(get_path(params, "requestId"))
        request = self._open.pop(ask, None)
        if request:
            yield self._cancel(request)
            yield QuestionCancelled(ask)

    def close(self) -> Iterator[Step]:
        """Withdraw all open questions and cancel open requests, as the protocol requires."""
        self._closed = True
        for ask, request in self._open.items():
            yield QuestionCancelled(ask)
            yield self._cancel(request)
        self._open.clear()

    def _ask_person(self, ask: str, request: RpcRequest) -> Iterator[Step]:
        """Ask what the agent asks in a form, if one answer is enough; else dismiss it.

        To decline would say that a person has refused it.
        """
        form = read_form(get_path(request.params, "requestedSchema"))
        if self._closed or form is None or get_text(request.params, "mode") not in ("", "form"):
            yield self._peer.respond(request.id, {"action": "cancel"})
        elif ask not in self._open:
            self._open[ask] = request
            message = get_text(request.params, "message")
            yield AskApproval(ask, Question("question", "ask", message, choices=form.choices))

    def _cancel(self, request: RpcRequest) -> Step:
        asks = request.method == "elicitation/create"
        return self._peer.respond(request.id, {"action": "cancel"} if asks else _CANCELLED)


def _fill_in_form(params: object, answer: ApprovalAnswer) -> _Outcome:
    form = read_form(get_path(params, "requestedSchema"))
    if not answer.allowed or form is None:
        return {"action": "decline"}
    content = form.fill_in(answer.reason)
    return {"action": "cancel"} if content is None else {"action": "accept", "content": content}


def _choose_option(params: object, answer: ApprovalAnswer) -> _Outcome:
    """Choose an option for this once: the approver itself remembers session grants."""
    wanted = ("allow_once", "allow_always") if answer.allowed else ("reject_once", "reject_always")
    for kind in wanted:
        for option in iter_list(params, "options"):
            if get_text(option, "kind") == kind:
                return {
                    "outcome": {"outcome": "selected", "optionId": get_text(option, "optionId")}
                }
    return _CANCELLED
