"""OpenAI's chat completions, as OpenAI and all who copied them speak it."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

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
from agentd.proxy.dialects.turns import (
    arguments,
    effort_word,
    file_name,
    format_fields,
    image_url,
    pdf_url,
    pictures,
    result_text,
    settled,
    user_name,
)
from agentd.proxy.price import from_openai_chat

_STOPS: dict[str, StopReason] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "refused",
}


def path(model: str, *, stream: bool = True) -> str:
    """As ``Dialect.path``."""
    return "/v1/chat/completions"


def headers(secret: str) -> dict[str, str]:
    """As ``Dialect.headers``; also OpenAI's for the Responses API."""
    key = {"authorization": f"Bearer {secret}"} if secret else {}
    return {"content-type": "application/json", **key}


def request(conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
    """As ``Dialect.request``; there is no ``top_k`` in this one."""
    if conversation.top_k is not None:
        raise BadRequest("OpenAI's models know no top_k")
    body: dict[str, object] = {"model": model, "messages": _messages(conversation)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if conversation.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    **({"strict": True} if tool.strict else {}),
                },
            }
            for tool in conversation.tools
        ]
        match conversation.tool_choice:
            case OneTool(name):
                body["tool_choice"] = {"type": "function", "function": {"name": name}}
            case "none" | "required" as choice:
                body["tool_choice"] = choice
        if not conversation.parallel:
            body["parallel_tool_calls"] = False
    if conversation.max_output:
        body["max_completion_tokens"] = conversation.max_output
    if conversation.effort:
        body["reasoning_effort"] = effort_word(conversation.effort)
    if conversation.temperature is not None:
        body["temperature"] = conversation.temperature
    if conversation.stop:
        body["stop"] = list(conversation.stop)
    return msgspec.json.encode(body | _wishes(conversation))


def _wishes(conversation: Conversation) -> dict[str, object]:
    """What is seldom asked for."""
    found: dict[str, object] = {}
    if conversation.top_p is not None:
        found["top_p"] = conversation.top_p
    if conversation.reply_format:
        found["response_format"] = _format(conversation.reply_format)
    if conversation.verbosity:
        found["verbosity"] = conversation.verbosity
    if conversation.user:
        found["user"] = user_name(conversation.user)
    return found


def _format(wanted: JsonFormat) -> dict[str, object]:
    if wanted.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": format_fields(wanted)}


def reader() -> StreamReader:
    """As ``Dialect.reader``."""
    return StreamReader(_Reply())


def answer(body: bytes) -> list[Event]:
    """As ``Dialect.answer``."""
    return reading.answered(_Reply(), body)


def _messages(conversation: Conversation) -> list[dict[str, object]]:
    messages = settled(conversation.messages)
    found: list[dict[str, object]] = []
    if conversation.system:
        found.append({"role": "system", "content": conversation.system})
    asked = [at for at, message in enumerate(messages) if _is_prompt(message)]
    for at, message in enumerate(messages):
        if message.role == "user":
            found += _user(message)
        else:
            # Suppliers want the thinking of this turn back, and refuse or ignore what is older.
            found.append(_assistant(message, thinking=not asked or at > asked[-1]))
    # What held another dialect's thinking only says nothing here.
    return [said for said in found if said["content"] is not None or "tool_calls" in said]


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not isinstance(message.parts[0], ToolResult)


def _user(message: Message) -> Iterator[dict[str, object]]:
    content: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case ToolResult():
                yield {"role": "tool", "tool_call_id": part.id, "content": result_text(part)}
                shown = [piece for piece in part.content if not isinstance(piece, Text)]
                if shown:  # a tool's message can hold none
                    content.append(_text(f"The {pictures(shown)} of the tool result {part.id}:"))
                    content += map(_shown, shown)
            case Text(words):
                content.append(_text(words))
            case Image() | Document():
                content.append(_shown(part))
    if len(content) == 1 and "text" in content[0]:  # plain text is understood by everybody
        yield {"role": "user", "content": content[0]["text"]}
    elif content:
        yield {"role": "user", "content": content}


def _text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def _shown(shown: Image | Document) -> dict[str, object]:
    if isinstance(shown, Image):
        return {"type": "image_url", "image_url": {"url": image_url(shown)}}
    if not shown.data:
        raise BadRequest("A linked document cannot be told to the model's supplier; send its bytes")
    return {"type": "file", "file": {"filename": file_name(shown), "file_data": pdf_url(shown)}}


