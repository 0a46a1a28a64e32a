"""A turn with Codex, replayed from what Codex said, and with lines lost, doubled and broken."""

import json
from collections.abc import Iterator
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
from agentd.agent.engines.codex.conversation import BAD_KEY, LOST, SIGN_IN, CodexConversation
from agentd.agent.engines.codex.launch import CodexState
from agentd.agent.engines.codex.usage import ThreadUsage
from agentd.agent.engines.external.common import (
    COMPACTED,
    CONTINUE_PROMPT,
    NOBODY_ANSWERS,
    WITHDRAWN,
    WorkspaceBounds,
)
from agentd.agent.engines.external.conversation import (
    AskApproval,
    QuestionCancelled,
    SendLine,
    Step,
    SupplierPause,
    TurnDone,
)
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.chats.model import Message
from agentd.llm.conversation import ImagePart
from agentd.llm.price import NO_USAGE, Usage
from agentd.models.program_state import UsageWindow
from agentd.system.protected_paths import ProtectedPlaces
from tests.agent.engines.conversing import (
    TRANSCRIPTS,
    WORKSPACE,
    deny,
    filter_reported,
    filter_steps,
    read_engine_state,
    read_received_lines,
    read_runs,
    read_sent_params,
    read_sent_results,
    replay,
    sum_usage,
)

NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("codex-*.jsonl"))
RUNS = [(name, number) for name in NAMES for number in range(len(read_runs(name)))]
TOTALS = b"thread/tokenUsage/updated"
ONE_CALL = Usage(input=10, output=5)


def make_conversation(**more: Any) -> CodexConversation:
    return CodexConversation(TurnRequest(1, "Do it.", **more), WorkspaceBounds(WORKSPACE))


def encode_line(method: str, /, **params: Any) -> bytes:
    return json.dumps({"method": method, "params": params}).encode()


def encode_request(number: int, method: str, /, **params: Any) -> bytes:
    return json.dumps({"id": number, "method": method, "params": params}).encode()


def begin_turn(talk: CodexConversation) -> list[Step]:
    """Return the steps until the turn ``u`` of thread ``t`` is running."""
    steps = list(talk.on_start())
    for value in ({}, {"thread": {"id": "t"}}, {"turn": {"id": "u"}}):
        number = json.loads(filter_steps(steps, SendLine)[-1].line).get("id", 1)
        steps += talk.on_line(json.dumps({"id": number, "result": value}).encode())
    return steps


def end_turn(error: dict[str, Any] | None = None) -> bytes:
    status = "failed" if error else "completed"
    return encode_line(
        "turn/completed", threadId="t", turn={"id": "u", "status": status, "error": error}
    )


def test_a_command_is_asked_run_and_reported_with_the_replies_around_it() -> None:
    steps = replay(make_conversation(), read_received_lines("codex-command"))
    command = "cat notes.txt && echo three | tee -a notes.txt"
    assert filter_reported(steps)[1:] == [
        ReplyCompleted("I add a line."),
        ToolStarted("shell", command),
        ToolUsed("shell", command, "one\ntwo\nthree"),
        UsageReported(Usage(input=100, cache_read=900, output=12, reasoning=8)),
        ReplyCompleted("The line is there.", ONE_CALL),
    ]
    assert [step.question for step in filter_steps(steps, AskApproval)] == [
        Question("shell", "shell", command)
    ]
    assert read_sent_results(steps) == [{"decision": "accept"}]
    assert (
        "".join(step.text for step in filter_steps(steps, ReplyDelta))
        == "I add a line.The line is there."
    )
    assert steps[-1] == TurnDone()


def test_codex_is_reported_to_ask_before_everything() -> None:
    steps = replay(make_conversation(), read_received_lines("codex-command"))
    [terms] = read_sent_params(steps, "thread/start")
    assert terms["approvalPolicy"] == "untrusted"
    assert terms["approvalsReviewer"] == "user"
    assert terms["sandbox"] == "workspace-write"
    assert "cwd" not in terms, "Codex would enter it into the person's settings as trusted"
    [turn] = read_sent_params(steps, "turn/start")
    assert turn["cwd"] == WORKSPACE


def test_model_effort_and_instructions_are_handed_over() -> None:
    talk = make_conversation(model="large", effort="high", instructions="Be terse.")
    steps = replay(talk, read_received_lines("codex-command"))
    [terms] = read_sent_params(steps, "thread/start")
    assert (terms["model"], terms["developerInstructions"]) == ("large", "Be terse.")
    [turn] = read_sent_params(steps, "turn/start")
    assert turn["effort"] == "high"
    assert turn["input"][0]["text"] == "Do it."


def test_no_is_reported_as_no_and_the_turn_goes_on() -> None:
    steps = replay(make_conversation(), read_received_lines("codex-declined"), deny)
    assert read_sent_results(steps) == [{"decision": "decline"}]
    assert filter_steps(steps, ToolUsed) == [
        ToolUsed("shell", "rm notes.txt", "Not allowed.", ok=False)
    ]
    assert filter_steps(steps, ReplyCompleted)[-1].text == "I leave it."


def test_a_change_of_files_is_reported_with_its_paths_and_difference() -> None:
    steps = replay(make_conversation(), read_received_lines("codex-patch"))
    [ask] = filter_steps(steps, AskApproval)
    change = "@@ -1,2 +1,2 @@\n-one\n+uno\n two"
    diff = f"--- a/notes.txt\n+++ b/notes.txt\n{change}"
    assert ask.question == Question("write", "edit", "notes.txt", "M notes.txt", diff=diff)
    assert filter_steps(steps, ToolUsed) == [ToolUsed("edit", "M notes.txt", change, diff=diff)]


