"""Turns control requests of Claude Code into questions, and decisions into responses."""

from collections.abc import Iterator, Mapping

import msgspec

from agentd.agent.engine import ApprovalAnswer, Question
from agentd.agent.engines.claude_code.tools import (
    ASKS_A_PERSON,
    ENDS_PLANNING,
    classify_access,
    describe_subject,
    render_diff,
)
from agentd.agent.engines.external.common import NOBODY_ANSWERS, WorkspaceBounds
from agentd.agent.engines.external.conversation import (
    AskApproval,
    QuestionCancelled,
    SendLine,
    Step,
)
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.engines.external.person_questions import (
    QuestionSeries,
    explain_unanswered,
    make_person_question,
)

NOT_ALLOWED = "This is not allowed."
STOPPED = "The person stopped this turn."


class ClaudeQuestions:
    """The open questions, by the id of their request."""

    def __init__(self, bounds: WorkspaceBounds) -> None:
        self._bounds = bounds
        self._open: dict[str, object] = {}
        """The input of the tool."""
        self._subjects: dict[str, str] = {}
        """What each question is about."""
        self._plans: set[str] = set()
        """The questions about a plan; once one is allowed, its work begins."""
        self._series: dict[str, QuestionSeries] = {}
        """The model's own questions, by the id of the one that is open."""
        self._closed = False

    def on_request(self, given: object) -> Iterator[Step]:
        """Handle a control request."""
        number = get_text(given, "request_id")
        tool = get_text(given, "request", "tool_name")
        if get_text(given, "request", "subtype") != "can_use_tool" or not tool:
            yield _build_response(number, error="agentd does not serve this request")
        elif self._closed:
            yield _build_response(number, _render_denial(STOPPED))
        elif number in self._open:
            return
        elif tool == ASKS_A_PERSON:
            yield from self._ask_person(number, get_path(given, "request", "input"))
        elif number:
            self._open[number] = get_path(given, "request", "input")
            question = self._build_question(tool, get_path(given, "request"))
            self._subjects[number] = question.subject
            if tool == ENDS_PLANNING:
                self._plans.add(number)
            yield AskApproval(number, question)

    def get_subject(self, ask: str) -> str:
        """Return what an open question is about; empty: it is not open."""
        return self._subjects.get(ask, "") if ask in self._open else ""

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Send the decision."""
        if series := self._series.pop(ask, None):
            yield from self._on_answer(series, answer)
            return
        if ask not in self._open:
            return
        given = self._open.pop(ask)
        if answer.allowed:
            if ask in self._plans:
                self._bounds = self._bounds.follow_mode("")
            yield _build_response(ask, {"behavior": "allow", "updatedInput": given})
        else:
            yield _build_response(ask, _render_denial(answer.reason or NOT_ALLOWED))

    def on_cancelled(self, given: object) -> Iterator[Step]:
        """Drop a request that needs no answer any more."""
        number = get_text(given, "request_id")
        if number in self._open:
            yield QuestionCancelled(self._forget(number))

    def close(self) -> Iterator[Step]:
        """Withdraw all open questions."""
        self._closed = True
        for number in list(self._open):
            yield QuestionCancelled(self._forget(number))

    def _forget(self, number: str) -> str:
        """Forget a request; return the id under which its question is open."""
        del self._open[number]
        ask = next((ask for ask, one in self._series.items() if one.ask == number), number)
        self._series.pop(ask, None)
        return ask

    def _ask_person(self, number: str, given: object) -> Iterator[Step]:
        """Put the model's own questions to the person."""
        questions = [
            make_person_question(
                ASKS_A_PERSON,
                get_text(one, "question"),
                iter_list(one, "options"),
                several=get_path(one, "multiSelect") is True,
            )
            for one in iter_list(given, "questions")
            if get_text(one, "question")
        ]
        if not questions:
            yield _build_response(number, _render_denial(NOBODY_ANSWERS))
            return
        self._open[number] = given
        yield from self._ask_next(QuestionSeries(number, questions))

    def _ask_next(self, series: QuestionSeries) -> Iterator[Step]:
        if asked := series.next_question:
            self._series[asked.id] = series
            yield asked

    def _on_answer(self, series: QuestionSeries, answer: ApprovalAnswer) -> Iterator[Step]:
        """Put the next question; after the last one, send the answers by their questions."""
        if not answer.allowed:
            del self._open[series.ask]
            yield _build_response(series.ask, _render_denial(explain_unanswered(answer)))
            return
        series.add_answer(answer)
        if series.next_question:
            yield from self._ask_next(series)
            return
        given = self._open.pop(series.ask)
        texts = [get_text(one, "question") for one in iter_list(given, "questions")]
        answers = dict(zip(filter(None, texts), series.answers, strict=True))
        members = given if isinstance(given, dict) else {}
        filled = {**members, "answers": answers}
        yield _build_response(series.ask, {"behavior": "allow", "updatedInput": filled})

    def _build_question(self, tool: str, request: object) -> Question:
        given = get_path(request, "input")
        reasons = (get_text(given, "description"), get_text(request, "decision_reason"))
        judged = classify_access(tool, given, get_text(request, "blocked_path"), self._bounds)
        shown = describe_subject(tool, given, self._bounds)
        diff = render_diff(tool, given, self._bounds)
        return judged.to_question(tool, shown, next(filter(None, reasons), ""), diff)


def build_control_request(number: str, subtype: str) -> SendLine:
    """Build a control request; its response has the same ``number``."""
    asked = {"subtype": subtype}
    return _send({"type": "control_request", "request_id": number, "request": asked})


def _render_denial(reason: str) -> Mapping[str, object]:
    return {"behavior": "deny", "message": reason}


def _build_response(
    number: str, response: Mapping[str, object] | None = None, error: str = ""
) -> SendLine:
    reply = {"subtype": "error", "error": error} if error else {"subtype": "success"}
    if response is not None:
        reply = {**reply, "response": response}  # type: ignore[dict-item]
    return _send({"type": "control_response", "response": {**reply, "request_id": number}})


def _send(message: Mapping[str, object]) -> SendLine:
    return SendLine(msgspec.json.encode(message))
