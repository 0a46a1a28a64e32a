"""The real opencode as an engine over the Agent Client Protocol, with a scripted supplier."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from agentd.agent.engine import (
    ModesListed,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.engines.acp.conversation import WAITS, AcpConversation
from agentd.agent.engines.acp.launch import build_launch
from agentd.agent.engines.acp.project_files import find_instruction_files
from agentd.agent.engines.acp.session import LOST
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import ProgramLaunch
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.llm.price import Prices
from tests.agent.engines.conversing import filter_steps, sum_cost, sum_usage
from tests.agent.engines.real.driving import Chat, find_processes, list_group
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import KEY, OPENCODE, make_place
from tests.supplier.steps import Answer, Break, Call, Refuse, Say, Stall, Tokens
from tests.supplier.supplier import Supplier

pytestmark = [
    pytest.mark.engines,
    pytest.mark.gen_test(timeout=240),
    pytest.mark.skipif(
        not shutil.which(OPENCODE),
        reason=f"no {OPENCODE}: npm install --prefix {Path(__file__).parent}",
    ),
]


COMMAND = (str(OPENCODE), "acp")


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        serving.answer_always(answer_title)
        yield serving


def converse(assignment: TurnRequest, bounds: WorkspaceBounds, _: ProgramLaunch) -> AcpConversation:
    return AcpConversation(assignment, bounds)


@pytest.fixture
def chat(tmp_path: Path, supplier: Supplier) -> Chat:
    return Chat(make_place(tmp_path), supplier, COMMAND, build_launch, converse)


async def test_a_file_is_edited_with_leave_and_the_session_goes_on(
    chat: Chat, supplier: Supplier
) -> None:
    notes = str(chat.where.notes)
    edit = Call("edit", {"filePath": notes, "oldString": "one", "newString": "uno"})
    run = Call("bash", {"command": "touch made.txt", "description": "makes it"})
    supplier.script((Say("I translate."), edit), run, Say("It is done."))
    received = await chat.run_turn("Translate one.", instructions="Be terse.")
    assert chat.where.notes.read_text() == "uno\ntwo\n"
    assert (chat.where.workspace / "made.txt").exists()
    asked = [(question.kind, question.tool, question.subject) for question in chat.asked]
    assert ("write", "edit", "notes.txt") in asked
    assert ("shell", "shell", "touch made.txt") in asked
    names = [(tool.name, tool.input) for tool in filter_steps(received, ToolUsed)]
    assert names == [("edit", "notes.txt"), ("shell", "touch made.txt")]
    assert "+uno" in filter_steps(received, ToolUsed)[0].outcome
    assert [reply.text for reply in filter_steps(received, ReplyCompleted)] == [
        "I translate.",
        "It is done.",
    ]
    assert sum_usage(received).input and sum_usage(received).output
    first = next(one for one in supplier.requests if one.tools)
    assert first.model == "scripted-large" and "Be terse." in str(first.turns)

    supplier.script(Say("As I said."))
    again = await chat.run_turn("And now?", instructions="Be terse.")
    assert [reply.text for reply in filter_steps(again, ReplyCompleted)] == ["As I said."]
    seen = str(supplier.requests[-1].turns)
    assert "Translate one." in seen and "It is done." in seen and "And now?" in seen
    assert sum_cost(again) == Decimal(0)  # no prices are known


async def test_the_key_reaches_the_supplier_and_no_command(chat: Chat, supplier: Supplier) -> None:
    look = "env; cat /proc/self/fd/*; cat /proc/$PPID/cmdline /proc/$PPID/environ; echo the end"
    supplier.script(Call("bash", {"command": look, "description": "looks"}), Say("Done."))
    [tool] = filter_steps(await chat.run_turn("What is set?"), ToolUsed)
    assert "the end" in tool.outcome and KEY not in tool.outcome
    assert supplier.requests[-1].headers["authorization"] == f"Bearer {KEY}"


async def test_a_no_keeps_what_is_outside_and_reaches_the_model_with_its_note(
    chat: Chat, supplier: Supplier
) -> None:
    """The turn goes on after it."""
    chat.decide = lambda question: question.kind == "write"
    chat.note = "Keep the notes."
    outside = chat.where.home / "outside.txt"
    write = Call("write", {"filePath": str(outside), "content": "hello"})
    run = Call("bash", {"command": "rm notes.txt", "description": "removes it"})
    supplier.script(write, run, Say("I leave it."))
    received = await chat.run_turn("Write it, and remove the notes.")
    *others, removal = chat.asked
    assert others and {question.kind for question in others} <= {"outside", "other"}
    assert any(str(outside) in question.subject for question in others)
    assert not outside.exists()
    assert (removal.kind, removal.subject) == ("shell", "rm notes.txt")
    assert chat.where.notes.exists()
    assert [reply.text for reply in filter_steps(received, ReplyCompleted)] == ["I leave it."]
    assert "Keep the notes." in str(supplier.requests[-1].turns)


async def test_a_stop_while_a_command_runs_leaves_no_process(
    chat: Chat, supplier: Supplier
) -> None:
    run = {"command": "touch begun; sleep 123457.5", "description": "sleeps"}
    supplier.script((Say("I sleep."), Call("bash", run)))
    chat.memory = '{"session": "ses_of_nobody"}'
    received = await chat.stop_when("Sleep.", (chat.where.workspace / "begun").exists)
    assert ToolUsed("session", "resume ses_of_nobody", LOST, ok=False) in received
    assert not list_group(chat.process)
    assert not find_processes("123457.5")


async def test_a_stop_while_a_supplier_is_silent_leaves_no_process(
    chat: Chat, supplier: Supplier
) -> None:
    answer = Answer((Say("I will think about this for long."),), faults=(Stall(after=4),))
    supplier.script(answer)
    await chat.run_turn("Think.", lambda step: isinstance(step, ReplyDelta))
    assert not list_group(chat.process)
    [asked] = [request for request in supplier.requests if answer_title(request) is None]
    asked.gone.result(60)  # the one for a title may come before it or after


async def test_an_error_of_the_supplier_is_reported(chat: Chat, supplier: Supplier) -> None:
    supplier.answer_always(Refuse(400, "No such luck"))
    [failed] = filter_steps(await chat.run_turn("Hello."), TurnFailed)
    assert "No such luck" in failed.reason


async def test_a_supplier_that_wants_to_be_left_alone_for_long_is_a_limit(
    chat: Chat, supplier: Supplier
) -> None:
    """It waits in silence, as long as it is told to: its log alone says why."""
    supplier.script(*[Refuse(429, "Later.", headers={"Retry-After": "900"})] * 3)
    chat.be_patient(TurnTimeouts(silence=40.0))
    *_, limited = await chat.run_turn("Do it.")
    assert limited == RateLimited(f"{WAITS} Later.")
    assert len([one for one in supplier.requests if one.tools]) == 1


@pytest.mark.parametrize("days", [1, 0], ids=["tomorrow", "never"])
async def test_a_spent_limit_of_the_gateway_is_noticed_long_before_the_silence_is_over(
    chat: Chat, supplier: Supplier, days: int
) -> None:
    """The gateway says when it ends; opencode waits for that, or tries again for ever."""
    tomorrow = datetime.now(UTC) + timedelta(days=days)
    end = f"resets at {tomorrow.isoformat()}" if days else "never resets"
    headers = {"Retry-After": "86400"} if days else {}
    told = f"The access key's limit is 1 USD a day: 1 USD used. It {end}."
    supplier.answer_always(Refuse(429, told, headers=headers))
    chat.be_patient(TurnTimeouts(silence=600.0, unknown_pause=8.0))
    *_, limited = await chat.run_turn("Do it.")
    assert limited == RateLimited(f"{WAITS} {told}")


async def test_a_limit_is_waited_for_and_a_broken_stream_tried_again_after_what_it_had_reported(
    chat: Chat, supplier: Supplier
) -> None:
    told_of = Stall(after=3)
    half = Answer((Say("Half of it"),), faults=(told_of, Break(after=3)))
    supplier.script(Refuse(429, headers={"retry-after": "1"}), half, Say("All of it."))
    words = ""

    def break_it(step: object) -> bool:
        nonlocal words
        words += step.text if isinstance(step, ReplyDelta) else ""
        if words == "Half of":
            told_of.release()
        return False

    received = await chat.run_turn("Say it.", break_it)
    [reply] = filter_steps(received, ReplyCompleted)
    assert reply.text == "Half ofAll of it."  # nothing in its updates takes the half back
    assert not supplier.left


async def test_the_tokens_and_costs_of_all_calls_of_a_turn_and_its_sub_agent_are_reported(
    tmp_path: Path, supplier: Supplier
) -> None:
    launch = partial(build_launch, prices=Prices(input=Decimal(3), output=Decimal(15)))
    chat = Chat(make_place(tmp_path), supplier, (str(OPENCODE), "acp"), launch, converse)
    run = Call("bash", {"command": "touch made.txt", "description": "makes it"})
    task = {"description": "counts", "prompt": "Count.", "subagent_type": "general"}
    supplier.script(
        Answer((run,), usage=Tokens(input=100, output=10)),
        Answer((Call("task", task),), usage=Tokens(input=200, output=20)),
        Answer((Say("Seven."),), usage=Tokens(input=1000, output=100)),
        Answer((Say("It is seven."),), usage=Tokens(input=400, output=40)),
        Answer((Say("Still."),), usage=Tokens(input=500, output=50)),
    )
    first = await chat.run_turn("Count it.")
    used = sum_usage(first)
    assert (used.input, used.output) == (1700, 170)
    assert sum_cost(first) == Decimal("0.00765")
    second = await chat.run_turn("And now?")
    assert (sum_usage(second).input, sum_usage(second).output) == (500, 50)
    assert sum_cost(second) == Decimal("0.00225")


async def test_a_chat_plans_first_and_then_works(chat: Chat, supplier: Supplier) -> None:
    supplier.script(Say("A plan."), Say("Done."))
    received = await chat.run_turn("Plan it.", mode="plan")
    [listed] = filter_steps(received, ModesListed)
    assert [one.id for one in listed.modes] == ["build", "plan"]
    assert "Plan mode" in json.dumps(supplier.requests[-1].body)
    await chat.run_turn("Do it.")
    assert "changed from plan to build" in json.dumps(supplier.requests[-1].body)


ALLOWED = {"*": "allow", "bash": "allow", "edit": {"*": "allow"}, "read": "allow"}
SETTINGS = {"permission": ALLOWED, "agent": {"build": {"permission": ALLOWED}}}


async def test_it_asks_though_the_settings_of_the_person_and_the_workspace_allow_it(
    chat: Chat, supplier: Supplier
) -> None:
    """Any of them, for all agents or for one, would be enough for it not to ask."""
    where = chat.where
    for folder in (where.home / ".config" / "opencode", where.workspace):
        (folder / "opencode.json").write_text(json.dumps(SETTINGS))
    chat.decide = lambda _: False
    supplier.script(
        Call("bash", {"command": "touch made.txt", "description": "makes it"}),
        Call("write", {"filePath": str(where.workspace / "made.txt"), "content": "x"}),
        Call("read", {"filePath": str(where.notes)}),
        Say("I may not."),
    )
    await chat.run_turn("Make it.")
    assert [asked.kind for asked in chat.asked] == ["shell", "write", "read"]
    assert not (where.workspace / "made.txt").exists()


async def test_what_the_persons_settings_deny_stays_denied(chat: Chat, supplier: Supplier) -> None:
    own = {"permission": {"bash": {"*": "allow", "touch *": "deny"}}}
    (chat.where.home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(own))
    run = Call("bash", {"command": "touch made.txt", "description": "makes it"})
    supplier.script(run, Say("I may not."))
    await chat.run_turn("Make it.")
    assert not chat.asked and not (chat.where.workspace / "made.txt").exists()


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_a_sub_agent_wants_to_do_is_asked_for_as_the_agents_own(
    chat: Chat, supplier: Supplier, *, allowed: bool
) -> None:
    """Its client is asked nothing of it by opencode itself, which would wait for ever."""
    made, secret = chat.where.workspace / "made.txt", chat.where.workspace / ".env"
    secret.write_text("KEY=canary-of-the-project\n")
    task = {"description": "makes", "prompt": "Make it.", "subagent_type": "general"}
    supplier.script(
        Call("task", task),
        Call("bash", {"command": "touch run.txt", "description": "runs"}),
        Call("write", {"filePath": str(made), "content": "x"}),
        Call("read", {"filePath": str(secret)}),
        *[Say("It is done.")] * 3,  # of the sub-agent, which a denial ends, and of its agent
    )
    chat.decide = lambda question: allowed and not question.protected
    received = await chat.run_turn("Make it.")
    assert [(asked.kind, asked.tool, asked.subject) for asked in chat.asked] == [
        ("shell", "shell", "touch run.txt"),
        ("write", "edit", "made.txt"),
        ("read", "read", ".env"),
    ]
    assert made.exists() is (chat.where.workspace / "run.txt").exists() is allowed
    assert filter_steps(received, ReplyCompleted)[-1].text == "It is done."
    assert "canary-of-the-project" not in str([one.body for one in supplier.requests])


async def test_a_stop_while_a_sub_agent_runs_a_command_leaves_no_process(
    chat: Chat, supplier: Supplier
) -> None:
    task = {"description": "makes", "prompt": "Make it.", "subagent_type": "general"}
    run = Call("bash", {"command": "touch begun; sleep 123459.5", "description": "sleeps"})
    supplier.script(Call("task", task), run)
    await chat.stop_when("Sleep.", (chat.where.workspace / "begun").exists)
    assert not list_group(chat.process)
    assert not find_processes("123459.5")


CODE = """
import {{ writeFileSync }} from "fs"
writeFileSync("{canary}", "")
export default {{ description: "planted", args: {{}}, async execute() {{ return "" }} }}
"""


def plant_programs(workspace: Path, touched: Path) -> None:
    """Put into a workspace all that opencode may run of it but plugins; each touches a file."""

    def touch(name: str) -> list[str]:
        return ["touch", str(touched / name)]

    def name_programs(which: str) -> dict[str, object]:
        planted = {"extensions": [".txt"]}
        return {
            "formatter": {"planted": {"command": touch(f"{which} formatter"), **planted}},
            "lsp": {"planted": {"command": touch(f"{which} lsp"), **planted}},
            "shell": str(workspace / "shell.sh"),
        }

    server = {"type": "local", "command": touch("mcp")}
    other = {"type": "local", "command": touch("mcp of the second kind")}
    settings = {"mcp": {"planted": server}, **name_programs("its")}
    second = {"mcp": {"servers": {"planted": other}}, **name_programs("the second kind's")}
    for name, text in {
        "opencode.json": json.dumps(settings),
        ".opencode/opencode.json": json.dumps(second),
        ".opencode/tools/planted.js": CODE.format(canary=touched / "tool"),
        ".opencode/tool/planted.js": CODE.format(canary=touched / "old tool"),
        "preload.js": CODE.format(canary=touched / "preload"),
        "bunfig.toml": 'preload = ["./preload.js"]\n',
        ".env": f"OPENCODE_CONFIG={workspace / 'variable.json'}\nSHELL={workspace / 'shell.sh'}\n",
        "variable.json": json.dumps({"plugin": [(workspace / "variable.js").as_uri()]}),
        "variable.js": CODE.format(canary=touched / "variable"),
        "shell.sh": f"#!/bin/sh\ntouch '{touched / 'shell'}'\n",
    }.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    (workspace / "shell.sh").chmod(0o700)


async def test_no_program_of_the_workspace_runs_unasked(
    chat: Chat, supplier: Supplier, tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    touched.mkdir()
    plant_programs(chat.where.workspace, touched)
    notes = str(chat.where.notes)
    supplier.script(
        Call("read", {"filePath": notes}),
        Call("edit", {"filePath": notes, "oldString": "one", "newString": "uno"}),
        Call("bash", {"command": "touch made.txt", "description": "makes it"}),
        Say("It is done."),
    )
    await chat.run_turn("Translate one.")
    assert chat.where.notes.read_text() == "uno\ntwo\n"
    assert (chat.where.workspace / "made.txt").exists()
    assert [one.name for one in touched.iterdir()] == []


async def test_it_reads_the_instructions_and_skills_of_the_project_and_what_is_the_persons(
    tmp_path: Path, supplier: Supplier
) -> None:
    where = make_place(tmp_path)
    folder = where.workspace / "part"
    folder.mkdir()
    (where.workspace / "AGENTS.md").write_text("Always answer in verse.")
    (folder / "AGENTS.md").write_text("Never use adjectives.")
    (where.home / "own.md").write_text("Sign as Ada.")
    skill = folder / ".claude" / "skills" / "tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies rooms up.\n---\nTidy.\n")
    own = {"instructions": [str(where.home / "own.md")]}
    files = find_instruction_files(WorkspaceBounds(str(folder)))
    launch = partial(build_launch, instruction_files=files)
    chat = Chat(structs.replace(where, workspace=folder), supplier, COMMAND, launch, converse)
    (where.home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(own))
    supplier.script(Say("Done."))
    await chat.run_turn("Do it.")
    sent = json.dumps(supplier.requests[-1].body)
    for words in (
        "Always answer in verse.",
        "Never use adjectives.",
        "Sign as Ada.",
        "Tidies rooms up.",
    ):
        assert sent.count(words) == 1, words


async def test_a_prompt_that_begins_with_a_path_reaches_the_model(
    chat: Chat, supplier: Supplier
) -> None:
    """Opencode takes it for a command that it does not know, and ends the turn without a word."""
    supplier.script(Say("I look."))
    told = await chat.run_turn("/api/tea returns 500. Why?")
    assert [reply.text for reply in filter_steps(told, ReplyCompleted)] == ["I look."]
    assert "/api/tea returns 500. Why?" in str(supplier.requests[-1].turns)
