"""Requests to ``/v1/chat/completions``: peeked at, passed through, or parsed completely."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    ContentPart,
    Conversation,
    FreeformFormat,
    JsonFormat,
    MessagePart,
    ModelMessage,
    NamedTool,
    TextPart,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects import custom_tools
from agentd.llm.dialects import service_tier as extras
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.request_parsing import (
    FieldRules,
    Ignored,
    ModelName,
    StrictPart,
    TokenCount,
    Verbosity,
    decode_as,
    decode_raw_fields,
    decode_strict,
    decode_subset,
    encode_with,
    join_paragraphs,
    merge_adjacent,
    normalize_verbosity,
    parse_document_url,
    parse_image_url,
    select_tools,
)
from agentd.llm.dialects.thinking_signatures import unwrap_thinking

RULES = FieldRules(
    ignored={
        "model": "it selected the channel",
        "stream": "the gateway decides about streaming",
        "stream_options": "the same",
        "metadata": "labels in the caller's account at OpenAI",
        "prediction": "a hint that makes replies faster, and no others",
        "prompt_cache_options": "how long OpenAI caches; others have their own rules",
        "prompt_cache_retention": "the same",
    },
    neutral={
        "n": (1,),
        "logprobs": (False,),
        "top_logprobs": (0,),
        "logit_bias": ({},),
        "frequency_penalty": (0,),
        "presence_penalty": (0,),
        "modalities": (["text"],),
        "functions": ([],),
        "store": (False,),
        "service_tier": ("auto", "default"),
    },
)


class _Options(Struct):
    include_usage: bool | None = None


class StreamedRequest(Struct):
    """The common fields of requests for generated text, in a conversation or not."""

    model: ModelName
    stream: bool | None = None
    stream_options: _Options | None = None
    models: None = None
    """Refused: some suppliers may use another model of this list, allowed or not."""

    @property
    def wants_usage(self) -> bool:
        """True if a stream should report its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class _Envelope(StreamedRequest):
    max_tokens: TokenCount | None = None
    max_completion_tokens: TokenCount | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    service_tier: Any = None
    modalities: Any = None
    tools: Any = None
    web_search_options: Any = None
    plugins: Any = None
    """OpenRouter's, which may search the web."""


class _Marked(StrictPart, frozen=True, kw_only=True):
    """A part of a message; where a supplier's memory may end is the other supplier's matter."""

    prompt_cache_breakpoint: Ignored = None
    cache_control: Ignored = None


class _Text(_Marked, frozen=True, tag="text"):
    text: str


class _Refusal(StrictPart, frozen=True, tag="refusal"):
    refusal: str


class _Url(StrictPart, frozen=True):
    url: str
    detail: Ignored = None
    """The image resolution: other suppliers always use the highest."""


class _Image(_Marked, frozen=True, tag="image_url"):
    image_url: _Url


class _Bytes(StrictPart, frozen=True):
    file_data: str
    filename: str = ""
    file_id: None = None
    """Refused: the file would have to be stored at OpenAI."""


class _File(_Marked, frozen=True, tag="file"):
    file: _Bytes


_Part: TypeAlias = _Text | _Refusal | _Image | _File


class _Function(StrictPart, frozen=True):
    name: str
    arguments: str


class _Input(StrictPart, frozen=True):
    name: str
    input: str


class _Call(StrictPart, frozen=True):
    id: str
    function: _Function | None = None
    custom: _Input | None = None
    type: Literal["function", "custom"] = "function"
    index: Ignored = None
    """Left over from a stream."""


class _Named(StrictPart, frozen=True, kw_only=True):
    """A message of a participant who may have a name, which no other dialect has a place for."""

    name: str | None = None


class _System(_Named, frozen=True, tag_field="role", tag="system"):
    content: str | list[_Text]


class _Developer(_Named, frozen=True, tag_field="role", tag="developer"):
    content: str | list[_Text]


class _User(_Named, frozen=True, tag_field="role", tag="user"):
    content: str | list[_Part]


class _Thought(StrictPart, frozen=True, tag="thinking"):
    """The thinking of Anthropic's models, in the form litellm uses."""

    thinking: str
    signature: str = ""


class _Redacted(StrictPart, frozen=True, tag="redacted_thinking"):
    data: str


class _ShownImage(_Image, frozen=True, tag="image_url"):
    index: Ignored = None


class _Assistant(_Named, frozen=True, tag_field="role", tag="assistant"):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, object]] | None = None
    """Thinking with a seal, ours or that of another gateway."""
    thinking_blocks: list[_Thought | _Redacted] | None = None
    images: list[_ShownImage] | None = None
    """Images that the model returned, in the form that OpenRouter and LiteLLM use."""
    audio: None = None
    function_call: None = None
    annotations: Ignored = None
    """The model's sources, for the reader."""


