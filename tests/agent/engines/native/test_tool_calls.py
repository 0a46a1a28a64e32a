"""The tools as a model sees them."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engines.native.tool_calls import (
    LONGEST_OUTCOME,
    LONGEST_RESULT,
    AnyUse,
    InvalidToolCall,
    build_tool_definitions,
    describe_input,
    is_parallel,
    parse_call,
    render_result,
    summarize_result,
)
from agentd.agent.engines.native.turn import split_into_batches
from agentd.agent.mcp_servers.turn_tools import McpToolUse, NoMcpTools
from agentd.agent.tools.model import TOOLS, FetchPage, ListFiles, ReadFile
from agentd.agent.tools.results import (
    BackgroundOutput,
    CommandResult,
    Commit,
    Commits,
    Counts,
    Definition,
    Diff,
    DirEntry,
    DirListing,
    FileTally,
    FileText,
    GitChange,
    Outline,
    PatchedFiles,
    PersonAnswer,
    RepositoryStatus,
    SearchHit,
    SearchHits,
    TodoList,
    ToolResult,
    ViewedFile,
    ViewedPart,
    WebPage,
    WrittenFile,
)
from agentd.llm.conversation import DocumentPart, ImagePart, TextPart, ToolCall


def test_every_tool_is_offered_with_a_plain_schema():
    tools = {tool.name: tool for tool in build_tool_definitions()}
    assert list(tools) == list(TOOLS)
    assert tools["edit_file"].schema["required"] == ["path", "old", "new"]
    for tool in tools.values():
        assert tool.description.endswith(".")
        assert tool.schema["type"] == "object"
        assert "$ref" not in str(tool.schema)


def test_a_call_is_understood_by_the_tools_own_type():
    assert parse_call(ToolCall("1", "read_file", '{"path": "a", "first": 3}')) == ReadFile("a", 3)
    assert parse_call(ToolCall("1", "read_file", '{"path": "a", "first": "3"}')) == ReadFile("a", 3)
    assert parse_call(ToolCall("1", "list_files", "")) == ListFiles()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (ToolCall("1", "raed_file", "{}"), 'no tool named raed_file; did you mean "read_file"?'),
        (ToolCall("1", "read_file", "{}"), "missing required field `path`"),
        (ToolCall("1", "read_file", '{"path": 1'), "arguments of read_file are wrong"),
        (ToolCall("1", "read_file", "[]"), "Expected `object`"),
        (ToolCall("1", "shell", '{"command": "x", "seconds": 9999}'), "Expected `int` <= 600"),
        (ToolCall("1", "edit_file", '{"path": "a", "old": "", "new": ""}'), "length >= 1"),
    ],
)
def test_a_call_that_is_none_is_explained(call, why):
    use = parse_call(call)
    assert isinstance(use, InvalidToolCall)
    assert why in use.why
    assert is_parallel(use, NoMcpTools())


def test_what_only_reads_runs_in_parallel():
    class Servers(NoMcpTools):
        def reads_unasked(self, name: str) -> bool:
            return name == "mcp__docs__find"

    uses: list[AnyUse] = [
        FetchPage("https://a.example"),
        FetchPage("https://b.example"),
        McpToolUse("mcp__docs__find", {}),
        McpToolUse("mcp__docs__write", {}),
        McpToolUse("mcp__docs__find", {}),
    ]
    batches = [len(batch) for batch in split_into_batches(uses, Servers())]
    assert batches == [3, 1, 1]


@given(st.sampled_from([*TOOLS, "x"]) | st.text(), st.text() | st.just("[" * 100_000))
def test_whatever_a_model_writes_is_a_use_or_a_misuse(name, arguments):
    use = parse_call(ToolCall("1", name, arguments))
    assert isinstance(use, InvalidToolCall | TOOLS.get(name, InvalidToolCall))
    use.name.encode()
    assert use.name
    describe_input(use).encode()
    assert len(describe_input(use)) < 2000


def render_text(brought: ToolResult) -> str:
    (text,) = render_result(brought)
    assert isinstance(text, TextPart)
    return text.text


RESULTS = [
    (
        DirListing("src", (DirEntry("src/a", "folder"), DirEntry("src/b", "file", 1200))),
        "src/b  1,200",
    ),
    (FileText("a", ("x", "\ty"), 3, 9, 20), "3\tx\n4\t\ty"),
    (FileText("a", ("x",), 1, 1, 9000, shortened=1), "a: 1 of 1 line, 1 of them cut off, each"),
    (FileText("a", ("é",), 1, 1, 1, encoding="latin-1"), "not UTF-8: read as Latin-1"),
    (SearchHits((SearchHit("a", 1, "x"),), 5), "a:1: x"),
    (Counts((FileTally("", 2, 30, 4),)), "(no suffix): 2 files, 30 lines, 4 words"),
    (Outline("a", (Definition("def", "f", 3, 1, "x", "Doc."),)), "3\t  def f(x)  # Doc."),
    (RepositoryStatus("main", (GitChange("??", "a"),)), "?? a"),
    (Commits((Commit("abc", "2026", "Ada", "Mend"),)), "abc 2026 Ada: Mend"),
    (Diff("+x"), "+x"),
    (Diff(""), "no difference"),
    (WrittenFile("a", 2, created=True), "a: new file, 2 lines written"),
    (ViewedFile("a.ipynb", "notebook", 9, "# Cell 1"), "notebook, 9 bytes\n# Cell 1"),
    (PatchedFiles(("a", "b")), "2 files changed: a, b"),
    (BackgroundOutput(2, True, output="up"), "process 2 running, 1 new line\nup"),
    (WebPage("https://a/", 200, "text/html", "Tea", True), "only the beginning\n\nTea"),
    (PersonAnswer("The red one."), "The red one."),
    (TodoList("- [ ] a", 0, 1), "0 of 1 step done"),
    (
        SearchHits((SearchHit("a", 3, "x", ("u", "v"), ("y",)),), 5),
        "a-1- u\na-2- v\na:3: x\na-4- y\n--",
    ),
    (CommandResult(2, "oops"), "exit code 2\noops"),
    (CommandResult(0, ""), "exit code 0, no output"),
    (CommandResult(-9, "x", late=True), "took too long and was ended\nx"),
]


@pytest.mark.parametrize(("brought", "told"), RESULTS, ids=lambda value: type(value).__name__)
def test_what_each_tool_brought_is_told_whole(brought, told):
    assert told in render_text(brought)


def test_what_is_too_long_is_cut_and_says_so():
    text = render_text(Diff("x" * (LONGEST_RESULT + 7)))
    assert text.endswith("… cut: 7 more characters")
    assert len(text) < LONGEST_RESULT + 100


def test_of_a_command_the_history_keeps_what_it_said_in_part():
    assert summarize_result(CommandResult(0, "")) == "exit code 0, 0 lines"
    assert summarize_result(CommandResult(1, "a\n\x1bb\n")) == "exit code 1, 2 lines\na\n\ufffdb"
    long = summarize_result(CommandResult(0, "begin" + "x" * 100_000 + "end"))
    assert "begin" in long
    assert long.endswith("end")
    assert len(long) < LONGEST_OUTCOME + 100
    assert summarize_result(FileText("a", ("x",), 1, 1, 1)) == "1 of 1 line"


def test_every_kind_of_result_has_a_text():
    assert {type(brought) for brought, _ in RESULTS} == set(get_args(ToolResult))


def test_images_and_documents_are_shown_to_the_model():
    picture = ViewedFile("a/b.png", "image", 9, attachments=(ViewedPart("image/png", "QUJD"),))
    assert render_result(picture)[1:] == (ImagePart("image/png", "QUJD"),)
    paper = ViewedFile("a/b.pdf", "PDF", 9, attachments=(ViewedPart("application/pdf", "QUJD"),))
    assert render_result(paper)[1:] == (DocumentPart(data="QUJD", name="b.pdf"),)


def test_the_history_shows_a_plan_as_a_list():
    assert summarize_result(TodoList("- [ ] a", 0, 1)) == "0 of 1 step done\n\n- [ ] a"
