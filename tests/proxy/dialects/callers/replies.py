"""Replies as suppliers' readers tell them, of every shape, and what of one must arrive."""

import itertools
import json

from hypothesis import strategies as st

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import (
    told_anthropic,
    told_chat,
    told_gemini,
    told_responses,
)
from agentd.proxy.dialects.callers.seals import unsealed
from agentd.proxy.dialects.conversation import (
    CallDelta,
    CallDone,
    CallStarted,
    Draft,
    Finished,
    Started,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    UsageSeen,
)
from agentd.proxy.price import Usage

GLANCE = Glance("m", stream=True)


WRITERS = {
    "openai-chat": lambda glance=GLANCE: told_chat.Writer(glance, "r1", 17),
    "openai-responses": lambda glance=GLANCE: told_responses.Writer(glance, "r1", 17),
    "anthropic": lambda glance=GLANCE: told_anthropic.Writer(glance, "r1", 17),
    "gemini": lambda glance=GLANCE: told_gemini.Writer(glance, "r1", 17),
}
WHOLE = {
    "openai-chat": told_chat.whole,
    "openai-responses": told_responses.whole,
    "anthropic": told_anthropic.whole,
    "gemini": told_gemini.whole,
}

LOOK = [
    Started("x9", "supplier's own"),
    ThinkingDelta("Which "),
    ThinkingDelta("one?"),
    ThinkingDone(Thinking("openai-chat", "Which one?")),
    TextDelta("I look"),
    TextDelta(" around Ω🎉."),
    CallStarted(0, "call_1", "ls"),
    CallDelta(0, '{"p":'),
    CallStarted(1, "call_2", "cat"),
    CallDelta(1, '{"f":"a\\n'),
    CallDelta(0, '"/"}'),
    CallDelta(1, 'b"}'),
    CallDone(0, ToolCall("call_1", "ls", '{"p":"/"}')),
    CallDone(1, ToolCall("call_2", "cat", '{"f":"a\\nb"}')),
    UsageSeen(Usage(input=10, cache_read=20, cache_write=3, output=5, reasoning=4)),
    Finished("tool_calls"),
]
"""Thought, text, and two calls that grow at once."""

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
counts = st.integers(0, 1000)


@st.composite
def pieces_of(draw, text):
    """The text in pieces, none empty."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)) | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(cuts) if a != b]


@st.composite
def calls(draw, first):
    """One to three calls that may grow at once, or whole from their start."""
    asked = [
        ToolCall(f"call_{first + at}", draw(st.sampled_from(["ls", "cat"])), said)
        for at, said in enumerate(
            draw(st.lists(st.sampled_from(["{}", '{"p":"/"}', '{"p":"Ω \\" "}']), min_size=1))[:3]
        )
    ]
    told = [CallStarted(first + at, call.id, call.name) for at, call in enumerate(asked)]
    growth = [
        [CallDelta(first + at, piece) for piece in draw(pieces_of(call.arguments))]
        if draw(st.booleans())
        else []
        for at, call in enumerate(asked)
    ]
    if draw(st.booleans()):  # all at once
        while any(growth):
            told.append(draw(st.sampled_from([row for row in growth if row])).pop(0))
    else:
        told = [event for row in zip(told, growth, strict=True) for event in (row[0], *row[1])]
    return told + [CallDone(first + at, call) for at, call in enumerate(asked)]


@st.composite
def thoughts(draw):
    """Thinking with what each dialect needs to have it back."""
    text = draw(words)
    kind = draw(st.sampled_from(["openai-chat", "openai-responses", "anthropic", "gemini"]))
    sealing = kind in ("anthropic", "gemini")
    signature = draw(st.sampled_from(["", "EqQB+=="])) if sealing else ""
    shown = [ThinkingDelta(piece) for piece in draw(pieces_of(text))]
    return [*shown, ThinkingDone(Thinking(kind, text, signature))]


@st.composite
def replies(draw):
    """A whole reply. What follows text directly is no text, as with every reader."""
    told, asked = [Started("id", "m")], 0
    if draw(st.booleans()):
        told.append(UsageSeen(Usage(input=draw(counts), output=1)))
    for part in draw(st.lists(st.sampled_from(["text", "thinking", "calls"]), max_size=4)):
        if part == "text":
            told += [TextDelta(piece) for piece in draw(pieces_of(draw(words)))]
        elif part == "thinking":
            told += draw(thoughts())
        else:
            made = draw(calls(asked))
            asked += sum(isinstance(event, CallStarted) for event in made)
            told += made
    told.append(
        UsageSeen(
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
    return [*told, Finished(reason)]


def drafted(events):
    """The reply that the events make."""
    draft = Draft()
    for event in events:
        draft.add(event)
    return draft


def meaning(events, dialect):
    """What of a reply arrives in this dialect, comparable, however it was cut into pieces."""
    draft = drafted(events)
    said = [_plain(part, dialect) for part in draft.message().parts]
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


def _plain(part, dialect):
    match part:
        case Text(text):
            return ("text", text)
        case Thinking():
            return _thought(part, dialect)
        case call:
            return ("call", call)


def _thought(thinking, dialect):
    """With the seal on it, where the dialect has a place for one."""
    if dialect == "openai-chat":
        return ("thinking", thinking.text)
    if dialect == "gemini":
        found = unsealed(thinking.signature, "") or thinking
        seal = (found.dialect, found.signature) if found.signature else ()
        return ("thinking", thinking.text, seal)
    sealed = thinking.signature
    if thinking.sealed:
        sealed = json.loads(thinking.sealed)["encrypted_content"]
    found = unsealed(sealed, thinking.text) or thinking
    if found.dialect == dialect:
        return ("thinking", found.text, found.signature)
    return ("thinking", found.text, found.dialect, found.signature)
