"""A conversation with a model and its reply, independent of any supplier's dialect.

Each dialect encodes a ``Conversation`` as its request, and parses the response, streamed or whole,
into ``ReplyEvent``s. ``ReplyBuilder`` turns those into the message for the next request.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agentd.core.redaction import mask_values
from agentd.llm.price import NO_USAGE, Usage

DialectName: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]


class TextPart(Struct, frozen=True):
    """Plain text."""

    text: str


class ImagePart(Struct, frozen=True):
    """An image: base64 bytes in ``data``, or a URL that the supplier fetches."""

    media_type: str = ""
    """The media type, such as ``image/png``; with ``data`` only."""
    data: str = ""
    url: str = ""


PDF = "application/pdf"
"""The only type of document that all suppliers take."""


class DocumentPart(Struct, frozen=True):
    """A PDF: base64 bytes in ``data``, or a URL that the supplier fetches."""

    data: str = ""
    url: str = ""
    name: str = ""
    """The file's, or a title."""


ContentPart: TypeAlias = TextPart | ImagePart | DocumentPart
"""The content that the user, or a tool's result, can show to the model."""


class ToolCall(Struct, frozen=True):
    """A tool call requested by the model."""

    id: str
    name: str
    arguments: str = "{}"
    """JSON as the model wrote it: it may be cut off, or be no object."""
    freeform: bool = False
    """True if the caller marked it as a freeform tool's; see ``Tool.freeform``."""


class ToolResult(Struct, frozen=True):
    """The result of the tool call with this ``id``."""

    id: str
    content: tuple[ContentPart, ...]
    is_error: bool = False


class Thinking(Struct, frozen=True):
    """The model's reasoning. It is sent back unchanged, and only to the dialect it came from."""

    dialect: DialectName
    text: str = ""
    """The text that a reader may see."""
    signature: str = ""
    """The supplier's seal on the text (Anthropic), or on what follows it (Gemini)."""
    sealed: str = ""
    """Data only the supplier can read: redacted thinking (Anthropic), or a whole reasoning item
    as JSON (Responses)."""


class SupplierItem(Struct, frozen=True):
    """A part of a reply that only its supplier reads, such as what its web search found.

    It is sent back unchanged, and only to the dialect it came from.
    """

    dialect: DialectName
    data: str
    """JSON."""


MessagePart: TypeAlias = ContentPart | ToolCall | ToolResult | Thinking | SupplierItem

Role: TypeAlias = Literal["user", "assistant"]


class ModelMessage(Struct, frozen=True):
    """A message. Tool calls and thinking belong to the assistant, tool results to the user."""

    role: Role
    parts: tuple[MessagePart, ...]


class FreeformFormat(Struct, frozen=True):
    """The format of a freeform tool's input: plain text, optionally constrained by a grammar."""

    syntax: str = ""
    """The grammar's language, such as ``lark`` or ``regex``."""
    definition: str = ""


class ToolDefinition(Struct, frozen=True):
    """A tool that the model may call; ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, object]
    strict: bool = False
    """True if the arguments must fit the schema, whatever it costs the supplier."""
    freeform: FreeformFormat | None = None
    """Set for a tool whose input is bare text. For a supplier that knows functions only it is one
    with this ``schema``; see the module ``freeform``."""


class JsonFormat(Struct, frozen=True):
    """Demand a JSON reply that fits ``schema``; without a schema, any JSON object."""

    schema: dict[str, object] | None = None
    name: str = ""
    description: str = ""
    """The tool's purpose, shown to the model."""
    strict: bool = False
    """True if it must fit the schema, as with tools."""


