"""The models that the real programs offer, asked for without a prompt."""

import shutil
from pathlib import Path

import pytest

from agentd.agent.engines.acp.launch import build_launch as acp_launch
from agentd.agent.engines.acp.model_list import AcpModelListing
from agentd.agent.engines.claude_code.launch import build_launch as claude_launch
from agentd.agent.engines.claude_code.model_list import ClaudeModelListing
from agentd.agent.engines.codex.launch import build_launch as codex_launch
from agentd.agent.engines.codex.model_list import CodexModelListing
from agentd.agent.engines.external.model_list import ModelListing
from tests.agent.engines.real.driving import Chat, Launcher
from tests.agent.engines.real.programs import CLAUDE, CODEX, MODEL, OPENCODE, make_place
from tests.agent.engines.real.test_plans import converse
from tests.supplier.supplier import Supplier

pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]


@pytest.mark.parametrize(
    ("program", "command", "launch", "wanted"),
    [
        (CODEX, (), codex_launch, "gpt-"),
        (CLAUDE, (), claude_launch, "sonnet"),
        (OPENCODE, ("acp",), acp_launch, f"agentd/{MODEL}"),
    ],
    ids=["codex", "claude", "opencode"],
)
async def test_a_program_lists_its_models_and_no_prompt_is_sent(
    tmp_path: Path, program: Path, command: tuple[str, ...], launch: Launcher, wanted: str
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")
    with Supplier() as supplier:
        chat = Chat(make_place(tmp_path), supplier, (str(program), *command), launch, converse)
        listing: ModelListing = AcpModelListing(str(chat.where.workspace))
        if program in (CODEX, CLAUDE):
            listing = CodexModelListing() if program == CODEX else ClaudeModelListing()
        names = await chat.engine.list_models(chat.make_request("Never sent."), listing)
        assert supplier.requests == []
    assert names
    assert any(name.startswith(wanted) for name in names), names
