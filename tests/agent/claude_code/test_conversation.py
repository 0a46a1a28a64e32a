"""A turn with Claude Code in lines: told once, booked once, whatever is lost, doubled or broken."""

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.claude_code.conversation import (
    BAD_KEY,
    LIMIT,
    LOST,
    PAUSE,
    SIGN_IN,
    ClaudeConversation,
)
from agentd.agent.claude_code.launch import Memory
from agentd.agent.claude_code.usage import total_cost
from agentd.agent.conversation import Ask, Launch, Over, Pauses, Restart, Send, Step, Withdrawn
from agentd.agent.engine import (
    Answer,
    Assignment,
    Failed,
    Kept,
    Limited,
    Question,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
    Wrote,
)
from agentd.agent.foreign import GO_ON, NOBODY_ANSWERS, Bounds
from agentd.chats.chat import Message
from agentd.proxy.price import Usage
from tests.agent.claude_code import lines
from tests.agent.claude_code.lines import (
    SESSION,
    answer,
    asks,
    came_back,
    init,
    limit,
    line,
    piece,
    ready,
    result,
    stream,
    text,
    tool,
)
from tests.agent.conversing import WORKSPACE, deny, only, replay, spent, told, used

LAUNCHED = Launch(("claude", "--verbose", f"--resume={lines.SESSION}"), {"A": "1"})
AFRESH = Launch(("claude", "--verbose"), {"A": "1"})
KEPT = Kept(str(Memory(SESSION)))
FREE, COST = Decimal(0), Decimal("0.25")
ONE = Usage(input=10, output=5)


def conversation(**more: Any) -> ClaudeConversation:
    return ClaudeConversation(Assignment(1, "Do it.", **more), Bounds(WORKSPACE), LAUNCHED)


def turn(*more: bytes, **given: Any) -> list[Step]:
    """The steps of a turn that begins well and goes on with these lines."""
    return replay(conversation(**given), (ready(), init(), *more))


def sends(steps: Iterable[Step]) -> list[Any]:
    return [json.loads(step.line) for step in only(steps, Send)]


def decisions(steps: Iterable[Step]) -> list[Any]:
    return [one["response"] for one in sends(steps) if one["type"] == "control_response"]


# As it should be.


def test_the_prompt_is_sent_once_the_control_channel_is_open():
    one = conversation()
    (opened,) = sends(one.begin())
    assert opened["request"] == {"subtype": "initialize"}
    (prompt,) = sends(one.heard(ready()))
    assert prompt == {
        "type": "user",
        "message": {"role": "user", "content": "Do it."},
        "parent_tool_use_id": None,
        "session_id": "",
    }
    assert list(one.heard(ready())) == []


def test_a_program_that_knows_no_handshake_is_prompted_all_the_same():
    refused = {"subtype": "error", "request_id": "agentd-1", "error": "unknown"}
    steps = replay(conversation(), [line("control_response", response=refused), result("Hi.")])
    assert Replied("Hi.", cost=COST) in steps


def test_a_reply_is_shown_as_it_grows_and_told_whole_with_the_cost_of_the_turn():
    steps = turn(
        stream({"type": "message_start", "message": {"id": "m1", "usage": lines.usage(1)}}),
        piece("It is "),
        piece("done."),
        answer("m1", text("It is done."), output=1),
        stream({"type": "message_delta", "usage": {"output_tokens": 5}, "delta": {}}),
        stream({"type": "message_stop"}),
        result("It is done."),
    )
    assert only(steps, Wrote) == [Wrote("It is "), Wrote("done.")]
    assert told(steps) == [KEPT, Replied("It is done.", ONE, COST)]
    assert steps[-1] == Over()


def test_tools_are_told_in_their_order_and_usage_repeated_by_each_block_counts_once():
    steps = turn(
        answer("m1", text("I look.")),
        answer("m1", tool("t1", "Bash", command="ls")),
        answer("m1", tool("t2", "Read", file_path=f"{WORKSPACE}/a.py")),
        came_back("t2", [text("1\tone")]),
        came_back("t1", "a.py", failed=True),
        answer("m2", text("There is one file.")),
        result("There is one file."),
    )
    assert told(steps) == [
        KEPT,
        ToolStarted("Bash", "ls"),
        ToolStarted("Read", "a.py"),
        Replied("I look.", ONE, FREE),
        ToolUsed("Read", "a.py", "1\tone"),
        ToolUsed("Bash", "ls", "failed: a.py"),
        Replied("There is one file.", ONE, COST),
    ]


