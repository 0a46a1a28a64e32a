"""Prompts of MCP servers: how they are listed, and how what is typed becomes their arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.mcp_servers.messages import (
    MOST_ARGUMENTS,
    PromptArgument,
    ServerPrompt,
    read_prompt,
    read_prompt_result,
)
from agentd.agent.mcp_servers.prompts import fill_arguments
from agentd.core.errors import BadRequest

FIX = ServerPrompt(
    "fix", "Fix it.", (PromptArgument("file", True), PromptArgument("how", False))
)  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "filled"),
    [
        ("a.py", {"file": "a.py"}),
        ("'my file.py' well", {"file": "my file.py", "how": "well"}),
        ("a.py very well indeed", {"file": "a.py", "how": "very well indeed"}),
        ("how=well a.py", {"file": "a.py", "how": "well"}),
        ("x=1", {"file": "x=1"}),
        ("it's a.py", {"file": "it's", "how": "a.py"}),
    ],
)
def test_what_is_typed_fills_the_arguments(typed: str, filled: dict[str, str]) -> None:
    assert fill_arguments("shop", FIX, typed) == filled


def test_a_missing_argument_is_named_with_what_to_write() -> None:
    with pytest.raises(BadRequest) as found:
        fill_arguments("shop", FIX, "how=well")
    assert found.value.message == "The prompt fix of shop: file is missing"
    assert found.value.details == "Write /shop:fix file [how]"


def test_arguments_of_a_prompt_without_any_are_refused() -> None:
    prompt = ServerPrompt("menu", "", ())
    assert fill_arguments("shop", prompt, " ") == {}
    with pytest.raises(BadRequest, match="takes no arguments"):
        fill_arguments("shop", prompt, "please")


@given(st.text(max_size=80))
def test_nothing_that_is_typed_is_lost_or_breaks_it(typed: str) -> None:
    prompt = ServerPrompt("say", "", (PromptArgument("what", False),))
    filled = fill_arguments("shop", prompt, typed)
    assert set(filled) <= {"what"}
    if typed.split() and not set(typed) & set("\"'\\#="):
        assert filled["what"].split() == typed.split()


def test_a_prompt_of_a_list_is_read_with_its_bounds() -> None:
    many = [{"name": f"a{number}"} for number in range(50)]
    given_ = {"name": "fix", "title": "Fix", "arguments": [{"name": "x", "required": True}, *many]}
    found = read_prompt(given_)
    assert found and found.description == "Fix"
    assert len(found.arguments) == MOST_ARGUMENTS
    assert found.hint.startswith("x [a0] [a1]")


@pytest.mark.parametrize("name", [None, "", 7, "two words", "/x", "a" * 101, "ä"])
def test_a_prompt_whose_name_cannot_be_typed_is_left_out(name: object) -> None:
    assert read_prompt({"name": name}) is None


def test_the_texts_of_all_messages_are_the_prompt() -> None:
    messages = [
        {"role": "user", "content": {"type": "text", "text": "Look at this:"}},
        {"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": "AA=="}},
        {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
        {"role": "user", "content": "no object"},
    ]
    text = read_prompt_result({"messages": messages})
    assert text.startswith("Look at this:\n") and "Gladly." in text