class NamedTool(Struct, frozen=True):
    """The model must call this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


class Conversation(Struct, frozen=True, kw_only=True):
    """Everything sent to a model for one reply. Omitted fields mean the supplier's default."""

    messages: tuple[ModelMessage, ...]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    web_search: bool = False
    """Offer the model its supplier's own web search, where the dialect has one."""
    parallel_tool_calls: bool = True
    """True if the model may ask for several tools at once."""
    max_output: int = 0
    """Tokens of the reply, thinking included; 0: the default. Anthropic needs one: take it from
    the model's card where there is one."""
    reasoning_effort: str = ""
    """The thinking effort: a word of the supplier's, such as ``low``; with Anthropic also a number,
    the most tokens of thinking, for models that do not know words."""
    show_thinking: bool = False
    """Ask for a summary of the thinking where the supplier hides it unless asked for one."""
    keep_thinking: bool = False
    """Ask for the thinking in the form in which it has to be sent back, where the supplier gives it
    only to those who ask."""
    temperature: float | None = None
    top_p: float | None = None
    """Sample only from the likeliest words whose probabilities add up to this."""
    top_k: int | None = None
    """Sample only from this many of the likeliest words."""
    seed: int | None = None
    """For replies that are the same for the same request, as far as the supplier can."""
    stop_sequences: tuple[str, ...] = ()
    """The reply ends before any of these."""
    response_format: JsonFormat | None = None
    verbosity: Literal["", "low", "high"] = ""
    """The length of the reply."""
    user: str = ""
    """The caller's user, by an opaque name, so that a supplier that detects an
    abuse can distinguish users."""
    cache_key: str = ""
    """The same for all requests of one conversation, so that the supplier remembers its
    beginning; empty: nothing is asked to be remembered."""
    dropped_fields: tuple[str, ...] = ()
    """The request's fields or types that no other dialect has a place for."""


StopReason: TypeAlias = Literal["end", "length", "tool_calls", "refused"]
"""``length``: the reply was cut at ``max_output`` or at the end of the model's context;
``refused``: by the model, or by a filter of the supplier."""

ErrorKind: TypeAlias = Literal[
    "authentication",
    "permission",
    "not_found",
    "invalid_request",
    "context_too_long",
    "content_refused",
    "rate_limit",
    "quota",
    "overloaded",
    "server",
    "garbled",
    "unusable_reply",
    "broken",
]
"""``content_refused``: by a filter of the supplier; ``quota``: no credit left; ``garbled``: the
supplier's response cannot be parsed; ``unusable_reply``: it is valid, but the model's reply in it
cannot be used, such as an invalid tool call, so that another attempt may succeed;
``broken``: the stream ended before the reply did."""


class ReplyStarted(Struct, frozen=True):
    """The reply begins: the supplier's id for it, and the model that actually answers."""

    id: str
    model: str


class TextDelta(Struct, frozen=True):
    """A piece of the reply's text, never empty."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of the model's thinking, never empty."""

    text: str


class ThinkingDone(Struct, frozen=True):
    """A block of thinking is complete, in the form in which it has to be sent back."""

    thinking: Thinking


class ImageDone(Struct, frozen=True):
    """An image in the reply, with its bytes in ``data``."""

    image: ImagePart


class ToolCallStarted(Struct, frozen=True):
    """The model begins a tool call; ``index`` counts the calls of one reply from 0."""

    index: int
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of the call's arguments (JSON text), never empty."""

    index: int
    text: str


class ToolCallDone(Struct, frozen=True):
    """The tool call is complete."""

    index: int
    call: ToolCall


class WebSource(Struct, frozen=True):
    """A page that the supplier's web search found, or that the reply cites."""

    url: str
    title: str = ""


class WebSearchStarted(Struct, frozen=True):
    """The supplier begins to search the web."""


class WebSearchDone(Struct, frozen=True):
    """The supplier has searched the web, or opened a page."""

    query: str
    """The words that it looked for, or the page's address."""
    pages: tuple[WebSource, ...] = ()
    """What it found, where the supplier tells."""
    problem: str = ""
    """Why it found nothing; empty if it worked."""
    billed: bool = True
    """True if the supplier bills it as a search."""


class PageCited(Struct, frozen=True):
    """The reply rests on this page."""

    page: WebSource


