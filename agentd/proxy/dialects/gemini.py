"""Google's Gemini, as its developer API speaks it."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from urllib.parse import quote

import msgspec

from agentd.errors import BadRequest
from agentd.proxy.dialects import reading
from agentd.proxy.dialects.conversation import (
    PDF,
    CallDelta,
    CallDone,
    CallStarted,
    Conversation,
    Document,
    Event,
    Finished,
    Image,
    Message,
    OneTool,
    Part,
    Started,
    StopReason,
    SupplierError,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolResult,
    UsageSeen,
)
from agentd.proxy.dialects.failure import explained
from agentd.proxy.dialects.reading import Fields, StreamReader, each, inner, text
from agentd.proxy.dialects.turns import arguments, pictures, result_text, settled
from agentd.proxy.price import from_gemini

LEVELS = ("minimal", "low", "medium", "high")
"""How hard a model may be told to think, beside a number of tokens."""

_UNSEALED = "skip_thought_signature_validator"
"""What stands for the seal of a call that another's model made: without one it is refused."""

_ONE_CALL = "Call at most one function at a time, and wait for its response."
"""There is no setting for it; who asked for it is also told the first call only."""

_BEFORE_SEALS = re.compile(r"gemini-[12]\b")

_STOPS: dict[str, StopReason] = {"STOP": "end", "MAX_TOKENS": "length"}
"""All others are a filter's, or nobody's."""

_UNUSABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")
"""The model asked for a tool in a way that nobody can follow; it may do better another time."""


def path(model: str, *, stream: bool = True) -> str:
    """As ``Dialect.path``: it names the model, and how the answer comes."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:{method}"


def headers(secret: str) -> dict[str, str]:
    """As ``Dialect.headers``."""
    key = {"x-goog-api-key": secret} if secret else {}
    return {"content-type": "application/json", **key}


def request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """As ``Dialect.request``; the address tells the model and whether to stream.

    Whom the caller asks for is not told: there is no place for it, and no reply depends on it.
    """
    sealed = _BEFORE_SEALS.search(model) is None
    body: dict[str, object] = {"contents": _contents(conversation.messages, sealed=sealed)}
    one_call = _ONE_CALL if conversation.tools and not conversation.parallel else ""
    if system := "\n\n".join(filter(None, (conversation.system, one_call))):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if conversation.tools:
        body |= _tools(conversation)
    settings = _settings(conversation)
    if settings:
        body["generationConfig"] = settings
    return msgspec.json.encode(body)


def reader() -> StreamReader:
    """As ``Dialect.reader``, for ``alt=sse``."""
    return StreamReader(_Reply())


def answer(body: bytes) -> list[Event]:
    """As ``Dialect.answer``."""
    return reading.answered(_Reply(), body)


def _tools(conversation: Conversation) -> dict[str, object]:
    declared = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": {"type": "object", **tool.schema},
        }
        for tool in conversation.tools
    ]
    chosen: dict[str, object]
    match conversation.tool_choice:
        case OneTool(name):
            chosen = {"mode": "ANY", "allowedFunctionNames": [name]}
        case "none":
            chosen = {"mode": "NONE"}
        case "required":
            chosen = {"mode": "ANY"}
        case _:
            chosen = (
                {"mode": "VALIDATED"} if any(tool.strict for tool in conversation.tools) else {}
            )
    told: dict[str, object] = {"tools": [{"functionDeclarations": declared}]}
    return {**told, "toolConfig": {"functionCallingConfig": chosen}} if chosen else told


def _settings(conversation: Conversation) -> dict[str, object]:
    if conversation.verbosity:
        raise BadRequest("Gemini's models know no verbosity")
    told: dict[str, object] = {
        "maxOutputTokens": conversation.max_output or None,
        "temperature": conversation.temperature,
        "topP": conversation.top_p,
        "topK": conversation.top_k,
        "stopSequences": list(conversation.stop) or None,
        "thinkingConfig": _thinking(conversation.effort),
    }
    if wanted := conversation.reply_format:
        told |= {"responseMimeType": "application/json", "responseJsonSchema": wanted.schema}
    return {name: value for name, value in told.items() if value is not None}


def _thinking(effort: str) -> dict[str, object] | None:
    """How hard to think; what is thought is shown where it was asked for."""
    if effort in ("", "none"):
        return {"thinkingBudget": 0} if effort else None
    if effort.isdecimal():
        return {"thinkingBudget": int(effort), "includeThoughts": True}
    if effort not in LEVELS:
        raise BadRequest(f"Gemini's models think {', '.join(LEVELS)}, not {effort!r}")
    return {"thinkingLevel": effort.upper(), "includeThoughts": True}


def _contents(messages: Iterable[Message], *, sealed: bool) -> list[dict[str, object]]:
    names: dict[str, str] = {}
    found: list[dict[str, object]] = []
    for message in settled(messages):
        if message.role == "user":
            parts = [said for part in message.parts for said in _said(part, names)]
        else:
            names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
            parts = _model(message.parts, sealed=sealed)
        if parts:
            found.append({"role": "user" if message.role == "user" else "model", "parts": parts})
    return found


def _said(part: Part, names: dict[str, str]) -> Iterator[dict[str, object]]:
    """What the user says; a tool's result names the tool, and its pictures come after it."""
    match part:
        case Text(words):
            yield {"text": words}
        case Image() | Document():
            yield _shown(part)
        case ToolResult():
            told = "error" if part.is_error else "output"
            words = result_text(ToolResult(part.id, part.content))
            result = {"id": part.id, "name": names[part.id], "response": {told: words}}
            yield {"functionResponse": result}
            shown = [piece for piece in part.content if not isinstance(piece, Text)]
            if shown:
                yield {"text": f"The {pictures(shown)} of the tool result {part.id}:"}
                yield from map(_shown, shown)


