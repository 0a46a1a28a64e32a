"""OpenAI's Responses API, with nothing stored at the supplier."""

from collections.abc import Iterator

import msgspec

from agentd.errors import BadRequest
from agentd.proxy.dialects import reading
from agentd.proxy.dialects.conversation import (
    CallDelta,
    CallDone,
    CallStarted,
    Conversation,
    Document,
    Event,
    Finished,
    Image,
    JsonFormat,
    Message,
    OneTool,
    Shown,
    Started,
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
from agentd.proxy.dialects.openai_chat import headers
from agentd.proxy.dialects.reading import Fields, StreamReader, each, inner, number, text
from agentd.proxy.dialects.turns import (
    arguments,
    effort_word,
    file_name,
    format_fields,
    image_url,
    pdf_url,
    result_text,
    settled,
    user_name,
)
from agentd.proxy.price import from_openai_responses

__all__ = ["answer", "headers", "path", "reader", "request", "thinking"]

_ITEM_FIELDS = ("type", "id", "summary", "content", "encrypted_content")
"""What of a reasoning item goes back; its ``status`` is refused by the supplier."""

_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_BETWEEN = "\n\n"
"""Stands between the paragraphs of a summary."""


def path(model: str, *, stream: bool = True) -> str:
    """As ``Dialect.path``."""
    return "/v1/responses"


def request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """As ``Dialect.request``; there is no ``stop`` or ``top_k`` in this one."""
    if conversation.stop:
        raise BadRequest("The Responses API knows no stop sequences")
    if conversation.top_k is not None:
        raise BadRequest("OpenAI's models know no top_k")
    items = [item for message in settled(conversation.messages) for item in _items(message)]
    body: dict[str, object] = {"model": model, "input": items, "store": False}
    if conversation.system:
        body["instructions"] = conversation.system
    if stream:
        body["stream"] = True
    if conversation.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": tool.strict,
            }
            for tool in conversation.tools
        ]
        match conversation.tool_choice:
            case OneTool(name):
                body["tool_choice"] = {"type": "function", "name": name}
            case "none" | "required" as choice:
                body["tool_choice"] = choice
        body["parallel_tool_calls"] = conversation.parallel
    if conversation.max_output:
        body["max_output_tokens"] = conversation.max_output
    if conversation.effort:  # a model that does not think refuses to be asked for either
        body["reasoning"] = {"effort": effort_word(conversation.effort)}
        body["include"] = ["reasoning.encrypted_content"]
    if conversation.temperature is not None:
        body["temperature"] = conversation.temperature
    if conversation.cache_key:
        body["prompt_cache_key"] = conversation.cache_key
    return msgspec.json.encode(body | _wishes(conversation))


def _wishes(conversation: Conversation) -> dict[str, object]:
    """What is seldom asked for."""
    found: dict[str, object] = {}
    if conversation.top_p is not None:
        found["top_p"] = conversation.top_p
    words: dict[str, object] = {}
    if conversation.reply_format:
        words["format"] = _format(conversation.reply_format)
    if conversation.verbosity:
        words["verbosity"] = conversation.verbosity
    if words:
        found["text"] = words
    if conversation.user:
        found["user"] = user_name(conversation.user)
    return found


def _format(wanted: JsonFormat) -> dict[str, object]:
    if wanted.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", **format_fields(wanted)}


def reader() -> StreamReader:
    """As ``Dialect.reader``."""
    return StreamReader(_Reply())


def answer(body: bytes) -> list[Event]:
    """As ``Dialect.answer``."""
    reply = _Reply()
    try:
        response = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return reading.whole(reading.heard(reply, body))
    if not (isinstance(response, dict) and "status" in response):
        return [explained(response)]
    return reading.whole(
        reply.told({"type": f"response.{response['status']}", "response": response})
    )


def thinking(item: Fields) -> Thinking:
    """A reasoning item, as it has to go back; ``sealed`` is empty when it need not.

    Without its encrypted content an item can only be found by a supplier that stored it.
    """
    parts = each(item, "summary") or each(item, "content")
    shown = _BETWEEN.join(filter(None, (text(part, "text") for part in parts)))
    sealed = ""
    if text(item, "encrypted_content"):
        back = {name: item[name] for name in _ITEM_FIELDS if item.get(name) is not None}
        sealed = msgspec.json.encode({"summary": [], **back}).decode()
    return Thinking("openai-responses", shown, sealed=sealed)


