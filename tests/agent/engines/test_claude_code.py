"""The real Claude Code as an engine, with a scripted supplier of models."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.agent.claude_code.conversation import BAD_KEY, LOST, ClaudeConversation
from agentd.agent.claude_code.launch import Memory, launch
from agentd.agent.engine import Failed, Limited, Replied, ToolStarted, ToolUsed, Wrote
from agentd.chats.chat import Message
from agentd.outside.stdio_turn import Patience
from tests.agent.conversing import only, used
from tests.agent.engines.driving import Chat, alive, running
from tests.agent.engines.programs import CLAUDE, KEY, path_without, place
from tests.supplier.steps import Answer, Call, Refuse, Say, Stall
from tests.supplier.supplier import Supplier

pytestmark = [
    pytest.mark.engines,
    pytest.mark.gen_test(timeout=240),
    pytest.mark.skipif(
        not shutil.which(CLAUDE),
        reason=f"no {CLAUDE}: npm install --prefix {Path(__file__).parent}",
    ),
]

SANDBOXES = [("bwrap", "socat"), ("socat",), ("bwrap",), ()]
"""Programs that a machine may lack; Claude Code uses them for its own sandbox."""


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def chat(tmp_path: Path, supplier: Supplier) -> Chat:
    return Chat(place(tmp_path), supplier, (str(CLAUDE),), launch, ClaudeConversation)


def bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "runs it"})


def files(chat: Chat) -> set[str]:
    return set(os.listdir(chat.where.workspace))


@pytest.mark.parametrize("lacking", SANDBOXES, ids=lambda names: f"without {' '.join(names)}")
async def test_a_command_runs_with_leave_and_leaves_no_files(
    chat: Chat, supplier: Supplier, tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    chat.environment["PATH"] = path_without(tmp_path / "programs", *lacking)
    before = files(chat)
    supplier.script((Say("I run it."), bash("touch made.txt")), Say("It is done."))
    told = await chat.turn("Make it.")
    assert [reply.text for reply in only(told, Replied)] == ["I run it.", "It is done."], told
    assert [(asked.kind, asked.subject) for asked in chat.asked] == [("shell", "touch made.txt")]
    assert files(chat) == before | {"made.txt"}


async def test_a_file_is_edited_with_leave_and_the_session_goes_on(
    chat: Chat, supplier: Supplier
) -> None:
    notes = str(chat.where.notes)
    edit = Call("Edit", {"file_path": notes, "old_string": "one", "new_string": "uno"})
    supplier.script(Call("Read", {"file_path": notes}), edit, Say("It is done."))
    told = await chat.turn("Translate one.", instructions="Be terse.")
    assert chat.where.notes.read_text() == "uno\ntwo\n"
    asked = [(asked.kind, asked.subject) for asked in chat.asked]
    assert asked == [("read", "notes.txt"), ("write", "notes.txt")]
    assert [tool.name for tool in only(told, ToolUsed)] == ["Read", "Edit"]
    assert used(told).input == 30 and used(told).output == 15
    first = supplier.requests[0]
    assert first.model == "scripted-large" and "Be terse." in json.dumps(first.body)

    supplier.script(Say("As I said."))
    again = await chat.turn("And now?")
    assert [reply.text for reply in only(again, Replied)] == ["As I said."]
    seen = str(supplier.requests[-1].turns)
    assert "Translate one." in seen and "It is done." in seen and "And now?" in seen


async def test_without_leave_nothing_happens(chat: Chat, supplier: Supplier) -> None:
    chat.decide = lambda _: False
    supplier.script(bash("rm notes.txt"), Say("I leave it."))
    told = await chat.turn("Delete it.")
    assert chat.where.notes.exists()
    assert only(told, Replied)[-1].text == "I leave it."


async def test_the_key_reaches_the_supplier_and_no_command(chat: Chat, supplier: Supplier) -> None:
    look = "env; cat /proc/self/fd/*; cat /proc/$PPID/cmdline /proc/$PPID/environ; echo the end"
    supplier.script(bash(look), Say("Done."))
    [tool] = only(await chat.turn("What is set?"), ToolUsed)
    assert "the end" in tool.outcome and KEY not in tool.outcome
    headers = supplier.requests[-1].headers
    assert (headers["authorization"], headers["x-api-key"]) == (f"Bearer {KEY}", KEY)


async def test_the_persons_own_settings_name_no_other_supplier_and_no_other_key(
    chat: Chat, supplier: Supplier
) -> None:
    own = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_AUTH_TOKEN": "sk-persons"}
    (chat.where.home / ".claude").mkdir()
    (chat.where.home / ".claude" / "settings.json").write_text(json.dumps({"env": own}))
    supplier.script(Say("Here."))
    told = await chat.turn("Are you there?")
    assert [reply.text for reply in only(told, Replied)] == ["Here."]
    assert "sk-persons" not in json.dumps(supplier.requests[-1].headers)


async def test_the_workspace_tells_how_to_work_in_it_but_runs_nothing(
    chat: Chat, supplier: Supplier
) -> None:
    workspace = chat.where.workspace
    (chat.where.home / "private.txt").write_text("PRIVATE")
    (workspace / "CLAUDE.md").write_text("ADVICE of this project. @more.md @../home/private.txt\n")
    (workspace / "more.md").write_text("IMPORTED advice\n")
    (workspace / ".claude").mkdir()
    hook = {"hooks": [{"type": "command", "command": "touch hooked"}]}
    settings = {
        "hooks": {"SessionStart": [hook], "UserPromptSubmit": [hook]},
        "permissions": {"allow": ["Bash"]},
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
    }
    (workspace / ".claude" / "settings.json").write_text(json.dumps(settings))
    server = {"command": "touch", "args": [str(workspace / "served")]}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"its": server}}))
    before = files(chat)
    supplier.script(bash("touch made.txt"), Say("Done."))
    await chat.turn("Do it.")
    asked = json.dumps(supplier.requests[0].body)
    assert "ADVICE" in asked and "IMPORTED" in asked
    assert "PRIVATE" not in asked
    assert [question.subject for question in chat.asked] == ["touch made.txt"]
    assert files(chat) == before | {"made.txt"}


async def test_a_session_that_is_gone_is_begun_anew(chat: Chat, supplier: Supplier) -> None:
    lost = "0f9e1b2c-aaaa-4bbb-8ccc-1234567890ab"
    chat.memory = str(Memory(lost))
    supplier.script(Say("Forty-two."))
    history = (Message(1, "user", "The answer is 42.", ""),)
    told = await chat.turn("What is it?", history=history)
    assert ToolUsed("claude-code", f"resume {lost}", LOST) in told
    assert [reply.text for reply in only(told, Replied)] == ["Forty-two."]
    assert "The answer is 42." in str(supplier.requests[0].turns)


async def test_a_stop_while_the_model_writes_leaves_no_process(
    chat: Chat, supplier: Supplier
) -> None:
    supplier.script(Answer((Say("I will think about this for long."),), faults=(Stall(after=6),)))
    await chat.turn("Think.", lambda step: isinstance(step, Wrote))
    assert chat.process and not alive(chat.process)
    supplier.requests[0].gone.result(60)


async def test_a_stop_while_a_command_runs_leaves_no_process_and_the_session_goes_on(
    chat: Chat, supplier: Supplier
) -> None:
    supplier.script(bash("touch begun; sleep 123458.5"))
    await chat.stopped("Sleep.", (chat.where.workspace / "begun").exists)
    assert not alive(chat.process)
    assert not running("123458.5")
    supplier.forget()
    supplier.script(Say("Still here."))
    told = await chat.turn("Are you there?")
    assert only(told, Replied)[-1].text == "Still here."


async def test_a_refused_key_is_told(chat: Chat, supplier: Supplier) -> None:
    supplier.always(Refuse(401, "Wrong key"))
    [failed] = only(await chat.turn("Hello."), Failed)
    assert failed.reason.startswith(BAD_KEY) and KEY not in failed.reason


async def test_an_error_of_the_supplier_is_told(chat: Chat, supplier: Supplier) -> None:
    supplier.always(Refuse(400, "No such luck"))
    [failed] = only(await chat.turn("Hello."), Failed)
    assert "No such luck" in failed.reason


async def test_commands_run_beside_each_other(chat: Chat, supplier: Supplier) -> None:
    supplier.script((bash("echo one"), bash("echo two")), Say("Both."))
    told = await chat.turn("Run both.")
    assert len(only(told, ToolStarted)) == 2
    assert {tool.outcome for tool in only(told, ToolUsed)} == {"one", "two"}


async def test_what_is_protected_is_read_by_leave_only_and_what_is_not_without(
    chat: Chat, supplier: Supplier
) -> None:
    """Also where the person's own settings allow reading: a link, and a file among others."""
    settings = chat.where.home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Read", "Grep", "Edit"]}}))
    secret = chat.where.workspace / ".env"
    secret.write_text("KEY=canary-of-the-project\n")
    (chat.where.workspace / "link").symlink_to(".env")
    supplier.script(
        Call("Read", {"file_path": str(secret)}),
        Call("Read", {"file_path": str(chat.where.workspace / "link")}),
        Call("Read", {"file_path": str(chat.where.notes)}),
        bash("cat .env"),
        Say("I may not."),
    )
    chat.decide = lambda question: not (question.protected or question.kind == "shell")
    await chat.turn("Look.")
    assert [bool(asked.protected) for asked in chat.asked] == [True, True, False, False]
    assert chat.asked[-1].subject == "cat .env", "whose places are looked for by the approver"
    told = "".join(json.dumps(request.body) for request in supplier.requests)
    assert "canary-of-the-project" not in told and "two" in told


@pytest.mark.parametrize(("after", "told"), [("45", True), ("900", False)])
async def test_a_supplier_that_wants_to_be_left_alone_for_long_is_a_limit(
    chat: Chat, supplier: Supplier, after: str, told: bool
) -> None:
    """Claude Code waits for a short while, in silence; at a long one it gives up at once."""
    supplier.script(*[Refuse(429, "Later.", headers={"Retry-After": after})] * 12)
    chat.be_patient(Patience(silence=40.0))
    steps = await chat.turn("Do it.")
    [limited] = only(steps, Limited)
    assert limited == steps[-1]
    assert (limited.seconds >= float(after)) is told
