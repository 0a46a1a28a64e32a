"""Asks a program for the models that it offers; no prompt is sent. Without any I/O."""

from collections.abc import Iterator

from agentd.agent.engine import ApprovalAnswer
from agentd.agent.engines.external.conversation import Step, TurnDone

MOST_MODELS = 500
"""Models of one program; further ones are left out."""


class ModelListing:
    """A conversation that ends when ``names`` are known; each kind of program derives from it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """The names as ``model`` of ``models.yml`` takes them."""

    def on_start(self) -> Iterator[Step]:
        """Begin."""
        raise NotImplementedError

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of the program."""
        raise NotImplementedError

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Do nothing: nothing is asked."""
        yield from ()

    def stop(self) -> Iterator[Step]:
        """End."""
        yield TurnDone()

    def explain_silence(self, _: str) -> None:
        """Return nothing: no supplier is called."""

    def on_exit(self) -> Iterator[Step]:
        """Do nothing: nothing is held back."""
        yield from ()

    def add(self, name: str) -> None:
        """Add a name, once."""
        if name and name not in self.names and len(self.names) < MOST_MODELS:
            self.names.append(name)