def test_leave_to_go_beyond_the_sandbox_is_asked_with_the_reason() -> None:
    [ask] = filter_steps(
        replay(make_conversation(), read_received_lines("codex-escalated")), AskApproval
    )
    assert ask.question.reason == "May I write outside?"


def test_a_command_that_fails_shows_its_exit_code() -> None:
    steps = replay(make_conversation(), read_received_lines("codex-parallel"))
    assert ToolUsed("shell", "touch x; exit 3", "exit code 3", ok=False) in steps


def test_a_resumed_thread_records_only_the_new_turn() -> None:
    first = replay(make_conversation(), read_received_lines("codex-resumed", 0))
    memory = read_engine_state(first)
    second = replay(make_conversation(engine_state=memory), read_received_lines("codex-resumed", 1))
    assert (
        read_sent_params(second, "thread/resume")[0]["threadId"] == CodexState.parse(memory).thread
    )
    assert not read_sent_params(second, "thread/start")
    assert (sum_usage(first), sum_usage(second)) == (ONE_CALL, ONE_CALL)


def test_a_resumed_thread_records_what_a_killed_turn_used_too() -> None:
    [kept] = filter_steps(
        replay(make_conversation(), read_received_lines("codex-resumed", 0)), EngineStateSaved
    )
    second = replay(
        make_conversation(engine_state=kept.engine_state), read_received_lines("codex-resumed", 1)
    )
    assert sum_usage(second) == ONE_CALL + ONE_CALL
    known = CodexState.parse(read_engine_state(second)).booked
    assert known is not None and known["totalTokens"] == 30


def test_of_a_memory_without_a_count_only_the_new_turn_is_recorded() -> None:
    """An earlier version stored it like this."""
    kept = filter_steps(
        replay(make_conversation(), read_received_lines("codex-resumed", 0)), EngineStateSaved
    )[0].engine_state
    earlier = str(CodexState(CodexState.parse(kept).thread, CodexState.parse(kept).instructions))
    assert (
        sum_usage(
            replay(make_conversation(engine_state=earlier), read_received_lines("codex-resumed", 1))
        )
        == ONE_CALL
    )


def test_a_thread_that_lost_the_end_of_its_count_counts_on_from_there() -> None:
    ledger = ThreadUsage()
    ledger.set_baseline("t", {"totalTokens": 50, "inputTokens": 50})
    assert ledger.add_report("t", {"total": count_tokens(30)}, before=True) == NO_USAGE
    assert ledger.add_report("t", {"total": count_tokens(45)}, before=False) == Usage(input=15)


def test_a_thread_that_is_gone_is_restarted_with_what_went_before() -> None:
    history = (Message(1, "user", "The answer is 42.", ""),)
    talk = make_conversation(engine_state="gone", history=history)
    steps = [*talk.on_start(), *talk.on_line(b'{"id":1,"result":{}}')]
    steps += talk.on_line(b'{"id":2,"error":{"code":-32600,"message":"no rollout found"}}')
    assert filter_steps(steps, ToolUsed) == [ToolUsed("codex", "resume gone", LOST, ok=False)]
    steps += talk.on_line(b'{"id":3,"result":{"thread":{"id":"new"}}}')
    assert CodexState.parse(filter_steps(steps, EngineStateSaved)[0].engine_state).thread == "new"
    assert "The answer is 42." in read_sent_params(steps, "turn/start")[0]["input"][0]["text"]


def test_a_prompt_that_a_limit_interrupted_is_not_given_twice() -> None:
    talk = make_conversation(engine_state="t", is_retry=True)
    assert (
        read_sent_params(begin_turn(talk), "turn/start")[0]["input"][0]["text"] == CONTINUE_PROMPT
    )


def test_a_long_pause_before_it_asks_again_is_reported() -> None:
    talk = make_conversation()
    begin_turn(talk)
    error = {"message": "Reconnecting... 1/5", "additionalDetails": "Please try again in 15m."}
    [pause] = list(talk.on_line(encode_line("error", error=error, willRetry=True)))
    assert isinstance(pause, SupplierPause) and pause.seconds == 900.0
    assert not list(talk.on_line(encode_line("error", error=error, willRetry=False)))
    assert not list(
        talk.on_line(encode_line("error", error={"message": "Reconnecting"}, willRetry=True))
    )


def test_a_limit_whose_end_only_codex_knows_is_reported_as_a_pause_of_unknown_length() -> None:
    talk = make_conversation()
    begin_turn(talk)

    def report(status: int) -> list[Step]:
        info = {"responseStreamDisconnected": {"httpStatusCode": status}}
        error = {"message": "Reconnecting... 1/5", "codexErrorInfo": info}
        return list(talk.on_line(encode_line("error", error=error, willRetry=True)))

    assert report(429) == [SupplierPause("Reconnecting... 1/5", None)]
    assert report(503) == []


def test_a_used_up_limit_ends_the_turn_as_limited_until_its_reset() -> None:
    [limited] = filter_steps(
        replay(make_conversation(), read_received_lines("codex-limited")), RateLimited
    )
    assert "usage limit" in limited.reason
    talk = make_conversation()
    begin_turn(talk)
    windows = {
        "primary": {"usedPercent": 100, "resetsAt": 1795300000},
        "secondary": {"usedPercent": 20, "resetsAt": 1799900000},
    }
    list(talk.on_line(encode_line("account/rateLimits/updated", rateLimits=windows)))
    steps = list(talk.on_line(end_turn({"message": "x", "codexErrorInfo": "usageLimitExceeded"})))
    assert steps == [RateLimited("x", "2026-11-21T22:26:40.000Z"), TurnDone()]


