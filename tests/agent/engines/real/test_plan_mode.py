"""While a chat plans, the real programs change no file, though their models try to."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from agentd.agent.engine import Question
from agentd.agent.engines.acp.launch import build_launch as acp_launch
from agentd.agent.engines.claude_code.launch import build_launch as claude_launch
from agentd.agent.engines.codex.launch import build_launch as codex_launch
from agentd.agent.engines.external.common import ONLY_PLANS
from tests.agent.engines.real.codex_talks import PATCH
from tests.agent.engines.real.driving import Chat, Launcher
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import CLAUDE, CODEX, OPENCODE, make_place
from tests.agent.engines.real.test_plans import converse
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier

pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]

Writer: TypeAlias = Callable[[Path], list[Call]]


def write_in_claude(folder: Path) -> list[Call]:
    return [Call("Write", {"file_path": str(folder / "made.txt"), "content": "x"})]


def write_in_opencode(folder: Path) -> list[Call]:
    notes = {"filePath": str(folder / "notes.txt"), "oldString": "one", "newString": "uno"}
    write = {"filePath": str(folder / "made.txt"), "content": "x"}
    return [Call("edit", notes), Call("write", write)]


def write_in_codex(_: Path) -> list[Call]:
    return [Call("exec_command", {"cmd": PATCH})]


def is_possible(question: Question) -> bool:
    """Return whether a person can allow it."""
    return not question.refusal


@pytest.mark.parametrize(
    ("program", "command", "launch", "write"),
    [
        pytest.param(CODEX, (), codex_launch, write_in_codex, id="codex"),
        pytest.param(OPENCODE, ("acp",), acp_launch, write_in_opencode, id="opencode"),
        pytest.param(CLAUDE, (), claude_launch, write_in_claude, id="claude-code"),
    ],
)
async def test_no_file_is_changed_while_a_chat_plans(
    tmp_path: Path, program: Path, command: tuple[str, ...], launch: Launcher, write: Writer
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")
    with Supplier() as supplier:
        supplier.answer_always(*([answer_title] if program == OPENCODE else []))
        chat = Chat(make_place(tmp_path), supplier, (str(program), *command), launch, converse)
        chat.decide = is_possible
        supplier.script(*write(chat.where.workspace), Say("A plan."))
        await chat.run_turn("Plan it.", mode="plan")
    assert chat.asked and {asked.refusal for asked in chat.asked} == {ONLY_PLANS}
    assert chat.where.notes.read_text() == "one\ntwo\n"
    assert not (chat.where.workspace / "made.txt").exists()
