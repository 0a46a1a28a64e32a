"""Requests to ``/v1/chat/completions``: glanced at, passed on, or understood as a whole."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import extras
from agentd.proxy.dialects.callers.asked import (
    Ignored,
    Name,
    Rules,
    Strict,
    Tokens,
    Verbosity,
    assembled,
    document,
    glanced,
    joined,
    paragraphs,
    picture,
    pieces,
    some,
    translated,
    verbosity,
)
from agentd.proxy.dialects.callers.seals import unsealed
from agentd.proxy.dialects.conversation import (
    Conversation,
    JsonFormat,
    Message,
    OneTool,
    Part,
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
        "stream_options": "so is this",
        "metadata": "labels in the caller's own account at OpenAI",
        "prediction": "a hint that makes replies faster, and no others",
        "prompt_cache_options": "how long OpenAI remembers; others have their own rules",
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


class _Glanced(Struct):
    model: Name
    stream: bool | None = None
    stream_options: _Options | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    service_tier: Any = None
    modalities: Any = None
    web_search_options: Any = None
    plugins: Any = None
    """OpenRouter's, which may search the web."""
    models: None = None
    """Some suppliers take another model of this list: the allowed ones would be got round."""


class _Marked(Strict, frozen=True, kw_only=True):
    """A part of a message; where a supplier's memory may end is the other supplier's matter."""

    prompt_cache_breakpoint: Ignored = None
    cache_control: Ignored = None


class _Text(_Marked, frozen=True, tag="text"):
    text: str


class _Refusal(Strict, frozen=True, tag="refusal"):
    refusal: str


class _Url(Strict, frozen=True):
    url: str
    detail: Ignored = None
    """How closely to look: others always look as closely as they can."""


class _Image(_Marked, frozen=True, tag="image_url"):
    image_url: _Url


class _Bytes(Strict, frozen=True):
    file_data: str
    filename: str = ""
    file_id: None = None
    """It would be stored at OpenAI."""


class _File(_Marked, frozen=True, tag="file"):
    file: _Bytes


_Part: TypeAlias = _Text | _Refusal | _Image | _File


class _Function(Strict, frozen=True):
    name: str
    arguments: str


class _Call(Strict, frozen=True):
    id: str
    function: _Function
    type: Literal["function"] = "function"
    index: Ignored = None
    """Left over from a stream."""


class _Named(Strict, frozen=True, kw_only=True):
    """A message of a participant who may have a name, which no other dialect has a place for."""

    name: str | None = None


class _System(_Named, frozen=True, tag_field="role", tag="system"):
    content: str | list[_Text]


class _Developer(_Named, frozen=True, tag_field="role", tag="developer"):
    content: str | list[_Text]


class _User(_Named, frozen=True, tag_field="role", tag="user"):
    content: str | list[_Part]


class _Thought(Strict, frozen=True, tag="thinking"):
    """What Anthropic's models thought, as litellm carries it."""

    thinking: str
    signature: str = ""


class _Redacted(Strict, frozen=True, tag="redacted_thinking"):
    data: str


class _Assistant(_Named, frozen=True, tag_field="role", tag="assistant"):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, object]] | None = None
    """Thinking with a seal, ours or that of another gateway."""
    thinking_blocks: list[_Thought | _Redacted] | None = None
    audio: None = None
    function_call: None = None
    annotations: Ignored = None
    """Where the model had its words from, for the reader."""