def report_agent(tool: str, status: str, **more: Any) -> dict[str, Any]:
    """Return the item of a tool for sub-agents, in the shape of Codex's own schema."""
    return {
        "type": "collabAgentToolCall",
        "id": tool,
        "tool": tool,
        "status": status,
        "senderThreadId": "t",
        "receiverThreadIds": [],
        "prompt": None,
        "model": None,
        "reasoningEffort": None,
        "agentsStates": {},
        **more,
    }


def test_what_a_sub_agent_does_names_the_use_that_started_it() -> None:
    talk = make_conversation()
    begin_turn(talk)
    run = {"type": "commandExecution", "id": "c", "command": "ls", "cwd": WORKSPACE}
    wait = {"receiverThreadIds": ["sub"], "agentsStates": {"sub": {"status": "completed"}}}
    wait["agentsStates"]["sub"]["message"] = "Two files."
    spawned = {"receiverThreadIds": ["sub"], "prompt": "Look around."}
    steps: list[Step] = []
    for method, thread, item in (
        ("started", "t", report_agent("spawnAgent", "inProgress", prompt="Look around.")),
        ("completed", "t", report_agent("spawnAgent", "completed", **spawned)),
        ("started", "sub", run),
        ("completed", "sub", {**run, "aggregatedOutput": "a\nb", "exitCode": 0}),
        ("completed", "sub", {"type": "agentMessage", "id": "m", "text": "Two files."}),
        ("started", "t", report_agent("wait", "inProgress", receiverThreadIds=["sub"])),
        ("completed", "t", report_agent("wait", "completed", **wait)),
        ("started", "t", report_agent("closeAgent", "inProgress")),
        ("completed", "t", report_agent("closeAgent", "interrupted")),
    ):
        steps += talk.on_line(encode_line(f"item/{method}", threadId=thread, item=item))
    spawn, looks = "spawnAgent: Look around.", {"parent": "spawnAgent"}
    assert steps == [
        ToolStarted("agent", spawn, "spawnAgent"),
        ToolUsed("agent", spawn, "", id="spawnAgent"),
        ToolStarted("shell", "ls", **looks),
        ToolUsed("shell", "ls", "a\nb", **looks),
        ToolStarted("agent", "wait", "wait"),
        ToolUsed("agent", "wait", "Two files.", id="wait"),
        ToolStarted("agent", "closeAgent", "closeAgent"),
        ToolUsed("agent", "closeAgent", "Interrupted.", ok=False, id="closeAgent"),
    ]


