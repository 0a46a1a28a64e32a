"""Conversations of any kind, limited to those that a dialect can express without loss."""

import base64
import json

from hypothesis import strategies as st
from msgspec import structs

from agentd.llm.conversation import (
    Conversation,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    TextPart,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects.anthropic.upstream import PICTURES
from agentd.llm.dialects.message_order import normalize_messages
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=3)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
TEXTS = st.text(min_size=1, max_size=30).map(TextPart)
BASE64 = st.binary(min_size=1).map(lambda data: base64.b64encode(data).decode())
IMAGES = st.builds(ImagePart, st.sampled_from(PICTURES), BASE64) | st.builds(
    ImagePart, url=NAMES.map("https://host/{}.png".format)
)
SCHEMAS = OBJECTS.map(lambda schema: {**schema, "type": "object"})


def draw_texts(dialect):
    """Return a strategy for texts; Anthropic receives none that is all whitespace."""
    return TEXTS.filter(lambda part: part.text.strip()) if dialect == "anthropic" else TEXTS


def draw_thoughts(dialect):
    """Return a strategy for thinking, as it goes back to the same dialect."""
    if dialect == "anthropic":
        signed = st.builds(Thinking, st.just(dialect), st.text(), st.text(min_size=1))
        return signed | st.builds(Thinking, st.just(dialect), sealed=st.text(min_size=1))
    if dialect == "openai-responses":
        return st.builds(
            lambda name, said, sealed: openai_responses_upstream.parse_reasoning(
                {
                    "type": "reasoning",
                    "id": name,
                    "summary": [{"type": "summary_text", "text": text} for text in said],
                    "encrypted_content": sealed,
                }
            ),
            NAMES,
            st.lists(st.text(min_size=1), max_size=2),
            st.text(min_size=1),
        )
    return st.nothing()


@st.composite
def draw_reply(draw, dialect):
    """Draw a reply of the model and, if it calls tools, their results."""
    thought = draw(st.lists(draw_thoughts(dialect), max_size=1)) if dialect != "openai-chat" else []
    said = draw(st.lists(draw_texts(dialect), max_size=1 if dialect == "openai-chat" else 2))
    ids = draw(st.lists(NAMES, max_size=2, unique=True))
    calls = [ToolCall(call, draw(NAMES), json.dumps(draw(OBJECTS))) for call in ids]
    parts = (*thought, *said, *calls) or (TextPart("."),)
    results = tuple(draw(draw_tool_result(dialect, call)) for call in ids)
    return [ModelMessage("assistant", parts), *([ModelMessage("user", results)] if results else [])]


@st.composite
def draw_tool_result(draw, dialect, call):
    """Draw the result of a call, as far as the dialect can express it."""
    if dialect == "anthropic":
        content = draw(st.lists(draw_texts(dialect) | IMAGES, max_size=3))
        return ToolResult(call, tuple(content), draw(st.booleans()))
    content = draw(st.lists(TEXTS, max_size=1))
    if dialect == "openai-responses":
        content += draw(st.lists(IMAGES, max_size=2))
    return ToolResult(call, tuple(content))


@st.composite
def draw_messages(draw, dialect):
    """Draw the messages up to now, beginning with the user's."""
    pieces = draw_texts(dialect) | IMAGES
    said = [ModelMessage("user", tuple(draw(st.lists(pieces, min_size=1, max_size=3))))]
    for _ in range(draw(st.integers(0, 2))):
        said += draw(draw_reply(dialect))
        fewest = 0 if said[-1].role == "user" else 1
        prompt = draw(st.lists(pieces, min_size=fewest, max_size=2))
        said.append(ModelMessage("user", tuple(prompt)))
    return tuple(said)


@st.composite
def draw_conversation(draw, dialect):
    """Draw a conversation that the dialect can express without loss."""
    claude, chat = dialect == "anthropic", dialect == "openai-chat"
    tools = draw(
        st.lists(st.builds(ToolDefinition, NAMES, st.text(), SCHEMAS, st.booleans()), max_size=2)
    )
    choices = st.sampled_from(["auto", "required", "none"]) | st.builds(NamedTool, NAMES)
    choice = draw(choices) if tools else "auto"
    efforts = ["", "low", "high", *(["2000"] if claude else ["minimal", "medium"])]
    effort = draw(st.sampled_from(efforts))
    likely = st.none() | st.floats(0, 1)
    named = st.builds(JsonFormat, SCHEMAS, NAMES, st.text(), st.booleans())
    formats = named | st.just(JsonFormat())
    if claude:
        formats = st.builds(JsonFormat, SCHEMAS, strict=st.just(True))
    return Conversation(
        messages=draw(draw_messages(dialect)),
        system=draw(st.text(max_size=30).filter(lambda text: not (claude and text.isspace()))),
        tools=tuple(tools),
        tool_choice=choice,
        parallel_tool_calls=draw(st.booleans())
        if tools and not (claude and choice == "none")
        else True,
        max_output=draw(st.integers(2001 if claude else 0, 10**6)),
        reasoning_effort=effort,
        keep_thinking=dialect == "openai-responses" and (bool(effort) or draw(st.booleans())),
        temperature=None if claude and effort else draw(likely),
        top_p=draw(likely),
        top_k=draw(st.none() | st.integers(1, 100)) if claude else None,
        seed=draw(st.none() | st.integers(-(2**63), 2**63 - 1)) if chat else None,
        stop_sequences=tuple(draw(st.lists(st.text(), max_size=2))) if claude or chat else (),
        response_format=draw(st.none() | formats),
        verbosity="" if claude else draw(st.sampled_from(["", "low", "high"])),
        user=draw(st.text(max_size=64)),
        cache_key=draw(st.text(max_size=9)) if dialect == "openai-responses" else "",
    )


def normalize(conversation):
    """Merge neighbouring messages and put results first, as every writer does."""
    return structs.replace(conversation, messages=tuple(normalize_messages(conversation.messages)))
