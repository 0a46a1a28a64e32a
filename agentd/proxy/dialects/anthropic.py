"""Anthropic's messages."""

import re
from collections.abc import Iterator
from hashlib import blake2b

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
    OneTool,
    Part,
    Started,
    StopReason,
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
from agentd.proxy.dialects.reading import Fields, StreamReader, each, inner, number, text
from agentd.proxy.dialects.turns import arguments, settled
from agentd.proxy.price import from_anthropic

VERSION = "2023-06-01"

DEFAULT_MAX_OUTPUT = 8192
"""Tokens of a reply where nobody knows the model's own maximum; what all current ones can."""

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_ANY_OBJECT = (
    "Reply with exactly one JSON object and nothing else: "
    "no words before or after it, and no code fence around it."
)
"""For callers who want JSON without saying of what form; with a schema it is enforced."""

_MARK = {"type": "ephemeral"}
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_STOPS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}


def path(model: str, *, stream: bool = True) -> str:
    """As ``Dialect.path``."""
    return "/v1/messages"


def headers(secret: str) -> dict[str, str]:
    """As ``Dialect.headers``."""
    key = {"x-api-key": secret} if secret else {}
    return {"content-type": "application/json", "anthropic-version": VERSION, **key}


def request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """As ``Dialect.request``."""
    cached = bool(conversation.cache_key)
    body: dict[str, object] = {"model": model, "messages": _messages(conversation, cached=cached)}
    body |= _thinking(conversation) | _wishes(conversation)
    if output := _output(conversation):
        body["output_config"] = output
    if system := _system(conversation):
        words: dict[str, object] = {"type": "text", "text": system}
        body["system"] = [words | ({"cache_control": _MARK} if cached else {})]
    if stream:
        body["stream"] = True
    if conversation.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": {"type": "object", **tool.schema},
                **({"strict": True} if tool.strict else {}),
            }
            for tool in conversation.tools
        ]
        body |= _choice(conversation)
    if conversation.stop:
        body["stop_sequences"] = list(conversation.stop)
    return msgspec.json.encode(body)


def reader() -> StreamReader:
    """As ``Dialect.reader``."""
    return StreamReader(_Reply())


def answer(body: bytes) -> list[Event]:
    """As ``Dialect.answer``."""
    reply = _Reply()
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return reading.whole(reading.heard(reply, body))
    if not (isinstance(message, dict) and message.get("type") == "message"):
        return [explained(message)]

    def told() -> Iterator[Event]:
        yield from reply.told({"type": "message_start", "message": message})
        for at, block in enumerate(each(message, "content")):
            yield from reply.told(
                {"type": "content_block_start", "index": at, "content_block": block}
            )
            yield from reply.told({"type": "content_block_stop", "index": at})
        yield from reply.told({"type": "message_delta", "delta": message})
        yield from reply.told({"type": "message_stop"})

    return reading.whole(told())


def _thinking(conversation: Conversation) -> dict[str, object]:
    """The fields that share the budget of a reply, and the temperature, which thinking excludes."""
    most, effort = conversation.max_output, conversation.effort
    thinks = effort not in ("", "none")
    if conversation.temperature not in (None, 1) and thinks:
        raise BadRequest("Anthropic's models take a temperature only when they do not think")
    if conversation.temperature is not None and not 0 <= conversation.temperature <= 1:
        raise BadRequest("Anthropic's temperature is between 0 and 1")
    if effort.isdecimal():
        budget = int(effort)
        most = most or budget + DEFAULT_MAX_OUTPUT
        if budget >= most:
            raise BadRequest(f"{budget} tokens of thinking leave none of {most} for the reply")
        enabled = {"type": "enabled", "budget_tokens": budget}
        return {"max_tokens": most, "thinking": enabled}
    found: dict[str, object] = {"max_tokens": most or DEFAULT_MAX_OUTPUT}
    if thinks:
        found["thinking"] = {"type": "adaptive"}
    elif conversation.temperature is not None:
        found["temperature"] = conversation.temperature
    return found


