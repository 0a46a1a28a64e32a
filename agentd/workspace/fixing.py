"""What autofix knows, decides and says: values in, values out."""

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from agentd.workspace.build import BuildStatus
from agentd.workspace.problems import Problem, plain

TRIES = 3
"""Prompts in a row for one build, where nobody says otherwise."""
_LISTED = 50
"""Errors in a prompt."""
_LAST_LINES = 40
_LAST_CHARACTERS = 4000
"""Of the output, in the prompt for a build whose errors were not understood."""


class BuildFix(Struct, frozen=True, rename="camel"):
    """How one build is fixed: on or not, in which chat, and how often that was tried in a row."""

    build: str
    on: bool = False
    chat_id: int = 0
    tries: int = TRIES
    tried: int = 0


class AutofixStatus(Struct, frozen=True, rename="camel"):
    """What is fixed by itself. Nothing is, unless it is ``on`` over all and for the build."""

    on: bool = False
    builds: tuple[BuildFix, ...] = ()

    def of(self, build: str) -> BuildFix:
        """What is known of one build."""
        return next((one for one in self.builds if one.build == build), BuildFix(build))

    def having(self, fix: BuildFix) -> "AutofixStatus":
        """The same with this known of its build."""
        others = [one for one in self.builds if one.build != fix.build]
        return structs.replace(self, builds=tuple(sorted([*others, fix], key=_name)))


def _name(fix: BuildFix) -> str:
    return fix.build


def prompt_for(build: BuildStatus, tried: int, tries: int, output: str) -> str:
    """What the agent is asked; ``output`` is quoted where no error was found in it."""
    how = "took too long and was ended" if build.state == "timedOut" else "failed"
    code = "" if build.exit_code is None else f" (exit code {build.exit_code})"
    lines = [f'The build "{build.name}" {how}{code}. Fix it (try {tried} of {tries}).', ""]
    errors = [problem for problem in build.problems if problem.severity == "error"]
    if errors:
        lines += _listed(errors, build.errors)
    else:
        lines += ["The end of its output:", "", "```", *_last(output), "```"]
    return "\n".join(lines)


def _listed(errors: list[Problem], counted: int) -> Iterator[str]:
    yield f"{counted} error{'' if counted == 1 else 's'}:"
    yield ""
    yield from (f"- {_told(problem)}" for problem in errors[:_LISTED])
    if counted > len(errors[:_LISTED]):
        yield f"- ... and {counted - len(errors[:_LISTED])} more"


def _told(problem: Problem) -> str:
    place = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part)
    return f"{place}: {problem.text}" if place else problem.text


def _last(output: str) -> Iterable[str]:
    lines = plain(output[-8 * _LAST_CHARACTERS :]).rstrip().splitlines()[-_LAST_LINES:]
    return "\n".join(lines)[-_LAST_CHARACTERS:].replace("```", "'''").splitlines()
