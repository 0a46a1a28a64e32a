"""The code that the conversations with external programs share."""

import os
from pathlib import Path

import pytest

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.external.common import (
    CONTINUE_PROMPT,
    MAX_HISTORY_LENGTH,
    ONLY_PLANS,
    REPLACED,
    SENT_AGAIN,
    WITHDRAWN,
    ModelEndpoint,
    ToolAccess,
    WorkspaceBounds,
    build_first_prompt,
    build_resume_prompt,
    digest_instructions,
    explain_last_end,
    shorten,
)
from agentd.chats.model import Message
from agentd.chats.turns import CUT_OFF, INTERRUPTED, STOPPED, TOOL_INTERRUPTED
from agentd.system.protected_paths import ProtectedPlaces

BOUNDS = WorkspaceBounds("/home/someone/project")


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a.txt", True),
        ("/home/someone/project", True),
        ("/home/someone/project/src/a.py", True),
        ("src/../a.txt", True),
        ("../a.txt", False),
        ("/home/someone/project/../other", False),
        ("/home/someone/project-two/a", False),
        ("/etc/passwd", False),
        ("a\0b", False),
    ],
)
def test_a_path_is_inside_the_workspace_or_not(path: str, inside: bool) -> None:
    assert BOUNDS.contains(path) is inside


def test_one_path_outside_makes_a_change_outside_and_so_does_none_at_all() -> None:
    assert BOUNDS.classify_write(["a", "b/c"]) == ToolAccess("write")
    assert BOUNDS.classify_write(["a", "/srv/x"]) == ToolAccess("outside")
    assert BOUNDS.classify_write([]) == ToolAccess("outside")


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("a.txt", ONLY_PLANS),
        ("plans/a.md", ONLY_PLANS),
        ("/srv/x", ONLY_PLANS),
        ("/home/someone/.claude/plans/calm-lake.md", ""),
        ("/home/someone/.claude/plans/../settings.md", ONLY_PLANS),
        (".opencode/plans/1-calm-lake.md", ""),
        ("/home/someone/.local/share/opencode/plans/1-calm-lake.md", ""),
    ],
)
def test_a_chat_that_plans_changes_its_plan_only(path: str, refusal: str) -> None:
    planning = BOUNDS.follow_mode("plan")
    assert planning.classify_write([path]).refusal == refusal
    assert planning.classify_write([path, "b"]).refusal == ONLY_PLANS
    assert planning.classify_read([path]) == BOUNDS.classify_read([path])
    assert planning.follow_mode("").classify_write([path]) == BOUNDS.classify_write([path])


def test_a_program_reads_the_files_of_skills_as_those_of_the_workspace() -> None:
    bounds = WorkspaceBounds("/ws", protected=ProtectedPlaces(config="/c"))
    assert bounds.classify_read(["/c/skills/review/more.md", "a"]) == ToolAccess("read")
    assert bounds.classify_search(["/c/skills/review"]) == ToolAccess("read")
    assert bounds.classify_read(["/c/skills/review/../../models.yml"]).kind == "outside"
    assert bounds.classify_read(["/c/skills/review/.env"]).protected
    assert bounds.classify_write(["/c/skills/review/more.md"]).protected
    assert bounds.classify_write(["/c/skills/review/more.md"]).kind == "outside"


def test_a_link_out_of_the_workspace_is_seen_where_the_file_system_is_asked(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("/etc")
    folder = str(tmp_path / "work")
    assert WorkspaceBounds(folder).contains("link/hosts")
    assert not WorkspaceBounds(folder, os.path.realpath).contains("link/hosts")
    assert WorkspaceBounds(folder, os.path.realpath).contains("new/file")


def test_a_long_text_loses_its_middle_and_what_steers_a_terminal() -> None:
    result = shorten("a" * 50 + "b" * 50, most=20)
    assert result.startswith("a" * 10 + "\n") and result.endswith("\n" + "b" * 10)
    assert "80 characters" in result
    assert "\x1b" not in shorten("\x1b[31mred\x1b[0m")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/api/v4", "https://h/api/v4"),
    ],
)
def test_an_address_is_taken_with_its_version_or_without(url: str, base: str) -> None:
    assert ModelEndpoint(url, "sk-secret").base_url == base
    assert "sk-secret" not in repr(ModelEndpoint(url, "sk-secret"))


