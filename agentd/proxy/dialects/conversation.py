"""A conversation with a model, and its reply, in nobody's dialect.

Each dialect writes a ``Conversation`` as its request, and reads its answer, streamed or whole,
as ``Event``s. ``Draft`` makes the reply's message from them, which goes into the next request.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.proxy.price import NOTHING, Usage

DialectName: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]


class Text(Struct, frozen=True):
    """Words."""

    text: str


class Image(Struct, frozen=True):
    """A picture: its bytes as base64 in ``data``, or an address where the supplier fetches it."""

    media_type: str = ""
    """Such as ``image/png``; with ``data`` only."""
    data: str = ""
    url: str = ""


PDF = "application/pdf"
"""The only type of document that all suppliers take."""


class Document(Struct, frozen=True):
    """A PDF: its bytes as base64 in ``data``, or an address where the supplier fetches it."""

    data: str = ""
    url: str = ""
    name: str = ""
    """The file's, or a title."""


Shown: TypeAlias = Text | Image | Document
"""What the user, or a tool's result, can show to the model."""


class ToolCall(Struct, frozen=True):
    """The model wants a tool used."""

    id: str
    name: str
    arguments: str = "{}"
    """JSON as the model wrote it: it may be cut off, or be no object."""


class ToolResult(Struct, frozen=True):
    """What came of the call with this ``id``."""

    id: str
    content: tuple[Shown, ...]
    is_error: bool = False


class Thinking(Struct, frozen=True):
    """What the model thought. It goes back unchanged, and to the dialect that it came from only."""

    dialect: DialectName
    text: str = ""
    """What a reader may see of it."""
    signature: str = ""
    """The supplier's seal on the text (Anthropic), or on what follows it (Gemini)."""
    sealed: str = ""
    """What only the supplier can read: redacted thinking (Anthropic), or a whole reasoning item
    as JSON (Responses)."""


Part: TypeAlias = Shown | ToolCall | ToolResult | Thinking

Role: TypeAlias = Literal["user", "assistant"]


class Message(Struct, frozen=True):
    """What one side said. Tool calls and thinking are the assistant's, tool results the user's."""

    role: Role
    parts: tuple[Part, ...]


class Tool(Struct, frozen=True):
    """A tool that the model may ask for; ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, object]
    strict: bool = False
    """Whether the arguments must fit the schema, whatever it costs the supplier."""


class JsonFormat(Struct, frozen=True):
    """The reply is to be JSON that fits ``schema``; without one, any JSON object."""

    schema: dict[str, object] | None = None
    name: str = ""
    description: str = ""
    """What it is for, told to the model."""
    strict: bool = False
    """Whether it must fit the schema, as with tools."""


class OneTool(Struct, frozen=True):
    """The model must ask for this tool."""

    name: str


class Conversation(Struct, frozen=True, kw_only=True):
    """All that a model is told for one reply. What is left out is the supplier's default."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] | OneTool = "auto"
    parallel: bool = True
    """Whether the model may ask for several tools at once."""
    max_output: int = 0
    """Tokens of the reply, thinking included; 0: the default. Anthropic needs one: take it from
    the model's card where there is one."""
    effort: str = ""
    """How hard to think: a word of the supplier's, such as ``low``; with Anthropic also a number,
    the most tokens of thinking, for models that do not know words."""
    temperature: float | None = None
    top_p: float | None = None
    """Only the likeliest words are taken, which together are so likely."""
    top_k: int | None = None
    """Only so many of the likeliest words are taken."""
    stop: tuple[str, ...] = ()
    """The reply ends before any of these."""
    reply_format: JsonFormat | None = None
    verbosity: Literal["", "low", "high"] = ""
    """How much is to be said."""
    user: str = ""
    """Whom the caller asks for, by a name that tells nothing, so that a supplier who finds an
    abuse can tell one user from another."""
    cache_key: str = ""
    """The same for all requests of one conversation, so that the supplier remembers its
    beginning; empty: nothing is asked to be remembered."""
    dropped: tuple[str, ...] = ()
    """What of the caller's request no other dialect has a place for, by its field or type."""


