"""The interface between the dispatcher and an engine.

An engine runs one turn: it gets a ``TurnRequest`` and yields a stream of ``EngineEvent``. What
enters the history (``ToolUsed``, ``ReplyCompleted``) is complete; ``ReplyDelta`` shows a reply as
it grows, ``ThinkingProgress`` what the model thinks before it.
"""

from collections.abc import AsyncGenerator, Callable
from decimal import Decimal
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.chats.approval import ApprovalKind
from agentd.chats.model import Message
from agentd.core.clock import Timestamp
from agentd.llm.conversation import ImagePart
from agentd.llm.price import NO_USAGE, Usage
from agentd.models.program_state import ProgramMode, UsageWindow


class TurnRequest(Struct, frozen=True):
    """A prompt to run, with the settings of its chat."""

    chat_id: int
    prompt: str
    model: str = ""
    """The supplier's name of the model; empty: the engine's own default."""
    effort: str = ""
    """The reasoning effort, in the supplier's words; empty: its default."""
    mode: str = ""
    """The mode of the program, such as ``plan``; empty: its usual one."""
    supplier: str = ""
    """The name of the supplier to use; empty: the engine's own sign-in."""
    context: int = 0
    """The model's context window in tokens; 0: unknown."""
    max_output: int = 0
    """Tokens of a reply that the model can write at most; 0: unknown."""
    web_search: bool = False
    """Offer the model its supplier's own web search."""
    web_search_price: Decimal | None = None
    """USD for one search; None: not counted."""
    message: int = 0
    """The id of the prompt's message in the history; 0: unknown."""
    command: tuple[str, ...] = ()
    """The program of an external engine with its arguments; empty: the engine's default."""
    images: tuple[ImagePart, ...] = ()
    """The prompt's images, as bytes; the prompt names their files."""
    shows_images: bool = True
    """False: the model's supplier refuses them."""
    output_schema: str = ""
    """The JSON Schema that the reply has to fit, as JSON; empty: any text will do."""
    priced: bool = False
    """True if the prices of the model are known: costs are computed from its tokens."""
    skill: str = "none"
    instructions: str = ""
    """The chat's system prompt and its skill's text, for engines without skills."""
    history: tuple[Message, ...] = ()
    """The latest messages before this prompt, oldest first, for engines without sessions."""
    missed: tuple[Message, ...] = ()
    """The messages since this engine's last turn in the chat, from turns of other engines."""
    engine_state: str = ""
    """The state that this engine saved for this chat, such as its session's id."""
    is_retry: bool = False
    """An earlier try at this prompt was ended, by a limit or by the daemon's end."""
    is_delivery_uncertain: bool = False
    """The daemon ended it, perhaps before an engine got it; else this engine's session has it."""
    folder: str = ""
    """The folder of the chat's own work tree, absolute; empty: it works in the workspace."""
    turn_tag: str = ""
    """Unique over all daemons; the turn's programs have it in their environment."""


class EngineStarted(Struct, frozen=True):
    """The engine's program runs with this process id."""

    pid: int


class ApprovalRequested(Struct, frozen=True):
    """The engine's program asks whether it may do something; the approver is asked next."""


class EngineStateSaved(Struct, frozen=True):
    """The state passed to the engine as ``TurnRequest.engine_state`` in the chat's next turn."""

    engine_state: str


class ReplyDelta(Struct, frozen=True):
    """A piece of the reply being written; ``ReplyCompleted`` will have all of it."""

    text: str


class ThinkingProgress(Struct, frozen=True):
    """A piece of the model's thinking, shown while the turn runs and in no history."""

    text: str


class ToolStarted(Struct, frozen=True):
    """The engine begins to use a tool; ``ToolUsed`` will have its outcome."""

    name: str
    input: str
    id: str = ""
    """The engine's id of a use that starts a sub-agent; may be empty for others."""
    parent: str = ""
    """The id of the use that started the sub-agent whose tool this is; empty: the turn's own."""


class ToolUsed(Struct, frozen=True):
    """The engine used a tool; ``outcome`` is shortened for a reader."""

    name: str
    input: str
    outcome: str
    ok: bool = True
    diff: str = ""
    """The change in files, as a unified diff (``agent.diff``)."""
    id: str = ""
    """The same as in ``ToolStarted``."""
    parent: str = ""


