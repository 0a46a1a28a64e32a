"""Requests to ``/v1/messages``: glanced at, passed on, or understood as a whole."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw, Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance, Unsupported
from agentd.proxy.dialects.callers import extras
from agentd.proxy.dialects.callers.asked import (
    Ignored,
    Name,
    Rules,
    Strict,
    Tokens,
    document,
    for_model,
    glanced,
    joined,
    paragraphs,
    picture,
    translated,
)
from agentd.proxy.dialects.callers.seals import unsealed
from agentd.proxy.dialects.conversation import (
    Conversation,
    JsonFormat,
    Message,
    OneTool,
    Part,
    Role,
    Shown,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)

RULES = Rules(
    ignored={
        "model": "which supplier is asked was decided by it",
        "stream": "how the reply is told is the gateway's matter",
        "cache_control": "others remember a conversation's beginning by themselves",
        "service_tier": "which of Anthropic's tiers may be used; others have none of them",
        "context_management": "what Anthropic may forget; others are told everything",
    },
    neutral={
        "inference_geo": ("global",),
        "mcp_servers": ([],),
        "speed": ("standard",),
    },
    refused={
        "container": "it runs no code",
        "mcp_servers": "it uses no tools by itself",
    },
)


class _Glanced(Struct):
    model: Name
    stream: bool | None = None
    max_tokens: Tokens | None = None
    tools: Any = None
    service_tier: Any = None
    speed: Any = None
    inference_geo: Any = None


class _Block(Strict, frozen=True, kw_only=True):
    """A part of a message; others remember a conversation's beginning by themselves."""

    cache_control: Ignored = None


class _Text(_Block, frozen=True, tag="text"):
    text: str
    citations: Ignored = None
    """Where the model had its words from, for the reader."""


class _Base64(Strict, frozen=True, tag="base64"):
    media_type: str
    data: str


class _Url(Strict, frozen=True, tag="url"):
    url: str


class _Image(_Block, frozen=True, tag="image"):
    source: _Base64 | _Url


class _PlainText(Strict, frozen=True, tag="text"):
    data: str
    media_type: Literal["text/plain"]


class _Citations(Strict, frozen=True):
    enabled: bool = False


class _Document(_Block, frozen=True, tag="document"):
    """Plain text and PDFs are understood by everybody, and only Anthropic cites them."""

    source: _PlainText | _Base64 | _Url
    citations: _Citations | None = None
    title: str | None = None
    context: str | None = None


