"""Requests to Gemini's ``generateContent``: glanced at, passed on, or understood as a whole.

The address tells the model and whether to stream. Fields may be written in camelCase or, as in
much of the vendor's own material, with underscores.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import extras
from agentd.proxy.dialects.callers.asked import (
    Ignored,
    Rules,
    Strict,
    Tokens,
    joined,
    opened,
    paragraphs,
    part,
    pieces,
    translated,
)
from agentd.proxy.dialects.callers.schemas import json_schema
from agentd.proxy.dialects.callers.seals import unsealed
from agentd.proxy.dialects.conversation import (
    PDF,
    Conversation,
    Document,
    Image,
    JsonFormat,
    Message,
    OneTool,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)

RULES = Rules(
    ignored={
        "model": "the address tells it",
        "safetySettings": "what Google's own filters let through; others have their own",
        "labels": "labels in the caller's own account at Google",
    },
    neutral={"store": (False,), "serviceTier": ("standard", "SERVICE_TIER_UNSPECIFIED")},
    refused={"cachedContent": "it is stored at Google; send the contents themselves"},
)

_OPAQUE = (
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
)
"""Below these the names are the caller's own."""


class _Strict(Strict, frozen=True, kw_only=True, rename="camel"):
    """A part in which nothing may stand that is not known."""


class _Blob(_Strict, frozen=True):
    mime_type: str
    data: str
    display_name: str | None = None


class _File(_Strict, frozen=True):
    file_uri: str
    mime_type: str = ""
    display_name: Ignored = None


class _Call(_Strict, frozen=True):
    name: str
    id: str = ""
    args: dict[str, object] | None = None


class _Piece(_Strict, frozen=True):
    inline_data: _Blob


class _Response(_Strict, frozen=True):
    name: str = ""
    id: str = ""
    response: dict[str, object] | None = None
    parts: list[_Piece] | None = None
    will_continue: Literal[False] | None = None
    scheduling: Ignored = None
    """When the model is to hear of it; others always hear at once."""


class _Part(_Strict, frozen=True):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: _Blob | None = None
    file_data: _File | None = None
    function_call: _Call | None = None
    function_response: _Response | None = None
    media_resolution: Ignored = None
    """How closely to look: others always look as closely as they can."""
    part_metadata: Ignored = None


class _Content(_Strict, frozen=True):
    parts: tuple[_Part, ...] = ()
    role: Literal["user", "model", "function", ""] | None = None


class _Declared(_Strict, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    parameters_json_schema: dict[str, object] | None = None
    response: Ignored = None
    """What comes back of a tool is told by what comes back."""
    response_json_schema: Ignored = None
    behavior: Literal["BLOCKING", "UNSPECIFIED"] | None = None


class _Tools(_Strict, frozen=True):
    function_declarations: tuple[_Declared, ...] = ()


class _Calling(_Strict, frozen=True):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] = "AUTO"
    allowed_function_names: tuple[str, ...] = ()


class _ToolConfig(_Strict, frozen=True):
    function_calling_config: _Calling = _Calling()


class _Thinking(_Strict, frozen=True):
    include_thoughts: Ignored = None
    """What a supplier shows of them is told on in any case."""
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    thinking_level: str | None = None


class _Settings(_Strict, frozen=True):
    max_output_tokens: Tokens | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    stop_sequences: tuple[str, ...] = ()
    candidate_count: Literal[1] | None = None
    response_mime_type: Literal["", "text/plain", "application/json"] = ""
    response_schema: dict[str, object] | None = None
    response_json_schema: dict[str, object] | None = None
    thinking_config: _Thinking = _Thinking()
    response_logprobs: Literal[False] | None = None
    response_modalities: tuple[Literal["TEXT"], ...] = ()
    media_resolution: Ignored = None


class _Request(Struct, frozen=True, kw_only=True, rename="camel"):
    contents: list[_Content]
    system_instruction: _Content | None = None
    tools: tuple[_Tools, ...] = ()
    tool_config: _ToolConfig = _ToolConfig()
    generation_config: _Settings = _Settings()


