"""OpenAI's Responses API, with nothing stored at the supplier."""

from collections.abc import Container, Iterator

import msgspec

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    ContentPart,
    Conversation,
    DocumentPart,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    PageCited,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
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
from agentd.llm.dialects.custom_tools import ArgumentsWriter, unwrap_input, wrap_input
from agentd.llm.dialects.message_order import (
    HOW_TO_REMOVE,
    build_image_url,
    build_pdf_url,
    encode_arguments,
    encode_json_format,
    ensure_message,
    format_effort,
    format_user,
    get_file_name,
    leave_out_supplier_items,
    normalize_messages,
    render_result,
)
from agentd.llm.dialects.openai_chat.upstream import build_headers
from agentd.llm.dialects.openai_strict_mode import is_strict
from agentd.llm.dialects.stream_reader import (
    Fields,
    StreamReader,
    get_number,
    get_object,
    get_objects,
    get_text,
)
from agentd.llm.dialects.supplier_errors import parse_error
from agentd.llm.price import parse_responses_usage

__all__ = [
    "build_headers",
    "create_reader",
    "encode_request",
    "get_path",
    "parse_reasoning",
    "parse_response",
]

_ITEM_FIELDS = ("type", "id", "summary", "content", "encrypted_content")
"""The fields of a reasoning item that are sent back; the supplier refuses its ``status``."""

_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CALL_GROWS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_WEB_SEARCH: dict[str, object] = {"type": "web_search"}
_BETWEEN = "\n\n"
"""Stands between the paragraphs of a summary."""


def get_path(model: str, *, stream: bool = True) -> str:
    """Do as ``Dialect.get_path``."""
    return "/v1/responses"


def encode_request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """Do as ``Dialect.encode_request``; this dialect has no ``stop``, ``top_k`` or ``seed``."""
    conversation = ensure_message(conversation)
    _refuse_unsupported(conversation)
    items = [*_encode_items(conversation)]
    body: dict[str, object] = {"model": model, "input": items, "store": False}
    if conversation.system:
        body["instructions"] = conversation.system
    if stream:
        body["stream"] = True
    if conversation.tools or conversation.web_search:
        hosted: list[dict[str, object]] = [_WEB_SEARCH] if conversation.web_search else []
        body["tools"] = [*(_encode_tool(tool) for tool in conversation.tools), *hosted]
        match conversation.tool_choice:
            case NamedTool(name):
                freeform = {tool.name for tool in conversation.tools if tool.freeform}
                kind = "custom" if name in freeform else "function"
                body["tool_choice"] = {"type": kind, "name": name}
            case "none" | "required" as choice:
                body["tool_choice"] = choice
        body["parallel_tool_calls"] = conversation.parallel_tool_calls
    if conversation.max_output:
        body["max_output_tokens"] = conversation.max_output
    if conversation.reasoning_effort:  # a model that does not think refuses to be asked for either
        summary = {"summary": "auto"} if conversation.show_thinking else {}
        body["reasoning"] = {"effort": format_effort(conversation.reasoning_effort), **summary}
    if includes := [*_iter_includes(conversation)]:
        body["include"] = includes
    if conversation.temperature is not None:
        body["temperature"] = conversation.temperature
    if conversation.cache_key:
        body["prompt_cache_key"] = conversation.cache_key
    return msgspec.json.encode(body | _encode_options(conversation))


def _refuse_unsupported(conversation: Conversation) -> None:
    if conversation.stop_sequences:
        raise BadRequest("The Responses API does not support stop sequences")
    if conversation.top_k is not None:
        raise BadRequest(f"OpenAI's models do not support top_k; {HOW_TO_REMOVE}")
    if conversation.seed is not None:
        raise BadRequest(f"The Responses API does not support a seed; {HOW_TO_REMOVE}")


def _iter_includes(conversation: Conversation) -> Iterator[str]:
    if conversation.web_search:
        yield "web_search_call.action.sources"
    if conversation.reasoning_effort or conversation.keep_thinking:
        yield "reasoning.encrypted_content"


