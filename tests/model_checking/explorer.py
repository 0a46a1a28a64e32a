"""Goes through sequences of steps with real code: all of them up to a length, or long random ones.

A machine drives the real code and a small model of it side by side, and raises ``AssertionError``
where they differ. ``explore`` enumerates sequences breadth first, so the first difference that it
finds has the fewest steps. ``build_walk`` makes a state machine of hypothesis for depth.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import product
from typing import NamedTuple, Protocol, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

Path: TypeAlias = tuple[str, ...]


class Machine(Protocol):
    """Real code and its model, in the same state."""

    async def apply(self, step: str) -> None:
        """Take one step in both, and compare them; ``AssertionError`` where they differ."""
        ...

    async def finish(self) -> None:
        """Check what can only be checked once, after the last step."""
        ...


class Subject(NamedTuple):
    """A thing that is checked."""

    name: str
    steps: Path
    open: Callable[[str], AbstractAsyncContextManager[Machine]]
    """Starts a machine whose files are in a folder of its own."""


class Difference(Exception):
    """The real code and its model differ after these steps."""

    def __init__(self, path: Path, error: BaseException) -> None:
        super().__init__(f"after {' > '.join(path)}: {error}")
        self.path = path


def explore(
    subject: Subject, depth: int, report: Callable[[int, int], object] | None = None
) -> int:
    """Go through every sequence of up to ``depth`` steps; return how many there are.

    ``report`` is called with each length and the count so far. Raises ``Difference``.
    """
    count = 0
    with asyncio.Runner() as runner:
        for length in range(1, depth + 1):
            for path in product(subject.steps, repeat=length):
                runner.run(follow(subject, path))
                count += 1
            if report:
                report(length, count)
    return count


async def follow(subject: Subject, path: Iterable[str]) -> None:
    """Go through one sequence. Raises ``Difference``."""
    done: list[str] = []
    with make_folder() as folder:
        try:
            async with subject.open(folder) as machine:
                for step in path:
                    done.append(step)
                    await machine.apply(step)
                await machine.finish()
        except AssertionError as error:
            raise Difference(tuple(done), error) from error


def build_walk(subject: Subject) -> type[RuleBasedStateMachine]:
    """Return a state machine that takes steps at random."""

    class Walk(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.runner = asyncio.Runner()
            self.folder = make_folder()
            self.context = subject.open(self.folder.__enter__())
            self.machine = self.runner.run(_enter(self.context))

        @rule(step=st.sampled_from(subject.steps))
        def take(self, step: str) -> None:
            self.runner.run(self.machine.apply(step))

        def teardown(self) -> None:
            try:
                self.runner.run(self.machine.finish())
            finally:
                self.runner.run(_leave(self.context))
                self.runner.close()
                self.folder.__exit__(None, None, None)

    Walk.__name__ = Walk.__qualname__ = f"{subject.name.title()}Walk"
    return Walk


@contextmanager
def make_folder() -> Iterator[str]:
    """Make a folder, in memory where the system has a place for that, and remove it."""
    memory = "/dev/shm"
    folder = tempfile.mkdtemp(
        prefix="agentd-model-", dir=memory if os.access(memory, os.W_OK) else None
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _enter(context: AbstractAsyncContextManager[Machine]) -> Machine:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[Machine]) -> None:
    await context.__aexit__(None, None, None)
