"""The format of hooks, as Claude Code has it: which tools they are for, and what they answer."""

import json
from pathlib import Path

import pytest

from agentd.agent.hooks.model import (
    Hook,
    HookAnswer,
    HookEvent,
    list_own_hooks,
    parse_workspace_file,
    read_answer,
)
from agentd.agent.hooks.store import load
from agentd.agent.hooks.tool_forms import change_use, make_forms
from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.agent.tools.model import (
    ApplyPatch,
    EditFile,
    EditManyPlaces,
    ReadFile,
    Replacement,
    RunCommand,
    SearchText,
    StartProcess,
    ToolUse,
    WriteFile,
)
from agentd.core.errors import BadRequest, ConfigError
from agentd.storage.layout import Layout
from agentd.system.process import Finished


def make_hook(matcher: str = "", event: HookEvent = "PreToolUse") -> Hook:
    return Hook(event, matcher, "true", 60, "hooks.yml")


@pytest.mark.parametrize(
    ("matcher", "names", "matches"),
    [
        ("", {"shell"}, True),
        ("*", {"shell"}, True),
        ("Bash", {"shell", "Bash"}, True),
        ("shell", {"shell", "Bash"}, True),
        ("Edit|Write", {"write_file", "Write"}, True),
        ("Edit, Write", {"write_file", "Write"}, True),
        ("Wri", {"write_file", "Write"}, False),
        ("bash", {"shell", "Bash"}, False),
        ("mcp__.*__get_.+", {"mcp__tea__get_cup"}, True),
        ("mcp__.*__get_.+", {"mcp__tea__add"}, False),
        ("^Write$", {"NotebookWrite"}, False),
    ],
)
def test_a_matcher_is_a_list_of_names_or_an_expression(
    matcher: str, names: set[str], matches: bool
) -> None:
    assert make_hook(matcher).matches(names) is matches


@pytest.mark.parametrize(
    ("code", "output", "errors", "answer"),
    [
        (0, "", "", HookAnswer()),
        (0, "some text", "", HookAnswer()),
        (2, '{"decision": "approve"}', "not so\n", HookAnswer("deny", "not so")),
        (2, "", "", HookAnswer("deny", "It gave no reason.")),
        (1, "", "oops", HookAnswer(problem="it ended with exit code 1: oops")),
        (0, '{"decision": "block", "reason": "no"}', "", HookAnswer("deny", "no")),
        (0, '{"decision": "approve"}', "", HookAnswer("allow")),
        (
            0,
            '{"hookSpecificOutput": {"permissionDecision": "ask",'
            ' "permissionDecisionReason": "look", "additionalContext": "more"}}',
            "",
            HookAnswer("ask", "look", "more"),
        ),
        (
            0,
            '{"continue": false, "stopReason": "enough", "systemMessage": "hm"}',
            "",
            HookAnswer(ends_turn="enough", note="hm"),
        ),
        (0, '{"hookSpecificOutput": {"permissionDecision": ["x"]}}', "", HookAnswer()),
    ],
)
def test_a_hook_answers_by_its_exit_code_or_by_json(
    code: int, output: str, errors: str, answer: HookAnswer
) -> None:
    assert read_answer(make_hook(), Finished(code, output.encode(), errors.encode())) == answer


def test_what_a_hook_of_a_prompt_prints_is_told_to_the_model() -> None:
    ended = Finished(0, b"The branch is main.\n", b"")
    answer = read_answer(make_hook(event="UserPromptSubmit"), ended)
    assert answer == HookAnswer(context="The branch is main.")


NO_MAP = HookAnswer("deny", "Its updatedInput is no map, so the tool is not run.")


@pytest.mark.parametrize(
    ("event", "updated", "answer"),
    [
        ("PreToolUse", {"command": "ls"}, HookAnswer("allow", updated={"command": "ls"})),
        ("PreToolUse", {}, HookAnswer("allow", updated={})),
        ("PostToolUse", {"command": "ls"}, HookAnswer("allow")),
        (
            "PreToolUse",
            [],
            NO_MAP,
        ),
    ],
)
def test_a_hook_before_a_tool_may_change_its_input(
    event: HookEvent, updated: object, answer: HookAnswer
) -> None:
    said = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": updated}}
    ended = Finished(0, json.dumps(said).encode(), b"")
    assert read_answer(make_hook(event=event), ended) == answer


RUN = RunCommand("ls", 5)
WRITE = WriteFile("a.py", "x")
EDIT = EditFile("a.py", "x", "y")
EDITS = EditManyPlaces("a.py", (Replacement("x", "y"),))


