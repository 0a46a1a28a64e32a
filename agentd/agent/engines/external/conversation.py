"""The protocol side of an external engine: lines in, steps out, without any I/O.

Each external engine has one ``EngineConversation``: lines in, steps out. ``external.engine``
starts the program, carries lines and answers between it and the conversation, and ends it.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct, structs

from agentd.agent.engine import ApprovalAnswer, EngineEvent, Question, RateLimited
from agentd.agent.mcp_servers.model import ReadyServer


class SendLine(Struct, frozen=True):
    """Write this line to the program; it has no line break yet."""

    line: bytes


class AskApproval(Struct, frozen=True):
    """Ask for approval; the answer goes to ``on_decision`` with this ``id``."""

    id: str
    question: Question


class QuestionCancelled(Struct, frozen=True):
    """The question with this id no longer needs an answer."""

    id: str


class AwaitLateOutput(Struct, frozen=True):
    """The turn is over but for what may come late: ``ended`` follows unless ``Over`` comes first.

    A conversation has no clock; its caller waits for it.
    """

    seconds: float


class SupplierPause(Struct, frozen=True):
    """The program is silent for so long because its supplier asked for a pause.

    A pause longer than ``TurnTimeouts.silence`` ends the turn at a limit. So does a silence of
    ``TurnTimeouts.unknown_pause`` where the program does not say how long the pause is (None).
    """

    reason: str
    seconds: float | None


class TurnDone(Struct, frozen=True):
    """The turn is over: the program is no longer needed."""


SECRET_DESCRIPTOR = "<the secret's file descriptor>"  # noqa: S105 - it is no secret itself
"""Placeholder in a command or environment for the number of the secret's descriptor."""

CONFIG_DESCRIPTOR = "<the settings' file descriptor>"
"""Placeholder for the number of the descriptor of ``ProgramLaunch.config``."""


class ProgramLaunch(Struct, frozen=True):
    """The command that starts the program for one turn."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    """Variables in addition to those of every child."""
    secret: str = ""
    """A supplier's key, which the program reads from a file descriptor (``SECRET_DESCRIPTOR``).

    Every command that an agent runs inherits its variables, but not its descriptors.
    """

    config: str = ""
    """A file of settings with secrets, which the program reads from ``CONFIG_DESCRIPTOR``."""

    mcp_servers: tuple[ReadyServer, ...] = ()
    """The MCP servers that the program is handed; it may repeat their secrets when they fail."""

    def with_descriptors(self, secret: int, config: int) -> "ProgramLaunch":
        """Return the launch with the numbers of the descriptors filled in."""

        def fill_in(text: str) -> str:
            text = text.replace(SECRET_DESCRIPTOR, str(secret))
            return text.replace(CONFIG_DESCRIPTOR, str(config))

        return structs.replace(
            self,
            command=tuple(map(fill_in, self.command)),
            environment={name: fill_in(value) for name, value in self.environment.items()},
        )

    def __repr__(self) -> str:
        """Return a representation without the secret."""
        return f"ProgramLaunch({self.command!r})"


class RestartProgram(Struct, frozen=True):
    """Restart the program with this launch; then the turn starts over."""

    launch: ProgramLaunch


Step: TypeAlias = (
    EngineEvent
    | SendLine
    | AskApproval
    | QuestionCancelled
    | AwaitLateOutput
    | SupplierPause
    | RestartProgram
    | TurnDone
)


class EngineConversation(Protocol):
    """A turn with a program. It never raises: invalid input is ignored."""

    def on_start(self) -> Iterator[Step]:
        """Handle the start or restart of the program."""
        ...

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle a line of the program, given without its line break."""
        ...

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Handle the decision on a question."""
        ...

    def stop(self) -> Iterator[Step]:
        """End the turn; ``TurnDone`` follows if the program can be asked to stop."""
        ...

    def explain_silence(self, errors: str) -> RateLimited | None:
        """Return the limit that a silent program is waiting for, if its errors show one.

        ``errors`` is what it wrote to standard error since its last line.
        """
        ...

    def on_exit(self) -> Iterator[Step]:
        """Report what was held back: the program exited, or nothing more may come late."""
        ...
