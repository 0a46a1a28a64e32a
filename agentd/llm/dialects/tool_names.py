"""Names of tools that a supplier's dialect allows, in the place of those that it refuses.

A caller may use any name that its own dialect allows: Claude Code's are longer than OpenAI's
suppliers take, and Gemini's may hold dots. The model sees another name, the caller its own.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256

from msgspec import structs

from agentd.llm.conversation import (
    Conversation,
    MessagePart,
    NamedTool,
    ReplyEvent,
    ToolCall,
    ToolCallDone,
    ToolCallStarted,
)
from agentd.llm.dialects.dialect import ReplyReader
from agentd.llm.endpoint import ChannelDialect

_OPENAI = re.compile("[A-Za-z0-9_-]{1,64}")
_ALLOWED: Mapping[ChannelDialect, re.Pattern[str]] = {
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": re.compile("[A-Za-z0-9_-]{1,128}"),
    "gemini": re.compile("[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
}
_ODD = re.compile("[^A-Za-z0-9_-]")
_KEPT = 50
"""Characters of a name that another one begins with; a digest of the name follows."""


def fit_tool_names(
    conversation: Conversation, dialect: ChannelDialect
) -> tuple[Conversation, Mapping[str, str]]:
    """Return the conversation with allowed names, and the caller's by those in their place.

    The same name becomes the same one in each request, so that suppliers recognize their cache.
    """
    allowed = _ALLOWED[dialect]
    calls = (
        part.name
        for message in conversation.messages
        for part in message.parts
        if isinstance(part, ToolCall)
    )
    named = {*(tool.name for tool in conversation.tools), *calls}
    made = {name: _make_name(name) for name in named if name and not allowed.fullmatch(name)}
    if not made:
        return conversation, {}

    def rename(part: MessagePart) -> MessagePart:
        if not isinstance(part, ToolCall):
            return part
        return structs.replace(part, name=made.get(part.name, part.name))

    choice = conversation.tool_choice
    if isinstance(choice, NamedTool):
        choice = NamedTool(made.get(choice.name, choice.name))
    fitted = structs.replace(
        conversation,
        messages=tuple(
            structs.replace(message, parts=tuple(map(rename, message.parts)))
            for message in conversation.messages
        ),
        tools=tuple(
            structs.replace(tool, name=made.get(tool.name, tool.name))
            for tool in conversation.tools
        ),
        tool_choice=choice,
    )
    return fitted, {name: own for own, name in made.items()}


def restore_tool_names(events: list[ReplyEvent], own: Mapping[str, str]) -> list[ReplyEvent]:
    """Return the events with the caller's names; ``own`` is that of ``fit_tool_names``."""
    return [_restore(event, own.get) for event in events] if own else events


class OwnNamesReader:
    """A ``ReplyReader`` whose tool calls have the caller's names."""

    def __init__(self, reader: ReplyReader, own: Mapping[str, str]) -> None:
        self._reader = reader
        self._own = own

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Do as ``ReplyReader.feed``."""
        return restore_tool_names(self._reader.feed(data), self._own)

    def close(self) -> list[ReplyEvent]:
        """Do as ``ReplyReader.close``."""
        return restore_tool_names(self._reader.close(), self._own)


def _restore(event: ReplyEvent, find: Callable[[str, str], str]) -> ReplyEvent:
    match event:
        case ToolCallStarted(name=name):
            return structs.replace(event, name=find(name, name))
        case ToolCallDone(call=call):
            return structs.replace(
                event, call=structs.replace(call, name=find(call.name, call.name))
            )
        case _:
            return event


def _make_name(name: str) -> str:
    begin = _ODD.sub("_", name)[:_KEPT]
    digest = sha256(name.encode(errors="replace")).hexdigest()[:12]
    return f"{begin if begin[0].isalpha() else f'_{begin}'}_{digest}"
