"""OpenAI's chat completions, as OpenAI and compatible suppliers speak it."""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    Conversation,
    DocumentPart,
    ImageDone,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopReason,
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
from agentd.llm.dialects.message_order import (
    HOW_TO_REMOVE,
    build_image_url,
    build_pdf_url,
    encode_arguments,
    encode_json_format,
    format_effort,
    format_user,
    get_file_name,
    name_attachments,
    normalize_messages,
    render_result,
)
from agentd.llm.dialects.openai_strict_mode import is_strict
from agentd.llm.dialects.request_parsing import parse_image_url
from agentd.llm.dialects.stream_reader import (
    Fields,
    StreamReader,
    get_number,
    get_object,
    get_objects,
    get_text,
)
from agentd.llm.dialects.supplier_errors import parse_error
from agentd.llm.price import parse_chat_usage

_STOPS: dict[str, StopReason] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "refused",
}


def get_path(model: str, *, stream: bool = True) -> str:
    """Do as ``Dialect.get_path``."""
    return "/v1/chat/completions"


def build_headers(secret: str) -> dict[str, str]:
    """Do as ``Dialect.build_headers``; also used for the Responses API."""
    key = {"authorization": f"Bearer {secret}"} if secret else {}
    return {"content-type": "application/json", **key}


def encode_request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """Do as ``Dialect.encode_request``; this dialect has no ``top_k``."""
    if conversation.top_k is not None:
        raise BadRequest(f"OpenAI's models do not support top_k; {HOW_TO_REMOVE}")
    body: dict[str, object] = {"model": model, "messages": _encode_messages(conversation)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if conversation.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": describe_function(tool),
                    "parameters": tool.schema,
                    **({"strict": True} if is_strict(tool) else {}),
                },
            }
            for tool in conversation.tools
        ]
        match conversation.tool_choice:
            case NamedTool(name):
                body["tool_choice"] = {"type": "function", "function": {"name": name}}
            case "none" | "required" as choice:
                body["tool_choice"] = choice
        if not conversation.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if conversation.max_output:
        body["max_completion_tokens"] = conversation.max_output
    if conversation.reasoning_effort:
        body["reasoning_effort"] = format_effort(conversation.reasoning_effort)
    if conversation.temperature is not None:
        body["temperature"] = conversation.temperature
    if conversation.stop_sequences:
        body["stop"] = list(conversation.stop_sequences)
    return msgspec.json.encode(body | _encode_options(conversation))


def _encode_options(conversation: Conversation) -> dict[str, object]:
    """Return the rarely used fields."""
    found: dict[str, object] = {}
    if conversation.top_p is not None:
        found["top_p"] = conversation.top_p
    if conversation.seed is not None:
        found["seed"] = conversation.seed
    if conversation.response_format:
        found["response_format"] = _encode_format(conversation.response_format)
    if conversation.verbosity:
        found["verbosity"] = conversation.verbosity
    if conversation.user:
        found["user"] = format_user(conversation.user)
    return found


def _encode_format(wanted: JsonFormat) -> dict[str, object]:
    if wanted.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": encode_json_format(wanted)}


def create_reader() -> StreamReader:
    """Do as ``Dialect.create_reader``."""
    return StreamReader(_ReplyParser())


def parse_response(body: bytes) -> list[ReplyEvent]:
    """Do as ``Dialect.parse_response``."""
    return stream_reader.parse_single_event(_ReplyParser(), body)


def _encode_messages(conversation: Conversation) -> list[dict[str, object]]:
    messages = normalize_messages(conversation.messages)
    found: list[dict[str, object]] = []
    if conversation.system:
        found.append({"role": "system", "content": conversation.system})
    asked = [at for at, message in enumerate(messages) if _is_prompt(message)]
    for at, message in enumerate(messages):
        if message.role == "user":
            found += _encode_user_message(message)
        else:
            # Suppliers want the thinking of this turn back, and refuse or ignore what is older.
            found.append(_encode_assistant_message(message, thinking=not asked or at > asked[-1]))
    # What held another dialect's thinking only says nothing here.
    return [one for one in found if one["content"] is not None or "tool_calls" in one]


def _is_prompt(message: ModelMessage) -> bool:
    return message.role == "user" and not isinstance(message.parts[0], ToolResult)


def _encode_user_message(message: ModelMessage) -> Iterator[dict[str, object]]:
    content: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case ToolResult():
                yield {"role": "tool", "tool_call_id": part.id, "content": render_result(part)}
                shown = [piece for piece in part.content if not isinstance(piece, TextPart)]
                if shown:  # a tool's message can hold none
                    content.append(
                        _encode_text(f"The {name_attachments(shown)} of the tool result {part.id}:")
                    )
                    content += map(_encode_attachment, shown)
            case TextPart(words):
                content.append(_encode_text(words))
            case ImagePart() | DocumentPart():
                content.append(_encode_attachment(part))
    if len(content) == 1 and "text" in content[0]:  # plain text is understood by everybody
        yield {"role": "user", "content": content[0]["text"]}
    elif content:
        yield {"role": "user", "content": content}


