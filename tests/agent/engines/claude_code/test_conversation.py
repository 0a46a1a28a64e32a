"""A turn with Claude Code in lines: told once, booked once, whatever is lost, doubled or broken."""

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import (
    ApprovalAnswer,
    EngineStateSaved,
    Question,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
    UsageWindowsReported,
)
from agentd.agent.engines.claude_code.conversation import (
    BAD_KEY,
    LIMIT,
    LOST,
    PAUSE,
    SIGN_IN,
    ClaudeConversation,
)
from agentd.agent.engines.claude_code.launch import ClaudeState
from agentd.agent.engines.claude_code.usage import read_turn_cost
from agentd.agent.engines.external.common import (
    CONTINUE_PROMPT,
    NOBODY_ANSWERS,
    REPLACED,
    WITHDRAWN,
    WorkspaceBounds,
    digest_instructions,
)
from agentd.agent.engines.external.conversation import (
    AskApproval,
    ProgramLaunch,
    QuestionCancelled,
    RestartProgram,
    SendLine,
    Step,
    SupplierPause,
    TurnDone,
)
from agentd.agent.engines.external.person_questions import LEFT_OPEN
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.chats.model import Message
from agentd.llm.conversation import ImagePart
from agentd.llm.price import Usage
from agentd.models.program_state import UsageWindow
from tests.agent.engines.claude_code import lines
from tests.agent.engines.claude_code.lines import (
    SESSION,
    accept_handshake,
    answer,
    ask_permission,
    encode_line,
    end_turn,
    report_earlier_cost,
    report_limit,
    return_result,
    say_text,
    start_session,
    stream_event,
    stream_text,
    use_tool,
)
from tests.agent.engines.conversing import (
    WORKSPACE,
    deny,
    filter_reported,
    filter_steps,
    replay,
    sum_cost,
    sum_usage,
)

LAUNCHED = ProgramLaunch(("claude", "--verbose", f"--resume={lines.SESSION}"), {"A": "1"})
AFRESH = ProgramLaunch(("claude", "--verbose"), {"A": "1"})
MEMORY = str(ClaudeState(SESSION, digest_instructions("")))
KEPT = EngineStateSaved(MEMORY)
FREE, COST = Decimal(0), Decimal("0.25")
ONE = Usage(input=10, output=5)


HANDED = (
    ReadyServer("tea", url="https://tea.example", headers={"Authorization": "Bearer mint-0123456"}),
    ReadyServer("files", ("files",)),
)


def make_conversation(**more: Any) -> ClaudeConversation:
    return ClaudeConversation(
        TurnRequest(1, "Do it.", **more), WorkspaceBounds(WORKSPACE), LAUNCHED, HANDED
    )


def run_turn(*more: bytes, **given: Any) -> list[Step]:
    """Return the steps of a turn that begins well and goes on with these lines."""
    return replay(
        make_conversation(**given),
        (accept_handshake(), report_earlier_cost(), start_session(), *more),
    )


def read_sent_lines(steps: Iterable[Step]) -> list[Any]:
    return [json.loads(step.line) for step in filter_steps(steps, SendLine)]


def read_decisions(steps: Iterable[Step]) -> list[Any]:
    return [one["response"] for one in read_sent_lines(steps) if one["type"] == "control_response"]


# As it should be.


def test_of_the_servers_that_it_was_handed_those_it_cannot_use_are_told_once_without_secrets():
    one = make_conversation()
    replay(one, (accept_handshake(), report_earlier_cost()))
    states = [
        {"name": "tea", "status": "failed"},
        {"name": "files", "status": "connected"},
        {"name": "the person's own", "status": "needs-auth"},
    ]
    begun = encode_line("system", subtype="init", session_id=SESSION, mcp_servers=states)
    (asked,) = read_sent_lines(one.on_line(begun))
    assert asked["request"] == {"subtype": "mcp_status"}
    states[0]["error"] = "Bearer mint-0123456 is not known"
    reasons = {"request_id": asked["request_id"], "response": {"mcpServers": states}}
    told = list(one.on_line(encode_line("control_response", response=reasons)))
    assert told == [
        ToolUsed(
            "mcp",
            "tea",
            "failed: Claude Code cannot start or reach it (*** is not known)",
            ok=False,
        )
    ]
    assert list(one.on_line(begun)) == []