@pytest.mark.parametrize(
    ("use", "changes", "wanted"),
    [
        (RUN, {"command": "pwd"}, RunCommand("pwd", 5)),
        (RUN, {"timeout": 9500}, RunCommand("ls", 9)),
        (RUN, {"seconds": 7}, RunCommand("ls", 7)),
        (WRITE, {"content": "y"}, WriteFile("a.py", "y")),
        (WRITE, {"text": "y", "file_path": "/w/b/c.py"}, WriteFile("b/c.py", "y")),
        (EDIT, {"new_string": "z", "replace_all": True}, EditFile("a.py", "x", "z", all=True)),
        (
            EDITS,
            {"edits": [{"old_string": "x", "new_string": "z"}]},
            EditManyPlaces("a.py", (Replacement("x", "z"),)),
        ),
        (SearchText("a"), {"pattern": "b"}, SearchText("b")),
        (McpToolUse("mcp__a__b", {"x": 1}), {"x": 2}, McpToolUse("mcp__a__b", {"x": 2})),
        *((use, {}, use) for use in (RUN, WRITE, EDIT, EDITS, StartProcess("x"), ReadFile("a"))),
        (RUN, {"command": ""}, "Expected `str` of length"),
        (RUN, {"command": 1}, "cannot have this input"),
        (RUN, {"cwd": "/"}, "no input named cwd"),
        (StartProcess("x"), {"run_in_background": False}, "run_in_background"),
        (ApplyPatch("x"), {"patch": "y"}, "cannot be changed"),
    ],
)  # fmt: skip
def test_a_changed_input_has_the_names_of_either_side(
    use: ToolUse | McpToolUse, changes: dict[str, object], wanted: ToolUse | McpToolUse | str
) -> None:
    told = make_forms(use, "/w")[0].input
    if isinstance(wanted, str):
        with pytest.raises(BadRequest, match=wanted):
            change_use(use, told, {**told, **changes}, "/w")
    else:
        assert change_use(use, told, {**told, **changes}, "/w") == wanted


def test_a_changed_input_replaces_the_whole() -> None:
    told = make_forms(RUN, "/w")[0].input
    assert change_use(RUN, told, {"command": "pwd"}, "/w") == RunCommand("pwd")
    with pytest.raises(BadRequest, match="path"):
        change_use(WRITE, make_forms(WRITE, "/w")[0].input, {"content": "y"}, "/w")


def test_tools_are_told_in_the_words_of_claude_code() -> None:
    (form,) = make_forms(RunCommand("ls", 5), "/w")
    assert (form.name, form.names) == ("Bash", {"Bash", "shell"})
    assert form.input == {"command": "ls", "seconds": 5, "timeout": 5000}
    (form,) = make_forms(WriteFile("a.py", "x"), "/w")
    assert form.name == "Write"
    assert (form.input["file_path"], form.input["content"]) == ("/w/a.py", "x")
    (form,) = make_forms(EditFile("a.py", "x", "y"), "/w")
    assert (form.input["old_string"], form.input["new_string"]) == ("x", "y")
    patch = "*** Begin Patch\n*** Delete File: a\n*** Update File: b\n*** Move to: c\n*** End Patch"
    forms = make_forms(ApplyPatch(patch), "/w")
    assert [form.input["file_path"] for form in forms] == ["/w/a", "/w/b", "/w/c"]
    assert all({"Edit", "Write", "apply_patch"} == form.names for form in forms)


def test_hooks_of_a_workspace_are_read_beside_other_settings() -> None:
    written = {
        "permissions": {},
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "a", "timeout": 5}]},
                {"matcher": "[", "hooks": [{"type": "command", "command": "b"}]},
                {"hooks": [{"type": "prompt", "prompt": "c"}]},
            ],
            "SessionStart": [{"hooks": [{"type": "command", "command": "d"}]}],
        },
    }
    found = parse_workspace_file("s", json.dumps(written).encode())
    assert found.hooks == (Hook("PreToolUse", "Bash", "a", 5, "s"),)
    assert len(found.problems) == 2, "a guard that cannot run here is told, not dropped"
    assert found.describe() == "PreToolUse (Bash): a"
    for other in (b"[]", b"{}", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}'):
        assert not parse_workspace_file("s", other).hooks
    assert parse_workspace_file("s", b"{").problems


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hooks:\n  PreTool:\n    - hooks: []\n", 2),
        ("hooks:\n  PreToolUse:\n    - matcher: '['\n      hooks: [{command: a}]\n", 3),
        ("hooks:\n  Stop:\n    - hooks:\n        - type: prompt\n          command: a\n", 4),
        ("hooks:\n  Stop:\n    - hooks:\n        - command: a\n          timeout: 9999\n", 5),
    ],
)
def test_mistakes_in_hooks_yml_are_told_by_line(tmp_path: Path, text: str, line: int) -> None:
    layout = Layout(str(tmp_path), str(tmp_path))
    file = Path(layout.hooks_settings)
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(layout)
    assert caught.value.problems[0].line == line
    file.write_text("hooks:\n  Stop:\n    - hooks:\n        - command: make test\n")
    assert list(list_own_hooks(load(layout))) == [Hook("Stop", "", "make test", 60, "hooks.yml")]
