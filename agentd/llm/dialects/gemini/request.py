"""Requests to Gemini's ``generateContent``: peeked at, passed through, or parsed completely.

Model and streaming are in the URL. Fields may be in camelCase or, as in much of the vendor's own
material, in snake_case.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    PDF,
    Conversation,
    DocumentPart,
    ImagePart,
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
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.gemini.json_schema import to_json_schema
from agentd.llm.dialects.gemini.model_names import qualify_name
from agentd.llm.dialects.request_parsing import (
    FieldRules,
    Ignored,
    StrictPart,
    TokenCount,
    correct_image_type,
    decode_fields,
    decode_part,
    decode_raw_fields,
    decode_strict,
    encode_with,
    join_paragraphs,
    merge_adjacent,
)
from agentd.llm.dialects.thinking_signatures import unwrap_thinking

RULES = FieldRules(
    ignored={
        "model": "the address names it",
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

_LISTS = (
    "contents",
    "parts",
    "tools",
    "functionDeclarations",
    "allowedFunctionNames",
    "stopSequences",
    "responseModalities",
)
"""Google takes a single value for a list of one, which much of its own material writes."""

_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


class _Strict(StrictPart, frozen=True, kw_only=True, rename="camel"):
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
    """The time at which the model receives it; other models always receive it at once."""


class _Part(_Strict, frozen=True):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: _Blob | None = None
    file_data: _File | None = None
    function_call: _Call | None = None
    function_response: _Response | None = None
    media_resolution: Ignored = None
    """The image resolution: other suppliers always use the highest."""
    part_metadata: Ignored = None


class _Content(_Strict, frozen=True):
    parts: tuple[_Part, ...] = ()
    role: Literal["user", "model", "function", "tool", ""] | None = None


class _Instruction(_Strict, frozen=True):
    parts: tuple[_Part, ...] = ()
    role: Ignored = None
    """Google reads no role here either; its material writes "system" or "user"."""


class _Declared(_Strict, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    parameters_json_schema: dict[str, object] | None = None
    response: Ignored = None
    """The schema of a tool's result, which the result itself shows."""
    response_json_schema: Ignored = None
    behavior: Literal["BLOCKING", "UNSPECIFIED"] | None = None


class _Tools(_Strict, frozen=True):
    function_declarations: tuple[_Declared, ...] = ()


class _Calling(_Strict, frozen=True):
    mode: str = "AUTO"
    """One of ``_MODES``, in letters of either case."""
    allowed_function_names: tuple[str, ...] = ()


class _ToolConfig(_Strict, frozen=True):
    function_calling_config: _Calling = _Calling()


class _Thinking(_Strict, frozen=True):
    include_thoughts: Ignored = None
    """The visibility of thoughts: they are forwarded in any case."""
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    thinking_level: str | None = None


_NoPenalty: TypeAlias = Annotated[float, Meta(ge=0, le=0)]


class _Settings(_Strict, frozen=True):
    max_output_tokens: TokenCount | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    candidate_count: Literal[1] | None = None
    response_mime_type: Literal["", "text/plain", "application/json"] = ""
    response_schema: dict[str, object] | None = None
    response_json_schema: dict[str, object] | None = None
    thinking_config: _Thinking = _Thinking()
    response_logprobs: Literal[False] | None = None
    presence_penalty: _NoPenalty | None = None
    frequency_penalty: _NoPenalty | None = None
    response_modalities: tuple[Literal["TEXT"], ...] = ()
    media_resolution: Ignored = None


class _Request(Struct, frozen=True, kw_only=True, rename="camel"):
    contents: list[_Content]
    system_instruction: _Instruction | None = None
    tools: tuple[_Tools, ...] = ()
    tool_config: _ToolConfig = _ToolConfig()
    generation_config: _Settings = _Settings()


class _Counts(Struct, rename="camel"):
    response_modalities: Any = None
    max_output_tokens: TokenCount | None = None
    candidate_count: Annotated[int, Meta(ge=1, le=128)] | None = None


class _Envelope(Struct, rename="camel"):
    generation_config: _Counts | None = None
    service_tier: Any = None
    tools: Any = None

    @property
    def response_modalities(self) -> Any:
        """The kinds of output requested: text, images or audio."""
        return self.generation_config and self.generation_config.response_modalities


