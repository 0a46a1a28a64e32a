"""The public form of questions in answers and events."""

from agentd.chats.approval import Approval
from agentd.chats.views import ApprovalDetailView, make_approval_view

AT = "2026-01-01T00:00:00.000Z"


def test_an_open_question_shows_the_change_or_the_command() -> None:
    write = Approval(1, "write", "edit", "a.txt", AT, diff="--- a/a.txt")
    assert make_approval_view(write, 7).detail == ApprovalDetailView("diff", "--- a/a.txt")
    shell = Approval(1, "shell", "shell", "rm -r build", AT)
    assert make_approval_view(shell, 7).detail == ApprovalDetailView("command", "rm -r build")
    assert make_approval_view(Approval(1, "read", "read", "a", AT), 7).detail is None


def test_a_closed_question_has_no_details() -> None:
    closed = Approval(1, "shell", "shell", "make", AT, state="allowed")
    assert make_approval_view(closed, 7).detail is None
