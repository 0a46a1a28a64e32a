"""A turn with Codex, replayed from what Codex said, and with lines lost, doubled and broken."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.codex.conversation import BAD_KEY, LOST, SIGN_IN, CodexConversation
from agentd.agent.codex.launch import Memory
from agentd.agent.conversation import Ask, Over, Pauses, Send, Step, Withdrawn
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
from agentd.agent.foreign import GO_ON, Bounds
from agentd.agent.protected import ProtectedPlaces
from agentd.chats.chat import Message
from agentd.proxy.price import NOTHING, Usage
from tests.agent.conversing import (
    TRANSCRIPTS,
    WORKSPACE,
    answers,
    deny,
    only,
    received,
    replay,
    runs,
    sent,
    told,
    used,
)

NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("codex-*.jsonl"))
RUNS = [(name, number) for name in NAMES for number in range(len(runs(name)))]
TOTALS = b"thread/tokenUsage/updated"
ONE_CALL = Usage(input=10, output=5)


def conversation(**more: Any) -> CodexConversation:
    return CodexConversation(Assignment(1, "Do it.", **more), Bounds(WORKSPACE))


def line(method: str, /, **params: Any) -> bytes:
    return json.dumps({"method": method, "params": params}).encode()


def request(number: int, method: str, /, **params: Any) -> bytes:
    return json.dumps({"id": number, "method": method, "params": params}).encode()


def begun(talk: CodexConversation) -> list[Step]:
    """The steps until the turn ``u`` of thread ``t`` is running."""
    steps = list(talk.begin())
    for value in ({}, {"thread": {"id": "t"}}, {"turn": {"id": "u"}}):
        number = json.loads(only(steps, Send)[-1].line).get("id", 1)
        steps += talk.heard(json.dumps({"id": number, "result": value}).encode())
    return steps


def ended(error: dict[str, Any] | None = None) -> bytes:
    status = "failed" if error else "completed"
    return line("turn/completed", threadId="t", turn={"id": "u", "status": status, "error": error})


def test_a_command_is_asked_run_and_told_with_the_replies_around_it() -> None:
    steps = replay(conversation(), received("codex-command"))
    command = "cat notes.txt && echo three | tee -a notes.txt"
    assert told(steps)[1:] == [
        Replied("I add a line."),
        ToolStarted("shell", command),
        ToolUsed("shell", command, "one\ntwo\nthree"),
        Spent(Usage(input=100, cache_read=900, output=12, reasoning=8)),
        Replied("The line is there.", ONE_CALL),
    ]
    assert [step.question for step in only(steps, Ask)] == [Question("shell", "shell", command)]
    assert answers(steps) == [{"decision": "accept"}]
    assert "".join(step.text for step in only(steps, Wrote)) == "I add a line.The line is there."
    assert steps[-1] == Over()


def test_codex_is_told_to_ask_before_everything() -> None:
    [terms] = sent(replay(conversation(), received("codex-command")), "thread/start")
    assert terms["approvalPolicy"] == "untrusted"
    assert terms["approvalsReviewer"] == "user"
    assert terms["sandbox"] == "workspace-write"
    assert terms["cwd"] == WORKSPACE


def test_model_effort_and_instructions_are_handed_over() -> None:
    talk = conversation(model="large", effort="high", instructions="Be terse.")
    steps = replay(talk, received("codex-command"))
    [terms] = sent(steps, "thread/start")
    assert (terms["model"], terms["developerInstructions"]) == ("large", "Be terse.")
    [turn] = sent(steps, "turn/start")
    assert turn["effort"] == "high"
    assert turn["input"][0]["text"] == "Do it."


def test_no_is_told_as_no_and_the_turn_goes_on() -> None:
    steps = replay(conversation(), received("codex-declined"), deny)
    assert answers(steps) == [{"decision": "decline"}]
    assert only(steps, ToolUsed) == [ToolUsed("shell", "rm notes.txt", "Not allowed.")]
    assert only(steps, Replied)[-1].text == "I leave it."


def test_a_change_of_files_is_told_with_its_paths_and_difference() -> None:
    steps = replay(conversation(), received("codex-patch"))
    [ask] = only(steps, Ask)
    assert ask.question == Question("write", "edit", "notes.txt", "M notes.txt")
    assert only(steps, ToolUsed) == [
        ToolUsed("edit", "M notes.txt", "@@ -1,2 +1,2 @@\n-one\n+uno\n two")
    ]


def test_leave_to_go_beyond_the_sandbox_is_asked_with_the_reason() -> None:
    [ask] = only(replay(conversation(), received("codex-escalated")), Ask)
    assert ask.question.reason == "May I write outside?"


def test_a_command_that_fails_tells_its_exit_code() -> None:
    steps = replay(conversation(), received("codex-parallel"))
    assert ToolUsed("shell", "touch x; exit 3", "exit code 3") in steps


def test_a_resumed_thread_books_only_the_new_turn() -> None:
    first = replay(conversation(), received("codex-resumed", 0))
    [kept] = only(first, Kept)
    second = replay(conversation(memory=kept.memory), received("codex-resumed", 1))
    assert sent(second, "thread/resume")[0]["threadId"] == Memory.read(kept.memory).thread
    assert not sent(second, "thread/start")
    assert (used(first), used(second)) == (ONE_CALL, ONE_CALL)


def test_a_thread_that_is_gone_is_begun_anew_with_what_went_before() -> None:
    history = (Message(1, "user", "The answer is 42.", ""),)
    talk = conversation(memory="gone", history=history)
    steps = [*talk.begin(), *talk.heard(b'{"id":1,"result":{}}')]
    steps += talk.heard(b'{"id":2,"error":{"code":-32600,"message":"no rollout found"}}')
    assert only(steps, ToolUsed) == [ToolUsed("codex", "resume gone", LOST)]
    steps += talk.heard(b'{"id":3,"result":{"thread":{"id":"new"}}}')
    assert Memory.read(only(steps, Kept)[0].memory).thread == "new"
    assert "The answer is 42." in sent(steps, "turn/start")[0]["input"][0]["text"]


def test_a_prompt_that_a_limit_interrupted_is_not_given_twice() -> None:
    talk = conversation(memory="t", again=True)
    assert sent(begun(talk), "turn/start")[0]["input"][0]["text"] == GO_ON


def test_a_long_pause_before_it_asks_again_is_told() -> None:
    talk = conversation()
    begun(talk)
    error = {"message": "Reconnecting... 1/5", "additionalDetails": "Please try again in 15m."}
    [pause] = list(talk.heard(line("error", error=error, willRetry=True)))
    assert isinstance(pause, Pauses) and pause.seconds == 900.0
    assert not list(talk.heard(line("error", error=error, willRetry=False)))
    assert not list(talk.heard(line("error", error={"message": "Reconnecting"}, willRetry=True)))


def test_a_used_up_limit_ends_the_turn_as_limited_until_its_reset() -> None:
    [limited] = only(replay(conversation(), received("codex-limited")), Limited)
    assert "usage limit" in limited.reason
    talk = conversation()
    begun(talk)
    windows = {
        "primary": {"usedPercent": 100, "resetsAt": 1795300000},
        "secondary": {"usedPercent": 20, "resetsAt": 1799900000},
    }
    list(talk.heard(line("account/rateLimits/updated", rateLimits=windows)))
    steps = list(talk.heard(ended({"message": "x", "codexErrorInfo": "usageLimitExceeded"})))
    assert steps == [Limited("x", "2026-11-21T22:26:40.000Z"), Over()]


@pytest.mark.parametrize(
    ("info", "supplier", "end"),
    [
        ("rateLimitExceeded", "", Limited("said")),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "", Limited("said")),
        ("unauthorized", "", Failed(f"{SIGN_IN} said")),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "acme", Failed(f"{BAD_KEY} said")),
        ("modelNotFound", "", Failed("Codex: said")),
        (None, "", Failed("Codex: said")),
        (["odd"], "", Failed("Codex: said")),
    ],
)
def test_an_error_says_what_to_do(info: Any, supplier: str, end: Step) -> None:
    talk = conversation(supplier=supplier)
    begun(talk)
    steps = list(talk.heard(ended({"message": "said", "codexErrorInfo": info})))
    assert steps == [end, Over()]


def test_a_stream_that_broke_and_recovered_is_no_failure() -> None:
    assert told(replay(conversation(), received("codex-broken")))[1:] == [
        Replied("Recovered.", ONE_CALL)
    ]


def test_a_failure_is_told() -> None:
    [failed] = only(replay(conversation(), received("codex-failed")), Failed)
    assert "unexpected status" in failed.reason


def test_a_stop_interrupts_and_withdraws_what_is_open() -> None:
    talk = conversation()
    begun(talk)
    item = {"type": "commandExecution", "id": "c", "command": "sleep 100", "cwd": WORKSPACE}
    list(talk.heard(line("item/started", threadId="t", item=item)))
    asking = "item/commandExecution/requestApproval"
    [ask] = list(talk.heard(request(7, asking, itemId="c", command="sleep 100")))
    assert isinstance(ask, Ask)
    stopped = list(talk.stop())
    assert Withdrawn(ask.id) in stopped
    assert sent(stopped, "turn/interrupt") == [{"threadId": "t", "turnId": "u"}]
    assert not list(talk.answered(ask.id, Answer(allowed=True)))
    assert answers(talk.heard(request(8, asking, itemId="c"))) == [{"decision": "decline"}]
    end = line("turn/completed", threadId="t", turn={"id": "u", "status": "interrupted"})
    assert list(talk.heard(end)) == [ToolUsed("shell", "sleep 100", "Interrupted."), Over()]


def test_a_stop_before_the_turn_began_reaches_it() -> None:
    talk = conversation()
    list(talk.begin())
    assert list(talk.stop()) == [Over()]
    talk = conversation()
    for number, value in enumerate(({}, {"thread": {"id": "t"}}), 1):
        list(talk.begin()) if number == 1 else None
        list(talk.heard(json.dumps({"id": number, "result": value}).encode()))
    assert not list(talk.stop())
    assert sent(talk.heard(b'{"id":3,"result":{"turn":{"id":"u"}}}'), "turn/interrupt")


def test_a_question_that_codex_takes_back_is_withdrawn() -> None:
    talk = conversation()
    begun(talk)
    asking = "item/commandExecution/requestApproval"
    [ask] = list(talk.heard(request(7, asking, command="ls")))
    assert isinstance(ask, Ask)
    assert list(talk.heard(line("serverRequest/resolved", requestId=7))) == [Withdrawn(ask.id)]
    assert not list(talk.answered(ask.id, Answer(allowed=True)))


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
    ],
)
def test_every_kind_of_question_is_put_and_answered(
    method: str, params: dict[str, Any], question: Question, yes: Any, no: Any
) -> None:
    for allowed, expected in ((True, yes), (False, no)):
        talk = conversation()
        begun(talk)
        [ask] = list(talk.heard(request(7, method, **params)))
        assert isinstance(ask, Ask)
        assert ask.question == question
        assert answers(talk.answered(ask.id, Answer(allowed=allowed))) == [expected]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("item/tool/requestUserInput", {"questions": [{"id": "q", "question": "Which?"}]}),
        ("mcpServer/elicitation/request", {"mode": "url", "url": "https://x"}),
        (
            "mcpServer/elicitation/request",
            {"mode": "form", "requestedSchema": {"required": ["name"]}},
        ),
        ("attestation/generate", {}),
        ("of/next/year", {}),
    ],
)
def test_what_nobody_can_decide_is_answered_at_once(method: str, params: dict[str, Any]) -> None:
    talk = conversation()
    begun(talk)
    [step] = list(talk.heard(request(7, method, **params)))
    assert isinstance(step, Send)
    answer = json.loads(step.line)
    assert answer["id"] == 7
    assert {"result", "error"} & set(answer)


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
    talk = CodexConversation(Assignment(1, "Do it."), Bounds(WORKSPACE, protected=places))
    begun(talk)
    wanted = {"fileSystem": files}
    [ask] = list(talk.heard(request(7, "item/permissions/requestApproval", permissions=wanted)))
    assert isinstance(ask, Ask)
    assert (ask.question.kind, bool(ask.question.protected)) == ("outside", protected)


def test_a_change_outside_the_workspace_is_asked_as_such() -> None:
    talk = conversation()
    begun(talk)
    changes = [{"path": f"{WORKSPACE}/a", "kind": {"type": "update", "move_path": "/etc/a"}}]
    item = {"type": "fileChange", "id": "c", "changes": changes}
    list(talk.heard(line("item/started", threadId="t", item=item)))
    [ask] = list(talk.heard(request(7, "item/fileChange/requestApproval", itemId="c")))
    assert isinstance(ask, Ask)
    assert ask.question == Question(
        "outside", "edit", "a\n/etc/a", "M a -> /etc/a", ask.question.protected
    )
    assert "part of the system" in ask.question.protected


def test_what_a_helper_thread_says_is_no_reply_but_what_it_uses_is_booked() -> None:
    talk = conversation()
    begun(talk)
    message = {"type": "agentMessage", "id": "m", "text": "aside"}
    assert not list(talk.heard(line("item/completed", threadId="other", item=message)))
    assert not list(talk.heard(line("item/agentMessage/delta", threadId="other", delta="a")))
    usage = {"total": counts(50), "last": counts(20)}
    [spent] = list(talk.heard(line("thread/tokenUsage/updated", threadId="o", tokenUsage=usage)))
    assert spent == Spent(Usage(input=20))


def counts(total: int) -> dict[str, int]:
    return {"totalTokens": total, "inputTokens": total}


def test_a_total_that_was_lost_is_in_the_next_one() -> None:
    talk = conversation()
    begun(talk)
    lines = [
        line("thread/tokenUsage/updated", threadId="t", turnId="u", tokenUsage={"total": one})
        for one in (counts(10), counts(30), counts(60))
    ]
    steps = [*talk.heard(lines[0]), *talk.heard(lines[2]), *talk.heard(lines[1])]
    assert used(steps) == Usage(input=60)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_twice_is_told_once(name: str) -> None:
    lines = received(name)
    doubled = [line for line in lines for _ in range(2 if b'"delta"' not in line else 1)]
    assert told(replay(conversation(), doubled)) == told(replay(conversation(), lines))


@st.composite
def disturbed(draw: st.DrawFn) -> tuple[str, int, list[bytes]]:
    """A recorded run with some of its lines cut, lost, doubled or broken."""
    name, number = draw(st.sampled_from(RUNS))
    faults = draw(
        st.dictionaries(
            st.integers(0, len(received(name, number)) - 1),
            st.sampled_from(["cut", "lost", "double", "broken"]),
            max_size=8,
        )
    )

    def disturb() -> Iterator[bytes]:
        for place, one in enumerate(received(name, number)):
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


@given(disturbed())
def test_whatever_the_lines_nothing_raises_and_nothing_is_booked_twice(
    run: tuple[str, int, list[bytes]],
) -> None:
    name, number, lines = run
    memory = "earlier" if number else ""
    steps = replay(conversation(memory=memory), lines)
    booked = used(steps)
    assert booked.total_input + booked.total_output <= spent_in(received(name, number), number)
    assert steps.count(Over()) <= 1


def spent_in(lines: list[bytes], earlier_turns: int) -> int:
    """The tokens of a run, by its own totals; a resumed thread tells the earlier ones first."""
    told = [json.loads(one)["params"]["tokenUsage"]["total"] for one in lines if TOTALS in one]
    totals = [one["totalTokens"] for one in told]
    return max(totals, default=0) - (totals[0] if earlier_turns else 0)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_values_of_other_types_than_expected_are_passed_over(value: Any) -> None:
    talk = conversation()
    begun(talk)
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
        ("serverRequest/resolved", {"requestId": value}),
        ("turn/completed", {"threadId": "t", "turn": {"id": "u", "error": value}}),
    ):
        list(talk.heard(line(method, **params)))
        list(talk.heard(json.dumps({"method": method, "params": value}).encode()))
    assert used(list(talk.ended())) == NOTHING


def resumed(memory: str, instructions: str, **more: Any) -> str:
    """The prompt of a turn that goes on with a thread."""
    talk = conversation(memory=memory, instructions=instructions, **more)
    steps = begun(talk)
    [asked] = sent(steps, "thread/resume")
    assert asked["threadId"] == "t"
    [turn] = sent(steps, "turn/start")
    return str(turn["input"][0]["text"])


def test_a_thread_reads_instructions_again_only_when_they_have_changed() -> None:
    [kept] = only(begun(conversation(instructions="Be terse.")), Kept)
    assert resumed(kept.memory, "Be terse.") == "Do it."
    changed = resumed(kept.memory, "Be verbose.")
    assert "Be verbose." in changed and changed.endswith("Do it.")


def test_a_thread_that_an_earlier_version_kept_goes_on() -> None:
    assert resumed("t", "") == "Do it."
    assert "Be terse." in resumed("t", "Be terse.")


def test_a_thread_that_goes_on_is_told_what_other_engines_did_since() -> None:
    missed = (Message(4, "assistant", "It is x.", ""),)
    told = resumed("t", "", missed=missed)
    assert "It is x." in told and told.endswith("Do it.")
