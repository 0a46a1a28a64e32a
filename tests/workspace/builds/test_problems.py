"""Errors and warnings are found in what tools really say, however it is cut."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.workspace.builds.problems import (
    MAX_LISTED,
    MAX_TEXT,
    PATTERNS,
    Problem,
    ProblemFinder,
    find_problems,
    strip_escapes,
)

SAMPLES = Path(__file__).parent / "samples"


def run_tool(command: Sequence[str], folder: Path) -> bytes:
    """Return the output of a real tool."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode != 0
    return done.stdout


def list_places(output: bytes) -> list[tuple[str, str, str, int, int]]:
    return [
        (one.tool, one.severity, one.file, one.line, one.column) for one in find_problems(output)
    ]


def read_sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


# Tools that are run.


def test_gcc(tmp_path):
    (tmp_path / "a.c").write_text("int f(void) { return x; }\nvoid g(void) { int y; }\n")
    assert list_places(run_tool(["gcc", "-Wall", "-c", "a.c"], tmp_path)) == [
        ("gcc", "error", "a.c", 1, 22),
        ("gcc", "warning", "a.c", 2, 20),
        ("gcc", "warning", "a.c", 1, 25),
    ]


def test_the_linker_of_gcc(tmp_path):
    (tmp_path / "a.c").write_text("void gone(void);\nint main(void) { gone(); return 0; }\n")
    [problem] = find_problems(run_tool(["gcc", "a.c"], tmp_path))
    assert (problem.tool, problem.file) == ("gcc", "a.c")
    assert problem.text == "undefined reference to `gone'"


def test_pytest_with_the_line_of_each_failure(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import pytest\n\ndef test_a():\n    assert 1 == 2\n\nclass TestB:\n"
        "    @pytest.mark.parametrize('n', ['x y'])\n"
        "    def test_b(self, n):\n        raise ValueError(n)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["--rootdir=.", "-W", "ignore", "test_a.py"]
    found = [(one.file, one.line, one.text) for one in find_problems(run_tool(command, tmp_path))]
    assert found == [
        ("test_a.py", 4, "test_a: assert 1 == 2"),
        ("test_a.py", 9, "TestB.test_b[x y]: ValueError: x y"),
    ]


def test_a_traceback(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    raise ValueError('no')\n\nf()\n")
    [problem] = find_problems(run_tool([sys.executable, "a.py"], tmp_path))
    assert (problem.tool, problem.line, problem.text) == ("python", 2, "ValueError: no")
    assert problem.file.endswith("a.py")


@pytest.mark.parametrize("form", ["full", "concise"])
def test_ruff(tmp_path, form):
    (tmp_path / "a.py").write_text("import os\n")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--output-format", form, "a.py"]
    [problem] = find_problems(run_tool(ruff, tmp_path))
    assert (problem.tool, problem.file, problem.line, problem.column) == ("ruff", "a.py", 1, 8)
    assert "imported but unused" in problem.text


def test_mypy(tmp_path):
    (tmp_path / "a.py").write_text('def f() -> int:\n    return "x"\n')
    mypy = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=/dev/null", "a.py"]
    assert list_places(run_tool(mypy, tmp_path)) == [("mypy", "error", "a.py", 2, 0)]


@pytest.mark.parametrize("colours", ["", "xterm", "xterm-256color"])
@pytest.mark.parametrize("option", ["--show-column-numbers", "--show-error-end", "--pretty"])
def test_mypy_with_colours_and_ends(tmp_path, monkeypatch, option, colours):
    if colours:
        monkeypatch.setenv("MYPY_FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", colours)
    (tmp_path / "a.py").write_text('def f() -> int:\n    return "x"\n')
    mypy = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=/dev/null"]
    output = run_tool([*mypy, option, "a.py"], tmp_path)
    assert (b"\x1b" in output) == bool(colours)
    [problem] = find_problems(output)
    column = 0 if option == "--pretty" else 12
    assert (problem.severity, problem.file, problem.line, problem.column) == (
        *("error", "a.py", 2),
        column,
    )
    assert problem.text.startswith('Incompatible return value type (got "str"')


def test_gcc_with_colours(tmp_path):
    (tmp_path / "a.c").write_text("int f(void) { return x; }\n")
    plainly, coloured = (
        run_tool(["gcc", f"-fdiagnostics-color={when}", "-c", "a.c"], tmp_path)
        for when in ("never", "always")
    )
    assert b"\x1b" in coloured
    assert list_places(coloured) == list_places(plainly) == [("gcc", "error", "a.c", 1, 22)]


# Tools whose words are recorded.


@pytest.mark.parametrize("name", ["tsc-7.0.2.txt", "tsc-7.0.2-pretty.txt"])
def test_tsc(name):
    assert list_places(read_sample(name)) == [
        ("tsc", "error", "a.ts", 1, 7),
        ("tsc", "error", "a.ts", 2, 34),
        ("tsc", "error", "a.ts", 3, 3),
    ]


@pytest.mark.parametrize("name", ["eslint-10.15.txt", "eslint-10.15-colour.txt"])
def test_eslint(name):
    assert list_places(read_sample(name)) == [
        ("eslint", "error", "/home/dev/shop/x.js", 1, 12),
        ("eslint", "error", "/home/dev/shop/x.js", 2, 1),
        ("eslint", "error", "/home/dev/shop/y.js", 2, 10),
        ("eslint", "warning", "/home/dev/shop/x.js", 1, 7),
    ]


def test_cargo():
    [problem] = find_problems(read_sample("cargo-1.95.txt"))
    assert problem == Problem("error", "mismatched types", "src/main.rs", 3, 18, "cargo")


def test_clang():
    assert list_places(read_sample("clang-15.txt")) == [
        ("gcc", "error", "shop.c", 3, 10),
        ("gcc", "warning", "shop.c", 7, 7),
    ]


def test_go():
    assert list_places(read_sample("go-1.22.txt")) == [
        ("go", "error", "./main.go", 8, 2),
        ("go", "error", "./main.go", 9, 7),
        ("go", "error", "sum_test.go", 12, 0),
    ]


def test_dotnet_says_each_twice_and_counts_once():
    assert list_places(read_sample("dotnet-8.txt")) == [
        ("dotnet", "error", "/home/dev/shop/Program.cs", 5, 1),
        ("dotnet", "warning", "/home/dev/shop/Program.cs", 3, 5),
    ]


def test_every_tool_of_the_table_is_tried_here():
    assert {row.tool for row in PATTERNS} == {
        *("gcc", "tsc", "pytest", "python", "eslint", "ruff", "mypy", "dotnet", "cargo", "go"),
        "generic",
    }


# What holds for all.


@pytest.mark.parametrize(
    ("line", "severity", "text"),
    [
        (b"error: no such thing", "error", "no such thing"),
        (b"ERROR: no such thing", "error", "no such thing"),
        (b"tool: warning: old", "warning", "old"),
        (b"fatal: not a git repository", "error", "not a git repository"),
        (b"\x1b[31merror\x1b[0m: red", "error", "red"),
        (b"50%\r100%\rerror: after progress", "error", "after progress"),
    ],
)
def test_a_plain_word_is_enough(line, severity, text):
    [problem] = find_problems(line)
    assert (problem.severity, problem.text, problem.tool) == (severity, text, "generic")


@pytest.mark.parametrize(
    "line", [b"0 errors", b"errors: 0", b"error: 0", b"no error here", b"test_errors.py ok", b""]
)
def test_what_is_no_problem_is_not_counted(line):
    assert list(find_problems(line)) == []


@given(st.data(), st.sampled_from(sorted(path.name for path in SAMPLES.glob("*.txt"))))
def test_it_does_not_matter_how_the_output_is_cut(data, name):
    output = read_sample(name)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=8)))
    finder = ProblemFinder()
    for start, end in zip([0, *cuts], [*cuts, len(output)], strict=True):
        finder.feed(output[start:end])
    finder.close()
    assert finder.problems == list(find_problems(output))