class _ToolUse(_Block, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: Raw
    caller: Ignored = None
    """Whether the model called it directly, which for others it always does."""
    toolset_name: None = None


class _ToolResult(_Block, frozen=True, tag="tool_result"):
    tool_use_id: str
    content: "str | list[_Text | _Image | _Document] | None" = None
    is_error: bool | None = None
    toolset_name: None = None


class _Thinking(Strict, frozen=True, tag="thinking"):
    thinking: str
    signature: str = ""


class _Redacted(Strict, frozen=True, tag="redacted_thinking"):
    data: str


_Said: TypeAlias = _Text | _Image | _Document | _ToolUse | _ToolResult | _Thinking | _Redacted


class _Message(Strict, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Said]


class _Tool(_Block, frozen=True):
    name: str
    input_schema: dict[str, object]
    description: str = ""
    type: Literal["custom"] | None = None
    strict: bool | None = None
    eager_input_streaming: Ignored = None
    """How soon the arguments are told, for the reader."""


class _Choice(Strict, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class _Enabled(Strict, frozen=True, tag="enabled"):
    budget_tokens: Annotated[int, Meta(ge=1)]
    display: Ignored = None
    """What is shown of it: whatever the other supplier shows."""


class _Adaptive(Strict, frozen=True, tag="adaptive"):
    display: Ignored = None


class _Disabled(Strict, frozen=True, tag="disabled"):
    """What Anthropic's models do unless they are told otherwise, so it need not be said."""


class _Format(Strict, frozen=True):
    type: Literal["json_schema"]
    schema: dict[str, object]


class _Output(Strict, frozen=True):
    effort: str | None = None
    format: _Format | None = None


class _Metadata(Strict, frozen=True):
    user_id: str | None = None


class _Thread(Struct, frozen=True):
    """A conversation that Anthropic stores; its libraries' tool runners ask for one."""

    type: str


class _Request(Struct, frozen=True, kw_only=True):
    messages: list[_Message]
    system: str | list[_Text] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    max_tokens: Tokens | None = None
    thinking: _Enabled | _Adaptive | _Disabled | None = None
    output_config: _Output | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    thread: _Thread | None = None


def glance(body: bytes) -> Glance:
    """As ``CallerDialect.glance``; also of a request to ``count_tokens``."""
    seen = glanced(body, _Glanced)
    return Glance(
        seen.model,
        bool(seen.stream),
        seen.max_tokens or 0,
        tier=extras.service("anthropic", seen),
        fees=extras.serves(seen.tools),
    )


def passed_on(body: bytes, model: str) -> bytes:
    """As ``CallerDialect.passed_on``; a message always tells its usage."""
    return for_model(body, model)


def understood(body: bytes) -> Conversation:
    """As ``CallerDialect.understood``."""
    asked = translated(body, _Request, RULES)
    if asked.thread:
        raise _without_threads(asked.thread)
    instructions = [*_texts(asked.system)]
    for message in asked.messages:
        if message.role == "system":
            instructions += _texts(_only_text(message.content))
    choice = asked.tool_choice or _Choice("auto")
    output = asked.output_config or _Output()
    return Conversation(
        messages=joined(_message(one) for one in asked.messages if one.role != "system"),
        system=paragraphs(instructions),
        tools=tuple(map(_tool, asked.tools or ())),
        tool_choice=_choice(choice),
        parallel=not choice.disable_parallel_tool_use,
        max_output=asked.max_tokens or 0,
        effort=_effort(asked.thinking, output.effort),
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=asked.top_k,
        stop=tuple(asked.stop_sequences or ()),
        reply_format=JsonFormat(output.format.schema, strict=True) if output.format else None,
        user=(asked.metadata and asked.metadata.user_id) or "",
    )


def _without_threads(thread: _Thread) -> Unsupported:
    """Why no thread is begun or continued: told so that the client sends the whole instead."""
    text = "The model's supplier stores no threads; send the whole conversation without one"
    if thread.type == "continue":
        return Unsupported(text, {"error_code": "thread_not_found"})
    return Unsupported(text, {"error_code": "thread_unsupported_request", "unsupported": ["model"]})


def _texts(content: str | list[_Text] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block.text for block in content or ())


def _only_text(content: str | list[_Said]) -> str | list[_Text]:
    if isinstance(content, str):
        return content
    texts = [block for block in content if isinstance(block, _Text)]
    if len(texts) < len(content):
        raise BadRequest("A message of the role system holds text only")
    return texts


def _message(message: _Message) -> Message:
    role: Role = "assistant" if message.role == "assistant" else "user"
    if isinstance(message.content, str):
        return Message(role, (Text(message.content),) if message.content else ())
    return Message(role, tuple(part for block in message.content for part in _parts(block)))


def _parts(block: _Said) -> Iterator[Part]:
    match block:
        case _ToolUse():
            yield ToolCall(block.id, block.name, bytes(block.input).decode())
        case _ToolResult(content=content):
            blocks = [_Text(text=content)] if isinstance(content, str) else content or []
            told = tuple(piece for inner in blocks for piece in _pieces(inner))
            yield ToolResult(block.tool_use_id, told, bool(block.is_error))
        case _Thinking(thinking=text, signature=signature):
            yield unsealed(signature, text) or Thinking("anthropic", text, signature)
        case _Redacted(data=sealed):
            yield unsealed(sealed, "") or Thinking("anthropic", sealed=sealed)
        case _:
            yield from _pieces(block)


def _pieces(block: _Text | _Image | _Document) -> Iterator[Shown]:
    match block:
        case _Text(text=words):
            if words:
                yield Text(words)
        case _Image(source=_Url(url=url)):
            yield picture(url)
        case _Image(source=_Base64(media_type=kind, data=data)):
            yield picture(f"data:{kind};base64,{data}")
        case _Document(citations=_Citations(enabled=True)):
            raise BadRequest("Citations cannot be asked for: the model's supplier has none")
        case _Document(source=source):
            yield from _document(block, source)


def _document(block: _Document, source: _PlainText | _Base64 | _Url) -> Iterator[Shown]:
    title, context = block.title or "", block.context or ""
    if isinstance(source, _PlainText):
        yield Text(paragraphs((title, context, source.data)))
        return
    if context:
        yield Text(context)
    if isinstance(source, _Url):
        yield document(source.url, title)
    else:
        yield document(f"data:{source.media_type};base64,{source.data}", title)


def _tool(tool: _Tool) -> Tool:
    return Tool(tool.name, tool.description, tool.input_schema, bool(tool.strict))


def _choice(choice: _Choice) -> Literal["auto", "none", "required"] | OneTool:
    match choice.type:
        case "tool":
            if not choice.name:
                raise BadRequest('"tool_choice" of the type tool needs a name')
            return OneTool(choice.name)
        case "any":
            return "required"
        case other:
            return other


def _effort(thinking: _Enabled | _Adaptive | _Disabled | None, effort: str | None) -> str:
    """The word where there is one; a model that thinks as it likes thinks hard by default."""
    if effort:
        return effort
    match thinking:
        case _Enabled(budget_tokens=budget):
            return str(budget)
        case _Adaptive():
            return "high"
    return ""
