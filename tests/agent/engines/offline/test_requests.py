"""Prompts in plain words are parsed, and what is not understood is never guessed."""

# ruff: noqa: RUF005 - lists are added up to keep many phrases on few lines

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.agent.engines.offline.grammar import KINDS
from agentd.agent.engines.offline.requests import (
    Count,
    DeclinedRequest,
    Define,
    Describe,
    DescribeChanges,
    ExplainModels,
    Help,
    NotUnderstood,
    Request,
)
from agentd.agent.engines.offline.understanding import (
    COMMANDS,
    LONGEST_LINE,
    parse_line,
    parse_prompt,
)
from agentd.agent.tools.model import (
    CountFiles,
    FindFiles,
    GitDiff,
    GitLog,
    GitStatus,
    ListFiles,
    OutlineFile,
    ReadFile,
    RunCommand,
    SearchText,
)
from tests.support.examples import limit_examples
from tests.support.processor import busy_for_less_than

PYTHON = KINDS["python"]


def search_word(text: str, path: str = ".") -> SearchText:
    return SearchText(text, path, whole_word=True)


UNDERSTOOD: dict[Request, list[str]] = {
    Help(): ["help", "/help", "?", "hello", "Hi!", "what can you do?", "who are you?", "/?", ""]
    + ["which model are you?", "are you an AI?", "how does this work?", "thanks", "please"],
    ExplainModels(): ["how do I add a model?", "how do I connect a model?", "How can I use Codex?"]
    + ["how do we set up a local model here?", "how can I switch to another engine"],
    Describe(): ["what is this project?", "What's this?", "what does this project do?", "/about"]
    + ["summarise this folder", "summarize the repo", "tell me about this project", "overview"]
    + ["give me an overview of the project", "give me a short summary of this repository"]
    + ["what is this project about?", "explain this codebase", "what's here?", "describe it"],
    Describe("src"): ["summarise the folder src", "describe the src folder", "/about src"],
    ListFiles(): ["list files", "list all files", "ls", "/list", "/ls", "show me the files", "list"]
    + ["what files are there?", "list the files in this folder", "what is in this folder?", "dir"]
    + ["Can you list the files, please?", "which files are in the project?", "list files in ."]
    + ["list the files here", "List all files here.", "show me the files right here"],
    ListFiles("src"): ["list files in src", "ls src", "ls -la src", "/list src", "what's in src?"]
    + ["what files are in the src folder?", "show me the files in `src`", "list the folder src"],
    ListFiles(".", 3): ["tree", "/tree", "show the tree", "list files recursively"],
    ListFiles("src", 3): ["tree of src", "/tree src", "list files in src recursively"],
    ListFiles("setup.cfg"): ["setup.cfg", "what is in setup.cfg?", "what does setup.cfg contain?"]
    + ["print the contents of setup.cfg"],
    ListFiles(".."): ["list files in ..", "ls .."],
    ReadFile("setup.cfg"): [
        "read setup.cfg",
        "cat setup.cfg",
        "show me setup.cfg",
        "/read setup.cfg",
    ]
    + ["open the file setup.cfg", "show setup.cfg.", "Could you please show me `setup.cfg`?"]
    + ["/cat setup.cfg", "display setup.cfg", "/show setup.cfg"]
    + ["what does setup.cfg say?", 'read "setup.cfg"'],
    ReadFile("README"): ["show me the README", "read README"],
    ReadFile("a b.txt"): ['read "a b.txt"', "show me `a b.txt`"],
    ReadFile("setup.cfg", 1, 20): ["show me the first 20 lines of setup.cfg", "head -20 setup.cfg"]
    + ["first twenty lines of setup.cfg", "head -n 20 setup.cfg", "the top 20 lines of setup.cfg"]
    + ["setup.cfg lines 1-20", "the beginning of setup.cfg", "lines 20 to 1 of setup.cfg"],
    ReadFile("setup.cfg", -5): [
        "last 5 lines of setup.cfg",
        "tail -n 5 setup.cfg",
        "tail -5 setup.cfg",
    ]
    + ["show me the last five lines of setup.cfg"],
    ReadFile("a.py", 10, 20): ["lines 10 to 20 of a.py", "show lines 10-20 of a.py", "a.py:10-20"]
    + ["read a.py 10-20", "/read a.py 10-20", "read a.py lines 10-20", "show me a.py:10-20"]
    + ["lines 10–20 from a.py", "show me lines 10 through 20 in a.py"],
    ReadFile("a.py", 7, 7): ["line 7 of a.py", "a.py:7", "show line 7 of a.py"],
    ReadFile("../etc/passwd"): ["read ../etc/passwd"],
    ReadFile("/etc/passwd"): ["read /etc/passwd", "cat /etc/passwd"],
    SearchText("TODO", "src"): ["find TODO in src", "search for TODO in src", "grep -rn TODO src"]
    + ["/search TODO in src", "look for TODO in src", "search src for TODO"],
    SearchText("TODO"): ["search TODO", "grep TODO", "how many TODOs are there?", "find TODO"]
    + ["list all todos", "find all TODO comments", "search the code for TODO"],
    SearchText("event loop", "src"): ['search for "event loop" in src', "find event loop in src"],
    SearchText("hello world"): ["search for hello world", "find `hello world`"],
    search_word("parse_iso"): [
        "where is parse_iso used?",
        "who calls parse_iso?",
        "uses of parse_iso",
    ]
    + ["which files mention parse_iso?", "find all occurrences of parse_iso", "what uses parse_iso"]
    + ["does anything call parse_iso()?", "how often is parse_iso used?"],
    search_word("msgspec", "src"): ["which files import msgspec in src"],
    Define("parse_iso"): [
        "where is parse_iso defined?",
        "where's parse_iso()?",
        "/define parse_iso",
    ]
    + ["where is the function parse_iso?", "find the definition of parse_iso", "/where parse_iso"]
    + ["show me the definition of `parse_iso`", "find the parse_iso function", "define parse_iso"]
    + ["where is clock.parse_iso implemented?", "go to the definition of parse_iso"],
    Define("Tokens", "src"): ["where is Tokens defined in src?", "find the class Tokens in src"],
    FindFiles("setup.cfg"): ["where is setup.cfg?", "find setup.cfg", "find the file setup.cfg"]
    + ["find files named setup.cfg", "/find setup.cfg", "locate setup.cfg"],
    FindFiles("*.toml"): ["find *.toml", "/find *.toml", "find all files matching *.toml"],
    FindFiles("*.py"): [
        "find all python files",
        "list the Python files",
        "which python files are there?",
    ],
    FindFiles("*.py", "src"): ["list python files in src", "show me all python files in src"],
    FindFiles("*test*"): ["list the tests", "find all test files"],
    Count("files", CountFiles(".", PYTHON)): ["how many python files are there?"]
    + ["count the python files", "could you tell me how many python files there are?"],
    Count("lines", CountFiles(".", PYTHON)): ["how many lines of Python are there?"]
    + ["How many lines of python code do we have?", "count lines of Python", "lines of python"],
    Count("lines"): ["how many lines of code does this project have?", "lines of code", "count"]
    + [
        "how big is this project?",
        "/count",
        "how many lines are there?",
        "count the lines of code",
    ],
    Count("lines", CountFiles("setup.cfg")): ["how many lines does setup.cfg have?", "wc setup.cfg"]
    + ["count lines in setup.cfg", "how long is setup.cfg?", "wc -l setup.cfg", "/count setup.cfg"],
    Count("words", CountFiles("README.md")): ["how many words are in README.md?"],
    Count("files", CountFiles("src")): ["how many files are in src?", "count the files in src"],
    OutlineFile("a.py"): ["outline a.py", "outline of a.py", "/outline a.py", "explain a.py"]
    + ["what functions are in a.py?", "list the classes and functions in a.py"]
    + ["what classes are defined in a.py", "structure of a.py", "what does a.py define?"],
    GitStatus(): ["git status", "status", "/status", "which branch am I on?", "show me the status"]
    + ["what branch is this?", "is the tree clean?", "are there any uncommitted changes?"]
    + ["current branch", "what's the current branch?"],
    DescribeChanges(): [
        "what changed?",
        "what has changed",
        "what did I change?",
        "show me my changes",
    ]
    + [
        "which files are modified?",
        "what's changed?",
        "uncommitted changes",
        "what have I changed?",
        "what changed since the last commit?",
        "What have I changed since HEAD?",
        "show me the changes since the latest commit",
    ],
    DescribeChanges("src"): ["what has changed since the last commit in src?"],
    DescribeChanges("a.py"): ["what changed in a.py?", "show changes in a.py"],
    GitLog(): ["git log", "log", "/log", "recent commits", "commit history", "show the git log"]
    + ["what changed recently?", "what happened lately?", "show me the latest commits"],
    GitLog(limit=5): ["last 5 commits", "show me the last five commits", "git log -5", "/log 5"]
    + ["git log -n 5", "5 latest commits", "log 5", "the 5 most recent commits"],
    GitLog(limit=1): ["the last commit", "show me the latest commit", "last commit message"],
    GitLog("a.py"): ["history of a.py", "who changed a.py?", "/log a.py", "recent commits to a.py"]
    + ["when was a.py last changed?", "commits to a.py"],
    GitLog("src", 3): ["/log 3 src", "last 3 commits in src"],
    GitDiff(): ["git diff", "diff", "/diff", "show me the diff"],
    GitDiff("a.py"): ["diff a.py", "git diff a.py", "/diff a.py", "show the diff of a.py"],
    GitDiff(commit="abc123"): ["git show abc123", "show commit abc123", "/commit abc123"]
    + ["what did commit abc123 change?", "what's in commit abc123?"],
    GitDiff(commit="HEAD"): ["what changed in the last commit?", "what did the last commit change?"]
    + ["show the diff of the last commit"],
    DeclinedRequest("run", "run the tests"): ["run the tests", "please run the tests"],
    DeclinedRequest("run", "run all tests"): ["run all tests", "hey, run all tests"],
    DeclinedRequest("run", "pytest -q"): ["pytest -q"],
    DeclinedRequest("run", "$ls"): ["$ls"],
    RunCommand("ls -la ."): ["run ls -la .", "/run ls -la .", "$ ls -la .", "RUN `ls -la .`"]
    + ["please run ls -la .", "Can you run ls -la .", "! ls -la ."],
    RunCommand("echo really?"): ["run echo really?", "/run echo really?"],
    RunCommand("the tests"): ["/run the tests"],
    RunCommand("echo " + "x" * 1000): ["run echo " + "x" * 1000],
    NotUnderstood("/run", "/run COMMAND"): ["/run", "/run "],
    DeclinedRequest("run", "git push"): ["git push"],
    DeclinedRequest("change", "fix the bug in a.py"): [
        "fix the bug in a.py",
        "can you fix the bug in a.py?",
    ],
    DeclinedRequest("change", "write a test"): ["write a test"],
    DeclinedRequest("change", "commit my changes"): ["commit my changes"],
}


