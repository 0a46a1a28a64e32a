"""What a messenger shows of a chat's state."""

from agentd.bots.replies import render_approval
from agentd.chats.approval import Approval


def test_a_command_is_shown_with_all_its_lines_and_nothing_that_turns_it_around() -> None:
    asked = Approval(1, "shell", "shell", "echo '\u202ex fr- mr'\nls\t\u00fc", "")
    assert "```\necho '\\u202ex fr- mr'\nls\t\u00fc\n```" in render_approval(asked)
