"""Replies of every shape as events of suppliers' readers, and the parts that must arrive."""

import itertools
import json

from hypothesis import strategies as st

from agentd.llm.conversation import (
    ReplyBuilder,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    TextPart,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageUpdated,
)
from agentd.llm.dialects.anthropic import response as anthropic_response
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.gemini import response as gemini_response
from agentd.llm.dialects.openai_chat import response as openai_chat_response
from agentd.llm.dialects.openai_responses import response as openai_responses_response
from agentd.llm.dialects.thinking_signatures import unwrap_thinking
from agentd.llm.price import Usage

GLANCE = RequestSummary("m", stream=True)


WRITERS = {
    "openai-chat": lambda glance=GLANCE: openai_chat_response.ChatStreamWriter(glance, "r1", 17),
    "openai-responses": lambda glance=GLANCE: openai_responses_response.ResponsesStreamWriter(
        glance, "r1", 17
    ),
    "anthropic": lambda glance=GLANCE: anthropic_response.AnthropicStreamWriter(glance, "r1", 17),
    "gemini": lambda glance=GLANCE: gemini_response.GeminiStreamWriter(glance, "r1", 17),
}
WHOLE = {
    "openai-chat": openai_chat_response.render_response,
    "openai-responses": openai_responses_response.render_response,
    "anthropic": anthropic_response.render_response,
    "gemini": gemini_response.render_response,
}

LOOK = [
    ReplyStarted("x9", "supplier's own"),
    ThinkingDelta("Which "),
    ThinkingDelta("one?"),
    ThinkingDone(Thinking("openai-chat", "Which one?")),
    TextDelta("I look"),
    TextDelta(" around Ω🎉."),
    ToolCallStarted(0, "call_1", "ls"),
    ToolCallDelta(0, '{"p":'),
    ToolCallStarted(1, "call_2", "cat"),
    ToolCallDelta(1, '{"f":"a\\n'),
    ToolCallDelta(0, '"/"}'),
    ToolCallDelta(1, 'b"}'),
    ToolCallDone(0, ToolCall("call_1", "ls", '{"p":"/"}')),
    ToolCallDone(1, ToolCall("call_2", "cat", '{"f":"a\\nb"}')),
    UsageUpdated(Usage(input=10, cache_read=20, cache_write=3, output=5, reasoning=4)),
    ReplyFinished("tool_calls"),
]
"""Thought, text, and two calls that grow at once."""

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
counts = st.integers(0, 1000)


@st.composite
def draw_pieces(draw, text):
    """Draw the text in pieces, none empty."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)) | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(cuts) if a != b]


@st.composite
def draw_calls(draw, first):
    """Draw one to three calls that grow at once, or are complete from their start."""
    asked = [
        ToolCall(f"call_{first + at}", draw(st.sampled_from(["ls", "cat"])), said)
        for at, said in enumerate(
            draw(st.lists(st.sampled_from(["{}", '{"p":"/"}', '{"p":"Ω \\" "}']), min_size=1))[:3]
        )
    ]
    result = [ToolCallStarted(first + at, call.id, call.name) for at, call in enumerate(asked)]
    growth = [
        [ToolCallDelta(first + at, piece) for piece in draw(draw_pieces(call.arguments))]
        if draw(st.booleans())
        else []
        for at, call in enumerate(asked)
    ]
    if draw(st.booleans()):  # all at once
        while any(growth):
            result.append(draw(st.sampled_from([row for row in growth if row])).pop(0))
    else:
        result = [event for row in zip(result, growth, strict=True) for event in (row[0], *row[1])]
    return result + [ToolCallDone(first + at, call) for at, call in enumerate(asked)]


@st.composite
def draw_thoughts(draw):
    """Draw thinking with all that its dialect needs to get it back."""
    text = draw(words)
    kind = draw(st.sampled_from(["openai-chat", "openai-responses", "anthropic", "gemini"]))
    sealing = kind in ("anthropic", "gemini")
    signature = draw(st.sampled_from(["", "EqQB+=="])) if sealing else ""
    shown = [ThinkingDelta(piece) for piece in draw(draw_pieces(text))]
    return [*shown, ThinkingDone(Thinking(kind, text, signature))]


@st.composite
def draw_reply(draw):
    """Draw a complete reply, in which no two texts are neighbours."""
    result, asked = [ReplyStarted("id", "m")], 0
    if draw(st.booleans()):
        result.append(UsageUpdated(Usage(input=draw(counts), output=1)))
    for part in draw(st.lists(st.sampled_from(["text", "thinking", "calls"]), max_size=4)):
        if part == "text":
            result += [TextDelta(piece) for piece in draw(draw_pieces(draw(words)))]
        elif part == "thinking":
            result += draw(draw_thoughts())
        else:
            made = draw(draw_calls(asked))
            asked += sum(isinstance(event, ToolCallStarted) for event in made)
            result += made
    result.append(
        UsageUpdated(
            Usage(
                input=draw(counts),
                cache_read=draw(counts),
                cache_write=draw(counts),
                output=draw(counts),
                reasoning=draw(counts),
            )
        )
    )
    reason = draw(st.sampled_from(["length", "refused", "tool_calls" if asked else "end"]))
    return [*result, ReplyFinished(reason)]


def build_draft(events):
    """Build the reply from its events."""
    draft = ReplyBuilder()
    for event in events:
        draft.add(event)
    return draft


def get_meaning(events, dialect):
    """Return the parts of a reply that a dialect transports, however it was cut into pieces."""
    draft = build_draft(events)
    said = [_simplify_part(part, dialect) for part in draft.build_message().parts]
    if dialect == "openai-chat":  # its text, thinking and calls stand side by side
        said.sort(key=lambda part: part[0])
    merged = []
    for part in said:
        if merged and part[0] == merged[-1][0] != "call":
            last = merged[-1]
            seal = part[2:]
            if dialect == "gemini" and part[0] == "thinking":  # the last seal holds
                seal = (part[2] or last[2],)
            merged[-1] = (part[0], last[1] + part[1], *seal)
        else:
            merged.append(part)
    usage = draft.usage
    if dialect == "anthropic":  # which counts thinking as output
        usage = usage + Usage(output=usage.reasoning, reasoning=-usage.reasoning)
    if dialect == "gemini":  # which does not tell what it wrote into its cache
        usage = usage + Usage(input=usage.cache_write, cache_write=-usage.cache_write)
    return merged, usage, draft.end


def _simplify_part(part, dialect):
    match part:
        case TextPart(text):
            return ("text", text)
        case Thinking():
            return _simplify_thinking(part, dialect)
        case call:
            return ("call", call)


def _simplify_thinking(thinking, dialect):
    """Add the signature, if the dialect has a field for one."""
    if dialect == "openai-chat":
        return ("thinking", thinking.text)
    if dialect == "gemini":
        found = unwrap_thinking(thinking.signature, "") or thinking
        seal = (found.dialect, found.signature) if found.signature else ()
        return ("thinking", thinking.text, seal)
    sealed = thinking.signature
    if thinking.sealed:
        sealed = json.loads(thinking.sealed)["encrypted_content"]
    found = unwrap_thinking(sealed, thinking.text) or thinking
    if found.dialect == dialect:
        return ("thinking", found.text, found.signature)
    return ("thinking", found.text, found.dialect, found.signature)
