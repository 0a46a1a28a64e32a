"""The tools as a model sees them."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.native.showing import (
    LONGEST_OUTCOME,
    LONGEST_RESULT,
    Misuse,
    input_of,
    is_reading,
    offered,
    outcome,
    shown,
    understood,
)
from agentd.agent.results import (
    Change,
    Commit,
    Commits,
    Counts,
    Definition,
    Diff,
    Entry,
    FileText,
    Hit,
    Hits,
    Listing,
    Outline,
    Ran,
    Status,
    Tally,
    ToolResult,
    Written,
)
from agentd.agent.tools import TOOLS, ListFiles, ReadFile
from agentd.proxy.dialects.conversation import ToolCall


def test_every_tool_is_offered_with_a_plain_schema():
    tools = {tool.name: tool for tool in offered()}
    assert list(tools) == list(TOOLS)
    assert tools["edit_file"].schema["required"] == ["path", "old", "new"]
    for tool in tools.values():
        assert tool.description.endswith(".")
        assert tool.schema["type"] == "object"
        assert "$ref" not in str(tool.schema)


def test_a_call_is_understood_by_the_tools_own_type():
    assert understood(ToolCall("1", "read_file", '{"path": "a", "first": 3}')) == ReadFile("a", 3)
    assert understood(ToolCall("1", "read_file", '{"path": "a", "first": "3"}')) == ReadFile("a", 3)
    assert understood(ToolCall("1", "list_files", "")) == ListFiles()


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
    use = understood(call)
    assert isinstance(use, Misuse)
    assert why in use.why
    assert is_reading(use)


@given(st.sampled_from([*TOOLS, "x"]) | st.text(), st.text() | st.just("[" * 100_000))
def test_whatever_a_model_writes_is_a_use_or_a_misuse(name, arguments):
    use = understood(ToolCall("1", name, arguments))
    assert isinstance(use, Misuse | TOOLS.get(name, Misuse))
    use.name.encode()
    assert use.name
    input_of(use).encode()
    assert len(input_of(use)) < 2000


RESULTS = [
    (Listing("src", (Entry("src/a", "folder"), Entry("src/b", "file", 1200))), "src/b  1,200"),
    (FileText("a", ("x", "\ty"), 3, 9, 20), "3\tx\n4\t\ty"),
    (Hits((Hit("a", 1, "x"),), 5), "a:1: x"),
    (Counts((Tally("", 2, 30, 4),)), "(no suffix): 2 files, 30 lines, 4 words"),
    (Outline("a", (Definition("def", "f", 3, 1, "x", "Doc."),)), "3\t  def f(x)  # Doc."),
    (Status("main", (Change("??", "a"),)), "?? a"),
    (Commits((Commit("abc", "2026", "Ada", "Mend"),)), "abc 2026 Ada: Mend"),
    (Diff("+x"), "+x"),
    (Diff(""), "no difference"),
    (Written("a", 2, created=True), "a: new file, 2 lines written"),
    (Ran(2, "oops"), "exit code 2\noops"),
    (Ran(0, ""), "exit code 0, no output"),
    (Ran(-9, "x", late=True), "took too long and was ended\nx"),
]


@pytest.mark.parametrize(("brought", "told"), RESULTS, ids=lambda value: type(value).__name__)
def test_what_each_tool_brought_is_told_whole(brought, told):
    assert told in shown(brought)


def test_what_is_too_long_is_cut_and_says_so():
    text = shown(Diff("x" * (LONGEST_RESULT + 7)))
    assert text.endswith("… cut: 7 more characters")
    assert len(text) < LONGEST_RESULT + 100


def test_of_a_command_the_history_keeps_what_it_said_in_part():
    assert outcome(Ran(0, "")) == "exit code 0, 0 lines"
    assert outcome(Ran(1, "a\n\x1bb\n")) == "exit code 1, 2 lines\na\n\ufffdb"
    long = outcome(Ran(0, "begin" + "x" * 100_000 + "end"))
    assert "begin" in long
    assert long.endswith("end")
    assert len(long) < LONGEST_OUTCOME + 100
    assert outcome(FileText("a", ("x",), 1, 1, 1)) == "1 of 1 line"


def test_every_kind_of_result_has_a_text():
    assert {type(brought) for brought, _ in RESULTS} == set(get_args(ToolResult))