def test_the_prompt_is_sent_once_the_control_channel_is_open():
    one = make_conversation()
    (opened,) = read_sent_lines(one.on_start())
    assert opened["request"] == {"subtype": "initialize"}
    (prompt,) = read_sent_lines(one.on_line(accept_handshake()))
    assert prompt == {
        "type": "user",
        "message": {"role": "user", "content": "Do it."},
        "parent_tool_use_id": None,
        "session_id": "",
    }
    assert list(one.on_line(accept_handshake())) == []


def test_a_program_that_knows_no_handshake_is_prompted_all_the_same():
    refused = {"subtype": "error", "request_id": "agentd-1", "error": "unknown"}
    steps = replay(
        make_conversation(), [encode_line("control_response", response=refused), end_turn("Hi.")]
    )
    assert ReplyCompleted("Hi.", cost=COST) in steps


def test_a_reply_is_shown_as_it_grows_and_reported_whole_with_the_cost_of_the_turn():
    steps = run_turn(
        stream_event(
            {"type": "message_start", "message": {"id": "m1", "usage": lines.count_usage(1)}}
        ),
        stream_text("It is "),
        stream_text("done."),
        answer("m1", say_text("It is done."), output=1),
        stream_event({"type": "message_delta", "usage": {"output_tokens": 5}, "delta": {}}),
        stream_event({"type": "message_stop"}),
        end_turn("It is done."),
    )
    assert filter_steps(steps, ReplyDelta) == [ReplyDelta("It is "), ReplyDelta("done.")]
    assert filter_reported(steps) == [KEPT, ReplyCompleted("It is done.", ONE, COST)]
    assert steps[-1] == TurnDone()


def test_a_text_that_is_cut_within_a_character_does_not_lose_the_line():
    cut, told = "Half of it: \ud83d.", "Half of it: \ufffd."
    steps = run_turn(answer("m1", say_text(cut)), end_turn(cut))
    assert filter_reported(steps) == [KEPT, ReplyCompleted(told, ONE, COST)]
    assert steps[-1] == TurnDone()


def test_tools_are_reported_in_their_order_and_usage_repeated_by_each_block_counts_once():
    steps = run_turn(
        answer("m1", say_text("I look.")),
        answer("m1", use_tool("t1", "Bash", command="ls")),
        answer("m1", use_tool("t2", "Read", file_path=f"{WORKSPACE}/a.py")),
        return_result("t2", [say_text("1\tone")]),
        return_result("t1", "a.py", failed=True),
        answer("m2", say_text("There is one file.")),
        end_turn("There is one file."),
    )
    assert filter_reported(steps) == [
        KEPT,
        ToolStarted("Bash", "ls"),
        ToolStarted("Read", "a.py"),
        ReplyCompleted("I look.", ONE, FREE),
        ToolUsed("Read", "a.py", "1\tone"),
        ToolUsed("Bash", "ls", "failed: a.py", ok=False),
        ReplyCompleted("There is one file.", ONE, COST),
    ]


