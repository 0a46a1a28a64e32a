"""The MCP client against real servers: the official SDK's and badly behaved ones."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agentd.agent.mcp_servers import connection as client
from agentd.agent.mcp_servers import pool as pool_module
from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.messages import (
    LONGEST_DESCRIPTION,
    LONGEST_TEXT,
    LONGEST_TOOL_NAME,
    MOST_TOOLS,
    name_tools,
)
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.pool import McpPool
from agentd.agent.mcp_servers.toolset import McpToolset
from agentd.core.errors import BadRequest, Unavailable
from agentd.system import process_identity
from agentd.system.process import MARK
from tests.agent.engines.native.scene import Person
from tests.agent.mcp_servers.talking import use_connection
from tests.support.transports import note_transports
from tests.support.waiting import until

HERE = Path(__file__).parent
PATIENCE = 60.0

pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")


def build_server(script: str, *arguments: str, **more: Any) -> ReadyServer:
    """Return a server of this folder that is spoken with over stdio."""
    command = (sys.executable, "-W", "ignore", str(HERE / script), *arguments)
    return ReadyServer("tea", command, **more)


SDK = build_server("sdk_server.py", "stdio")


def talk(server: ReadyServer, folder: Path, work: Callable[[McpConnection], Awaitable[Any]]) -> Any:
    """Open a connection, do the work, and close it."""
    return asyncio.run(use_connection(server, str(folder), work, PATIENCE))


def test_tools_come_with_schemas_and_hints(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return connection.tools

    tools = {tool.name: tool for tool in talk(SDK, tmp_path, work)}
    assert tools["add"].reads and not tools["environment"].reads
    assert set(tools["add"].schema["properties"]) == {"a", "b"}
    assert tools["add"].description == "Add two numbers."


def test_results_have_text_images_and_failures(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return [
            await connection.call_tool("add", {"a": 2, "b": 3}),
            await connection.call_tool("draw", {}),
            await connection.call_tool("fail", {}),
        ]

    added, drawn, failed = talk(SDK, tmp_path, work)
    assert added.text == "5"
    assert drawn.images[0].media_type == "image/png" and drawn.images[0].data.startswith("iVBOR")
    assert failed.failed and "fail" in failed.text


def test_resources_are_listed_and_read(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return await connection.list_resources(), await connection.read_resource("tea://menu")

    listed, menu = talk(SDK, tmp_path, work)
    assert [one.uri for one in listed] == ["tea://menu"]
    assert "green, black" in menu.text


def test_the_environment_is_clean_but_for_what_the_server_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")

    async def work(connection: McpConnection) -> Any:
        names = ("OPENAI_API_KEY", "TEA_TOKEN")
        return [(await connection.call_tool("environment", {"name": one})).text for one in names]

    server = build_server("sdk_server.py", "stdio", env={"TEA_TOKEN": "mint"})
    assert talk(server, tmp_path, work) == ["(not set)", "mint"]


def test_the_root_is_the_folder_of_the_chat(tmp_path: Path) -> None:
    folder = tmp_path / "a work tree"
    folder.mkdir()

    async def work(connection: McpConnection) -> Any:
        return (await connection.call_tool("where", {})).text

    assert talk(SDK, folder, work) == folder.as_uri()


def test_a_cancelled_call_is_taken_back(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        began = asyncio.Event()
        call = asyncio.create_task(connection.call_tool("boil", {}, lambda text: began.set()))
        await began.wait()
        call.cancel()
        await asyncio.wait([call])
        await asyncio.to_thread(until, (tmp_path / "cancelled").exists)
        return (await connection.call_tool("add", {"a": 1, "b": 1})).text

    assert talk(SDK, tmp_path, work) == "2"


def test_progress_keeps_a_call_going_and_is_told(tmp_path: Path) -> None:
    told: list[str] = []

    async def work(connection: McpConnection) -> Any:
        return await connection.call_tool("boil", {"minutes": 30}, told.append)

    server = build_server("sdk_server.py", "stdio", seconds=30)
    assert talk(server, tmp_path, work).text == "hot"
    assert told[1] == "1 of 30 boiling"


def test_a_new_tool_is_listed_when_the_server_says_so(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        assert not await connection.refresh_tools()
        await connection.call_tool("learn", {})
        assert await connection.refresh_tools()
        return [tool.name for tool in connection.tools]

    assert "whistle" in talk(SDK, tmp_path, work)


def test_a_question_of_the_server_is_dismissed_unless_somebody_is_there(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        dismissed = (await connection.call_tool("brew", {})).text

        async def answer(message: str, schema: dict[str, Any]) -> dict[str, Any]:
            assert message == "Which tea?" and "kind" in schema["properties"]
            return {"action": "accept", "content": {"kind": "oolong"}}

        connection.elicit = answer
        return dismissed, (await connection.call_tool("brew", {})).text

    assert talk(SDK, tmp_path, work) == ("cancel", "brewed oolong")


def test_a_crash_is_told_with_the_last_words(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        with pytest.raises(Unavailable, match="exit code 3; its last words") as caught:
            await connection.call_tool("die", {})
        assert "the kettle exploded" in caught.value.message
        with pytest.raises(Unavailable, match="exit code 3"):
            await connection.call_tool("add", {"a": 1, "b": 1})

    talk(SDK, tmp_path, work)


def test_the_last_words_have_no_secrets_and_are_not_torn_by_values_that_are_none(
    tmp_path: Path,
) -> None:
    async def work(connection: McpConnection) -> Any:
        with pytest.raises(Unavailable, match="exit code 3; its last words") as caught:
            await connection.call_tool("die", {})
        return caught.value.message

    env = {"LEVEL": "e", "SECRET": "exploded"}
    server = build_server("sdk_server.py", "stdio", env=env)
    assert "the kettle ***" in talk(server, tmp_path, work)


def test_an_unknown_tool_is_the_servers_error(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        try:
            return (await connection.call_tool("stir", {})).failed
        except BadRequest:
            return True

    assert talk(SDK, tmp_path, work)


def test_a_missing_program_is_told(tmp_path: Path) -> None:
    server = ReadyServer("tea", ("no-such-program-here",))
    with pytest.raises(Unavailable, match="not installed"):
        talk(server, tmp_path, _nothing)


async def _nothing(connection: McpConnection) -> None:
    pass


@pytest.mark.parametrize("manner", ["garbage", "huge line", "many values", "old revision"])
def test_a_server_that_talks_nonsense_is_refused(tmp_path: Path, manner: str) -> None:
    with pytest.raises(Unavailable, match="MCP server tea"):
        talk(build_server("hostile_server.py", manner), tmp_path, _nothing)


def test_a_server_that_never_answers_a_call_is_given_up(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        with pytest.raises(Unavailable, match="did not answer tools/call within 1 seconds"):
            await connection.call_tool("plain", {})

    talk(build_server("hostile_server.py", "never answers", seconds=1), tmp_path, work)


def test_tools_are_of_use_though_prompts_and_templates_are_never_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "EXTRAS_SECONDS", 0.2)

    async def work(connection: McpConnection) -> Any:
        listed = await connection.list_resources()
        called = await connection.call_tool("plain", {})
        return connection.prompts, [one.uri for one in listed], called

    prompts, resources, called = talk(
        build_server("hostile_server.py", "tools alone"), tmp_path, work
    )
    assert prompts == () and resources == ["tea://menu"] and called.text.startswith("yyy")


def test_pages_of_prompts_that_take_too_long_together_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "EXTRAS_SECONDS", 0.5)

    async def work(connection: McpConnection) -> Any:
        return connection.prompts, await connection.call_tool("plain", {})

    prompts, called = talk(build_server("hostile_server.py", "prompts without end"), tmp_path, work)
    assert prompts == () and called.text.startswith("yyy")


def test_an_error_that_repeats_a_secret_of_the_server_does_not_show_it(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        with pytest.raises(BadRequest) as caught:
            await connection.call_tool("plain", {})
        return caught.value.message

    server = build_server("leaking_server.py")
    server = structs.replace(server, env={"TEA_TOKEN": "secret-0123456789"})
    assert "*** is no token" in talk(server, tmp_path, work)


def test_endless_pages_of_tools_end(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return len(connection.tools)

    assert talk(build_server("hostile_server.py", "endless pages"), tmp_path, work) == MOST_TOOLS


def test_odd_names_and_descriptions_are_made_fit_for_a_model(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return name_tools("tea", connection.tools)

    named = talk(build_server("hostile_server.py", "odd names"), tmp_path, work)
    assert len(named) == 5  # the name of 300 characters is left out
    for name, tool in named.items():
        assert len(name) <= LONGEST_TOOL_NAME
        assert name.replace("_", "").replace("-", "").isalnum() and name.isascii()
        assert len(tool.description) <= LONGEST_DESCRIPTION and "\0" not in tool.description


def test_what_has_the_wrong_type_is_left_out(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return [(tool.name, tool.reads, json.dumps(tool.schema)) for tool in connection.tools]

    schema = '{"type": "object", "properties": {}}'
    found = talk(build_server("hostile_server.py", "odd types"), tmp_path, work)
    assert found == [("n", False, schema), ("plain", False, schema)]


def test_what_a_server_lists_twice_is_offered_once(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        tools = [(tool.name, tool.description) for tool in connection.tools]
        return tools, [prompt.name for prompt in connection.prompts]

    found = talk(build_server("hostile_server.py", "twice"), tmp_path, work)
    assert found == ([("plain", "Plain."), ("other", "Plain.")], ["order"])


def test_a_flood_of_questions_and_a_long_result_are_bounded(tmp_path: Path) -> None:
    async def work(connection: McpConnection) -> Any:
        return (await connection.call_tool("plain", {})).text

    text = talk(build_server("hostile_server.py", "questions"), tmp_path, work)
    assert len(text) < LONGEST_TEXT + 100 and "cut" in text


def find_marked(tag: str) -> list[int]:
    """Return the processes whose mark begins with this."""
    wanted = f"{MARK}={tag}".encode()
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            variables = process_identity.read_environment(int(name))
            if any(one.startswith(wanted) for one in variables):
                found.append(int(name))
    return found


def test_servers_are_kept_between_turns_and_ended_when_idle(tmp_path: Path) -> None:
    async def run() -> None:
        tag = f"test-{tmp_path.name}-{os.getpid()}"
        pool = McpPool(tag, idle_seconds=0.0)
        pool.begin_turn(1, str(tmp_path))
        first = await pool.connect(1, SDK)
        assert await pool.connect(1, SDK) is first
        assert find_marked(tag)
        pool.end_turn(1)
        pool.begin_turn(1, str(tmp_path))
        assert await pool.connect(1, SDK) is first, "a turn that follows at once keeps it"
        pool.end_turn(1)
        await asyncio.to_thread(until, lambda: not pool.running and not find_marked(tag))
        await pool.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_silent_server_does_not_outlive_a_stop(tmp_path: Path) -> None:
    async def run() -> None:
        tag = f"silent-{tmp_path.name}-{os.getpid()}"
        pool = McpPool(tag)
        pool.begin_turn(1, str(tmp_path))
        opening = asyncio.create_task(pool.connect(1, build_server("hostile_server.py", "silent")))
        await asyncio.to_thread(until, lambda: find_marked(tag))
        opening.cancel()
        await asyncio.wait([opening])
        assert not find_marked(tag)
        pool.end_turn(1)
        await pool.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("rounds", range(1, 7))
def test_a_silent_server_does_not_outlive_two_stops(tmp_path: Path, rounds: int) -> None:
    """As when the daemon ends while a turn that was stopped still ends its server."""

    async def run() -> None:
        tag = f"silent-{tmp_path.name}-{os.getpid()}"
        connection = McpPool(tag).build(build_server("hostile_server.py", "silent"), str(tmp_path))
        opening = asyncio.create_task(connection.open())
        await asyncio.to_thread(until, lambda: find_marked(tag))
        opening.cancel()
        for _ in range(rounds):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        assert not find_marked(tag)

    with note_transports() as made:
        asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert [one.is_closing() for one in made] == [True]


@pytest.mark.parametrize("rounds", range(1, 7))
def test_a_server_that_ended_is_put_away_though_the_next_turn_is_stopped(
    tmp_path: Path, rounds: int
) -> None:
    async def run() -> None:
        pool = McpPool()
        pool.begin_turn(1, str(tmp_path))
        first = await pool.connect(1, SDK)
        os.kill(made[0].get_pid(), signal.SIGKILL)
        while not first.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        opening = asyncio.create_task(pool.connect(1, SDK))
        for _ in range(rounds):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        pool.end_turn(1)
        await pool.close()

    with note_transports() as made:
        asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert all(one.is_closing() for one in made)


async def fail_to_connect(pool: McpPool, server: ReadyServer) -> str:
    """Begin a turn and connect in vain; return why."""
    with pytest.raises(Unavailable) as why:
        await pool.connect(1, server)
    return why.value.message


def test_a_server_that_kept_a_turn_waiting_goes_on_starting_while_the_next_turns_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "START_SECONDS", 0.2)
    monkeypatch.setattr(pool_module, "PATIENCE_SECONDS", 0.1)
    server = build_server("hostile_server.py", f"silent until {tmp_path / 'go'}")

    async def run() -> None:
        pool = McpPool()
        pool.begin_turn(1, str(tmp_path))
        assert "did not answer" in await fail_to_connect(pool, server)
        monkeypatch.setattr(client, "START_SECONDS", PATIENCE)
        for _ in range(2):
            assert "its tools are offered once it does" in await fail_to_connect(pool, server)
        toolset = McpToolset(pool, 1, [server], Person())
        await toolset.open()
        assert [name for name, _ in toolset.failures] == ["tea"]
        assert not await toolset.refresh()
        (tmp_path / "go").touch()
        await asyncio.to_thread(until, lambda: pool.find(1, server))
        assert await toolset.refresh()
        assert [one.name for one in toolset.definitions] == ["mcp__tea__plain"]
        toolset.close()
        await pool.close()

    asyncio.run(asyncio.wait_for(run(), 3 * PATIENCE))


@pytest.mark.parametrize("ending", ["close", "end_others", "end_project_server"])
def test_a_server_that_goes_on_starting_ends_with_its_chat_its_settings_or_its_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(client, "START_SECONDS", 0.2)
    monkeypatch.setattr(pool_module, "PATIENCE_SECONDS", 0.1)
    server = build_server("hostile_server.py", "silent", configured=False)

    async def run() -> None:
        tag = f"slow-{tmp_path.name}-{os.getpid()}"
        pool = McpPool(tag)
        pool.begin_turn(1, str(tmp_path))
        await fail_to_connect(pool, server)
        monkeypatch.setattr(client, "START_SECONDS", PATIENCE)
        await fail_to_connect(pool, server)
        await asyncio.to_thread(until, lambda: find_marked(tag))
        match ending:
            case "end_others":
                pool.end_others(1, [])
            case "end_project_server":
                pool.end_project_server("tea")
            case _:
                await pool.close()
        await asyncio.to_thread(until, lambda: not find_marked(tag))
        await pool.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_tools_that_are_too_many_are_told_once_in_a_chat(tmp_path: Path) -> None:
    server = build_server("hostile_server.py", "endless pages")

    async def run() -> None:
        pool, notes = McpPool(), []
        for _ in range(2):
            pool.begin_turn(1, str(tmp_path))
            toolset = McpToolset(pool, 1, [server], Person())
            await toolset.open()
            assert len(toolset.definitions) == MOST_TOOLS
            notes += toolset.notes
            toolset.close()
        await pool.close()
        [(name, note)] = notes
        assert name == "tea" and f"Only {MOST_TOOLS} of its tools" in note

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
