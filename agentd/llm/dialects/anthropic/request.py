"""Requests to ``/v1/messages``: peeked at, passed through, or parsed completely."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    ContentPart,
    Conversation,
    JsonFormat,
    MessagePart,
    ModelMessage,
    NamedTool,
    Role,
    TextPart,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects import service_tier as extras
from agentd.llm.dialects.caller import RequestSummary, UnsupportedRequest
from agentd.llm.dialects.request_parsing import (
    MAX_TOKENS,
    FieldRules,
    Ignored,
    ModelName,
    StrictPart,
    TokenCount,
    decode_as,
    decode_strict,
    join_paragraphs,
    merge_adjacent,
    parse_document_url,
    parse_image_url,
    replace_model,
)
from agentd.llm.dialects.thinking_signatures import unwrap_thinking

RULES = FieldRules(
    ignored={
        "model": "it selected the channel",
        "stream": "the gateway decides about streaming",
        "cache_control": "other suppliers cache prefixes automatically",
        "service_tier": "Anthropic's service tiers; other suppliers do not have them",
        "context_management": "what Anthropic may drop from the context; others get everything",
    },
    neutral={
        "inference_geo": ("global",),
        "mcp_servers": ([],),
        "speed": ("standard",),
    },
    refused={
        "container": "it runs no code",
        "mcp_servers": "it does not call MCP servers",
    },
)


class _Envelope(Struct):
    model: ModelName
    stream: bool | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    """0: the supplier only fills its cache, and generates no reply."""
    tools: Any = None
    service_tier: Any = None
    speed: Any = None
    inference_geo: Any = None


class _Block(StrictPart, frozen=True, kw_only=True):
    """A part of a message; other suppliers cache prefixes automatically."""

    cache_control: Ignored = None


class _Text(_Block, frozen=True, tag="text"):
    text: str
    citations: Ignored = None
    """The model's sources, for the reader."""


class _Base64(StrictPart, frozen=True, tag="base64"):
    media_type: str
    data: str


class _Url(StrictPart, frozen=True, tag="url"):
    url: str


class _Image(_Block, frozen=True, tag="image"):
    source: _Base64 | _Url


class _PlainText(StrictPart, frozen=True, tag="text"):
    data: str
    media_type: Literal["text/plain"]


class _Content(StrictPart, frozen=True, tag="content"):
    """A document in pieces, as the caller wants them cited."""

    content: str | list[_Text | _Image]


class _Citations(StrictPart, frozen=True):
    enabled: bool = False


class _Document(_Block, frozen=True, tag="document"):
    """Text, images and PDFs are understood by everybody, and only Anthropic cites them."""

    source: _PlainText | _Content | _Base64 | _Url
    citations: _Citations | None = None
    title: str | None = None
    context: str | None = None


class _SearchResult(_Block, frozen=True, tag="search_result"):
    """A piece that the caller found in a search of its own; for others it is text."""

    source: str
    title: str
    content: list[_Text]
    citations: _Citations | None = None