class ReplyCompleted(Struct, frozen=True):
    """A complete reply of the assistant, in Markdown.

    ``usage`` is what this reply used; ``cost`` is in USD if the engine knows it, else None: then
    it is computed from the model's prices.
    """

    text: str
    usage: Usage = NO_USAGE
    cost: Decimal | None = None
    engine_state: str = ""
    """The engine's new state, saved together with this usage; empty: unchanged."""


class UsageReported(Struct, frozen=True):
    """Usage without a reply of its own; it is recorded with the next one, or with the turn."""

    usage: Usage = NO_USAGE
    cost: Decimal | None = None
    engine_state: str = ""
    """The same as in ``ReplyCompleted``."""


class UsageWindowsReported(Struct, frozen=True):
    """The program told how much of its sign-in's limits is used."""

    windows: tuple[UsageWindow, ...]
    """The windows that it reported; the others are unchanged."""


class ModesListed(Struct, frozen=True):
    """The program told all modes in which it can work."""

    modes: tuple[ProgramMode, ...]


class RateLimited(Struct, frozen=True):
    """The supplier's usage limit is reached: the turn is retried once it is over."""

    reason: str
    until: Timestamp = ""
    """The time at which the limit is reset; empty: unknown."""
    seconds: float = 0.0
    """The duration of the limit, if the supplier gave that instead of a time; 0: unknown."""


class TurnFailed(Struct, frozen=True):
    """The turn cannot go on; ``reason`` is a sentence for the person who sent the prompt."""

    reason: str


EngineEvent: TypeAlias = (
    EngineStarted
    | ApprovalRequested
    | EngineStateSaved
    | ReplyDelta
    | ThinkingProgress
    | ToolStarted
    | ToolUsed
    | ReplyCompleted
    | UsageReported
    | UsageWindowsReported
    | ModesListed
    | RateLimited
    | TurnFailed
)


class Question(Struct, frozen=True):
    """An action of the engine that needs a decision."""

    kind: ApprovalKind
    tool: str
    """The tool's name, as the history shows it."""
    subject: str
    """The action in full: the command, the path, the address."""
    reason: str = ""
    """Why the engine wants it, in its own words; may be empty."""
    protected: str = ""
    """Why the path is protected (``system.protected_paths``): then no mode allows it unasked."""
    refusal: str = ""
    """Why it cannot be approved; empty if it can."""
    diff: str = ""
    """The change in files, as a unified diff; empty: none, or unknown."""
    choices: tuple[str, ...] = ()
    """The answers that a question to the person offers."""
    granted: bool = False
    """The owner's settings of an MCP server, or a hook of theirs, allow it, unless a rule says
    otherwise, or it is protected."""


class ApprovalAnswer(Struct, frozen=True):
    """The decision on a question."""

    allowed: bool
    session: bool = False
    """True if it also holds for the same question in this chat."""
    reason: str = ""
    """Why it was denied, or what the person says to it, for the engine to read."""
    note: str = ""
    """The person's own words, which ``reason`` has too; empty: nothing was said."""
    by_person: bool = False
    """True if a person decided, not a rule or the deadline."""
    by: str = ""
    """Which person: ``user:anna``, ``key:laptop``, ``bot:team``."""


OccupySlot: TypeAlias = Callable[[bool], None]
"""Called with False while a turn waits for the disk or a person and needs none of the slots of
``max_parallel_turns``, then with True."""


class Approver(Protocol):
    """Decides whether an engine may do what could do harm."""

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Return the decision: at once if a rule decides, at the deadline at the latest."""
        ...


class Engine(Protocol):
    """A coding agent that runs one turn at a time per chat, many chats at once."""

    name: str

    def run(self, assignment: TurnRequest, approver: Approver) -> AsyncGenerator[EngineEvent, None]:
        """Run one prompt.

        Closing the generator stops the turn and all that it started, within ten seconds. So does
        ``CancelledError``, after which it may still report usage, state and interrupted tools
        before it raises the error again.
        """
        ...
