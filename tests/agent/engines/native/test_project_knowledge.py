"""The project's instructions: the root's come at once, a folder's when a tool first enters it."""

import asyncio
import os
from pathlib import Path

import pytest

from agentd.agent.engines.native.project_knowledge import (
    MAX_INSTRUCTIONS,
    ProjectFile,
    ProjectKnowledge,
    find_imports,
    render_instructions,
)
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.model import ReadFile
from agentd.agent.tools.results import FileText
from agentd.agent.tools.shell import ShellTerminal
from agentd.agent.tools.toolbox import Toolbox
from agentd.core.errors import Unavailable
from agentd.llm.conversation import ModelMessage, TextPart, ToolResult
from agentd.workspace.git.repository import GitRepository
from tests.agent.engines.native.scene import Scene, read_replies
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Refuse, Say, Step
from tests.supplier.supplier import Supplier


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    for folder in ("docs", "src/deep"):
        (work / folder).mkdir(parents=True)
    (work / "AGENTS.md").write_text("Use tabs. See @docs/style.md and @./none.md.\n")
    (work / "docs" / "style.md").write_text("Short lines. @../CLAUDE.md @more.md\n")
    (work / "docs" / "more.md").write_text("Loop to @style.md\n")
    (work / "CLAUDE.md").write_text("Be quick.\n")
    (work / "src" / "AGENTS.md").write_text("Types everywhere.\n")
    (work / "src" / "deep" / "CLAUDE.md").write_text("Deep rules.\n")
    (work / "src" / "deep" / "a.py").write_text("x = 1\n")
    return work


def make_knowledge(root: Path) -> ProjectKnowledge:
    text = str(root)
    tools = Toolbox(FolderWorkspace(text), GitRepository(text), ShellTerminal(text))
    return ProjectKnowledge(tools.read_unasked)


def test_the_roots_files_come_with_their_imports_each_once(root):
    files = asyncio.run(make_knowledge(root).read_root())
    assert [file.path for file in files] == ["AGENTS.md"]
    for piece in (
        "Use tabs.",
        "<docs/style.md>\nShort lines.",
        "<CLAUDE.md>\nBe quick.",
        "Loop to",
    ):
        assert files[0].text.count(piece) == 1


def test_a_folders_files_are_told_once_from_the_top_down(root):
    async def run_scenario() -> tuple[list[str], tuple[ProjectFile, ...]]:
        project = make_knowledge(root)
        await project.read_root()
        first = await project.read_for(["./src//deep/a.py"])
        return [file.path for file in first], await project.read_for(["src/deep/b.py", "src"])

    first, second = asyncio.run(run_scenario())
    assert first == ["src/AGENTS.md", "src/deep/CLAUDE.md"]
    assert second == ()


def test_what_the_conversation_tells_already_is_not_told_again(root):
    async def run_scenario() -> list[str]:
        project = make_knowledge(root)
        told = render_instructions(await project.read_for(["src/x.py"]))
        other = make_knowledge(root)
        other.mark_shown([ModelMessage("user", (ToolResult("1", (TextPart(told),)),))])
        return [file.path for file in await other.read_for(["src/deep/a.py"])]

    assert asyncio.run(run_scenario()) == ["src/deep/CLAUDE.md"]


def test_long_instructions_are_cut_and_say_so(root):
    (root / "AGENTS.md").write_text("y" * 1000 + "\n" + "z\n" * 390)
    (root / "CLAUDE.md").write_text("\n".join("w" * 1000 for _ in range(100)))
    first, second = asyncio.run(make_knowledge(root).read_root())
    assert not first.cut
    assert second.cut and len(second.text) == MAX_INSTRUCTIONS
    assert "only the beginning" in render_instructions([second])


@pytest.mark.parametrize("secret", ["../secret.md", ".env", "/etc/hosts", "link.md", "pipe.md"])
def test_an_import_shows_nothing_that_may_not_be_read_unasked(root, secret):

    (root.parent / "secret.md").write_text("canary")
    (root / ".env").write_text("canary")
    (root / "link.md").symlink_to("../secret.md")
    os.mkfifo(root / "pipe.md")
    (root / "AGENTS.md").write_text(f"Read @{secret} and @./{secret}\n")
    files = asyncio.run(make_knowledge(root).read_root())
    assert "canary" not in "".join(file.text for file in files)


def test_only_paths_outside_of_code_are_imports():
    text = "See @a/b.md, @c.md.\n`@no.md` me@host.org @user\n```\n@no.md\n```\n(@d.md)\n@../e.md"
    assert find_imports(text) == ["a/b.md", "c.md", "../e.md"]


def test_the_model_is_told_with_the_first_result_that_has_to_do_with_it(root):
    with Supplier() as supplier:
        supplier.script(
            [Call("read_file", {"path": "src/deep/a.py"}), Call("list_files", {"path": "src"})],
            Call("edit_file", {"path": "src/deep/a.py", "old": "1", "new": "2"}),
            Say("Done."),
        )
        Scene(root, supplier).run()
        first, second = (result.text for result in supplier.requests[1].results)
        assert "Types everywhere." in first and "Deep rules." in first
        assert "Types" not in second
        assert "Types" not in supplier.requests[2].results[0].text
        assert "Use tabs." in str(supplier.requests[0].body)


@pytest.mark.parametrize("summary", [Say("We read it."), Refuse(400, "No.")])
def test_instructions_that_a_full_context_left_out_are_told_again(root, summary):
    (root / "src" / "b.py").write_text("x = 1\n")
    (root / "long.txt").write_text("".join(f"{'w' * 90} {number}\n" for number in range(400)))
    paths = iter(["src/b.py", *["long.txt"] * 4, "src/b.py"])
    told: list[bool] = []

    def answer(request: Request) -> Step:
        if "Do not go on with the work" in request.prompt:
            return summary
        told.append("Types everywhere." in str(request.turns))
        path = next(paths, "")
        return Answer((Call("read_file", {"path": path}) if path else Say("Done."),), usage=None)

    with Supplier() as supplier:
        supplier.answer_always(answer)
        Scene(root, supplier).run(context=32_000)
    assert told[:2] == [False, True] and told[-2:] == [False, True]


def test_instructions_that_the_disk_does_not_give_end_no_turn(root):
    class FailingDisk(FolderWorkspace):
        async def read_file(self, wanted: ReadFile) -> FileText:  # type: ignore[override]
            if wanted.path == "src/AGENTS.md":
                raise Unavailable("src/AGENTS.md cannot be read: Input/output error.")
            return await super().read_file(wanted)

    with Supplier() as supplier:
        scene = Scene(root, supplier, workspace=FailingDisk(str(root)))
        supplier.script(Call("read_file", {"path": "src/deep/a.py"}), Say("Read."))
        assert read_replies(scene.run()) == ["Read."]
        (result,) = supplier.requests[-1].results
    assert "x = 1" in result.text
    assert "instructions for this place are missing: src/AGENTS.md cannot be read" in result.text