class _ToolResult(StrictPart, frozen=True, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[_Part]
    name: Ignored = None
    """The tool's name, which the call contains."""


_Message: TypeAlias = _System | _Developer | _User | _Assistant | _ToolResult


class _Declared(StrictPart, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class _Grammar(StrictPart, frozen=True):
    syntax: str
    definition: str


class _Form(StrictPart, frozen=True):
    type: Literal["text", "grammar"]
    grammar: _Grammar | None = None


class _DeclaredFreeform(StrictPart, frozen=True):
    name: str
    description: str | None = None
    format: _Form | None = None


class _Tool(StrictPart, frozen=True):
    function: _Declared | None = None
    custom: _DeclaredFreeform | None = None
    type: Literal["function", "custom"] = "function"


class _Chosen(StrictPart, frozen=True):
    name: str


class _OneChosen(StrictPart, frozen=True):
    function: _Chosen | None = None
    custom: _Chosen | None = None
    type: Literal["function", "custom"] = "function"


class _Allowed(StrictPart, frozen=True):
    mode: Literal["auto", "required"]
    tools: list[_OneChosen]


class _Choice(_OneChosen, frozen=True):
    allowed_tools: _Allowed | None = None
    type: Literal["function", "custom", "allowed_tools"] = "function"  # type: ignore[assignment]


class _Schema(StrictPart, frozen=True):
    name: str = ""
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None


class _Format(StrictPart, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _Request(Struct, frozen=True, kw_only=True):
    messages: list[_Message]
    tools: list[_Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | _Choice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: TokenCount | None = None
    max_completion_tokens: TokenCount | None = None
    reasoning_effort: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: _Format | None = None
    verbosity: Verbosity | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


def peek(body: bytes) -> RequestSummary:
    """Do as ``CallerDialect.peek``."""
    seen = decode_as(body, _Envelope)
    return RequestSummary(
        model=seen.model,
        stream=bool(seen.stream),
        max_output=max(seen.max_tokens or 0, seen.max_completion_tokens or 0),
        replies=seen.n or 1,
        wants_usage=seen.wants_usage,
        freeform_tools=frozenset(_iter_freeform_names(seen.tools)),
        service_tier=extras.name_service("openai-chat", seen),
        uses_paid_tools=seen.web_search_options is not None or bool(seen.plugins),
        has_audio=extras.has_audio(body),
    )


def _iter_freeform_names(tools: object) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        declared = tool.get("custom") if isinstance(tool, dict) else None
        name = declared.get("name") if isinstance(declared, dict) else None
        if isinstance(name, str):
            yield name


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Do as ``CallerDialect.rewrite_for_passthrough``; always requests usage in a stream."""
    fields = decode_raw_fields(body)
    seen = decode_subset(fields, _Envelope)
    return encode_with(body, fields, list_passthrough_changes(fields, seen, model))


def list_passthrough_changes(
    fields: Mapping[str, Raw], seen: StreamedRequest, model: str
) -> dict[str, object]:
    """Return the fields to change in a request: the supplier's model, and usage in a stream."""
    changes: dict[str, object] = {} if seen.model == model else {"model": model}
    if seen.stream and not seen.wants_usage:
        given = fields.get("stream_options", Raw(b"null"))
        options = msgspec.json.decode(given, type=dict[str, Raw] | None) or {}
        changes["stream_options"] = {**options, "include_usage": True}
    return changes


def parse_request(body: bytes) -> Conversation:
    """Do as ``CallerDialect.parse_request``."""
    request = decode_strict(body, _Request, RULES)
    system = [
        text
        for message in request.messages
        if isinstance(message, _System | _Developer)
        for text in _iter_texts(message.content)
    ]
    messages = (_parse_message(message) for message in request.messages)
    return Conversation(
        messages=merge_adjacent(message for message in messages if message),
        system=join_paragraphs(system),
        tools=select_tools(
            map(_parse_tool, request.tools or ()), _get_allowed_names(request.tool_choice)
        ),
        tool_choice=_parse_choice(request.tool_choice),
        parallel_tool_calls=request.parallel_tool_calls is not False,
        max_output=request.max_completion_tokens or request.max_tokens or 0,
        reasoning_effort=request.reasoning_effort or "",
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        stop_sequences=(request.stop,)
        if isinstance(request.stop, str)
        else tuple(request.stop or ()),
        response_format=_parse_format(request.response_format),
        verbosity=normalize_verbosity(request.verbosity),
        user=request.user or request.safety_identifier or "",
        cache_key=request.prompt_cache_key or "",
        dropped_fields=tuple(_iter_dropped(request.messages)),
    )


def _iter_dropped(messages: Iterable[_Message]) -> Iterator[str]:
    if any(isinstance(message, _Named) and message.name for message in messages):
        yield "name"
    details = (one for one in messages if isinstance(one, _Assistant) and one.reasoning_details)
    if any(len(_unwrap_details(one)) < len(one.reasoning_details or ()) for one in details):
        yield "reasoning_details"


def _iter_texts(content: str | list[_Text]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        for piece in content:
            yield piece.text


def _parse_message(message: _Message) -> ModelMessage | None:
    match message:
        case _User(content=content):
            return ModelMessage("user", tuple(_parse_parts(content)))
        case _Assistant():
            return ModelMessage("assistant", tuple(_parse_reply(message)))
        case _ToolResult(tool_call_id=id, content=content):
            return ModelMessage("user", (ToolResult(id, tuple(_parse_parts(content))),))
    return None


def _parse_parts(content: str | list[_Part]) -> Iterator[ContentPart]:
    if isinstance(content, str):
        content = [_Text(text=content)]
    for piece in content:
        match piece:
            case _Image():
                yield parse_image_url(piece.image_url.url)
            case _File(file=file):
                yield parse_document_url(file.file_data, file.filename)
            case _Text(text=words) | _Refusal(refusal=words) if words:
                yield TextPart(words)


def _parse_reply(message: _Assistant) -> Iterator[MessagePart]:
    sealed = _unwrap_details(message)
    calls = message.tool_calls or ()
    ids = {call.id for call in calls}
    if sealed:
        yield from (thinking for call, thinking in sealed if call not in ids)
    elif message.thinking_blocks:
        yield from map(_parse_thinking, message.thinking_blocks)
    elif thought := message.reasoning_content or message.reasoning:
        yield Thinking("openai-chat", thought)
    yield from _parse_parts(message.content or "")
    if message.refusal:
        yield TextPart(message.refusal)
    for image in message.images or ():
        yield parse_image_url(image.image_url.url)
    before: dict[str, list[Thinking]] = {}
    for sealed_call, thinking in sealed:
        before.setdefault(sealed_call, []).append(thinking)
    for call in calls:
        yield from before.pop(call.id, ())
        yield _parse_call(call)


def _parse_call(call: _Call) -> ToolCall:
    if call.type == "custom" and call.custom:
        given = custom_tools.wrap_input(call.custom.input)
        return ToolCall(call.id, call.custom.name, given, freeform=True)
    if call.type == "function" and call.function:
        return ToolCall(call.id, call.function.name, call.function.arguments)
    raise _make_missing_error(call.type, 'A tool call in "messages"')


def _make_missing_error(kind: str, what: str) -> BadRequest:
    return BadRequest(f'{what} of the type {kind} needs the field "{kind}"')


def _unwrap_details(message: _Assistant) -> list[tuple[str, Thinking]]:
    """Return the thinking that we wrapped for the caller, each with the call it preceded."""
    found = []
    for detail in message.reasoning_details or ():
        data, call = detail.get("data"), detail.get("id")
        thinking = unwrap_thinking(data, "") if isinstance(data, str) else None
        if thinking:
            found.append((call if isinstance(call, str) else "", thinking))
    return found


def _parse_thinking(block: _Thought | _Redacted) -> Thinking:
    match block:
        case _Redacted(data=data):
            return unwrap_thinking(data, "") or Thinking("anthropic", sealed=data)
        case _Thought(thinking=text, signature=signature):
            return unwrap_thinking(signature, text) or Thinking("anthropic", text, signature)


def _parse_tool(tool: _Tool) -> ToolDefinition:
    if tool.type == "custom" and tool.custom:
        return _parse_freeform_tool(tool.custom)
    if tool.type == "custom" or not tool.function:
        raise _make_missing_error(tool.type, 'A tool in "tools"')
    spec = tool.function
    schema = spec.parameters or {"type": "object", "properties": {}}
    return ToolDefinition(spec.name, spec.description or "", schema, bool(spec.strict))


def _parse_freeform_tool(spec: _DeclaredFreeform) -> ToolDefinition:
    shape = FreeformFormat()
    if spec.format and spec.format.type == "grammar":
        if spec.format.grammar is None:
            raise _make_missing_error("grammar", 'The format of a custom tool in "tools"')
        shape = FreeformFormat(spec.format.grammar.syntax, spec.format.grammar.definition)
    return ToolDefinition(
        spec.name, spec.description or "", custom_tools.INPUT_SCHEMA, freeform=shape
    )


def _parse_choice(choice: Literal["auto", "none", "required"] | _Choice | None) -> ToolChoice:
    if not isinstance(choice, _Choice):
        return choice or "auto"
    if choice.type != "allowed_tools":
        return NamedTool(_get_chosen_name(choice))
    if choice.allowed_tools is None:
        raise _make_missing_error(choice.type, '"tool_choice"')
    return choice.allowed_tools.mode


def _get_chosen_name(choice: _OneChosen) -> str:
    named = choice.custom if choice.type == "custom" else choice.function
    if named is None:
        raise _make_missing_error(choice.type, '"tool_choice"')
    return named.name


def _get_allowed_names(choice: object) -> list[str] | None:
    """Return the names of the allowed tools; None: all."""
    if isinstance(choice, _Choice) and choice.type == "allowed_tools" and choice.allowed_tools:
        return [_get_chosen_name(one) for one in choice.allowed_tools.tools]
    return None


def _parse_format(wanted: _Format | None) -> JsonFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return JsonFormat()
    spec = wanted.json_schema
    if spec is None or spec.schema is None:
        raise BadRequest('"response_format" of the type json_schema needs a schema')
    return JsonFormat(spec.schema, spec.name, spec.description or "", bool(spec.strict))
