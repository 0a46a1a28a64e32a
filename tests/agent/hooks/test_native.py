"""Hooks of whole turns of the native engine: who blocks, who is asked, and what the model hears."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentd.agent.engine import EngineEvent, RateLimited, ToolUsed, TurnFailed
from agentd.agent.hooks.directory import HookDirectory
from agentd.agent.hooks.turn_hooks import HOOK, MOST_STOPS_BLOCKED
from agentd.storage.layout import Layout
from tests.agent.engines.native.scene import Person, Scene, read_replies
from tests.supplier.steps import Call, Refuse, Say
from tests.supplier.supplier import Supplier


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "state").mkdir()
    with Supplier() as supplier:
        hooks = HookDirectory(Layout(str(tmp_path / "state"), str(tmp_path / "config")))
        yield Scene(root, supplier, hooks=hooks)


def configure(scene: Scene, event: str, command: str, matcher: str = "", **more: Any) -> None:
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}
    file = scene.root.parent / "config" / "hooks.yml"
    file.write_text(json.dumps({"hooks": {event: [group]}}))


def put_workspace_hooks(scene: Scene, event: str, command: str) -> None:
    file = scene.root / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    hook = {"type": "command", "command": command}
    file.write_text(json.dumps({"hooks": {event: [{"hooks": [hook]}]}}))


def list_hooks(events: list[EngineEvent]) -> list[tuple[str, bool]]:
    used = [one for one in events if isinstance(one, ToolUsed) and one.name == HOOK]
    return [(one.outcome, one.ok) for one in used]


def list_results(scene: Scene) -> str:
    return json.dumps(scene.supplier.requests[-1].body)


def test_nothing_is_done_while_it_is_not_known_what_hooks_would_block(scene: Scene) -> None:
    file = scene.root.parent / "config" / "hooks.yml"
    file.write_text("hooks: {PreToolUse: [{matcher: Bash, hooks: [{type: command, comand: no}]}]}")
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    (failed,) = scene.run()
    assert isinstance(failed, TurnFailed)
    assert f"not known which hooks there are: {file}:1" in failed.reason
    assert not (scene.root / "made").exists() and not scene.supplier.requests
    configure(scene, "PreToolUse", "exit 2", "Bash")
    scene.run()
    assert not (scene.root / "made").exists() and len(scene.supplier.requests) == 2


def test_exit_code_2_blocks_a_tool_and_the_model_hears_why(scene: Scene) -> None:
    guard = 'case "$(cat)" in *"rm made"*) echo "Never remove." >&2; exit 2;; esac'
    configure(scene, "PreToolUse", guard, "Bash")
    scene.supplier.script(
        Call("shell", {"command": "touch made; rm made"}),
        Call("shell", {"command": "touch kept"}),
        Say("Done."),
    )
    events = scene.run()
    assert not (scene.root / "made").exists()
    assert (scene.root / "kept").exists()
    assert list_hooks(events) == [("blocked: Never remove.", False)]
    assert "A hook (hooks.yml) blocked this: Never remove." in list_results(scene)
    assert [one.subject for one in scene.person.asked] == ["touch kept"]


def test_a_hook_reads_what_the_tool_is_to_do(scene: Scene) -> None:
    configure(scene, "PreToolUse", 'cat > "$CLAUDE_PROJECT_DIR/seen.json"', "Write")
    scene.supplier.script(Call("write_file", {"path": "a.txt", "text": "hello"}), Say("Done."))
    events = scene.run()
    seen = json.loads((scene.root / "seen.json").read_text())
    assert (seen["hook_event_name"], seen["tool_name"]) == ("PreToolUse", "Write")
    assert seen["cwd"] == str(scene.root)
    assert seen["tool_input"]["file_path"] == str(scene.root / "a.txt")
    assert seen["tool_input"]["content"] == "hello"
    assert not list_hooks(events), "a hook that says nothing leaves no trace"


@pytest.mark.parametrize(
    ("decision", "asked"), [("ask", ["other"]), ("allow", ["shell"]), ("", ["shell"])]
)
def test_a_hook_can_leave_it_to_a_person_or_allow_it(
    scene: Scene, decision: str, asked: list[str]
) -> None:
    answer = {"hookSpecificOutput": {"permissionDecision": decision}}
    configure(scene, "PreToolUse", f"echo '{json.dumps(answer)}'", "Bash")
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    scene.run()
    first = scene.person.asked[0]
    assert [one.kind for one in scene.person.asked][:1] == asked
    assert bool(first.protected) is (decision == "ask"), "then no mode allows it unasked"
    assert scene.person.asked[-1].granted is (decision in ("ask", "allow"))
    assert (scene.root / "made").exists()


def change_input(updated: dict[str, object]) -> str:
    """Return a command line that answers with another input."""
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": updated}}
    return f"echo '{json.dumps(answer)}'"


def test_a_hook_changes_what_is_asked_about_run_and_recorded(scene: Scene) -> None:
    configure(scene, "PreToolUse", change_input({"command": "touch safe"}), "Bash")
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    events = scene.run()
    assert (scene.root / "safe").exists() and not (scene.root / "made").exists()
    assert [one.subject for one in scene.person.asked] == ["touch safe"]
    (used,) = [one for one in events if isinstance(one, ToolUsed) and one.name == "shell"]
    assert "touch safe" in used.input and "touch made" not in used.input
    assert list_hooks(events) == [('changed the input: {"command":"touch safe"}', True)]
    assert "A hook (hooks.yml) changed the input. What was used is: " in list_results(scene)


def test_a_hook_that_gives_a_tool_a_wrong_input_blocks_it(scene: Scene) -> None:
    configure(scene, "PreToolUse", change_input({"command": ["touch", "safe"]}), "Bash")
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    events = scene.run()
    assert not scene.person.asked and not (scene.root / "made").exists()
    ((told, ok),) = list_hooks(events)
    assert told.startswith("blocked: The hook changed the input, but shell cannot have") and not ok


def test_the_owners_hooks_judge_what_the_workspaces_made_of_an_input(scene: Scene) -> None:
    guard = 'case "$(cat)" in *"touch bad"*) echo "Not bad." >&2; exit 2;; esac'
    configure(scene, "PreToolUse", guard, "Bash")
    put_workspace_hooks(scene, "PreToolUse", change_input({"command": "touch bad"}))
    scene.supplier.script(Call("shell", {"command": "touch good"}), Say("Done."))
    events = scene.run()
    assert not (scene.root / "bad").exists() and not (scene.root / "good").exists()
    assert [told for told, _ in list_hooks(events)] == [
        'changed the input: {"command":"touch bad"}',
        "blocked: Not bad.",
    ]


def test_what_a_person_denies_that_a_hook_asks_about_is_not_done(scene: Scene) -> None:
    answer = {"hookSpecificOutput": {"permissionDecision": "ask"}}
    configure(scene, "PreToolUse", f"echo '{json.dumps(answer)}'", "write_file")
    scene.person = Person("protected")
    scene.supplier.script(Call("write_file", {"path": "a.txt", "text": "x"}), Say("Done."))
    scene.run()
    assert not (scene.root / "a.txt").exists()
    assert "Not while I am at lunch" in list_results(scene)


def test_after_a_tool_the_model_hears_what_a_hook_found(scene: Scene) -> None:
    configure(scene, "PostToolUse", "echo 'Line 1 is too long.' >&2; exit 2", "Edit|Write")
    scene.supplier.script(Call("write_file", {"path": "a.txt", "text": "x"}), Say("Done."))
    scene.run()
    assert (scene.root / "a.txt").exists()
    assert "Line 1 is too long." in list_results(scene)


def test_a_prompt_gets_more_context_or_is_not_sent(scene: Scene) -> None:
    configure(scene, "UserPromptSubmit", "echo 'The branch is main.'")
    scene.supplier.script(Say("Done."))
    scene.run("Do it.")
    assert scene.supplier.requests[-1].prompt.endswith(
        "[A hook of UserPromptSubmit says: The branch is main.]"
    )
    configure(scene, "UserPromptSubmit", "echo 'It has a key.' >&2; exit 2")
    (failed,) = scene.run("My key is 1234.")
    assert isinstance(failed, TurnFailed)
    assert "It has a key." in failed.reason
    assert len(scene.supplier.requests) == 1


def test_a_prompt_that_is_sent_again_is_asked_about_unless_the_model_has_it(scene: Scene) -> None:
    later = Refuse(429, "Later.", headers={"Retry-After": "3600"})
    scene.supplier.script(Call("read_file", {"path": "notes.txt"}), later, Say("Done."))
    configure(scene, "UserPromptSubmit", "echo 'It has a key.' >&2; exit 2")
    scene.kept = scene.root.parent / "kept"
    again = {"message": 1, "is_retry": True, "is_delivery_uncertain": True}
    (failed,) = scene.run("My key is 1234.", **again)
    assert isinstance(failed, TurnFailed) and not scene.supplier.requests
    configure(scene, "UserPromptSubmit", "echo x >> asked")
    assert isinstance(scene.run("Do it.", message=2)[-1], RateLimited)
    assert read_replies(scene.run("Do it.", message=2, is_retry=True)) == ["Done."]
    assert (scene.root / "asked").read_text() == "x\n"


def test_a_hook_sends_the_model_on_but_not_forever(scene: Scene) -> None:
    configure(scene, "Stop", "test -f done || { echo 'Make the file done.' >&2; exit 2; }")
    scene.supplier.script(
        Say("I am done."), Call("write_file", {"path": "done", "text": ""}), Say("Now I am.")
    )
    events = scene.run()
    assert read_replies(events) == ["I am done.", "Now I am."]
    assert "Make the file done." in list_results(scene)
    configure(scene, "Stop", "echo Never >&2; exit 2")
    scene.supplier.script(*[Say("Done.")] * (MOST_STOPS_BLOCKED + 1))
    events = scene.run()
    assert len(read_replies(events)) == MOST_STOPS_BLOCKED + 1
    assert "so the turn ends now" in list_hooks(events)[-1][0]


def test_a_hook_can_end_the_whole_turn(scene: Scene) -> None:
    configure(
        scene, "PreToolUse", """echo '{"continue": false, "stopReason": "Enough."}'""", "Bash"
    )
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    events = scene.run()
    assert isinstance(events[-1], TurnFailed)
    assert "Enough." in events[-1].reason
    assert not (scene.root / "made").exists()


def test_a_hook_that_hangs_or_fails_is_ended_told_and_blocks_nothing(scene: Scene) -> None:
    configure(scene, "PreToolUse", "sleep 1000", "Bash", timeout=1)
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    events = scene.run()
    assert list_hooks(events) == [("failed: it did not end in time, and was ended", False)]
    assert (scene.root / "made").exists()


def test_hooks_of_a_workspace_run_once_a_person_has_allowed_them(scene: Scene) -> None:
    put_workspace_hooks(scene, "UserPromptSubmit", "echo 'From the project.'")
    scene.person = Person("protected")
    scene.supplier.script(*[Say("Done.")] * 4)
    events = scene.run()
    assert "From the project." not in scene.supplier.requests[-1].prompt
    (asked,) = scene.person.asked
    assert "UserPromptSubmit: echo 'From the project.'" in asked.subject
    assert "were not allowed" in list_hooks(events)[0][0]

    class Answering(Person):
        async def ask(self, question: Any) -> Any:
            return replace(await super().ask(question), by_person=True)

    scene.person = Answering()
    scene.run()
    scene.run()
    assert "From the project." in scene.supplier.requests[-1].prompt
    assert len(scene.person.asked) == 1, "it is asked once"
    put_workspace_hooks(scene, "UserPromptSubmit", "echo 'Another.'")
    scene.run()
    assert len(scene.person.asked) == 2, "and again when they change"


def test_a_workspace_permits_nothing_to_itself(scene: Scene) -> None:
    put_workspace_hooks(scene, "PreToolUse", """echo '{"decision": "approve"}'""")
    scene.supplier.script(Call("shell", {"command": "touch made"}), Say("Done."))
    scene.run()
    hooks, shell = scene.person.asked
    assert (hooks.tool, shell.tool, shell.granted) == ("workspace_hooks", "shell", False)


def test_a_reply_must_satisfy_the_hooks_at_the_end_and_its_schema(scene: Scene) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")
    configure(scene, "Stop", "test -f done || { echo 'Make the file done.' >&2; exit 2; }")
    city = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    good = '{"name": "Riga"}'
    scene.supplier.script(
        *(Say(good), Call("write_file", {"path": "done", "text": ""}), Say("Riga."), Say(good))
    )
    events = scene.run(output_schema=json.dumps(city))
    assert read_replies(events) == [good, "Riga.", good]
    asked = [one.prompt for one in scene.supplier.requests]
    assert "Make the file done." in asked[1], "a reply that fits is not the end for a hook"
    assert "The reply is not JSON" in asked[3], "nor is what the hook lets pass for the schema"
    assert len(asked) == 4
