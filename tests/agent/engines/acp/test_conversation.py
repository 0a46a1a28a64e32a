"""A turn with an ACP agent, line by line, and with lines lost, doubled and broken."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import (
    ApprovalAnswer,
    EngineStateSaved,
    ModesListed,
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
)
from agentd.agent.engines.acp.conversation import LATE, MOST_REMINDERS, WAITS, AcpConversation
from agentd.agent.engines.acp.session import LOST, parse_state
from agentd.agent.engines.external.common import CONTINUE_PROMPT, ONLY_PLANS, WorkspaceBounds
from agentd.agent.engines.external.conversation import (
    AskApproval,
    AwaitLateOutput,
    QuestionCancelled,
    SendLine,
    Step,
    TurnDone,
)
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.chats.model import Message
from agentd.llm.conversation import ImagePart
from agentd.llm.price import Usage
from agentd.models.program_state import ProgramMode
from tests.agent.engines.conversing import (
    TRANSCRIPTS,
    WORKSPACE,
    awaits_late_output,
    deny,
    filter_reported,
    filter_steps,
    read_received_lines,
    read_runs,
    read_sent_params,
    read_sent_results,
    replay,
    sum_cost,
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
        self.steps: list[Step] = list(talk.on_start())

    def answer(self, result: Any) -> list[Step]:
        return self._answer(result=result)

    def refuse(self, code: int, message: str) -> list[Step]:
        return self._answer(error={"code": code, "message": message})

    def tell(self, kind: str, /, **update: Any) -> list[Step]:
        params = {"sessionId": "s", "update": {"sessionUpdate": kind, **update}}
        return self._hear({"method": "session/update", "params": params})

    def tell_call(self, number: str, cost: float, session: str = "s") -> list[Step]:
        """Tell of a call to a model, as the plugin for opencode does."""
        params = {"id": number, "sessionId": session, "cost": cost, "tokens": {"input": 1}}
        return self._hear({"method": "_agentd/usage", "params": params})

    def ask(self, number: int, method: str, /, **params: Any) -> list[Step]:
        return self._hear({"id": number, "method": method, "params": params})

    def say(self, text: str, message: str = "m") -> list[Step]:
        content = {"type": "text", "text": text}
        return self.tell("agent_message_chunk", messageId=message, content=content)

    def _answer(self, **member: Any) -> list[Step]:
        asked = [json.loads(step.line) for step in filter_steps(self.steps, SendLine)]
        number = [line["id"] for line in asked if "method" in line and "id" in line][-1]
        return self._hear({"id": number, **member})

    def _hear(self, line: dict[str, Any]) -> list[Step]:
        steps = list(self.talk.on_line(json.dumps({"jsonrpc": "2.0", **line}).encode()))
        self.steps += steps
        return steps


def make_conversation(**more: Any) -> AcpConversation:
    return AcpConversation(TurnRequest(1, "Do it.", **more), WorkspaceBounds(WORKSPACE))


def start_prompt(able: Any = ABLE, config: Any = (), name: str = "a", **more: Any) -> Agent:
    """Return an agent that was just given the prompt, in session ``s``."""
    made = Agent(make_conversation(**more))
    made.answer({"protocolVersion": 1, "agentCapabilities": able, "agentInfo": {"name": name}})
    made.answer({"sessionId": "s", "configOptions": list(config)})
    return made


def test_the_servers_that_opencode_cannot_use_are_told_by_their_names_and_no_others() -> None:
    handed = tuple(ReadyServer(name, ("tea",)) for name in ("works", "gone", "closed", "new"))
    agent = Agent(AcpConversation(TurnRequest(1, "Do it."), WorkspaceBounds(WORKSPACE), handed))
    states = {
        "works": {"status": "connected"},
        "gone": {"status": "failed", "error": "Not found"},
        "closed": {"status": "needs_auth"},
        "own": {"status": "failed", "error": "of the person's own settings"},
    }
    told = filter_steps(
        agent._hear({"method": "_agentd/servers", "params": {"servers": states}}), ToolUsed
    )
    assert [(one.name, one.input, one.outcome, one.ok) for one in told] == [
        ("mcp", "gone", "failed: Not found", False),
        ("mcp", "closed", "failed: needs_auth", False),
    ]
    for broken in (None, [], {"servers": None}, {"servers": {"gone": 7}}):
        assert not agent._hear({"method": "_agentd/servers", "params": broken})


def make_engine_state(session: str = "s", cost: str = "0", instructions: str = "") -> str:
    made = start_prompt(instructions=instructions)
    [kept] = filter_steps(made.steps, EngineStateSaved)
    return json.dumps({**json.loads(kept.engine_state), "session": session, "cost": cost})


def test_a_call_that_was_reported_is_not_reported_again_after_a_kill() -> None:
    """A session's cost, which opencode tells at a turn's end, includes a turn that a kill ended."""
    killed = start_prompt()
    killed.tell_call("1", 0.25)
    killed.tell_call("2", 0.5, session="a sub-agent's")
    [reported] = filter_steps(killed.tell_call("3", 0.125), UsageReported)
    assert json.loads(reported.engine_state)["cost"] == "0.375"
    made = Agent(make_conversation(engine_state=reported.engine_state))
    made.answer({"protocolVersion": 1, "agentCapabilities": ABLE, "agentInfo": {"name": "a"}})
    made.answer({})
    made.tell_call("4", 1)
    made.tell("usage_update", cost={"amount": 1.375, "currency": "USD"})
    made.answer({"stopReason": "end_turn"})
    spent = [one.cost for one in filter_steps(made.steps, UsageReported) if one.cost]
    assert spent == [Decimal(1)]


def read_prompt(steps: list[Step]) -> str:
    [given] = read_sent_params(steps, "session/prompt")
    text: str = given["prompt"][0]["text"]
    return text


def test_chunks_become_whole_replies_between_the_tools() -> None:
    made = start_prompt()
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
    assert [
        step for step in filter_reported(made.steps) if not isinstance(step, EngineStateSaved)
    ] == [
        ReplyCompleted("I will look."),
        ToolStarted("read", "a.txt"),
        ToolUsed("read", "a.txt", "one"),
        ReplyCompleted("Done.", Usage(input=3), Decimal("0.5")),
    ]
    assert (
        "".join(step.text for step in filter_steps(made.steps, ReplyDelta)) == "I will look.Done."
    )
    assert made.steps[-1] == TurnDone()
    assert json.loads(filter_steps(made.steps, EngineStateSaved)[-1].engine_state)["cost"] == "0.5"


def test_the_cost_may_come_a_moment_after_the_answer() -> None:
    made = start_prompt()
    made.say("Done.")
    assert made.answer({"stopReason": "end_turn"}) == [AwaitLateOutput(LATE)]
    steps = made.tell("usage_update", cost={"amount": 0.5, "currency": "USD"})
    assert ReplyCompleted("Done.", cost=Decimal("0.5")) in steps and steps[-1] == TurnDone()
    assert not list(made.talk.on_exit())


def test_an_agent_that_shows_no_cost_is_not_waited_for_without_end() -> None:
    made = start_prompt()
    made.say("Done.")
    assert awaits_late_output(made.answer({"stopReason": "end_turn", "usage": {"outputTokens": 4}}))
    assert list(made.talk.on_exit()) == [ReplyCompleted("Done.", Usage(output=4))]


def test_a_program_that_dies_leaves_what_it_had_said() -> None:
    made = start_prompt()
    made.say("Half of")
    made.tell("tool_call", toolCallId="t", title="x", kind="execute", status="in_progress")
    made.say("the other", "n")
    assert list(made.talk.on_exit()) == [
        ReplyCompleted("the other"),
        ToolUsed("shell", "x", "Interrupted.", ok=False),
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
    made = start_prompt(able, engine_state=make_engine_state())
    assert read_sent_params(made.steps, method)
    assert len(read_sent_params(made.steps, "session/prompt")) == 1


def test_the_replay_of_a_loaded_session_is_not_reported_again() -> None:
    made = Agent(make_conversation(engine_state=make_engine_state(cost="0.2")))
    made.answer({"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    made.say("Told long ago.")
    made.tell("tool_call", toolCallId="t", title="x", kind="read", status="completed")
    made.tell("usage_update", cost={"amount": 0.3, "currency": "USD"})
    assert not filter_reported(made.steps)
    made.answer({})
    made.tell("usage_update", cost={"amount": 0.31, "currency": "USD"})
    made.answer({"stopReason": "end_turn"})
    assert sum_cost(made.steps) == Decimal("0.01")


def test_a_session_that_is_gone_is_restarted_with_what_went_before() -> None:
    history = (Message(1, "user", "The answer is 42.", ""),)
    made = Agent(make_conversation(engine_state=make_engine_state("gone"), history=history))
    made.answer({"protocolVersion": 1, "agentCapabilities": ABLE})
    made.refuse(-32603, "Internal error")
    assert read_sent_params(made.steps, "session/load") and not read_sent_params(
        made.steps, "session/new"
    )
    made.refuse(-32603, "Internal error")
    assert ToolUsed("session", "resume gone", LOST, ok=False) in made.steps
    made.answer({"sessionId": "s"})
    assert "The answer is 42." in read_prompt(made.steps)


def test_a_session_that_goes_on_is_shown_what_other_engines_did_since() -> None:
    missed = (Message(4, "assistant", "It is x.", ""),)
    told = read_prompt(
        start_prompt(ABLE, engine_state=make_engine_state(), history=missed, missed=missed).steps
    )
    assert "It is x." in told and told.endswith("Do it.")


def test_instructions_stand_before_the_first_prompt_and_again_when_changed() -> None:
    assert "Be terse." in read_prompt(start_prompt(instructions="Be terse.").steps)
    kept = make_engine_state(instructions="Be terse.")
    assert read_prompt(start_prompt(engine_state=kept, instructions="Be terse.").steps) == "Do it."
    assert "Be kind." in read_prompt(start_prompt(engine_state=kept, instructions="Be kind.").steps)


def test_a_session_is_kept_from_its_first_prompt_on() -> None:
    """One that was opened in vain knows neither the history nor its instructions."""
    for made in (
        start_prompt(config=CONFIG, model="none", instructions="Be terse."),
        start_prompt(config=CONFIG, model="large", instructions="Be terse."),
    ):
        assert not read_sent_params(made.steps, "session/prompt")
        assert filter_steps(made.steps, EngineStateSaved) == []


def test_a_prompt_that_a_limit_interrupted_is_not_given_twice() -> None:
    assert (
        read_prompt(start_prompt(engine_state=make_engine_state(), is_retry=True).steps)
        == CONTINUE_PROMPT
    )
    assert read_prompt(start_prompt(is_retry=True).steps) == "Do it."


def test_model_and_effort_are_set_where_they_are_offered() -> None:
    made = start_prompt(config=CONFIG, model="large", effort="high")
    assert not read_sent_params(made.steps, "session/prompt")
    made.answer({})
    made.answer({})
    assert [(one["configId"], one["value"]) for one in read_sent_params(made.steps, OPTION)] == [
        ("model", "agentd/large"),
        ("effort", "high"),
    ]
    assert read_sent_params(made.steps, "session/prompt")
    assert read_sent_params(start_prompt(config=CONFIG, model="small").steps, "session/prompt")


OPTION = "session/set_config_option"


MODES = {
    "currentModeId": "build",
    "availableModes": [{"id": "build", "name": "Build"}, {"id": "plan", "description": "Thinks."}],
}
MODE_OPTION = {
    "id": "session-mode",
    "category": "mode",
    "currentValue": "build",
    "options": [{"value": "build", "name": "Build"}, {"value": "plan", "description": "Thinks."}],
}
LISTED = ModesListed((ProgramMode("build", "Build", ""), ProgramMode("plan", "plan", "Thinks.")))


def open_session(session: dict[str, Any], **more: Any) -> Agent:
    """Return an agent that opened this session."""
    made = Agent(make_conversation(**more))
    made.answer({"protocolVersion": 1, "agentCapabilities": ABLE})
    made.answer({"sessionId": "s", **session})
    return made


def test_a_mode_is_set_before_the_prompt_and_the_usual_one_again_once_none_is_chosen() -> None:
    made = open_session({"modes": MODES}, mode="plan")
    assert filter_steps(made.steps, ModesListed) == [LISTED]
    assert read_sent_params(made.steps, "session/set_mode") == [
        {"sessionId": "s", "modeId": "plan"}
    ]
    assert not read_sent_params(made.steps, "session/prompt")
    made.answer({})
    assert read_prompt(made.steps) == "Do it."
    [kept] = filter_steps(made.steps, EngineStateSaved)

    planned = {"modes": {**MODES, "currentModeId": "plan"}}
    again = open_session(planned, mode="plan", engine_state=kept.engine_state)
    assert not read_sent_params(again.steps, "session/set_mode")
    back = open_session(planned, engine_state=kept.engine_state)
    assert read_sent_params(back.steps, "session/set_mode") == [
        {"sessionId": "s", "modeId": "build"}
    ]
    assert not read_sent_params(open_session({"modes": MODES}).steps, "session/set_mode")


def test_an_agent_that_plans_changes_files_only_once_it_says_that_its_mode_is_another() -> None:
    made = open_session({"modes": MODES}, mode="plan")
    made.answer({})
    edit = {"toolCallId": "t", "kind": "edit", "locations": [{"path": f"{WORKSPACE}/a.py"}]}
    [ask] = filter_steps(made.ask(0, ASKING, toolCall=edit, options=[]), AskApproval)
    assert ask.question.refusal == ONLY_PLANS
    made.tell("current_mode_update", currentModeId="build")
    [ask] = filter_steps(made.ask(1, ASKING, toolCall=edit, options=[]), AskApproval)
    assert not ask.question.refusal


def test_a_mode_that_is_an_option_of_the_session_is_set_as_one() -> None:
    session = {"configOptions": [*CONFIG, MODE_OPTION], "modes": MODES}
    made = open_session(session, mode="plan", model="small")
    assert filter_steps(made.steps, ModesListed) == [LISTED]
    made.answer({})
    assert [(one["configId"], one["value"]) for one in read_sent_params(made.steps, OPTION)] == [
        ("session-mode", "plan")
    ]
    assert not read_sent_params(made.steps, "session/set_mode")
    assert read_prompt(made.steps) == "Do it."


@pytest.mark.parametrize(
    ("session", "offers"),
    [({"modes": MODES}, "build, plan"), ({}, "none"), ({"modes": {"availableModes": 7}}, "none")],
)
def test_a_mode_that_is_not_offered_is_a_clear_failure(session: Any, offers: str) -> None:
    made = open_session(session, mode="dream")
    [failed] = filter_steps(made.steps, TurnFailed)
    assert failed.reason == f"The agent has no mode 'dream'; it offers {offers}."
    assert made.steps[-1] == TurnDone()
    assert not read_sent_params(made.steps, "session/prompt")


def test_a_model_that_is_not_offered_is_not_replaced_by_another() -> None:
    made = start_prompt(config=CONFIG, model="huge")
    [failed] = filter_steps(made.steps, TurnFailed)
    assert "huge" in failed.reason and "small" in failed.reason
    assert made.steps[-1] == TurnDone()


def test_another_version_of_the_protocol_is_a_clear_failure() -> None:
    made = Agent(make_conversation())
    made.answer({"protocolVersion": 2})
    [failed] = filter_steps(made.steps, TurnFailed)
    assert "version 2" in failed.reason


def test_an_agent_that_is_not_signed_in_says_how() -> None:
    made = Agent(make_conversation())
    ways = [{"id": "x", "name": "Login", "description": "Run `opencode auth login`"}]
    made.answer({"protocolVersion": 1, "authMethods": ways})
    steps = made.refuse(-32000, "Authentication required")
    [failed] = filter_steps(steps, TurnFailed)
    assert "Run `opencode auth login`" in failed.reason


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ('{"error":{"code":400,"message":"No such model","status":"INVALID"}}', "No such model"),
        ('{"error":"odd"}', '{"error":"odd"}'),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["wrapped", "other", "nested"],
)
def test_the_error_of_a_supplier_is_told_without_its_json(told: str, reason: str) -> None:
    made = start_prompt()
    [failed] = filter_steps(made.refuse(-32603, told), TurnFailed)
    assert failed.reason == f"The agent: {reason}"


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
    made = start_prompt()
    steps = made.ask(0, ASKING, toolCall={"toolCallId": "t", **call}, options=[])
    [ask] = filter_steps(steps, AskApproval)
    assert ask.question == question


@pytest.mark.parametrize("servers", [[], [ReadyServer("tea", ("tea",))]], ids=["none", "tea"])
def test_a_session_with_servers_is_opened_once_they_have_started(
    servers: list[ReadyServer],
) -> None:
    """codex-acp waits only if it is told to; else the model's first calls know no tool of them."""
    made = Agent(AcpConversation(TurnRequest(1, "Do it."), WorkspaceBounds(WORKSPACE), servers))
    made.answer({"protocolVersion": 1, "agentCapabilities": ABLE, "agentInfo": {"name": "a"}})
    [given] = read_sent_params(made.steps, "session/new")
    assert [one["name"] for one in given["mcpServers"]] == [one.name for one in servers]
    wait = given.get("_meta", {}).get("mcpStartupAwaitTimeoutMs", 0)
    assert (wait > 1000) == bool(servers)


