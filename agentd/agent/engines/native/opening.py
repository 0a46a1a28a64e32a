"""The beginning of a turn's conversation: what is kept of the chat, news, and the prompt.

What a model was told is not told in other words later: the kept messages come first, unchanged,
so that the supplier finds them in its cache. What happened since (a turn that was stopped, other
engines' turns) is told beside the new prompt.
"""

from collections.abc import Iterable, Iterator

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.native.transcript_file import KeptTranscript
from agentd.agent.engines.native.trimming import TurnTranscript
from agentd.agent.processes.table import ProcessStatus
from agentd.chats.model import Message
from agentd.llm.conversation import (
    MessagePart,
    ModelMessage,
    Role,
    SupplierItem,
    TextPart,
    Thinking,
    ToolCall,
    ToolResult,
)

LONGEST_TOOL_NOTE = 300
"""Characters of one earlier tool use."""
MOST_TOOL_NOTES = 12
"""Earlier tool uses noted with one prompt; the latest ones are kept."""
LONGEST_NEWS = 24_000
"""Maximum characters of the conversation with other engines."""

NO_RESULT = "[Interrupted: there is no result. Part of what it was to do may be done.]"
_UNEXPLAINED = "[The turn before was interrupted: it did not come to its end.]"
_GO_ON = "[You were interrupted. Go on where you were.]"


def has_prompt(assignment: TurnRequest, kept: KeptTranscript) -> bool:
    """Return whether an earlier try at the prompt, which did not come to its end, has kept it."""
    is_kept = bool(kept.messages) and kept.message == assignment.message
    return is_kept and not kept.ended and bool(assignment.message)


def open_conversation(
    assignment: TurnRequest, kept: KeptTranscript, notes: str = ""
) -> TurnTranscript:
    """Return the messages of a turn up to its prompt; ``notes`` are added beside it.

    A turn that a limit or a crash ended, and whose prompt is sent again, continues where it was.
    """
    if not kept.messages:
        return build_initial_messages(assignment, notes)
    messages, prompt_at = kept.messages, kept.prompt
    if kept.model != name_model(assignment):
        prompt_at = len(tuple(_drop_thinking(messages[:prompt_at])))
        messages = tuple(_drop_thinking(messages))
    open_calls = _list_open_calls(messages)
    results = [ToolResult(call.id, (TextPart(NO_RESULT),), True) for call in open_calls]
    if has_prompt(assignment, kept):
        return _resume(messages, prompt_at, results)
    news = [] if kept.ended else [TextPart(_explain_end(assignment.history, kept.message))]
    if missed := _render_missed(assignment.missed):
        news.append(TextPart(missed))
    news += [TextPart(notes)] if notes else []
    if results:  # beside the prompt, which is never left out, they would outlive their calls
        messages = (*messages, ModelMessage("user", tuple(results)))
    prompt = ModelMessage("user", (*news, *_render_prompt(assignment)))
    return TurnTranscript((*messages, prompt), len(messages))


def name_model(assignment: TurnRequest) -> str:
    """Return whose thinking a turn's messages have."""
    return f"{assignment.supplier}/{assignment.model}"


def build_initial_messages(assignment: TurnRequest, notes: str = "") -> TurnTranscript:
    """Return the messages of a chat of which nothing is kept: its history, and the prompt.

    Earlier tool uses become notes beside the prompt that led to them: as calls they would need
    the model's own ids, and as assistant text the model would start to write such notes.
    """
    messages = list(_merge_by_role(_iter_messages(assignment.history)))
    news = (TextPart(notes),) if notes else ()
    parts: tuple[MessagePart, ...] = (*news, *_render_prompt(assignment))
    if messages and messages[-1].role == "user":
        # That prompt was never answered: merge it into this one.
        parts = (*messages.pop().parts, *parts)
    return TurnTranscript((*messages, ModelMessage("user", parts)), len(messages))


def _render_prompt(assignment: TurnRequest) -> tuple[MessagePart, ...]:
    return (TextPart(assignment.prompt), *assignment.images)


