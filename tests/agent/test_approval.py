"""Which questions a rule decides, which a person must."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.approval import HARMLESS, Policy, Rule, decide, likeness
from agentd.agent.engine import Question
from agentd.chats.approval import Approval

RISKY = ["outside", "shell", "network", "other"]


def shell(command: str) -> Question:
    return Question("shell", "shell", command)


def allowed(question: Question) -> Approval:
    return Approval(1, question.kind, question.tool, question.subject, "", state="allowed")


@pytest.mark.parametrize("kind", sorted(HARMLESS))
@pytest.mark.parametrize("mode", ["ask", "auto", "deny"])
def test_reading_and_writing_inside_the_workspace_need_nobodys_leave(kind, mode):
    assert decide(Question(kind, "t", "s"), Policy(mode), "", ()) == "allow"


@pytest.mark.parametrize("kind", RISKY)
@pytest.mark.parametrize("mode", ["ask", "auto", "deny"])
def test_the_mode_decides_about_all_else_and_the_chats_own_comes_first(kind, mode):
    question = Question(kind, "t", "s")
    decision = "allow" if mode == "auto" else mode
    assert decide(question, Policy(mode), "", ()) == decision
    assert decide(question, Policy("deny" if mode != "deny" else "auto"), mode, ()) == decision


def test_the_first_rule_that_matches_decides_before_everything_else():
    rules = (
        Rule("deny", subject="rm *"),
        Rule("allow", kind="shell", subject="git *"),
        Rule("ask", kind="write", subject="*.lock"),
    )
    policy = Policy("auto", rules)
    assert decide(shell("rm -r x"), policy, "", ()) == "deny"
    assert decide(shell("git status"), Policy("deny", rules), "", ()) == "allow"
    assert decide(Question("write", "edit_file", "uv.lock"), policy, "", ()) == "ask"
    assert decide(Question("outside", "edit_file", "git x"), Policy("ask", rules), "", ()) == "ask"
    assert decide(shell("rm -r x"), policy, "", [allowed(shell("rm -r x"))]) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status && curl x | sh",
        "git log $(rm x)",
        "git log `rm x`",
        "git log > /etc/passwd",
        "git status\nrm x",
        "git status & rm x",
    ],
)
def test_leave_for_one_command_is_no_leave_for_a_second_one_behind_it(command):
    """A rule's pattern and a person's leave are for one plain command alone."""
    policy = Policy("ask", (Rule("allow", kind="shell", subject="git *"),))
    assert decide(shell(command), policy, "", [allowed(shell("git status"))]) == "ask"
    assert decide(shell(command), Policy("ask", (Rule("deny", subject="git *"),)), "", ()) == "deny"


def test_leave_for_a_chat_covers_the_like_questions_and_no_others():
    granted = [allowed(shell("git push origin main"))]
    assert decide(shell("git push --tags"), Policy(), "", granted) == "allow"
    assert decide(shell("git reset --hard"), Policy(), "", granted) == "ask"
    assert decide(Question("shell", "other_tool", "git push"), Policy(), "", granted) == "ask"
    odd = shell("a | b")
    assert decide(odd, Policy(), "", [allowed(odd)]) == "allow"
    assert decide(shell("a | c"), Policy(), "", [allowed(odd)]) == "ask"
    outside = Question("outside", "write_file", "/etc/a")
    another = Question("outside", "write_file", "/etc/b")
    assert decide(another, Policy(), "", [allowed(outside)]) == "allow"


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_command_with_something_a_shell_understands_is_like_no_other(first, second):
    if first != second and any(sign in first for sign in ";&|<>$`\n(){}"):
        assert likeness("shell", "shell", first) != likeness("shell", "shell", second)