def peek(body: bytes, model: str = "", stream: bool = False) -> RequestSummary:
    """Do as ``CallerDialect.peek``, given the model and the streaming mode from the URL."""
    if not model:
        raise BadRequest("The URL names no model")
    request = decode_part(normalize_names(body), _Envelope)
    seen = request.generation_config or _Counts()
    return RequestSummary(
        model=model.removeprefix("models/"),
        stream=stream,
        max_output=seen.max_output_tokens or 0,
        replies=seen.candidate_count or 1,
        service_tier=extras.name_service("gemini", request),
        uses_paid_tools=extras.offers_paid_tools(request.tools),
        has_audio=extras.has_audio(body),
    )


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Do as ``CallerDialect.rewrite_for_passthrough``.

    The URL names the model; a request within a token count must name it again.
    """
    fields = decode_raw_fields(body)
    changes = _name_counted_model(fields, model)
    if "model" not in fields:
        return encode_with(body, fields, changes)
    del fields["model"]
    return msgspec.json.encode({**fields, **changes})


def _name_counted_model(fields: Mapping[str, Raw], model: str) -> dict[str, object]:
    """Return the request whose tokens are to be counted, with the supplier's name of its model."""
    for name in ("generateContentRequest", "generate_content_request"):
        if name in fields and bytes(fields[name]) != b"null":
            counted = decode_raw_fields(fields[name])
            return {name: {**counted, "model": qualify_name(model)}}
    return {}


def parse_request(body: bytes) -> Conversation:
    """Do as ``CallerDialect.parse_request``."""
    request = decode_strict(normalize_names(body), _Request, RULES)
    settings = request.generation_config
    declared = request.system_instruction.parts if request.system_instruction else ()
    tools = tuple(
        _parse_tool(one) for tools in request.tools for one in tools.function_declarations
    )
    return Conversation(
        messages=tuple(map(_join_texts, merge_adjacent(_ContentParser().parse(request.contents)))),
        system=join_paragraphs(piece.text or "" for piece in declared),
        tools=tools,
        tool_choice=_parse_choice(request.tool_config.function_calling_config, tools),
        max_output=settings.max_output_tokens or 0,
        reasoning_effort=_parse_effort(settings.thinking_config),
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=None if settings.top_k is None else int(settings.top_k),
        seed=settings.seed,
        stop_sequences=tuple(settings.stop_sequences),
        response_format=_parse_format(settings),
    )


def normalize_names(body: bytes) -> bytes:
    """Return a request with all field names in camelCase, and all lists as lists."""
    return msgspec.json.encode(_to_camel_case(decode_fields(body)))


class _OpenCalls:
    """The calls of one turn without a response yet, found by id or name in constant time."""

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

    def pop(self, id: str, name: str) -> ToolCall | None:  # noqa: A002
        """Remove and return the first call of this id, or of this name where there is no id."""
        numbers = self._numbers.get(("id", id) if id else ("name", name))
        while numbers:
            call = self._calls.pop(numbers.popleft(), None)
            if call is not None:
                return call
        return None


class _ContentParser:
    """Parses contents in order. Calls and results may lack ids: they are assigned here."""

    def __init__(self) -> None:
        self._calls = 0
        self._open_calls = _OpenCalls()

    def parse(self, contents: Iterable[_Content]) -> Iterator[ModelMessage]:
        """Yield each content as a message.

        Google's chats return a streamed reply as one content for each chunk, so that adjacent
        contents of the model are one turn, and each may have calls.
        """
        role: Role = "user"
        for content in contents:
            before, role = role, "assistant" if content.role == "model" else "user"
            if role == "assistant" and before == "user":
                self._open_calls = _OpenCalls()
            yield ModelMessage(role, tuple(self._parse_parts(content.parts)))

    def _parse_parts(self, parts: Iterable[_Part]) -> Iterator[MessagePart]:
        for piece in parts:
            seal = piece.thought_signature or ""
            unwrapped = unwrap_thinking(seal, "")
            if piece.thought and unwrapped is None:
                yield Thinking("gemini", piece.text or "", seal)
                continue
            if seal:
                yield unwrapped or Thinking("gemini", "", seal)
            if piece.thought:
                continue
            yield from self._parse_part(piece)

    def _parse_part(self, piece: _Part) -> Iterator[MessagePart]:
        if piece.text:
            yield TextPart(piece.text)
        if piece.inline_data:
            yield _parse_blob(piece.inline_data)
        if piece.file_data:
            yield _parse_file(piece.file_data)
        if piece.function_call:
            yield self._parse_call(piece.function_call)
        if piece.function_response:
            yield self._parse_result(piece.function_response)

    def _parse_call(self, declared: _Call) -> ToolCall:
        self._calls += 1
        given = msgspec.json.encode(declared.args or {}).decode()
        call = ToolCall(declared.id or f"call_{self._calls}", declared.name, given)
        self._open_calls.add(call)
        return call

    def _parse_result(self, declared: _Response) -> ToolResult:
        call = self._open_calls.pop(declared.id, declared.name)
        if call is None:
            raise BadRequest(
                f"The function response {declared.id or declared.name!r} matches no function call"
            )
        response = declared.response or {}
        failed = "error" in response
        value = (
            response["error"]
            if failed
            else response["output"]
            if set(response) == {"output"}
            else response
        )
        words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        pictures = [_parse_blob(piece.inline_data) for piece in declared.parts or ()]
        return ToolResult(call.id, (TextPart(words), *pictures), is_error=failed)


