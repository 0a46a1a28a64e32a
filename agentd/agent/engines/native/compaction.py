"""Shortens a conversation that fills its model's context: by a summary of the model's own.

The model is asked with the very conversation that it has, so that its cache serves, for what is
needed to go on. Then the summary stands before the running turn's prompt, which stays as it was,
with the latest steps of the turn, which leave room for others; all else is dropped. See
``trimming`` for what is done where no summary can be had.
"""

from collections.abc import Iterator
from typing import Literal

from agentd.agent.engines.native.trimming import TurnTranscript, measure
from agentd.llm.conversation import DialectName, MessagePart, ModelMessage, TextPart

_FULL = 0.85
"""The share of the room for a conversation at which it is summed up."""
_TAIL = 0.2
"""The share of the room that the latest steps may keep: less than that is not summed up."""

_HEAD = "[The conversation before this was summed up, since it filled the context:"

_ASK = """\
[The conversation fills your context. Do not go on with the work now, and call no tools. Write a
summary from which you can go on as if you had read everything; what it leaves out is lost:

1. What the person wants, with every constraint and preference that still holds, in their words.
2. What was done and decided, and why: files by their paths, functions, commands and their outcomes.
3. What was found out that will be needed again: facts, signatures, error messages, exact values.
4. What failed and must not be tried again.
5. What is under way now, and the next steps.

Write only the summary, in Markdown.]"""


def is_worth_summary(transcript: TurnTranscript, room: int) -> bool:
    """Return whether a conversation is full, and of more than its prompt; ``room`` in bytes."""
    size = measure(transcript.messages)
    return size > room * _FULL and size - _measure_prompt(transcript) > room * _TAIL


def list_tool_choices(dialect: DialectName) -> Iterator[Literal["auto", "none"]]:
    """Yield the tool choice of the request for a summary, then that of a second request.

    The second is sent if the model called a tool instead. Anthropic's cache of the messages is lost
    when the tool choice changes, and a whole context would be paid in full: so its models are first
    only told in words to call no tools.
    """
    if dialect == "anthropic":
        yield "auto"
    yield "none"


def ask_for_summary(transcript: TurnTranscript) -> tuple[ModelMessage, ...]:
    """Return the messages of the request for a summary."""
    return (*transcript.messages, ModelMessage("user", (TextPart(_ASK),)))


def apply_summary(transcript: TurnTranscript, summary: str, room: int) -> TurnTranscript:
    """Return the transcript with the summary in place of what it sums up; ``room`` in bytes."""
    prompt = transcript.messages[transcript.prompt]
    steps = transcript.messages[transcript.prompt + 1 :]
    left = max(room * _FULL - _measure_prompt(transcript), 0)
    kept = steps[_find_tail(steps, int(min(room * _TAIL, left / 2))) :]
    text = f"{_HEAD}\n\n<summary>\n{summary.strip()}\n</summary>]"
    if steps:
        text += "\n\n[You are at work on the prompt below; the summary says how far you are.]"
    parts: tuple[MessagePart, ...] = (
        TextPart(text),
        *(part for part in prompt.parts if not _is_summary(part)),
    )
    return TurnTranscript((ModelMessage("user", parts), *kept), 0)


def _measure_prompt(transcript: TurnTranscript) -> int:
    return measure(transcript.messages[transcript.prompt : transcript.prompt + 1])


def _is_summary(part: MessagePart) -> bool:
    return isinstance(part, TextPart) and part.text.startswith(_HEAD)


def _find_tail(steps: tuple[ModelMessage, ...], room: int) -> int:
    """Return the index of the first of the latest steps that fit into ``room`` bytes."""
    start = len(steps)
    for index in range(len(steps) - 1, -1, -1):
        if measure(steps[index:]) > room:
            break
        if steps[index].role == "assistant":
            start = index
    return start
