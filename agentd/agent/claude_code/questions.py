"""What Claude Code asks over its control channel, and how it is answered."""

from collections.abc import Iterator, Mapping

import msgspec

from agentd.agent.claude_code.tools import ASKS_A_PERSON, access, subject
from agentd.agent.conversation import Ask, Send, Step, Withdrawn
from agentd.agent.engine import Answer, Question
from agentd.agent.foreign import NOBODY_ANSWERS, Bounds
from agentd.agent.json_rpc import pick, text

NOT_ALLOWED = "This is not allowed."
STOPPED = "The person stopped this turn."


class Questions:
    """Those that are open, by the id of their request."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._open: dict[str, object] = {}
        """What the tool is to be given."""
        self._closed = False

    def asked(self, given: object) -> Iterator[Step]:
        """A request."""
        number = text(given, "request_id")
        tool = text(given, "request", "tool_name")
        if text(given, "request", "subtype") != "can_use_tool" or not tool:
            yield _answer(number, error="agentd does not serve this request")
        elif tool == ASKS_A_PERSON:
            yield _answer(number, _denied(NOBODY_ANSWERS))
        elif self._closed:
            yield _answer(number, _denied(STOPPED))
        elif number and number not in self._open:
            self._open[number] = pick(given, "request", "input")
            yield Ask(number, self._question(tool, pick(given, "request")))

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """The decision."""
        if ask not in self._open:
            return
        given = self._open.pop(ask)
        if answer.allowed:
            yield _answer(ask, {"behavior": "allow", "updatedInput": given})
        else:
            yield _answer(ask, _denied(answer.reason or NOT_ALLOWED))

    def cancelled(self, given: object) -> Iterator[Step]:
        """A request needs no answer any more."""
        number = text(given, "request_id")
        if number in self._open:
            del self._open[number]
            yield Withdrawn(number)

    def close(self) -> Iterator[Step]:
        """Nobody is to be asked any more."""
        self._closed = True
        yield from map(Withdrawn, self._open)
        self._open.clear()

    def _question(self, tool: str, request: object) -> Question:
        given = pick(request, "input")
        reasons = (text(given, "description"), text(request, "decision_reason"))
        judged = access(tool, given, text(request, "blocked_path"), self._bounds)
        shown = subject(tool, given, self._bounds)
        return judged.question(tool, shown, next(filter(None, reasons), ""))


def request(number: str, subtype: str) -> Send:
    """A request of ours; its answer bears the same ``number``."""
    asked = {"subtype": subtype}
    return _send({"type": "control_request", "request_id": number, "request": asked})


def _denied(reason: str) -> Mapping[str, object]:
    return {"behavior": "deny", "message": reason}


def _answer(number: str, response: Mapping[str, object] | None = None, error: str = "") -> Send:
    told = {"subtype": "error", "error": error} if error else {"subtype": "success"}
    if response is not None:
        told = {**told, "response": response}  # type: ignore[dict-item]
    return _send({"type": "control_response", "response": {**told, "request_id": number}})


def _send(message: Mapping[str, object]) -> Send:
    return Send(msgspec.json.encode(message))
