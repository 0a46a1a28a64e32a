"""Unified diffs, checklists, prompts and questions in the protocol's form."""

import difflib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentd.acp.blocks import name_resource, read_prompt
from agentd.acp.permissions import make_question, read_decision
from agentd.acp.updates import find_kind, make_plan, make_title, parse_diff
from agentd.agent.diff import make_diff

LINES = st.lists(
    st.sampled_from(["a", "\f", "", "-- x", "++ y", "@@ -1 +1 @@", " c\u2028d"]), max_size=12
)


@given(LINES, LINES)
def test_the_parts_of_a_diff_are_the_lines_that_changed(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{one}\n" for one in old), "".join(f"{one}\n" for one in new)
    parts = list(parse_diff(make_diff("a.py", before, after)))
    for part in parts:
        assert part.path == "a.py"
        assert part.old is not None
        assert part.old in before
        assert part.new in after
    changed = [line for line in difflib.ndiff(old, new) if line[:1] in "+-"]
    assert bool(parts) == bool(changed)


def test_new_and_deleted_files_are_told_apart() -> None:
    (made,) = parse_diff(make_diff("a.py", None, "x = 1\n"))
    assert (made.path, made.old, made.new) == ("a.py", None, "x = 1\n")
    (gone,) = parse_diff(make_diff("a.py", "x = 1\n", None))
    assert (gone.path, gone.old, gone.new) == ("a.py", "x = 1\n", "")


@given(st.text())
def test_any_text_is_a_diff_without_parts_or_with_whole_ones(text: str) -> None:
    for part in parse_diff(f"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n{text}"):
        assert part.path


def test_a_text_without_a_checklist_is_no_plan() -> None:
    assert make_plan("Nothing to do.") is None
    plan = make_plan("- [X] a\n- [ ] b")
    assert plan
    assert [one["status"] for one in plan["entries"]] == ["completed", "pending"]


def test_tools_have_the_kinds_of_the_protocol() -> None:
    for tool, kind in (("Edit", "edit"), ("shell", "execute"), ("x", "other"), ("Task", "think")):
        assert find_kind(tool) == kind
    assert make_title("shell", "command=ls -l") == "ls -l"
    assert make_title("read_file", "path=a.py\nmore") == "read_file path=a.py"
    assert len(make_title("shell", "x" * 1000)) == 201


def test_files_of_the_workspace_are_named_relative_to_it() -> None:
    for uri, name in (
        ("file:///w/a%20b.py", "a b.py"),
        ("file:///w/a.py#L3", "a.py:3"),
        ("file:///w/a.py#L3:7", "a.py:3-7"),
        ("file:///wider/a.py", "/wider/a.py"),
        ("https://example.org/a", "https://example.org/a"),
    ):
        assert name_resource(uri, "/w") == name


def test_text_around_a_mention_stays_one_sentence() -> None:
    blocks = [
        {"type": "text", "text": "In "},
        {"type": "resource_link", "uri": "file:///w/a.py", "name": "a"},
        {"type": "text", "text": " fix it"},
    ]
    assert read_prompt({"prompt": blocks}, "/w").text == "In `a.py` fix it"


def make_approval(**more: Any) -> dict[str, Any]:
    """Return a question as the API gives it."""
    base = {"id": 5, "kind": "shell", "tool": "shell", "subject": "ls", "reason": "why"}
    return {**base, "choices": [], "detail": {"kind": "command", "text": "ls"}, **more}


def test_a_change_is_asked_about_with_its_diff() -> None:
    detail = {"kind": "diff", "text": make_diff("a.py", "x\n", "y\n")}
    asked = make_approval(kind="outside", tool="edit", subject="a.py", detail=detail)
    question = make_question("1", "call", asked, "/w", forms=True)
    (shown,) = question.params["toolCall"]["content"]
    assert (shown["type"], shown["path"], shown["oldText"]) == ("diff", "/w/a.py", "x\n")


def test_answers_that_are_none_decide_nothing() -> None:
    asked = make_approval()
    for outcome in ({}, {"outcome": "cancelled"}, {"outcome": "selected", "optionId": "x"}):
        assert read_decision(asked, {"outcome": outcome}) is None
    for option in ("choice-", "choice-9", "choice-x"):
        chosen = {"outcome": "selected", "optionId": option}
        assert read_decision(make_approval(kind="question"), {"outcome": chosen}) is None
    assert read_decision(asked, {"action": "cancel"}) is None
    assert read_decision(asked, {"action": "decline"}) == {"decision": "deny"}


def test_a_question_without_choices_says_where_to_answer_it() -> None:
    asked = make_approval(kind="question", tool="ask_person", subject="Why?", detail=None)
    question = make_question("1", "call", asked, "/w", forms=False)
    assert "agentd approve 5" in question.params["toolCall"]["content"][-1]["content"]["text"]