def _items(message: Message) -> Iterator[object]:
    """The message as items; what the user says beside tool results is one item."""
    content: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case ToolResult():
                yield {"type": "function_call_output", "call_id": part.id, "output": _output(part)}
            case ToolCall():
                yield {
                    "type": "function_call",
                    "call_id": part.id,
                    "name": part.name,
                    "arguments": bytes(arguments(part)).decode(),
                }
            case Thinking("openai-responses") if part.sealed:
                yield msgspec.Raw(part.sealed.encode())
            case Text(words) if message.role == "assistant":
                said = {"type": "output_text", "text": words}
                yield {"type": "message", "role": "assistant", "content": [said]}
            case Text() | Image() | Document():
                content.append(_input(part))
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _input(part: Shown) -> dict[str, object]:
    match part:
        case Image():
            return {"type": "input_image", "image_url": image_url(part)}
        case Document(url=url) if url:
            return {"type": "input_file", "file_url": url}
        case Document():
            named = {"filename": file_name(part), "file_data": pdf_url(part)}
            return {"type": "input_file", **named}
        case Text(words):
            return {"type": "input_text", "text": words}


def _output(result: ToolResult) -> object:
    shown = [part for part in result.content if not isinstance(part, Text)]
    if not shown:
        return result_text(result)
    said = result_text(result)
    words: list[Shown] = [Text(said)] if said else []
    return [_input(part) for part in [*words, *shown]]


class _Reply:
    """A reply by its events. An item's own words count where its pieces did not come."""

    def __init__(self) -> None:
        self._begun = False
        self._calls: dict[int, int] = {}
        self._heard: set[int] = set()
        self._done: set[int] = set()
        self._refused = False

    def told(self, fields: Fields) -> Iterator[Event]:
        kind = text(fields, "type")
        at = number(fields, "output_index", 0)
        response = inner(fields, "response")
        if response and not self._begun:
            self._begun = True
            yield Started(text(response, "id"), text(response, "model"))
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._refused = self._refused or kind == "response.refusal.delta"
                yield from self._piece(at, TextDelta, text(fields, "delta"))
            case "response.reasoning_summary_part.added" if at in self._heard:
                yield ThinkingDelta(_BETWEEN)
            case "response.output_item.added":
                yield from self._call_started(at, inner(fields, "item"))
            case "response.function_call_arguments.delta" if at in self._calls:
                if piece := text(fields, "delta"):
                    self._heard.add(at)
                    yield CallDelta(self._calls[at], piece)
            case "response.output_item.done":
                yield from self._item(at, inner(fields, "item"))
            case "response.completed" | "response.incomplete":
                yield from self._whole(response)
            case "response.failed" | "response.cancelled":
                yield explained(response)
            case "error":
                yield explained(fields)
            case _ if kind in _THINKING:
                yield from self._piece(at, ThinkingDelta, text(fields, "delta"))

    def ended(self) -> Iterator[Event]:
        """Only ``response.completed`` and its like end a reply."""
        yield from ()

    def _piece(
        self, at: int, made: type[TextDelta] | type[ThinkingDelta], piece: str
    ) -> Iterator[Event]:
        if piece:
            self._heard.add(at)
            yield made(piece)

    def _call_started(self, at: int, item: Fields) -> Iterator[Event]:
        if text(item, "type") == "function_call" and at not in self._calls:
            self._calls[at] = len(self._calls)
            yield CallStarted(self._calls[at], text(item, "call_id"), text(item, "name"))

    def _item(self, at: int, item: Fields) -> Iterator[Event]:
        if at in self._done:
            return
        self._done.add(at)
        match text(item, "type"):
            case "message":
                for part in each(item, "content"):
                    self._refused = self._refused or text(part, "type") == "refusal"
                    words = text(part, "text") or text(part, "refusal")
                    if words and at not in self._heard:
                        yield TextDelta(words)
            case "reasoning":
                yield from self._reasoning(at, item)
            case "function_call":
                yield from self._call_started(at, item)
                given = text(item, "arguments")
                if given and at not in self._heard:
                    yield CallDelta(self._calls[at], given)
                call = ToolCall(text(item, "call_id"), text(item, "name"), given or "{}")
                yield CallDone(self._calls[at], call)

    def _reasoning(self, at: int, item: Fields) -> Iterator[Event]:
        found = thinking(item)
        if found.text and at not in self._heard:
            yield ThinkingDelta(found.text)
        if found.text or found.sealed:
            yield ThinkingDone(found)

    def _whole(self, response: Fields) -> Iterator[Event]:
        for at, item in enumerate(each(response, "output")):
            yield from self._item(at, item)
        if inner(response, "usage"):
            yield UsageSeen(from_openai_responses(response["usage"]))
        why = text(inner(response, "incomplete_details"), "reason")
        if self._refused or why == "content_filter":
            yield Finished("refused")
        elif text(response, "status") == "incomplete":
            yield Finished("length")
        else:
            yield Finished("tool_calls" if self._calls else "end")
