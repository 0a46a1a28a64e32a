"""What a messenger shows of a chat's state."""

from agentd.bots.replies import render_approval
from agentd.chats.approval import Approval


def test_a_command_is_shown_with_all_its_lines_and_nothing_that_turns_it_around() -> None:
    asked = Approval(1, "shell", "shell", "echo '\u202ex fr- mr'\nls\t\u00fc", "")
    assert "```\necho '\\u202ex fr- mr'\nls\t\u00fc\n```" in render_approval(asked)


def test_what_the_agent_asks_a_person_is_no_request_for_a_permission() -> None:
    asked = Approval(1, "question", "ask_person", "Which *name*?\n- \u202ea", "")
    assert render_approval(asked) == (
        "**The agent asks you**\nWhich \\*name\\*?\n\\- \\\\u202ea\nAnswer with: /answer TEXT"
    )
