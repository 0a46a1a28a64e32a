"""Requests to ``/v1/responses``: glanced at, passed on, or understood as a whole."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import extras, freeform
from agentd.proxy.dialects.callers.asked import (
    Ignored,
    Named,
    Rules,
    Strict,
    Tokens,
    Verbosity,
    document,
    for_model,
    glanced,
    joined,
    paragraphs,
    part,
    picture,
    translated,
    verbosity,
)
from agentd.proxy.dialects.callers.groups import grouped
from agentd.proxy.dialects.callers.references import REFERENCE
from agentd.proxy.dialects.callers.seals import unsealed
from agentd.proxy.dialects.conversation import (
    Conversation,
    JsonFormat,
    Message,
    OneTool,
    Role,
    Shown,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from agentd.proxy.dialects.openai_responses import thinking

RULES = Rules(
    ignored={
        "model": "which supplier is asked was decided by it",
        "stream": "how the reply is told is the gateway's matter",
        "stream_options": "so is this",
        "store": "the reply's items are remembered here, see ``references``",
        "metadata": "labels in the caller's own account at OpenAI",
        "client_metadata": "the same, by Codex",
        "prompt_cache_options": "how long OpenAI remembers; others have their own rules",
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
        "previous_response_id": "it keeps no replies; send the whole conversation as input",
        "conversation": "it keeps no conversations; send the whole of it as input",
        "prompt": "it keeps no prompts; send it as instructions and input",
    },
)


_SEARCH = "web_search"
"""How the types begin of a tool that the supplier runs, and of what came of it.

Programs offer it by themselves (Codex does); a model that cannot search does its work without.
"""


class _Glanced(Named):
    stream: bool | None = None
    max_output_tokens: Tokens | None = None
    background: bool | None = None
    store: bool | None = None
    tools: list[Any] | None = None
    service_tier: Any = None


class _Marked(Strict, frozen=True, kw_only=True):
    """A part of a message; where a supplier's memory may end is the other supplier's matter."""

    prompt_cache_breakpoint: Ignored = None


class _Input(_Marked, frozen=True, tag="input_text"):
    text: str


class _Image(_Marked, frozen=True, tag="input_image"):
    image_url: str
    detail: Ignored = None
    """How closely to look: others always look as closely as they can."""
    file_id: None = None


class _Output(Strict, frozen=True, tag="output_text"):
    text: str
    annotations: Ignored = None
    """Where the model had its words from, for the reader."""
    logprobs: Ignored = None
    """How likely they were, for the reader."""


class _Refusal(Strict, frozen=True, tag="refusal"):
    refusal: str


class _File(_Marked, frozen=True, tag="input_file"):
    file_data: str = ""
    file_url: str = ""
    filename: str = ""
    detail: Ignored = None
    """How closely to look: others always look as closely as they can."""
    file_id: None = None
    """It would be stored at OpenAI."""


_Piece: TypeAlias = _Input | _Image | _File | _Output | _Refusal


class _Kept(Strict, frozen=True, kw_only=True):
    """An item as it came; what it is called, and that it is whole, is of no concern any more."""

    id: Ignored = None
    status: Ignored = None


class _Message(_Kept, frozen=True, kw_only=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[_Piece]
    type: Literal["message"] = "message"
    phase: Ignored = None
    """Whether it was the reply's last message, for the reader."""


class _Call(_Kept, frozen=True, kw_only=True):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
    caller: None = None


class _Result(_Kept, frozen=True, kw_only=True):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[_Piece]
    name: Ignored = None
    """The tool's, which the call has told."""
    namespace: Ignored = None
    caller: None = None


class _FreeformCall(_Kept, frozen=True, kw_only=True):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    namespace: str | None = None
    caller: None = None


class _FreeformResult(_Result, frozen=True, kw_only=True):
    type: Literal["custom_tool_call_output"]  # type: ignore[assignment]


_Item: TypeAlias = _Message | _Call | _Result | _FreeformCall | _FreeformResult

_SHAPES: Mapping[str, type[_Item] | type[dict[str, object]]] = {
    "message": _Message,
    "function_call": _Call,
    "function_call_output": _Result,
    "custom_tool_call": _FreeformCall,
    "custom_tool_call_output": _FreeformResult,
    "reasoning": dict[str, object],
}
"""What each item looks like. Of reasoning only its supplier knows that."""


class _Kind(Struct, frozen=True):
    type: str = "message"


