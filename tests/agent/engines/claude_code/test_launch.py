"""The command that starts Claude Code: no value can pass for an option, no key is shown."""

import json
from typing import Any

import pytest

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import LONGEST_ARGUMENT, ClaudeState, build_launch
from agentd.agent.engines.external.common import ModelEndpoint, WorkspaceBounds
from agentd.agent.engines.external.conversation import SECRET_DESCRIPTOR, ProgramLaunch
from tests.agent.engines.claude_code.lines import accept_handshake

KEY = "sk-secret"


def launch(endpoint: ModelEndpoint | None = None, **more) -> ProgramLaunch:
    return build_launch(TurnRequest(1, "Do it.", **more), ("claude",), endpoint)


def read_settings(launched: ProgramLaunch) -> dict[str, Any]:
    """Return the settings that are given on the command line."""
    [result] = [one for one in launched.command if one.startswith("--settings=")]
    return json.loads(result.removeprefix("--settings="))


@pytest.mark.parametrize("endpoint", [None, ModelEndpoint("http://h:1", "sk-x")])
def test_it_asks_before_each_use_of_a_file(endpoint):
    """Our protection holds, whatever the person's own settings allow."""
    asking = read_settings(build_launch(TurnRequest(1, "p"), ("claude",), endpoint))["permissions"][
        "ask"
    ]
    assert {"Bash", "Read", "Edit", "Write", "Grep", "Glob"} <= set(asking)


def test_a_chat_can_choose_the_mode():
    assert "--permission-mode=plan" in launch(mode="plan").command


def test_it_speaks_in_lines_and_asks_over_its_control_channel():
    plain = [one for one in launch().command if not one.startswith("--settings=")]
    assert tuple(plain) == (
        *("claude", "--output-format", "stream-json", "--verbose"),
        *("--input-format", "stream-json", "--permission-prompt-tool", "stdio"),
        *("--setting-sources=user", "--include-partial-messages", "--permission-mode=default"),
        "--add-dir=.",
    )


def test_values_are_joined_to_their_options():
    given = {
        "model": "--dangerously-skip-permissions",
        "effort": "high",
        "instructions": "-x\0 y",
        "engine_state": str(ClaudeState("--help")),
    }
    assert launch(**given).command[-5:] == (
        "--model=--dangerously-skip-permissions",
        "--effort=high",
        "--append-system-prompt=-x\ufffd y",
        "--add-dir=.",
        "--resume=--help",
    )


def test_the_model_may_bring_its_own_program():
    assert launch(command=("/opt/claude", "--debug")).command[:2] == ("/opt/claude", "--debug")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8750/v1", "http://127.0.0.1:8750"),
        ("https://x.example/anthropic/", "https://x.example/anthropic"),
        ("https://notanthropic.com", "https://notanthropic.com"),
    ],
)
def test_a_supplier_is_informed_the_key_in_both_ways_by_a_helper_that_reads_a_descriptor(url, base):
    found = launch(ModelEndpoint(url, KEY))
    assert read_settings(found)["apiKeyHelper"] == f"cat /proc/$PPID/fd/{SECRET_DESCRIPTOR}"
    assert found.environment["ANTHROPIC_BASE_URL"] == base
    assert found.secret == KEY


def test_anthropic_takes_the_key_as_a_key():
    found = launch(ModelEndpoint("https://api.anthropic.com", KEY))
    assert found.environment["CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"] == SECRET_DESCRIPTOR
    assert "apiKeyHelper" not in read_settings(found)
    assert found.secret == KEY


@pytest.mark.parametrize("url", ["https://api.anthropic.com", "http://127.0.0.1:8750/v1"])
def test_the_key_is_in_no_argument_and_in_no_variable(url):
    found = launch(ModelEndpoint(url, KEY))
    assert KEY not in " ".join([*found.command, *found.environment.values()])
    assert KEY not in repr(found)


def test_without_a_key_the_persons_own_sign_in_goes_to_nobody_else():
    found = launch(ModelEndpoint("http://x.example"))
    assert read_settings(found)["env"]["ANTHROPIC_AUTH_TOKEN"] == "none"


def test_its_own_sign_in_needs_nothing():
    found = launch()
    assert set(read_settings(found)) == {"permissions"}
    assert not any(name.startswith("ANTHROPIC") for name in found.environment)


def test_instructions_too_long_for_an_argument_stand_before_the_first_prompt():
    long = "x" * (LONGEST_ARGUMENT + 1)
    assert not any("append-system-prompt" in one for one in launch(instructions=long).command)
    one = ClaudeConversation(
        TurnRequest(1, "Do it.", instructions=long), WorkspaceBounds("/ws"), launch()
    )
    (sent,) = one.on_line(accept_handshake())
    assert long.encode() in sent.line
    short = ClaudeConversation(
        TurnRequest(1, "Do it.", instructions="y"), WorkspaceBounds("/ws"), launch()
    )
    (sent,) = short.on_line(accept_handshake())
    assert b"instructions" not in sent.line