def _encode_tool(tool: ToolDefinition) -> dict[str, object]:
    form = tool.freeform
    if form is None:
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": is_strict(tool),
        }
    described = {"description": tool.description} if tool.description else {}
    shape: dict[str, object] = {"type": "text"}
    if form.definition:
        shape = {"type": "grammar", "syntax": form.syntax, "definition": form.definition}
    return {"type": "custom", "name": tool.name, **described, "format": shape}


def _encode_options(conversation: Conversation) -> dict[str, object]:
    """Return the rarely used fields."""
    found: dict[str, object] = {}
    if conversation.top_p is not None:
        found["top_p"] = conversation.top_p
    words: dict[str, object] = {}
    if conversation.response_format:
        words["format"] = _encode_format(conversation.response_format)
    if conversation.verbosity:
        words["verbosity"] = conversation.verbosity
    if words:
        found["text"] = words
    if conversation.user:
        found["user"] = format_user(conversation.user)
    return found


def _encode_format(wanted: JsonFormat) -> dict[str, object]:
    if wanted.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", **encode_json_format(wanted)}


def create_reader() -> StreamReader:
    """Do as ``Dialect.create_reader``."""
    return StreamReader(_ReplyParser())


def parse_response(body: bytes) -> list[ReplyEvent]:
    """Do as ``Dialect.parse_response``."""
    reply = _ReplyParser()
    response = stream_reader.decode_json(body)
    if response is None:
        return stream_reader.collect_events(stream_reader.parse_json_event(reply, body))
    if not (isinstance(response, dict) and "status" in response):
        return [parse_error(response)]
    return stream_reader.collect_events(
        reply.parse_event({"type": f"response.{response['status']}", "response": response})
    )


def parse_reasoning(item: Fields) -> Thinking:
    """Parse a reasoning item; ``sealed`` is what has to be sent back, if anything.

    Without its encrypted content an item can only be found by a supplier that stored it.
    """
    parts = get_objects(item, "summary") or get_objects(item, "content")
    shown = _BETWEEN.join(filter(None, (get_text(part, "text") for part in parts)))
    sealed = ""
    if get_text(item, "encrypted_content"):
        back = {name: item[name] for name in _ITEM_FIELDS if item.get(name) is not None}
        sealed = msgspec.json.encode({"summary": [], **back}).decode()
    return Thinking("openai-responses", shown, sealed=sealed)


def _encode_items(conversation: Conversation) -> Iterator[object]:
    """Yield the messages as items; a result must be of the same kind as its call."""
    freeform: set[str] = set()
    messages = conversation.messages
    if not conversation.web_search:
        messages = leave_out_supplier_items(messages)
    for message in normalize_messages(messages):
        yield from _encode_message(message, freeform)
        calls = (part for part in message.parts if isinstance(part, ToolCall))
        freeform = {call.id for call in calls if call.freeform}


def _encode_message(message: ModelMessage, freeform: Container[str]) -> Iterator[object]:
    """Yield one message as items; a user's content beside tool results is one item."""
    content: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case ToolResult(id=call):
                kind = "custom_tool_call" if call in freeform else "function_call"
                yield {
                    "type": f"{kind}_output",
                    "call_id": call,
                    "output": _encode_output(part),
                }
            case ToolCall():
                yield _encode_call(part)
            case Thinking("openai-responses") if part.sealed:
                yield msgspec.Raw(part.sealed.encode())
            case SupplierItem("openai-responses"):
                yield msgspec.Raw(part.data.encode())
            case TextPart(words) if message.role == "assistant":
                text_part = {"type": "output_text", "text": words}
                yield {"type": "message", "role": "assistant", "content": [text_part]}
            case TextPart() | ImagePart() | DocumentPart():
                content.append(_encode_content(part))
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _encode_call(call: ToolCall) -> dict[str, object]:
    named = {"call_id": call.id, "name": call.name}
    if call.freeform:
        return {"type": "custom_tool_call", **named, "input": unwrap_input(call.arguments)}
    return {"type": "function_call", **named, "arguments": bytes(encode_arguments(call)).decode()}