def start_turn(**more: Any) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return what is sent to begin: the capabilities and the turn; and the state that is kept."""
    talk = make_conversation(**more)
    steps = list(talk.on_start())
    opened = {"thread": {"id": "t"}, "model": "gpt", "reasoningEffort": "low"}
    for value in ({}, opened):
        number = json.loads(filter_steps(steps, SendLine)[-1].line).get("id", 1)
        steps += talk.on_line(json.dumps({"id": number, "result": value}).encode())
    [begun] = read_sent_params(steps, "initialize")
    [turn] = read_sent_params(steps, "turn/start")
    return begun, turn, filter_steps(steps, EngineStateSaved)[-1].engine_state


def test_a_mode_is_set_and_the_usual_one_again_once_none_is_chosen() -> None:
    begun, turn, kept = start_turn(mode="plan", effort="high")
    assert begun["capabilities"]["experimentalApi"] is True
    settings = {"model": "gpt", "reasoning_effort": "high", "developer_instructions": None}
    assert turn["collaborationMode"] == {"mode": "plan", "settings": settings}

    begun, turn, kept = start_turn(engine_state=kept)
    assert begun["capabilities"]["experimentalApi"] is True
    settings["reasoning_effort"] = "low"
    assert turn["collaborationMode"] == {"mode": "default", "settings": settings}

    begun, turn, _ = start_turn(engine_state=kept)
    assert begun["capabilities"] is None
    assert "collaborationMode" not in turn


def test_a_proposed_plan_follows_the_message_that_it_was_taken_from() -> None:
    talk = make_conversation(mode="plan")
    begin_turn(talk)

    def complete(kind: str, text: str) -> list[Step]:
        item = {"type": kind, "id": f"{kind}-{text}", "text": text}
        return list(talk.on_line(encode_line("item/completed", threadId="t", item=item)))

    delta = encode_line("item/plan/delta", threadId="t", itemId="p", delta="# P")
    assert list(talk.on_line(delta)) == [ReplyDelta("# P")]
    assert complete("plan", "# Plan") == []
    assert complete("agentMessage", "I thought.") == []
    assert complete("plan", "# Alone") == []
    assert filter_reported(talk.on_line(end_turn())) == [
        ReplyCompleted("I thought.\n\n# Plan"),
        ReplyCompleted("# Alone"),
    ]


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"content": [{"type": "text", "text": "green"}]}, "green"),
        ({"content": [], "structuredContent": {"tea": "green"}}, '{"tea":"green"}'),
        (
            {"content": [{"type": "resource_link", "uri": "tea://menu", "name": "menu"}]},
            "Resource tea://menu: menu ",
        ),
        (None, ""),
    ],
)
def test_what_a_tool_of_a_server_brought_is_told_in_every_form(
    result: dict[str, Any] | None, outcome: str
) -> None:
    talk = make_conversation()
    begin_turn(talk)
    item = {"type": "mcpToolCall", "id": "m", "server": "tea", "tool": "pick", "result": result}
    steps = list(talk.on_line(encode_line("item/completed", threadId="t", item=item)))
    assert [one.outcome for one in filter_steps(steps, ToolUsed)] == [outcome]


def test_usage_windows_are_reported_as_far_as_they_are_told() -> None:
    talk = make_conversation()
    begin_turn(talk)
    told = {
        "limitId": "codex",
        "limitName": None,
        "primary": {"usedPercent": 82, "windowDurationMins": 300, "resetsAt": 1795300000},
        "secondary": {"usedPercent": 20.4, "windowDurationMins": 10080, "resetsAt": None},
        "credits": {"hasCredits": False, "unlimited": False, "balance": None},
        "individualLimit": {
            "limit": "100",
            "used": "40",
            "remainingPercent": 60,
            "resetsAt": 1795300000,
        },
        "planType": "plus",
    }
    resets = "2026-11-21T22:26:40.000Z"
    assert list(talk.on_line(encode_line("account/rateLimits/updated", rateLimits=told))) == [
        UsageWindowsReported(
            (
                UsageWindow("5 hours", 82, resets),
                UsageWindow("7 days", 20, None),
                UsageWindow("spending", 40, resets),
            )
        )
    ]
    other = {
        "limitId": "codex_other",
        "limitName": "Spark",
        "primary": {"usedPercent": 100, "windowDurationMins": None},
    }
    assert list(talk.on_line(encode_line("account/rateLimits/updated", rateLimits=other))) == [
        UsageWindowsReported((UsageWindow("primary window, Spark", 100, None),))
    ]


@pytest.mark.parametrize(
    ("info", "supplier", "end"),
    [
        ("rateLimitExceeded", "", RateLimited("said")),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "", RateLimited("said")),
        ("unauthorized", "", TurnFailed(f"{SIGN_IN} said")),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "acme", TurnFailed(f"{BAD_KEY} said")),
        ("modelNotFound", "", TurnFailed("Codex: said")),
        (None, "", TurnFailed("Codex: said")),
        (["odd"], "", TurnFailed("Codex: said")),
    ],
)
def test_an_error_says_what_to_do(info: Any, supplier: str, end: Step) -> None:
    talk = make_conversation(supplier=supplier)
    begin_turn(talk)
    steps = list(talk.on_line(end_turn({"message": "said", "codexErrorInfo": info})))
    assert steps == [end, TurnDone()]


def test_a_stream_that_broke_and_recovered_is_no_failure() -> None:
    assert filter_reported(replay(make_conversation(), read_received_lines("codex-broken")))[
        1:
    ] == [ReplyCompleted("Recovered.", ONE_CALL)]


def test_a_failure_is_reported() -> None:
    [failed] = filter_steps(
        replay(make_conversation(), read_received_lines("codex-failed")), TurnFailed
    )
    assert "unexpected status" in failed.reason


def test_a_stop_interrupts_and_withdraws_what_is_open() -> None:
    talk = make_conversation()
    begin_turn(talk)
    item = {"type": "commandExecution", "id": "c", "command": "sleep 100", "cwd": WORKSPACE}
    list(talk.on_line(encode_line("item/started", threadId="t", item=item)))
    asking = "item/commandExecution/requestApproval"
    [ask] = list(talk.on_line(encode_request(7, asking, itemId="c", command="sleep 100")))
    assert isinstance(ask, AskApproval)
    stopped = list(talk.stop())
    assert QuestionCancelled(ask.id) in stopped
    assert read_sent_params(stopped, "turn/interrupt") == [{"threadId": "t", "turnId": "u"}]
    assert not list(talk.on_decision(ask.id, ApprovalAnswer(allowed=True)))
    assert read_sent_results(talk.on_line(encode_request(8, asking, itemId="c"))) == [
        {"decision": "decline"}
    ]
    end = encode_line("turn/completed", threadId="t", turn={"id": "u", "status": "interrupted"})
    assert list(talk.on_line(end)) == [
        ToolUsed("shell", "sleep 100", "Interrupted.", ok=False),
        TurnDone(),
    ]


def work_with_agent(talk: CodexConversation) -> None:
    """Begin a turn whose subagent ``sub`` works, beside a thread of Codex's own."""
    begin_turn(talk)
    spawned = report_agent("spawnAgent", "completed", receiverThreadIds=["sub"])
    for line in (
        encode_line("item/completed", threadId="t", item=spawned),
        encode_line("turn/started", threadId="sub", turn={"id": "s"}),
        encode_line("turn/started", threadId="other", turn={"id": "o"}),
    ):
        list(talk.on_line(line))


END_OF_AGENT = encode_line("turn/completed", threadId="sub", turn={"id": "s", "status": "x"})


def test_a_turn_lasts_until_its_sub_agents_are_done() -> None:
    talk = make_conversation()
    work_with_agent(talk)
    said = {"type": "agentMessage", "id": "m", "text": "It works."}
    list(talk.on_line(encode_line("item/completed", threadId="t", item=said)))
    assert filter_steps(talk.on_line(end_turn()), ReplyCompleted) == [ReplyCompleted("It works.")]
    usage = {"total": count_tokens(15), "last": count_tokens(15)}
    used = encode_line(TOTALS.decode(), threadId="sub", turnId="s", tokenUsage=usage)
    assert [type(step) for step in talk.on_line(used)] == [UsageReported]
    assert list(talk.on_line(END_OF_AGENT)) == [TurnDone()]
    failed = make_conversation()
    work_with_agent(failed)
    assert list(failed.on_line(end_turn({"message": "no"})))[-1] == TurnDone()


