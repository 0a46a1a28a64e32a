"""The real Codex as an engine, with a scripted supplier of models."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from agentd.agent.engine import (
    Question,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
    UsageWindowsReported,
)
from agentd.agent.engines.codex.conversation import (
    BAD_KEY,
    COMPACT,
    LOST,
    NOTHING_TO_COMPACT,
    CodexConversation,
)
from agentd.agent.engines.codex.launch import build_launch
from agentd.agent.engines.external.common import (
    COMPACTED,
    CONTINUE_PROMPT,
    WITHDRAWN,
    WorkspaceBounds,
)
from agentd.agent.engines.external.conversation import ProgramLaunch
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.chats.model import Message
from agentd.llm.price import Usage
from agentd.models.program_state import UsageWindow
from tests.agent.engines.conversing import drop_engine_state, filter_steps, sum_usage
from tests.agent.engines.real.codex_talks import PATCH
from tests.agent.engines.real.driving import Chat, find_processes, list_group
from tests.agent.engines.real.programs import CODEX, KEY, build_path_without, make_place
from tests.supplier.steps import Answer, Break, Call, Refuse, Say, Stall, Tokens
from tests.supplier.supplier import Supplier

pytestmark = [
    pytest.mark.engines,
    pytest.mark.gen_test(timeout=120),
    pytest.mark.skipif(
        not shutil.which(CODEX), reason=f"no {CODEX}: npm install --prefix {Path(__file__).parent}"
    ),
]

ONE_CALL = Usage(input=10, output=5)
QUICK = ("request_max_retries=0", "stream_max_retries=1")
"""So that failures come without many tries."""


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


def converse(
    assignment: TurnRequest, bounds: WorkspaceBounds, _: ProgramLaunch
) -> CodexConversation:
    return CodexConversation(assignment, bounds)


@pytest.fixture
def chat(tmp_path: Path, supplier: Supplier) -> Chat:
    options = [word for one in QUICK for word in ("-c", f"model_providers.agentd.{one}")]
    return Chat(make_place(tmp_path), supplier, (str(CODEX), *options), build_launch, converse)


async def test_a_model_sets_no_goal_which_codex_would_pursue_in_place_of_the_next_prompt(
    tmp_path: Path, supplier: Supplier
) -> None:
    """A prompt waits for the MCP servers; meanwhile Codex would go on by itself."""
    slow = ReadyServer("slow", (sys.executable, "-c", "import time; time.sleep(3)"))
    chat = Chat(
        make_place(tmp_path),
        supplier,
        (str(CODEX),),
        build_launch,
        lambda assignment, bounds, _: CodexConversation(assignment, bounds, (slow,)),
    )
    supplier.script(Call("create_goal", {"objective": "Count all grains."}), Say("It is set."))
    await chat.run_turn("Set a goal.")
    supplier.script(Say("Here I am."))
    again = await chat.run_turn("Where are you?")
    assert [one.text for one in filter_steps(again, ReplyCompleted)] == ["Here I am."]
    assert "Where are you?" in str(supplier.requests[-1].turns)


async def test_a_file_is_edited_with_leave_and_the_thread_goes_on(
    chat: Chat, supplier: Supplier
) -> None:
    tokens = Tokens(input=100, cached=900, output=20, reasoning=8)
    edit = (Say("I translate."), Call("exec_command", {"cmd": PATCH}))
    supplier.script(Answer(edit, usage=tokens), Say("It is done."))
    received = await chat.run_turn("Translate one.", instructions="Be terse.")
    assert chat.where.notes.read_text() == "uno\ntwo\n"
    (asked,) = chat.asked
    assert structs.replace(asked, diff="") == Question("write", "edit", "notes.txt", "M notes.txt")
    assert asked.diff.splitlines()[-3:] == ["-one", "+uno", " two"]
    [tool] = filter_steps(received, ToolUsed)
    assert (tool.name, tool.input) == ("edit", "M notes.txt") and "+uno" in tool.outcome
    assert [reply.text for reply in filter_steps(received, ReplyCompleted)] == [
        "I translate.",
        "It is done.",
    ]
    assert sum_usage(received) == Usage(input=110, cache_read=900, output=17, reasoning=8)
    assert (
        "".join(step.text for step in filter_steps(received, ReplyDelta))
        == "I translate.It is done."
    )
    first = supplier.requests[0]
    assert first.model == "scripted-large" and "Be terse." in str(first.turns)

    supplier.script(Say("As I said."))
    again = await chat.run_turn("And now?")
    assert [reply.text for reply in filter_steps(again, ReplyCompleted)] == ["As I said."]
    assert sum_usage(again) == ONE_CALL
    seen = str(supplier.requests[-1].turns)
    assert "Translate one." in seen and "It is done." in seen and "And now?" in seen


async def test_changed_and_withdrawn_instructions_reach_the_model_in_a_thread_that_goes_on(
    chat: Chat, supplier: Supplier
) -> None:
    supplier.script(Say("One."), Say("Two."), Say("Three."))
    await chat.run_turn("Begin.", instructions="Be terse.")
    await chat.run_turn("Go on.", instructions="Be verbose.")
    assert "Be verbose." in json.dumps(supplier.requests[-1].body)
    await chat.run_turn("Go on.")
    assert WITHDRAWN in json.dumps(supplier.requests[-1].body)


async def test_without_leave_nothing_happens(chat: Chat, supplier: Supplier) -> None:
    chat.decide = lambda _: False
    run = Call("exec_command", {"cmd": "rm notes.txt"})
    supplier.script(run, Call("exec_command", {"cmd": PATCH}), Say("I leave it."))
    received = await chat.run_turn("Delete it.")
    assert chat.where.notes.read_text() == "one\ntwo\n"
    assert [question.kind for question in chat.asked] == ["shell", "write"]
    assert chat.asked[0].subject == "rm notes.txt"
    assert {tool.outcome for tool in filter_steps(received, ToolUsed)} == {"Not allowed."}
    assert filter_steps(received, ReplyCompleted)[-1].text == "I leave it."


async def test_the_key_is_in_no_argument_and_in_no_command_s_environment(
    chat: Chat, supplier: Supplier, tmp_path: Path
) -> None:
    # Codex' sandbox finds itself beneath its home, which is in /tmp here, where bubblewrap's is.
    chat.environment["PATH"] = build_path_without(tmp_path / "programs", "bwrap")
    supplier.script(Call("exec_command", {"cmd": "env; echo the end"}), Say("Done."))
    arguments: list[bytes] = []

    def look(step: object) -> bool:
        if isinstance(step, ToolStarted):
            arguments.append(Path(f"/proc/{chat.process}/cmdline").read_bytes())
        return False

    received = await chat.run_turn("What is set?", look)
    [tool] = filter_steps(received, ToolUsed)
    assert "the end" in tool.outcome and KEY not in tool.outcome
    assert arguments and KEY.encode() not in arguments[0]
    assert supplier.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_usage_windows_are_reported(chat: Chat, supplier: Supplier) -> None:
    told = {
        "x-codex-primary-used-percent": "82",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "4102444800",
        "x-codex-secondary-used-percent": "12",
        "x-codex-secondary-window-minutes": "10080",
    }
    supplier.script(Answer((Say("Done."),), headers=told))
    received = await chat.run_turn("Do it.")
    assert filter_steps(received, UsageWindowsReported)[-1].windows == (
        UsageWindow("5 hours", 82, "2100-01-01T00:00:00.000Z"),
        UsageWindow("7 days", 12, None),
    )


async def test_a_chat_plans_first_and_then_works(chat: Chat, supplier: Supplier) -> None:
    plan = "I look.\n<proposed_plan>\n# Plan\n- one\n</proposed_plan>"
    supplier.script(Say(plan), Say("Done."))
    received = await chat.run_turn("Plan it.", mode="plan")
    [reply] = filter_steps(received, ReplyCompleted)
    assert reply.text == "I look.\n\n\n# Plan\n- one\n"
    assert sum_usage(received) == ONE_CALL
    assert "# Plan Mode" in json.dumps(supplier.requests[-1].body)
    await chat.run_turn("Do it.")
    assert "You are now in Default mode." in json.dumps(supplier.requests[-1].body)


async def test_a_thread_is_compacted_by_codex_itself(chat: Chat, supplier: Supplier) -> None:
    """It goes on with the summary, and its model never reads the command."""
    supplier.script(Say("I do."), Say("It is 42."), Say("42."))
    replies = [
        reply.text
        for prompt in ("/compact", "Remember 42.", "/compact", "What is it?")
        for reply in filter_steps(await chat.run_turn(prompt), ReplyCompleted)
    ]
    assert replies == [NOTHING_TO_COMPACT, "I do.", COMPACTED, "42."]
    assert len(supplier.requests) == 3
    told = str(supplier.requests[-1].turns)
    assert "It is 42." in told and "What is it?" in told
    assert "I do." not in told and COMPACT not in told


async def test_a_thread_that_is_gone_is_restarted(chat: Chat, supplier: Supplier) -> None:
    chat.memory = "01a1fdcb-e1c9-7872-bc09-000000000000"
    supplier.script(Say("Forty-two."))
    history = (Message(1, "user", "The answer is 42.", ""),)
    received = await chat.run_turn("What is it?", history=history)
    assert (
        ToolUsed("codex", f"resume {'01a1fdcb-e1c9-7872-bc09-000000000000'}", LOST, ok=False)
        in received
    )
    assert [drop_engine_state(one) for one in filter_steps(received, ReplyCompleted)] == [
        ReplyCompleted("Forty-two.", ONE_CALL)
    ]
    assert "The answer is 42." in str(supplier.requests[0].turns)
    assert "000000000000" not in chat.memory


async def test_a_stop_while_the_model_writes_leaves_no_process(
    chat: Chat, supplier: Supplier
) -> None:
    supplier.script(Answer((Say("I will think about this for long."),), faults=(Stall(after=6),)))
    await chat.run_turn("Think.", lambda step: isinstance(step, ReplyDelta))
    assert chat.process and not list_group(chat.process)
    supplier.requests[0].gone.result(60)


async def test_a_stop_while_a_command_runs_leaves_no_process(
    chat: Chat, supplier: Supplier
) -> None:
    supplier.script(Call("exec_command", {"cmd": "touch begun; sleep 123456.5"}))
    await chat.stop_when("Sleep.", (chat.where.workspace / "begun").exists)
    assert not list_group(chat.process)
    assert not find_processes("123456.5")
    supplier.script(Say("Still here."))
    received = await chat.run_turn("Are you there?")
    assert filter_steps(received, ReplyCompleted)[-1].text == "Still here."


async def test_a_used_up_limit_shows_its_reset_and_the_prompt_is_not_given_twice(
    chat: Chat, supplier: Supplier
) -> None:
    headers = {
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1900000000",
    }
    body = {"error": {"type": "usage_limit_reached", "message": "The usage limit is reached"}}
    supplier.script(Refuse(429, headers=headers, body=body))
    received = await chat.run_turn("Count to three.")
    [limited] = filter_steps(received, RateLimited)
    assert limited.until == "2030-03-17T17:46:40.000Z"
    supplier.script(Say("One, two, three."))
    received = await chat.run_turn("Count to three.", is_retry=True)
    assert [drop_engine_state(one) for one in filter_steps(received, ReplyCompleted)] == [
        ReplyCompleted("One, two, three.", ONE_CALL)
    ]
    seen = str(supplier.requests[-1].turns)
    assert seen.count("Count to three.") == 1 and CONTINUE_PROMPT in seen


async def test_too_many_requests_are_a_limit_too(chat: Chat, supplier: Supplier) -> None:
    supplier.answer_always(Refuse(429))
    assert filter_steps(await chat.run_turn("Hello."), RateLimited)


async def test_a_refused_key_is_reported(chat: Chat, supplier: Supplier) -> None:
    supplier.answer_always(Refuse(401, "Wrong key"))
    [failed] = filter_steps(await chat.run_turn("Hello."), TurnFailed)
    assert failed.reason.startswith(BAD_KEY) and KEY not in failed.reason


async def test_a_broken_stream_is_tried_again_and_then_reported(
    chat: Chat, supplier: Supplier
) -> None:
    half = Answer((Say("Half of it"),), faults=(Break(after=5),))
    supplier.script(half, Say("All of it."))
    received = await chat.run_turn("Say it.")
    assert filter_steps(received, ReplyCompleted)[-1].text == "All of it."
    supplier.answer_always(half)
    [failed] = filter_steps(await chat.run_turn("Say it again."), TurnFailed)
    assert "stream" in failed.reason
    assert not list_group(chat.process)


async def test_what_a_killed_turn_used_is_recorded_by_the_next_one_once(
    chat: Chat, supplier: Supplier
) -> None:
    """The thread's own count goes on; how much of it is booked is kept with each booking."""
    supplier.script(Say("One."))
    await chat.run_turn("First.")
    memory = chat.memory
    supplier.script(Say("Two."))
    await chat.run_turn("Second.")
    chat.memory = memory  # the daemon was killed before it booked anything of the second turn
    supplier.script(Say("Three."), Say("Four."))
    third = await chat.run_turn("Third.")
    assert sum_usage(third) == ONE_CALL + ONE_CALL
    assert sum_usage(await chat.run_turn("Fourth.")) == ONE_CALL


