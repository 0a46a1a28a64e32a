"""Calls whose server asks the person meanwhile, and calls that take long."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.messages import JsonMap
from agentd.agent.mcp_servers.model import ReadyServer
from tests.agent.mcp_servers.talking import use_connection

SERVER = (sys.executable, str(Path(__file__).parent / "asking_server.py"))
SECONDS, JUMP, PATIENCE = 600, 1_000, 50_000
"""The server's, how far the clock jumps, and those of a whole test with its jumps."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    forward = 0.0

    def time(self) -> float:
        """Return the time, put forward."""
        return super().time() + self.forward


async def jump() -> None:
    """Put the clock forward, and let everything happen that is due then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.forward += JUMP
    for _ in range(20):
        await asyncio.sleep(0)


def talk(work: Callable[[McpConnection], Awaitable[Any]], seconds: float = SECONDS) -> Any:
    """Open a connection, do the work, and close it."""
    server = ReadyServer("tea", SERVER, seconds=seconds)
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(use_connection(server, "/", work, PATIENCE))


def accept(kind: str) -> JsonMap:
    """Return the answer of a person."""
    return {"action": "accept", "content": {"kind": kind}}


def test_a_call_waits_for_a_person_who_thinks_for_longer_than_the_server_may_take() -> None:
    async def work(connection: McpConnection) -> Any:
        async def answer(message: str, schema: JsonMap) -> JsonMap:
            for _ in range(10):  # longer than any call may take
                await jump()
            return accept("oat")

        connection.elicit = answer
        return (await connection.call_tool("take back", {})).text

    assert json.loads(talk(work)) == accept("oat")


def test_a_question_that_the_server_takes_back_is_no_longer_asked() -> None:
    still_open: set[str] = set()
    seen: list[set[str]] = []

    async def work(connection: McpConnection) -> Any:
        async def answer(message: str, schema: JsonMap) -> JsonMap:
            still_open.add(message)
            try:
                if message == "Sugar?":
                    await asyncio.Event().wait()
                seen.append(set(still_open))
                return accept("oat")
            finally:
                still_open.discard(message)

        connection.elicit = answer
        return (await connection.call_tool("take back", {})).text

    assert json.loads(talk(work)) == accept("oat")
    assert seen == [{"Milk?"}]


def test_a_question_ends_with_the_call_that_it_belongs_to() -> None:
    async def work(connection: McpConnection) -> None:
        asked, ended = asyncio.Event(), asyncio.Event()

        async def answer(message: str, schema: JsonMap) -> JsonMap:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

        connection.elicit = answer
        await connection.call_tool("forget", {})
        assert asked.is_set()
        await asyncio.wait_for(ended.wait(), PATIENCE / 1_000)

    talk(work)


def test_each_call_wants_to_hear_of_progress_for_only_that_keeps_it_going() -> None:
    async def work(connection: McpConnection) -> Any:
        return (await connection.call_tool("echo", {})).text

    assert json.loads(talk(work))["_meta"]["progressToken"]


def test_amounts_of_progress_of_any_size_do_no_harm() -> None:
    told: list[str] = []

    async def work(connection: McpConnection) -> Any:
        return (await connection.call_tool("count", {}, told.append)).text

    assert talk(work, seconds=30) == "counted"
    assert told == ["1 of 2", "", "0.5"]