def test_a_stop_interrupts_the_sub_agents_too() -> None:
    talk = make_conversation()
    work_with_agent(talk)
    own, sub = ({"threadId": "t", "turnId": "u"}, {"threadId": "sub", "turnId": "s"})
    assert read_sent_params(talk.stop(), "turn/interrupt") == [own, sub]
    assert not list(talk.on_line(end_turn()))
    again = encode_line("turn/started", threadId="sub", turn={"id": "s"})
    assert read_sent_params(talk.on_line(again), "turn/interrupt") == [sub]
    assert list(talk.on_line(END_OF_AGENT)) == [TurnDone()]


def test_a_turn_that_begins_before_the_prompt_is_not_the_prompt_s() -> None:
    servers = (ReadyServer("tea", ("tea",)),)
    talk = CodexConversation(TurnRequest(1, "Do it."), WorkspaceBounds(WORKSPACE), servers)
    list(talk.on_start())
    for number, value in enumerate(({}, {"thread": {"id": "t"}}), 1):
        list(talk.on_line(json.dumps({"id": number, "result": value}).encode()))
    list(talk.on_line(encode_line("turn/started", threadId="t", turn={"id": "own"})))
    over = {"id": "own", "status": "completed"}
    assert not list(talk.on_line(encode_line("turn/completed", threadId="t", turn=over)))
    ready = encode_line("mcpServer/startupStatus/updated", name="tea", status="ready")
    assert read_sent_params(talk.on_line(ready), "turn/start")
    list(talk.on_line(b'{"id":3,"result":{"turn":{"id":"u"}}}'))
    assert list(talk.on_line(end_turn())) == [TurnDone()]


def test_what_a_person_says_with_a_decision_is_steered_into_the_turn() -> None:
    talk = make_conversation()
    begin_turn(talk)
    asking = "item/commandExecution/requestApproval"
    [ask] = list(talk.on_line(encode_request(7, asking, itemId="c", command="rm notes.txt")))
    assert isinstance(ask, AskApproval)
    answer = ApprovalAnswer(allowed=False, reason="Keep it.", note="Keep it.")
    steps = list(talk.on_decision(ask.id, answer))
    assert read_sent_results(steps) == [{"decision": "decline"}]
    [steered] = read_sent_params(steps, "turn/steer")
    text = "[The person did not allow this and says: Keep it.]\n\nrm notes.txt"
    assert steered == {
        "threadId": "t",
        "expectedTurnId": "u",
        "input": [{"type": "text", "text": text, "text_elements": []}],
    }
    refused = {"id": json.loads(steps[-1].line)["id"], "error": {"code": -1, "message": "no turn"}}
    assert list(talk.on_line(json.dumps(refused).encode())) == []
    assert list(talk.on_line(end_turn()))[-1] == TurnDone()


def test_a_stop_before_the_turn_began_reaches_it() -> None:
    talk = make_conversation()
    list(talk.on_start())
    assert list(talk.stop()) == [TurnDone()]
    talk = make_conversation()
    for number, value in enumerate(({}, {"thread": {"id": "t"}}), 1):
        list(talk.on_start()) if number == 1 else None
        list(talk.on_line(json.dumps({"id": number, "result": value}).encode()))
    assert not list(talk.stop())
    assert read_sent_params(
        talk.on_line(b'{"id":3,"result":{"turn":{"id":"u"}}}'), "turn/interrupt"
    )


def test_a_question_that_codex_takes_back_is_withdrawn() -> None:
    talk = make_conversation()
    begin_turn(talk)
    asking = "item/commandExecution/requestApproval"
    [ask] = list(talk.on_line(encode_request(7, asking, command="ls")))
    assert isinstance(ask, AskApproval)
    assert list(talk.on_line(encode_line("serverRequest/resolved", requestId=7))) == [
        QuestionCancelled(ask.id)
    ]
    assert not list(talk.on_decision(ask.id, ApprovalAnswer(allowed=True)))