def test_all_buckets_of_tokens_are_known():
    more = {"cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
    steps = run_turn(
        answer("m1", say_text("Hi."), message={"usage": lines.count_usage(5, **more)}), end_turn()
    )
    assert sum_usage(steps) == Usage(input=10, cache_read=7, cache_write=3, output=5)


def test_of_a_helper_its_tools_and_tokens_are_reported_and_not_its_words():
    steps = run_turn(
        answer("m1", use_tool("t1", "Agent", description="Find it", prompt="…")),
        stream_text("inner", parent="t1"),
        answer("h1", say_text("I am a helper."), parent="t1"),
        answer("h1", use_tool("t2", "Grep", pattern="x"), parent="t1"),
        return_result("t2", "a:1", parent="t1"),
        return_result("t1", "found"),
        answer("m2", say_text("Found.")),
        end_turn("Found."),
    )
    assert [step.text for step in filter_steps(steps, ReplyCompleted)] == ["Found."]
    assert filter_steps(steps, ReplyDelta) == []
    assert [step.name for step in filter_steps(steps, ToolUsed)] == ["Grep", "Agent"]
    assert sum_usage(steps) == ONE + ONE + ONE


def test_the_result_is_the_reply_when_none_was_reported():
    assert filter_reported(run_turn(end_turn("Cost: $0."))) == [
        KEPT,
        ReplyCompleted("Cost: $0.", cost=COST),
    ]


def test_an_interrupted_tool_is_reported_at_the_end():
    steps = run_turn(answer("m1", use_tool("t1", "Bash", command="make")))
    assert filter_reported(steps)[-1] == ToolUsed("Bash", "make", "Interrupted.", ok=False)


def test_what_is_cut_off_leaves_the_reply_unpriced_by_us():
    """The model's prices tell then, as for every engine that knows no cost."""
    assert filter_reported(run_turn(answer("m1", say_text("Half.")))) == [
        KEPT,
        ReplyCompleted("Half.", ONE, None),
    ]


# Questions.


@pytest.mark.parametrize(
    ("name", "given", "kind", "subject"),
    [
        ("Bash", {"command": "rm -rf x", "description": "Clean"}, "shell", "rm -rf x"),
        ("Edit", {"file_path": f"{WORKSPACE}/src/a.py"}, "write", "src/a.py"),
        ("Write", {"file_path": "a.py", "content": "…"}, "write", "a.py"),
        ("Write", {"file_path": f"{WORKSPACE}/../b"}, "outside", "/home/someone/b"),
        ("MultiEdit", {"file_path": "/etc/hosts"}, "outside", "/etc/hosts"),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, "write", "n.ipynb"),
        ("Edit", {}, "outside", ""),
        ("Read", {"file_path": f"{WORKSPACE}/a"}, "read", "a"),
        ("Read", {"file_path": "/root/.ssh/id_rsa"}, "outside", "/root/.ssh/id_rsa"),
        ("Grep", {"pattern": "x", "path": "/etc"}, "outside", "x in /etc"),
        ("Grep", {"pattern": "x"}, "read", "x"),
        ("Glob", {"pattern": "*.py"}, "read", "*.py"),
        ("WebFetch", {"url": "https://a.example/"}, "network", "https://a.example/"),
        ("WebSearch", {"query": "weather"}, "network", "weather"),
        ("mcp__x__do", {"a": [1]}, "other", '{"a":[1]}'),
        ("Odd", None, "other", ""),
        ("Bash", "no map", "shell", '"no map"'),
    ],
)
def test_what_is_asked_is_reported_by_kind_and_subject(name, given, kind, subject):
    steps = run_turn(ask_permission("q1", name, given, decision_reason="a rule"))
    (ask,) = filter_steps(steps, AskApproval)
    reason = "Clean" if given and "description" in given else "a rule"
    assert ask == AskApproval(
        "q1", Question(kind, name, subject, reason, ask.question.protected, diff=ask.question.diff)
    )
    assert bool(ask.question.diff) is ("content" in (given or {}) or "new_string" in (given or {}))
    assert bool(ask.question.protected) is (kind == "outside" and subject == "/etc/hosts")
    (decision,) = read_decisions(steps)
    assert decision == {
        "subtype": "success",
        "request_id": "q1",
        "response": {"behavior": "allow", "updatedInput": given},
    }


def test_the_cell_that_is_written_is_shown_before_it_is_allowed():
    given = {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "x = 1\ny = 2"}
    (ask,) = filter_steps(run_turn(ask_permission("q1", "NotebookEdit", given)), AskApproval)
    assert ask.question.diff == "--- a/n.ipynb\n+++ b/n.ipynb\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2"
    deleted = given | {"new_source": "", "edit_mode": "delete"}
    (ask,) = filter_steps(run_turn(ask_permission("q1", "NotebookEdit", deleted)), AskApproval)
    assert ask.question.diff == ""


def test_a_path_that_claude_code_itself_objects_to_counts():
    (ask,) = filter_steps(
        run_turn(ask_permission("q1", "Read", {"file_path": "a"}, blocked_path="/etc/shadow")),
        AskApproval,
    )
    assert ask.question.kind == "outside"


def test_a_denial_has_its_reason():
    one = make_conversation()
    list(one.on_start())
    (ask,) = filter_steps(one.on_line(ask_permission("q1", "Bash", {"command": "x"})), AskApproval)
    (decision,) = read_decisions(one.on_decision(ask.id, ApprovalAnswer(False, reason="Use make.")))
    assert decision["response"] == {"behavior": "deny", "message": "Use make."}
    assert list(one.on_decision(ask.id, ApprovalAnswer(True))) == []


def test_leave_for_the_chat_is_not_given_to_claude_code():
    """The approver remembers it, where it can be taken back."""
    one = make_conversation()
    suggestion = {"type": "addRules", "behavior": "allow", "destination": "projectSettings"}
    asked = ask_permission("q1", "Bash", {"command": "x"}, permission_suggestions=[suggestion])
    (ask,) = filter_steps(one.on_line(asked), AskApproval)
    (decision,) = read_decisions(one.on_decision(ask.id, ApprovalAnswer(True, session=True)))
    assert set(decision["response"]) == {"behavior", "updatedInput"}


