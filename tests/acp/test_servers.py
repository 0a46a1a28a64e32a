"""An editor's MCP servers are used in its chat, once a person has allowed them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.acp.servers import read_servers
from tests.acp.conftest import Start
from tests.acp.support import Editor
from tests.acp.test_restarts import MODELS, SETTINGS, DaemonProgram
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import HASH, Serving
from tests.support.paths import REPOSITORY

SERVER = REPOSITORY / "tests" / "agent" / "mcp_servers" / "sdk_server.py"
ARGUMENTS = ["-W", "ignore", str(SERVER), "stdio"]
SECRET = "mint-0123456789abcdef"
SHOP = {
    "name": "My shop",
    "command": sys.executable,
    "args": ARGUMENTS,
    "env": [{"name": "TOKEN", "value": SECRET}],
}
USE = ("mcp__My-shop__environment", {"name": "TOKEN"})


def test_servers_are_read_as_the_protocol_writes_them() -> None:
    header = {"name": "Authorization", "value": "Bearer x"}
    web = {"type": "http", "name": "-docs!", "url": "https://docs.example", "headers": [header]}
    assert read_servers({"mcpServers": [SHOP, web, 1, {"name": ""}]}) == {
        "My-shop": {"command": sys.executable, "args": ARGUMENTS, "env": {"TOKEN": SECRET}},
        "docs": {"url": "https://docs.example", "headers": {"Authorization": "Bearer x"}},
        "server": {"command": "", "args": [], "env": {}},
    }
    assert read_servers({}) == read_servers({"mcpServers": "x"}) == {}


def test_a_server_that_is_not_valid_is_told_and_the_session_goes_on(
    house: Serving, start: Start
) -> None:
    editor = start()
    editor.begin(session={"notices": {}})
    wrong = {"type": "sse", "name": "x", "url": "ftp://x", "headers": []}
    session = editor.call("session/new", cwd=str(editor.folder), mcpServers=[wrong])["sessionId"]
    editor.read_until(lambda: editor.list_updates("notice"))
    (notice,) = editor.list_updates("notice")
    assert "MCP servers are not used" in notice["title"] and '"x" is not valid' in notice["title"]
    assert editor.read_answer(editor.ask(session, "Hello"))["result"]["stopReason"] == "end_turn"
    assert "MCP servers are not used" in editor.end()[1]


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def program(tmp_path: Path, supplier: Supplier) -> Iterator[DaemonProgram]:
    config = tmp_path / "config"
    config.mkdir(mode=0o700)
    (tmp_path / "sub").mkdir()
    (config / "agentd.yml").write_text(SETTINGS.format(hash=HASH, folder=tmp_path, after="stop"))
    (config / "models.yml").write_text(MODELS.format(url=supplier.url))
    program = DaemonProgram(tmp_path)
    program.start()
    yield program
    program.kill()


def answer_question(editor: Editor) -> Any:
    """Allow what the editor is asked, and return the tool call."""
    request = editor.read_request()
    options = request["params"]["options"]
    chosen = next(one["optionId"] for one in options if one["kind"] == "allow_once")
    editor.respond(request, outcome={"outcome": "selected", "optionId": chosen})
    return request["params"]["toolCall"]


def test_an_allowed_server_is_used_in_the_editors_chat_also_after_a_restart(
    program: DaemonProgram, supplier: Supplier, start: Start, tmp_path: Path
) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    supplier.script(Call(*USE), Say("Read."), Call(*USE), Say("Again."))
    editor = start()
    editor.begin()
    made = editor.call("session/new", cwd=str(tmp_path / "sub"), mcpServers=[SHOP])
    asked = editor.ask(made["sessionId"], "Read it.")
    question = str(answer_question(editor))
    assert str(SERVER) in question and "TOKEN=****cdef" in question and SECRET not in question
    assert "environment" in str(answer_question(editor)), "each tool is asked about"
    assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}
    body = supplier.requests[1].body
    assert body["messages"][-1]["content"] == SECRET, "the server has its variable"
    assert "has opened the folder sub/ of the workspace" in str(body["messages"][0])
    program.kill()
    program.start()
    supplier_calls = len(supplier.requests)
    asked = editor.ask(made["sessionId"], "Again.")
    assert "environment" in str(answer_question(editor)), "the server is not asked about again"
    answer = editor.read_answer(asked)
    assert answer.get("result") == {"stopReason": "end_turn"}, answer
    assert len(supplier.requests) == supplier_calls + 2
    written = b"".join(one.read_bytes() for one in (tmp_path / "state").rglob("*.json"))
    assert SECRET.encode() not in written, "only in memory; the history has what the tool said"
