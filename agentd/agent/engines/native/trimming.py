"""Fits a conversation into a model's context.

Tokens are estimated as bytes / 4, or by the supplier's own counts. A conversation that does not
fit is cut to three quarters of the room, so that its beginning stays the same for some steps and
the supplier can cache it, in this order and no further than needed:

1. Tool results, the oldest first, become a one-line note; those of the latest step stay.
2. Earlier exchanges (a prompt and its whole turn) are dropped, the oldest first.
3. Steps of the running turn (a reply and the results of its calls) are dropped whole, the oldest
   first; the latest stays.
4. Results of the latest step become one line, too.

The results of one step are cut before, where they would fill more than half of the room: else a
model with a small context never sees what it asks for.

The system prompt and the prompt of the running turn are never touched, and a call is never
separated from its result. If that is not enough, the supplier refuses the request.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from agentd.agent.engines.native.attachments import leave_out_attachments
from agentd.llm.conversation import (
    DocumentPart,
    ImagePart,
    MessagePart,
    ModelMessage,
    SupplierItem,
    TextPart,
    Thinking,
    ToolCall,
    ToolResult,
)

LEFT_OUT = "[This result was left out to save room. Use the tool again if it is needed.]"
OLD_ATTACHMENT = TextPart("[An image or document was left out to save room. View it again.]")
MOST_ATTACHED = 28_000_000
"""Characters of all images and documents of a request: suppliers refuse one of 32 MB."""
_IMAGE = 1500 * 4
"""Bytes that an image counts for: suppliers count its pixels, not its bytes."""
_DOCUMENT = 100_000 * 4
"""Bytes that a PDF counts for at most: suppliers count its pages, a hundred or so."""
_EACH = 16
"""Overhead in bytes of a message or a part."""
_ROOM = 0.75
_STEP = 0.5
"""The share of the room that the results of one step may fill."""
_SHORTEST = 2000
"""Bytes that they have in any case."""


class TurnTranscript(Struct, frozen=True):
    """The messages of a conversation; ``prompt`` is the index of the running turn's prompt."""

    messages: tuple[ModelMessage, ...]
    prompt: int

    def extend(self, *messages: ModelMessage) -> "TurnTranscript":
        """Return the transcript with these messages appended."""
        return TurnTranscript((*self.messages, *messages), self.prompt)


def measure(messages: Iterable[ModelMessage]) -> int:
    """Return about how many bytes messages take on the wire."""
    return sum(_EACH + sum(map(_measure_part, message.parts)) for message in messages)


def trim(transcript: TurnTranscript, room: int) -> TurnTranscript:
    """Shorten a transcript to ``room`` bytes, as far as the module's rule allows."""
    if measure(transcript.messages) <= room:
        return transcript
    room = int(room * _ROOM)
    transcript = _replace_results(transcript, room, range(_find_latest_step(transcript)))
    excess = measure(transcript.messages) - room
    while excess > 0 and transcript.prompt > 0:
        end = _find_second_exchange(transcript)
        excess -= measure(transcript.messages[:end])
        transcript = TurnTranscript(transcript.messages[end:], transcript.prompt - end)
    first = transcript.prompt + 1
    while excess > 0 and _find_latest_step(transcript) > first:
        end = _find_next_step(transcript, first)
        excess -= measure(transcript.messages[first:end])
        messages = transcript.messages[:first] + transcript.messages[end:]
        transcript = TurnTranscript(messages, transcript.prompt)
    return _replace_results(transcript, room, range(len(transcript.messages)))


def leave_out_old_attachments(transcript: TurnTranscript) -> TurnTranscript:
    """Leave out the oldest images and documents where all together are too large to be sent.

    Half of what is allowed stays, so that the beginning stays the same for some steps. Those of
    the running turn's prompt stay in any case.
    """
    sizes = [len(part.data) for part in _iter_attachments(transcript.messages)]
    excess = sum(sizes) - MOST_ATTACHED // 2
    if sum(sizes) <= MOST_ATTACHED:
        return transcript
    messages = list(transcript.messages)
    for index, message in enumerate(messages):
        if excess > 0 and index != transcript.prompt:
            (messages[index],) = leave_out_attachments((message,), OLD_ATTACHMENT)
            excess -= sum(len(part.data) for part in _iter_attachments((message,)))
    return TurnTranscript(tuple(messages), transcript.prompt)


