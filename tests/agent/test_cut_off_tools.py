"""After a ``kill -9`` the history names the tools that were at work, and that they were cut off."""

import signal
from pathlib import Path

import pytest

from agentd.chats.records import ToolUse
from agentd.chats.service import NewChat
from agentd.chats.turns import INTERRUPTED, RETRYING, TOOL_INTERRUPTED
from tests.agent.served import ServedAgent
from tests.agent.test_dispatcher import ScriptedEngine, list_roles
from tests.conftest import ME, build_dispatcher, running_services, until
from tests.support.daemon import until as until_seen

IN_THE_MIDDLE = "sleep 300.75"


async def die_with_tools_at_work(layout, *tools: ToolUse) -> int:
    """Leave a turn open as a killed daemon does; return the chat's id."""
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.turns.start_turn(number, lambda *_: ("scripted", ""))
        for use in tools:
            await services.turns.record_tool_start(number, use)
        await services.turns.add_message(number, "tool", "a\n\nfound", tool="look", tool_use=1)
    return number


@pytest.mark.gen_test
async def test_a_start_ends_the_tools_of_an_open_turn_and_then_the_turn(layout):
    tools = (ToolUse(1, "look", "a"), ToolUse(2, "shell", "make"), ToolUse(3, "shell", "test"))
    number = await die_with_tools_at_work(layout, *tools)
    for _ in range(2):
        async with running_services(layout) as services:
            await services.turns.end_interrupted()
            assert await list_roles(services, number) == [
                ("user", "a"),
                ("tool", "a\n\nfound"),
                ("tool", f"make\n\n{TOOL_INTERRUPTED}"),
                ("tool", f"test\n\n{TOOL_INTERRUPTED}"),
                ("error", INTERRUPTED),
            ]


@pytest.mark.gen_test
async def test_a_prompt_that_is_sent_again_finds_its_tools_ended(layout):
    number = await die_with_tools_at_work(layout, ToolUse(1, "look", "a"), ToolUse(2, "shell", "x"))
    async with running_services(layout) as services:
        services.clock.move(-3600)  # it was ahead, and does not keep the prompt waiting
        await services.turns.end_interrupted(again=True)
        chat = await services.chats.get(number)
        assert chat.agent.wait and chat.agent.wait.reason == RETRYING
        assert chat.agent.wait.until <= services.clock.now()
        assert (await list_roles(services, number))[2:] == [("tool", f"x\n\n{TOOL_INTERRUPTED}")]


@pytest.mark.gen_test
async def test_a_turn_that_could_not_be_ended_at_the_start_names_its_tools_too(layout):
    number = await die_with_tools_at_work(layout, ToolUse(1, "look", "a"), ToolUse(2, "shell", "x"))
    async with running_services(layout) as services:
        dispatcher = build_dispatcher(services, ScriptedEngine())
        dispatcher.start(services.chats.list_summaries())
        await until(lambda: services.chats.get_summary(number).outcome == "interrupted")
        await dispatcher.stop(0)
        assert (await list_roles(services, number))[2:] == [
            ("tool", f"x\n\n{TOOL_INTERRUPTED}"),
            ("error", INTERRUPTED),
        ]


@pytest.mark.gen_test
async def test_nobody_waits_until_the_beginning_of_a_tool_is_on_the_disk(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.turns.start_turn(number, lambda *_: ("scripted", ""))
        await services.turns.record_tool_start(number, ToolUse(1, "shell", "make"))
        chat = await services.turns.get_latest(number)
        assert services.chats.get_summary(number).seq < chat.seq, (
            "what is on the disk is known later"
        )
        await until(lambda: services.chats.get_summary(number).seq == chat.seq)


@pytest.mark.gen_test
async def test_a_disk_that_takes_nothing_costs_the_note_and_not_the_turn(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        chat = await services.turns.start_turn(number, lambda *_: ("scripted", ""))
        (await services.turns.get_latest(number)).damage = "broken"
        await services.turns.record_tool_start(number, ToolUse(1, "shell", "make"))
        assert (await services.turns.get_latest(number)).seq == chat.seq


def test_after_kill_9_the_offline_engine_shows_what_was_cut_off(tmp_path: Path) -> None:
    served = ServedAgent(tmp_path, {}, engine="offline")
    with served.running() as caller:
        chat = caller.create_chat(f"Run `{IN_THE_MIDDLE}`")
        caller.allow(chat)
        until_seen(lambda: served.marked)
        served.process.end(signal.SIGKILL)
    with served.running() as caller:
        caller.wait_until_idle(chat)
        tool, turn = caller.cut_off(chat)
        assert (tool["role"], tool["tool"]) == ("tool", "shell")
        assert IN_THE_MIDDLE in tool["content"] and TOOL_INTERRUPTED in tool["content"]
        assert (turn["role"], turn["content"]) == ("error", INTERRUPTED)