def test_the_words_before_a_question_are_reported_before_it():
    steps = run_turn(
        answer("m1", say_text("I must clean.")),
        answer("m1", use_tool("t1", "Bash", command="x")),
        ask_permission("q1", "Bash", {"command": "x"}),
    )
    kinds = [type(step) for step in steps if isinstance(step, ReplyCompleted | AskApproval)]
    assert kinds == [ReplyCompleted, AskApproval]


def test_several_questions_may_be_open_and_a_cancelled_one_is_withdrawn():
    one = make_conversation()
    assert (
        len(filter_steps(one.on_line(ask_permission("q1", "Bash", {"command": "x"})), AskApproval))
        == 1
    )
    assert (
        len(filter_steps(one.on_line(ask_permission("q2", "Bash", {"command": "y"})), AskApproval))
        == 1
    )
    assert list(one.on_line(ask_permission("q1", "Bash", {"command": "x"}))) == []
    cancel = encode_line("control_cancel_request", request_id="q1")
    assert list(one.on_line(cancel)) == [QuestionCancelled("q1")]
    assert list(one.on_line(cancel)) == []
    assert list(one.on_decision("q1", ApprovalAnswer(True))) == []
    assert len(read_decisions(one.on_decision("q2", ApprovalAnswer(True)))) == 1


COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "Warm."}, {"label": "Blue"}],
}
PARTS = {
    "question": "Which parts?",
    "options": [{"label": "Door"}, {"label": "Roof"}],
    "multiSelect": True,
}


def ask_both(one: ClaudeConversation) -> list[AskApproval]:
    list(one.on_start())
    asked = ask_permission("q1", "AskUserQuestion", {"questions": [COLOUR, PARTS]})
    return filter_steps(one.on_line(asked), AskApproval)


def test_the_model_s_own_questions_are_put_one_after_another_and_answered_together():
    one = make_conversation()
    (first,) = ask_both(one)
    shown = "Which colour?\n\n- Red: Warm.\n- Blue"
    assert first.question == Question("question", "AskUserQuestion", shown, choices=("Red", "Blue"))
    answered = ApprovalAnswer(True, reason="Blue", note="Blue", by_person=True)
    (second,) = list(one.on_decision(first.id, answered))
    assert isinstance(second, AskApproval)
    assert second.question.choices == ("Door", "Roof")
    assert "Several answers are possible" in second.question.subject
    steps = list(one.on_decision(second.id, ApprovalAnswer(True, reason="Door, Roof")))
    (sent,) = read_sent_lines(steps)
    assert sent["response"]["request_id"] == "q1"
    assert sent["response"]["response"] == {
        "behavior": "allow",
        "updatedInput": {
            "questions": [COLOUR, PARTS],
            "answers": {"Which colour?": "Blue", "Which parts?": "Door, Roof"},
        },
    }
    assert list(one.on_decision(second.id, ApprovalAnswer(True))) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ApprovalAnswer(False, reason="Nobody answered in time."), NOBODY_ANSWERS),
        (
            ApprovalAnswer(False, reason="Later.", note="Later.", by_person=True),
            f"{LEFT_OPEN} They say: Later.",
        ),
    ],
)
def test_a_question_without_an_answer_goes_back_to_the_model(answer, said):
    one = make_conversation()
    (first,) = ask_both(one)
    (decision,) = read_decisions(one.on_decision(first.id, answer))
    assert decision["response"] == {"behavior": "deny", "message": said}


def test_a_question_that_is_cancelled_or_stopped_is_withdrawn():
    one = make_conversation()
    (first,) = ask_both(one)
    cancel = encode_line("control_cancel_request", request_id="q1")
    assert list(one.on_line(cancel)) == [QuestionCancelled(first.id)]
    one = make_conversation()
    (first,) = ask_both(one)
    assert QuestionCancelled(first.id) in list(one.stop())


def test_questions_without_any_question_are_left_to_the_model():
    steps = run_turn(ask_permission("q1", "AskUserQuestion", {"questions": []}))
    assert filter_steps(steps, AskApproval) == []
    assert read_decisions(steps)[0]["response"] == {"behavior": "deny", "message": NOBODY_ANSWERS}


def test_other_requests_are_refused():
    hook = encode_line("control_request", request_id="q1", request={"subtype": "hook_callback"})
    (decision,) = read_decisions(run_turn(hook))
    assert decision["subtype"] == "error"


# Stopping.


def test_before_the_prompt_a_stopped_turn_is_simply_over():
    one = make_conversation()
    list(one.on_start())
    assert list(one.stop()) == [TurnDone()]
    assert list(one.on_line(accept_handshake())) == []