def _encode_content(part: ContentPart) -> dict[str, object]:
    match part:
        case ImagePart():
            return {"type": "input_image", "image_url": build_image_url(part)}
        case DocumentPart(url=url) if url:
            return {"type": "input_file", "file_url": url}
        case DocumentPart():
            named = {"filename": get_file_name(part), "file_data": build_pdf_url(part)}
            return {"type": "input_file", **named}
        case TextPart(words):
            return {"type": "input_text", "text": words}


def _encode_output(result: ToolResult) -> object:
    shown = [part for part in result.content if not isinstance(part, TextPart)]
    if not shown:
        return render_result(result)
    text = render_result(result)
    words: list[ContentPart] = [TextPart(text)] if text else []
    return [_encode_content(part) for part in [*words, *shown]]


class _ReplyParser:
    """Parses a reply from its events. An item's full text is used if its deltas did not arrive."""

    def __init__(self) -> None:
        self._begun = False
        self._calls: dict[int, int] = {}
        self._inputs: dict[int, ArgumentsWriter] = {}
        """The inputs of the freeform calls."""
        self._heard: set[int] = set()
        self._done: set[int] = set()
        self._refused = False

    def parse_event(self, fields: Fields) -> Iterator[ReplyEvent]:
        kind = get_text(fields, "type")
        at = get_number(fields, "output_index", 0)
        response = get_object(fields, "response")
        if response and not self._begun:
            self._begun = True
            yield ReplyStarted(get_text(response, "id"), get_text(response, "model"))
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._refused = self._refused or kind == "response.refusal.delta"
                yield from self._on_delta(at, TextDelta, get_text(fields, "delta"))
            case "response.reasoning_summary_part.added" if at in self._heard:
                yield ThinkingDelta(_BETWEEN)
            case "response.output_item.added":
                yield from self._start_call(at, get_object(fields, "item"))
            case _ if kind in _CALL_GROWS:
                yield from self._on_call_delta(at, get_text(fields, "delta"))
            case "response.output_text.annotation.added":
                yield from _read_citation(get_object(fields, "annotation"))
            case "response.output_item.done":
                yield from self._on_item_done(at, get_object(fields, "item"))
            case "response.completed" | "response.incomplete":
                yield from self._on_response_end(response)
            case "response.failed" | "response.cancelled":
                yield parse_error(response)
            case "error":
                yield parse_error(fields)
            case _ if kind in _THINKING:
                yield from self._on_delta(at, ThinkingDelta, get_text(fields, "delta"))

    def finish(self) -> Iterator[ReplyEvent]:
        """Yield nothing: only ``response.completed`` and its like end a reply."""
        yield from ()

    def _on_delta(
        self, at: int, made: type[TextDelta] | type[ThinkingDelta], piece: str
    ) -> Iterator[ReplyEvent]:
        if piece:
            self._heard.add(at)
            yield made(piece)

    def _start_call(self, at: int, item: Fields) -> Iterator[ReplyEvent]:
        kind = get_text(item, "type")
        if kind == "web_search_call" and at not in self._heard:
            self._heard.add(at)
            yield WebSearchStarted()
        if kind in ("function_call", "custom_tool_call") and at not in self._calls:
            self._calls[at] = len(self._calls)
            if kind == "custom_tool_call":
                self._inputs[at] = ArgumentsWriter()
            yield ToolCallStarted(
                self._calls[at], get_text(item, "call_id"), get_text(item, "name")
            )

    def _on_call_delta(self, at: int, piece: str) -> Iterator[ReplyEvent]:
        if piece and at in self._calls:
            self._heard.add(at)
            freeform = self._inputs.get(at)
            yield ToolCallDelta(self._calls[at], freeform.feed(piece) if freeform else piece)

    def _on_item_done(self, at: int, item: Fields) -> Iterator[ReplyEvent]:
        if at in self._done:
            return
        self._done.add(at)
        match get_text(item, "type"):
            case "message":
                for part in get_objects(item, "content"):
                    self._refused = self._refused or get_text(part, "type") == "refusal"
                    words = get_text(part, "text") or get_text(part, "refusal")
                    if words and at not in self._heard:
                        yield TextDelta(words)
                    for note in get_objects(part, "annotations"):
                        yield from _read_citation(note)
            case "web_search_call":
                yield from self._start_call(at, item)
                yield from _read_search(item)
            case "reasoning":
                yield from self._on_reasoning(at, item)
            case "function_call":
                yield from self._start_call(at, item)
                given = get_text(item, "arguments")
                if given and at not in self._heard:
                    yield ToolCallDelta(self._calls[at], given)
                call = ToolCall(get_text(item, "call_id"), get_text(item, "name"), given or "{}")
                yield ToolCallDone(self._calls[at], call)
            case "custom_tool_call":
                yield from self._end_freeform_call(at, item)

    def _end_freeform_call(self, at: int, item: Fields) -> Iterator[ReplyEvent]:
        """Yield a call with plain-text input as a call with a function's arguments."""
        yield from self._start_call(at, item)
        index, given = self._calls[at], get_text(item, "input")
        writer = self._inputs.setdefault(at, ArgumentsWriter())
        if given and at not in self._heard:
            yield ToolCallDelta(index, writer.feed(given))
        yield ToolCallDelta(index, writer.close())
        called = get_text(item, "call_id"), get_text(item, "name")
        yield ToolCallDone(index, ToolCall(*called, wrap_input(given), freeform=True))

    def _on_reasoning(self, at: int, item: Fields) -> Iterator[ReplyEvent]:
        found = parse_reasoning(item)
        if found.text and at not in self._heard:
            yield ThinkingDelta(found.text)
        if found.text or found.sealed:
            yield ThinkingDone(found)

    def _on_response_end(self, response: Fields) -> Iterator[ReplyEvent]:
        for at, item in enumerate(get_objects(response, "output")):
            yield from self._on_item_done(at, item)
        if get_object(response, "usage"):
            yield UsageUpdated(parse_responses_usage(response["usage"]))
        why = get_text(get_object(response, "incomplete_details"), "reason")
        if self._refused or why == "content_filter":
            yield ReplyFinished("refused")
        elif get_text(response, "status") == "incomplete":
            yield ReplyFinished("length")
        else:
            yield ReplyFinished("tool_calls" if self._calls else "end")


