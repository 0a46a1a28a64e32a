"""How Claude Code is started: nothing that is given can be taken for an option, no key is shown."""

import json
from typing import Any

import pytest

from agentd.agent.claude_code.conversation import ClaudeConversation
from agentd.agent.claude_code.launch import LONGEST_ARGUMENT, Memory, launch
from agentd.agent.conversation import SECRET_DESCRIPTOR, Launch
from agentd.agent.engine import Assignment
from agentd.agent.foreign import Bounds, Endpoint
from tests.agent.claude_code.lines import ready

KEY = "sk-secret"


def started(endpoint: Endpoint | None = None, **more) -> Launch:
    return launch(Assignment(1, "Do it.", **more), ("claude",), endpoint)


def settings(launched: Launch) -> dict[str, Any]:
    """The settings that are given on the command line."""
    [told] = [one for one in launched.command if one.startswith("--settings=")]
    return json.loads(told.removeprefix("--settings="))


@pytest.mark.parametrize("endpoint", [None, Endpoint("http://h:1", "sk-x")])
def test_it_asks_before_each_use_of_a_file(endpoint):
    """What is protected is our matter, whatever the person's own settings allow."""
    asking = settings(launch(Assignment(1, "p"), ("claude",), endpoint))["permissions"]["ask"]
    assert {"Bash", "Read", "Edit", "Write", "Grep", "Glob"} <= set(asking)


def test_it_speaks_in_lines_and_asks_over_its_control_channel():
    plain = [one for one in started().command if not one.startswith("--settings=")]
    assert tuple(plain) == (
        *("claude", "--output-format", "stream-json", "--verbose"),
        *("--input-format", "stream-json", "--permission-prompt-tool", "stdio"),
        *("--permission-mode=default", "--setting-sources=user", "--include-partial-messages"),
        "--add-dir=.",
    )


def test_values_are_joined_to_their_options():
    given = {
        "model": "--dangerously-skip-permissions",
        "effort": "high",
        "instructions": "-x\0 y",
        "memory": str(Memory("--help")),
    }
    assert started(**given).command[-5:] == (
        "--model=--dangerously-skip-permissions",
        "--effort=high",
        "--append-system-prompt=-x\ufffd y",
        "--add-dir=.",
        "--resume=--help",
    )


def test_the_model_may_bring_its_own_program():
    assert started(command=("/opt/claude", "--debug")).command[:2] == ("/opt/claude", "--debug")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8750/v1", "http://127.0.0.1:8750"),
        ("https://x.example/anthropic/", "https://x.example/anthropic"),
        ("https://notanthropic.com", "https://notanthropic.com"),
    ],
)
def test_a_supplier_is_told_the_key_in_both_ways_by_a_helper_that_reads_a_descriptor(url, base):
    found = started(Endpoint(url, KEY))
    assert settings(found)["apiKeyHelper"] == f"cat /proc/$PPID/fd/{SECRET_DESCRIPTOR}"
    assert found.environment["ANTHROPIC_BASE_URL"] == base
    assert found.secret == KEY


def test_anthropic_takes_the_key_as_a_key():
    found = started(Endpoint("https://api.anthropic.com", KEY))
    assert found.environment["CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"] == SECRET_DESCRIPTOR
    assert "apiKeyHelper" not in settings(found)
    assert found.secret == KEY


@pytest.mark.parametrize("url", ["https://api.anthropic.com", "http://127.0.0.1:8750/v1"])
def test_the_key_is_in_no_argument_and_in_no_variable(url):
    found = started(Endpoint(url, KEY))
    assert KEY not in " ".join([*found.command, *found.environment.values()])
    assert KEY not in repr(found)


def test_without_a_key_the_persons_own_sign_in_goes_to_nobody_else():
    found = started(Endpoint("http://x.example"))
    assert settings(found)["env"]["ANTHROPIC_AUTH_TOKEN"] == "none"


def test_its_own_sign_in_needs_nothing():
    found = started()
    assert set(settings(found)) == {"permissions"}
    assert not any(name.startswith("ANTHROPIC") for name in found.environment)


def test_instructions_too_long_for_an_argument_stand_before_the_first_prompt():
    long = "x" * (LONGEST_ARGUMENT + 1)
    assert not any("append-system-prompt" in one for one in started(instructions=long).command)
    one = ClaudeConversation(Assignment(1, "Do it.", instructions=long), Bounds("/ws"), started())
    (sent,) = one.heard(ready())
    assert long.encode() in sent.line
    short = ClaudeConversation(Assignment(1, "Do it.", instructions="y"), Bounds("/ws"), started())
    (sent,) = short.heard(ready())
    assert b"instructions" not in sent.line
