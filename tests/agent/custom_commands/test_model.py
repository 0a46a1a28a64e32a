"""The format of custom commands, as Claude Code, opencode and Codex write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.custom_commands.model import (
    CommandLine,
    CommandMatter,
    CustomCommand,
    IncludedFile,
    Invocation,
    PlainText,
    build_command,
    fill_in,
    make_name,
    parse_invocation,
)


def make_command(body: str) -> CustomCommand:
    return build_command("c", CommandMatter(), body, "config", "c.md")


def render(body: str, arguments: str = "") -> str:
    texts: list[str] = []
    for part in fill_in(make_command(body), arguments):
        match part:
            case CommandLine(command):
                texts.append(f"<{command}>")
            case IncludedFile(path):
                texts.append(f"({path})")
            case PlainText(text):
                texts.append(text)
    return "".join(texts)


@pytest.mark.parametrize(
    ("prompt", "called"),
    [
        ("/review", Invocation("review", "")),
        ("  /review src/a.py  deep \n", Invocation("review", "src/a.py  deep")),
        ("/db:migrate\nall of it", Invocation("db:migrate", "all of it")),
        ("/db/migrate x", Invocation("db:migrate", "x")),
        ("/", None),
        ("look at /review", None),
        ("//comment", None),
        ("/ review", None),
        ("/-x", None),
    ],
)
def test_a_prompt_calls_a_command_by_its_first_word(prompt: str, called: Invocation | None) -> None:
    assert parse_invocation(prompt) == called


@pytest.mark.parametrize(
    ("path", "name"),
    [("review.md", "review"), ("db/up/now.md", "db:up:now"), ("a b.md", ""), ("é.md", "")],
)
def test_the_name_is_that_of_the_file_after_those_of_its_folders(path: str, name: str) -> None:
    assert make_name(path) == name


@pytest.mark.parametrize(
    ("body", "arguments", "expanded"),
    [
        ("Fix $ARGUMENTS now", "a  'b c'", "Fix a  'b c' now"),
        ("$1 then $2, not $3.", "a 'b c'", "a then b c, not ."),
        ("$ARGUMENTS[0]-$ARGUMENTS[1]", "a b", "a-b"),
        ("To $NAME from $OTHER", "NAME='Ada L' x", "To Ada L from $OTHER"),
        (r"It costs \$1 and \$ARGUMENTS", "x", "It costs $1 and $ARGUMENTS\n\nARGUMENTS: x"),
        ("Nothing to fill in", "but this", "Nothing to fill in\n\nARGUMENTS: but this"),
        ("Nothing at all", "", "Nothing at all"),
        ("It's $1", "don't", "It's don't"),
        ("$ARGUMENTS_LEFT $0", "x", "$ARGUMENTS_LEFT $0\n\nARGUMENTS: x"),
    ],
)
def test_arguments_take_the_place_of_what_stands_for_them(
    body: str, arguments: str, expanded: str
) -> None:
    assert render(body, arguments) == expanded


def test_lines_to_run_and_files_to_include_are_found() -> None:
    body = "Diff: !`git diff $1`\nSee @src/a.py, and (@docs/x.md).\nMail me@home.org !`no\n`"
    assert render(body, "--stat") == (
        "Diff: <git diff --stat>\nSee (src/a.py), and ((docs/x.md)).\nMail me@home.org !`no\n`"
    )
    assert render("@$1 and @$2", "a.py b/c.py") == "(a.py) and (b/c.py)"


@given(st.text(alphabet="!`@/ab.$1\n ", max_size=30))
def test_what_stands_in_arguments_is_neither_run_nor_included(arguments: str) -> None:
    parts = fill_in(make_command("Do $ARGUMENTS with $1"), arguments)
    assert all(isinstance(part, PlainText) for part in parts)


@pytest.mark.parametrize(
    "tools",
    ["Bash(git add:*, x), Read", "[Bash(git add:*, x), Read]", "Bash(git add:*, x) Read"],
)
def test_allowed_tools_are_told_apart(tools: str) -> None:
    command = build_command("c", CommandMatter(allowed_tools=tools), "x", "config", "c.md")
    assert command.allowed_tools == ("Bash(git add:*, x)", "Read")


def test_without_a_description_the_first_line_is_one() -> None:
    assert make_command("\n# Review the change\n\nAll of it.").description == "Review the change"
