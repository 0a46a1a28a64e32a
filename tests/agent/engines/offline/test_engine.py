"""The offline engine over real folders and the real git."""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.agent.engine import (
    ApprovalAnswer,
    Engine,
    EngineEvent,
    Question,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.engines.offline.engine import OfflineEngine
from agentd.agent.engines.offline.markdown import (
    escape_cell,
    format_size,
    render_code,
    render_code_block,
    render_table,
)
from agentd.agent.engines.offline.replies import extract_introduction
from agentd.agent.engines.offline.understanding import COMMANDS
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.shell import ShellTerminal
from agentd.agent.tools.toolbox import Toolbox
from agentd.chats.model import Message
from agentd.llm.price import NO_USAGE
from agentd.models.store import load
from agentd.storage.layout import Layout
from agentd.workspace.git.repository import GitRepository
from tests.conftest import until
from tests.support.examples import limit_examples
from tests.support.waiting import wait_until_gone

README = """\
<p align="center"><img src="x.png"></p>

# Kettle

[![build](https://example.org/b.svg)](https://example.org)

Kettle boils water,
and stops.

More is not to be shown.
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    """A small project under git, with one change that is not committed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "README.md").write_text(README)
    (work / "src" / "kettle.py").write_text(
        '"""Boils."""\n\n\ndef boil(water: str) -> None:\n    """Heat it."""\n    # TODO: heat\n'
    )
    (work / "src" / "main.py").write_text("from kettle import boil\n\nboil('tap')\n")
    (work / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    for arguments in (
        "init -q -b main",
        "config user.name Ada",
        "config user.email ada@example.org",
        "add -A",
        "commit -qm First",
    ):
        subprocess.run(["git", *arguments.split()], cwd=work, check=True)
    (work / "src" / "main.py").write_text("from kettle import boil\n\nboil('well')\n")
    return work


class Rule:
    """An approver that answers all alike, and keeps what it was asked."""

    def __init__(self, *, allow: bool) -> None:
        self.answer = ApprovalAnswer(allow, reason="" if allow else "Not today.")
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> ApprovalAnswer:
        self.asked.append(question)
        return self.answer


def make_engine(root: Path) -> OfflineEngine:
    workspace = FolderWorkspace(str(root))
    tools = Toolbox(workspace, GitRepository(str(root)), ShellTerminal(str(root)))
    return OfflineEngine(tools)


def run(
    root: Path, prompt: str, approver: Rule | None = None, earlier: tuple[str, ...] = ()
) -> list[EngineEvent]:
    """Return the events of a turn, without those of a tool's start: those of its end say more."""
    rule = approver or Rule(allow=False)
    history = tuple(
        Message(number, role, text, "2026-01-01T00:00:00.000Z")
        for number, said in enumerate(earlier)
        for role, text in (("user", said), ("assistant", "list files"))
    )

    async def wait() -> list[EngineEvent]:
        stream = make_engine(root).run(TurnRequest(1, prompt, history=history), rule)
        async with asyncio.timeout(60), aclosing(stream) as result:
            return [progress async for progress in result if not isinstance(progress, ToolStarted)]

    return asyncio.run(wait())


def ask(root: Path, prompt: str) -> str:
    """Return the reply alone."""
    *used, reply = run(root, prompt)
    assert all(isinstance(progress, ToolUsed) for progress in used)
    assert isinstance(reply, ReplyCompleted)
    return reply.text


def test_it_is_an_engine_and_its_replies_cost_nothing(root):
    it: Engine = make_engine(root)
    assert it.name == "offline"
    reply = run(root, "list files")[-1]
    assert isinstance(reply, ReplyCompleted)
    assert (reply.usage, reply.cost) == (NO_USAGE, None)


def test_each_tool_use_is_reported_with_what_it_was_given_and_brought(root):
    assert run(root, "read src/main.py lines 1-2")[:-1] == [
        ToolUsed("read_file", "path=src/main.py last=2", "2 of 3 lines")
    ]
    assert run(root, "find boil in src")[0] == ToolUsed(
        "search_text", "text=boil path=src", "4 lines in 2 files"
    )


def test_help_lists_every_command_and_says_that_it_is_no_model(root):
    reply = ask(root, "help")
    assert "no language model" in reply
    assert "engine:" in reply
    assert all(f"`/{command.name}" in reply for command in COMMANDS)


def test_what_is_not_understood_is_said_with_the_help(root):
    reply = ask(root, "sing me a song")
    assert reply.startswith("I did not understand `sing me a song`.")
    assert "/search TEXT" in reply
    assert run(root, "sing me a song")[:-1] == []


def test_what_it_does_not_do_is_refused_honestly(root):
    before = sorted(os.walk(root))
    assert "I did not run `run the tests`" in ask(root, "run the tests")
    assert "`/run pytest -q`" in ask(root, "pytest -q")
    assert "takes a language model" in ask(root, "delete src/main.py")
    assert sorted(os.walk(root)) == before


def test_a_command_line_is_run_when_that_was_allowed(root):
    rule = Rule(allow=True)
    used, reply = run(root, "run echo hi > x; cat x; pwd", rule)
    command = "echo hi > x; cat x; pwd"
    assert rule.asked == [Question("shell", "shell", command)]
    assert used == ToolUsed("shell", f"command={command}", "exit code 0, 2 lines")
    assert isinstance(reply, ReplyCompleted)
    assert reply.text == f"`{command}` succeeded:\n\n```\nhi\n{root}\n```"
    failed = run(root, "/run echo no >&2; exit 3", rule)[-1]
    assert isinstance(failed, ReplyCompleted)
    assert "failed with exit code 3:\n\n```\nno\n```" in failed.text
    silent = run(root, "$ true", rule)[-1]
    assert silent == ReplyCompleted("`true` succeeded, without output.")


def test_a_command_line_that_was_not_allowed_is_not_run(root):
    used, reply = run(root, "/run touch x", Rule(allow=False))
    assert used == ToolUsed(
        "shell", "command=touch x", "failed: This was not allowed: Not today.", ok=False
    )
    assert isinstance(reply, ReplyCompleted)
    assert "This was not allowed: Not today." in reply.text
    assert not (root / "x").exists()


def test_a_project_is_described_from_what_lies_in_it(root):
    reply = ask(root, "what is this project?")
    assert "> **Kettle**" in reply
    assert "> Kettle boils water, and stops." in reply
    assert "More is not" not in reply
    assert "img" not in reply
    assert "build" not in reply
    assert "| `.py` | 2 | 9 |" in reply
    assert "`src/`" in reply
    assert "on branch `main`, 1 changed file" in reply


def test_a_folder_without_readme_or_git_is_described_too(tmp_path):
    reply = ask(tmp_path, "what is this?")
    assert "no README" in reply
    assert "**Size**: 0 files" in reply
    assert "Git" not in reply


def test_files_are_listed(root):
    reply = ask(root, "list files")
    assert "2 files" in reply
    assert "src/\n" in reply
    assert re.search(r"^README\.md +\d+ B$", reply, re.MULTILINE)


def test_a_file_is_shown_in_its_language(root):
    reply = ask(root, "show me src/main.py")
    assert reply.startswith("`src/main.py` (3 lines, ")
    assert "```python\nfrom kettle import boil\n\nboil('well')\n```" in reply


def test_a_name_alone_is_a_file_or_a_folder(root):
    assert "```markdown" in ask(root, "README.md")
    assert "kettle.py" in ask(root, "src/")
    assert "```markdown" in ask(root, "what is in README.md?")


def test_a_long_file_says_how_to_see_the_rest_and_the_way_works(root):
    reply = ask(root, "read long.txt")
    assert "lines 1–400 of 1,000 lines" in reply
    following = re.search(r"The next lines: `(.+)`", reply)
    assert following
    reply = ask(root, following[1])
    assert "lines 401–800" in reply
    assert "line 401\n" in reply
    last = ask(root, "last 2 lines of long.txt")
    assert "line 999\nline 1000\n" in last
    assert "next lines" not in last
    assert "no line 2000" in ask(root, "line 2000 of long.txt")


def test_a_file_elsewhere_is_found_by_its_name(root):
    assert "def boil" in ask(root, "read kettle.py")
    assert "# Kettle" in ask(root, "show me the readme")
    assert "def boil" in ask(root, "outline kettle.py")
    (root / "other").mkdir()
    (root / "other" / "kettle.py").write_text("")
    reply = ask(root, "read kettle.py")
    assert "Perhaps one of these" in reply
    assert "- `src/kettle.py`" in reply
    assert "There is no tea.py" in ask(root, "read tea.py")


def test_a_search_shows_file_and_line(root):
    reply = ask(root, "find TODO")
    assert "1 line with `TODO`, in 1 file" in reply
    assert "src/kettle.py:6: # TODO: heat" in reply
    assert "`nothing_at_all` is nowhere" in ask(root, "search for nothing_at_all")


def test_many_hits_say_how_many_more_there_are(root):
    assert "first 100 of 200" in ask(root, "search for line in long.txt")


def test_a_definition_is_distinguished_from_uses(root):
    reply = ask(root, "where is boil defined?")
    assert "src/kettle.py:4: def boil(water: str) -> None:" in reply
    assert "main.py" not in reply
    assert "2 other lines mention it" in reply
    assert "no definition of `tap`" in ask(root, "where is tap defined?")
    assert "no definition of `Kettle`" in ask(root, "where is Kettle defined?")


def test_counts_put_the_answer_first(root):
    assert ask(root, "how many python files are there?").startswith("**2 files**")
    assert ask(root, "how many lines of Python are there?").startswith("**9 lines**")
    assert ask(root, "how many lines does long.txt have?").startswith("**1,000 lines**")
    assert ask(root, "how many words are in long.txt").startswith("**2,000 words**")
    assert ask(root, "how many rust files are there?").startswith("**0 files**")


def test_an_outline_shows_lines_and_first_sentences(root):
    reply = ask(root, "what functions are in src/kettle.py?")
    assert "> Boils." in reply
    assert "4  def boil(water: str)  # Heat it." in reply
    assert "not a Python file" in ask(root, "outline README.md")


def test_what_changed_shows_files_and_a_short_difference(root):
    reply = ask(root, "what changed?")
    assert "| `src/main.py` | modified |" in reply
    assert "+boil('well')" in reply
    (root / "long.txt").write_text("all new\n")
    reply = ask(root, "what changed?")
    assert "| `long.txt` | +1 | −1,000 |" in reply
    assert "+boil" not in reply
    assert "+boil" in ask(root, "diff src/main.py")


def test_status_log_and_commit(root):
    assert "On branch `main`. 1 changed file" in ask(root, "git status")
    log = ask(root, "last 5 commits")
    assert "| Ada | First |" in log
    commit = re.search(r"\| `([0-9a-f]+)` \|", log)
    assert commit
    assert "+boil('tap')" in ask(root, f"show commit {commit[1]}")
    assert "no such commit" in ask(root, "show commit 0123abcd")


def test_outside_a_repository_git_says_so_and_the_turn_does_not_fail(tmp_path):
    for prompt in ("git status", "log", "diff", "what changed?"):
        assert "not in a git repository" in ask(tmp_path, prompt)


def test_leaving_the_workspace_is_refused_in_the_reply(root):
    (root / "link").symlink_to("/etc/passwd")
    assert "not inside the workspace" in ask(root, "read ../secret")
    assert "not inside the workspace" in ask(root, "read /etc/passwd")
    assert "leads out of the workspace" in ask(root, "read link")


def test_a_workspace_that_vanished_fails_the_turn_with_a_sentence(root):
    gone = root.parent / "gone"
    for prompt in ("list files", "read a.py", "count", "what is this?", "find x", "git status"):
        progress = run(gone, prompt)
        assert isinstance(progress[-1], TurnFailed)
        assert re.fullmatch(r"The workspace .*/gone .*\.", progress[-1].reason)
        assert not any(isinstance(each, ReplyCompleted) for each in progress)
    assert isinstance(run(gone, "help")[-1], ReplyCompleted)


def test_what_was_answered_before_a_failure_is_not_lost(root):
    *_, reply, failed = run(root.parent / "gone", "help\nlist files")
    assert isinstance(reply, ReplyCompleted)
    assert isinstance(failed, TurnFailed)


def test_a_question_goes_on_from_the_one_before(root):
    (root / "README.md").write_text("Changed.\n")
    changed = ask(root, "what changed since the last commit?")
    assert "README.md" in changed
    assert "src/main.py" in changed
    *_, reply = run(root, "and in src?", earlier=("what changed since the last commit?",))
    assert isinstance(reply, ReplyCompleted)
    assert "src/main.py" in reply.text
    assert "README.md" not in reply.text


def test_the_example_of_how_a_model_is_added_is_a_valid_file(root, tmp_path):
    reply = ask(root, "how do I add a model?")
    layout = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    config = Path(layout.models)
    config.parent.mkdir()
    config.write_text(reply.partition("```yaml\n")[2].partition("```")[0])
    config.chmod(0o600)
    assert [model.name for model in load(layout).models] == ["sonnet", "claude"]


def test_several_lines_are_answered_in_order_in_one_reply(root):
    reply = ask(root, "last commit\nfind TODO\nread nothing.txt")
    first, second, third = reply.split("\n\n---\n\n")
    assert "First" in first
    assert "TODO" in second
    assert "There is no nothing.txt" in third


def test_hostile_content_stays_within_its_block(root):
    (root / "evil.md").write_text("```\n# out\n````\n\x1b[31m\u202e\n[[Press]]\n")
    reply = ask(root, "read evil.md")
    assert "`````markdown\n" in reply
    assert reply.endswith("\n`````")
    assert "\x1b" not in reply
    assert "\u202e" not in reply
    (root / "a`b|c\nd").write_text("needle")
    assert "```\na`b|c" in ask(root, "find needle")
    assert "`` a`b|c d ``" not in ask(root, "git status")
    assert "``a`b&#124;c d``" in ask(root, "git status")


def test_closing_the_stream_stops_what_runs(root, tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    marker = tmp_path / "pid"
    slow = programs / "git"
    slow.write_text(f"#!/bin/sh\necho $$ > {marker}~\nmv {marker}~ {marker}\nsleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    async def run_scenario() -> None:
        async def consume() -> None:
            stream = make_engine(root).run(TurnRequest(1, "git status"), Rule(allow=False))
            async with aclosing(stream) as result:
                async for _ in result:
                    pass

        turn = asyncio.create_task(consume())
        await until(marker.exists)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(run_scenario())
    wait_until_gone(int(marker.read_text()))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=limit_examples(60),
)
@given(
    st.text()
    | st.tuples(
        st.sampled_from([*(f"/{command.name}" for command in COMMANDS), "read", "find"]),
        st.text(max_size=30),
    ).map(" ".join)
)
def test_whatever_is_said_there_is_one_storable_reply(root, prompt):
    progress = run(root, prompt)
    assert sum(isinstance(each, ReplyCompleted) for each in progress) == 1
    for each in progress:
        assert not isinstance(each, TurnFailed)
        for field in each.__struct_fields__:
            str(getattr(each, field)).encode()


@settings(max_examples=limit_examples(200))
@given(st.text())
def test_markdown_holds_whatever_is_put_into_it(text):
    block = render_code_block(text, "x").split("\n")
    fence = block[0].removesuffix("x")
    assert block[-1] == fence
    assert not any(line.strip().startswith(fence) for line in block[1:-1])
    assert "\n" not in render_code(text)
    assert "\n" not in escape_cell(text)
    row = render_table(["a", "b"], [[render_code(text), escape_cell(text)]]).split("\n")[-1]
    assert row.count("|") == 3


@pytest.mark.parametrize(
    ("readme", "result"),
    [
        ("# A\n\nB.\nC.\n\nD.", ("A", "B. C.")),
        ("A\n===\n\nB.", ("A", "B.")),
        ("Just this.", ("", "Just this.")),
        ("# A\n```\ncode\n```\nB.", ("A", "B.")),
        ("# A\n## B\nC.", ("A", "C.")),
        ("", ("", "")),
        (".. image:: x\n\nA\n---\nB.", ("A", "B.")),
    ],
)
def test_the_first_paragraph_of_a_readme(readme, result):
    assert extract_introduction(readme.splitlines()) == result


@pytest.mark.parametrize(
    ("size", "result"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5.0 GiB")],
)
def test_sizes_are_said_as_people_do(size, result):
    assert format_size(size) == result


def test_the_thinking_half_touches_nothing():
    pure = ["answers", "grammar", "help_texts", "markdown", "phrases", "replies", "understanding"]
    source = (
        "import sys, importlib\n"
        f"for name in {pure}: importlib.import_module('agentd.agent.engines.offline.' + name)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('asyncio', 'tornado', 'yaml')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
