"""What every dialect demands of the messages of a request, done once for all."""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec import Raw

from agentd.errors import BadRequest
from agentd.proxy.dialects.conversation import (
    PDF,
    Document,
    Image,
    JsonFormat,
    Message,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_ALLOWED = {"user": (Text, Image, Document, ToolResult), "assistant": (Text, Thinking, ToolCall)}


def settled(messages: Iterable[Message]) -> list[Message]:
    """The messages as suppliers take them.

    Neighbours of one role are one message, tool results stand first in theirs, empty text and
    empty messages are gone. Raises ``BadRequest`` where a tool call has not exactly one result,
    in the very next message, or where a part is not the role's to say.
    """
    merged: list[tuple[Role, list[Part]]] = []
    for message in messages:
        parts = [part for part in message.parts if not (isinstance(part, Text) and not part.text)]
        for part in parts:
            if not isinstance(part, _ALLOWED[message.role]):
                raise BadRequest(f"A {type(part).__name__} is not the {message.role}'s to say")
        if merged and merged[-1][0] == message.role:
            merged[-1][1].extend(parts)
        elif parts:
            merged.append((message.role, parts))
    for _, parts in merged:
        parts.sort(key=lambda part: not isinstance(part, ToolResult))
    _check_results(merged)
    return [Message(role, tuple(parts)) for role, parts in merged]


def _check_results(turns: list[tuple[Role, list[Part]]]) -> None:
    open_calls: Counter[str] = Counter()  # two calls of one turn may have the same id
    for _, parts in [*turns, ("assistant", [])]:
        for part in parts:
            if isinstance(part, ToolResult):
                if not open_calls[part.id]:
                    raise BadRequest(f"The tool result {part.id!r} answers no call before it")
                open_calls[part.id] -= 1
        if unanswered := next((call for call, count in open_calls.items() if count), None):
            raise BadRequest(f"The tool call {unanswered!r} has no result")
        open_calls = Counter(part.id for part in parts if isinstance(part, ToolCall))


LONGEST_USER = 64
"""Letters that OpenAI takes as a user's name."""

_LITTLE, _MUCH = 4096, 16384
"""Tokens of thinking: up to the first is low effort, above the second high."""


def effort_word(effort: str) -> str:
    """An effort that is told in tokens of thinking, as a word; a word stays as it is."""
    if not effort.isdecimal():
        return effort
    tokens = int(effort)
    return "low" if tokens <= _LITTLE else "medium" if tokens <= _MUCH else "high"


def user_name(user: str) -> str:
    """The user's name as OpenAI takes it: two that differ stay different."""
    return user if len(user) <= LONGEST_USER else sha256(user.encode()).hexdigest()


def format_fields(wanted: JsonFormat) -> dict[str, object]:
    """A format that has a schema, as OpenAI tells it; its name is for the model to read."""
    described = {"description": wanted.description} if wanted.description else {}
    named = {"name": wanted.name or "reply", **described}
    return {**named, "schema": wanted.schema, "strict": wanted.strict}


def arguments(call: ToolCall) -> Raw:
    """The call's arguments as the model wrote them if they are a JSON object, else ``{}``.

    Their bytes stay as they are, because suppliers remember a conversation by its bytes.
    """
    try:
        msgspec.json.decode(call.arguments, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return Raw(b"{}")
    return Raw(call.arguments.encode())


def image_url(image: Image) -> str:
    """Its address, or its bytes as a ``data:`` address. ``BadRequest`` when it has neither."""
    if image.url:
        return image.url
    if not (image.data and image.media_type):
        raise BadRequest("An image needs an address, or bytes and their type")
    return f"data:{image.media_type};base64,{image.data}"


def pictures(shown: Iterable[object]) -> str:
    """What the things shown are called together, in words for the model."""
    return "pictures" if all(isinstance(one, Image) for one in shown) else "files"


def pdf_url(document: Document) -> str:
    """Its bytes as a ``data:`` address."""
    return f"data:{PDF};base64,{document.data}"


def file_name(document: Document) -> str:
    """Its name as OpenAI takes it, which wants one that tells the type."""
    name = document.name or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def result_text(result: ToolResult) -> str:
    """The words of a result, for dialects that have no place to say that it is an error."""
    text = "\n".join(part.text for part in result.content if isinstance(part, Text))
    return f"Error: {text}" if result.is_error else text