@given(st.binary(max_size=300))
def test_whatever_is_said_is_understood_or_passed_over(output):
    list(find_problems(output + b"\nerror: the last\n"))


def test_only_the_wanted_tools_are_asked():
    output = b"a.c:1:2: error: x\nb.py:3: error: y\n"
    assert [one.tool for one in find_problems(output, ["clang"])] == ["gcc", "gcc"]
    assert [one.tool for one in find_problems(output, ["mypy"])] == ["mypy"]
    assert list(find_problems(output, ["go"])) == []


def test_more_than_is_listed_is_counted_and_errors_are_listed_first():
    finder = ProblemFinder()
    finder.feed(b"".join(b"a.c:%d:1: warning: w\n" % number for number in range(1, 1000)))
    finder.feed(b"a.c:1:1: error: e\n")
    finder.close()
    assert (finder.errors, finder.warnings, len(finder.problems)) == (1, 999, MAX_LISTED)
    assert finder.problems[0].severity == "error"


def test_a_line_without_an_end_is_cut_and_takes_no_memory():
    finder = ProblemFinder()
    finder.feed(b"error: " + b"x" * 1000)
    for _ in range(100):
        finder.feed(b"x" * 100_000)
    assert len(finder._rest) < 200_000
    finder.feed(b"\nerror: next\n")
    finder.close()
    assert [one.text[:4] for one in finder.problems] == ["xxxx", "next"]
    assert len(finder.problems[0].text) == MAX_TEXT


def test_control_sequences_are_left_out():
    assert strip_escapes("\x1b[1;31mred\x1b[0m \x1b]0;title\x07text") == "red text"
