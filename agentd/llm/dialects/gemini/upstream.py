"""Google's Gemini developer API, as spoken to suppliers."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    PDF,
    Conversation,
    DocumentPart,
    ImageDone,
    ImagePart,
    MessagePart,
    ModelMessage,
    NamedTool,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopReason,
    SupplierError,
    TextDelta,
    TextPart,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    ToolResult,
    UsageUpdated,
)
from agentd.llm.dialects import stream_reader
from agentd.llm.dialects.custom_tools import describe_function
from agentd.llm.dialects.gemini.model_names import build_path
from agentd.llm.dialects.message_order import (
    encode_arguments,
    ensure_message,
    name_attachments,
    normalize_messages,
    render_result,
)
from agentd.llm.dialects.stream_reader import (
    Fields,
    StreamReader,
    get_object,
    get_objects,
    get_text,
)
from agentd.llm.dialects.supplier_errors import parse_error
from agentd.llm.price import parse_gemini_usage

LEVELS = ("minimal", "low", "medium", "high")
"""The thinking levels that a model accepts, beside a number of tokens."""

_UNSEALED = "skip_thought_signature_validator"
"""The placeholder signature for a call made by another model; without one it is refused."""

_ONE_CALL = "Call at most one function at a time, and wait for its response."
"""The instruction for which there is no setting; callers then receive only the first call."""

_BEFORE_SEALS = re.compile(r"gemini-[12]\b")

_STOPS: dict[str, StopReason] = {"STOP": "end", "MAX_TOKENS": "length"}
"""All others come from a filter, or are unknown."""

_UNUSABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")
"""The model sent an invalid tool call; another attempt may succeed."""


def get_path(model: str, *, stream: bool = True) -> str:
    """Do as ``Dialect.get_path``: it names the model and the streaming mode."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return build_path(model, method)


def build_headers(secret: str) -> dict[str, str]:
    """Do as ``Dialect.build_headers``."""
    key = {"x-goog-api-key": secret} if secret else {}
    return {"content-type": "application/json", **key}


def encode_request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """Do as ``Dialect.encode_request``; model and streaming mode are in the URL.

    The end user's id is omitted: Gemini has no field for it, and no reply depends on it.
    """
    conversation = ensure_message(conversation)
    sealed = _BEFORE_SEALS.search(model) is None
    body: dict[str, object] = {"contents": _encode_contents(conversation.messages, sealed=sealed)}
    one_call = _ONE_CALL if conversation.tools and not conversation.parallel_tool_calls else ""
    if system := "\n\n".join(filter(None, (conversation.system, one_call))):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if conversation.tools:
        body |= _encode_tools(conversation)
    settings = _encode_settings(conversation)
    if settings:
        body["generationConfig"] = settings
    return msgspec.json.encode(body)


def create_reader() -> StreamReader:
    """Do as ``Dialect.create_reader``, for ``alt=sse``."""
    return StreamReader(_ReplyParser())


def create_passthrough_reader() -> StreamReader:
    """Return a reader for callers who get Google's own finish reason, whatever it is."""
    return StreamReader(_ReplyParser(takes_any_end=True))


def parse_response(body: bytes) -> list[ReplyEvent]:
    """Do as ``Dialect.parse_response``."""
    return stream_reader.parse_single_event(_ReplyParser(), body)


def _encode_tools(conversation: Conversation) -> dict[str, object]:
    declared = [
        {
            "name": tool.name,
            "description": describe_function(tool),
            "parametersJsonSchema": {"type": "object", **tool.schema},
        }
        for tool in conversation.tools
    ]
    chosen: dict[str, object]
    match conversation.tool_choice:
        case NamedTool(name):
            chosen = {"mode": "ANY", "allowedFunctionNames": [name]}
        case "none":
            chosen = {"mode": "NONE"}
        case "required":
            chosen = {"mode": "ANY"}
        case _:
            chosen = (
                {"mode": "VALIDATED"} if any(tool.strict for tool in conversation.tools) else {}
            )
    payload: dict[str, object] = {"tools": [{"functionDeclarations": declared}]}
    return {**payload, "toolConfig": {"functionCallingConfig": chosen}} if chosen else payload


