"""Turns requests of Codex into questions, and decisions into responses."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.engine import ApprovalAnswer, Question
from agentd.agent.engines.codex.items import (
    describe_item,
    list_changed_paths,
    render_command,
    render_diff,
)
from agentd.agent.engines.external.common import NOBODY_ANSWERS, ToolAccess, WorkspaceBounds
from agentd.agent.engines.external.conversation import AskApproval, QuestionCancelled, Step
from agentd.agent.engines.external.json_rpc import (
    RpcPeer,
    RpcRequest,
    get_path,
    get_text,
    iter_list,
)
from agentd.agent.engines.external.person_questions import (
    QuestionSeries,
    explain_unanswered,
    make_person_question,
)
from agentd.agent.forms import OneFieldForm, read_form
from agentd.agent.mcp_servers.messages import name_tool

NO_SECRETS = "Secrets are not asked for here. Say where the person can put it instead."

_ASKS = "request_user_input"
_Reply: TypeAlias = Callable[[ApprovalAnswer], object]
_Asked: TypeAlias = tuple[Question, _Reply]


class _Open(Struct, frozen=True):
    """A request that waits for a decision, and how to respond to it."""

    request: RpcRequest
    reply: _Reply
    subject: str


class CodexQuestions:
    """The requests of Codex; each gets a response, so that Codex never hangs."""

    def __init__(self, peer: RpcPeer, bounds: WorkspaceBounds) -> None:
        self._peer = peer
        self._bounds = bounds
        self._changes: dict[str, object] = {}
        self._open: dict[str, _Open] = {}
        self._series: dict[str, QuestionSeries] = {}
        """The model's own questions, by the id of the one that is open."""
        self._asked: dict[str, object] = {}
        """The parameters of their requests, by the request's id."""
        self._closed = False

    def on_item_started(self, item: object) -> None:
        """Remember an item that begins: a later question refers to it by id only."""
        self._changes[get_text(item, "id")] = item

    def on_request(self, request: RpcRequest) -> Iterator[Step]:
        """Ask for approval, or respond at once if approval is impossible."""
        if request.method == "item/tool/requestUserInput":
            yield from self._ask_person(request)
            return
        asked = self._build_question(request)
        if asked is None:
            yield self._respond_unasked(request)
            return
        question, reply = asked
        ask = json.dumps(request.id)
        if self._closed:
            yield self._peer.respond(request.id, reply(ApprovalAnswer(allowed=False)))
        elif ask not in self._open:
            self._open[ask] = _Open(request, reply, question.subject)
            yield AskApproval(ask, question)

    def get_subject(self, ask: str) -> str:
        """Return the subject of an open question; empty: it is not open."""
        waiting = self._open.get(ask)
        return waiting.subject if waiting else ""

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Send the decision to Codex."""
        if series := self._series.pop(ask, None):
            yield from self._on_answer(series, answer)
            return
        waiting = self._open.pop(ask, None)
        if waiting:
            yield self._peer.respond(waiting.request.id, waiting.reply(answer))

    def on_resolved(self, params: object) -> Iterator[Step]:
        """Cancel a question that Codex no longer needs answered."""
        ask = json.dumps(get_path(params, "requestId"))
        if self._open.pop(ask, None):
            yield QuestionCancelled(ask)
        for asked in [asked for asked, one in self._series.items() if one.ask == ask]:
            del self._series[asked]
            yield QuestionCancelled(asked)

    def close(self) -> Iterator[Step]:
        """Withdraw all open questions."""
        self._closed = True
        yield from (QuestionCancelled(ask) for ask in (*self._open, *self._series))
        self._open.clear()
        self._series.clear()

    def _ask_person(self, request: RpcRequest) -> Iterator[Step]:
        """Put the model's own questions to the person: all, or none if one asks for a secret.

        What a person answers is kept in the history, where no secret belongs.
        """
        asked = list(iter_list(request.params, "questions"))
        secret = any(get_path(one, "isSecret") is True for one in asked)
        ask = json.dumps(request.id)
        if self._closed or secret or not all(get_text(one, "question") for one in asked):
            yield self._respond_answers(request.params, ask, [], NO_SECRETS if secret else "")
            return
        if any(one.ask == ask for one in self._series.values()):
            return
        self._asked[ask] = request.params
        questions = [
            make_person_question(_ASKS, get_text(one, "question"), iter_list(one, "options"))
            for one in asked
        ]
        yield from self._ask_next(QuestionSeries(ask, questions))

    def _ask_next(self, series: QuestionSeries) -> Iterator[Step]:
        """Put the next question; after the last one, send the answers."""
        if asked := series.next_question:
            self._series[asked.id] = series
            yield asked
        else:
            params = self._asked.pop(series.ask)
            yield self._respond_answers(params, series.ask, series.answers)

    def _on_answer(self, series: QuestionSeries, answer: ApprovalAnswer) -> Iterator[Step]:
        if answer.allowed:
            series.add_answer(answer)
            yield from self._ask_next(series)
        else:
            params, reason = self._asked.pop(series.ask), explain_unanswered(answer)
            yield self._respond_answers(params, series.ask, series.answers, reason)

    def _respond_answers(
        self, params: object, ask: str, answers: Sequence[str], reason: str = ""
    ) -> Step:
        """Send the answers; questions without one get the ``reason`` for that."""
        names = [get_text(one, "id") for one in iter_list(params, "questions")]
        pairs = itertools.zip_longest(names, answers, fillvalue=reason or NOBODY_ANSWERS)
        filled = {name: {"answers": [answer]} for name, answer in pairs}
        return self._peer.respond(json.loads(ask), {"answers": filled})

    def _build_question(self, request: RpcRequest) -> _Asked | None:
        match request.method:
            case "item/commandExecution/requestApproval":
                return self._ask_about_command(request.params), _render_decision
            case "item/fileChange/requestApproval":
                return self._ask_about_changes(request.params), _render_decision
            case "item/permissions/requestApproval":
                return _parse_permissions(request.params, self._bounds)
            case "mcpServer/elicitation/request":
                return _parse_elicitation(request.params)
        return None

    def _ask_about_command(self, params: object) -> Question:
        reason = get_text(params, "reason")
        host = get_text(params, "networkApprovalContext", "host")
        if host:
            protocol = get_text(params, "networkApprovalContext", "protocol") or "network"
            return Question("network", "network", f"{protocol}://{host}", reason)
        item = (
            params if get_text(params, "command") else self._changes.get(get_text(params, "itemId"))
        )
        return Question("shell", "shell", render_command(item, self._bounds.folder), reason)

    def _ask_about_changes(self, params: object) -> Question:
        item = self._changes.get(get_text(params, "itemId"))
        paths = list_changed_paths(item)
        root = get_text(params, "grantRoot")
        paths += [root] if root else []
        subject = "\n".join(map(self._bounds.display_path, paths)) or "files"
        _, description = describe_item(item, self._bounds) or ("", "")
        reason = "\n".join(filter(None, (get_text(params, "reason"), description)))
        return self._bounds.classify_write(paths).to_question(
            "edit", subject, reason, render_diff(item, self._bounds)
        )

    def _respond_unasked(self, request: RpcRequest) -> Step:
        match request.method:
            case "mcpServer/elicitation/request":
                # To decline would say that a person has refused it.
                dismissed = {"action": "cancel", "content": None, "_meta": None}
                return self._peer.respond(request.id, dismissed)
            case _:
                return self._peer.respond_error(request.id, "agentd does not serve this request")


def _render_decision(answer: ApprovalAnswer) -> Mapping[str, object]:
    return {"decision": "accept" if answer.allowed else "decline"}


def _parse_permissions(params: object, bounds: WorkspaceBounds) -> _Asked:
    """Parse a request for more permissions, which are granted for this turn or not at all."""
    wanted = get_path(params, "permissions")
    files = get_path(wanted, "fileSystem")
    access = ToolAccess("network")
    if files:
        folders = [one.split("*")[0].rstrip("/") or "/" for one in _iter_paths(files)]
        access = replace(bounds.classify_write(folders), kind="outside")
        if not folders:  # a permission of an unknown form
            access = ToolAccess("outside", "It does not say which files it is about.")
    subject = json.dumps(wanted, ensure_ascii=False)
    return access.to_question("permissions", subject, get_text(params, "reason")), lambda answer: {
        "permissions": wanted if answer.allowed and isinstance(wanted, dict) else {},
        "scope": "turn",
    }


def _iter_paths(value: object) -> Iterator[str]:
    """Yield every absolute path in a value."""
    if isinstance(value, str) and value.startswith("/"):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _iter_paths(one)


def _parse_elicitation(params: object) -> _Asked | None:
    """Return an MCP server's question; None for a form that needs more than one answer.

    Codex asks in the same way, on the server's behalf, whether a tool may be called.
    """
    schema, server = get_path(params, "requestedSchema"), get_text(params, "serverName")
    form, message = read_form(schema), get_text(params, "message")
    if get_text(params, "mode") not in ("", "form"):
        return None
    if get_text(params, "_meta", "codex_approval_kind") == "mcp_tool_call":
        tool = name_tool(server, get_text(params, "_meta", "tool_name"))
        given = msgspec.json.encode(get_path(params, "_meta", "tool_params") or {}).decode()
        return Question("other", tool, given), _render_elicitation
    if form and form.name:
        question = Question("question", server or "mcp", message, choices=form.choices)
        return question, lambda answer: _fill_in(form, answer)
    if any(iter_list(schema, "required")):
        return None
    return Question("other", server, message), _render_elicitation


def _fill_in(form: OneFieldForm, answer: ApprovalAnswer) -> Mapping[str, object]:
    if not answer.allowed:
        return _render_elicitation(answer)
    content = form.fill_in(answer.reason)
    action = "cancel" if content is None else "accept"
    return {"action": action, "content": content, "_meta": None}


def _render_elicitation(answer: ApprovalAnswer) -> Mapping[str, object]:
    if answer.allowed:
        return {"action": "accept", "content": {}, "_meta": None}
    return {"action": "decline", "content": None, "_meta": None}
