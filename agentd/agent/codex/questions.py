"""What Codex asks, as questions for the approver, and how each answer is put to it."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.codex.items import changed_paths, command_line, described
from agentd.agent.conversation import Ask, Step, Withdrawn
from agentd.agent.engine import Answer, Question
from agentd.agent.foreign import NOBODY_ANSWERS, Access, Bounds
from agentd.agent.json_rpc import Peer, Request, each, pick, text

_Reply: TypeAlias = Callable[[Answer], object]
_Asked: TypeAlias = tuple[Question, _Reply]


class _Open(Struct, frozen=True):
    """A request that waits for a decision, and how it is answered."""

    request: Request
    reply: _Reply


class Questions:
    """The requests of Codex; each is answered, whatever it is, so that it never hangs."""

    def __init__(self, peer: Peer, bounds: Bounds) -> None:
        self._peer = peer
        self._bounds = bounds
        self._changes: dict[str, object] = {}
        self._open: dict[str, _Open] = {}
        self._closed = False

    def begun(self, item: object) -> None:
        """An item begins; a question about it may follow, which does not tell what it is."""
        self._changes[text(item, "id")] = item

    def asked(self, request: Request) -> Iterator[Step]:
        """Have somebody decide, or answer at once what nobody can decide."""
        asked = self._question(request)
        if asked is None:
            yield self._unasked(request)
            return
        question, reply = asked
        ask = json.dumps(request.id)
        if self._closed:
            yield self._peer.answer(request.id, reply(Answer(allowed=False)))
        elif ask not in self._open:
            self._open[ask] = _Open(request, reply)
            yield Ask(ask, question)

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """Tell Codex the decision."""
        waiting = self._open.pop(ask, None)
        if waiting:
            yield self._peer.answer(waiting.request.id, waiting.reply(answer))

    def resolved(self, params: object) -> Iterator[Step]:
        """Codex needs no answer any more."""
        ask = json.dumps(pick(params, "requestId"))
        if self._open.pop(ask, None):
            yield Withdrawn(ask)

    def close(self) -> Iterator[Step]:
        """Nobody is asked from now on."""
        self._closed = True
        yield from (Withdrawn(ask) for ask in self._open)
        self._open.clear()

    def _question(self, request: Request) -> _Asked | None:
        match request.method:
            case "item/commandExecution/requestApproval":
                return self._command(request.params), _decided
            case "item/fileChange/requestApproval":
                return self._change(request.params), _decided
            case "item/permissions/requestApproval":
                return _permissions(request.params, self._bounds)
            case "mcpServer/elicitation/request":
                return _elicitation(request.params)
        return None

    def _command(self, params: object) -> Question:
        reason = text(params, "reason")
        host = text(params, "networkApprovalContext", "host")
        if host:
            protocol = text(params, "networkApprovalContext", "protocol") or "network"
            return Question("network", "network", f"{protocol}://{host}", reason)
        item = params if text(params, "command") else self._changes.get(text(params, "itemId"))
        return Question("shell", "shell", command_line(item, self._bounds.folder), reason)

    def _change(self, params: object) -> Question:
        item = self._changes.get(text(params, "itemId"))
        paths = changed_paths(item)
        root = text(params, "grantRoot")
        paths += [root] if root else []
        subject = "\n".join(map(self._bounds.named, paths)) or "files"
        _, told = described(item, self._bounds) or ("", "")
        reason = "\n".join(filter(None, (text(params, "reason"), told)))
        return self._bounds.writing(paths).question("edit", subject, reason)

    def _unasked(self, request: Request) -> Step:
        match request.method:
            case "item/tool/requestUserInput":
                questions = [text(one, "id") for one in each(request.params, "questions")]
                answers = {one: {"answers": [NOBODY_ANSWERS]} for one in questions}
                return self._peer.answer(request.id, {"answers": answers})
            case "mcpServer/elicitation/request":
                return self._peer.answer(request.id, _elicited(Answer(allowed=False)))
            case _:
                return self._peer.refuse(request.id, "agentd does not serve this request")


def _decided(answer: Answer) -> Mapping[str, object]:
    return {"decision": "accept" if answer.allowed else "decline"}


def _permissions(params: object, bounds: Bounds) -> _Asked:
    """More rights for the rest of the turn: they are granted as they are asked for, or not."""
    wanted = pick(params, "permissions")
    files = pick(wanted, "fileSystem")
    access = Access("network")
    if files:
        folders = [one.split("*")[0].rstrip("/") or "/" for one in _paths(files)]
        access = replace(bounds.writing(folders), kind="outside")
        if not folders:  # a right of a form that is not known here
            access = Access("outside", "Which files it is about was not told.")
    subject = json.dumps(wanted, ensure_ascii=False)
    return access.question("permissions", subject, text(params, "reason")), lambda answer: {
        "permissions": wanted if answer.allowed and isinstance(wanted, dict) else {},
        "scope": "turn",
    }


def _paths(value: object) -> Iterator[str]:
    """Every absolute path in a value."""
    if isinstance(value, str) and value.startswith("/"):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _paths(one)


def _elicitation(params: object) -> _Asked | None:
    """A server of tools asks for leave. What asks for more than a yes is not for us to fill in."""
    if text(params, "mode") == "url" or any(each(params, "requestedSchema", "required")):
        return None
    return Question("other", text(params, "serverName"), text(params, "message")), _elicited


def _elicited(answer: Answer) -> Mapping[str, object]:
    if answer.allowed:
        return {"action": "accept", "content": {}, "_meta": None}
    return {"action": "decline", "content": None, "_meta": None}