def test_a_stopped_turn_is_interrupted_its_questions_are_withdrawn_and_its_cost_is_booked():
    one = make_conversation()
    for heard in (accept_handshake(), start_session(), answer("m1", say_text("I begin."))):
        list(one.on_line(heard))
    list(one.on_line(ask_permission("q1", "Bash", {"command": "x"})))
    withdrawn, interrupt = one.stop()
    assert withdrawn == QuestionCancelled("q1")
    assert read_sent_lines([interrupt])[0]["request"] == {"subtype": "interrupt"}
    (denied,) = read_decisions(one.on_line(ask_permission("q2", "Bash", {"command": "y"})))
    assert denied["response"]["behavior"] == "deny"
    aborted = {"subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}
    last = list(one.on_line(end_turn(failed=True, **aborted)))
    assert last == [UsageReported(cost=COST), TurnDone()]


# Limits and failures.


def test_a_reached_limit_is_reported_with_its_end():
    steps = run_turn(
        report_limit("rejected", 1_778_565_600),
        answer("s", say_text("You've hit your limit"), error="rate_limit"),
        end_turn("You've hit your limit", failed=True, api_error_status=429, cost=0.1),
    )
    assert filter_reported(steps) == [
        KEPT,
        UsageWindowsReported((UsageWindow("5 hours", 100, "2026-05-12T06:00:00.000Z"),)),
        UsageReported(cost=Decimal("0.1")),
        RateLimited("You've hit your limit", "2026-05-12T06:00:00.000Z"),
    ]


def test_usage_windows_are_reported_as_events_tell_them():
    window = {"utilization": 0.821, "resetsAt": 1_778_565_600, "status": "allowed_warning"}
    steps = run_turn(
        report_limit("allowed", 1_778_565_600, utilization=0.4),
        report_limit("allowed_warning", surpassedThreshold=0.75),
        report_limit(
            "allowed",
            utilization=0.1,
            unifiedWindows={
                "five_hour": window,
                "seven_day": {"utilization": 1.2, "resetsAt": 1_778_565_600},
                "seven_day_overage_included": "odd",
                "unknown": window,
            },
        ),
        report_limit("allowed"),
        report_limit("allowed", utilization="much", unifiedWindows=[window]),
    )
    resets = "2026-05-12T06:00:00.000Z"
    assert [one.windows for one in filter_steps(steps, UsageWindowsReported)] == [
        (UsageWindow("5 hours", 40, resets),),
        (UsageWindow("5 hours", 75, None),),
        (UsageWindow("5 hours", 82, resets), UsageWindow("7 days", 100, resets)),
    ]


def test_a_resumed_session_is_asked_for_its_usage_windows():
    limits = {
        "five_hour": {"utilization": 76.4, "resets_at": "2026-05-12T06:00:00.123456+00:00"},
        "seven_day": {"utilization": None, "resets_at": None},
        "seven_day_opus": {"utilization": 3, "resets_at": "soon"},
        "model_scoped": [{"display_name": "Fable", "utilization": 12, "resets_at": None}, "odd"],
        "extra_usage": {"is_enabled": False, "utilization": None},
    }
    one = make_conversation(engine_state=str(ClaudeState("earlier")))
    steps = [*one.on_start(), *one.on_line(accept_handshake())]
    steps += one.on_line(report_earlier_cost(0, rate_limits=limits))
    assert filter_steps(steps, UsageWindowsReported) == [
        UsageWindowsReported(
            (
                UsageWindow("5 hours", 76, "2026-05-12T06:00:00.123Z"),
                UsageWindow("7 days, Opus", 3, None),
                UsageWindow("7 days, Fable", 12, None),
            )
        )
    ]
    assert isinstance(steps[-1], SendLine)


@pytest.mark.parametrize("resets", [None, 0, -1, 1e300, "soon", True])
def test_a_limit_without_a_sensible_end_is_still_a_limit(resets):
    steps = run_turn(report_limit("rejected", resets), end_turn(failed=True))
    (limited,) = filter_steps(steps, RateLimited)
    assert limited.reason == LIMIT
    assert limited.until in ("", "1970-01-01T00:00:01.000Z")


def test_a_long_pause_before_it_asks_again_is_reported():
    retry = {"type": "system", "subtype": "api_retry", "error": "rate_limit", "error_status": 429}
    steps = run_turn(json.dumps({**retry, "retry_delay_ms": 900_000}).encode())
    assert filter_steps(steps, SupplierPause) == [SupplierPause(f"{PAUSE} (HTTP 429).", 900.0)]
    for junk in (None, "soon", -1, 1e300):
        assert not filter_steps(
            run_turn(json.dumps({**retry, "retry_delay_ms": junk}).encode()), SupplierPause
        )


def test_a_limit_that_did_not_keep_the_turn_from_its_end_is_none():
    assert filter_steps(run_turn(report_limit("rejected", 9), end_turn("Done.")), RateLimited) == []
    steps = run_turn(
        report_limit("rejected", 9), report_limit("allowed"), end_turn("Oh.", failed=True)
    )
    assert filter_steps(steps, RateLimited) == []


@pytest.mark.parametrize(
    ("more", "supplier", "reason"),
    [
        ({"api_error_status": 401}, "", f"{SIGN_IN} It reports: Oh."),
        ({"api_error_status": 401}, "mine", f"{BAD_KEY} It reports: Oh."),
        ({"api_error_status": 529}, "", "Claude Code: Oh."),
        ({"subtype": "error_during_execution"}, "", "Claude Code: Oh."),
        (
            {"subtype": "error_max_turns"},
            "",
            "Claude Code reached the number of steps that its settings allow: Oh.",
        ),
        (
            {"subtype": "error_max_budget_usd", "result": None},
            "",
            "Claude Code reached the budget that its settings allow for a turn.",
        ),
        ({"subtype": "error_x", "result": None}, "", "Claude Code: error_x."),
        ({"subtype": "error_x", "result": None, "errors": ["a", "b"]}, "", "Claude Code: a\nb"),
    ],
)
def test_a_failure_is_reported_and_its_cost_is_recorded(more, supplier, reason):
    steps = run_turn(end_turn("Oh.", failed=True, **more), supplier=supplier)
    assert filter_reported(steps) == [KEPT, UsageReported(cost=COST), TurnFailed(reason)]


def test_a_success_that_is_an_error_is_no_reply():
    """Claude Code puts its own words where the model's should be, and calls that a success."""
    said = "API Error: 500"
    synthetic = answer("s", say_text(said), message={"model": "<synthetic>", "usage": {}})
    steps = run_turn(synthetic, end_turn(said, failed=True, api_error_status=500))
    assert filter_steps(steps, ReplyCompleted) == []
    assert steps[-2:] == [TurnFailed(f"Claude Code: {said}"), TurnDone()]


@pytest.mark.parametrize("cost", [None, "0.1", -1, True, 1e300, [1], 10**9])
def test_a_cost_that_is_none_is_not_recorded(cost):
    steps = run_turn(answer("m1", say_text("Hi.")), end_turn("Hi.", cost=cost))
    assert filter_reported(steps) == [KEPT, ReplyCompleted("Hi.", ONE, None)]


# Sessions.


HISTORY = (Message(1, "user", "Before.", ""), Message(2, "assistant", "Then.", ""))


def test_a_new_session_is_shown_what_went_before_and_a_resumed_one_is_not():
    (opened, prompt) = read_sent_lines(run_turn(history=HISTORY))
    assert "Before." in prompt["message"]["content"]
    assert prompt["message"]["content"].endswith("Do it.")
    (opened, asked, prompt) = read_sent_lines(run_turn(history=HISTORY, engine_state=MEMORY))
    assert opened
    assert asked["request"] == {"subtype": "get_usage"}
    assert prompt["message"]["content"] == "Do it."
    assert prompt["session_id"] == SESSION


def test_a_resumed_session_is_shown_what_other_engines_did_since():
    prompt = read_sent_lines(run_turn(history=HISTORY, missed=HISTORY[1:], engine_state=MEMORY))[-1]
    content = prompt["message"]["content"]
    assert "Then." in content and "Before." not in content and content.endswith("Do it.")


def test_a_session_that_keeps_its_system_prompt_is_told_of_other_instructions():
    def resume(memory, instructions):
        steps = run_turn(engine_state=memory, instructions=instructions)
        return read_sent_lines(steps)[-1]["message"]["content"]

    [kept] = filter_steps(run_turn(instructions="Be terse."), EngineStateSaved)
    assert resume(kept.engine_state, "Be terse.") == "Do it."
    changed = resume(kept.engine_state, "Be verbose.")
    assert REPLACED in changed and "Be verbose." in changed and changed.endswith("Do it.")
    assert WITHDRAWN in resume(kept.engine_state, "")
    of_an_earlier_version = str(ClaudeState(SESSION))
    assert resume(of_an_earlier_version, "") == "Do it."
    assert "Be terse." in resume(of_an_earlier_version, "Be terse.")


def test_after_a_limit_a_session_goes_on_and_a_new_one_starts_again():
    assert (
        read_sent_lines(run_turn(engine_state=MEMORY, is_retry=True))[-1]["message"]["content"]
        == CONTINUE_PROMPT
    )
    assert read_sent_lines(run_turn(is_retry=True))[1]["message"]["content"] == "Do it."


@pytest.mark.parametrize("lost", ["by its result", "by its death"])
def test_a_lost_session_is_restarted_once_and_the_history_shows(lost):
    one = make_conversation(engine_state=MEMORY, history=HISTORY)
    list(one.on_start())
    list(one.on_line(accept_handshake()))
    errors = ["No conversation found with session ID: x"]
    ended = end_turn(failed=True, subtype="error_during_execution", errors=errors, cost=0)
    steps = list(one.on_line(ended) if lost == "by its result" else one.on_exit())
    assert steps == [
        ToolUsed("claude-code", f"resume {SESSION}", LOST, ok=False),
        RestartProgram(AFRESH),
    ]
    list(one.on_start())
    (prompt,) = read_sent_lines(one.on_line(accept_handshake()))
    assert "Before." in prompt["message"]["content"]
    assert prompt["session_id"] == ""
    assert filter_steps(one.on_line(ended), TurnFailed) == [TurnFailed(f"Claude Code: {errors[0]}")]


def test_a_session_that_was_resumed_is_not_lost_by_a_later_failure():
    steps = run_turn(end_turn("Oh.", failed=True), engine_state=MEMORY)
    assert filter_steps(steps, RestartProgram) == []
    assert (
        filter_steps(
            replay(make_conversation(engine_state=MEMORY), (accept_handshake(), start_session())),
            RestartProgram,
        )
        == []
    )


REFUSED = {"subtype": "error", "request_id": "agentd-3", "error": "Unsupported"}


@pytest.mark.parametrize(
    ("before", "total", "cost"),
    [
        (report_earlier_cost(0.1), 0.35, COST),
        (report_earlier_cost(0.30000000000000004), 0.55, COST),
        (report_earlier_cost(), 0.25, COST),
        (report_earlier_cost(1), 0.25, COST),  # it counts from nothing after all
        (report_earlier_cost("much"), 0.25, COST),
        (encode_line("control_response", response=REFUSED), 0.25, COST),
    ],
)
def test_a_resumed_session_costs_what_its_turn_adds(before, total, cost):
    said = (accept_handshake(), before, start_session(), end_turn("Oh.", cost=total))
    assert filter_steps(replay(make_conversation(engine_state=MEMORY), said), ReplyCompleted) == [
        ReplyCompleted("Oh.", cost=cost)
    ]


def test_a_new_id_in_the_middle_is_kept():
    cleared = json.loads(answer("m1", say_text("Hi.")))
    steps = run_turn(json.dumps({**cleared, "session_id": "new"}).encode(), end_turn("Hi."))
    assert filter_steps(steps, EngineStateSaved) == [
        KEPT,
        EngineStateSaved(str(ClaudeState("new", digest_instructions("")))),
    ]


@pytest.mark.parametrize("kept", ["", "junk", "[]", '{"session": 1}', "\ud800", "null"])
def test_a_memory_that_is_none_starts_again(kept):
    assert read_sent_lines(run_turn(engine_state=kept))[1]["session_id"] == ""


# Whatever comes.


WHOLE = (
    accept_handshake(),
    start_session(),
    stream_event({"type": "message_start", "message": {"id": "m1", "usage": lines.count_usage(1)}}),
    stream_text("I"),
    answer("m1", say_text("I look.")),
    answer("m1", use_tool("t1", "Bash", command="ls")),
    ask_permission("q1", "Bash", {"command": "ls"}),
    return_result("t1", "a.py"),
    report_limit("allowed_warning", 9),
    answer("m2", say_text("One file.")),
    end_turn("One file."),
)
JUNK = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"[]", b"null", b"1", b'"x"', b"{}", b"[" * 5000, b'{"type": []}']),
    st.builds(
        lambda kind, value: json.dumps(
            {"type": kind, "message": value, "event": value, "request": value, "response": value}
        ).encode(),
        st.sampled_from([json.loads(one)["type"] for one in WHOLE]),
        st.sampled_from([None, 1, [], [1], "x", {"content": 1}, {"content": [1, None]}]),
    ),
)