def _shown(shown: Image | Document) -> dict[str, object]:
    if isinstance(shown, Document):
        told = {"fileUri": shown.url} if shown.url else {"data": shown.data}
        return {"fileData" if shown.url else "inlineData": {"mimeType": PDF, **told}}
    image = shown
    kind = {"mimeType": image.media_type} if image.media_type else {}
    if image.url:
        return {"fileData": {**kind, "fileUri": image.url}}
    if not (kind and image.data):
        raise BadRequest("An image needs an address, or bytes and their type")
    return {"inlineData": {**kind, "data": image.data}}


def _model(parts: Iterable[Part], *, sealed: bool) -> list[dict[str, object]]:
    """What the model said. A seal belongs to what came next; what was thought stays behind it."""
    found: list[dict[str, object]] = []
    seal, unsealed = "", sealed
    for part in parts:
        said: dict[str, object]
        match part:
            case Thinking("gemini"):
                seal = part.signature or seal
                continue
            case Text(words):
                said = {"text": words}
            case ToolCall():
                call = {"id": part.id, "name": part.name, "args": arguments(part)}
                said = {"functionCall": call}
                seal, unsealed = seal or (_UNSEALED if unsealed else ""), False
            case _:
                continue
        found.append({**said, "thoughtSignature": seal} if seal else said)
        seal = ""
    return [*found, {"text": "", "thoughtSignature": seal}] if seal else found


class _Reply:
    """A reply by its pieces; a whole answer is read as one."""

    def __init__(self) -> None:
        self._begun = False
        self._id = ""
        self._thought: list[str] = []
        self._calls = 0
        self._stop = ""
        self._why = ""

    def told(self, fields: Fields) -> Iterator[Event]:
        if fields.get("error"):
            yield explained(fields)
            return
        if not self._begun:
            self._begun, self._id = True, text(fields, "responseId")
            yield Started(self._id, text(fields, "modelVersion"))
        for candidate in each(fields, "candidates")[:1]:  # never more than one is asked for
            for part in each(inner(candidate, "content"), "parts"):
                yield from self._part(part)
            self._stop = text(candidate, "finishReason") or self._stop
            self._why = text(candidate, "finishMessage") or self._why
        self._stop = text(inner(fields, "promptFeedback"), "blockReason") or self._stop
        if inner(fields, "usageMetadata"):
            yield UsageSeen(from_gemini(fields["usageMetadata"]))

    def ended(self) -> Iterator[Event]:
        """The finish reason tells that the reply is whole; older models tell it in each piece."""
        if not self._stop:
            return
        yield from self._thinking_done()
        if self._stop in _UNUSABLE:
            yield SupplierError("garbled", self._why or f"The model failed: {self._stop}")
        stop = _STOPS.get(self._stop, "refused")
        yield Finished("tool_calls" if self._calls and stop == "end" else stop)

    def _part(self, part: Fields) -> Iterator[Event]:
        words, seal = text(part, "text"), text(part, "thoughtSignature")
        if part.get("thought") is True:
            if words:
                self._thought.append(words)
                yield ThinkingDelta(words)
            words = ""
        call = inner(part, "functionCall")
        if words or call or seal:
            yield from self._thinking_done(seal)
        if words:
            yield TextDelta(words)
        if call:
            yield from self._called(call)

    def _thinking_done(self, seal: str = "") -> Iterator[Event]:
        if self._thought or seal:
            yield ThinkingDone(Thinking("gemini", "".join(self._thought), seal))
            self._thought = []

    def _called(self, fields: Fields) -> Iterator[Event]:
        index, name = self._calls, text(fields, "name")
        self._calls += 1
        given = msgspec.json.encode(inner(fields, "args")).decode()
        made_up = blake2b(f"{self._id} {index} {given}".encode(), digest_size=9).hexdigest()
        call = ToolCall(text(fields, "id") or f"call_{made_up}", name, given)
        yield CallStarted(index, call.id, name)
        yield CallDelta(index, given)
        yield CallDone(index, call)
