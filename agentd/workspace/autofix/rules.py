"""The rules of autofix: values in, values out."""

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.builds.problems import Problem, strip_escapes

TRIES = 3
"""The default number of consecutive prompts for one build."""
_LISTED = 50
"""Errors in a prompt."""
_LAST_LINES = 40
_LAST_CHARACTERS = 4000
"""The last characters of the output in the prompt for a build whose errors were not parsed."""


class BuildFix(Struct, frozen=True, rename="camel"):
    """The fixing of one build: enabled or not, its chat, and the number of consecutive tries."""

    build: str
    on: bool = False
    chat_id: int = 0
    tries: int = TRIES
    tried: int = 0


class AutofixStatus(Struct, frozen=True, rename="camel"):
    """The state of autofix. Builds are fixed only if it is ``on`` globally and for the build."""

    on: bool = False
    builds: tuple[BuildFix, ...] = ()

    def get(self, build: str) -> BuildFix:
        """Return the fix of one build."""
        return next((one for one in self.builds if one.build == build), BuildFix(build))

    def with_build(self, fix: BuildFix) -> "AutofixStatus":
        """Return the status with this build replaced."""
        others = [one for one in self.builds if one.build != fix.build]
        return structs.replace(self, builds=tuple(sorted([*others, fix], key=_name)))


def _name(fix: BuildFix) -> str:
    return fix.build


def build_prompt(build: BuildStatus, tried: int, tries: int, output: str) -> str:
    """Return the prompt for a failed build; ``output`` is quoted if no error was found."""
    how = "took too long and was ended" if build.state == "timedOut" else "failed"
    code = "" if build.exit_code is None else f" (exit code {build.exit_code})"
    lines = [f'The build "{build.name}" {how}{code}. Fix it (try {tried} of {tries}).', ""]
    errors = [problem for problem in build.problems if problem.severity == "error"]
    if errors:
        lines += _list_errors(errors, build.errors)
    else:
        lines += ["The end of its output:", "", "```", *_take_last_lines(output), "```"]
    return "\n".join(lines)


def _list_errors(errors: list[Problem], counted: int) -> Iterator[str]:
    yield f"{counted} error{'' if counted == 1 else 's'}:"
    yield ""
    yield from (f"- {_describe_problem(problem)}" for problem in errors[:_LISTED])
    if counted > len(errors[:_LISTED]):
        yield f"- ... and {counted - len(errors[:_LISTED])} more"


def _describe_problem(problem: Problem) -> str:
    place = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part)
    return f"{place}: {problem.text}" if place else problem.text


def _take_last_lines(output: str) -> Iterable[str]:
    lines = strip_escapes(output[-8 * _LAST_CHARACTERS :]).rstrip().splitlines()[-_LAST_LINES:]
    return "\n".join(lines)[-_LAST_CHARACTERS:].replace("```", "'''").splitlines()