@given(st.lists(st.one_of(st.sampled_from(WHOLE), JUNK), max_size=25))
def test_no_line_raises_and_the_turn_ends_once_and_nothing_is_recorded_twice(said):
    steps = replay(make_conversation(engine_state=MEMORY), said, deny)
    assert steps.count(TurnDone()) <= 1
    assert sum_cost(steps) in (FREE, COST)
    assert sum_usage(steps).output <= 10
    for name in {step.name for step in filter_steps(steps, ToolUsed)} - {"claude-code"}:
        assert name == "Bash"


@given(st.data())
def test_doubled_lines_change_nothing_and_broken_ones_are_passed_over(data):
    said: list[bytes] = []
    for one in WHOLE:
        said += [one] * data.draw(st.integers(1, 2))
        said += data.draw(st.lists(st.sampled_from([one[:-3], b"", b"debug: x"]), max_size=1))
    expected, found = replay(make_conversation(), WHOLE), replay(make_conversation(), said)
    assert filter_reported(found) == filter_reported(expected)
    assert sum_usage(found) == sum_usage(expected) == Usage(input=20, output=10)
    assert sum_cost(found) == COST


def test_a_cost_is_reported_without_the_noise_of_binary_fractions() -> None:
    assert read_turn_cost({"total_cost_usd": 0.0018000000000000002}) == Decimal("0.0018")
    assert read_turn_cost({"total_cost_usd": 1e-9}) == Decimal("0.000000001")


