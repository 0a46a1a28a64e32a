"""Anthropic's messages, as spoken to suppliers."""

import re
from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    PDF,
    Conversation,
    DocumentPart,
    ImagePart,
    MessagePart,
    ModelMessage,
    NamedTool,
    PageCited,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopReason,
    SupplierItem,
    SupplierItemDone,
    TextDelta,
    TextPart,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    ToolDefinition,
    ToolResult,
    UsageUpdated,
    WebSearchDone,
    WebSearchStarted,
    WebSource,
)
from agentd.llm.dialects import stream_reader
from agentd.llm.dialects.anthropic.closed_schema import close_objects
from agentd.llm.dialects.custom_tools import describe_function
from agentd.llm.dialects.message_order import (
    HOW_TO_REMOVE,
    encode_arguments,
    ensure_message,
    leave_out_supplier_items,
    normalize_messages,
)
from agentd.llm.dialects.stream_reader import (
    Fields,
    StreamReader,
    get_number,
    get_object,
    get_objects,
    get_text,
)
from agentd.llm.dialects.supplier_errors import parse_error
from agentd.llm.price import parse_anthropic_usage

VERSION = "2023-06-01"

DEFAULT_MAX_OUTPUT = 8192
"""Tokens of a reply when the model's maximum is unknown; all current models allow it."""

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_ANY_OBJECT = (
    "Reply with exactly one JSON object and nothing else: "
    "no words before or after it, and no code fence around it."
)
"""The instruction for callers who want JSON of any form; a schema is enforced by the API."""

_MARK = {"type": "ephemeral"}
_WEB_SEARCH: dict[str, object] = {"type": "web_search_20250305", "name": "web_search"}
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_STOPS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}


def get_path(model: str, *, stream: bool = True) -> str:
    """Do as ``Dialect.get_path``."""
    return "/v1/messages"


def build_headers(secret: str) -> dict[str, str]:
    """Do as ``Dialect.build_headers``."""
    key = {"x-api-key": secret} if secret else {}
    return {"content-type": "application/json", "anthropic-version": VERSION, **key}


def encode_request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """Do as ``Dialect.encode_request``."""
    conversation = ensure_message(conversation)
    cached = bool(conversation.cache_key)
    body: dict[str, object] = {
        "model": model,
        "messages": _encode_messages(conversation, cached=cached),
    }
    body |= _encode_thinking(conversation) | _encode_options(conversation)
    if output := _encode_output(conversation):
        body["output_config"] = output
    if system := _build_system(conversation):
        words: dict[str, object] = {"type": "text", "text": system}
        body["system"] = [words | ({"cache_control": _MARK} if cached else {})]
    if stream:
        body["stream"] = True
    if conversation.tools or conversation.web_search:
        hosted: list[dict[str, object]] = [_WEB_SEARCH] if conversation.web_search else []
        body["tools"] = [*map(_encode_tool, conversation.tools), *hosted]
        body |= _encode_tool_choice(conversation)
    if conversation.stop_sequences:
        body["stop_sequences"] = list(conversation.stop_sequences)
    return msgspec.json.encode(body)


def _encode_tool(tool: ToolDefinition) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": describe_function(tool),
        "input_schema": {"type": "object", **tool.schema},
        **({"strict": True} if tool.strict else {}),
    }


def create_reader() -> StreamReader:
    """Do as ``Dialect.create_reader``."""
    return StreamReader(_ReplyParser())


def parse_response(body: bytes) -> list[ReplyEvent]:
    """Do as ``Dialect.parse_response``."""
    reply = _ReplyParser()
    message = stream_reader.decode_json(body)
    if message is None:
        return stream_reader.collect_events(stream_reader.parse_json_event(reply, body))
    if not (isinstance(message, dict) and message.get("type") == "message"):
        return [parse_error(message)]

    def iter_events() -> Iterator[ReplyEvent]:
        yield from reply.parse_event({"type": "message_start", "message": message})
        for at, block in enumerate(get_objects(message, "content")):
            yield from reply.parse_event(
                {"type": "content_block_start", "index": at, "content_block": block}
            )
            yield from reply.parse_event({"type": "content_block_stop", "index": at})
        yield from reply.parse_event({"type": "message_delta", "delta": message})
        yield from reply.parse_event({"type": "message_stop"})

    return stream_reader.collect_events(iter_events())