def _iter_attachments(messages: Iterable[ModelMessage]) -> Iterator[ImagePart | DocumentPart]:
    for message in messages:
        for part in message.parts:
            for one in part.content if isinstance(part, ToolResult) else (part,):
                if isinstance(one, ImagePart | DocumentPart):
                    yield one


def cut_results(results: Sequence[ToolResult], room: int) -> tuple[ToolResult, ...]:
    """Return the results of one step, the longest texts cut in the middle if need be."""
    sizes = [
        _count_bytes(part.text)
        for result in results
        for part in result.content
        if isinstance(part, TextPart)
    ]
    longest = _find_longest(sizes, max(int(room * _STEP), _SHORTEST))
    return tuple(
        structs.replace(
            result,
            content=tuple(
                _cut_text(part, longest) if isinstance(part, TextPart) else part
                for part in result.content
            ),
        )
        for result in results
    )


def _find_longest(sizes: Sequence[int], room: int) -> int:
    """Return how long a text may be, so that all together take no more than ``room``."""
    for number, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - number)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _cut_text(part: TextPart, longest: int) -> TextPart:
    data = part.text.encode("utf-8", "surrogatepass")
    if len(data) <= longest:
        return part
    tail = longest // 4
    head, end = data[: longest - tail], data[len(data) - tail :]
    left_out = len(data) - longest
    return TextPart(
        f"{head.decode(errors='ignore')}\n… {left_out:,} bytes are left out here, for which your"
        f" context has no room: ask for less at once …\n{end.decode(errors='ignore')}"
    )


def _find_latest_step(transcript: TurnTranscript) -> int:
    """Return the start of the latest step: the running turn's last assistant message."""
    messages = transcript.messages
    for index in range(len(messages) - 1, transcript.prompt, -1):
        if messages[index].role == "assistant":
            return index
    return len(messages)


def _find_second_exchange(transcript: TurnTranscript) -> int:
    """Return the start of the second exchange."""
    for index in range(1, transcript.prompt):
        message = transcript.messages[index]
        if message.role == "user" and not any(
            isinstance(part, ToolResult) for part in message.parts
        ):
            return index
    return transcript.prompt


def _find_next_step(transcript: TurnTranscript, first: int) -> int:
    """Return the start of the step after ``first``: the next assistant message."""
    end = first + 1
    while end < len(transcript.messages) and transcript.messages[end].role == "user":
        end += 1
    return end


def _replace_results(transcript: TurnTranscript, room: int, where: range) -> TurnTranscript:
    """Replace results by a note, one by one until there is room, in the messages ``where``."""
    messages = list(transcript.messages)
    excess = measure(messages) - room
    for index in where:
        parts: list[MessagePart] = []
        for part in messages[index].parts:
            kept: MessagePart = part
            if excess > 0 and isinstance(part, ToolResult):
                short = structs.replace(part, content=(TextPart(LEFT_OUT),))
                saved = _measure_part(part) - _measure_part(short)
                if saved > 0:
                    kept, excess = short, excess - saved
            parts.append(kept)
        messages[index] = ModelMessage(messages[index].role, tuple(parts))
    return TurnTranscript(tuple(messages), transcript.prompt)


def _measure_part(part: MessagePart) -> int:
    match part:
        case TextPart(text):
            content = _count_bytes(text)
        case ImagePart():
            content = _IMAGE
        case DocumentPart():
            content = min(_count_bytes(part.data), _DOCUMENT)
        case ToolCall():
            content = _count_bytes(part.id) + _count_bytes(part.name) + _count_bytes(part.arguments)
        case ToolResult():
            content = _count_bytes(part.id) + sum(map(_measure_part, part.content))
        case SupplierItem():
            content = _count_bytes(part.data)
        case Thinking():
            content = (
                _count_bytes(part.text) + _count_bytes(part.signature) + _count_bytes(part.sealed)
            )
    return _EACH + content


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