def test_thinking_is_told_as_it_grows_but_not_that_of_subagents():
    def think(piece: str, **more: str) -> bytes:
        delta = {"type": "thinking_delta", "thinking": piece}
        event = {"type": "content_block_delta", "index": 0, "delta": delta}
        return encode_line("stream_event", event=event, **more)

    steps = run_turn(
        think("Which "),
        think("No.", parent_tool_use_id="t1"),
        think("file?"),
        answer("m1", say_text("That one.")),
        end_turn("That one."),
    )
    assert filter_steps(steps, ThinkingProgress) == [
        ThinkingProgress("Which "),
        ThinkingProgress("file?"),
    ]
    assert [step.text for step in filter_steps(steps, ReplyCompleted)] == ["That one."]


def test_images_go_beside_the_prompt():
    one = make_conversation(images=(ImagePart("image/png", "aWk="),))
    list(one.on_start())
    (prompt,) = read_sent_lines(one.on_line(accept_handshake()))
    source = {"type": "base64", "media_type": "image/png", "data": "aWk="}
    assert prompt["message"]["content"] == [
        {"type": "text", "text": "Do it."},
        {"type": "image", "source": source},
    ]


def test_where_the_models_prices_are_known_its_tokens_are_priced_by_them():
    steps = run_turn(
        answer("m1", say_text("I look."), output=5),
        answer("m2", say_text("It is done."), output=5),
        end_turn("It is done."),
        priced=True,
    )
    replies = filter_steps(steps, ReplyCompleted)
    assert [(reply.text, reply.cost) for reply in replies] == [
        ("I look.", None),
        ("It is done.", None),
    ]
    assert sum(reply.usage.output for reply in replies) == 10


