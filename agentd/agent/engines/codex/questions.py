"""Turns requests of Codex into questions, and decisions into responses."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

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
        self._closed = False

    def on_item_started(self, item: object) -> None:
        """Remember an item that begins: a later question refers to it by id only."""
        self._changes[get_text(item, "id")] = item

    def on_request(self, request: RpcRequest) -> Iterator[Step]:
        """Ask for approval, or respond at once if approval is impossible."""
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
        waiting = self._open.pop(ask, None)
        if waiting:
            yield self._peer.respond(waiting.request.id, waiting.reply(answer))

    def on_resolved(self, params: object) -> Iterator[Step]:
        """Cancel a question that Codex no longer needs answered."""
        ask = json.dumps(get_path(params, "requestId"))
        if self._open.pop(ask, None):
            yield QuestionCancelled(ask)

    def close(self) -> Iterator[Step]:
        """Withdraw all open questions."""
        self._closed = True
        yield from (QuestionCancelled(ask) for ask in self._open)
        self._open.clear()

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
            case "item/tool/requestUserInput":
                questions = [get_text(one, "id") for one in iter_list(request.params, "questions")]
                answers = {one: {"answers": [NOBODY_ANSWERS]} for one in questions}
                return self._peer.respond(request.id, {"answers": answers})
            case "mcpServer/elicitation/request":
                return self._peer.respond(
                    request.id, _render_elicitation(ApprovalAnswer(allowed=False))
                )
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
    """Return an MCP server's question; None for a form, which agentd cannot fill in."""
    if get_text(params, "mode") == "url" or any(iter_list(params, "requestedSchema", "required")):
        return None
    return Question(
        "other", get_text(params, "serverName"), get_text(params, "message")
    ), _render_elicitation


def _render_elicitation(answer: ApprovalAnswer) -> Mapping[str, object]:
    if answer.allowed:
        return {"action": "accept", "content": {}, "_meta": None}
    return {"action": "decline", "content": None, "_meta": None}