def test_all_buckets_of_tokens_are_known():
    more = {"cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
    steps = turn(answer("m1", text("Hi."), message={"usage": lines.usage(5, **more)}), result())
    assert used(steps) == Usage(input=10, cache_read=7, cache_write=3, output=5)


def test_of_a_helper_its_tools_and_tokens_are_told_and_not_its_words():
    steps = turn(
        answer("m1", tool("t1", "Agent", description="Find it", prompt="…")),
        piece("inner", parent="t1"),
        answer("h1", text("I am a helper."), parent="t1"),
        answer("h1", tool("t2", "Grep", pattern="x"), parent="t1"),
        came_back("t2", "a:1", parent="t1"),
        came_back("t1", "found"),
        answer("m2", text("Found.")),
        result("Found."),
    )
    assert [step.text for step in only(steps, Replied)] == ["Found."]
    assert only(steps, Wrote) == []
    assert [step.name for step in only(steps, ToolUsed)] == ["Grep", "Agent"]
    assert used(steps) == ONE + ONE + ONE


def test_the_result_is_the_reply_when_none_was_told():
    assert told(turn(result("Cost: $0."))) == [KEPT, Replied("Cost: $0.", cost=COST)]


def test_an_interrupted_tool_is_told_at_the_end():
    steps = turn(answer("m1", tool("t1", "Bash", command="make")))
    assert told(steps)[-1] == ToolUsed("Bash", "make", "Interrupted.")


def test_what_is_cut_off_leaves_the_reply_unpriced_by_us():
    """The model's prices tell then, as for every engine that knows no cost."""
    assert told(turn(answer("m1", text("Half.")))) == [KEPT, Replied("Half.", ONE, None)]


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
def test_what_is_asked_is_told_by_kind_and_subject(name, given, kind, subject):
    steps = turn(asks("q1", name, given, decision_reason="a rule"))
    (ask,) = only(steps, Ask)
    reason = "Clean" if given and "description" in given else "a rule"
    assert ask == Ask("q1", Question(kind, name, subject, reason, ask.question.protected))
    assert bool(ask.question.protected) is (kind == "outside" and subject == "/etc/hosts")
    (decision,) = decisions(steps)
    assert decision == {
        "subtype": "success",
        "request_id": "q1",
        "response": {"behavior": "allow", "updatedInput": given},
    }


def test_a_path_that_claude_code_itself_objects_to_counts():
    (ask,) = only(turn(asks("q1", "Read", {"file_path": "a"}, blocked_path="/etc/shadow")), Ask)
    assert ask.question.kind == "outside"


def test_a_denial_has_its_reason():
    one = conversation()
    list(one.begin())
    (ask,) = only(one.heard(asks("q1", "Bash", {"command": "x"})), Ask)
    (decision,) = decisions(one.answered(ask.id, Answer(False, reason="Use make.")))
    assert decision["response"] == {"behavior": "deny", "message": "Use make."}
    assert list(one.answered(ask.id, Answer(True))) == []


def test_leave_for_the_chat_is_not_given_to_claude_code():
    """The approver remembers it, where it can be taken back."""
    one = conversation()
    suggestion = {"type": "addRules", "behavior": "allow", "destination": "projectSettings"}
    asked = asks("q1", "Bash", {"command": "x"}, permission_suggestions=[suggestion])
    (ask,) = only(one.heard(asked), Ask)
    (decision,) = decisions(one.answered(ask.id, Answer(True, session=True)))
    assert set(decision["response"]) == {"behavior", "updatedInput"}


def test_the_words_before_a_question_are_told_before_it():
    steps = turn(
        answer("m1", text("I must clean.")),
        answer("m1", tool("t1", "Bash", command="x")),
        asks("q1", "Bash", {"command": "x"}),
    )
    kinds = [type(step) for step in steps if isinstance(step, Replied | Ask)]
    assert kinds == [Replied, Ask]


def test_several_questions_may_be_open_and_a_cancelled_one_is_withdrawn():
    one = conversation()
    assert len(only(one.heard(asks("q1", "Bash", {"command": "x"})), Ask)) == 1
    assert len(only(one.heard(asks("q2", "Bash", {"command": "y"})), Ask)) == 1
    assert list(one.heard(asks("q1", "Bash", {"command": "x"}))) == []
    cancel = line("control_cancel_request", request_id="q1")
    assert list(one.heard(cancel)) == [Withdrawn("q1")]
    assert list(one.heard(cancel)) == []
    assert list(one.answered("q1", Answer(True))) == []
    assert len(decisions(one.answered("q2", Answer(True)))) == 1


def test_what_a_person_would_have_to_fill_in_is_left_to_the_model():
    steps = turn(asks("q1", "AskUserQuestion", {"questions": []}))
    assert only(steps, Ask) == []
    assert decisions(steps)[0]["response"] == {"behavior": "deny", "message": NOBODY_ANSWERS}


def test_other_requests_are_refused():
    hook = line("control_request", request_id="q1", request={"subtype": "hook_callback"})
    (decision,) = decisions(turn(hook))
    assert decision["subtype"] == "error"


# Stopping.


def test_before_the_prompt_a_stopped_turn_is_simply_over():
    one = conversation()
    list(one.begin())
    assert list(one.stop()) == [Over()]
    assert list(one.heard(ready())) == []


def test_a_stopped_turn_is_interrupted_its_questions_are_withdrawn_and_its_cost_is_booked():
    one = conversation()
    for heard in (ready(), init(), answer("m1", text("I begin."))):
        list(one.heard(heard))
    list(one.heard(asks("q1", "Bash", {"command": "x"})))
    withdrawn, interrupt = one.stop()
    assert withdrawn == Withdrawn("q1")
    assert sends([interrupt])[0]["request"] == {"subtype": "interrupt"}
    (denied,) = decisions(one.heard(asks("q2", "Bash", {"command": "y"})))
    assert denied["response"]["behavior"] == "deny"
    aborted = {"subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}
    last = list(one.heard(result(failed=True, **aborted)))
    assert last == [Spent(cost=COST), Over()]


# Limits and failures.


def test_a_reached_limit_is_told_with_its_end():
    steps = turn(
        limit("rejected", 1_778_565_600),
        answer("s", text("You've hit your limit"), error="rate_limit"),
        result("You've hit your limit", failed=True, api_error_status=429, cost=0.1),
    )
    assert told(steps) == [
        KEPT,
        Spent(cost=Decimal("0.1")),
        Limited("You've hit your limit", "2026-05-12T06:00:00.000Z"),
    ]


@pytest.mark.parametrize("resets", [None, 0, -1, 1e300, "soon", True])
def test_a_limit_without_a_sensible_end_is_still_a_limit(resets):
    steps = turn(limit("rejected", resets), result(failed=True))
    (limited,) = only(steps, Limited)
    assert limited.reason == LIMIT
    assert limited.until in ("", "1970-01-01T00:00:01.000Z")


def test_a_long_pause_before_it_asks_again_is_told():
    retry = {"type": "system", "subtype": "api_retry", "error": "rate_limit", "error_status": 429}
    steps = turn(json.dumps({**retry, "retry_delay_ms": 900_000}).encode())
    assert only(steps, Pauses) == [Pauses(f"{PAUSE} (HTTP 429).", 900.0)]
    for junk in (None, "soon", -1, 1e300):
        assert not only(turn(json.dumps({**retry, "retry_delay_ms": junk}).encode()), Pauses)


def test_a_limit_that_did_not_keep_the_turn_from_its_end_is_none():
    assert only(turn(limit("rejected", 9), result("Done.")), Limited) == []
    steps = turn(limit("rejected", 9), limit("allowed"), result("Oh.", failed=True))
    assert only(steps, Limited) == []


@pytest.mark.parametrize(
    ("more", "supplier", "reason"),
    [
        ({"api_error_status": 401}, "", f"{SIGN_IN} It says: Oh."),
        ({"api_error_status": 401}, "mine", f"{BAD_KEY} It says: Oh."),
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
            "Claude Code spent what its settings allow for a turn.",
        ),
        ({"subtype": "error_x", "result": None}, "", "Claude Code: error_x."),
        ({"subtype": "error_x", "result": None, "errors": ["a", "b"]}, "", "Claude Code: a\nb"),
    ],
)
def test_a_failure_is_told_and_its_cost_is_booked(more, supplier, reason):
    steps = turn(result("Oh.", failed=True, **more), supplier=supplier)
    assert told(steps) == [KEPT, Spent(cost=COST), Failed(reason)]


def test_a_success_that_is_an_error_is_no_reply():
    """Claude Code puts its own words where the model's should be, and calls that a success."""
    said = "API Error: 500"
    synthetic = answer("s", text(said), message={"model": "<synthetic>", "usage": {}})
    steps = turn(synthetic, result(said, failed=True, api_error_status=500))
    assert only(steps, Replied) == []
    assert steps[-2:] == [Failed(f"Claude Code: {said}"), Over()]


@pytest.mark.parametrize("cost", [None, "0.1", -1, True, 1e300, [1], 10**9])
def test_a_cost_that_is_none_is_not_booked(cost):
    steps = turn(answer("m1", text("Hi.")), result("Hi.", cost=cost))
    assert told(steps) == [KEPT, Replied("Hi.", ONE, None)]


# Sessions.


HISTORY = (Message(1, "user", "Before.", ""), Message(2, "assistant", "Then.", ""))
MEMORY = str(Memory(SESSION))


def test_a_new_session_is_told_what_went_before_and_a_resumed_one_is_not():
    (opened, prompt) = sends(turn(history=HISTORY))
    assert "Before." in prompt["message"]["content"]
    assert prompt["message"]["content"].endswith("Do it.")
    (opened, prompt) = sends(turn(history=HISTORY, memory=MEMORY))
    assert opened
    assert prompt["message"]["content"] == "Do it."
    assert prompt["session_id"] == SESSION


def test_a_resumed_session_is_told_what_other_engines_did_since():
    (_, prompt) = sends(turn(history=HISTORY, missed=HISTORY[1:], memory=MEMORY))
    content = prompt["message"]["content"]
    assert "Then." in content and "Before." not in content and content.endswith("Do it.")


def test_after_a_limit_a_session_goes_on_and_a_new_one_begins_anew():
    assert sends(turn(memory=MEMORY, again=True))[1]["message"]["content"] == GO_ON
    assert sends(turn(again=True))[1]["message"]["content"] == "Do it."


@pytest.mark.parametrize("lost", ["by its result", "by its death"])
def test_a_lost_session_is_begun_anew_once_and_the_history_tells(lost):
    one = conversation(memory=MEMORY, history=HISTORY)
    list(one.begin())
    list(one.heard(ready()))
    errors = ["No conversation found with session ID: x"]
    ended = result(failed=True, subtype="error_during_execution", errors=errors, cost=0)
    steps = list(one.heard(ended) if lost == "by its result" else one.ended())
    assert steps == [ToolUsed("claude-code", f"resume {SESSION}", LOST), Restart(AFRESH)]
    list(one.begin())
    (prompt,) = sends(one.heard(ready()))
    assert "Before." in prompt["message"]["content"]
    assert prompt["session_id"] == ""
    assert only(one.heard(ended), Failed) == [Failed(f"Claude Code: {errors[0]}")]


def test_a_session_that_was_resumed_is_not_lost_by_a_later_failure():
    steps = turn(result("Oh.", failed=True), memory=MEMORY)
    assert only(steps, Restart) == []
    assert only(replay(conversation(memory=MEMORY), (ready(), init())), Restart) == []


def test_a_new_id_in_the_middle_is_kept():
    cleared = json.loads(answer("m1", text("Hi.")))
    steps = turn(json.dumps({**cleared, "session_id": "new"}).encode(), result("Hi."))
    assert only(steps, Kept) == [KEPT, Kept(str(Memory("new")))]


@pytest.mark.parametrize("kept", ["", "junk", "[]", '{"session": 1}', "\ud800", "null"])
def test_a_memory_that_is_none_begins_anew(kept):
    assert sends(turn(memory=kept))[1]["session_id"] == ""


# Whatever comes.


WHOLE = (
    ready(),
    init(),
    stream({"type": "message_start", "message": {"id": "m1", "usage": lines.usage(1)}}),
    piece("I"),
    answer("m1", text("I look.")),
    answer("m1", tool("t1", "Bash", command="ls")),
    asks("q1", "Bash", {"command": "ls"}),
    came_back("t1", "a.py"),
    limit("allowed_warning", 9),
    answer("m2", text("One file.")),
    result("One file."),
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
def test_no_line_raises_and_the_turn_ends_once_and_nothing_is_booked_twice(said):
    steps = replay(conversation(memory=MEMORY), said, deny)
    assert steps.count(Over()) <= 1
    assert spent(steps) in (FREE, COST)
    assert used(steps).output <= 10
    for name in {step.name for step in only(steps, ToolUsed)} - {"claude-code"}:
        assert name == "Bash"


@given(st.data())
def test_doubled_lines_change_nothing_and_broken_ones_are_passed_over(data):
    said: list[bytes] = []
    for one in WHOLE:
        said += [one] * data.draw(st.integers(1, 2))
        said += data.draw(st.lists(st.sampled_from([one[:-3], b"", b"debug: x"]), max_size=1))
    expected, found = replay(conversation(), WHOLE), replay(conversation(), said)
    assert told(found) == told(expected)
    assert used(found) == used(expected) == Usage(input=20, output=10)
    assert spent(found) == COST


def test_a_cost_is_told_without_the_noise_of_binary_fractions() -> None:
    assert total_cost({"total_cost_usd": 0.0018000000000000002}) == Decimal("0.0018")
    assert total_cost({"total_cost_usd": 1e-9}) == Decimal("0.000000001")
