"""Tools of MCP servers in turns of the native engine: real servers, a scripted model."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.approval_rules import ApprovalPolicy, ApprovalRule, decide
from agentd.agent.engine import ApprovalAnswer, EngineEvent, Question, ToolStarted, ToolUsed
from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.agent.mcp_servers.toolset import LIST_RESOURCES
from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.agent.workspace_decisions import open_server_decisions
from agentd.chats.approval import Approval
from agentd.core.errors import ConfigError, Forbidden, Unavailable
from agentd.storage.layout import Layout
from tests.agent.engines.native.scene import Person, Scene, list_used_tools
from tests.agent.served import find_marked
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.waiting import until

pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-W", "ignore", str(HERE / "sdk_server.py"), "stdio"]


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as it:
        yield it


@pytest.fixture
def scene(tmp_path: Path, supplier: Supplier) -> Scene:
    root = tmp_path / "work"
    (root / "state").mkdir(parents=True)
    (root / ".git").mkdir()
    return Scene(root, supplier)


def write_settings(layout: Layout, *servers: dict[str, Any]) -> None:
    """Write ``mcp.yml`` with these servers."""
    Path(layout.config).mkdir(mode=0o700)
    path = Path(layout.mcp_settings)
    path.write_text(json.dumps({"servers": servers}))
    path.chmod(0o600)


def run(scene: Scene, *servers: dict[str, Any]) -> list[EngineEvent]:
    """Run a turn with these servers in ``mcp.yml``."""
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    write_settings(layout, *servers)

    async def run_turn() -> list[EngineEvent]:
        directory = McpDirectory(layout, {}, "")
        scene.open_mcp = partial(directory.open_turn, str(scene.root))
        try:
            return await scene.collect_events()
        finally:
            await directory.close()

    return asyncio.run(run_turn())


def list_offered(supplier: Supplier, number: int = 0) -> list[str]:
    """Return the names of the tools that a request offers."""
    return [tool["function"]["name"] for tool in supplier.requests[number].body["tools"]]


TEA = {"name": "tea", "command": COMMAND}


def test_a_tool_is_offered_asked_about_and_called(scene: Scene, supplier: Supplier) -> None:
    supplier.script([Say("I add."), Call("mcp__tea__add", {"a": 2, "b": 40})], Say("It is 42."))
    told = run(scene, TEA)
    offered = {
        one["function"]["name"]: one["function"] for one in supplier.requests[0].body["tools"]
    }
    assert set(offered["mcp__tea__add"]["parameters"]["properties"]) == {"a", "b"}
    assert {"read_file", "mcp__tea__fail", "list_mcp_resources", "read_mcp_resource"} <= set(
        offered
    )
    (question,) = scene.person.asked
    assert (question.kind, question.tool) == ("other", "mcp__tea__add")
    assert question.subject == '{"a":2,"b":40}' and question.reason == "I add."
    assert not question.granted
    assert list_used_tools(told) == [("mcp__tea__add", "42")]
    assert supplier.requests[1].body["messages"][-1]["content"] == "42"


def test_an_argument_whose_name_suppliers_refuse_has_another_one_for_the_model_alone(
    scene: Scene, supplier: Supplier
) -> None:
    supplier.script([Call("mcp__shop__find", {"_filter": "green", "top": 3})], Say("Found."))
    shop = {"name": "shop", "command": [sys.executable, str(HERE / "asking_server.py")]}
    told = run(scene, shop)
    (find,) = (
        one["function"]["parameters"]
        for one in supplier.requests[0].body["tools"]
        if one["function"]["name"] == "mcp__shop__find"
    )
    assert (set(find["properties"]), find["required"]) == ({"_filter", "top"}, ["_filter"])
    assert scene.person.asked[0].subject == '{"$filter":"green","top":3}'
    assert list_used_tools(told) == [("mcp__shop__find", '{"$filter": "green", "top": 3}')]


def test_what_a_person_denies_is_not_called_and_told(scene: Scene, supplier: Supplier) -> None:
    scene.person = Person("other")
    supplier.script([Call("mcp__tea__die", {})], Say("Then not."))
    told = run(scene, TEA)
    (use,) = [event for event in told if isinstance(event, ToolUsed)]
    assert not use.ok and "Not while I am at lunch" in use.outcome
    assert "not allowed" in supplier.requests[1].body["messages"][-1]["content"]


def test_a_form_that_one_answer_is_not_enough_for_is_dismissed_not_declined(
    scene: Scene, supplier: Supplier
) -> None:
    supplier.script(Call("mcp__tea__steep", {}), Say("Nobody was asked."))
    assert list_used_tools(run(scene, TEA)) == [("mcp__tea__steep", "cancel")]
    assert [one.kind for one in scene.person.asked] == ["other"]


def test_the_settings_of_a_server_allow_tools(scene: Scene, supplier: Supplier) -> None:
    calls = [Call("mcp__tea__add", {"a": 1, "b": 1}), Call("mcp__tea__environment", {"name": "X"})]
    supplier.script([*calls, Call("mcp__tea__where", {})], Say("Done."))
    run(scene, {**TEA, "allow_reading": True, "allow": ["env*"]})
    assert [(one.tool, one.granted) for one in scene.person.asked] == [
        ("mcp__tea__add", True),
        ("mcp__tea__environment", True),
        ("mcp__tea__where", False),
    ]


def test_only_reading_tools_that_are_allowed_run_beside_others(
    scene: Scene, supplier: Supplier
) -> None:
    supplier.script(
        [Call("mcp__tea__add", {"a": 1, "b": 1}), Call("mcp__tea__add", {"a": 2, "b": 2})],
        [Call("mcp__tea__where", {}), Call("mcp__tea__where", {})],
        Say("Done."),
    )
    told = run(scene, {**TEA, "allow_reading": True})
    order = [type(one).__name__ for one in told if isinstance(one, ToolStarted | ToolUsed)]
    beside = ["ToolStarted", "ToolStarted", "ToolUsed", "ToolUsed"]
    in_turn = ["ToolStarted", "ToolUsed", "ToolStarted", "ToolUsed"]
    assert order == beside + in_turn


def test_a_rule_goes_before_what_the_settings_of_a_server_allow() -> None:
    question = Question("other", "mcp__tea__add", "{}", granted=True)
    denied = ApprovalPolicy("ask", (ApprovalRule("deny", tool="mcp__tea__*"),))
    assert decide(question, denied, "", ()) == "deny"
    assert decide(question, ApprovalPolicy("ask"), "", ()) == "allow"
    assert decide(Question("other", "mcp__tea__add", "{}"), ApprovalPolicy("ask"), "", ()) == "ask"


def test_a_tool_allowed_for_the_chat_is_allowed_with_all_arguments() -> None:
    granted = [Approval(1, "other", "mcp__tea__add", '{"a":1}', "")]
    policy = ApprovalPolicy("ask")
    assert decide(Question("other", "mcp__tea__add", "{}"), policy, "", granted) == "allow"
    assert decide(Question("other", "mcp__tea__fail", "{}"), policy, "", granted) == "ask"
    assert decide(Question("shell", "mcp__tea__add", "{}"), policy, "", granted) == "ask"


def test_a_server_that_crashes_is_started_again_once(scene: Scene, supplier: Supplier) -> None:
    supplier.script(
        Call("mcp__tea__die", {}),
        Call("mcp__tea__add", {"a": 1, "b": 2}),
        Call("mcp__tea__die", {}),
        Call("mcp__tea__add", {"a": 1, "b": 2}),
        Say("It dies."),
    )
    outcomes = [outcome for _, outcome in list_used_tools(run(scene, TEA))]
    assert "exit code 3" in outcomes[0] and "the kettle exploded" in outcomes[0]
    assert outcomes[1] == "3"
    assert "exit code 3" in outcomes[3]


def test_calls_at_the_same_time_all_wait_for_a_crashed_server_to_be_started_again(
    scene: Scene,
) -> None:
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    write_settings(layout, TEA)
    add = McpToolUse("mcp__tea__add", {"a": 1, "b": 2})

    async def run_turn() -> list[str]:
        directory = McpDirectory(layout, {}, "")
        try:
            tools = await directory.open_turn(str(scene.root), 1, scene.person)
            with pytest.raises(Unavailable):
                await tools.use(McpToolUse("mcp__tea__die", {}), scene.person, "")
            calls = [tools.use(add, scene.person, "") for _ in range(3)]
            texts = [one.text for one in await asyncio.gather(*calls)]
            tools.close()
            return texts
        finally:
            await directory.close()

    assert asyncio.run(run_turn()) == ["3", "3", "3"]


def test_a_tool_that_comes_later_is_offered(scene: Scene, supplier: Supplier) -> None:
    supplier.script(Call("mcp__tea__learn", {}), Call("mcp__tea__whistle", {}), Say("Nice."))
    told = run(scene, TEA)
    assert "mcp__tea__whistle" not in list_offered(supplier)
    assert "mcp__tea__whistle" in list_offered(supplier, 1)
    assert list_used_tools(told)[1] == ("mcp__tea__whistle", "fweee")


def test_a_tool_that_came_with_the_end_of_a_turn_is_offered_from_the_next_one_on(
    scene: Scene,
) -> None:
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    write_settings(layout, TEA)

    async def run_turns() -> None:
        directory = McpDirectory(layout, {}, "")
        try:
            tools = await directory.open_turn(str(scene.root), 1, scene.person)
            await tools.use(McpToolUse("mcp__tea__learn", {}), scene.person, "")
            tools.close()
            tools = await directory.open_turn(str(scene.root), 1, scene.person)
            assert tools.has("mcp__tea__whistle")
            tools.close()
        finally:
            await directory.close()

    asyncio.run(run_turns())


def test_a_server_that_was_removed_ends_with_the_next_turn(scene: Scene) -> None:
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    coffee = {**TEA, "name": "coffee"}
    write_settings(layout, TEA, coffee)

    async def run_turns() -> None:
        directory = McpDirectory(layout, {}, "")
        try:
            (await directory.open_turn(str(scene.root), 1, scene.person)).close()
            assert [directory.count_running(name) for name in ("tea", "coffee")] == [1, 1]
            Path(layout.mcp_settings).write_text(json.dumps({"servers": [TEA]}))
            tools = await directory.open_turn(str(scene.root), 1, scene.person)
            assert [directory.count_running(name) for name in ("tea", "coffee")] == [1, 0]
            assert {server for server, _ in directory.list_prompts(1)} == {"tea"}
            tools.close()
        finally:
            await directory.close()

    asyncio.run(run_turns())


def write_server(folder: Path, name: str, tool: str) -> dict[str, Any]:
    """Write a server with one tool, which says how the server is named; return its settings."""
    path = folder / f"{name}.py"
    path.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        f"server = MCPServer({name!r})\n"
        f"server.add_tool(lambda: {name!r}, name={tool!r}, structured_output=False)\n"
        "server.run()\n"
    )
    return {"name": name, "command": [sys.executable, "-W", "ignore", str(path)]}


def test_tools_of_two_servers_whose_names_come_out_the_same_are_told_apart(
    scene: Scene, supplier: Supplier, tmp_path: Path
) -> None:
    one = write_server(tmp_path, "wiki", "docs__find")
    other = write_server(tmp_path, "wiki__docs", "find")
    digest = sha256(b"find").hexdigest()[:8]
    names = ["mcp__wiki__docs__find", f"mcp__wiki__docs__find_{digest}"]
    supplier.script([Call(name, {}) for name in names], Say("Found."))
    told = run(scene, one, other)
    assert [name for name in list_offered(supplier) if name.startswith("mcp__")] == names
    assert list_used_tools(told) == list(zip(names, ["wiki", "wiki__docs"], strict=True))


def test_a_server_that_does_not_start_is_told_and_the_rest_works(
    scene: Scene, supplier: Supplier
) -> None:
    supplier.script(Say("Hello."))
    off = {"name": "off", "command": ["no-such-program-here"], "enabled": False}
    keyless = {"name": "keyless", "command": ["x"], "env": {"A": "env:NO_SUCH_VARIABLE"}}
    told = run(scene, {"name": "gone", "command": ["no-such-program-here"]}, off, keyless, TEA)
    assert "mcp__tea__add" in list_offered(supplier)
    outcomes = {event.input: event.outcome for event in told if isinstance(event, ToolUsed)}
    assert set(outcomes) == {"gone", "keyless"}
    assert "not installed" in outcomes["gone"]
    assert "NO_SUCH_VARIABLE is not set" in outcomes["keyless"]


def test_the_chat_is_told_that_not_all_tools_of_a_server_are_offered(
    scene: Scene, supplier: Supplier
) -> None:
    supplier.script(Say("Hello."))
    command = [sys.executable, str(HERE / "hostile_server.py"), "endless pages"]
    told = run(scene, {"name": "many", "command": command}, TEA)
    [note] = [event for event in told if isinstance(event, ToolUsed)]
    assert (note.name, note.input, note.ok) == ("mcp", "many", True)
    assert note.outcome.startswith("Only 128 of its tools are offered")


def test_an_image_reaches_the_model(scene: Scene, supplier: Supplier) -> None:
    scene.dialect = "anthropic"
    supplier.script(Call("mcp__tea__draw", {}), Say("A pixel."))
    run(scene, TEA)
    result = supplier.requests[1].body["messages"][-1]["content"][0]
    assert [part["type"] for part in result["content"]] == ["text", "image"]


def test_resources_are_listed_and_read_by_tools(scene: Scene, supplier: Supplier) -> None:
    supplier.script(
        Call("list_mcp_resources", {}),
        Call("read_mcp_resource", {"server": "tea", "uri": "tea://menu"}),
        Say("Green."),
    )
    (_, listed), (_, read) = list_used_tools(run(scene, TEA))
    assert "tea tea://menu" in listed and "green, black" in read
    assert [one.tool for one in scene.person.asked] == ["read_mcp_resource"]


def test_resources_are_listed_although_another_server_fails(
    scene: Scene, supplier: Supplier
) -> None:
    broken = {"name": "broken", "command": [sys.executable, str(HERE / "asking_server.py")]}
    supplier.script(Call(LIST_RESOURCES, {}), Say("Green."))
    ((_, listed),) = list_used_tools(run(scene, broken, TEA))
    assert "broken says: no such list" in listed and "tea tea://menu" in listed


class _Guest(Person):
    """Says which tea."""

    async def ask(self, question: Question) -> ApprovalAnswer:
        await super().ask(question)
        return ApprovalAnswer(True, reason="oolong" if question.kind == "question" else "")


def test_a_question_of_a_server_reaches_the_person(scene: Scene, supplier: Supplier) -> None:
    scene.person = _Guest()
    supplier.script(Call("mcp__tea__brew", {}), Say("Done."))
    assert list_used_tools(run(scene, TEA)) == [("mcp__tea__brew", "brewed oolong")]
    assert [one.kind for one in scene.person.asked] == ["other", "question"]
    assert "Which tea?" in scene.person.asked[1].subject


def write_project(scene: Scene, **more: Any) -> None:
    """Let the workspace name a server."""
    entry = {"command": COMMAND[0], "args": COMMAND[1:], **more}
    (scene.root / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))


def open_project(scene: Scene, answer: ApprovalAnswer) -> tuple[list[str], list[str], list[str]]:
    """Open a turn; return the tools, the failures and the subjects that were asked about."""
    asked: list[str] = []

    class Approving:
        async def ask(self, question: Question) -> ApprovalAnswer:
            assert (question.kind, question.tool) == ("other", "mcp_server")
            assert question.protected  # so that no mode allows it unasked
            asked.append(question.subject)
            return answer

    async def run_turn() -> tuple[list[str], list[str], list[str]]:
        layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
        directory = McpDirectory(layout, {"OPENAI_API_KEY": "sk-canary"}, "")
        try:
            tools = await directory.open_turn(str(scene.root), 1, Approving())
            tools.close()
            names = [tool.name for tool in tools.definitions]
            return names, [why for _, why in tools.failures], asked
        finally:
            await directory.close()

    return asyncio.run(run_turn())


def test_a_server_of_the_workspace_is_asked_about_once_until_it_changes(scene: Scene) -> None:
    allow = ApprovalAnswer(True, by_person=True)
    write_project(scene)
    tools, failures, asked = open_project(scene, allow)
    assert "mcp__shop__add" in tools and not failures
    assert asked == [" ".join(COMMAND)]
    assert open_project(scene, allow)[2] == []
    write_project(scene, env={"MORE": "1"})
    tools, _, asked = open_project(scene, ApprovalAnswer(False, reason="No.", by_person=True))
    assert not tools and asked == [f"{' '.join(COMMAND)}\nMORE=1"]
    tools, failures, asked = open_project(scene, allow)
    assert (tools, failures, asked) == ([], [], []), "a person's no is remembered, too"


def test_a_turn_tells_that_its_servers_are_not_known_and_asks_about_none(scene: Scene) -> None:
    write_project(scene)
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    write_settings(layout)
    path = Path(layout.mcp_settings)
    path.write_text("project_servers: no\nservers: [{name: tea}]\n")
    tools, failures, asked = open_project(scene, ApprovalAnswer(True, by_person=True))
    assert (tools, asked) == ([], [])
    assert len(failures) == 1 and failures[0].startswith(f"{path}:")


def test_a_withdrawn_server_is_ended_at_once_and_asked_about_again(scene: Scene) -> None:
    write_project(scene)
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    changes: list[str] = []
    use = McpToolUse("mcp__shop__add", {"a": 1, "b": 2})

    async def run_turns() -> None:
        directory = McpDirectory(layout, {}, "", lambda: changes.append("change"))
        person = Person()
        try:
            tools = await directory.open_turn(str(scene.root), 1, person)
            assert (await tools.use(use, person, "")).text == "3"
            assert directory.count_running("shop") == 1
            (decision,) = open_server_decisions(layout).load()
            changes.clear()
            await directory.withdraw(decision.digest)
            assert changes
            assert directory.count_running("shop") == 0 and not open_server_decisions(layout).load()
            with pytest.raises(Forbidden, match="the permission to use it was withdrawn"):
                await tools.use(use, person, "")
            tools.close()
            person.asked.clear()
            (await directory.open_turn(str(scene.root), 1, person)).close()
            assert [one.tool for one in person.asked] == ["mcp_server"]
            assert directory.count_running("shop") == 1
        finally:
            await directory.close()

    asyncio.run(run_turns())


def test_the_state_of_a_server_tells_its_last_start_and_end(scene: Scene) -> None:
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    write_settings(layout, TEA, {"name": "gone", "command": ["no-such-program-here"]})

    async def run_turn() -> None:
        directory = McpDirectory(layout, {}, "")
        try:
            tools = await directory.open_turn(str(scene.root), 1, scene.person)
            tea, gone = directory.states.get("tea"), directory.states.get("gone")
            assert tea and tea.tools and not tea.problem
            assert gone and gone.tools is None and "not installed" in gone.problem
            assert (directory.count_running("tea"), directory.count_running("gone")) == (1, 0)
            with pytest.raises(Unavailable):
                await tools.use(McpToolUse("mcp__tea__die", {}), scene.person, "")
            assert directory.count_running("tea") == 0
            tools.close()
            tea = directory.states.get("tea")
            assert tea and "it ended with exit code" in tea.problem
        finally:
            await directory.close()

    asyncio.run(run_turn())


LEAVES_A_CHILD = """
import subprocess, sys
subprocess.Popen(["sleep", "600"])
sys.exit(subprocess.run([*sys.argv[1:]]).returncode)
"""


def test_a_server_that_ends_between_turns_is_reported_and_its_children_are_ended(
    scene: Scene,
) -> None:
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    leaving = [sys.executable, "-c", LEAVES_A_CHILD, *COMMAND]
    write_settings(layout, {**TEA, "command": leaving, "allow": ["*"]})
    generation = f"ending-{scene.root.parent.name}-{os.getpid()}"

    async def run_turns() -> None:
        told: list[int] = []

        def note() -> None:
            told.append(directory.count_running("tea"))

        directory = McpDirectory(layout, {}, generation, note)
        try:
            for _ in range(2):
                tools = await directory.open_turn(str(scene.root), 1, scene.person)
                assert tools.has("mcp__tea__add")
                tools.close()
                started, *children = sorted(find_marked(generation))
                assert told[-1] == 1 and len(children) == 2
                os.kill(started, signal.SIGKILL)
                await asyncio.to_thread(until, lambda: told[-1] == 0)
                tea = directory.states.get("tea")
                assert tea and tea.problem == "it ended with exit code -9"
                await asyncio.to_thread(until, lambda: not find_marked(generation))
        finally:
            await directory.close()

    asyncio.run(run_turns())


def test_nobody_there_means_denied_and_is_not_remembered_for_good(scene: Scene) -> None:
    write_project(scene)
    tools, failures, asked = open_project(scene, ApprovalAnswer(False, reason="Nobody."))
    assert not tools and asked and "not allowed: Nobody." in failures[0]
    assert open_project(scene, ApprovalAnswer(True, by_person=True))[2] == asked


def test_a_server_of_the_workspace_does_not_see_the_daemons_keys(scene: Scene) -> None:
    write_project(scene, env={"KEY": "${OPENAI_API_KEY}"})
    tools, (failure,), asked = open_project(scene, ApprovalAnswer(True, by_person=True))
    assert not tools and "OPENAI_API_KEY has no value" in failure
    assert "${OPENAI_API_KEY}" in asked[0]


def test_damaged_decisions_ask_again_and_are_reported(scene: Scene) -> None:
    write_project(scene)
    (scene.root / "state" / "mcp-decisions.json").write_text("{")
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    with pytest.raises(ConfigError, match="is damaged"):
        open_server_decisions(layout).load()
    assert open_project(scene, ApprovalAnswer(False, reason="Nobody."))[2]


def test_a_daemon_without_servers_offers_no_tools_of_any(scene: Scene, supplier: Supplier) -> None:
    supplier.script(Say("Hello."))
    run(scene)
    assert not [name for name in list_offered(supplier) if "mcp" in name]


@pytest.mark.parametrize("left", [[], [{"enabled": False}]], ids=["removed", "disabled"])
def test_a_turn_under_way_calls_no_server_that_was_removed_or_disabled(
    scene: Scene, left: list[dict[str, Any]]
) -> None:
    """Its owner may have done so to keep it from something, which ``allow`` would not ask about."""
    layout = Layout(str(scene.root / "state"), str(scene.root.parent / "config"))
    shop = {"name": "shop", "command": COMMAND, "allow": ["*"]}
    write_settings(layout, shop)
    use = McpToolUse("mcp__shop__add", {"a": 1, "b": 2})

    async def run_turn() -> None:
        directory = McpDirectory(layout, {}, "")
        try:
            tools = await directory.open_turn(str(scene.root), 1, Person())
            assert (await tools.use(use, Person(), "")).text == "3"
            now = {"servers": [{**shop, **one} for one in left]}
            Path(layout.mcp_settings).write_text(json.dumps(now))
            with pytest.raises(Forbidden, match="removed or disabled"):
                await tools.use(use, Person(), "")
            tools.close()
        finally:
            await directory.close()

    asyncio.run(run_turn())
