"""The tools describe themselves: to people, to histories and to models."""

import msgspec
import pytest

from agentd.agent.tools.model import (
    MAX_ARGUMENT_LENGTH,
    TOOLS,
    ListFiles,
    ReadFile,
    RunCommand,
    SearchText,
    WriteFile,
    describe_arguments,
)
from agentd.agent.tools.results import (
    CommandResult,
    Counts,
    Diff,
    FileTally,
    FileText,
    RepositoryStatus,
    SearchHit,
    SearchHits,
    WrittenFile,
)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_tool_and_field_is_described_in_its_schema(tool):
    schema = msgspec.json.schema(tool)["$defs"][tool.__name__]
    assert schema["description"].strip().endswith(".")
    assert "\n" not in schema["description"]
    assert all(field["description"] for field in schema["properties"].values())
    assert "name" not in schema["properties"]


def test_a_models_input_is_checked_by_the_same_type():
    assert msgspec.convert({"path": "a", "first": 3}, ReadFile) == ReadFile("a", 3)
    for wrong in ({}, {"path": 1}, {"path": "a", "last": -1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, ReadFile)


def test_what_was_given_is_reported_without_what_was_left_out():
    assert describe_arguments(ListFiles()) == ""
    assert describe_arguments(ReadFile("a b", 2)) == "path=a b first=2"
    assert (
        describe_arguments(SearchText("x", suffixes=(".py", ".pyi"))) == "text=x suffixes=.py .pyi"
    )


def test_a_long_text_that_was_given_is_reported_in_part():
    assert describe_arguments(RunCommand("make")) == "command=make"
    line = describe_arguments(WriteFile("a", "x" * 10_000))
    assert line == f"path=a text={'x' * MAX_ARGUMENT_LENGTH}…"


@pytest.mark.parametrize(
    ("result", "short"),
    [
        (FileText("a", ("x", "y"), 1, 1200, 9), "2 of 1,200 lines"),
        (FileText("a", ("x",), 1, 1, 9, counted=False), "1 of more than 1 line"),
        (SearchHits((SearchHit("a", 1, "x"), SearchHit("a", 2, "x")), 5), "2 lines in 1 file"),
        (SearchHits((), 5), "0 lines in 0 files"),
        (Counts((FileTally(".py", 2, 30), FileTally("", 1, 1))), "3 files, 31 lines"),
        (RepositoryStatus("main", ()), "on main, clean"),
        (Diff(""), "no difference"),
        (Diff("a\nb\n", truncated=True), "more than 2 lines"),
        (WrittenFile("a", 1, created=True), "new file, 1 line written"),
        (WrittenFile("a", 1200), "1,200 lines written"),
        (WrittenFile("a", 9, places=2), "2 places edited"),
        (CommandResult(0, ""), "exit code 0, 0 lines"),
        (CommandResult(-9, "x"), "ended by signal 9, 1 line"),
        (CommandResult(-9, "x\ny", late=True), "timed out, 2 lines"),
    ],
)
def test_every_result_has_a_short_form(result, short):
    assert str(result) == short