StopReason: TypeAlias = Literal["end", "length", "tool_calls", "refused"]
"""``length``: the reply was cut at ``max_output`` or at the end of the model's context;
``refused``: by the model, or by a filter of the supplier."""

ErrorKind: TypeAlias = Literal[
    "authentication",
    "permission",
    "not_found",
    "invalid_request",
    "context_too_long",
    "rate_limit",
    "quota",
    "overloaded",
    "server",
    "garbled",
    "broken",
]
"""``quota``: paid for no more; ``garbled``: what the supplier said cannot be understood;
``broken``: the stream ended before the reply did."""


class Started(Struct, frozen=True):
    """The reply begins: the supplier's name for it, and the model that really answers."""

    id: str
    model: str


class TextDelta(Struct, frozen=True):
    """A piece of the reply's text, never empty."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of what the model thinks, never empty."""

    text: str


class ThinkingDone(Struct, frozen=True):
    """A piece of thinking is whole, as it has to go back."""

    thinking: Thinking


class CallStarted(Struct, frozen=True):
    """The model begins to ask for a tool; ``index`` counts the calls of one reply from 0."""

    index: int
    id: str
    name: str


class CallDelta(Struct, frozen=True):
    """A piece of the call's arguments, JSON text, never empty."""

    index: int
    text: str


class CallDone(Struct, frozen=True):
    """The call is whole."""

    index: int
    call: ToolCall


class UsageSeen(Struct, frozen=True):
    """What the supplier counted up to now; the last one holds. There may be none."""

    usage: Usage


class Finished(Struct, frozen=True):
    """The reply is whole. Nothing follows."""

    reason: StopReason


class SupplierError(Struct, frozen=True):
    """The supplier failed, or refused. Nothing follows; what came before is not a whole reply."""

    kind: ErrorKind
    message: str
    """A sentence for the reader, mostly the supplier's own."""
    retry_after: float | None = None
    """Seconds after which the supplier wants to be asked again, if it said."""

    def hiding(self, secret: str) -> "SupplierError":
        """The same without the key that was used, should the supplier have repeated it."""
        if not secret or secret not in self.message:
            return self
        return SupplierError(self.kind, self.message.replace(secret, "***"), self.retry_after)


Event: TypeAlias = (
    Started
    | TextDelta
    | ThinkingDelta
    | ThinkingDone
    | CallStarted
    | CallDelta
    | CallDone
    | UsageSeen
    | Finished
    | SupplierError
)


class Draft:
    """The reply as it grows: tell it every event. ``end`` is None as long as it grows."""

    def __init__(self) -> None:
        self.usage: Usage = NOTHING
        self.end: Finished | SupplierError | None = None
        self._parts: list[ThinkingDone | CallDone | list[str]] = []

    def add(self, event: Event) -> None:
        """Take one event."""
        match event:
            case TextDelta(text):
                if not (self._parts and isinstance(self._parts[-1], list)):
                    self._parts.append([])
                written = self._parts[-1]
                assert isinstance(written, list)
                written.append(text)
            case ThinkingDone() | CallDone():
                self._parts.append(event)
            case UsageSeen(usage):
                self.usage = usage
            case Finished() | SupplierError():
                self.end = event
            case _:
                pass

    @property
    def text(self) -> str:
        """All text of the reply so far."""
        return "".join("".join(part) for part in self._parts if isinstance(part, list))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The whole calls so far."""
        return tuple(part.call for part in self._parts if isinstance(part, CallDone))

    def message(self) -> Message:
        """What the model said so far, in its order; unfinished calls and thinking are not in it."""
        return Message("assistant", tuple(map(_part, self._parts)))


def _part(part: ThinkingDone | CallDone | list[str]) -> Part:
    match part:
        case ThinkingDone(thinking):
            return thinking
        case CallDone(_, call):
            return call
        case _:
            return Text("".join(part))
