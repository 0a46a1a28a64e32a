"""Requests to ``/v1/responses``: peeked at, passed through, or parsed completely."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    ContentPart,
    Conversation,
    FreeformFormat,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    Role,
    TextPart,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects import custom_tools as freeform
from agentd.llm.dialects import service_tier as extras
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.openai_responses.item_references import REFERENCE
from agentd.llm.dialects.openai_responses.tool_namespaces import qualify_name
from agentd.llm.dialects.openai_responses.upstream import parse_reasoning
from agentd.llm.dialects.request_parsing import (
    FieldRules,
    Ignored,
    ModelField,
    StrictPart,
    TokenCount,
    Verbosity,
    correct_image_type,
    decode_as,
    decode_part,
    decode_strict,
    join_paragraphs,
    merge_adjacent,
    normalize_verbosity,
    parse_document_url,
    parse_image_url,
    replace_model,
    select_tools,
)
from agentd.llm.dialects.thinking_signatures import unwrap_thinking

RULES = FieldRules(
    ignored={
        "model": "it selected the channel",
        "stream": "the gateway decides about streaming",
        "stream_options": "the same",
        "store": "the reply's items are remembered here, see ``references``",
        "metadata": "labels in the caller's account at OpenAI",
        "client_metadata": "the same, by Codex",
        "prompt_cache_options": "how long OpenAI caches; others have their own rules",
        "prompt_cache_retention": "the same",
    },
    neutral={
        "background": (False,),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
        "service_tier": ("auto", "default"),
        "context_management": ([],),
    },
    refused={
        "previous_response_id": "it speaks another dialect, and the gateway stores no replies; "
        "send the whole conversation as input, or ask for a model with an openai-responses channel",
        "conversation": "it stores no conversations; send the whole conversation as input",
        "prompt": "it stores no prompts; send the prompt as instructions and input",
    },
    facts={
        "previous_response_id": {
            "param": "previous_response_id",
            "code": "previous_response_not_found",
        },
    },
)


_SEARCH = "web_search"
"""The prefix of the types of a tool that the supplier runs, and of its results.

Programs offer it by themselves (Codex does); a model that cannot search does its work without.
"""


class _Envelope(ModelField):
    stream: bool | None = None
    max_output_tokens: TokenCount | None = None
    background: bool | None = None
    store: bool | None = None
    tools: list[Any] | None = None
    service_tier: Any = None


class _Marked(StrictPart, frozen=True, kw_only=True):
    """A part of a message; where a supplier's memory may end is the other supplier's matter."""

    prompt_cache_breakpoint: Ignored = None


class _Input(_Marked, frozen=True, tag="input_text"):
    text: str


class _Image(_Marked, frozen=True, tag="input_image"):
    image_url: str
    detail: Ignored = None
    """The image resolution: other suppliers always use the highest."""
    file_id: None = None


class _Output(StrictPart, frozen=True, tag="output_text"):
    text: str
    annotations: Ignored = None
    """The model's sources, for the reader."""
    logprobs: Ignored = None
    """The log probabilities, for the reader."""


class _Refusal(StrictPart, frozen=True, tag="refusal"):
    refusal: str


class _File(_Marked, frozen=True, tag="input_file"):
    file_data: str = ""
    file_url: str = ""
    filename: str = ""
    detail: Ignored = None
    """The image resolution: other suppliers always use the highest."""
    file_id: None = None
    """Refused: the file would have to be stored at OpenAI."""


_Piece: TypeAlias = _Input | _Image | _File | _Output | _Refusal


class _StoredItem(StrictPart, frozen=True, kw_only=True):
    """An item as it came; what it is called, and that it is whole, is of no concern any more."""

    id: Ignored = None
    status: Ignored = None