def render_process_news(processes: Iterable[ProcessStatus]) -> str:
    """Return what the model is told of the processes that earlier turns left in the background."""
    lines = [
        f"{one.id}: {one.command[:LONGEST_TOOL_NOTE]} ({_name_state(one)})" for one in processes
    ]
    return (
        "[Processes in the background, from earlier turns:\n{}]".format("\n".join(lines))
        if lines
        else ""
    )


def _name_state(one: ProcessStatus) -> str:
    if not one.ended_at:
        return f"running since {one.started_at}"
    return "could not be started" if one.code is None else f"ended with exit code {one.code}"


def _resume(
    messages: tuple[ModelMessage, ...], prompt: int, results: list[ToolResult]
) -> TurnTranscript:
    if results:
        added = ModelMessage("user", (*results, TextPart(_GO_ON)))
    elif messages[-1].role == "assistant":
        added = ModelMessage("user", (TextPart(_GO_ON),))
    else:
        return TurnTranscript(messages, prompt)
    return TurnTranscript((*messages, added), prompt)


def _drop_thinking(messages: Iterable[ModelMessage]) -> Iterator[ModelMessage]:
    """Yield the messages without thinking and searches: those of another model are refused."""
    for message in messages:
        parts = tuple(
            part for part in message.parts if not isinstance(part, Thinking | SupplierItem)
        )
        if parts:
            yield ModelMessage(message.role, parts)


def _list_open_calls(messages: tuple[ModelMessage, ...]) -> list[ToolCall]:
    """Return the calls of the last message, which have no results yet."""
    last = messages[-1]
    return [part for part in last.parts if isinstance(part, ToolCall)]


def _explain_end(history: Iterable[Message], after: int) -> str:
    """Describe the end of the turn of the prompt with this id."""
    for message in history:
        if message.id <= after:
            continue
        if message.role == "tool" and message.tool == "stop":
            return "[The person stopped the turn before. Ask what is wanted if it is not clear.]"
        if message.role == "error":
            return f"[The turn before failed: {message.text[:LONGEST_TOOL_NOTE]}]"
    return _UNEXPLAINED


def _render_missed(missed: Iterable[Message]) -> str:
    texts = "\n\n".join(
        f"{'User' if one.role == 'user' else 'Assistant'}: {one.text}"
        for one in missed
        if one.role in ("user", "assistant")
    )[-LONGEST_NEWS:]
    return f"[Said to and by other agents in this chat since:\n\n{texts}]" if texts else ""


def _iter_messages(history: Iterable[Message]) -> Iterator[tuple[Role, str]]:
    """Yield role and text, with notes on tools and errors on the user's side."""
    notes: list[str] = []
    for message in history:
        if message.role == "tool":
            text = " ".join(message.text.split())
            notes.append(f"{message.tool}: {text[:LONGEST_TOOL_NOTE]}")
            continue
        if notes:
            yield "user", _render_notes(notes)
            notes = []
        if message.role == "error":
            yield "user", f"[The turn failed: {message.text[:LONGEST_TOOL_NOTE]}]"
        elif message.text.strip():
            yield message.role, message.text
    if notes:
        yield "user", _render_notes(notes)


def _render_notes(notes: list[str]) -> str:
    latest = notes[-MOST_TOOL_NOTES:]
    more = f"{len(notes) - len(latest)} more, then " if len(notes) > len(latest) else ""
    return f"[Tools were used: {more}{'; '.join(latest)}]"


def _merge_by_role(spoken: Iterable[tuple[Role, str]]) -> Iterator[ModelMessage]:
    """Merge neighbours of one role into one message; the first is the user's."""
    speaker: Role | None = None
    parts: list[TextPart] = []
    for role, text in spoken:
        if speaker is None and role == "assistant":
            continue
        if role != speaker:
            if speaker:
                yield ModelMessage(speaker, tuple(parts))
            speaker, parts = role, []
        parts.append(TextPart(text))
    if speaker:
        yield ModelMessage(speaker, tuple(parts))
