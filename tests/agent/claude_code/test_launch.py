"""How Claude Code is started: nothing that is given can be taken for an option, no key is shown."""

import pytest

from agentd.agent.claude_code.conversation import ClaudeConversation
from agentd.agent.claude_code.launch import LONGEST_ARGUMENT, Memory, launch
from agentd.agent.conversation import Launch
from agentd.agent.engine import Assignment
from agentd.agent.foreign import Bounds, Endpoint
from tests.agent.claude_code.lines import ready

KEY = "sk-secret"


def started(endpoint: Endpoint | None = None, **more) -> Launch:
    return launch(Assignment(1, "Do it.", **more), ("claude",), endpoint)


def test_it_speaks_in_lines_and_asks_over_its_control_channel():
    assert started().command == (
        *("claude", "--output-format", "stream-json", "--verbose"),
        *("--input-format", "stream-json", "--permission-prompt-tool", "stdio"),
        *("--permission-mode=default", "--setting-sources=user", "--include-partial-messages"),
    )


def test_values_are_joined_to_their_options():
    given = {
        "model": "--dangerously-skip-permissions",
        "effort": "high",
        "instructions": "-x\0 y",
        "memory": str(Memory("--help")),
    }
    assert started(**given).command[-4:] == (
        "--model=--dangerously-skip-permissions",
        "--effort=high",
        "--append-system-prompt=-x\ufffd y",
        "--resume=--help",
    )


def test_the_model_may_bring_its_own_program():
    assert started(command=("/opt/claude", "--debug")).command[:2] == ("/opt/claude", "--debug")


@pytest.mark.parametrize(
    ("url", "base", "name"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("http://127.0.0.1:8750/v1", "http://127.0.0.1:8750", "ANTHROPIC_AUTH_TOKEN"),
        ("https://x.example/anthropic/", "https://x.example/anthropic", "ANTHROPIC_AUTH_TOKEN"),
        ("https://notanthropic.com", "https://notanthropic.com", "ANTHROPIC_AUTH_TOKEN"),
    ],
)
def test_the_supplier_is_reached_with_a_key_that_only_the_environment_has(url, base, name):
    found = started(Endpoint(url, KEY))
    assert found.environment["ANTHROPIC_BASE_URL"] == base
    assert found.environment[name] == KEY
    assert list(found.environment.values()).count(KEY) == 1
    assert found.environment["CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"] == "1"
    assert KEY not in "".join(found.command)


def test_without_a_key_the_persons_own_sign_in_goes_to_nobody_else():
    assert started(Endpoint("http://x.example")).environment["ANTHROPIC_AUTH_TOKEN"] == "none"


def test_its_own_sign_in_needs_nothing():
    assert started().environment == {"DISABLE_AUTOUPDATER": "1"}


def test_instructions_too_long_for_an_argument_stand_before_the_first_prompt():
    long = "x" * (LONGEST_ARGUMENT + 1)
    assert not any("append-system-prompt" in one for one in started(instructions=long).command)
    one = ClaudeConversation(Assignment(1, "Do it.", instructions=long), Bounds("/ws"), started())
    (sent,) = one.heard(ready())
    assert long.encode() in sent.line
    short = ClaudeConversation(Assignment(1, "Do it.", instructions="y"), Bounds("/ws"), started())
    (sent,) = short.heard(ready())
    assert b"instructions" not in sent.line