def _read_search(item: Fields) -> Iterator[ReplyEvent]:
    """Yield a web search, and what has to be sent back of it: all but the pages it found.

    The model may also open a page or look for words in one; a search may have several queries.
    """
    action = get_object(item, "action")
    kind = get_text(action, "type")
    queries = action.get("queries")
    words = [one for one in queries if isinstance(one, str)] if isinstance(queries, list) else []
    query = get_text(action, "query") or " · ".join(words) or get_text(action, "url")
    if kind == "find_in_page":
        query = f"{get_text(action, 'pattern')} in {get_text(action, 'url')}"
    sources = (WebSource(get_text(one, "url")) for one in get_objects(action, "sources"))
    failed = get_text(item, "status") == "failed"
    yield WebSearchDone(
        query,
        tuple(page for page in sources if page.url),
        "the supplier's search failed" if failed else "",
        kind in ("", "search") and not failed,
    )
    sent_back = {name: value for name, value in action.items() if name != "sources"}
    back = {name: item[name] for name in ("type", "id", "status") if item.get(name) is not None}
    data = msgspec.json.encode({**back, "action": sent_back}).decode()
    yield SupplierItemDone(SupplierItem("openai-responses", data))


def _read_citation(note: Fields) -> Iterator[ReplyEvent]:
    if get_text(note, "type") == "url_citation" and get_text(note, "url"):
        yield PageCited(WebSource(get_text(note, "url"), get_text(note, "title")))
