"""What an ACP agent asks, and how each answer is put to it; every request is answered."""

import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from agentd.agent.acp.work import Work
from agentd.agent.conversation import Ask, Step, Withdrawn
from agentd.agent.engine import Answer
from agentd.agent.foreign import Bounds
from agentd.agent.json_rpc import Peer, Request, each, pick, text

_Outcome: TypeAlias = Mapping[str, object]

_CANCELLED: _Outcome = {"outcome": {"outcome": "cancelled"}}


class Questions:
    """The requests of the agent."""

    def __init__(self, peer: Peer, work: Work, bounds: Bounds) -> None:
        self._peer = peer
        self._work = work
        self._bounds = bounds
        self._open: dict[str, Request] = {}
        self._closed = False

    def asked(self, request: Request) -> Iterator[Step]:
        """Have somebody decide, or answer at once what nobody can decide."""
        ask = json.dumps(request.id)
        match request.method:
            case "session/request_permission" if self._closed:
                yield self._peer.answer(request.id, _CANCELLED)
            case "session/request_permission":
                if ask not in self._open:
                    self._open[ask] = request
                    tool = self._work.asked(pick(request.params, "toolCall"))
                    yield Ask(ask, tool.question(self._bounds))
            case "elicitation/create":
                yield self._peer.answer(request.id, {"action": "decline"})
            case _:
                yield self._peer.refuse(request.id, "agentd serves no files and no terminals")

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """Tell the agent the decision."""
        request = self._open.pop(ask, None)
        if request:
            yield self._peer.answer(request.id, _chosen(request.params, answer))

    def withdrawn(self, params: object) -> Iterator[Step]:
        """The agent takes a request back."""
        ask = json.dumps(pick(params, "requestId"))
        request = self._open.pop(ask, None)
        if request:
            yield self._peer.answer(request.id, _CANCELLED)
            yield Withdrawn(ask)

    def close(self) -> Iterator[Step]:
        """Nobody is asked from now on; what is open is cancelled, as the protocol wants it."""
        self._closed = True
        for ask, request in self._open.items():
            yield Withdrawn(ask)
            yield self._peer.answer(request.id, _CANCELLED)
        self._open.clear()


def _chosen(params: object, answer: Answer) -> _Outcome:
    """Once is enough: the approver remembers what holds for the whole chat."""
    wanted = ("allow_once", "allow_always") if answer.allowed else ("reject_once", "reject_always")
    for kind in wanted:
        for option in each(params, "options"):
            if text(option, "kind") == kind:
                return {"outcome": {"outcome": "selected", "optionId": text(option, "optionId")}}
    return _CANCELLED