def _encode_thinking(conversation: Conversation) -> dict[str, object]:
    """Return the fields that share a reply's token budget, and the temperature.

    Anthropic accepts a temperature only without thinking.
    """
    most, effort = conversation.max_output, conversation.reasoning_effort
    thinks = effort not in ("", "none")
    if conversation.temperature not in (None, 1) and thinks:
        raise BadRequest(
            f"Anthropic's models accept a temperature only without thinking; {HOW_TO_REMOVE}"
        )
    if conversation.temperature is not None and not 0 <= conversation.temperature <= 1:
        raise BadRequest("Anthropic's temperature is between 0 and 1")
    display = {"display": "summarized"} if conversation.show_thinking else {}
    if effort.isdecimal():
        budget = int(effort)
        most = most or budget + DEFAULT_MAX_OUTPUT
        if budget >= most:
            raise BadRequest(f"{budget} tokens of thinking leave none of the {most} for the reply")
        enabled = {"type": "enabled", "budget_tokens": budget, **display}
        return {"max_tokens": most, "thinking": enabled}
    found: dict[str, object] = {"max_tokens": most or DEFAULT_MAX_OUTPUT}
    if thinks:
        found["thinking"] = {"type": "adaptive", **display}
    elif conversation.temperature is not None:
        found["temperature"] = conversation.temperature
    return found


def _build_system(conversation: Conversation) -> str:
    """Return the instructions; a reply of any JSON object can be asked for in words only."""
    wanted = conversation.response_format
    any_object = wanted is not None and wanted.schema is None
    texts = (conversation.system, _ANY_OBJECT if any_object else "")
    return "\n\n".join(text for text in texts if _says_something(text))


def _encode_output(conversation: Conversation) -> dict[str, object]:
    """Return the effort and the format of the reply."""
    found: dict[str, object] = {}
    effort, wanted = conversation.reasoning_effort, conversation.response_format
    if effort not in ("", "none") and not effort.isdecimal():
        found["effort"] = "low" if effort == "minimal" else effort
    if wanted:
        if wanted.schema is None:  # then it is described in words; see _build_system
            return found
        described = {"description": wanted.description} if wanted.description else {}
        schema = close_objects(described | wanted.schema)
        found["format"] = {"type": "json_schema", "schema": schema}
    return found


def _encode_options(conversation: Conversation) -> dict[str, object]:
    """Return the rarely used fields."""
    if conversation.verbosity:
        raise BadRequest("Anthropic's models do not support verbosity")
    if conversation.seed is not None:
        raise BadRequest(f"Anthropic's models do not support a seed; {HOW_TO_REMOVE}")
    found: dict[str, object] = {}
    if conversation.top_p is not None:
        found["top_p"] = conversation.top_p
    if conversation.top_k is not None:
        found["top_k"] = conversation.top_k
    if conversation.user:
        found["metadata"] = {"user_id": conversation.user}
    return found


def _encode_tool_choice(conversation: Conversation) -> dict[str, object]:
    chosen: dict[str, object]
    match conversation.tool_choice:
        case NamedTool(name):
            chosen = {"type": "tool", "name": name}
        case "none":
            return {"tool_choice": {"type": "none"}}
        case choice:
            chosen = {"type": "any" if choice == "required" else "auto"}
    if not conversation.parallel_tool_calls:
        chosen["disable_parallel_tool_use"] = True
    return {"tool_choice": chosen} if chosen != {"type": "auto"} else {}


def _encode_messages(conversation: Conversation, *, cached: bool) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    messages = conversation.messages
    if not conversation.web_search:
        messages = leave_out_supplier_items(messages)
    for message in _drop_open_searches(normalize_messages(messages)):
        if blocks := [block for part in message.parts for block in _encode_part(part)]:
            found.append({"role": message.role, "content": blocks})
    # The supplier looks back some twenty blocks from a mark for what it remembers: with the mark
    # of the request before still there, it finds it after many tool calls, too.
    prompts = [one for one in found if one["role"] == "user"] if cached else []
    for prompt in prompts[-2:]:
        content = prompt["content"]
        assert isinstance(content, list)
        content[-1]["cache_control"] = _MARK
    return found


def _drop_open_searches(messages: list[ModelMessage]) -> Iterator[ModelMessage]:
    """Yield the messages without searches that have no result; the last one may go on with them."""
    for message in messages:
        items = [part for part in message.parts if isinstance(part, SupplierItem)]
        if not items or message is messages[-1]:
            yield message
            continue
        blocks = {id(item): msgspec.json.decode(item.data) for item in items}
        results = {block.get("tool_use_id") for block in blocks.values()}
        yield ModelMessage(
            message.role,
            tuple(
                part
                for part in message.parts
                if id(part) not in blocks
                or "tool_use_id" in blocks[id(part)]
                or blocks[id(part)].get("id") in results
            ),
        )


