"""Questions as forms, and what counts as an answer to them."""

from typing import Any

import pytest
from hypothesis import given

from agentd.chats.approval import Approval, ApprovalKind
from agentd.chats.views import ApprovalView, make_approval_view
from agentd.mcp.questions import (
    MAX_SHOWN,
    Decision,
    can_be_shown,
    find_answers,
    make_form,
    name_question,
    read_answer,
)
from tests.mcp.test_messages import OBJECTS

NOW = "2026-01-01T00:00:00.000Z"


def make_question(kind: ApprovalKind = "shell", subject: str = "rm x", **more: Any) -> ApprovalView:
    return make_approval_view(Approval(7, kind, "shell", subject, NOW, **more), 3)


ALLOW = {"action": "accept", "content": {"decision": "allow"}}


def test_a_permission_is_shown_whole_with_its_two_decisions() -> None:
    form: Any = make_form(make_question(reason="needed", diff="-a\n+b"))
    for part in ("Chat 3", "shell", "rm x", "-a\n+b", "needed"):
        assert part in form["message"]
    fields = form["requestedSchema"]["properties"]
    assert fields["decision"]["enum"] == ["allow", "deny"]
    assert form["requestedSchema"]["required"] == ["decision"]


def test_nothing_in_a_permission_turns_around_what_is_allowed() -> None:
    form: Any = make_form(make_question(subject="echo '\u202ex fr- mr'\n\tls"))
    assert "echo '\\u202ex fr- mr'\n\tls" in form["message"]


def test_a_question_is_shown_with_its_choices_and_room_for_another_answer() -> None:
    form: Any = make_form(make_question("question", "Which?", choices=("red", "blue")))
    assert form["message"] == "Which?"
    fields = form["requestedSchema"]["properties"]
    assert fields["choice"]["enum"] == ["red", "blue"]
    assert fields["answer"]["type"] == "string"


def test_what_a_form_would_cut_off_is_not_asked_in_it() -> None:
    assert can_be_shown(make_question())
    assert not can_be_shown(make_question(subject="x" * (MAX_SHOWN + 1)))
    assert not can_be_shown(make_question(diff="x" * (MAX_SHOWN + 1)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ALLOW, Decision(True)),
        ({**ALLOW, "content": {"decision": "allow", "session": True}}, Decision(True, True)),
        ({**ALLOW, "content": {"decision": "deny", "note": " no "}}, Decision(False, note="no")),
        ({**ALLOW, "content": {"decision": "deny", "session": True}}, Decision(False, True)),
        ({"action": "decline"}, Decision(False)),
        ({"action": "cancel"}, None),
        ({"action": "accept"}, None),
        ({"action": "accept", "content": {"answer": "allow"}}, None),
        ({"action": "accept", "content": {"decision": "ALLOW"}}, None),
        ({"content": {"decision": "allow"}}, None),
    ],
)
def test_only_a_clear_permission_is_one(answer: dict[str, Any], expected: Decision | None) -> None:
    assert read_answer(make_question(), answer) == expected


@given(OBJECTS, OBJECTS)
def test_no_other_answer_allows(answer: dict[str, Any], content: dict[str, Any]) -> None:
    for found in (answer, {**answer, "content": content}, {"action": "accept", "content": content}):
        decision = read_answer(make_question(), found)
        if decision is not None and decision.allowed:
            assert found["content"]["decision"] == "allow"


def test_the_answer_to_a_question_is_its_note() -> None:
    question = make_question("question", "Which?", choices=("red",))
    for content in ({"choice": "red"}, {"answer": "red"}, {"choice": "x", "answer": "red"}):
        answer = {"action": "accept", "content": content}
        assert read_answer(question, answer) == Decision(True, note="red")
    assert read_answer(question, {"action": "accept", "content": {"answer": " "}}) is None


def test_answers_are_found_by_the_names_of_their_questions() -> None:
    name = name_question(make_question())
    given = {name: ALLOW, "question-x": ALLOW, "other": ALLOW, "question-8": 1}
    assert find_answers(given) == {7: ALLOW}