async def test_what_was_used_before_a_failure_is_recorded(chat: Chat, supplier: Supplier) -> None:
    supplier.script(Call("exec_command", {"cmd": "true"}), Refuse(400, "No more"))
    received = await chat.run_turn("Do two things.")
    assert [drop_engine_state(one) for one in filter_steps(received, UsageReported)] == [
        UsageReported(ONE_CALL)
    ]
    assert "No more" in filter_steps(received, TurnFailed)[0].reason


async def test_no_workspace_is_trusted_in_place_of_the_person(
    chat: Chat, supplier: Supplier
) -> None:
    """Else its rules would allow commands and its MCP servers would be started, both unasked."""
    own, marks = chat.where.workspace / ".codex", chat.where.workspace / "started"
    (own / "rules").mkdir(parents=True)
    (own / "rules" / "all.rules").write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    started = json.dumps(["-c", f"touch {marks}; sleep 5"])
    server = f'[mcp_servers.tea]\ncommand = "/bin/sh"\nargs = {started}\n'
    (own / "config.toml").write_text(server)
    (chat.where.workspace / "AGENTS.md").write_text("Use tabs in this project.\n")
    for number in range(2):  # a new thread, and the same one resumed
        supplier.script(Call("exec_command", {"cmd": "touch made"}), Say("Done."))
        await chat.run_turn("Make a file.")
        assert [one.subject for one in chat.asked] == ["touch made"] * (number + 1)
    assert not marks.exists()
    assert "trust_level" not in "".join(
        one.read_text() for one in (chat.where.home / "codex").glob("config.toml")
    )
    assert "Use tabs" in str(supplier.requests[0].body), "its instructions are read all the same"


async def test_a_workspace_behind_a_link_can_be_changed(
    tmp_path: Path, chat: Chat, supplier: Supplier
) -> None:
    chat.where.workspace.rename(tmp_path / "elsewhere")
    chat.where.workspace.symlink_to(tmp_path / "elsewhere")
    edit, run = Call("exec_command", {"cmd": PATCH}), Call("exec_command", {"cmd": "true"})
    supplier.script(edit, run, Say("Done."))
    await chat.run_turn("Translate one.")
    assert [one.subject for one in chat.asked] == ["notes.txt", "true"]
    assert chat.where.notes.read_text() == "uno\ntwo\n"