def _assistant(message: Message, *, thinking: bool) -> dict[str, object]:
    parts = message.parts
    said = "".join(part.text for part in parts if isinstance(part, Text))
    found: dict[str, object] = {"role": "assistant", "content": said or None}
    ours = [part for part in parts if isinstance(part, Thinking) and part.dialect == "openai-chat"]
    if thinking and ours:
        found["reasoning_content"] = "".join(part.text for part in ours)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": bytes(arguments(call)).decode()},
            }
            for call in calls
        ]
    return found


class _Call:
    """A call that grows."""

    def __init__(self, index: int, id: str, name: str) -> None:  # noqa: A002
        self.index = index
        self.id = id
        self.name = name
        self.pieces: list[str] = []


class _Reply:
    """A reply by its chunks; a whole completion is read as one chunk."""

    def __init__(self) -> None:
        self._begun = False
        self._id = ""
        self._thought: list[str] = []
        self._calls: list[_Call] = []
        self._latest: dict[int, _Call] = {}
        """The last call that began under each of the supplier's numbers."""
        self._refused = False
        self._stop = ""

    def told(self, fields: Fields) -> Iterator[Event]:
        if fields.get("error"):
            yield explained(fields)
            return
        if not self._begun:
            self._begun = True
            self._id = f"{fields.get('id')} {fields.get('created')}"
            yield Started(text(fields, "id"), text(fields, "model"))
        for choice in each(fields, "choices")[:1]:  # never more than one is asked for
            yield from self._said(inner(choice, "delta") or inner(choice, "message"))
            self._stop = text(choice, "finish_reason") or self._stop
        if inner(fields, "usage"):  # wherever it stands: some send it before the last chunk
            yield UsageSeen(from_openai_chat(fields["usage"]))

    def ended(self) -> Iterator[Event]:
        """Without ``[DONE]`` too: the finish reason tells that the reply is whole."""
        if not self._stop:
            return
        yield from self._thinking_done()
        for index, call in enumerate(self._calls):
            yield CallDone(index, ToolCall(call.id, call.name, "".join(call.pieces) or "{}"))
        stop = _STOPS.get(self._stop, "end")
        if self._refused:
            stop = "refused"
        elif self._calls and stop == "end":  # some say "stop" although there are calls
            stop = "tool_calls"
        yield Finished(stop)

    def _said(self, delta: Fields) -> Iterator[Event]:
        thought = text(delta, "reasoning_content") or text(delta, "reasoning")
        if nested := each(delta, "content"):  # Mistral's way to tell thinking from text
            thought += "".join(
                text(piece, "text") for part in nested for piece in each(part, "thinking")
            )
            words = "".join(text(part, "text") for part in nested)
        else:
            words = text(delta, "content")
        refusal = text(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        if thought:
            self._thought.append(thought)
            yield ThinkingDelta(thought)
        if words or refusal:
            yield from self._thinking_done()
            yield TextDelta(words + refusal)
        for position, fragment in enumerate(each(delta, "tool_calls")):
            yield from self._called(fragment, position)

    def _thinking_done(self) -> Iterator[Event]:
        if self._thought:
            yield ThinkingDone(Thinking("openai-chat", "".join(self._thought)))
            self._thought = []

    def _called(self, fragment: Fields, position: int) -> Iterator[Event]:
        key = number(fragment, "index", position)
        function, said_id = inner(fragment, "function"), text(fragment, "id")
        name = text(function, "name")
        call = self._latest.get(key)
        # Some count every call as the first: then only a new id, with a name, tells them apart.
        if call is None or (said_id and name and said_id != call.id):
            yield from self._thinking_done()
            call = _Call(len(self._calls), said_id or self._made_up_id(), name)
            self._latest[key] = call
            self._calls.append(call)
            yield CallStarted(call.index, call.id, name)
        piece: Any = function.get("arguments")
        if isinstance(piece, dict):  # against the rule, but clear
            piece = msgspec.json.encode(piece).decode()
        if isinstance(piece, str) and piece:
            call.pieces.append(piece)
            yield CallDelta(call.index, piece)

    def _made_up_id(self) -> str:
        """For suppliers that give none; the results of all turns must be told apart."""
        source = f"{self._id} {len(self._calls)}".encode()
        return f"call_{blake2b(source, digest_size=9).hexdigest()}"
