"""A turn with an ACP agent, line by line, and with lines lost, doubled and broken."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.acp.conversation import LATE, MOST_REMINDERS, AcpConversation
from agentd.agent.acp.session import LOST, remembered
from agentd.agent.conversation import Ask, Linger, Over, Send, Step, Withdrawn
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
from agentd.chats.chat import Message
from agentd.proxy.price import Usage
from tests.agent.conversing import (
    TRANSCRIPTS,
    WORKSPACE,
    answers,
    deny,
    lingered,
    only,
    received,
    replay,
    runs,
    sent,
    spent,
    told,
)

NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("opencode-*.jsonl"))
ABLE = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
CONFIG = [
    {
        "id": "model",
        "category": "model",
        "currentValue": "small",
        "options": [{"value": "small"}, {"value": "agentd/large"}],
    },
    {
        "id": "effort",
        "category": "thought_level",
        "currentValue": "low",
        "options": [{"name": "g", "options": [{"value": "high"}]}],
    },
]


class Agent:
    """The other side of a conversation, which answers by hand; ``steps`` is all that came."""

    def __init__(self, talk: AcpConversation) -> None:
        self.talk = talk
        self.steps: list[Step] = list(talk.begin())

    def answer(self, result: Any) -> list[Step]:
        return self._answer(result=result)

    def refuse(self, code: int, message: str) -> list[Step]:
        return self._answer(error={"code": code, "message": message})

    def tell(self, kind: str, /, **update: Any) -> list[Step]:
        params = {"sessionId": "s", "update": {"sessionUpdate": kind, **update}}
        return self._hear({"method": "session/update", "params": params})

    def ask(self, number: int, method: str, /, **params: Any) -> list[Step]:
        return self._hear({"id": number, "method": method, "params": params})

    def say(self, text: str, message: str = "m") -> list[Step]:
        content = {"type": "text", "text": text}
        return self.tell("agent_message_chunk", messageId=message, content=content)

    def _answer(self, **member: Any) -> list[Step]:
        asked = [json.loads(step.line) for step in only(self.steps, Send)]
        number = [line["id"] for line in asked if "method" in line and "id" in line][-1]
        return self._hear({"id": number, **member})

    def _hear(self, line: dict[str, Any]) -> list[Step]:
        steps = list(self.talk.heard(json.dumps({"jsonrpc": "2.0", **line}).encode()))
        self.steps += steps
        return steps


def conversation(**more: Any) -> AcpConversation:
    return AcpConversation(Assignment(1, "Do it.", **more), Bounds(WORKSPACE))


def agent(able: Any = ABLE, config: Any = (), name: str = "a", **more: Any) -> Agent:
    """An agent that was just given the prompt, in session ``s``."""
    made = Agent(conversation(**more))
    made.answer({"protocolVersion": 1, "agentCapabilities": able, "agentInfo": {"name": name}})
    made.answer({"sessionId": "s", "configOptions": list(config)})
    return made


def memory(session: str = "s", cost: str = "0", instructions: str = "") -> str:
    made = agent(instructions=instructions)
    [kept] = only(made.steps, Kept)
    return json.dumps({**json.loads(kept.memory), "session": session, "cost": cost})


def prompt(steps: list[Step]) -> str:
    [given] = sent(steps, "session/prompt")
    text: str = given["prompt"][0]["text"]
    return text


def test_chunks_become_whole_replies_between_the_tools() -> None:
    made = agent()
    made.say("I will ")
    made.say("look.")
    path = f"{WORKSPACE}/a.txt"
    made.tell("tool_call", toolCallId="t", title="read", kind="read", status="pending")
    places = [{"path": path}]
    made.tell("tool_call_update", toolCallId="t", status="in_progress", locations=places)
    content = [{"type": "content", "content": {"type": "text", "text": "one"}}]
    made.tell("tool_call_update", toolCallId="t", status="completed", content=content)
    made.say("Done.", "n")
    made.tell("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "USD"})
    made.answer({"stopReason": "end_turn", "usage": {"inputTokens": 3, "totalTokens": 3}})
    assert [step for step in told(made.steps) if not isinstance(step, Kept)] == [
        Replied("I will look."),
        ToolStarted("read", "a.txt"),
        ToolUsed("read", "a.txt", "one"),
        Replied("Done.", Usage(input=3), Decimal("0.5")),
    ]
    assert "".join(step.text for step in only(made.steps, Wrote)) == "I will look.Done."
    assert made.steps[-1] == Over()
    assert json.loads(only(made.steps, Kept)[-1].memory)["cost"] == "0.5"


def test_the_cost_may_come_a_moment_after_the_answer() -> None:
    made = agent()
    made.say("Done.")
    assert made.answer({"stopReason": "end_turn"}) == [Linger(LATE)]
    steps = made.tell("usage_update", cost={"amount": 0.5, "currency": "USD"})
    assert Replied("Done.", cost=Decimal("0.5")) in steps and steps[-1] == Over()
    assert not list(made.talk.ended())


def test_an_agent_that_tells_no_cost_is_not_waited_for_without_end() -> None:
    made = agent()
    made.say("Done.")
    assert lingered(made.answer({"stopReason": "end_turn", "usage": {"outputTokens": 4}}))
    assert list(made.talk.ended()) == [Replied("Done.", Usage(output=4))]


def test_a_program_that_dies_leaves_what_it_had_said() -> None:
    made = agent()
    made.say("Half of")
    made.tell("tool_call", toolCallId="t", title="x", kind="execute", status="in_progress")
    made.say("the other", "n")
    assert list(made.talk.ended()) == [
        Replied("the other"),
        ToolUsed("shell", "x", "Interrupted."),
    ]


@pytest.mark.parametrize(
    ("able", "method"),
    [
        (ABLE, "session/resume"),
        ({"loadSession": True}, "session/load"),
        ({"loadSession": False}, "session/new"),
    ],
)
def test_a_session_is_taken_up_as_the_agent_can(able: Any, method: str) -> None:
    made = agent(able, memory=memory())
    assert sent(made.steps, method)
    assert len(sent(made.steps, "session/prompt")) == 1


def test_the_replay_of_a_loaded_session_is_not_told_again() -> None:
    made = Agent(conversation(memory=memory(cost="0.2")))
    made.answer({"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    made.say("Told long ago.")
    made.tell("tool_call", toolCallId="t", title="x", kind="read", status="completed")
    made.tell("usage_update", cost={"amount": 0.3, "currency": "USD"})
    assert not told(made.steps)
    made.answer({})
    made.tell("usage_update", cost={"amount": 0.31, "currency": "USD"})
    made.answer({"stopReason": "end_turn"})
    assert spent(made.steps) == Decimal("0.01")


def test_a_session_that_is_gone_is_begun_anew_with_what_went_before() -> None:
    history = (Message(1, "user", "The answer is 42.", ""),)
    made = Agent(conversation(memory=memory("gone"), history=history))
    made.answer({"protocolVersion": 1, "agentCapabilities": ABLE})
    made.refuse(-32603, "Internal error")
    assert sent(made.steps, "session/load") and not sent(made.steps, "session/new")
    made.refuse(-32603, "Internal error")
    assert ToolUsed("session", "resume gone", LOST) in made.steps
    made.answer({"sessionId": "s"})
    assert "The answer is 42." in prompt(made.steps)


def test_a_session_that_goes_on_is_told_what_other_engines_did_since() -> None:
    missed = (Message(4, "assistant", "It is x.", ""),)
    told = prompt(agent(ABLE, memory=memory(), history=missed, missed=missed).steps)
    assert "It is x." in told and told.endswith("Do it.")


def test_instructions_stand_before_the_first_prompt_and_again_when_changed() -> None:
    assert "Be terse." in prompt(agent(instructions="Be terse.").steps)
    kept = memory(instructions="Be terse.")
    assert prompt(agent(memory=kept, instructions="Be terse.").steps) == "Do it."
    assert "Be kind." in prompt(agent(memory=kept, instructions="Be kind.").steps)


def test_a_prompt_that_a_limit_interrupted_is_not_given_twice() -> None:
    assert prompt(agent(memory=memory(), again=True).steps) == GO_ON
    assert prompt(agent(again=True).steps) == "Do it."


def test_model_and_effort_are_set_where_they_are_offered() -> None:
    made = agent(config=CONFIG, model="large", effort="high")
    assert not sent(made.steps, "session/prompt")
    made.answer({})
    made.answer({})
    assert [(one["configId"], one["value"]) for one in sent(made.steps, OPTION)] == [
        ("model", "agentd/large"),
        ("effort", "high"),
    ]
    assert sent(made.steps, "session/prompt")
    assert sent(agent(config=CONFIG, model="small").steps, "session/prompt")


OPTION = "session/set_config_option"


def test_a_model_that_is_not_offered_is_not_replaced_by_another() -> None:
    made = agent(config=CONFIG, model="huge")
    [failed] = only(made.steps, Failed)
    assert "huge" in failed.reason and "small" in failed.reason
    assert made.steps[-1] == Over()


def test_another_version_of_the_protocol_is_a_clear_failure() -> None:
    made = Agent(conversation())
    made.answer({"protocolVersion": 2})
    [failed] = only(made.steps, Failed)
    assert "version 2" in failed.reason


def test_an_agent_that_is_not_signed_in_says_how() -> None:
    made = Agent(conversation())
    ways = [{"id": "x", "name": "Login", "description": "Run `opencode auth login`"}]
    made.answer({"protocolVersion": 1, "authMethods": ways})
    steps = made.refuse(-32000, "Authentication required")
    [failed] = only(steps, Failed)
    assert "Run `opencode auth login`" in failed.reason


@pytest.mark.parametrize(
    ("call", "question"),
    [
        (
            {"kind": "execute", "title": "x", "rawInput": {"command": "rm x", "cwd": WORKSPACE}},
            Question("shell", "shell", "rm x"),
        ),
        (
            {"kind": "execute", "rawInput": {"command": ["rm", "a b"], "cwd": "/etc"}},
            Question("shell", "shell", "cd /etc && rm 'a b'"),
        ),
        (
            {"kind": "edit", "locations": [{"path": f"{WORKSPACE}/src/a.py"}]},
            Question("write", "edit", "src/a.py"),
        ),
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "/srv/hosts"}]},
            Question("outside", "edit", "/srv/hosts"),
        ),
        ({"kind": "edit", "title": "Edit"}, Question("outside", "edit", "Edit")),
        (
            {"kind": "move", "locations": [{"path": f"{WORKSPACE}/a"}, {"path": "/b"}]},
            Question("outside", "move", "a\n/b"),
        ),
        (
            {"kind": "read", "locations": [{"path": f"{WORKSPACE}/a"}]},
            Question("read", "read", "a"),
        ),
        (
            {"kind": "read", "locations": [{"path": "/etc/passwd"}]},
            Question("other", "read", "/etc/passwd"),
        ),
        (
            {"kind": "fetch", "rawInput": {"url": "https://example.org"}},
            Question("network", "fetch", "https://example.org"),
        ),
        (
            {"kind": "other", "title": "tickets_close", "rawInput": {"id": 7}},
            Question("other", "tickets_close", '{"id":7}'),
        ),
        ({}, Question("other", "tool", "tool")),
    ],
)
def test_a_request_for_permission_is_a_question_of_its_kind(
    call: dict[str, Any], question: Question
) -> None:
    made = agent()
    steps = made.ask(0, ASKING, toolCall={"toolCallId": "t", **call}, options=[])
    [ask] = only(steps, Ask)
    assert ask.question == question


ASKING = "session/request_permission"
OPTIONS = [
    {"optionId": "always", "kind": "allow_always"},
    {"optionId": "once", "kind": "allow_once"},
    {"optionId": "no", "kind": "reject_once"},
]


@pytest.mark.parametrize(
    ("answer", "options", "chosen"),
    [
        (Answer(allowed=True), OPTIONS, "once"),
        (Answer(allowed=True, session=True), OPTIONS, "once"),
        (Answer(allowed=True), OPTIONS[:1], "always"),
        (Answer(allowed=False), OPTIONS, "no"),
        (Answer(allowed=False), OPTIONS[:2], ""),
        (Answer(allowed=True), [], ""),
    ],
)
def test_leave_is_given_once_each_time(answer: Answer, options: Any, chosen: str) -> None:
    made = agent()
    [ask] = only(made.ask(0, ASKING, toolCall={"toolCallId": "t"}, options=options), Ask)
    [outcome] = answers(made.talk.answered(ask.id, answer))
    selected = {"outcome": "selected", "optionId": chosen}
    assert outcome["outcome"] == (selected if chosen else {"outcome": "cancelled"})


def test_files_and_terminals_are_refused_and_forms_declined() -> None:
    made = agent()
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "x/y"):
        [step] = only(made.ask(5, method), Send)
        assert json.loads(step.line)["error"]["code"] == -32601
    assert answers(made.ask(6, "elicitation/create")) == [{"action": "decline"}]


def test_a_stop_cancels_what_is_open_and_the_prompt() -> None:
    made = agent()
    [ask] = only(made.ask(0, ASKING, toolCall={"toolCallId": "t"}, options=OPTIONS), Ask)
    steps = list(made.talk.stop())
    assert Withdrawn(ask.id) in steps
    assert answers(steps) == [{"outcome": {"outcome": "cancelled"}}]
    assert sent(steps, "session/cancel") == [{"sessionId": "s"}]
    assert not list(made.talk.answered(ask.id, Answer(allowed=True)))
    later = made.ask(1, ASKING, toolCall={"toolCallId": "u"}, options=OPTIONS)
    assert answers(later) == [{"outcome": {"outcome": "cancelled"}}]
    assert made.answer({"stopReason": "cancelled"}) == [Over()]


@pytest.mark.parametrize("name", ["OpenCode", "claude-agent-acp"])
def test_a_stopped_turn_tells_its_cost_and_remembers_it(name: str) -> None:
    made = agent(name=name)
    list(made.talk.stop())
    made.tell("usage_update", cost={"amount": 0.5, "currency": "USD"})
    steps = made.answer({"stopReason": "cancelled", "usage": {"inputTokens": 5}})
    assert only(steps, Spent) == [Spent(Usage(input=5), Decimal("0.5"))]
    assert remembered(only(steps, Kept)[-1].memory).cost == Decimal("0.5")


def test_a_stop_before_the_prompt_ends_the_turn() -> None:
    made = Agent(conversation())
    assert list(made.talk.stop()) == [Over()]


def test_a_request_that_the_agent_takes_back_is_withdrawn() -> None:
    made = agent()
    [ask] = only(made.ask(3, ASKING, toolCall={"toolCallId": "t"}, options=OPTIONS), Ask)
    line = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}'
    assert Withdrawn(ask.id) in list(made.talk.heard(line))


@pytest.mark.parametrize(
    ("reason", "word"),
    [("max_tokens", "cut off"), ("max_turn_requests", "stopped"), ("refusal", "refuses")],
)
def test_a_turn_that_ended_too_early_says_why(reason: str, word: str) -> None:
    made = agent()
    made.say("Half")
    made.tell("usage_update", cost={"amount": 1, "currency": "USD"})
    steps = told(made.answer({"stopReason": reason}))
    assert Replied("Half", cost=Decimal(1)) in steps
    [failed] = only(steps, Failed)
    assert word in failed.reason


@pytest.mark.parametrize(
    "message", ["You've hit your limit · resets 3am", "429 Too Many Requests", "Rate-limit reached"]
)
def test_a_limit_is_no_failure(message: str) -> None:
    made = agent()
    assert made.refuse(-32603, message)[-2:] == [Limited(message), Over()]


def test_an_error_is_told() -> None:
    made = agent()
    made.say("I tr")
    steps = made.refuse(-32603, "Internal error: oh dear")
    assert steps == [Replied("I tr"), Failed("The agent: Internal error: oh dear"), Over()]


def test_what_was_used_without_a_reply_is_booked() -> None:
    made = agent()
    made.tell("usage_update", cost={"amount": 1, "currency": "USD"})
    steps = made.answer({"stopReason": "cancelled", "usage": {"inputTokens": 5}})
    assert Spent(Usage(input=5), Decimal(1)) in steps


def test_opencode_is_told_as_it_was_recorded() -> None:
    steps = replay(conversation(), received("opencode-tools"))
    names = [step.name for step in only(steps, ToolUsed)]
    assert {"shell", "edit"} <= set(names)
    assert {ask.question.kind for ask in only(steps, Ask)} == {"shell", "write"}
    assert only(steps, Replied)[-1].cost
    assert steps[-1] == Over()


def test_opencode_goes_on_when_it_is_not_allowed() -> None:
    steps = replay(conversation(), received("opencode-rejected"), deny)
    assert only(steps, Ask)
    assert all(answer["outcome"]["optionId"] == "reject" for answer in answers(steps))


def denied(made: Agent, number: int, subject: str, note: str) -> None:
    """Leave is asked for and not given."""
    call = {"toolCallId": f"t{number}", "kind": "execute", "rawInput": {"command": subject}}
    steps = made.ask(number, ASKING, toolCall=call, options=OPTIONS)
    made.steps += made.talk.answered(only(steps, Ask)[0].id, Answer(allowed=False, reason=note))


def test_a_turn_that_the_agent_ends_at_a_no_goes_on_with_the_note() -> None:
    made = agent()
    denied(made, 1, "rm notes.txt", "Keep the notes.")
    steps = made.answer({"stopReason": "end_turn", "usage": {"inputTokens": 5}})
    assert "rm notes.txt" in prompt(steps) and "Keep the notes." in prompt(steps)
    assert Over() not in steps
    made.say("I leave it.")
    made.tell("usage_update", cost={"amount": 1, "currency": "USD"})
    steps = made.answer({"stopReason": "end_turn", "usage": {"inputTokens": 7}})
    assert only(steps, Replied) == [Replied("I leave it.", Usage(input=12), Decimal(1))]
    assert steps[-1] == Over()


def test_an_agent_that_goes_on_after_a_no_is_not_reminded() -> None:
    made = agent()
    denied(made, 1, "rm notes.txt", "No.")
    made.say("Then I leave it.")
    made.answer({"stopReason": "end_turn"})
    assert len(sent(made.steps, "session/prompt")) == 1


def test_an_agent_that_ends_at_every_no_is_reminded_a_few_times() -> None:
    made = agent()
    for number in range(20):
        denied(made, number, "rm notes.txt", "No.")
        made.answer({"stopReason": "end_turn"})
        if made.steps[-1] == Linger(LATE):
            break
    assert len(sent(made.steps, "session/prompt")) == 1 + MOST_REMINDERS


def test_a_stopped_turn_is_not_taken_up_again_after_a_no() -> None:
    made = agent()
    denied(made, 1, "rm notes.txt", "No.")
    list(made.talk.stop())
    assert made.answer({"stopReason": "cancelled"})[-1] == Over()


MODELS = {"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "big"}]}


@pytest.mark.parametrize(
    ("wanted", "given"), [("big", [{"sessionId": "s", "modelId": "big"}]), ("small", []), ("", [])]
)
def test_a_model_that_is_listed_beside_the_session_is_set_before_the_prompt(
    wanted: str, given: list[Any]
) -> None:
    made = Agent(conversation(model=wanted))
    made.answer({"protocolVersion": 1})
    made.answer({"sessionId": "s", "models": MODELS})
    assert sent(made.steps, "session/set_model") == given
    if given:
        assert not sent(made.steps, "session/prompt")
        made.answer({})
    assert sent(made.steps, "session/prompt")


def test_a_model_that_is_not_listed_beside_the_session_is_told() -> None:
    made = Agent(conversation(model="huge"))
    made.answer({"protocolVersion": 1})
    [failed] = only(made.answer({"sessionId": "s", "models": MODELS}), Failed)
    assert "no model 'huge'; it offers small, big" in failed.reason


@st.composite
def disturbed(draw: st.DrawFn) -> tuple[str, int, list[bytes]]:
    """A recorded run with some of its lines cut, lost, doubled or broken."""
    name = draw(st.sampled_from(NAMES))
    number = draw(st.integers(0, len(runs(name)) - 1))
    lines = received(name, number)
    places = st.integers(0, len(lines) - 1)
    faults = draw(
        st.dictionaries(places, st.sampled_from(["cut", "lost", "double", "broken"]), max_size=8)
    )
    found: list[bytes] = []
    for place, line in enumerate(lines):
        at = draw(st.integers(0, len(line) - 1)) if place in faults else 0
        found += {
            "cut": [line[:at]],
            "lost": [],
            "double": [line, line],
            "broken": [line[:at] + b"\xff" + line[at:]],
        }.get(faults.get(place, ""), [line])
    return name, number, found


@given(disturbed())
def test_whatever_the_lines_nothing_raises_and_nothing_is_booked_twice(
    run: tuple[str, int, list[bytes]],
) -> None:
    name, number, lines = run
    reports = [line for line in received(name, number) if b"usage_update" in line]
    amounts = [json.loads(line)["params"]["update"]["cost"]["amount"] for line in reports]
    kept = memory("ses_earlier") if number else ""
    steps = replay(conversation(memory=kept), lines)
    assert spent(steps) <= Decimal(str(max(amounts, default=0))) + Decimal("1e-9")
    assert steps.count(Over()) <= 1


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_values_of_other_types_than_expected_are_passed_over(value: Any) -> None:
    made = agent()
    kinds = ("agent_message_chunk", "tool_call", "tool_call_update", "usage_update", "plan")
    for kind in kinds:
        for status in ("pending", "completed", value):
            made.tell(
                kind,
                content=value,
                toolCallId="t",
                kind=value,
                title=value,
                rawInput=value,
                locations=value,
                status=status,
                cost=value,
            )
    made.ask(1, ASKING, toolCall=value, options=value)
    line = json.dumps({"method": "session/update", "params": value})
    list(made.talk.heard(line.encode()))
    made.answer(value)
    list(made.talk.ended())