class _Counts(Struct, rename="camel"):
    response_modalities: Any = None
    max_output_tokens: Tokens | None = None
    candidate_count: Annotated[int, Meta(ge=1, le=128)] | None = None


class _Glanced(Struct, rename="camel"):
    generation_config: _Counts | None = None
    service_tier: Any = None
    tools: Any = None

    @property
    def response_modalities(self) -> Any:
        """Whether words are asked for, or pictures and sound."""
        return self.generation_config and self.generation_config.response_modalities


def glance(body: bytes, model: str = "", stream: bool = False) -> Glance:
    """As ``CallerDialect.glance``, for the ``model`` and the way that the address tells."""
    if not model:
        raise BadRequest("The address names no model")
    request = part(_plain(body), _Glanced)
    seen = request.generation_config or _Counts()
    return Glance(
        model=model.removeprefix("models/"),
        stream=stream,
        max_output=seen.max_output_tokens or 0,
        replies=seen.candidate_count or 1,
        tier=extras.service("gemini", request),
        fees=extras.serves(request.tools),
    )


def passed_on(body: bytes, model: str) -> bytes:
    """As ``CallerDialect.passed_on``; no other model is named than that of the address."""
    fields = pieces(body)
    if "model" not in fields:
        return body
    del fields["model"]
    return msgspec.json.encode(fields)


def understood(body: bytes) -> Conversation:
    """As ``CallerDialect.understood``."""
    asked = translated(_plain(body), _Request, RULES)
    settings = asked.generation_config
    told = asked.system_instruction.parts if asked.system_instruction else ()
    tools = tuple(_tool(one) for tools in asked.tools for one in tools.function_declarations)
    return Conversation(
        messages=joined(_Reading().messages(asked.contents)),
        system=paragraphs(piece.text or "" for piece in told),
        tools=tools,
        tool_choice=_choice(asked.tool_config.function_calling_config, tools),
        max_output=settings.max_output_tokens or 0,
        effort=_effort(settings.thinking_config),
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=None if settings.top_k is None else int(settings.top_k),
        stop=tuple(settings.stop_sequences),
        reply_format=_format(settings),
    )


class _Unanswered:
    """The calls of one turn that have no response yet, found by id or by name in constant time."""

    def __init__(self) -> None:
        self._calls: dict[int, ToolCall] = {}
        self._count = 0
        self._numbers: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        """The numbers of the calls by their id, and by their name; some may be taken already."""

    def add(self, call: ToolCall) -> None:
        """Remember a call."""
        self._calls[self._count] = call
        self._numbers["id", call.id].append(self._count)
        self._numbers["name", call.name].append(self._count)
        self._count += 1

    def take(self, id: str, name: str) -> ToolCall | None:  # noqa: A002
        """Remove and return the first call of this id, or of this name where there is no id."""
        numbers = self._numbers.get(("id", id) if id else ("name", name))
        while numbers:
            call = self._calls.pop(numbers.popleft(), None)
            if call is not None:
                return call
        return None