@pytest.mark.parametrize(
    ("title", "kind", "tool"),
    [
        ("tea_pick", "other", "mcp__tea__pick"),
        ("tea_bags_pick", "other", "mcp__tea_bags__pick"),
        ("teapot", "other", "teapot"),
        ("coffee_pick", "other", "coffee_pick"),
        ("tea_pick", "execute", "shell"),
    ],
)
def test_a_tool_of_a_server_that_the_agent_was_handed_has_the_name_that_rules_have_for_it(
    title: str, kind: str, tool: str
) -> None:
    servers = [ReadyServer("tea", ("tea",)), ReadyServer("tea_bags", ("tea",))]
    made = Agent(AcpConversation(TurnRequest(1, "Do it."), WorkspaceBounds(WORKSPACE), servers))
    made.answer({"protocolVersion": 1, "agentCapabilities": ABLE, "agentInfo": {"name": "a"}})
    made.answer({"sessionId": "s", "configOptions": []})
    call = {"toolCallId": "t", "kind": kind, "title": title}
    [ask] = filter_steps(made.ask(0, ASKING, toolCall=call, options=[]), AskApproval)
    assert ask.question.tool == tool


@pytest.mark.parametrize(
    ("title", "given", "question"),
    [
        (
            "mcp.tea.pick",
            {"server": "tea", "tool": "pick", "arguments": {"kind": "mint"}},
            Question("other", "mcp__tea__pick", '{"kind":"mint"}'),
        ),
        ("mcp.tea.pick", {"command": "mcp.tea.pick"}, Question("shell", "shell", "mcp.tea.pick")),
        ("rm -r .", {"server": "tea", "tool": "pick"}, Question("shell", "shell", "rm -r .")),
    ],
)
def test_a_tool_of_a_server_that_is_told_as_a_command_is_asked_about_as_a_tool(
    title: str, given: dict[str, Any], question: Question
) -> None:
    call = {"toolCallId": "t", "kind": "execute", "title": title, "rawInput": given}
    steps = start_prompt().ask(0, ASKING, toolCall=call, options=[])
    [ask] = filter_steps(steps, AskApproval)
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
        (ApprovalAnswer(allowed=True), OPTIONS, "once"),
        (ApprovalAnswer(allowed=True, session=True), OPTIONS, "once"),
        (ApprovalAnswer(allowed=True), OPTIONS[:1], "always"),
        (ApprovalAnswer(allowed=False), OPTIONS, "no"),
        (ApprovalAnswer(allowed=False), OPTIONS[:2], ""),
        (ApprovalAnswer(allowed=True), [], ""),
    ],
)
def test_leave_is_given_once_each_time(answer: ApprovalAnswer, options: Any, chosen: str) -> None:
    made = start_prompt()
    [ask] = filter_steps(
        made.ask(0, ASKING, toolCall={"toolCallId": "t"}, options=options), AskApproval
    )
    [outcome] = read_sent_results(made.talk.on_decision(ask.id, answer))
    selected = {"outcome": "selected", "optionId": chosen}
    assert outcome["outcome"] == (selected if chosen else {"outcome": "cancelled"})