def _system(conversation: Conversation) -> str:
    """The instructions; that any JSON object will do can be told in words only."""
    wanted = conversation.reply_format
    any_object = wanted is not None and wanted.schema is None
    return "\n\n".join(filter(None, (conversation.system, _ANY_OBJECT if any_object else "")))


def _output(conversation: Conversation) -> dict[str, object]:
    """How hard to think, and in what form to reply."""
    found: dict[str, object] = {}
    effort, wanted = conversation.effort, conversation.reply_format
    if effort not in ("", "none") and not effort.isdecimal():
        found["effort"] = "low" if effort == "minimal" else effort
    if wanted:
        if wanted.schema is None:  # then it is told in words; see _system
            return found
        described = {"description": wanted.description} if wanted.description else {}
        found["format"] = {"type": "json_schema", "schema": described | wanted.schema}
    return found


def _wishes(conversation: Conversation) -> dict[str, object]:
    """What is seldom asked for."""
    if conversation.verbosity:
        raise BadRequest("Anthropic's models know no verbosity")
    found: dict[str, object] = {}
    if conversation.top_p is not None:
        found["top_p"] = conversation.top_p
    if conversation.top_k is not None:
        found["top_k"] = conversation.top_k
    if conversation.user:
        found["metadata"] = {"user_id": conversation.user}
    return found


def _choice(conversation: Conversation) -> dict[str, object]:
    chosen: dict[str, object]
    match conversation.tool_choice:
        case OneTool(name):
            chosen = {"type": "tool", "name": name}
        case "none":
            return {"tool_choice": {"type": "none"}}
        case choice:
            chosen = {"type": "any" if choice == "required" else "auto"}
    if not conversation.parallel:
        chosen["disable_parallel_tool_use"] = True
    return {"tool_choice": chosen} if chosen != {"type": "auto"} else {}


def _messages(conversation: Conversation, *, cached: bool) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for message in settled(conversation.messages):
        if blocks := [block for part in message.parts for block in _blocks(part)]:
            found.append({"role": message.role, "content": blocks})
    # The supplier looks back some twenty blocks from a mark for what it remembers: with the mark
    # of the request before still there, it finds it after many tool calls, too.
    prompts = [said for said in found if said["role"] == "user"] if cached else []
    for prompt in prompts[-2:]:
        content = prompt["content"]
        assert isinstance(content, list)
        content[-1]["cache_control"] = _MARK
    return found