@pytest.mark.parametrize(
    ("method", "params", "question", "yes", "no"),
    [
        (
            "item/commandExecution/requestApproval",
            {"command": "/bin/bash -lc 'rm -rf x'", "cwd": "/tmp"},
            Question("shell", "shell", "cd /tmp && rm -rf x"),
            {"decision": "accept"},
            {"decision": "decline"},
        ),
        (
            "item/commandExecution/requestApproval",
            {"command": "/tmp/evil/bash -lc 'git status'", "cwd": WORKSPACE},
            Question("shell", "shell", "/tmp/evil/bash -lc 'git status'"),
            {"decision": "accept"},
            {"decision": "decline"},
        ),
        (
            "item/commandExecution/requestApproval",
            {"networkApprovalContext": {"host": "example.org", "protocol": "https"}},
            Question("network", "network", "https://example.org"),
            {"decision": "accept"},
            {"decision": "decline"},
        ),
        (
            "item/fileChange/requestApproval",
            {"itemId": "never told"},
            Question("outside", "edit", "files"),
            {"decision": "accept"},
            {"decision": "decline"},
        ),
        (
            "item/permissions/requestApproval",
            {"permissions": {"network": {"enabled": True}}, "reason": "to install"},
            Question("network", "permissions", '{"network": {"enabled": true}}', "to install"),
            {"permissions": {"network": {"enabled": True}}, "scope": "turn"},
            {"permissions": {}, "scope": "turn"},
        ),
        (
            "mcpServer/elicitation/request",
            {"mode": "form", "serverName": "tickets", "message": "Close it?"},
            Question("other", "tickets", "Close it?"),
            {"action": "accept", "content": {}, "_meta": None},
            {"action": "decline", "content": None, "_meta": None},
        ),
        (
            "mcpServer/elicitation/request",
            {
                "mode": "form",
                "serverName": "tickets",
                "message": 'Allow the tickets MCP server to run tool "close.one"?',
                "requestedSchema": {"type": "object", "properties": {}},
                "_meta": {
                    "codex_approval_kind": "mcp_tool_call",
                    "tool_name": "close.one",
                    "tool_params": {"number": 7},
                },
            },
            Question("other", "mcp__tickets__close_one", '{"number":7}'),
            {"action": "accept", "content": {}, "_meta": None},
            {"action": "decline", "content": None, "_meta": None},
        ),
        (
            "mcpServer/elicitation/request",
            {
                "mode": "form",
                "serverName": "tickets",
                "message": "Close it?",
                "requestedSchema": {"properties": {"close": {"type": "boolean"}}},
            },
            Question("question", "tickets", "Close it?", choices=("Yes", "No")),
            {"action": "accept", "content": {"close": True}, "_meta": None},
            {"action": "decline", "content": None, "_meta": None},
        ),
    ],
)
def test_every_kind_of_question_is_put_and_answered(
    method: str, params: dict[str, Any], question: Question, yes: Any, no: Any
) -> None:
    for allowed, expected in ((True, yes), (False, no)):
        talk = make_conversation()
        begin_turn(talk)
        [ask] = list(talk.on_line(encode_request(7, method, **params)))
        assert isinstance(ask, AskApproval)
        assert ask.question == question
        assert read_sent_results(talk.on_decision(ask.id, ApprovalAnswer(allowed=allowed))) == [
            expected
        ]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (
            "item/tool/requestUserInput",
            {"questions": [{"id": "q", "question": "Which key?", "isSecret": True}]},
        ),
        ("mcpServer/elicitation/request", {"mode": "url", "url": "https://x"}),
        (
            "mcpServer/elicitation/request",
            {
                "mode": "form",
                "requestedSchema": {
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "required": ["a"],
                },
            },
        ),
        ("attestation/generate", {}),
        ("of/next/year", {}),
    ],
)
def test_what_nobody_can_decide_is_answered_at_once(method: str, params: dict[str, Any]) -> None:
    talk = make_conversation()
    begin_turn(talk)
    [step] = list(talk.on_line(encode_request(7, method, **params)))
    assert isinstance(step, SendLine)
    answer = json.loads(step.line)
    assert answer["id"] == 7
    assert {"result", "error"} & set(answer)
    if "elicitation" in method:
        assert answer["result"]["action"] == "cancel"  # a person has not declined it


def test_the_model_s_own_questions_are_put_one_after_another_and_answered_together() -> None:
    talk = make_conversation()
    begin_turn(talk)
    asked = [
        {"id": "a", "question": "Which?", "options": [{"label": "Red", "description": "Warm."}]},
        {"id": "b", "question": "Why?"},
    ]
    method = "item/tool/requestUserInput"
    [first] = list(talk.on_line(encode_request(7, method, questions=asked)))
    assert isinstance(first, AskApproval)
    assert first.question == Question(
        "question", "request_user_input", "Which?\n\n- Red: Warm.", choices=("Red",)
    )
    answered = ApprovalAnswer(True, reason="Red", note="Red", by_person=True)
    [second] = list(talk.on_decision(first.id, answered))
    assert isinstance(second, AskApproval)
    assert read_sent_results(talk.on_decision(second.id, ApprovalAnswer(True, reason="So."))) == [
        {"answers": {"a": {"answers": ["Red"]}, "b": {"answers": ["So."]}}}
    ]


def test_questions_left_open_say_so_and_those_taken_back_are_withdrawn() -> None:
    method, asked = "item/tool/requestUserInput", [{"id": "a", "question": "Which?"}]
    talk = make_conversation()
    begin_turn(talk)
    [ask] = list(talk.on_line(encode_request(7, method, questions=asked)))
    assert isinstance(ask, AskApproval)
    assert read_sent_results(talk.on_decision(ask.id, ApprovalAnswer(False))) == [
        {"answers": {"a": {"answers": [NOBODY_ANSWERS]}}}
    ]
    [ask] = list(talk.on_line(encode_request(8, method, questions=asked)))
    assert isinstance(ask, AskApproval)
    resolved = encode_line("serverRequest/resolved", requestId=8)
    assert list(talk.on_line(resolved)) == [QuestionCancelled(ask.id)]


@pytest.mark.parametrize(
    ("files", "protected"),
    [
        ({"write": ["/srv/cache"]}, False),
        ({"write": ["/srv/cache", "/home/someone/.ssh"]}, True),
        ({"entries": [{"path": {"path": "/home/**"}, "access": "write"}]}, True),
        ({"read": ["/"]}, True),
        ({"special": "root"}, True),
    ],
)
def test_rights_to_protected_folders_are_asked_as_such(files: Any, protected: bool) -> None:
    places = ProtectedPlaces(home="/home/someone")
    talk = CodexConversation(TurnRequest(1, "Do it."), WorkspaceBounds(WORKSPACE, protected=places))
    begin_turn(talk)
    wanted = {"fileSystem": files}
    [ask] = list(
        talk.on_line(encode_request(7, "item/permissions/requestApproval", permissions=wanted))
    )
    assert isinstance(ask, AskApproval)
    assert (ask.question.kind, bool(ask.question.protected)) == ("outside", protected)