class _ToolResult(Strict, frozen=True, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[_Part]
    name: Ignored = None
    """The tool's, which the call has told."""


_Message: TypeAlias = _System | _Developer | _User | _Assistant | _ToolResult


class _Declared(Strict, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class _Tool(Strict, frozen=True):
    function: _Declared
    type: Literal["function"] = "function"


class _Chosen(Strict, frozen=True):
    name: str


class _Choice(Strict, frozen=True):
    function: _Chosen
    type: Literal["function"] = "function"


class _Schema(Strict, frozen=True):
    name: str = ""
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None


class _Format(Strict, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _Request(Struct, frozen=True, kw_only=True):
    messages: list[_Message]
    tools: list[_Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | _Choice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    reasoning_effort: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    response_format: _Format | None = None
    verbosity: Verbosity | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


def glance(body: bytes) -> Glance:
    """As ``CallerDialect.glance``."""
    seen = glanced(body, _Glanced)
    return Glance(
        model=seen.model,
        stream=bool(seen.stream),
        max_output=max(seen.max_tokens or 0, seen.max_completion_tokens or 0),
        replies=seen.n or 1,
        wants_usage=bool(seen.stream_options and seen.stream_options.include_usage),
        tier=extras.service("openai-chat", seen),
        fees=seen.web_search_options is not None or bool(seen.plugins),
    )


def passed_on(body: bytes, model: str) -> bytes:
    """As ``CallerDialect.passed_on``: of a stream the usage is asked for, wanted or not."""
    fields = pieces(body)
    seen = some(fields, _Glanced)
    changes: dict[str, object] = {} if seen.model == model else {"model": model}
    if seen.stream and not (seen.stream_options and seen.stream_options.include_usage):
        given = fields.get("stream_options", Raw(b"null"))
        options = msgspec.json.decode(given, type=dict[str, Raw] | None) or {}
        changes["stream_options"] = {**options, "include_usage": True}
    return assembled(body, fields, changes)


def understood(body: bytes) -> Conversation:
    """As ``CallerDialect.understood``."""
    asked = translated(body, _Request, RULES)
    system = [
        text
        for message in asked.messages
        if isinstance(message, _System | _Developer)
        for text in _texts(message.content)
    ]
    said = (_message(message) for message in asked.messages)
    return Conversation(
        messages=joined(message for message in said if message),
        system=paragraphs(system),
        tools=tuple(map(_tool, asked.tools or ())),
        tool_choice=_choice(asked.tool_choice),
        parallel=asked.parallel_tool_calls is not False,
        max_output=asked.max_completion_tokens or asked.max_tokens or 0,
        effort=asked.reasoning_effort or "",
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop=(asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ()),
        reply_format=_format(asked.response_format),
        verbosity=verbosity(asked.verbosity),
        user=asked.user or asked.safety_identifier or "",
        cache_key=asked.prompt_cache_key or "",
        dropped=tuple(_dropped(asked.messages)),
    )


def _dropped(messages: Iterable[_Message]) -> Iterator[str]:
    if any(isinstance(message, _Named) and message.name for message in messages):
        yield "name"
    details = (one for one in messages if isinstance(one, _Assistant) and one.reasoning_details)
    if any(len(_sealed(one)) < len(one.reasoning_details or ()) for one in details):
        yield "reasoning_details"


def _texts(content: str | list[_Text]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        for piece in content:
            yield piece.text


def _message(message: _Message) -> Message | None:
    match message:
        case _User(content=content):
            return Message("user", tuple(_parts(content)))
        case _Assistant():
            return Message("assistant", tuple(_said(message)))
        case _ToolResult(tool_call_id=id, content=content):
            return Message("user", (ToolResult(id, tuple(_parts(content))),))
    return None


def _parts(content: str | list[_Part]) -> Iterator[Shown]:
    if isinstance(content, str):
        content = [_Text(text=content)]
    for piece in content:
        match piece:
            case _Image():
                yield picture(piece.image_url.url)
            case _File(file=file):
                yield document(file.file_data, file.filename)
            case _Text(text=words) | _Refusal(refusal=words) if words:
                yield Text(words)


def _said(message: _Assistant) -> Iterator[Part]:
    sealed = _sealed(message)
    calls = message.tool_calls or ()
    ids = {call.id for call in calls}
    if sealed:
        yield from (thinking for call, thinking in sealed if call not in ids)
    elif message.thinking_blocks:
        yield from map(_thought, message.thinking_blocks)
    elif thought := message.reasoning_content or message.reasoning:
        yield Thinking("openai-chat", thought)
    yield from _parts(message.content or "")
    if message.refusal:
        yield Text(message.refusal)
    before: dict[str, list[Thinking]] = {}
    for sealed_call, thinking in sealed:
        before.setdefault(sealed_call, []).append(thinking)
    for call in calls:
        yield from before.pop(call.id, ())
        yield ToolCall(call.id, call.function.name, call.function.arguments)


def _sealed(message: _Assistant) -> list[tuple[str, Thinking]]:
    """The thinking that we gave the caller to keep, each with the call that it came before."""
    found = []
    for detail in message.reasoning_details or ():
        data, call = detail.get("data"), detail.get("id")
        thinking = unsealed(data, "") if isinstance(data, str) else None
        if thinking:
            found.append((call if isinstance(call, str) else "", thinking))
    return found


def _thought(block: _Thought | _Redacted) -> Thinking:
    match block:
        case _Redacted(data=data):
            return unsealed(data, "") or Thinking("anthropic", sealed=data)
        case _Thought(thinking=text, signature=signature):
            return unsealed(signature, text) or Thinking("anthropic", text, signature)


def _tool(tool: _Tool) -> Tool:
    told = tool.function
    schema = told.parameters or {"type": "object", "properties": {}}
    return Tool(told.name, told.description or "", schema, bool(told.strict))


def _choice(
    choice: Literal["auto", "none", "required"] | _Choice | None,
) -> Literal["auto", "none", "required"] | OneTool:
    return OneTool(choice.function.name) if isinstance(choice, _Choice) else choice or "auto"


def _format(wanted: _Format | None) -> JsonFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return JsonFormat()
    told = wanted.json_schema
    if told is None or told.schema is None:
        raise BadRequest('"response_format" of the type json_schema needs a schema')
    return JsonFormat(told.schema, told.name, told.description or "", bool(told.strict))