class _Tool(Strict, frozen=True, kw_only=True):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class _Form(Strict, frozen=True, kw_only=True):
    type: Literal["text", "grammar"]
    syntax: str = ""
    definition: str = ""


class _FreeformTool(Strict, frozen=True, kw_only=True):
    type: Literal["custom"]
    name: str
    description: str | None = None
    format: _Form | None = None


class _Group(Strict, frozen=True, kw_only=True):
    type: Literal["namespace"]
    name: str
    description: str = ""
    tools: list[Raw]


class _Choice(Strict, frozen=True):
    type: Literal["function", "custom"]
    name: str


class _Format(Strict, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None


class _Words(Strict, frozen=True):
    format: _Format | None = None
    verbosity: Verbosity | None = None


class _Effort(Strict, frozen=True):
    effort: str | None = None
    summary: Ignored = None
    """What is shown of the thinking: whatever the other supplier shows."""
    generate_summary: Ignored = None


_Include: TypeAlias = Literal[
    "reasoning.encrypted_content",
    # These tell more of tools that the supplier runs, which are not there.
    "web_search_call.action.sources",
    "web_search_call.results",
]


class _Request(Struct, frozen=True, kw_only=True):
    input: str | list[Raw] = []
    instructions: str | None = None
    tools: list[Raw] | None = None
    tool_choice: Literal["auto", "none", "required"] | _Choice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Tokens | None = None
    reasoning: _Effort | None = None
    include: list[_Include] | None = None
    text: _Words | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


def glance(body: bytes) -> Glance:
    """As ``CallerDialect.glance``; what goes on in the background is refused.

    It would be asked for again by its id, and so what it costs would never be seen.
    """
    seen = glanced(body, _Glanced)
    if seen.background:
        raise BadRequest('"background" is not possible through this gateway; leave it out')
    tools = list(_special(seen.tools or ()))
    return Glance(
        seen.model,
        bool(seen.stream),
        seen.max_output_tokens or 0,
        groups=frozenset(group for group, _ in tools if group),
        freeform=frozenset(grouped(group, name) for group, name in tools if name),
        stores=seen.store is not False,
        tier=extras.service("openai-responses", seen),
        fees=extras.serves(seen.tools),
    )


def _special(tools: Iterable[Any], group: str = "") -> Iterator[tuple[str, str]]:
    """Each group, without a name, and each freeform tool by its group and name."""
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not (isinstance(name, str) and name):
            continue
        match tool.get("type"):
            case "namespace" if not group:
                yield name, ""
                inner = tool.get("tools")
                yield from _special(inner if isinstance(inner, list) else (), name)
            case "custom":
                yield group, name


def passed_on(body: bytes, model: str) -> bytes:
    """As ``CallerDialect.passed_on``; a response always tells its usage."""
    return for_model(body, model)


def understood(body: bytes) -> Conversation:
    """As ``CallerDialect.understood``."""
    asked = translated(body, _Request, RULES)
    said = [*_said(asked.input)]
    words = asked.text or _Words()
    return Conversation(
        messages=joined(message for message in said if isinstance(message, Message)),
        system=paragraphs(
            (asked.instructions or "", *(told for told in said if isinstance(told, str)))
        ),
        tools=tuple(_tools(asked.tools or ())),
        tool_choice=_choice(asked.tool_choice),
        parallel=asked.parallel_tool_calls is not False,
        max_output=asked.max_output_tokens or 0,
        effort=(asked.reasoning and asked.reasoning.effort) or "",
        temperature=asked.temperature,
        top_p=asked.top_p,
        reply_format=_format(words.format),
        verbosity=verbosity(words.verbosity),
        user=asked.user or asked.safety_identifier or "",
        cache_key=asked.prompt_cache_key or "",
        dropped=tuple(_dropped(asked)),
    )


def _dropped(asked: _Request) -> Iterator[str]:
    """The types of what no other supplier can do, and is left out: the model works without."""
    items = asked.input if isinstance(asked.input, list) else ()
    kinds = (part(one, _Kind).type for one in (*(asked.tools or ()), *items))
    yield from dict.fromkeys(kind for kind in kinds if kind.startswith(_SEARCH))


def _said(given: str | list[Raw]) -> Iterator[Message | str]:
    """What each item says; instructions are bare texts."""
    if isinstance(given, str):
        yield Message("user", (Text(given),))
        return
    for at, item in enumerate(given):
        where = f"$.input[{at}]"
        kind = part(item, _Kind, where).type
        if not kind.startswith(_SEARCH):
            yield from _told(_item(item, kind, where))


def _item(item: Raw, kind: str, where: str) -> _Item | dict[str, object]:
    if kind == REFERENCE:
        raise BadRequest(
            f"{where} refers to an item that is not known here. The model's supplier speaks "
            "another dialect, and of replies in yours only what this access key was told is "
            "remembered: for an hour, not over a restart, and less long where much is said. Send "
            'the items themselves (most clients do so with "store": false)'
        )
    if kind not in _SHAPES:
        raise BadRequest(
            "The model's supplier speaks another dialect, into which the request cannot be "
            f"translated: {where} is of the type {kind[:100]!r}"
        )
    return part(item, _SHAPES[kind], where)


def _told(item: _Item | dict[str, object]) -> Iterator[Message | str]:
    match item:
        case _Message(role="system" | "developer", content=content):
            yield from (piece.text for piece in _pieces(content) if isinstance(piece, Text))
        case _Message(content=content):
            role: Role = "assistant" if item.role == "assistant" else "user"
            yield Message(role, tuple(_pieces(content)))
        case _Call():
            yield Message("assistant", (_call(item, item.arguments),))
        case _FreeformCall():
            yield Message("assistant", (_call(item, freeform.as_arguments(item.input)),))
        case _Result():
            yield Message("user", (ToolResult(item.call_id, tuple(_pieces(item.output))),))
        case _:
            yield Message("assistant", (_thought(item),))


def _thought(item: dict[str, object]) -> Thinking:
    own, sealed = thinking(item), item.get("encrypted_content")
    return (unsealed(sealed, own.text) if isinstance(sealed, str) else None) or own


def _pieces(content: str | list[_Piece]) -> Iterator[Shown]:
    if isinstance(content, str):
        content = [_Input(text=content)]
    for piece in content:
        match piece:
            case _Image():
                yield picture(piece.image_url)
            case _File():
                yield document(piece.file_data or piece.file_url, piece.filename)
            case _Input(text=words) | _Output(text=words) | _Refusal(refusal=words) if words:
                yield Text(words)


def _call(item: _Call | _FreeformCall, arguments: str) -> ToolCall:
    return ToolCall(item.call_id, grouped(item.namespace or "", item.name), arguments)


def _tools(
    given: Iterable[Raw], place: str = "$.tools", group: _Group | None = None
) -> Iterator[Tool]:
    for at, tool in enumerate(given):
        where = f"{place}[{at}]"
        match part(tool, _Kind, where).type:
            case "function":
                yield _tool(part(tool, _Tool, where), group)
            case "custom":
                yield _freeform(part(tool, _FreeformTool, where), group)
            case "namespace" if group is None:
                inner = part(tool, _Group, where)
                yield from _tools(inner.tools, f"{where}.tools", inner)
            case kind if not kind.startswith(_SEARCH):
                raise BadRequest(
                    f"{where} is a tool of the type {kind[:100]!r}, which only a supplier of the "
                    f"Responses API has; leave it out"
                )


def _tool(tool: _Tool, group: _Group | None) -> Tool:
    schema = tool.parameters or {"type": "object", "properties": {}}
    name = grouped(group.name if group else "", tool.name)
    described = paragraphs((group.description if group else "", tool.description or ""))
    return Tool(name, described, schema, bool(tool.strict))


def _freeform(tool: _FreeformTool, group: _Group | None) -> Tool:
    """The same with one string; a grammar can only be described to the model."""
    form, rule = tool.format, ""
    if form and form.type == "grammar":
        rule = f"The input must fit this grammar ({form.syntax}):\n{form.definition}"
    name = grouped(group.name if group else "", tool.name)
    described = (group.description if group else "", tool.description or "", rule)
    return Tool(name, paragraphs(described), freeform.SCHEMA)


def _choice(
    choice: Literal["auto", "none", "required"] | _Choice | None,
) -> Literal["auto", "none", "required"] | OneTool:
    return OneTool(choice.name) if isinstance(choice, _Choice) else choice or "auto"


def _format(wanted: _Format | None) -> JsonFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return JsonFormat()
    if wanted.schema is None:
        raise BadRequest('"text.format" of the type json_schema needs a schema')
    return JsonFormat(wanted.schema, wanted.name, wanted.description or "", bool(wanted.strict))
