"""Encoding of requests that all dialects share: message order, tool results, images, files."""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec import Raw, structs

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    PDF,
    Conversation,
    DocumentPart,
    ImagePart,
    JsonFormat,
    MessagePart,
    ModelMessage,
    Role,
    SupplierItem,
    TextPart,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentd.llm.dialects.openai_strict_mode import is_strict

HOW_TO_REMOVE = "an operator can have it left out: parameters.remove of the model or its channel"
"""The end of errors about parameters that a dialect does not have."""

_ALLOWED = {
    "user": (TextPart, ImagePart, DocumentPart, ToolResult),
    "assistant": (TextPart, Thinking, ToolCall, SupplierItem),
}


def normalize_messages(
    messages: Iterable[ModelMessage], *, takes_back_images: bool = False
) -> list[ModelMessage]:
    """Return the messages as suppliers accept them.

    Adjacent messages of one role are merged, tool results come first in their message, empty text
    and empty messages are dropped. Raises ``BadRequest`` where a tool call does not have exactly
    one result in the very next message, or where a part does not fit the role. With
    ``takes_back_images``, messages of the assistant may have images.
    """
    merged: list[tuple[Role, list[MessagePart]]] = []
    for message in messages:
        parts = [
            part for part in message.parts if not (isinstance(part, TextPart) and not part.text)
        ]
        for part in parts:
            if isinstance(part, ImagePart) and message.role == "assistant":
                if takes_back_images:
                    continue
                raise BadRequest("The model's supplier takes no image that a model returned")
            if not isinstance(part, _ALLOWED[message.role]):
                raise BadRequest(
                    f"A {type(part).__name__} is not allowed in the role {message.role}"
                )
        if merged and merged[-1][0] == message.role:
            merged[-1][1].extend(parts)
        elif parts:
            merged.append((message.role, parts))
    for _, parts in merged:
        parts.sort(key=lambda part: not isinstance(part, ToolResult))
    _check_results(merged)
    return [ModelMessage(role, tuple(parts)) for role, parts in merged]


def ensure_message(conversation: Conversation) -> Conversation:
    """Return the conversation with its instructions as the user's message if it has no other.

    OpenAI's chat API answers a request of system messages alone; all others refuse it.
    """
    has_input = any(
        not isinstance(part, TextPart) or part.text
        for message in conversation.messages
        for part in message.parts
    )
    if has_input or not conversation.system:
        return conversation
    instructions = ModelMessage("user", (TextPart(conversation.system),))
    return structs.replace(conversation, messages=(instructions,), system="")


def leave_out_supplier_items(messages: Iterable[ModelMessage]) -> tuple[ModelMessage, ...]:
    """Return the messages without parts that belong to a tool that is not offered now."""
    return tuple(
        ModelMessage(
            message.role,
            tuple(part for part in message.parts if not isinstance(part, SupplierItem)),
        )
        for message in messages
    )


def _check_results(turns: list[tuple[Role, list[MessagePart]]]) -> None:
    open_calls: Counter[str] = Counter()  # two calls of one turn may have the same id
    for _, parts in [*turns, ("assistant", [])]:
        for part in parts:
            if isinstance(part, ToolResult):
                if not open_calls[part.id]:
                    raise BadRequest(f"The tool result {part.id!r} matches no call before it")
                open_calls[part.id] -= 1
        if unanswered := next((call for call, count in open_calls.items() if count), None):
            raise BadRequest(f"The tool call {unanswered!r} has no result")
        open_calls = Counter(part.id for part in parts if isinstance(part, ToolCall))


MAX_USER_LENGTH = 64
"""Letters that OpenAI takes as a user's name."""

_LITTLE, _MUCH = 4096, 16384
"""Tokens of thinking: up to the first is low effort, above the second high."""


def format_effort(effort: str) -> str:
    """Return a reasoning effort as a word; a number of thinking tokens is mapped to one."""
    if not effort.isdecimal():
        return effort
    tokens = int(effort)
    return "low" if tokens <= _LITTLE else "medium" if tokens <= _MUCH else "high"


def format_user(user: str) -> str:
    """Return the user id within OpenAI's length limit; distinct ids stay distinct."""
    return user if len(user) <= MAX_USER_LENGTH else sha256(user.encode()).hexdigest()


def encode_json_format(wanted: JsonFormat) -> dict[str, object]:
    """Encode a response format that has a schema for OpenAI; its name is shown to the model."""
    described = {"description": wanted.description} if wanted.description else {}
    named = {"name": wanted.name or "reply", **described}
    return {**named, "schema": wanted.schema, "strict": is_strict(wanted)}


def encode_arguments(call: ToolCall) -> Raw:
    """Return the call's arguments as the model wrote them if they are a JSON object, else ``{}``.

    The bytes stay unchanged, because suppliers cache a conversation by its bytes.
    """
    try:
        msgspec.json.decode(call.arguments, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Raw(b"{}")
    return Raw(call.arguments.encode())


def build_image_url(image: ImagePart) -> str:
    """Return the image's URL, or a ``data:`` URL. Raises ``BadRequest`` when it has neither."""
    if image.url:
        return image.url
    if not (image.data and image.media_type):
        raise BadRequest("An image needs a URL, or bytes and their media type")
    return f"data:{image.media_type};base64,{image.data}"


def name_attachments(shown: Iterable[object]) -> str:
    """Return the name of these parts in a text for the model."""
    return "pictures" if all(isinstance(one, ImagePart) for one in shown) else "files"


def build_pdf_url(document: DocumentPart) -> str:
    """Return a ``data:`` URL with the PDF's bytes."""
    return f"data:{PDF};base64,{document.data}"


def get_file_name(document: DocumentPart) -> str:
    """Return a file name with the extension that OpenAI wants."""
    name = document.name or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def render_result(result: ToolResult) -> str:
    """Return a tool result as text, for dialects without a flag for errors."""
    text = "\n".join(part.text for part in result.content if isinstance(part, TextPart))
    return f"Error: {text}" if result.is_error else text