def test_a_new_session_is_shown_what_went_before() -> None:
    history = (
        Message(1, "user", "What is this?", ""),
        Message(2, "tool", "ls", "", tool="shell"),
        Message(3, "assistant", "A daemon.", ""),
    )
    result = build_first_prompt("Go on.", history, "Be terse.")
    assert (
        result.index("Be terse.") < result.index("User: What is this?") < result.index("A daemon.")
    )
    assert result.endswith("\n\nGo on.")
    assert "ls" not in result
    assert build_first_prompt("Go on.", ()) == "Go on."
    long = (Message(1, "user", "x" * 2 * MAX_HISTORY_LENGTH, ""),)
    assert len(build_first_prompt("p", long)) < MAX_HISTORY_LENGTH + 100


def test_a_session_that_goes_on_is_shown_what_was_said_with_other_engines() -> None:
    missed = (Message(3, "user", "Rename it to x.", ""), Message(4, "assistant", "It is x.", ""))
    history = (Message(1, "user", "Long known.", ""), *missed)
    result = build_resume_prompt(
        TurnRequest(1, "Go on.", history=history, missed=missed, instructions="Be terse."), ""
    )
    assert (
        result.index("Be terse.") < result.index("User: Rename it to x.") < result.index("It is x.")
    )
    assert result.endswith("\n\nGo on.") and "Long known." not in result
    assert build_resume_prompt(TurnRequest(1, "Go on.", history=history), "") == "Go on."
    assert build_resume_prompt(TurnRequest(1, "Go on.", is_retry=True), "") == CONTINUE_PROMPT


def test_a_session_that_perhaps_lacks_the_prompt_is_given_it_again() -> None:
    again = TurnRequest(1, "Do it.", is_retry=True, is_delivery_uncertain=True)
    assert build_resume_prompt(again, "") == f"{SENT_AGAIN}\n\nDo it."


TERSE, NONE = digest_instructions("Be terse."), digest_instructions("")


@pytest.mark.parametrize(
    ("known", "instructions", "told"),
    [
        (TERSE, "Be terse.", ""),
        (TERSE, "Be kind.", f"{REPLACED}\n\nBe kind."),
        (TERSE, "", WITHDRAWN),
        (NONE, "", ""),
        (NONE, "Be kind.", "Be kind."),
        ("", "", ""),
        ("", "Be kind.", "Be kind."),
    ],
)
def test_a_session_that_goes_on_is_told_which_instructions_no_longer_hold(
    known: str, instructions: str, told: str
) -> None:
    prompt = build_resume_prompt(TurnRequest(1, "Go on.", instructions=instructions), known)
    before = f"<instructions>\n{told}\n</instructions>\n\n" if told else ""
    assert prompt == f"{before}Go on."


def make_history(*told: tuple[str, str, str]) -> list[Message]:
    return [
        Message(number, role, text, "t", tool=tool)  # type: ignore[arg-type]
        for number, (role, tool, text) in enumerate(told, 1)
    ]


def test_a_session_is_told_that_its_last_turn_was_stopped_and_what_was_at_work() -> None:
    history = make_history(
        ("user", "", "go"),
        ("tool", "shell", "ls\n\na.txt"),
        ("tool", "shell", f"sleep 9\n\n{CUT_OFF}"),
        ("assistant", "", "I begin"),
        ("tool", "stop", STOPPED),
    )
    told = "[The person stopped the turn before while this was at work, and part of it may be done:"
    assert explain_last_end(history) == f"{told} shell: sleep 9.]"
    resumed = build_resume_prompt(TurnRequest(1, "And now?", history=tuple(history)), "")
    assert resumed == f"{told} shell: sleep 9.]\n\nAnd now?"


def test_a_session_is_told_that_the_daemon_was_killed_and_of_an_ordinary_end_nothing() -> None:
    killed = make_history(
        ("user", "", "go"), ("tool", "edit", f"a\n\n{TOOL_INTERRUPTED}"), ("error", "", INTERRUPTED)
    )
    assert explain_last_end(killed).startswith("[The turn before was interrupted while this was")
    assert "edit: a.]" in explain_last_end(killed)
    later = make_history(("user", "", "again"), ("assistant", "", "Done."))
    assert explain_last_end([*killed, *later]) == ""
    assert explain_last_end(make_history(("user", "", "go"), ("error", "", "No model."))) == ""