def _encode_part(part: MessagePart) -> Iterator[dict[str, object]]:
    match part:
        case SupplierItem("anthropic"):
            yield msgspec.json.decode(part.data)
        case TextPart(words):
            if _says_something(words):
                yield {"type": "text", "text": words}
        case ImagePart():
            yield {"type": "image", "source": _encode_source(part)}
        case DocumentPart(data=data, url=url, name=name):
            titled = {"title": name} if name else {}
            bytes_ = {"type": "base64", "media_type": PDF, "data": data}
            source = {"type": "url", "url": url} if url else bytes_
            yield {"type": "document", "source": source, **titled}
        case ToolCall():
            given = encode_arguments(part)
            yield {
                "type": "tool_use",
                "id": _make_valid_id(part.id),
                "name": part.name,
                "input": given,
            }
        case ToolResult():
            content = [block for piece in part.content for block in _encode_part(piece)]
            result = {"type": "tool_result", "tool_use_id": _make_valid_id(part.id)}
            filled: dict[str, object] = {"content": content} if content else {}
            yield {**result, **filled, **({"is_error": True} if part.is_error else {})}
        case Thinking("anthropic") if part.sealed:
            yield {"type": "redacted_thinking", "data": part.sealed}
        case Thinking("anthropic"):
            yield {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _says_something(text: str) -> bool:
    """Return whether Anthropic accepts the text: not if it is empty or all whitespace.

    Other models write a blank line before their calls, and tools print one.
    """
    return bool(text.strip())


def _encode_source(image: ImagePart) -> dict[str, str]:
    if image.url:
        return {"type": "url", "url": image.url}
    if image.media_type not in PICTURES or not image.data:
        raise BadRequest(f"Anthropic accepts images as {', '.join(PICTURES)}")
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


def _make_valid_id(given: str) -> str:
    """Return the id in the characters that Anthropic allows; distinct ids stay distinct."""
    allowed = _FOREIGN.sub("_", given)
    if allowed == given and given:
        return given
    return f"{allowed}_{blake2b(given.encode(), digest_size=4).hexdigest()}"


class _Block:
    """A growing content block. ``index`` is a tool call's own, None for other blocks."""

    def __init__(self, fields: Fields, index: int | None) -> None:
        self.kind = get_text(fields, "type")
        self.fields = fields
        self.index = index
        self.pieces: list[str] = []
        self.signature = get_text(fields, "signature")


class _ReplyParser:
    """Parses a reply from its events."""

    def __init__(self) -> None:
        self._open: dict[int, _Block] = {}
        self._calls = 0
        self._queries: dict[str, str] = {}
        """What the web searches look for, by their ids."""
        self._counts: list[object] = []
        self._stop = ""

    def parse_event(self, fields: Fields) -> Iterator[ReplyEvent]:
        at = get_number(fields, "index", 0)
        match get_text(fields, "type"):
            case "message_start":
                message = get_object(fields, "message")
                yield ReplyStarted(get_text(message, "id"), get_text(message, "model"))
                yield from self._on_usage(get_object(message, "usage"))
            case "content_block_start":
                yield from self._on_block_end(at)
                yield from self._on_block_start(at, get_object(fields, "content_block"))
            case "content_block_delta" if at in self._open:
                yield from self._on_delta(self._open[at], get_object(fields, "delta"))
            case "content_block_stop":
                yield from self._on_block_end(at)
            case "message_delta":
                self._stop = get_text(get_object(fields, "delta"), "stop_reason") or self._stop
                yield from self._on_usage(get_object(fields, "usage"))
            case "message_stop":
                for still in list(self._open):
                    yield from self._on_block_end(still)
                yield ReplyFinished(self._get_stop_reason(), self._stop == "pause_turn")
            case "error":
                yield parse_error(fields)

    def finish(self) -> Iterator[ReplyEvent]:
        """Yield nothing: only ``message_stop`` ends a reply."""
        yield from ()

    def _on_usage(self, counts: Fields) -> Iterator[ReplyEvent]:
        if counts:
            self._counts.append(counts)
            yield UsageUpdated(parse_anthropic_usage(*self._counts))

    def _on_block_start(self, at: int, fields: Fields) -> Iterator[ReplyEvent]:
        is_call = get_text(fields, "type") == "tool_use"
        block = self._open[at] = _Block(fields, self._calls if is_call else None)
        if block.index is not None:
            self._calls += 1
            yield ToolCallStarted(block.index, get_text(fields, "id"), get_text(fields, "name"))
        if _is_search(fields):
            yield WebSearchStarted()
        yield from self._add_piece(block, get_text(fields, "text") or get_text(fields, "thinking"))
        for cited in get_objects(fields, "citations"):
            yield from _read_citation(cited)

    def _on_delta(self, block: _Block, delta: Fields) -> Iterator[ReplyEvent]:
        match get_text(delta, "type"):
            case "text_delta":
                yield from self._add_piece(block, get_text(delta, "text"))
            case "thinking_delta":
                yield from self._add_piece(block, get_text(delta, "thinking"))
            case "input_json_delta":
                yield from self._add_piece(block, get_text(delta, "partial_json"))
            case "citations_delta":
                yield from _read_citation(get_object(delta, "citation"))
            case "signature_delta":
                block.signature += get_text(delta, "signature")

    def _add_piece(self, block: _Block, piece: str) -> Iterator[ReplyEvent]:
        if not piece:
            return
        block.pieces.append(piece)
        if block.kind == "text":
            yield TextDelta(piece)
        elif block.kind == "thinking":
            yield ThinkingDelta(piece)
        elif block.index is not None:
            yield ToolCallDelta(block.index, piece)

    def _on_block_end(self, at: int) -> Iterator[ReplyEvent]:
        block = self._open.pop(at, None)
        if block is None:
            return
        if block.index is not None:
            if not block.pieces and get_object(block.fields, "input"):  # whole from its start
                yield from self._add_piece(
                    block, msgspec.json.encode(block.fields["input"]).decode()
                )
            given = "".join(block.pieces) or "{}"
            call = ToolCall(get_text(block.fields, "id"), get_text(block.fields, "name"), given)
            yield ToolCallDone(block.index, call)
        elif block.kind == "thinking":
            thought = "".join(block.pieces)
            yield ThinkingDone(Thinking("anthropic", thought, block.signature))
        elif _is_search(block.fields):
            yield self._end_search_request(block)
        elif block.kind == "web_search_tool_result":
            query = self._queries.get(get_text(block.fields, "tool_use_id"), "")
            yield _read_search_result(query, block.fields)
            back = {"type": block.kind, "tool_use_id": block.fields.get("tool_use_id")}
            yield _send_back({**back, "content": block.fields.get("content")})
        elif block.kind == "redacted_thinking":
            yield ThinkingDone(Thinking("anthropic", sealed=get_text(block.fields, "data")))

    def _end_search_request(self, block: _Block) -> SupplierItemDone:
        """Note what a web search looks for; its result is a block of its own."""
        given: object = block.fields.get("input")
        if block.pieces:
            try:
                given = msgspec.json.decode("".join(block.pieces))
            except msgspec.DecodeError:
                given = {}
        request: dict[str, object] = given if isinstance(given, dict) else {}
        number = get_text(block.fields, "id")
        self._queries[number] = get_text(request, "query")
        return _send_back(
            {"type": block.kind, "id": number, "name": _WEB_SEARCH["name"], "input": request}
        )

    def _get_stop_reason(self) -> StopReason:
        stop = _STOPS.get(self._stop, "end")
        return "tool_calls" if self._calls and stop == "end" else stop


def _is_search(block: Fields) -> bool:
    return (
        get_text(block, "type") == "server_tool_use"
        and get_text(block, "name") == _WEB_SEARCH["name"]
    )


def _read_search_result(query: str, block: Fields) -> WebSearchDone:
    pages = tuple(
        WebSource(get_text(one, "url"), get_text(one, "title"))
        for one in get_objects(block, "content")
        if get_text(one, "type") == "web_search_result"
    )
    problem = get_text(get_object(block, "content"), "error_code")
    return WebSearchDone(query, pages, problem, not problem)


def _read_citation(cited: Fields) -> Iterator[ReplyEvent]:
    if get_text(cited, "type") == "web_search_result_location" and get_text(cited, "url"):
        yield PageCited(WebSource(get_text(cited, "url"), get_text(cited, "title")))


def _send_back(block: Fields) -> SupplierItemDone:
    return SupplierItemDone(SupplierItem("anthropic", msgspec.json.encode(block).decode()))
