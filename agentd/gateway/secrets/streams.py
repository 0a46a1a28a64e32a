"""The places of a reply's text in the stream events of each dialect.

A ``Slot`` is one text that arrives in pieces. Its first step is its group: what ends together.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from agentd.llm.dialects.stream_reader import get_number, get_object, get_objects, get_text
from agentd.llm.endpoint import ChannelDialect

Slot: TypeAlias = tuple[int | str, ...]
JsonPath: TypeAlias = tuple[str | int, ...]
Fields: TypeAlias = Mapping[str, Any]

DEEPEST = 8
"""Depth of the deepest text in an event."""


class TextPiece(NamedTuple):
    """A piece of a slot's text."""

    slot: Slot
    path: JsonPath
    """The path to its string in the event."""
    is_json: bool = False
    """True if the text is a JSON text: a tool's arguments."""


class EventTexts(NamedTuple):
    """The pieces of text in one event."""

    pieces: tuple[TextPiece, ...] = ()
    ended: frozenset[int | str] = frozenset()
    """Groups that no further piece follows in, after this event's own."""
    all_ended: bool = False


_CHAT_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_RESPONSES_JSON = {"response.function_call_arguments.delta", "response.mcp_call_arguments.delta"}
_RESPONSES_ENDS = {
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "error",
}


def _find_chat_texts(event: Fields) -> EventTexts:
    pieces: list[TextPiece] = []
    ended: set[int | str] = set()
    for at, choice in enumerate(get_objects(event, "choices")):
        index = get_number(choice, "index", at)
        pieces += _iter_chat_pieces(index, at, get_object(choice, "delta"))
        if get_text(choice, "text"):  # of /v1/completions
            pieces.append(TextPiece((index, "text"), ("choices", at, "text")))
        if choice.get("finish_reason"):
            ended.add(index)
    return EventTexts(tuple(pieces), frozenset(ended), "error" in event)


def _iter_chat_pieces(index: int, at: int, delta: Fields) -> Iterator[TextPiece]:
    above: JsonPath = ("choices", at, "delta")
    for name in _CHAT_TEXTS:
        if get_text(delta, name):
            yield TextPiece((index, name), (*above, name))
    for place, call in enumerate(get_objects(delta, "tool_calls")):
        which = get_number(call, "index", place)
        path: JsonPath = (*above, "tool_calls", place)
        if get_text(get_object(call, "function"), "arguments"):
            yield TextPiece((index, "call", which), (*path, "function", "arguments"), True)
        if get_text(get_object(call, "custom"), "input"):
            yield TextPiece((index, "custom", which), (*path, "custom", "input"))
    if get_text(get_object(delta, "function_call"), "arguments"):
        yield TextPiece((index, "call"), (*above, "function_call", "arguments"), True)


def _find_responses_texts(event: Fields) -> EventTexts:
    kind = get_text(event, "type")
    group = get_number(event, "output_index", 0)
    if kind.endswith(".delta") and get_text(event, "delta"):
        part = get_number(event, "content_index", get_number(event, "summary_index", 0))
        return EventTexts((TextPiece((group, kind, part), ("delta",), kind in _RESPONSES_JSON),))
    if kind.endswith(".done"):
        return EventTexts(ended=frozenset((group,)))
    return EventTexts(all_ended=kind in _RESPONSES_ENDS)


def _find_anthropic_texts(event: Fields) -> EventTexts:
    kind = get_text(event, "type")
    index, delta = get_number(event, "index", 0), get_object(event, "delta")
    match kind:
        case "content_block_delta" if get_text(delta, "text"):
            return EventTexts((TextPiece((index, "text"), ("delta", "text")),))
        case "content_block_delta" if get_text(delta, "partial_json"):
            return EventTexts((TextPiece((index, "input"), ("delta", "partial_json"), True),))
        case "content_block_start" if get_text(get_object(event, "content_block"), "text"):
            return EventTexts((TextPiece((index, "text"), ("content_block", "text")),))
        case "content_block_stop":
            return EventTexts(ended=frozenset((index,)))
        case "message_delta" | "message_stop" | "error":
            return EventTexts(all_ended=True)
    return EventTexts()


def _find_gemini_texts(event: Fields) -> EventTexts:
    pieces: list[TextPiece] = []
    ended: set[int | str] = set()
    for at, candidate in enumerate(get_objects(event, "candidates")):
        index = get_number(candidate, "index", at)
        for place, part in enumerate(get_objects(get_object(candidate, "content"), "parts")):
            if get_text(part, "text"):
                path: JsonPath = ("candidates", at, "content", "parts", place, "text")
                kind = "thought" if part.get("thought") else "text"
                pieces.append(TextPiece((index, kind), path))
        if candidate.get("finishReason"):
            ended.add(index)
    return EventTexts(tuple(pieces), frozenset(ended), "error" in event)


TELLING: Mapping[ChannelDialect, Callable[[Fields], EventTexts]] = {
    "openai-chat": _find_chat_texts,
    "openai-responses": _find_responses_texts,
    "anthropic": _find_anthropic_texts,
    "gemini": _find_gemini_texts,
}
"""Finds the texts in an event, by dialect."""