def _encode_settings(conversation: Conversation) -> dict[str, object]:
    if conversation.verbosity:
        raise BadRequest("Gemini's models do not support verbosity")
    if conversation.seed is not None and not -(2**31) <= conversation.seed < 2**31:
        raise BadRequest("Gemini's seed is a number of 32 bits")
    payload: dict[str, object] = {
        "maxOutputTokens": conversation.max_output or None,
        "temperature": conversation.temperature,
        "topP": conversation.top_p,
        "topK": conversation.top_k,
        "seed": conversation.seed,
        "stopSequences": list(conversation.stop_sequences) or None,
        "thinkingConfig": _encode_thinking(conversation.reasoning_effort),
    }
    if wanted := conversation.response_format:
        payload |= {"responseMimeType": "application/json", "responseJsonSchema": wanted.schema}
    return {name: value for name, value in payload.items() if value is not None}


def _encode_thinking(effort: str) -> dict[str, object] | None:
    """Encode the thinking effort; thoughts are included wherever thinking is requested."""
    if effort in ("", "none"):
        return {"thinkingBudget": 0} if effort else None
    if effort.isdecimal():
        return {"thinkingBudget": int(effort), "includeThoughts": True}
    if effort not in LEVELS:
        raise BadRequest(f"Gemini's thinking levels are {', '.join(LEVELS)}, not {effort!r}")
    return {"thinkingLevel": effort.upper(), "includeThoughts": True}


def _encode_contents(messages: Iterable[ModelMessage], *, sealed: bool) -> list[dict[str, object]]:
    names: dict[str, str] = {}
    found: list[dict[str, object]] = []
    for message in normalize_messages(messages, takes_back_images=True):
        if message.role == "user":
            parts = [
                encoded for part in message.parts for encoded in _encode_user_part(part, names)
            ]
        else:
            names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
            parts = _encode_model_parts(message.parts, sealed=sealed)
        if parts:
            found.append({"role": "user" if message.role == "user" else "model", "parts": parts})
    return found


def _encode_user_part(part: MessagePart, names: dict[str, str]) -> Iterator[dict[str, object]]:
    """Yield a user's part; a tool result names the tool, and its images follow it."""
    match part:
        case TextPart(words):
            yield {"text": words}
        case ImagePart() | DocumentPart():
            yield _encode_attachment(part)
        case ToolResult():
            payload = "error" if part.is_error else "output"
            words = render_result(ToolResult(part.id, part.content))
            result = {"id": part.id, "name": names[part.id], "response": {payload: words}}
            yield {"functionResponse": result}
            shown = [piece for piece in part.content if not isinstance(piece, TextPart)]
            if shown:
                yield {"text": f"The {name_attachments(shown)} of the tool result {part.id}:"}
                yield from map(_encode_attachment, shown)


def _encode_attachment(shown: ImagePart | DocumentPart) -> dict[str, object]:
    if isinstance(shown, DocumentPart):
        payload = {"fileUri": shown.url} if shown.url else {"data": shown.data}
        return {"fileData" if shown.url else "inlineData": {"mimeType": PDF, **payload}}
    image = shown
    kind = {"mimeType": image.media_type} if image.media_type else {}
    if image.url:
        return {"fileData": {**kind, "fileUri": image.url}}
    if not (kind and image.data):
        raise BadRequest("An image needs a URL, or bytes and their media type")
    return {"inlineData": {**kind, "data": image.data}}


