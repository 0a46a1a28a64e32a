"""Images and documents in messages, for suppliers that refuse them. Pure."""

from collections.abc import Iterable

from msgspec import structs

from agentd.llm.conversation import (
    ContentPart,
    DocumentPart,
    ImagePart,
    MessagePart,
    ModelMessage,
    TextPart,
    ToolResult,
)

LEFT_OUT = TextPart("[An image or document is left out here: this model's supplier takes none.]")


def has_attachments(messages: Iterable[ModelMessage]) -> bool:
    """Return whether any message has an image or a document."""
    return any(
        _is_attachment(part)
        or (isinstance(part, ToolResult) and any(map(_is_attachment, part.content)))
        for message in messages
        for part in message.parts
    )


def leave_out_attachments(
    messages: Iterable[ModelMessage], note: TextPart = LEFT_OUT
) -> tuple[ModelMessage, ...]:
    """Return the messages with a note in the place of each image and document."""
    return tuple(
        ModelMessage(message.role, tuple(_replace(part, note) for part in message.parts))
        for message in messages
    )


def _is_attachment(part: MessagePart) -> bool:
    return isinstance(part, ImagePart | DocumentPart)


def _replace(part: MessagePart, note: TextPart) -> MessagePart:
    if isinstance(part, ToolResult):
        shown: tuple[ContentPart, ...] = tuple(
            note if _is_attachment(one) else one for one in part.content
        )
        return structs.replace(part, content=shown)
    return note if _is_attachment(part) else part
