"""Secrets in addresses and command lines of MCP servers are masked, and put back."""

import pytest

from agentd.agent.mcp_servers.launch_masking import (
    mask_address,
    mask_command,
    restore_address,
    restore_command,
)
from agentd.agent.mcp_servers.model import ReadyServer

KEY = "mint-0123456789abcdef"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://docs.example/mcp", "https://docs.example/mcp"),
        (f"https://docs.example/s/{KEY}/mcp", "https://docs.example/s/****cdef/mcp"),
        (f"https://docs.example?v=2&api_key={KEY}", "https://docs.example?v=2&api_key=****cdef"),
        ("https://docs.example/mcp?token=short", "https://docs.example/mcp?token=****"),
        ("https://ann:pass@docs.example/mcp", "https://****@docs.example/mcp"),
        (
            "https://docs.example/${SECRET_NUMBER_1}/mcp",
            "https://docs.example/${SECRET_NUMBER_1}/mcp",
        ),
    ],
)
def test_what_looks_like_a_key_in_an_address_is_masked(address: str, shown: str) -> None:
    assert mask_address(address) == shown
    assert restore_address(shown, address) == address


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("@modelcontextprotocol/server-github@2025.4.8", None),
        ("--token=${TOKEN}", None),
        ("--max-tokens=100", None),
        ("GITHUB_TOKEN", None),
        (f"--api-key={KEY}", "--api-key=****cdef"),
        (f"GITHUB_TOKEN={KEY}", "GITHUB_TOKEN=****cdef"),
        (f"Authorization: Bearer {KEY}", "Authorization: Bearer ****cdef"),
        (f"X-Api-Key:{KEY}", "X-Api-Key:****cdef"),
        ("sk-0123456789abcdefgh", "****efgh"),
        ("postgres://ann:pass@db/x", "postgres://****@db/x"),
        (f"--url=https://docs.example/s/{KEY}", "--url=https://docs.example/s/****cdef"),
    ],
)
def test_what_looks_like_a_key_in_an_argument_is_masked(argument: str, shown: str | None) -> None:
    command = ("serve", argument)
    masked = mask_command(command)
    assert masked == ("serve", argument if shown is None else shown)
    assert restore_command(masked, command) == command


def test_the_argument_after_an_option_for_a_secret_is_masked() -> None:
    command = ("serve", "--password", "short", "--api-key", "--verbose", "--key-file", "/a")
    masked = mask_command(command)
    assert masked == ("serve", "--password", "****", "--api-key", "--verbose", "--key-file", "/a")


def test_masked_arguments_may_be_moved_and_others_changed() -> None:
    stored = ("serve", "--token", KEY, "--name=a")
    shown = ("uvx", "serve", "--name=b", "--token", "****cdef")
    assert restore_command(shown, stored) == ("uvx", "serve", "--name=b", "--token", KEY)


def test_a_mask_that_stands_for_nothing_or_for_several_is_refused() -> None:
    stored = ("serve", "--token", "one", "--password", "two")
    assert restore_command(mask_command(stored), stored) == stored
    for shown in (("serve", "--token", "****"), ("serve", "--token=****cdef")):
        with pytest.raises(ValueError, match="send the argument itself"):
            restore_command(shown, stored)
    with pytest.raises(ValueError, match="send the whole address"):
        restore_address("https://other.example/s/****cdef", f"https://docs.example/s/{KEY}")


def test_what_a_program_says_is_told_without_the_keys_among_its_arguments() -> None:
    """Many programs print their arguments when they do not understand them."""
    command = ("serve", f"--api-key={KEY}", "--token", "tok-98", "postgres://ann:pass@db/x", "-v")
    server = ReadyServer("docs", command)
    assert server.hide_secrets(" ".join(command)) == (
        "serve --api-key=*** --token *** postgres://ann:***@db/x -v"
    )