class _Reading:
    """Reads contents in their order. Calls and results may have no ids: they get some here."""

    def __init__(self) -> None:
        self._calls = 0
        self._unanswered = _Unanswered()

    def messages(self, contents: Iterable[_Content]) -> Iterator[Message]:
        """Each content as a message."""
        for content in contents:
            role: Literal["user", "assistant"] = "user"
            if content.role == "model":
                role = "assistant"
                self._unanswered = _Unanswered()
            yield Message(role, tuple(self._parts(content.parts)))

    def _parts(self, parts: Iterable[_Part]) -> Iterator[Part]:
        for piece in parts:
            seal = piece.thought_signature or ""
            carried = unsealed(seal, "")
            if piece.thought and carried is None:
                yield Thinking("gemini", piece.text or "", seal)
                continue
            if seal:
                yield carried or Thinking("gemini", "", seal)
            if piece.thought:
                continue
            yield from self._said(piece)

    def _said(self, piece: _Part) -> Iterator[Part]:
        if piece.text:
            yield Text(piece.text)
        if piece.inline_data:
            yield _shown(piece.inline_data)
        if piece.file_data:
            yield _linked(piece.file_data)
        if piece.function_call:
            yield self._called(piece.function_call)
        if piece.function_response:
            yield self._answered(piece.function_response)

    def _called(self, told: _Call) -> ToolCall:
        self._calls += 1
        given = msgspec.json.encode(told.args or {}).decode()
        call = ToolCall(told.id or f"call_{self._calls}", told.name, given)
        self._unanswered.add(call)
        return call

    def _answered(self, told: _Response) -> ToolResult:
        call = self._unanswered.take(told.id, told.name)
        if call is None:
            raise BadRequest(f"The function response {told.id or told.name!r} answers no call")
        said = told.response or {}
        failed = "error" in said
        value = said["error"] if failed else said["output"] if set(said) == {"output"} else said
        words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        pictures = [_shown(piece.inline_data) for piece in told.parts or ()]
        return ToolResult(call.id, (Text(words), *pictures), is_error=failed)


def _shown(blob: _Blob) -> Image | Document:
    if blob.mime_type == PDF:
        return Document(blob.data, name=blob.display_name or "")
    if not blob.mime_type.startswith("image/"):
        raise BadRequest(
            "Only pictures and PDFs can be translated for the model's supplier, "
            f"no {blob.mime_type[:60]}"
        )
    return Image(blob.mime_type, blob.data)


def _linked(file: _File) -> Image | Document:
    if file.mime_type == PDF and file.file_uri.startswith(("https://", "http://")):
        return Document(url=file.file_uri)
    picture = file.mime_type.startswith("image/") or not file.mime_type
    if not (picture and file.file_uri.startswith(("https://", "http://"))):
        raise BadRequest(
            "Of linked files only pictures and PDFs with a public address can be translated"
        )
    return Image(url=file.file_uri)


def _tool(told: _Declared) -> Tool:
    schema = told.parameters_json_schema
    if schema is None:
        schema = json_schema(told.parameters or {})
    return Tool(told.name, told.description or "", schema or {"type": "object", "properties": {}})


_Choice: TypeAlias = Literal["auto", "none", "required"] | OneTool


def _choice(config: _Calling, tools: Iterable[Tool]) -> _Choice:
    if config.mode == "NONE":
        return "none"
    if config.mode != "ANY":
        return "auto"
    allowed = config.allowed_function_names
    if len(allowed) == 1:
        return OneTool(allowed[0])
    if allowed and set(allowed) != {tool.name for tool in tools}:
        raise BadRequest("That some of the tools must be used cannot be said; name one, or all")
    return "required"


def _effort(thinking: _Thinking) -> str:
    """A level by its name; a number of tokens, of which -1 leaves it to the model."""
    if thinking.thinking_budget is not None:
        budget = thinking.thinking_budget
        return "none" if budget == 0 else str(budget) if budget > 0 else ""
    level = (thinking.thinking_level or "").lower()
    return "" if level == "thinking_level_unspecified" else level


def _format(settings: _Settings) -> JsonFormat | None:
    if settings.response_mime_type != "application/json":
        return None
    if settings.response_json_schema is not None:
        return JsonFormat(settings.response_json_schema)
    if settings.response_schema is not None:
        return JsonFormat(json_schema(settings.response_schema))
    return JsonFormat()


def _plain(body: bytes) -> bytes:
    """The request with its fields in camelCase."""
    return msgspec.json.encode(_camel(opened(body)))


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    named: dict[str, Any] = {}
    for name, inner in value.items():
        first, *rest = name.split("_")
        camel = first + "".join(word[:1].upper() + word[1:] for word in rest)
        if camel in named:
            raise BadRequest(f"The field {name[:100]!r} stands twice in the request")
        if inner is not None:  # as good as left out
            named[camel] = inner if camel in _OPAQUE else _camel(inner)
    return named