def test_a_change_outside_the_workspace_is_asked_as_such() -> None:
    talk = make_conversation()
    begin_turn(talk)
    changes = [{"path": f"{WORKSPACE}/a", "kind": {"type": "update", "move_path": "/etc/a"}}]
    item = {"type": "fileChange", "id": "c", "changes": changes}
    list(talk.on_line(encode_line("item/started", threadId="t", item=item)))
    [ask] = list(talk.on_line(encode_request(7, "item/fileChange/requestApproval", itemId="c")))
    assert isinstance(ask, AskApproval)
    assert ask.question == Question(
        "outside", "edit", "a\n/etc/a", "M a -> /etc/a", ask.question.protected
    )
    assert "part of the system" in ask.question.protected


def test_what_a_helper_thread_says_is_no_reply_but_what_it_uses_is_recorded() -> None:
    talk = make_conversation()
    begin_turn(talk)
    message = {"type": "agentMessage", "id": "m", "text": "aside"}
    assert not list(talk.on_line(encode_line("item/completed", threadId="other", item=message)))
    assert not list(
        talk.on_line(encode_line("item/agentMessage/delta", threadId="other", delta="a"))
    )
    usage = {"total": count_tokens(50), "last": count_tokens(20)}
    [spent] = list(
        talk.on_line(encode_line("thread/tokenUsage/updated", threadId="o", tokenUsage=usage))
    )
    assert spent == UsageReported(Usage(input=20))


def count_tokens(total: int) -> dict[str, int]:
    return {"totalTokens": total, "inputTokens": total}


def test_a_total_that_was_lost_is_in_the_next_one() -> None:
    talk = make_conversation()
    begin_turn(talk)
    lines = [
        encode_line(
            "thread/tokenUsage/updated", threadId="t", turnId="u", tokenUsage={"total": one}
        )
        for one in (count_tokens(10), count_tokens(30), count_tokens(60))
    ]
    steps = [*talk.on_line(lines[0]), *talk.on_line(lines[2]), *talk.on_line(lines[1])]
    assert sum_usage(steps) == Usage(input=60)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_twice_is_reported_once(name: str) -> None:
    lines = read_received_lines(name)
    doubled = [line for line in lines for _ in range(2 if b'"delta"' not in line else 1)]
    assert filter_reported(replay(make_conversation(), doubled)) == filter_reported(
        replay(make_conversation(), lines)
    )


@st.composite
def disturbed_runs(draw: st.DrawFn) -> tuple[str, int, list[bytes]]:
    """A recorded run with some of its lines cut, lost, doubled or broken."""
    name, number = draw(st.sampled_from(RUNS))
    faults = draw(
        st.dictionaries(
            st.integers(0, len(read_received_lines(name, number)) - 1),
            st.sampled_from(["cut", "lost", "double", "broken"]),
            max_size=8,
        )
    )

    def disturb() -> Iterator[bytes]:
        for place, one in enumerate(read_received_lines(name, number)):
            match faults.get(place):
                case "cut":
                    yield one[: draw(st.integers(0, len(one) - 1))]
                case "lost":
                    continue
                case "double":
                    yield from (one, one)
                case "broken":
                    at = draw(st.integers(0, len(one)))
                    yield one[:at] + draw(st.sampled_from([b"\xff", b"\0", b'"}'])) + one[at:]
                case _:
                    yield one

    return name, number, list(disturb())


@given(disturbed_runs())
def test_whatever_the_lines_nothing_raises_and_nothing_is_recorded_twice(
    run: tuple[str, int, list[bytes]],
) -> None:
    name, number, lines = run
    memory = "earlier" if number else ""
    steps = replay(make_conversation(engine_state=memory), lines)
    booked = sum_usage(steps)
    assert booked.total_input + booked.total_output <= count_spent_tokens(
        read_received_lines(name, number), number
    )
    assert steps.count(TurnDone()) <= 1


def count_spent_tokens(lines: list[bytes], earlier_turns: int) -> int:
    """Count a run's tokens by its own totals; a resumed thread reports the earlier ones first."""
    told = [json.loads(one)["params"]["tokenUsage"]["total"] for one in lines if TOTALS in one]
    totals = [one["totalTokens"] for one in told]
    return max(totals, default=0) - (totals[0] if earlier_turns else 0)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_values_of_other_types_than_expected_are_passed_over(value: Any) -> None:
    talk = make_conversation()
    begin_turn(talk)
    item = {"type": "commandExecution", "id": "c", "command": value, "exitCode": value}
    for method, params in (
        ("item/started", {"item": item}),
        ("item/completed", {"item": {**item, "aggregatedOutput": value, "status": value}}),
        ("item/completed", {"item": {"type": "fileChange", "id": "f", "changes": value}}),
        ("item/completed", {"item": {"type": "mcpToolCall", "id": "m", "result": value}}),
        ("item/completed", {"item": value}),
        ("thread/tokenUsage/updated", {"threadId": "t", "turnId": "u", "tokenUsage": value}),
        ("thread/tokenUsage/updated", {"threadId": value, "tokenUsage": {"total": value}}),
        ("account/rateLimits/updated", {"rateLimits": {"primary": {"resetsAt": value}}}),
        ("account/rateLimits/updated", {"rateLimits": {"primary": {"usedPercent": value}}}),
        ("account/rateLimits/updated", {"rateLimits": {"individualLimit": value}}),
        ("serverRequest/resolved", {"requestId": value}),
        ("turn/completed", {"threadId": "t", "turn": {"id": "u", "error": value}}),
    ):
        list(talk.on_line(encode_line(method, **params)))
        list(talk.on_line(json.dumps({"method": method, "params": value}).encode()))
    assert sum_usage(list(talk.on_exit())) == NO_USAGE