def _join_texts(message: ModelMessage) -> ModelMessage:
    """Return a model's message with each row of texts as one: they are a stream's chunks."""
    if message.role == "user":
        return message
    parts: list[MessagePart] = []
    for kind, row in groupby(message.parts, type):
        if kind is TextPart:
            parts.append(TextPart("".join(part.text for part in row if isinstance(part, TextPart))))
        else:
            parts += row
    return ModelMessage(message.role, tuple(parts))


def _parse_blob(blob: _Blob) -> ImagePart | DocumentPart:
    if blob.mime_type == PDF:
        return DocumentPart(blob.data, name=blob.display_name or "")
    if not blob.mime_type.startswith("image/"):
        raise BadRequest(
            "Only images and PDFs can be translated for the model's supplier, "
            f"not {blob.mime_type[:60]}"
        )
    return ImagePart(correct_image_type(blob.mime_type), blob.data)


def _parse_file(file: _File) -> ImagePart | DocumentPart:
    if file.mime_type == PDF and file.file_uri.startswith(("https://", "http://")):
        return DocumentPart(url=file.file_uri)
    picture = file.mime_type.startswith("image/") or not file.mime_type
    if not (picture and file.file_uri.startswith(("https://", "http://"))):
        raise BadRequest("Only linked images and PDFs with an http(s) URL can be translated")
    return ImagePart(url=file.file_uri)


def _parse_tool(declared: _Declared) -> ToolDefinition:
    schema = declared.parameters_json_schema
    if schema is None:
        schema = to_json_schema(declared.parameters or {})
    return ToolDefinition(
        declared.name, declared.description or "", schema or {"type": "object", "properties": {}}
    )


_Choice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


def _parse_choice(config: _Calling, tools: Iterable[ToolDefinition]) -> _Choice:
    mode = config.mode.upper()
    if mode not in _MODES:
        raise BadRequest(f"The mode of function calls is one of {', '.join(_MODES)}")
    if mode == "NONE":
        return "none"
    if mode != "ANY":
        return "auto"
    allowed = config.allowed_function_names
    if len(allowed) == 1:
        return NamedTool(allowed[0])
    if allowed and set(allowed) != {tool.name for tool in tools}:
        raise BadRequest(
            "Requiring one of several tools cannot be translated; allow one tool, or all"
        )
    return "required"


def _parse_effort(thinking: _Thinking) -> str:
    """Return a level by name or a number of tokens; -1 leaves it to the model."""
    if thinking.thinking_budget is not None:
        budget = thinking.thinking_budget
        return "none" if budget == 0 else str(budget) if budget > 0 else ""
    level = (thinking.thinking_level or "").lower()
    return "" if level == "thinking_level_unspecified" else level


def _parse_format(settings: _Settings) -> JsonFormat | None:
    if settings.response_mime_type != "application/json":
        return None
    if settings.response_json_schema is not None:
        return JsonFormat(settings.response_json_schema)
    if settings.response_schema is not None:
        return JsonFormat(to_json_schema(settings.response_schema))
    return JsonFormat()


def _to_camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    named: dict[str, Any] = {}
    for name, inner in value.items():
        first, *rest = name.split("_")
        camel = first + "".join(word[:1].upper() + word[1:] for word in rest)
        if camel in named:
            raise BadRequest(f"The field {name[:100]!r} is repeated in the request")
        if inner is not None:  # as good as left out
            listed = [inner] if camel in _LISTS and not isinstance(inner, list) else inner
            named[camel] = inner if camel in _OPAQUE else _to_camel_case(listed)
    return named