def _encode_text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def _encode_attachment(shown: ImagePart | DocumentPart) -> dict[str, object]:
    if isinstance(shown, ImagePart):
        return {"type": "image_url", "image_url": {"url": build_image_url(shown)}}
    if not shown.data:
        raise BadRequest("The model's supplier does not accept a linked document; send its bytes")
    return {
        "type": "file",
        "file": {"filename": get_file_name(shown), "file_data": build_pdf_url(shown)},
    }


def _encode_assistant_message(message: ModelMessage, *, thinking: bool) -> dict[str, object]:
    parts = message.parts
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    found: dict[str, object] = {"role": "assistant", "content": text or None}
    ours = [part for part in parts if isinstance(part, Thinking) and part.dialect == "openai-chat"]
    if thinking and ours:
        found["reasoning_content"] = "".join(part.text for part in ours)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": bytes(encode_arguments(call)).decode(),
                },
            }
            for call in calls
        ]
    return found


class _Call:
    """A growing tool call."""

    def __init__(self, index: int, id: str, name: str) -> None:  # noqa: A002
        self.index = index
        self.id = id
        self.name = name
        self.pieces: list[str] = []


class _ReplyParser:
    """Parses a reply from its chunks; a whole completion is parsed as one chunk."""

    def __init__(self) -> None:
        self._begun = False
        self._id = ""
        self._thought: list[str] = []
        self._calls: list[_Call] = []
        self._latest: dict[int, _Call] = {}
        """The last call that began under each of the supplier's numbers."""
        self._refused = False
        self._stop = ""

    def parse_event(self, fields: Fields) -> Iterator[ReplyEvent]:
        if fields.get("error"):
            yield parse_error(fields)
            return
        if not self._begun:
            self._begun = True
            self._id = f"{fields.get('id')} {fields.get('created')}"
            yield ReplyStarted(get_text(fields, "id"), get_text(fields, "model"))
        for choice in get_objects(fields, "choices")[:1]:  # never more than one is asked for
            yield from self._on_delta(get_object(choice, "delta") or get_object(choice, "message"))
            self._stop = get_text(choice, "finish_reason") or self._stop
        if get_object(fields, "usage"):  # wherever it stands: some send it before the last chunk
            yield UsageUpdated(parse_chat_usage(fields["usage"]))

    def finish(self) -> Iterator[ReplyEvent]:
        """Yield the end, also without ``[DONE]``: a finish reason shows that the reply is whole."""
        if not self._stop:
            return
        yield from self._end_thinking()
        for index, call in enumerate(self._calls):
            yield ToolCallDone(index, ToolCall(call.id, call.name, "".join(call.pieces) or "{}"))
        stop = _STOPS.get(self._stop, "end")
        if self._refused:
            stop = "refused"
        elif self._calls and stop == "end":  # some say "stop" although there are calls
            stop = "tool_calls"
        yield ReplyFinished(stop)

    def _on_delta(self, delta: Fields) -> Iterator[ReplyEvent]:
        thought = get_text(delta, "reasoning_content") or get_text(delta, "reasoning")
        if nested := get_objects(delta, "content"):  # Mistral's way to separate thinking from text
            thought += "".join(
                get_text(piece, "text")
                for part in nested
                for piece in get_objects(part, "thinking")
            )
            words = "".join(get_text(part, "text") for part in nested)
        else:
            words = get_text(delta, "content")
        refusal = get_text(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        if thought:
            self._thought.append(thought)
            yield ThinkingDelta(thought)
        if words or refusal:
            yield from self._end_thinking()
            yield TextDelta(words + refusal)
        for image in get_objects(delta, "images"):  # OpenRouter's and LiteLLM's way
            yield from self._end_thinking()
            yield _parse_image(get_text(get_object(image, "image_url"), "url"))
        for position, fragment in enumerate(get_objects(delta, "tool_calls")):
            yield from self._on_tool_call(fragment, position)

    def _end_thinking(self) -> Iterator[ReplyEvent]:
        if self._thought:
            yield ThinkingDone(Thinking("openai-chat", "".join(self._thought)))
            self._thought = []

    def _on_tool_call(self, fragment: Fields, position: int) -> Iterator[ReplyEvent]:
        key = get_number(fragment, "index", position)
        function, said_id = get_object(fragment, "function"), get_text(fragment, "id")
        name = get_text(function, "name")
        call = self._latest.get(key)
        # Some count every call as the first: then only a new id, with a name, distinguishes them.
        if call is None or (said_id and name and said_id != call.id):
            yield from self._end_thinking()
            call = _Call(len(self._calls), said_id or self._make_call_id(), name)
            self._latest[key] = call
            self._calls.append(call)
            yield ToolCallStarted(call.index, call.id, name)
        piece: Any = function.get("arguments")
        if isinstance(piece, dict):  # against the rule, but clear
            piece = msgspec.json.encode(piece).decode()
        if isinstance(piece, str) and piece:
            call.pieces.append(piece)
            yield ToolCallDelta(call.index, piece)

    def _make_call_id(self) -> str:
        """Return an id for suppliers that give none; it is unique across turns."""
        source = f"{self._id} {len(self._calls)}".encode()
        return f"call_{blake2b(source, digest_size=9).hexdigest()}"


def _parse_image(url: str) -> ReplyEvent:
    """Return the image of a ``data:`` URL; where else it is, is said as text."""
    with suppress(BadRequest):
        image = parse_image_url(url)
        if image.data:
            return ImageDone(image)
    return TextDelta(f"![image]({url})")
