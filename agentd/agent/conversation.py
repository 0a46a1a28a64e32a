"""How a foreign engine is spoken with over its standard input and output, without any I/O.

Each foreign engine has one ``Conversation``: lines in, steps out. ``outside.stdio_engine`` starts
the program, carries lines and answers between it and the conversation, and ends it.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct, structs

from agentd.agent.engine import Answer, Progress, Question


class Send(Struct, frozen=True):
    """Write this line to the program; without its line break."""

    line: bytes


class Ask(Struct, frozen=True):
    """Have somebody decide; the answer comes to ``answered`` with this ``id``."""

    id: str
    question: Question


class Withdrawn(Struct, frozen=True):
    """The question with this id needs no answer any more."""

    id: str


class Linger(Struct, frozen=True):
    """The turn is over but for what may come late: ``ended`` follows unless ``Over`` comes first.

    A conversation has no clock; the one who carries its lines waits for it.
    """

    seconds: float


class Pauses(Struct, frozen=True):
    """The program says nothing for so long, since its supplier wants to be left alone.

    A pause beyond the program's patience ends the turn at a limit; a shorter one is waited for.
    """

    reason: str
    seconds: float


class Over(Struct, frozen=True):
    """The turn is over: the program is not needed any more."""


SECRET_DESCRIPTOR = "<the secret's file descriptor>"  # noqa: S105 - it is no secret itself
"""Stands in a command or an environment for the number under which the secret can be read."""


class Launch(Struct, frozen=True):
    """How to start the program for one turn."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    """Variables beside those that every child gets."""
    secret: str = ""
    """A supplier's key, which the program finds in a file descriptor (``SECRET_DESCRIPTOR``).

    Variables are inherited by every command that an agent runs, and descriptors are not.
    """

    def with_descriptor(self, number: int) -> "Launch":
        """The same with the number of the secret's descriptor filled in."""
        return structs.replace(
            self,
            command=tuple(one.replace(SECRET_DESCRIPTOR, str(number)) for one in self.command),
            environment={
                name: value.replace(SECRET_DESCRIPTOR, str(number))
                for name, value in self.environment.items()
            },
        )

    def __repr__(self) -> str:
        """Without the secret, wherever it is printed."""
        return f"Launch({self.command!r})"


class Restart(Struct, frozen=True):
    """End the program and start it once more, like this; then the turn begins anew."""

    launch: Launch


Step: TypeAlias = Progress | Send | Ask | Withdrawn | Linger | Pauses | Restart | Over


class Conversation(Protocol):
    """One turn with one program. Whatever it is told, it never raises: junk is passed over."""

    def begin(self) -> Iterator[Step]:
        """The program has started, or was started once more."""
        ...

    def heard(self, line: bytes) -> Iterator[Step]:
        """The program wrote a line, told without its line break."""
        ...

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """A question was decided."""
        ...

    def stop(self) -> Iterator[Step]:
        """The person wants the turn to end; ``Over`` follows if the program can be asked to."""
        ...

    def ended(self) -> Iterator[Step]:
        """The program is gone, or all that it may ``Linger`` for: tell what was held back."""
        ...
