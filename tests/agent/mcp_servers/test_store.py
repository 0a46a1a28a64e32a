"""``mcp.yml``: what it may say, its secrets, and a workspace's ``.mcp.json``."""

from pathlib import Path

import pytest

from agentd.agent.mcp_servers.model import (
    McpServerSettings,
    McpSettings,
    expand,
    keep_masked,
    mask_server,
    parse_project_file,
)
from agentd.agent.mcp_servers.store import load, open_entries, prepare_server
from agentd.core.errors import ConfigError
from agentd.storage.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path))


def write(layout: Layout, text: str, mode: int = 0o600) -> None:
    path = Path(layout.mcp_settings)
    path.write_text(text)
    path.chmod(mode)


def test_without_a_file_there_are_no_servers(layout: Layout) -> None:
    assert load(layout) == McpSettings()


def test_each_problem_is_told_with_its_line(layout: Layout) -> None:
    write(
        layout,
        'servers:\n- name: a b\n  command: [x]\n- {name: c, command: [x], url: "http://x"}\n'
        '- {name: d, command: [x]}\n- {name: d, url: "http://127.0.0.1:1/mcp"}\n',
    )
    with pytest.raises(ConfigError) as caught:
        load(layout)
    told = [(problem.line, problem.what) for problem in caught.value.problems]
    assert [line for line, _ in told] == [2, 4]
    assert "either a command or a url" in told[1][1]


def test_two_servers_of_one_name_are_refused(layout: Layout) -> None:
    write(layout, "servers:\n- {name: d, command: [x]}\n- {name: d, command: [y]}\n")
    with pytest.raises(ConfigError, match="already the name"):
        load(layout)


def test_a_file_that_others_can_read_is_refused(layout: Layout) -> None:
    write(layout, "servers: []\n", 0o644)
    with pytest.raises(ConfigError, match="read"):
        load(layout)


def test_secrets_are_filled_in_and_never_shown(layout: Layout) -> None:
    key = Path(layout.config) / "key"
    key.write_text("from-a-file\n")
    key.chmod(0o600)
    env = {
        "A": "env:TEA",
        "B": f"file:{key}",
        "C": "x ${TEA} ${NONE:-none}",
        "D": "plain-secret-0123456789",
    }
    server = McpServerSettings(name="a", command=("run", "${TEA}"), env=env)
    ready = prepare_server(server, {"TEA": "mint"})
    assert ready.env == {"A": "mint", "B": "from-a-file", "C": "x mint none", "D": env["D"]}
    assert ready.command == ("run", "mint")
    assert "mint" not in repr(ready) and "plain" not in repr(server)
    shown = mask_server(server)["env"]
    assert shown == {"A": "env:TEA", "B": f"file:{key}", "C": "****one}", "D": "****6789"}
    assert keep_masked({**shown, "E": "new"}, env) == {**env, "E": "new"}


def test_a_missing_variable_is_named(layout: Layout) -> None:
    server = McpServerSettings(name="a", url="https://x.example/${WAY}")
    with pytest.raises(ConfigError, match="WAY is not set"):
        prepare_server(server, {})


def test_an_edit_keeps_comments_and_the_files_mode(layout: Layout) -> None:
    write(layout, "# mine\nservers:\n- name: a  # the first\n  command: [x]\n")
    entries = open_entries(layout)
    entries.add(McpServerSettings(name="b", url="http://127.0.0.1:1/mcp"))
    entries.change("a", lambda one: McpServerSettings(name="a", command=("x",), enabled=False))
    text = Path(layout.mcp_settings).read_text()
    assert "# mine" in text and "# the first" in text
    assert [(one.name, one.enabled) for one in load(layout).all] == [("a", False), ("b", True)]
    assert Path(layout.mcp_settings).stat().st_mode & 0o777 == 0o600


def test_the_file_of_a_workspace_is_read_as_the_field_writes_it() -> None:
    text = b'{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "${K}"}},'
    text += b'"b": {"type": "http", "url": "${HOST}/mcp", "headers": {"H": "1"}},'
    text += b'"c": {"type": "sse", "url": "https://x.example"}, "d": {"command": 5}, "e e": {}}}'
    servers, problems = parse_project_file(text)
    assert [one.server.name for one in servers] == ["a", "b"]
    assert servers[0].server.command == ("npx", "-y", "x")
    assert len(problems) == 3 and "the transport sse" in problems[0]


def test_a_change_of_a_command_changes_the_digest() -> None:
    def digest(argument: str) -> str:
        text = f'{{"mcpServers": {{"a": {{"command": "x", "args": ["{argument}"]}}}}}}'
        return parse_project_file(text.encode())[0][0].digest

    assert digest("1") != digest("2") and digest("1") == digest("1")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"mcpServers": 1}', b"\xff", b"[" * 100_000])
def test_a_broken_file_of_a_workspace_is_told(text: bytes) -> None:
    servers, problems = parse_project_file(text)
    assert not servers and len(problems) == 1


def test_variables_have_defaults() -> None:
    missing: list[str] = []
    assert expand("${A}-${B:-2}-${C:-}-$D-${E}", {"A": "1"}, missing) == "1-2--$D-"
    assert missing == ["E"]