class SupplierItemDone(Struct, frozen=True):
    """A part of the reply that has to be sent back as it is."""

    item: SupplierItem


class UsageUpdated(Struct, frozen=True):
    """The supplier's token counts so far; the last event wins. There may be none."""

    usage: Usage


class ReplyFinished(Struct, frozen=True):
    """The reply is complete. Nothing follows."""

    reason: StopReason
    paused: bool = False
    """True if the supplier waits to be asked to go on, with what it said so far."""


class SupplierError(Struct, frozen=True):
    """The supplier failed or refused. Nothing follows; what came before is an incomplete reply."""

    kind: ErrorKind
    message: str
    """A sentence for the reader, mostly the supplier's own."""
    retry_after: float | None = None
    """Seconds after which the supplier wants to be asked again, if it said."""

    def mask(self, secrets: Iterable[str]) -> "SupplierError":
        """Return the same error without these secrets, in case the supplier repeated one."""
        masked = mask_values(self.message, secrets, may_be_cut=True)
        return self if masked == self.message else structs.replace(self, message=masked)


ReplyEvent: TypeAlias = (
    ReplyStarted
    | TextDelta
    | ThinkingDelta
    | ThinkingDone
    | ImageDone
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallDone
    | WebSearchStarted
    | WebSearchDone
    | PageCited
    | SupplierItemDone
    | UsageUpdated
    | ReplyFinished
    | SupplierError
)


def describe_image(image: ImagePart) -> str:
    """Return what a reader is told of an image in a reply that cannot be shown here."""
    size = len(image.data) * 3 // 4
    return f"[The model returned an image ({image.media_type}, {size:,} bytes), not shown here.]"


PARAGRAPH = "\n\n"
"""Stands between what a reply says before a web search and after it."""


class ReplyBuilder:
    """Builds a reply from its events. ``end`` is None until the last event was added."""

    def __init__(self) -> None:
        self.usage: Usage = NO_USAGE
        self.end: ReplyFinished | SupplierError | None = None
        self.searches = 0
        """The web searches that the supplier bills."""
        self.cited: dict[str, WebSource] = {}
        """The pages that the reply cites, by their addresses."""
        self._parts: list[ThinkingDone | ToolCallDone | SupplierItemDone | list[str]] = []

    def add(self, event: ReplyEvent) -> None:
        """Add one event."""
        match event:
            case TextDelta(text):
                if not (self._parts and isinstance(self._parts[-1], list)):
                    self._parts.append([])
                written = self._parts[-1]
                assert isinstance(written, list)
                written.append(text)
            case ThinkingDone() | ToolCallDone() | SupplierItemDone():
                self._parts.append(event)
            case ImageDone(image):
                self.add(TextDelta(describe_image(image)))
            case WebSearchDone():
                self.searches += event.billed
            case PageCited(page):
                self.cited.setdefault(page.url, page)
            case UsageUpdated(usage):
                self.usage = usage
            case ReplyFinished() | SupplierError():
                self.end = event
            case _:
                pass

    @property
    def text(self) -> str:
        """The text of the reply so far."""
        texts: list[str] = []
        for before, part in zip([None, *self._parts], self._parts, strict=False):
            if isinstance(part, list):
                texts += [PARAGRAPH] if texts and isinstance(before, SupplierItemDone) else []
                texts += part
        return "".join(texts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The completed tool calls so far."""
        return tuple(part.call for part in self._parts if isinstance(part, ToolCallDone))

    def build_message(self) -> ModelMessage:
        """Return the message so far, in order, without unfinished calls and thinking."""
        return ModelMessage("assistant", tuple(map(_finish_part, self._parts)))


def _finish_part(
    part: ThinkingDone | ToolCallDone | SupplierItemDone | list[str],
) -> MessagePart:
    match part:
        case SupplierItemDone(item):
            return item
        case ThinkingDone(thinking):
            return thinking
        case ToolCallDone(_, call):
            return call
        case _:
            return TextPart("".join(part))