def _encode_model_parts(parts: Iterable[MessagePart], *, sealed: bool) -> list[dict[str, object]]:
    """Return the model's parts. A signature belongs to the next part; thoughts stay behind."""
    found: list[dict[str, object]] = []
    seal, unsealed = "", sealed
    for part in parts:
        encoded: dict[str, object]
        match part:
            case Thinking("gemini"):
                seal = part.signature or seal
                continue
            case TextPart(words):
                encoded = {"text": words}
            case ToolCall():
                call = {"id": part.id, "name": part.name, "args": encode_arguments(part)}
                encoded = {"functionCall": call}
                seal, unsealed = seal or (_UNSEALED if unsealed else ""), False
            case ImagePart():
                encoded = _encode_attachment(part)
            case _:
                continue
        found.append({**encoded, "thoughtSignature": seal} if seal else encoded)
        seal = ""
    return [*found, {"text": "", "thoughtSignature": seal}] if seal else found


class _ReplyParser:
    """Parses a reply from its chunks; a whole response is parsed as one chunk."""

    def __init__(self, *, takes_any_end: bool = False) -> None:
        self._takes_any_end = takes_any_end
        self._begun = False
        self._id = ""
        self._thought: list[str] = []
        self._calls = 0
        self._stop = ""
        self._why = ""

    def parse_event(self, fields: Fields) -> Iterator[ReplyEvent]:
        if fields.get("error"):
            yield parse_error(fields)
            return
        if not self._begun:
            self._begun, self._id = True, get_text(fields, "responseId")
            yield ReplyStarted(self._id, get_text(fields, "modelVersion"))
        for candidate in get_objects(fields, "candidates")[:1]:  # never more than one is asked for
            for part in get_objects(get_object(candidate, "content"), "parts"):
                yield from self._on_part(part)
            self._stop = get_text(candidate, "finishReason") or self._stop
            self._why = get_text(candidate, "finishMessage") or self._why
        self._stop = get_text(get_object(fields, "promptFeedback"), "blockReason") or self._stop
        if get_object(fields, "usageMetadata"):
            yield UsageUpdated(parse_gemini_usage(fields["usageMetadata"]))

    def finish(self) -> Iterator[ReplyEvent]:
        """Yield the end if there was a finish reason; older models repeat it in each chunk."""
        if not self._stop:
            return
        yield from self._end_thinking()
        if self._stop in _UNUSABLE and not self._takes_any_end:
            yield SupplierError("unusable_reply", self._why or f"The model failed: {self._stop}")
        stop = _STOPS.get(self._stop, "refused")
        yield ReplyFinished("tool_calls" if self._calls and stop == "end" else stop)

    def _on_part(self, part: Fields) -> Iterator[ReplyEvent]:
        words, seal = get_text(part, "text"), get_text(part, "thoughtSignature")
        if part.get("thought") is True:
            if words:
                self._thought.append(words)
                yield ThinkingDelta(words)
            words = ""
        call = get_object(part, "functionCall")
        image = None if part.get("thought") is True else _parse_image(part)  # those are drafts
        if words or call or image or seal:
            yield from self._end_thinking(seal)
        if words:
            yield TextDelta(words)
        if image:
            yield ImageDone(image)
        if call:
            yield from self._on_function_call(call)

    def _end_thinking(self, seal: str = "") -> Iterator[ReplyEvent]:
        if self._thought or seal:
            yield ThinkingDone(Thinking("gemini", "".join(self._thought), seal))
            self._thought = []

    def _on_function_call(self, fields: Fields) -> Iterator[ReplyEvent]:
        index, name = self._calls, get_text(fields, "name")
        self._calls += 1
        given = msgspec.json.encode(get_object(fields, "args")).decode()
        made_up = blake2b(f"{self._id} {index} {given}".encode(), digest_size=9).hexdigest()
        call = ToolCall(get_text(fields, "id") or f"call_{made_up}", name, given)
        yield ToolCallStarted(index, call.id, name)
        yield ToolCallDelta(index, given)
        yield ToolCallDone(index, call)


def _parse_image(part: Fields) -> ImagePart | None:
    shown = get_object(part, "inlineData")
    kind, data = get_text(shown, "mimeType"), get_text(shown, "data")
    return ImagePart(kind, data) if data and kind.startswith("image/") else None
