"""The prompt for a build that failed tells what is wrong, and is bounded."""

from agentd.workspace.autofix.rules import AutofixStatus, BuildFix, build_prompt
from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.builds.problems import Problem


def test_errors_are_reported_with_their_places_and_warnings_are_not():
    problems = (
        Problem("error", "no x", "a.c", 3, 7, "gcc"),
        Problem("error", "no place"),
        Problem("warning", "unused", "a.c", 1),
    )
    build = BuildStatus("app", "failed", exit_code=2, errors=2, problems=problems)
    assert build_prompt(build, 1, 3, "").splitlines() == [
        'The build "app" failed (exit code 2). Fix it (try 1 of 3).',
        "",
        "2 errors:",
        "",
        "- a.c:3:7: no x",
        "- no place",
    ]


def test_many_errors_are_counted():
    problems = tuple(Problem("error", f"e{number}") for number in range(200))
    text = build_prompt(BuildStatus("app", "failed", errors=999, problems=problems), 1, 3, "")
    assert text.count("\n- e") == 50
    assert text.endswith("- ... and 949 more")


def test_without_a_known_error_the_end_of_the_output_is_quoted():
    output = "".join(f"line {number} ``` \x1b[31mred\x1b[0m\n" for number in range(10_000))
    text = build_prompt(BuildStatus("app", "timedOut"), 2, 3, output)
    assert "took too long" in text
    assert "line 9999 ''' red" in text
    assert text.count("```") == 2
    assert len(text) < 5000


def test_what_is_known_of_a_build_replaces_what_was():
    status = AutofixStatus().with_build(BuildFix("b", tried=1)).with_build(BuildFix("a"))
    status = status.with_build(BuildFix("b", tried=2))
    assert [(fix.build, fix.tried) for fix in status.builds] == [("a", 0), ("b", 2)]
    assert status.get("c") == BuildFix("c")