def test_the_tools_of_a_subagent_name_the_tool_that_started_it():
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"description": "Look"}}
    read = {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "/ws/a"}}
    steps = run_turn(
        answer("m1", task),
        answer("m2", read, parent="t1"),
        return_result("t2", "text", parent="t1"),
        return_result("t1", "found"),
        answer("m3", say_text("Done.")),
        end_turn("Done."),
    )
    told = [(one.name, one.id, one.parent) for one in filter_steps(steps, ToolStarted)]
    assert told == [("Task", "t1", ""), ("Read", "", "t1")]
    told = [(one.name, one.id, one.parent) for one in filter_steps(steps, ToolUsed)]
    assert told == [("Read", "", "t1"), ("Task", "t1", "")]


def test_the_output_that_fits_the_schema_is_the_last_reply():
    schema = {"output_schema": '{"type":"object"}'}
    result = json.loads(end_turn("Done."))
    ended = json.dumps({**result, "structured_output": {"name": "Riga"}}).encode()
    steps = run_turn(answer("m1", say_text("Done.")), ended, **schema)
    assert [one.text for one in filter_steps(steps, ReplyCompleted)] == [
        "Done.",
        '{"name":"Riga"}',
    ]
    written = '{"name":"Riga"}'
    steps = run_turn(answer("m1", say_text(written)), ended, **schema)
    assert [one.text for one in filter_steps(steps, ReplyCompleted)] == [written]
