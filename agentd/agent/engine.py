"""What the dispatcher and an engine say to each other.

An engine carries out one turn: it is given an ``Assignment`` and tells what happens as a
stream of progress. What enters the history (``ToolUsed``, ``Replied``) is whole when it is
told; ``Wrote`` shows a reply as it grows.
"""

from collections.abc import AsyncGenerator, Callable
from decimal import Decimal
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.chats.approval import Kind
from agentd.chats.chat import Message
from agentd.clock import Timestamp
from agentd.proxy.price import NOTHING, Usage


class Assignment(Struct, frozen=True):
    """One prompt to carry out, with what its chat says about how."""

    chat_id: int
    prompt: str
    model: str = ""
    """The supplier's name of the model; empty: the engine's own default."""
    effort: str = ""
    """How hard the model is to think, in the supplier's words; empty: its default."""
    supplier: str = ""
    """The supplier to reach the model at, by its name; empty: the engine's own sign-in."""
    context: int = 0
    """Tokens that the model can take in; 0: not known."""
    command: tuple[str, ...] = ()
    """The program of a foreign engine with its arguments; empty: the engine's usual one."""
    skill: str = "none"
    instructions: str = ""
    """The chat's system prompt and its skill's text, for engines that know no skills."""
    history: tuple[Message, ...] = ()
    """The latest messages before this prompt, oldest first, for engines without a memory."""
    missed: tuple[Message, ...] = ()
    """Those of them since this engine's last turn in the chat: other engines had the turns."""
    memory: str = ""
    """What this engine asked to keep for this chat (``Kept``), such as its session's id."""
    again: bool = False
    """A limit ended this engine's earlier try at this prompt; its session may have it already."""
    turn: str = ""
    """Tells this turn from every other, of other daemons too; programs are started with it."""


class Alive(Struct, frozen=True):
    """The engine's program runs; ``process`` is its id."""

    process: int


class Kept(Struct, frozen=True):
    """What the engine wants back as ``Assignment.memory`` in the chat's next turn."""

    memory: str


class Wrote(Struct, frozen=True):
    """A piece of the reply that is being written; ``Replied`` will tell it whole."""

    text: str


class ToolStarted(Struct, frozen=True):
    """The engine begins to use a tool; ``ToolUsed`` tells what came of it."""

    name: str
    input: str


class ToolUsed(Struct, frozen=True):
    """The engine used a tool; ``outcome`` is what came of it, shortened for a reader."""

    name: str
    input: str
    outcome: str


class Replied(Struct, frozen=True):
    """A whole reply of the assistant, in Markdown.

    ``usage`` is what this reply used; ``cost`` in USD where the engine knows it itself, else
    None: then the model's prices tell.
    """

    text: str
    usage: Usage = NOTHING
    cost: Decimal | None = None


class Spent(Struct, frozen=True):
    """What was used for no reply of its own; it is booked with the next one, or with the turn."""

    usage: Usage = NOTHING
    cost: Decimal | None = None


class Limited(Struct, frozen=True):
    """The supplier's usage limit is reached: the turn is to be tried again once it is over."""

    reason: str
    until: Timestamp = ""
    """When the limit is reset; empty: not told."""
    seconds: float = 0.0
    """How long it lasts, where that is told in place of the moment; 0: not told."""


class Failed(Struct, frozen=True):
    """The turn cannot go on; ``reason`` is a sentence for the person who sent the prompt."""

    reason: str


Progress: TypeAlias = (
    Alive | Kept | Wrote | ToolStarted | ToolUsed | Replied | Spent | Limited | Failed
)


class Question(Struct, frozen=True):
    """What the engine would do, if it may."""

    kind: Kind
    tool: str
    """The tool's name, as it would stand in the history."""
    subject: str
    """What it would do, whole: the command, the path, the address."""
    reason: str = ""
    """Why the engine wants it, in its own words, if it said."""
    protected: str = ""
    """Why the place is protected (``agent.protected``): then no mode allows it unasked."""
    refusal: str = ""
    """Why nobody may allow it; empty: somebody may."""


class Answer(Struct, frozen=True):
    """The decision on a question."""

    allowed: bool
    session: bool = False
    """It holds for the same question in this chat, too."""
    reason: str = ""
    """Why not, for the engine to read."""


Place: TypeAlias = Callable[[bool], None]
"""Called with False while a turn waits for the disk or a person and needs none of the places that
``max_parallel_turns`` gives, then with True."""


class Approver(Protocol):
    """Whom an engine asks before it does what may do harm."""

    async def ask(self, question: Question) -> Answer:
        """The decision, at once where a rule decides; never later than the question's deadline."""
        ...


class Engine(Protocol):
    """A coding agent that carries out one turn at a time per chat, many chats at once."""

    name: str

    def run(self, assignment: Assignment, approver: Approver) -> AsyncGenerator[Progress, None]:
        """Carry out one prompt.

        Closing the generator stops the turn and all that it started, within ten seconds. So does
        ``CancelledError``, after which it may still tell what was used, what is to be kept and
        which tools were cut off, before it raises the error again.
        """
        ...
