"""A model's knowledge of a chat is kept unchanged, and read as far as it is sound."""

import asyncio
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engines.native.transcript_file import (
    KeptEnd,
    KeptTranscript,
    KeptTurn,
    TranscriptFiles,
    keep_messages,
    parse_transcript,
)
from agentd.llm.conversation import (
    DocumentPart,
    ImagePart,
    ModelMessage,
    TextPart,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
contents = st.one_of(
    st.builds(TextPart, texts),
    st.builds(ImagePart, st.just("image/png"), texts),
    st.builds(lambda data, name: DocumentPart(data=data, name=name), texts, texts),
)
parts = st.one_of(
    contents,
    st.builds(ToolCall, texts, texts, texts),
    st.builds(ToolResult, texts, st.lists(contents, max_size=2).map(tuple), st.booleans()),
    st.builds(Thinking, st.just("anthropic"), texts, texts, texts),
)
messages = st.lists(
    st.builds(
        ModelMessage, st.sampled_from(["user", "assistant"]), st.lists(parts, max_size=3).map(tuple)
    ),
    max_size=5,
)


def encode_lines(lines) -> bytes:
    return b"".join(map(encode_checksummed, lines))


@given(messages, messages)
def test_what_is_kept_is_read_back_as_it_was(before, after):
    data = encode_lines(
        [*keep_messages(before), KeptTurn(7, "a/b"), *keep_messages(after), KeptEnd()]
    )
    kept, sound = parse_transcript(data)
    assert sound == len(data)
    assert kept.messages == (*before, *after)
    assert (kept.message, kept.model, kept.ended) == (7, "a/b", True)
    if after:
        assert kept.prompt == len(before)


@given(messages.filter(bool), st.integers(0, 10_000))
def test_a_torn_end_costs_only_what_it_tore(said, cut):
    lines = [encode_checksummed(line) for line in [KeptTurn(1, "m"), *keep_messages(said)]]
    data = b"".join(lines)
    kept, sound = parse_transcript(data[: cut % len(data)])
    assert data[:sound] == b"".join(lines[: len(kept.messages) + (sound > 0)])
    assert kept.messages == tuple(said)[: len(kept.messages)]


@pytest.fixture
def files(tmp_path: Path) -> TranscriptFiles:
    (tmp_path / "chats" / "1").mkdir(parents=True)
    return TranscriptFiles(Layout(str(tmp_path), str(tmp_path)))


def make_message(text: str) -> ModelMessage:
    return ModelMessage("user", (TextPart(text),))


def test_a_damaged_line_and_what_follows_is_cut_off_before_more_is_added(files, tmp_path):
    path = tmp_path / "chats" / "1" / "native.jsonl"

    async def run_scenario() -> KeptTranscript:
        await files.append(
            1, [KeptTurn(1, "m"), *keep_messages([make_message("a"), make_message("b")])]
        )
        path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"') + b'{"torn')
        assert (await files.load(1)).messages == (make_message("a"),)
        assert await files.append(1, keep_messages([make_message("c")]))
        return await files.load(1)

    assert asyncio.run(run_scenario()).messages == (make_message("a"), make_message("c"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_replacing_leaves_only_the_new_lines(files):
    async def run_scenario() -> KeptTranscript:
        await files.append(1, [KeptTurn(1, "m"), *keep_messages([make_message("a")])])
        assert await files.replace(1, [KeptTurn(2, "m"), *keep_messages([make_message("b")])])
        return await files.load(1)

    assert asyncio.run(run_scenario()).messages == (make_message("b"),)


def test_a_chat_without_a_folder_is_not_made_and_nothing_is_raised(files, tmp_path):
    async def run_scenario() -> None:
        assert await files.load(2) == KeptTranscript()
        assert not await files.append(2, keep_messages([make_message("a")]))
        assert not await files.replace(2, keep_messages([make_message("a")]))

    asyncio.run(run_scenario())
    assert os.listdir(tmp_path / "chats") == ["1"]