def test_files_and_terminals_are_refused_and_what_nobody_is_asked_dismissed() -> None:
    made = start_prompt()
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "x/y"):
        [step] = filter_steps(made.ask(5, method), SendLine)
        assert json.loads(step.line)["error"]["code"] == -32601
    dismissed = [{"action": "cancel"}]
    assert read_sent_results(made.ask(6, "elicitation/create", mode="url")) == dismissed
    two = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert read_sent_results(made.ask(7, "elicitation/create", requestedSchema=two)) == dismissed


@pytest.mark.parametrize(
    ("field", "choices", "said", "content"),
    [
        ({"type": "string"}, (), "Anna", "Anna"),
        ({"type": "string", "enum": ["a", "b"]}, ("a", "b"), "b", "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "Ay"}]}, ("Ay",), "Ay", "a"),
        ({"type": "integer"}, (), "3", 3),
        ({"type": "boolean"}, ("Yes", "No"), "No", False),
        ({"type": "integer"}, (), "three", None),
        ({"type": "string", "enum": ["a", "b"]}, ("a", "b"), "c", None),
    ],
)
def test_a_form_of_one_field_is_a_question_to_the_person(
    field: Any, choices: tuple[str, ...], said: str, content: object
) -> None:
    made = start_prompt()
    schema = {"type": "object", "properties": {"it": field}}
    given = {"mode": "form", "message": "Which?", "requestedSchema": schema}
    [ask] = filter_steps(made.ask(6, "elicitation/create", **given), AskApproval)
    assert ask.question == Question("question", "ask", "Which?", choices=choices)
    answered = ApprovalAnswer(True, reason=said, note=said, by_person=True)
    filled = {"action": "cancel"} if content is None else None
    assert read_sent_results(made.talk.on_decision(ask.id, answered)) == [
        filled or {"action": "accept", "content": {"it": content}}
    ]
    told = made.answer({"stopReason": "end_turn"})
    assert read_sent_params(told, "session/prompt") == []  # nothing is told a second time


def test_a_form_that_nobody_fills_in_is_declined_and_one_is_cancelled_by_a_stop() -> None:
    made = start_prompt()
    given = {"message": "Which?", "requestedSchema": {"properties": {"it": {"type": "string"}}}}
    [ask] = filter_steps(made.ask(6, "elicitation/create", **given), AskApproval)
    denied = made.talk.on_decision(ask.id, ApprovalAnswer(False, reason="Nobody."))
    assert read_sent_results(denied) == [{"action": "decline"}]
    made.ask(7, "elicitation/create", **given)
    assert read_sent_results(list(made.talk.stop())) == [{"action": "cancel"}]


def test_a_stop_cancels_what_is_open_and_the_prompt() -> None:
    made = start_prompt()
    [ask] = filter_steps(
        made.ask(0, ASKING, toolCall={"toolCallId": "t"}, options=OPTIONS), AskApproval
    )
    steps = list(made.talk.stop())
    assert QuestionCancelled(ask.id) in steps
    assert read_sent_results(steps) == [{"outcome": {"outcome": "cancelled"}}]
    assert read_sent_params(steps, "session/cancel") == [{"sessionId": "s"}]
    assert not list(made.talk.on_decision(ask.id, ApprovalAnswer(allowed=True)))
    later = made.ask(1, ASKING, toolCall={"toolCallId": "u"}, options=OPTIONS)
    assert read_sent_results(later) == [{"outcome": {"outcome": "cancelled"}}]
    assert made.answer({"stopReason": "cancelled"}) == [TurnDone()]


@pytest.mark.parametrize("name", ["OpenCode", "claude-agent-acp"])
def test_a_stopped_turn_shows_its_cost_and_remembers_it(name: str) -> None:
    made = start_prompt(name=name)
    list(made.talk.stop())
    made.tell("usage_update", cost={"amount": 0.5, "currency": "USD"})
    steps = made.answer({"stopReason": "cancelled", "usage": {"inputTokens": 5}})
    assert filter_steps(steps, UsageReported) == [UsageReported(Usage(input=5), Decimal("0.5"))]
    assert parse_state(filter_steps(steps, EngineStateSaved)[-1].engine_state).cost == Decimal(
        "0.5"
    )


@pytest.mark.parametrize("name", ["OpenCode", "@agentclientprotocol/claude-agent-acp"])
def test_a_resumed_session_costs_what_its_turn_adds(name: str) -> None:
    """The amounts are those that claude-agent-acp 0.101 told of a session in two processes."""
    made = Agent(make_conversation(engine_state=make_engine_state(cost="0.00196")))
    about = {"agentCapabilities": ABLE, "agentInfo": {"name": name}}
    made.answer({"protocolVersion": 1, **about})
    made.answer({})
    made.say("As I said.")
    made.tell("usage_update", used=1020, size=1_000_000)
    made.tell("usage_update", cost={"amount": 0.00308, "currency": "USD"})
    used = {"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 900, "totalTokens": 1020}
    steps = made.answer({"stopReason": "end_turn", "usage": used})
    expected = Usage(input=100, cache_read=900, output=20)
    assert filter_steps(steps, ReplyCompleted) == [
        ReplyCompleted("As I said.", expected, Decimal("0.00112"))
    ]


def test_a_stop_before_the_prompt_ends_the_turn() -> None:
    made = Agent(make_conversation())
    assert list(made.talk.stop()) == [TurnDone()]


def test_a_request_that_the_agent_takes_back_is_withdrawn() -> None:
    made = start_prompt()
    [ask] = filter_steps(
        made.ask(3, ASKING, toolCall={"toolCallId": "t"}, options=OPTIONS), AskApproval
    )
    line = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}'
    assert QuestionCancelled(ask.id) in list(made.talk.on_line(line))


@pytest.mark.parametrize(
    ("reason", "word"),
    [("max_tokens", "cut off"), ("max_turn_requests", "stopped"), ("refusal", "refused")],
)
def test_a_turn_that_ended_too_early_says_why(reason: str, word: str) -> None:
    made = start_prompt()
    made.say("Half")
    made.tell("usage_update", cost={"amount": 1, "currency": "USD"})
    steps = filter_reported(made.answer({"stopReason": reason}))
    assert ReplyCompleted("Half", cost=Decimal(1)) in steps
    [failed] = filter_steps(steps, TurnFailed)
    assert word in failed.reason


@pytest.mark.parametrize(
    "message", ["You've hit your limit · resets 3am", "429 Too Many Requests", "Rate-limit reached"]
)
def test_a_limit_is_no_failure(message: str) -> None:
    made = start_prompt()
    assert made.refuse(-32603, message)[-2:] == [RateLimited(message), TurnDone()]


def test_an_error_is_reported() -> None:
    made = start_prompt()
    made.say("I tr")
    steps = made.refuse(-32603, "Internal error: oh dear")
    assert steps == [
        ReplyCompleted("I tr"),
        TurnFailed("The agent: Internal error: oh dear"),
        TurnDone(),
    ]


def test_what_was_used_without_a_reply_is_recorded() -> None:
    made = start_prompt()
    made.tell("usage_update", cost={"amount": 1, "currency": "USD"})
    steps = made.answer({"stopReason": "cancelled", "usage": {"inputTokens": 5}})
    assert UsageReported(Usage(input=5), Decimal(1)) in steps


def test_opencode_is_reported_as_it_was_recorded() -> None:
    steps = replay(make_conversation(), read_received_lines("opencode-tools"))
    names = [step.name for step in filter_steps(steps, ToolUsed)]
    assert {"shell", "edit"} <= set(names)
    assert {ask.question.kind for ask in filter_steps(steps, AskApproval)} == {"shell", "write"}
    assert filter_steps(steps, ReplyCompleted)[-1].cost
    assert steps[-1] == TurnDone()


def test_opencode_goes_on_when_it_is_not_allowed() -> None:
    steps = replay(make_conversation(), read_received_lines("opencode-rejected"), deny)
    assert filter_steps(steps, AskApproval)
    assert all(answer["outcome"]["optionId"] == "reject" for answer in read_sent_results(steps))


def deny_permission(made: Agent, number: int, subject: str, note: str) -> None:
    """Have the agent ask for permission, and deny it."""
    call = {"toolCallId": f"t{number}", "kind": "execute", "rawInput": {"command": subject}}
    steps = made.ask(number, ASKING, toolCall=call, options=OPTIONS)
    made.steps += made.talk.on_decision(
        filter_steps(steps, AskApproval)[0].id, ApprovalAnswer(allowed=False, reason=note)
    )


def test_a_turn_that_the_agent_ends_at_a_no_goes_on_with_the_note() -> None:
    made = start_prompt()
    deny_permission(made, 1, "rm notes.txt", "Keep the notes.")
    steps = made.answer({"stopReason": "end_turn", "usage": {"inputTokens": 5}})
    assert "rm notes.txt" in read_prompt(steps) and "Keep the notes." in read_prompt(steps)
    assert TurnDone() not in steps
    made.say("I leave it.")
    made.tell("usage_update", cost={"amount": 1, "currency": "USD"})
    steps = made.answer({"stopReason": "end_turn", "usage": {"inputTokens": 7}})
    assert filter_steps(steps, ReplyCompleted) == [
        ReplyCompleted("I leave it.", Usage(input=12), Decimal(1))
    ]
    assert steps[-1] == TurnDone()


def test_an_agent_that_goes_on_after_a_no_is_not_reminded() -> None:
    made = start_prompt()
    deny_permission(made, 1, "rm notes.txt", "No.")
    made.say("Then I leave it.")
    made.answer({"stopReason": "end_turn"})
    assert len(read_sent_params(made.steps, "session/prompt")) == 1


@pytest.mark.parametrize(("allowed", "verb"), [(True, "allowed"), (False, "did not allow")])
def test_an_agent_that_goes_on_is_told_at_the_end_what_the_person_said(
    allowed: bool, verb: str
) -> None:
    made = start_prompt()
    call = {"toolCallId": "t1", "kind": "execute", "rawInput": {"command": "rm notes.txt"}}
    asked = filter_steps(made.ask(1, ASKING, toolCall=call, options=OPTIONS), AskApproval)[0]
    note = "The old ones only."
    made.steps += made.talk.on_decision(asked.id, ApprovalAnswer(allowed, reason=note, note=note))
    made.say("I go on.")
    steps = made.answer({"stopReason": "end_turn"})
    told = f"[The person {verb} this and says: The old ones only.]\n\nrm notes.txt"
    assert read_prompt(steps) == told
    made.say("I see.")
    made.answer({"stopReason": "end_turn"})
    assert len(read_sent_params(made.steps, "session/prompt")) == 2


def test_an_agent_that_ends_at_every_no_is_reminded_a_few_times() -> None:
    made = start_prompt()
    for number in range(20):
        deny_permission(made, number, "rm notes.txt", "No.")
        made.answer({"stopReason": "end_turn"})
        if made.steps[-1] == AwaitLateOutput(LATE):
            break
    assert len(read_sent_params(made.steps, "session/prompt")) == 1 + MOST_REMINDERS


def test_a_stopped_turn_is_not_taken_up_again_after_a_no() -> None:
    made = start_prompt()
    deny_permission(made, 1, "rm notes.txt", "No.")
    list(made.talk.stop())
    assert made.answer({"stopReason": "cancelled"})[-1] == TurnDone()


MODELS = {"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "big"}]}


@pytest.mark.parametrize(
    ("wanted", "given"), [("big", [{"sessionId": "s", "modelId": "big"}]), ("small", []), ("", [])]
)
def test_a_model_that_is_listed_beside_the_session_is_set_before_the_prompt(
    wanted: str, given: list[Any]
) -> None:
    made = Agent(make_conversation(model=wanted))
    made.answer({"protocolVersion": 1})
    made.answer({"sessionId": "s", "models": MODELS})
    assert read_sent_params(made.steps, "session/set_model") == given
    if given:
        assert not read_sent_params(made.steps, "session/prompt")
        made.answer({})
    assert read_sent_params(made.steps, "session/prompt")


def test_a_model_that_is_not_listed_beside_the_session_is_reported() -> None:
    made = Agent(make_conversation(model="huge"))
    made.answer({"protocolVersion": 1})
    [failed] = filter_steps(made.answer({"sessionId": "s", "models": MODELS}), TurnFailed)
    assert "no model 'huge'; it offers small, big" in failed.reason


@st.composite
def disturbed_runs(draw: st.DrawFn) -> tuple[str, int, list[bytes]]:
    """A recorded run with some of its lines cut, lost, doubled or broken."""
    name = draw(st.sampled_from(NAMES))
    number = draw(st.integers(0, len(read_runs(name)) - 1))
    lines = read_received_lines(name, number)
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


@given(disturbed_runs())
def test_whatever_the_lines_nothing_raises_and_nothing_is_recorded_twice(
    run: tuple[str, int, list[bytes]],
) -> None:
    name, number, lines = run
    reports = [line for line in read_received_lines(name, number) if b"usage_update" in line]
    amounts = [json.loads(line)["params"]["update"]["cost"]["amount"] for line in reports]
    kept = make_engine_state("ses_earlier") if number else ""
    steps = replay(make_conversation(engine_state=kept), lines)
    assert sum_cost(steps) <= Decimal(str(max(amounts, default=0))) + Decimal("1e-9")
    assert steps.count(TurnDone()) <= 1


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_values_of_other_types_than_expected_are_passed_over(value: Any) -> None:
    made = start_prompt()
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
    list(made.talk.on_line(line.encode()))
    made.answer(value)
    list(made.talk.on_exit())


REFUSED = (
    'timestamp=2026-11-22T19:09:04.607Z level=ERROR run=345f3070 message="stream error"'
    ' providerID=agentd modelID=m session.id=s small=false error.error="AI_APICallError: %s"\n'
)


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (REFUSED % "Later.", "Later."),
        (REFUSED % "Rate limit" * 2, "Rate limit"),
        ("warned\n" + REFUSED % 'Say \\"please\\".', 'Say \\"please\\".'),
        (REFUSED % "It never resets." * 2, "It never resets."),
        (REFUSED % "Cannot connect" * 2, ""),
        ("", ""),
        ('message="stream error" providerID=agentd\n', ""),
        ("The stream error is unknown.", ""),
    ],
)
def test_opencodes_log_shows_that_it_waits_for_its_supplier(errors: str, said: str) -> None:
    """After several refusals that are no limits, the supplier is out of order."""
    expected = RateLimited(f"{WAITS} {said}") if said else None
    assert make_conversation().explain_silence(errors) == expected


def test_thoughts_are_told_as_they_grow_and_are_no_part_of_the_reply() -> None:
    made = start_prompt()
    made.tell("agent_thought_chunk", content={"type": "text", "text": "Which "})
    made.tell("agent_thought_chunk", content={"type": "text", "text": "file?"})
    made.say("That one.")
    made.answer({"stopReason": "end_turn", "usage": {"inputTokens": 3, "totalTokens": 3}})
    made.steps += made.talk.on_exit()
    thought = [step.text for step in filter_steps(made.steps, ThinkingProgress)]
    assert thought == ["Which ", "file?"]
    assert [step.text for step in filter_steps(made.steps, ReplyCompleted)] == ["That one."]


@pytest.mark.parametrize("able", [True, False])
def test_images_go_to_agents_that_take_them(able: bool) -> None:
    capabilities = {**ABLE, "promptCapabilities": {"image": able}}
    made = start_prompt(capabilities, images=(ImagePart("image/png", "aWk="),))
    (given,) = read_sent_params(made.steps, "session/prompt")
    image = {"type": "image", "mimeType": "image/png", "data": "aWk="}
    assert given["prompt"] == [{"type": "text", "text": "Do it."}, *([image] if able else [])]