class _ToolUse(_Block, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: Raw
    caller: Ignored = None
    """True if the model called it directly, which for others it always does."""
    toolset_name: None = None


class _ToolResult(_Block, frozen=True, tag="tool_result"):
    tool_use_id: str
    content: str | list[_Text | _Image | _Document | _SearchResult] | None = None
    is_error: bool | None = None
    toolset_name: None = None


class _Thinking(StrictPart, frozen=True, tag="thinking"):
    thinking: str
    signature: str = ""


class _Redacted(StrictPart, frozen=True, tag="redacted_thinking"):
    data: str


_ContentBlock: TypeAlias = (
    _Text | _Image | _Document | _SearchResult | _ToolUse | _ToolResult | _Thinking | _Redacted
)


class _Message(StrictPart, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[_ContentBlock]


class _Tool(_Block, frozen=True):
    name: str
    input_schema: dict[str, object]
    description: str = ""
    type: Literal["custom"] | None = None
    strict: bool | None = None
    eager_input_streaming: Ignored = None
    """The timing of the arguments' deltas, for the reader."""


class _Choice(StrictPart, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class _Enabled(StrictPart, frozen=True, tag="enabled"):
    budget_tokens: Annotated[int, Meta(ge=1)]
    display: Ignored = None
    """The visible part of the thinking: as the other supplier shows it."""


class _Adaptive(StrictPart, frozen=True, tag="adaptive"):
    display: Ignored = None


class _Disabled(StrictPart, frozen=True, tag="disabled"):
    """The default of Anthropic's models, which need not be sent."""


class _Format(StrictPart, frozen=True):
    type: Literal["json_schema"]
    schema: dict[str, object]


class _Output(StrictPart, frozen=True):
    effort: str | None = None
    format: _Format | None = None


class _Metadata(StrictPart, frozen=True):
    user_id: str | None = None


class _Thread(Struct, frozen=True):
    """A conversation that Anthropic stores; its libraries' tool runners ask for one."""

    type: str


class _Request(Struct, frozen=True, kw_only=True):
    messages: list[_Message]
    system: str | list[_Text] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    max_tokens: TokenCount | None = None
    thinking: _Enabled | _Adaptive | _Disabled | None = None
    output_config: _Output | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    thread: _Thread | None = None


def peek(body: bytes) -> RequestSummary:
    """Do as ``CallerDialect.peek``; also for a request to ``count_tokens``."""
    seen = decode_as(body, _Envelope)
    return RequestSummary(
        seen.model,
        bool(seen.stream),
        seen.max_tokens or 0,
        service_tier=extras.name_service("anthropic", seen),
        uses_paid_tools=extras.offers_paid_tools(seen.tools),
    )


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Do as ``CallerDialect.rewrite_for_passthrough``; a message always reports its usage."""
    return replace_model(body, model)


def parse_request(body: bytes) -> Conversation:
    """Do as ``CallerDialect.parse_request``."""
    request = decode_strict(body, _Request, RULES)
    if request.thread:
        raise _make_thread_error(request.thread)
    instructions = [*_iter_texts(request.system)]
    for message in request.messages:
        if message.role == "system":
            instructions += _iter_texts(_require_text(message.content))
    choice = request.tool_choice or _Choice("auto")
    output = request.output_config or _Output()
    return Conversation(
        messages=merge_adjacent(
            _parse_message(one) for one in request.messages if one.role != "system"
        ),
        system=join_paragraphs(instructions),
        tools=tuple(map(_parse_tool, request.tools or ())),
        tool_choice=_parse_choice(choice),
        parallel_tool_calls=not choice.disable_parallel_tool_use,
        max_output=request.max_tokens or 0,
        reasoning_effort=_parse_effort(request.thinking, output.effort),
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop_sequences=tuple(request.stop_sequences or ()),
        response_format=JsonFormat(output.format.schema, strict=True) if output.format else None,
        user=(request.metadata and request.metadata.user_id) or "",
    )


def _make_thread_error(thread: _Thread) -> UnsupportedRequest:
    """Return the error that makes the client send all messages instead of a thread."""
    text = "The model's supplier stores no threads; send the whole conversation without one"
    if thread.type == "continue":
        return UnsupportedRequest(text, {"error_code": "thread_not_found"})
    return UnsupportedRequest(
        text, {"error_code": "thread_unsupported_request", "unsupported": ["model"]}
    )


def _iter_texts(content: str | list[_Text] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block.text for block in content or ())


def _require_text(content: str | list[_ContentBlock]) -> str | list[_Text]:
    if isinstance(content, str):
        return content
    texts = [block for block in content if isinstance(block, _Text)]
    if len(texts) < len(content):
        raise BadRequest("A message of the role system must contain only text")
    return texts


def _parse_message(message: _Message) -> ModelMessage:
    role: Role = "assistant" if message.role == "assistant" else "user"
    if isinstance(message.content, str):
        return ModelMessage(role, (TextPart(message.content),) if message.content else ())
    return ModelMessage(
        role, tuple(part for block in message.content for part in _parse_block(block))
    )


def _parse_block(block: _ContentBlock) -> Iterator[MessagePart]:
    match block:
        case _ToolUse():
            yield ToolCall(block.id, block.name, bytes(block.input).decode())
        case _ToolResult(content=content):
            blocks = [_Text(text=content)] if isinstance(content, str) else content or []
            parts = tuple(piece for inner in blocks for piece in _parse_content(inner))
            yield ToolResult(block.tool_use_id, parts, bool(block.is_error))
        case _Thinking(thinking=text, signature=signature):
            yield unwrap_thinking(signature, text) or Thinking("anthropic", text, signature)
        case _Redacted(data=sealed):
            yield unwrap_thinking(sealed, "") or Thinking("anthropic", sealed=sealed)
        case _:
            yield from _parse_content(block)


def _parse_content(block: _Text | _Image | _Document | _SearchResult) -> Iterator[ContentPart]:
    match block:
        case _Text(text=words):
            if words:
                yield TextPart(words)
        case _Image(source=_Url(url=url)):
            yield parse_image_url(url)
        case _Image(source=_Base64(media_type=kind, data=data)):
            yield parse_image_url(f"data:{kind};base64,{data}")
        case _Document(citations=cited) | _SearchResult(citations=cited) if cited and cited.enabled:
            raise BadRequest("The model's supplier does not support citations")
        case _Document():
            yield from _parse_document(block)
        case _SearchResult():
            about = (block.title, block.source)
            yield TextPart(join_paragraphs((*about, *_iter_texts(block.content))))


def _parse_document(block: _Document) -> Iterator[ContentPart]:
    title, context = block.title or "", block.context or ""
    match block.source:
        case _PlainText(data=text) | _Content(content=str(text)):
            yield TextPart(join_paragraphs((title, context, text)))
        case _Content(content=list(pieces)):
            if about := join_paragraphs((title, context)):
                yield TextPart(about)
            for piece in pieces:
                yield from _parse_content(piece)
        case _Base64() | _Url() as source:
            if context:
                yield TextPart(context)
            yield _parse_file(source, title)


def _parse_file(source: _Base64 | _Url, title: str) -> ContentPart:
    if isinstance(source, _Url):
        return parse_document_url(source.url, title)
    return parse_document_url(f"data:{source.media_type};base64,{source.data}", title)


def _parse_tool(tool: _Tool) -> ToolDefinition:
    return ToolDefinition(tool.name, tool.description, tool.input_schema, bool(tool.strict))


def _parse_choice(choice: _Choice) -> Literal["auto", "none", "required"] | NamedTool:
    match choice.type:
        case "tool":
            if not choice.name:
                raise BadRequest('"tool_choice" of the type tool requires a name')
            return NamedTool(choice.name)
        case "any":
            return "required"
        case other:
            return other


def _parse_effort(thinking: _Enabled | _Adaptive | _Disabled | None, effort: str | None) -> str:
    """Return the effort word if given; a model that thinks adaptively thinks hard by default."""
    if effort:
        return effort
    match thinking:
        case _Enabled(budget_tokens=budget):
            return str(budget)
        case _Adaptive():
            return "high"
    return ""