class _Message(_StoredItem, frozen=True, kw_only=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[_Piece]
    type: Literal["message"] = "message"
    phase: Ignored = None
    """True if it was the reply's last message, for the reader."""


class _Call(_StoredItem, frozen=True, kw_only=True):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
    caller: None = None


class _Result(_StoredItem, frozen=True, kw_only=True):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[_Piece]
    name: Ignored = None
    """The tool's name, which the call contains."""
    namespace: Ignored = None
    caller: None = None


class _FreeformCall(_StoredItem, frozen=True, kw_only=True):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    namespace: str | None = None
    caller: None = None


class _FreeformResult(_Result, frozen=True, kw_only=True):
    type: Literal["custom_tool_call_output"]  # type: ignore[assignment]


class _Drawing(_StoredItem, frozen=True, kw_only=True):
    """An image that the model made."""

    type: Literal["image_generation_call"]
    result: str | None
    output_format: str | None = None
    """Ours have it; OpenAI's images are PNG files where it does not say so."""
    background: Ignored = None
    quality: Ignored = None
    size: Ignored = None
    action: Ignored = None
    revised_prompt: Ignored = None


_Item: TypeAlias = _Message | _Call | _Result | _FreeformCall | _FreeformResult | _Drawing

_SHAPES: Mapping[str, type[_Item] | type[dict[str, object]]] = {
    "message": _Message,
    "function_call": _Call,
    "function_call_output": _Result,
    "custom_tool_call": _FreeformCall,
    "custom_tool_call_output": _FreeformResult,
    "image_generation_call": _Drawing,
    "reasoning": dict[str, object],
}
"""The shape of each item. Reasoning is known only to its supplier."""


class _Kind(Struct, frozen=True):
    type: str = "message"


class _Tool(StrictPart, frozen=True, kw_only=True):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class _Form(StrictPart, frozen=True, kw_only=True):
    type: Literal["text", "grammar"]
    syntax: str = ""
    definition: str = ""


class _FreeformTool(StrictPart, frozen=True, kw_only=True):
    type: Literal["custom"]
    name: str
    description: str | None = None
    format: _Form | None = None


class _Group(StrictPart, frozen=True, kw_only=True):
    type: Literal["namespace"]
    name: str
    description: str = ""
    tools: list[Raw]


class _Chosen(StrictPart, frozen=True):
    type: Literal["function", "custom"]
    name: str


class _Choice(StrictPart, frozen=True):
    type: Literal["function", "custom", "allowed_tools"]
    name: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: tuple[Raw, ...] = ()


class _Format(StrictPart, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None


class _TextSettings(StrictPart, frozen=True):
    format: _Format | None = None
    verbosity: Verbosity | None = None


class _Effort(StrictPart, frozen=True):
    effort: str | None = None
    summary: Ignored = None
    """The visible part of the thinking: as the other supplier shows it."""
    generate_summary: Ignored = None


_SEALED = "reasoning.encrypted_content"

_Include: TypeAlias = Literal[
    "reasoning.encrypted_content",
    # These describe tools that the supplier runs, which are not supported.
    "web_search_call.action.sources",
    "web_search_call.results",
]


class _Request(Struct, frozen=True, kw_only=True):
    input: str | list[Raw] = []
    instructions: str | None = None
    tools: list[Raw] | None = None
    tool_choice: Literal["auto", "none", "required"] | _Choice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: TokenCount | None = None
    reasoning: _Effort | None = None
    include: list[_Include] | None = None
    text: _TextSettings | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


def peek(body: bytes) -> RequestSummary:
    """Do as ``CallerDialect.peek``; refuses ``background`` requests.

    Their responses would be fetched later by id, so that their cost would never be seen.
    """
    seen = decode_as(body, _Envelope)
    if seen.background:
        raise BadRequest('"background" is not supported by this gateway; leave it out')
    tools = list(_iter_special_tools(seen.tools or ()))
    return RequestSummary(
        seen.model,
        bool(seen.stream),
        seen.max_output_tokens or 0,
        tool_namespaces=frozenset(group for group, _ in tools if group),
        freeform_tools=frozenset(qualify_name(group, name) for group, name in tools if name),
        stores_reply=seen.store is not False,
        service_tier=extras.name_service("openai-responses", seen),
        uses_paid_tools=extras.offers_paid_tools(seen.tools),
        has_audio=extras.has_audio(body),
    )


def _iter_special_tools(tools: Iterable[Any], group: str = "") -> Iterator[tuple[str, str]]:
    """Yield each namespace with an empty name, and each freeform tool by namespace and name."""
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not (isinstance(name, str) and name):
            continue
        match tool.get("type"):
            case "namespace" if not group:
                yield name, ""
                inner = tool.get("tools")
                yield from _iter_special_tools(inner if isinstance(inner, list) else (), name)
            case "custom":
                yield group, name


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Do as ``CallerDialect.rewrite_for_passthrough``; a response always reports its usage."""
    return replace_model(body, model)


def parse_request(body: bytes) -> Conversation:
    """Do as ``CallerDialect.parse_request``."""
    request = decode_strict(body, _Request, RULES)
    entries = [*_parse_input(request.input)]
    words = request.text or _TextSettings()
    return Conversation(
        messages=merge_adjacent(
            message for message in entries if isinstance(message, ModelMessage)
        ),
        system=join_paragraphs(
            (request.instructions or "", *(entry for entry in entries if isinstance(entry, str)))
        ),
        tools=select_tools(
            _parse_tools(request.tools or ()), _get_allowed_names(request.tool_choice)
        ),
        tool_choice=_parse_choice(request.tool_choice),
        parallel_tool_calls=request.parallel_tool_calls is not False,
        max_output=request.max_output_tokens or 0,
        reasoning_effort=(request.reasoning and request.reasoning.effort) or "",
        temperature=request.temperature,
        top_p=request.top_p,
        response_format=_parse_format(words.format),
        verbosity=normalize_verbosity(words.verbosity),
        user=request.user or request.safety_identifier or "",
        keep_thinking=_SEALED in (request.include or ()),
        cache_key=request.prompt_cache_key or "",
        dropped_fields=tuple(_iter_dropped(request)),
    )


def _iter_dropped(request: _Request) -> Iterator[str]:
    """Yield the types that no other supplier supports; they are dropped, which models tolerate."""
    items = request.input if isinstance(request.input, list) else ()
    kinds = (decode_part(one, _Kind).type for one in (*(request.tools or ()), *items))
    yield from dict.fromkeys(kind for kind in kinds if kind.startswith(_SEARCH))


def _parse_input(given: str | list[Raw]) -> Iterator[ModelMessage | str]:
    """Yield the message of each item; instructions are plain strings."""
    if isinstance(given, str):
        yield ModelMessage("user", (TextPart(given),))
        return
    for at, item in enumerate(given):
        where = f"$.input[{at}]"
        kind = decode_part(item, _Kind, where).type
        if not kind.startswith(_SEARCH):
            yield from _parse_item(_decode_item(item, kind, where))


def _decode_item(item: Raw, kind: str, where: str) -> _Item | dict[str, object]:
    if kind == REFERENCE:
        raise BadRequest(
            f"{where} refers to an unknown item. The model's supplier speaks another "
            "dialect, and the gateway remembers only items that it sent to this access key: for up "
            "to an hour, and not across restarts. Send the items themselves "
            '(most clients do so with "store": false)'
        )
    if kind not in _SHAPES:
        raise BadRequest(
            "The model's supplier speaks another dialect, into which the request cannot be "
            f"translated: {where} is of the type {kind[:100]!r}"
        )
    return decode_part(item, _SHAPES[kind], where)


def _parse_item(item: _Item | dict[str, object]) -> Iterator[ModelMessage | str]:
    match item:
        case _Message(role="system" | "developer", content=content):
            yield from (
                piece.text for piece in _parse_pieces(content) if isinstance(piece, TextPart)
            )
        case _Message(content=content):
            role: Role = "assistant" if item.role == "assistant" else "user"
            yield ModelMessage(role, tuple(_parse_pieces(content)))
        case _Call():
            yield ModelMessage("assistant", (_parse_call(item, item.arguments),))
        case _FreeformCall():
            given = freeform.wrap_input(item.input)
            yield ModelMessage("assistant", (_parse_call(item, given, freeform=True),))
        case _Drawing(result=data, output_format=kind):
            image = ImagePart(correct_image_type(f"image/{kind or 'png'}"), data or "")
            yield ModelMessage("assistant", (image,) if data else ())
        case _Result():
            yield ModelMessage(
                "user", (ToolResult(item.call_id, tuple(_parse_pieces(item.output))),)
            )
        case _:
            yield ModelMessage("assistant", (_parse_thinking(item),))


def _parse_thinking(item: dict[str, object]) -> Thinking:
    own, sealed = parse_reasoning(item), item.get("encrypted_content")
    return (unwrap_thinking(sealed, own.text) if isinstance(sealed, str) else None) or own


def _parse_pieces(content: str | list[_Piece]) -> Iterator[ContentPart]:
    if isinstance(content, str):
        content = [_Input(text=content)]
    for piece in content:
        match piece:
            case _Image():
                yield parse_image_url(piece.image_url)
            case _File():
                yield parse_document_url(piece.file_data or piece.file_url, piece.filename)
            case _Input(text=words) | _Output(text=words) | _Refusal(refusal=words) if words:
                yield TextPart(words)


def _parse_call(
    item: _Call | _FreeformCall,
    arguments: str,
    *,
    freeform: bool = False,
) -> ToolCall:
    name = qualify_name(item.namespace or "", item.name)
    return ToolCall(item.call_id, name, arguments, freeform)


def _parse_tools(
    given: Iterable[Raw], place: str = "$.tools", group: _Group | None = None
) -> Iterator[ToolDefinition]:
    for at, tool in enumerate(given):
        where = f"{place}[{at}]"
        match decode_part(tool, _Kind, where).type:
            case "function":
                yield _parse_tool(decode_part(tool, _Tool, where), group)
            case "custom":
                yield _parse_freeform_tool(decode_part(tool, _FreeformTool, where), group)
            case "namespace" if group is None:
                inner = decode_part(tool, _Group, where)
                yield from _parse_tools(inner.tools, f"{where}.tools", inner)
            case kind if not kind.startswith(_SEARCH):
                raise BadRequest(
                    f"{where} is a tool of the type {kind[:100]!r}, which only a supplier with "
                    f"the Responses API supports; leave it out"
                )


def _parse_tool(tool: _Tool, group: _Group | None) -> ToolDefinition:
    schema = tool.parameters or {"type": "object", "properties": {}}
    name = qualify_name(group.name if group else "", tool.name)
    described = join_paragraphs((group.description if group else "", tool.description or ""))
    return ToolDefinition(name, described, schema, bool(tool.strict))


def _parse_freeform_tool(tool: _FreeformTool, group: _Group | None) -> ToolDefinition:
    form = tool.format
    grammar = form is not None and form.type == "grammar"
    shape = FreeformFormat(form.syntax, form.definition) if form and grammar else FreeformFormat()
    name = qualify_name(group.name if group else "", tool.name)
    described = (group.description if group else "", tool.description or "")
    return ToolDefinition(name, join_paragraphs(described), freeform.INPUT_SCHEMA, freeform=shape)


def _parse_choice(choice: Literal["auto", "none", "required"] | _Choice | None) -> ToolChoice:
    if not isinstance(choice, _Choice):
        return choice or "auto"
    if choice.type == "allowed_tools":
        return choice.mode
    if choice.name is None:
        raise BadRequest(f'"tool_choice" of the type {choice.type} needs the field "name"')
    return NamedTool(choice.name)


def _get_allowed_names(choice: object) -> list[str] | None:
    """Return the names of the allowed tools; None: all."""
    if not (isinstance(choice, _Choice) and choice.type == "allowed_tools"):
        return None
    kinds = ((tool, decode_part(tool, _Kind, "$.tool_choice.tools").type) for tool in choice.tools)
    ours = (tool for tool, kind in kinds if not kind.startswith(_SEARCH))
    return [decode_part(tool, _Chosen, "$.tool_choice.tools").name for tool in ours]


def _parse_format(wanted: _Format | None) -> JsonFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return JsonFormat()
    if wanted.schema is None:
        raise BadRequest('"text.format" of the type json_schema needs a schema')
    return JsonFormat(wanted.schema, wanted.name, wanted.description or "", bool(wanted.strict))