def resume_thread(memory: str, instructions: str, **more: Any) -> str:
    """Return the prompt of a turn that resumes a thread."""
    talk = make_conversation(engine_state=memory, instructions=instructions, **more)
    steps = begin_turn(talk)
    [asked] = read_sent_params(steps, "thread/resume")
    assert asked["threadId"] == "t"
    [turn] = read_sent_params(steps, "turn/start")
    return str(turn["input"][0]["text"])


def test_a_thread_reads_instructions_again_only_when_they_have_changed() -> None:
    [kept] = filter_steps(begin_turn(make_conversation(instructions="Be terse.")), EngineStateSaved)
    assert resume_thread(kept.engine_state, "Be terse.") == "Do it."
    changed = resume_thread(kept.engine_state, "Be verbose.")
    assert "Be verbose." in changed and changed.endswith("Do it.")
    assert WITHDRAWN in resume_thread(kept.engine_state, "")


def test_a_thread_that_an_earlier_version_kept_goes_on() -> None:
    assert resume_thread("t", "") == "Do it."
    assert "Be terse." in resume_thread("t", "Be terse.")


def test_a_thread_that_goes_on_is_shown_what_other_engines_did_since() -> None:
    missed = (Message(4, "assistant", "It is x.", ""),)
    told = resume_thread("t", "", missed=missed)
    assert "It is x." in told and told.endswith("Do it.")


def test_a_thread_that_goes_on_is_compacted_in_place_of_a_prompt() -> None:
    """What its instructions were is told again afterwards."""
    [kept] = filter_steps(begin_turn(make_conversation(instructions="Be terse.")), EngineStateSaved)
    more = {"engine_state": kept.engine_state, "instructions": "Be terse."}
    talk = CodexConversation(TurnRequest(1, " /compact\n", **more), WorkspaceBounds(WORKSPACE))
    steps = begin_turn(talk)
    assert read_sent_params(steps, "turn/start") == []
    assert read_sent_params(steps, "thread/compact/start") == [{"threadId": "t"}]
    list(talk.on_line(encode_line("turn/started", threadId="t", turn={"id": "u"})))
    assert list(talk.on_line(end_turn())) == [ReplyCompleted(COMPACTED), TurnDone()]
    [kept] = filter_steps(steps, EngineStateSaved)
    assert "Be terse." in resume_thread(kept.engine_state, "Be terse.")


def test_what_other_engines_did_since_is_not_left_out_of_a_summary() -> None:
    missed = (Message(4, "assistant", "It is x.", ""),)
    assignment = TurnRequest(1, "/compact", engine_state="t", missed=missed)
    steps = begin_turn(CodexConversation(assignment, WorkspaceBounds(WORKSPACE)))
    [turn] = read_sent_params(steps, "turn/start")
    assert "It is x." in turn["input"][0]["text"]


def test_a_compaction_that_is_stopped_or_fails_does_not_say_that_it_is_done() -> None:
    for status, last in (("interrupted", []), ("failed", [TurnFailed])):
        assignment = TurnRequest(1, "/compact", engine_state="t")
        talk = CodexConversation(assignment, WorkspaceBounds(WORKSPACE))
        begin_turn(talk)
        list(talk.on_line(encode_line("turn/started", threadId="t", turn={"id": "u"})))
        end = encode_line("turn/completed", threadId="t", turn={"id": "u", "status": status})
        assert [type(step) for step in talk.on_line(end)] == [*last, TurnDone]


def test_thinking_is_told_as_it_grows() -> None:
    steps = replay(make_conversation(), read_received_lines("codex-command"))
    thought = "".join(step.text for step in filter_steps(steps, ThinkingProgress))
    assert thought.startswith("The file is short.")


def test_the_paragraphs_of_a_summary_are_parted_and_other_threads_are_not_told() -> None:
    talk = make_conversation()
    begin_turn(talk)
    ours, others = {"threadId": "t", "turnId": "u"}, {"threadId": "other", "turnId": "v"}
    kind = "item/reasoning/summary"
    steps = replay(
        talk,
        [
            encode_line(f"{kind}PartAdded", **ours, summaryIndex=0),
            encode_line(f"{kind}TextDelta", **ours, summaryIndex=0, delta="One."),
            encode_line(f"{kind}TextDelta", **others, summaryIndex=0, delta="No."),
            encode_line(f"{kind}PartAdded", **others, summaryIndex=1),
            encode_line(f"{kind}PartAdded", **ours, summaryIndex=1),
            encode_line("item/reasoning/textDelta", **ours, contentIndex=0, delta="Two."),
        ],
    )
    assert [step.text for step in filter_steps(steps, ThinkingProgress)] == [
        "One.",
        "\n\n",
        "Two.",
    ]


def test_images_go_beside_the_prompt() -> None:
    steps = begin_turn(make_conversation(images=(ImagePart("image/png", "aWk="),)))
    (given,) = read_sent_params(steps, "turn/start")
    assert given["input"] == [
        {"type": "text", "text": "Do it.", "text_elements": []},
        {"type": "image", "url": "data:image/png;base64,aWk="},
    ]


def test_an_output_schema_goes_with_the_prompt() -> None:
    steps = begin_turn(make_conversation(output_schema='{"type":"object"}'))
    (given,) = read_sent_params(steps, "turn/start")
    assert given["outputSchema"] == {"type": "object"}
    (given,) = read_sent_params(begin_turn(make_conversation()), "turn/start")
    assert "outputSchema" not in given