def _blocks(part: Part) -> Iterator[dict[str, object]]:
    match part:
        case Text(words):
            yield {"type": "text", "text": words}
        case Image():
            yield {"type": "image", "source": _source(part)}
        case Document(data=data, url=url, name=name):
            titled = {"title": name} if name else {}
            bytes_ = {"type": "base64", "media_type": PDF, "data": data}
            source = {"type": "url", "url": url} if url else bytes_
            yield {"type": "document", "source": source, **titled}
        case ToolCall():
            given = arguments(part)
            yield {"type": "tool_use", "id": _id(part.id), "name": part.name, "input": given}
        case ToolResult():
            content = [
                block
                for piece in part.content
                if not (isinstance(piece, Text) and not piece.text)
                for block in _blocks(piece)
            ]
            result = {"type": "tool_result", "tool_use_id": _id(part.id)}
            told: dict[str, object] = {"content": content} if content else {}
            yield {**result, **told, **({"is_error": True} if part.is_error else {})}
        case Thinking("anthropic") if part.sealed:
            yield {"type": "redacted_thinking", "data": part.sealed}
        case Thinking("anthropic"):
            yield {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _source(image: Image) -> dict[str, str]:
    if image.url:
        return {"type": "url", "url": image.url}
    if image.media_type not in PICTURES or not image.data:
        raise BadRequest(f"Anthropic takes pictures as {', '.join(PICTURES)}")
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


def _id(given: str) -> str:
    """The id in the letters that Anthropic allows; two that differ stay different."""
    allowed = _FOREIGN.sub("_", given)
    if allowed == given and given:
        return given
    return f"{allowed}_{blake2b(given.encode(), digest_size=4).hexdigest()}"


class _Block:
    """A content block that grows. ``index`` is a call's own, None for what is no call."""

    def __init__(self, fields: Fields, index: int | None) -> None:
        self.kind = text(fields, "type")
        self.fields = fields
        self.index = index
        self.pieces: list[str] = []
        self.signature = text(fields, "signature")


class _Reply:
    """A reply by its events."""

    def __init__(self) -> None:
        self._open: dict[int, _Block] = {}
        self._calls = 0
        self._counts: list[object] = []
        self._stop = ""

    def told(self, fields: Fields) -> Iterator[Event]:
        at = number(fields, "index", 0)
        match text(fields, "type"):
            case "message_start":
                message = inner(fields, "message")
                yield Started(text(message, "id"), text(message, "model"))
                yield from self._counted(inner(message, "usage"))
            case "content_block_start":
                yield from self._closed(at)
                yield from self._opened(at, inner(fields, "content_block"))
            case "content_block_delta" if at in self._open:
                yield from self._grown(self._open[at], inner(fields, "delta"))
            case "content_block_stop":
                yield from self._closed(at)
            case "message_delta":
                self._stop = text(inner(fields, "delta"), "stop_reason") or self._stop
                yield from self._counted(inner(fields, "usage"))
            case "message_stop":
                for still in list(self._open):
                    yield from self._closed(still)
                yield Finished(self._reason())
            case "error":
                yield explained(fields)

    def ended(self) -> Iterator[Event]:
        """Only ``message_stop`` ends a reply."""
        yield from ()

    def _counted(self, counts: Fields) -> Iterator[Event]:
        if counts:
            self._counts.append(counts)
            yield UsageSeen(from_anthropic(*self._counts))

    def _opened(self, at: int, fields: Fields) -> Iterator[Event]:
        is_call = text(fields, "type") == "tool_use"
        block = self._open[at] = _Block(fields, self._calls if is_call else None)
        if block.index is not None:
            self._calls += 1
            yield CallStarted(block.index, text(fields, "id"), text(fields, "name"))
        yield from self._piece(block, text(fields, "text") or text(fields, "thinking"))

    def _grown(self, block: _Block, delta: Fields) -> Iterator[Event]:
        match text(delta, "type"):
            case "text_delta":
                yield from self._piece(block, text(delta, "text"))
            case "thinking_delta":
                yield from self._piece(block, text(delta, "thinking"))
            case "input_json_delta":
                yield from self._piece(block, text(delta, "partial_json"))
            case "signature_delta":
                block.signature += text(delta, "signature")

    def _piece(self, block: _Block, piece: str) -> Iterator[Event]:
        if not piece:
            return
        block.pieces.append(piece)
        if block.kind == "text":
            yield TextDelta(piece)
        elif block.kind == "thinking":
            yield ThinkingDelta(piece)
        elif block.index is not None:
            yield CallDelta(block.index, piece)

    def _closed(self, at: int) -> Iterator[Event]:
        block = self._open.pop(at, None)
        if block is None:
            return
        if block.index is not None:
            if not block.pieces and inner(block.fields, "input"):  # whole from its start
                yield from self._piece(block, msgspec.json.encode(block.fields["input"]).decode())
            given = "".join(block.pieces) or "{}"
            call = ToolCall(text(block.fields, "id"), text(block.fields, "name"), given)
            yield CallDone(block.index, call)
        elif block.kind == "thinking":
            said = "".join(block.pieces)
            yield ThinkingDone(Thinking("anthropic", said, block.signature))
        elif block.kind == "redacted_thinking":
            yield ThinkingDone(Thinking("anthropic", sealed=text(block.fields, "data")))

    def _reason(self) -> StopReason:
        stop = _STOPS.get(self._stop, "end")
        return "tool_calls" if self._calls and stop == "end" else stop