@pytest.mark.parametrize(
    ("line", "request_"),
    [(line, request) for request, lines in UNDERSTOOD.items() for line in lines],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_phrase_means_what_people_mean_by_it(line, request_):
    assert parse_line(line) == request_
    assert parse_line(f"  {line}  ") == request_


@pytest.mark.parametrize(
    "line",
    ["what is the meaning of life?", "the quick brown fox", "show me the money", "compare a and b"]
    + ["why?", "translate this to French", "what is a chat?", "how do I cook rice?", "lorem ipsum"],
)
def test_what_is_not_understood_is_not_guessed(line):
    assert parse_line(line) == NotUnderstood(line)


def test_an_unknown_command_names_the_nearest_one():
    assert parse_line("/serch x") == NotUnderstood("/serch x", "/search")
    assert parse_line("/qqqqq") == NotUnderstood("/qqqqq")
    assert parse_line("/read") == NotUnderstood("/read", "/read FILE [FIRST-LAST]")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_and_alias_is_understood_as_its_usage_shows(command):
    example = {"FILE": "x.py", "FIRST-LAST": "1-2", "TEXT": "x", "COMMIT": "HEAD", "NUMBER": "3"}
    required = " ".join(
        example.get(part, "x.py") for part in command.usage.split(" [")[0].split() if part[0] != "["
    )
    for name in (command.name, *command.aliases):
        request = parse_line(f"/{name} {required}".strip())
        assert not isinstance(request, NotUnderstood)
        assert parse_line(f"/{name.upper()} {required}".strip()) == request


def test_several_lines_are_several_requests():
    assert parse_prompt("list files\n\n- read a.py\n2. git log") == [
        ListFiles(),
        ReadFile("a.py"),
        GitLog(),
    ]
    assert parse_prompt("list files\nsing a song") == [ListFiles(), NotUnderstood("sing a song")]


@pytest.mark.parametrize(
    ("before", "line", "request_"),
    [
        ("list the files here", "and in src?", ListFiles("src")),
        ("what changed since the last commit?", "and in src?", DescribeChanges("src")),
        (
            "what changed since the last commit?\nsing a song",
            "what about src?",
            DescribeChanges("src"),
        ),
        ("find TODO in src", "and in tests", SearchText("TODO", "tests")),
        (
            "how many lines of Python are there?",
            "in `src`?",
            Count("lines", CountFiles("src", PYTHON)),
        ),
        ("last 3 commits", "And for src/main.py?", GitLog("src/main.py", 3)),
        ("read a.py lines 3-9", "what about b.py?", ReadFile("b.py")),
    ],
)
def test_a_place_alone_repeats_the_request_before_it_there(before, line, request_):
    assert parse_prompt(line, [before]) == [request_]
    assert parse_prompt(line, [before, "sing a song", line]) == [request_]
    assert parse_prompt(f"{before}\n{line}")[-1] == request_


def test_a_place_alone_is_not_understood_where_there_is_nothing_to_repeat():
    for earlier in ([], ["git status"], ["sing a song"], ["/run ls"]):
        assert parse_prompt("and in src?", earlier) == [NotUnderstood("and in src?")]


def test_a_pasted_text_is_one_thing_that_is_not_understood():
    pasted = "Traceback (most recent call last):\n  bla bla\nstatus\nValueError: no no no"
    assert parse_prompt(pasted) == [NotUnderstood("Traceback (most recent call last):")]
    assert len(parse_prompt("status\n" * 1000)) == 1


@pytest.mark.parametrize("prompt", ["", "  \n\t\n", "please"])
def test_an_empty_prompt_is_answered_with_help(prompt):
    assert parse_prompt(prompt) == [Help()]


VERBS = ["/read", "/list", "/search", "show", "find", "what", "where", "how many", "git", "read"]
NOUNS = ["files", "lines", "python", "commits", "diff", "log", "src", "a.py", "`x`", "..", "/", "5"]
SMALL = ["me", "the", "first", "last", "of", "in", "is", "and", "-", ",", ":", "?", "*", "\t", "'"]
VOCABULARY = st.sampled_from(VERBS) | st.sampled_from(NOUNS) | st.sampled_from(SMALL)


@settings(max_examples=limit_examples(500))
@given(st.one_of(st.text(), st.lists(VOCABULARY, max_size=40).map(" ".join)))
def test_no_text_at_all_makes_it_fail(text):
    for request in parse_prompt(text):
        assert isinstance(request, Request)


@pytest.mark.parametrize(
    "piece",
    ["the ", "a ", "find ", "in x ", "of ", "show me the ", "how many ", "`x` ", "lines ", "\t"]
    + ["'", "a.", "src/", "uses of x in ", "the last ", "please ", "and ", "- ", "?", " ", "x?!"],
)
@pytest.mark.parametrize("start", ["", "find ", "where is ", "how many lines of code ", "/search "])
def test_no_line_keeps_it_busy(piece, start):
    with busy_for_less_than(0.5):
        parse_line((start + piece * LONGEST_LINE)[:LONGEST_LINE])
        parse_line(start + piece * 100_000)
        parse_prompt((start + piece * 30 + "\n") * 2000)
