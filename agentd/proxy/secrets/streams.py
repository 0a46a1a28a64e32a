"""Where the text of a reply stands in the events of each dialect's stream.

A ``Slot`` is one text that comes in pieces. Its first step is its group: what ends together.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.reading import each, inner, number, text

Slot: TypeAlias = tuple[int | str, ...]
Way: TypeAlias = tuple[str | int, ...]
Fields: TypeAlias = Mapping[str, Any]

DEEPEST = 8
"""Steps of the longest way that is told."""


class Piece(NamedTuple):
    """One piece of a slot's text."""

    slot: Slot
    way: Way
    """To its string in the event."""
    is_json: bool = False
    """Whether the text is a JSON text: a tool's arguments."""


class Told(NamedTuple):
    """What an event tells of the reply's texts."""

    pieces: tuple[Piece, ...] = ()
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


def _chat(event: Fields) -> Told:
    pieces: list[Piece] = []
    ended: set[int | str] = set()
    for at, choice in enumerate(each(event, "choices")):
        index = number(choice, "index", at)
        pieces += _chat_delta(index, at, inner(choice, "delta"))
        if choice.get("finish_reason"):
            ended.add(index)
    return Told(tuple(pieces), frozenset(ended), "error" in event)


def _chat_delta(index: int, at: int, delta: Fields) -> Iterator[Piece]:
    above: Way = ("choices", at, "delta")
    for name in _CHAT_TEXTS:
        if text(delta, name):
            yield Piece((index, name), (*above, name))
    for place, call in enumerate(each(delta, "tool_calls")):
        which = number(call, "index", place)
        way: Way = (*above, "tool_calls", place)
        if text(inner(call, "function"), "arguments"):
            yield Piece((index, "call", which), (*way, "function", "arguments"), True)
        if text(inner(call, "custom"), "input"):
            yield Piece((index, "custom", which), (*way, "custom", "input"))
    if text(inner(delta, "function_call"), "arguments"):
        yield Piece((index, "call"), (*above, "function_call", "arguments"), True)


def _responses(event: Fields) -> Told:
    kind = text(event, "type")
    group = number(event, "output_index", 0)
    if kind.endswith(".delta") and text(event, "delta"):
        part = number(event, "content_index", number(event, "summary_index", 0))
        return Told((Piece((group, kind, part), ("delta",), kind in _RESPONSES_JSON),))
    if kind.endswith(".done"):
        return Told(ended=frozenset((group,)))
    return Told(all_ended=kind in _RESPONSES_ENDS)


def _anthropic(event: Fields) -> Told:
    kind = text(event, "type")
    index, delta = number(event, "index", 0), inner(event, "delta")
    match kind:
        case "content_block_delta" if text(delta, "text"):
            return Told((Piece((index, "text"), ("delta", "text")),))
        case "content_block_delta" if text(delta, "partial_json"):
            return Told((Piece((index, "input"), ("delta", "partial_json"), True),))
        case "content_block_start" if text(inner(event, "content_block"), "text"):
            return Told((Piece((index, "text"), ("content_block", "text")),))
        case "content_block_stop":
            return Told(ended=frozenset((index,)))
        case "message_delta" | "message_stop" | "error":
            return Told(all_ended=True)
    return Told()


def _gemini(event: Fields) -> Told:
    pieces: list[Piece] = []
    ended: set[int | str] = set()
    for at, candidate in enumerate(each(event, "candidates")):
        index = number(candidate, "index", at)
        for place, part in enumerate(each(inner(candidate, "content"), "parts")):
            if text(part, "text"):
                way: Way = ("candidates", at, "content", "parts", place, "text")
                pieces.append(Piece((index, "thought" if part.get("thought") else "text"), way))
        if candidate.get("finishReason"):
            ended.add(index)
    return Told(tuple(pieces), frozenset(ended), "error" in event)


TELLING: Mapping[ChannelDialect, Callable[[Fields], Told]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""What an event of each dialect tells."""
