"""Making a conversation fit into a model's context.

The rule. Tokens are taken to be bytes / 4, unless a supplier's own count told better. A
conversation that does not fit is cut to three quarters of what would, so that it stays the same
for some steps and the supplier remembers its beginning, in this order and no further than needed:

1. Results of tools, the oldest first, become one line that says so; those of the latest step stay.
2. Earlier exchanges (a prompt and all that came of it) are dropped whole, the oldest first.
3. Steps of the running turn (a reply and the results of its calls) are dropped whole, the oldest
   first; the latest stays.
4. Results of the latest step become one line, too.

The system prompt and the prompt of the running turn are never touched, and a call is never parted
from its result. What does not fit even so is left to the supplier to refuse.
"""

from collections.abc import Iterable

from msgspec import Struct, structs

from agentd.proxy.dialects.conversation import (
    Document,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

LEFT_OUT = "[This result was left out to save room. Use the tool again if it is needed.]"
_IMAGE = 1500 * 4
"""Bytes that a picture counts for: suppliers count it by its size in pixels, not in bytes."""
_EACH = 16
"""Bytes that a message or a part costs beside its content."""
_ROOM = 0.75


class Transcript(Struct, frozen=True):
    """The messages of a conversation; ``prompt`` is the index of the running turn's prompt."""

    messages: tuple[Message, ...]
    prompt: int

    def with_more(self, *messages: Message) -> "Transcript":
        """Longer by these."""
        return Transcript((*self.messages, *messages), self.prompt)


def size(messages: Iterable[Message]) -> int:
    """Bytes that messages take on the wire, about."""
    return sum(_EACH + sum(map(_part_size, message.parts)) for message in messages)


def trimmed(transcript: Transcript, room: int) -> Transcript:
    """A transcript of at most ``room`` bytes if the rule can make it so; see the module."""
    if size(transcript.messages) <= room:
        return transcript
    room = int(room * _ROOM)
    transcript = _without_results(transcript, room, range(_latest(transcript)))
    excess = size(transcript.messages) - room
    while excess > 0 and transcript.prompt > 0:
        end = _next_prompt(transcript)
        excess -= size(transcript.messages[:end])
        transcript = Transcript(transcript.messages[end:], transcript.prompt - end)
    first = transcript.prompt + 1
    while excess > 0 and _latest(transcript) > first:
        end = _next_step(transcript, first)
        excess -= size(transcript.messages[first:end])
        messages = transcript.messages[:first] + transcript.messages[end:]
        transcript = Transcript(messages, transcript.prompt)
    return _without_results(transcript, room, range(len(transcript.messages)))


def _latest(transcript: Transcript) -> int:
    """Where the latest step begins: at the last message of the assistant in the running turn."""
    messages = transcript.messages
    for index in range(len(messages) - 1, transcript.prompt, -1):
        if messages[index].role == "assistant":
            return index
    return len(messages)


def _next_prompt(transcript: Transcript) -> int:
    """Where the second exchange begins."""
    for index in range(1, transcript.prompt):
        message = transcript.messages[index]
        if message.role == "user" and not any(
            isinstance(part, ToolResult) for part in message.parts
        ):
            return index
    return transcript.prompt


def _next_step(transcript: Transcript, first: int) -> int:
    """Where the step after the one at ``first`` begins: at the next message of the assistant."""
    end = first + 1
    while end < len(transcript.messages) and transcript.messages[end].role == "user":
        end += 1
    return end


def _without_results(transcript: Transcript, room: int, where: range) -> Transcript:
    """Results become a line, one after the other until there is room; ``where`` are messages."""
    messages = list(transcript.messages)
    excess = size(messages) - room
    for index in where:
        parts: list[Part] = []
        for part in messages[index].parts:
            kept: Part = part
            if excess > 0 and isinstance(part, ToolResult):
                short = structs.replace(part, content=(Text(LEFT_OUT),))
                saved = _part_size(part) - _part_size(short)
                if saved > 0:
                    kept, excess = short, excess - saved
            parts.append(kept)
        messages[index] = Message(messages[index].role, tuple(parts))
    return Transcript(tuple(messages), transcript.prompt)


def _part_size(part: Part) -> int:
    match part:
        case Text(text):
            content = _bytes(text)
        case Image():
            content = _IMAGE
        case Document():
            content = _bytes(part.data)
        case ToolCall():
            content = _bytes(part.id) + _bytes(part.name) + _bytes(part.arguments)
        case ToolResult():
            content = _bytes(part.id) + sum(map(_part_size, part.content))
        case Thinking():
            content = _bytes(part.text) + _bytes(part.signature) + _bytes(part.sealed)
    return _EACH + content


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
