"""A conversation is made to fit by the stated rule, and stays one that suppliers take."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.agent.engines.native.trimming import (
    LEFT_OUT,
    OLD_ATTACHMENT,
    TurnTranscript,
    cut_results,
    leave_out_old_attachments,
    measure,
    trim,
)
from agentd.llm.conversation import (
    DocumentPart,
    ImagePart,
    ModelMessage,
    TextPart,
    ToolCall,
    ToolResult,
)
from agentd.llm.dialects.message_order import normalize_messages


def make_message(role, text: str) -> ModelMessage:
    return ModelMessage(role, (TextPart(text),))


def make_step(calls: list[str], number: int) -> tuple[ModelMessage, ModelMessage]:
    """Return a reply with calls, and the results of these calls."""
    ids = [f"c{number}.{index}" for index in range(len(calls))]
    asked = tuple(ToolCall(id_, "read_file", '{"path": "a"}') for id_ in ids)
    brought = tuple(
        ToolResult(id_, (TextPart(text),)) for id_, text in zip(ids, calls, strict=True)
    )
    return ModelMessage("assistant", (TextPart("Looking."), *asked)), ModelMessage("user", brought)


LONG = st.integers(0, 3000).map(lambda length: "x" * length)
EXCHANGES = st.lists(st.tuples(LONG, LONG), max_size=5)
STEPS = st.lists(st.lists(LONG, min_size=1, max_size=3), max_size=6)


@st.composite
def transcripts(draw) -> TurnTranscript:
    messages: list[ModelMessage] = []
    number = 0
    for prompt, reply in draw(EXCHANGES):
        messages.append(make_message("user", "earlier " + prompt))
        for calls in draw(st.lists(st.lists(LONG, min_size=1, max_size=2), max_size=2)):
            number += 1
            messages += make_step(calls, number)
        messages.append(make_message("assistant", "reply " + reply))
    at = len(messages)
    messages.append(make_message("user", "the prompt " + draw(LONG)))
    for calls in draw(STEPS):
        number += 1
        messages += make_step(calls, number)
    return TurnTranscript(tuple(messages), at)


ROOMS = st.integers(-100, 30_000)


def list_texts(message: ModelMessage) -> list[str]:
    return [
        part.content[0].text if isinstance(part, ToolResult) else getattr(part, "text", "")
        for part in message.parts
    ]


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_the_prompt_stays_and_every_call_keeps_its_result(transcript, room):
    short = trim(transcript, room)
    assert short.messages[short.prompt] == transcript.messages[transcript.prompt]
    normalize_messages(short.messages)
    assert short.messages[0].role == "user"


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_it_fits_or_there_is_nothing_left_to_leave_out(transcript, room):
    short = trim(transcript, room)
    if measure(short.messages) > max(room, 0):
        assert short.prompt == 0
        assert len(short.messages) <= 3
        for message in short.messages:
            for part, text in zip(message.parts, list_texts(message), strict=True):
                if isinstance(part, ToolResult):
                    assert len(text) <= len(LEFT_OUT)


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_what_fits_is_not_touched_and_trimming_twice_changes_nothing(transcript, room):
    if measure(transcript.messages) <= room:
        assert trim(transcript, room) is transcript
    once = trim(transcript, room)
    assert trim(once, room) == once


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_what_stays_is_in_order_and_as_it_was_but_for_left_out_results(transcript, room):
    rest = iter(transcript.messages)
    for message in trim(transcript, room).messages:
        assert any(
            message.role == old.role
            and len(message.parts) == len(old.parts)
            and all(
                new in (was, LEFT_OUT)
                for new, was in zip(list_texts(message), list_texts(old), strict=True)
            )
            for old in rest
        )


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_the_latest_step_of_the_turn_is_always_there(transcript, room):
    steps = transcript.messages[transcript.prompt + 1 :]
    if steps:
        short = trim(transcript, room)
        assert short.messages[-2].parts == steps[-2].parts


def test_old_results_go_before_exchanges_and_the_latest_results_last():
    big = "y" * 4000
    transcript = TurnTranscript(
        (
            make_message("user", "one"),
            make_message("assistant", "two " + big),
            make_message("user", "prompt"),
            *make_step([big, big], 1),
            *make_step([big], 2),
        ),
        2,
    )
    whole = measure(transcript.messages)
    first = trim(transcript, whole - 1)
    assert [list_texts(message) for message in first.messages[3:]] == [
        ["Looking.", "", ""],
        [LEFT_OUT, LEFT_OUT],
        ["Looking.", ""],
        [big],
    ]
    assert len(first.messages) == len(transcript.messages)
    second = trim(transcript, 7000)
    assert list_texts(second.messages[0]) == ["prompt"]
    assert list_texts(second.messages[-1]) == [big]
    third = trim(transcript, 100)
    assert [list_texts(message)[0] for message in third.messages] == [
        "prompt",
        "Looking.",
        LEFT_OUT,
    ]


def test_the_oldest_images_are_left_out_where_all_are_too_large_to_be_sent():
    picture = ImagePart("image/png", "x" * 4_000_000)
    document = DocumentPart(data="y" * 6_000_000, name="a.pdf")
    steps = [
        message
        for number in range(5)
        for message in (
            ModelMessage("assistant", (ToolCall(f"c{number}", "view_file", "{}"),)),
            ModelMessage("user", (ToolResult(f"c{number}", (TextPart("a.png"), picture)),)),
        )
    ]
    prompt = ModelMessage("user", (TextPart("Look."), document))
    transcript = TurnTranscript((prompt, *steps), 0)
    assert leave_out_old_attachments(transcript) is transcript  # 26 of 28 MB
    longer = TurnTranscript((make_message("user", "x"), steps[-1], *transcript.messages), 2)
    shown = leave_out_old_attachments(longer).messages
    assert shown[2] == prompt
    assert [picture in message.parts[0].content for message in (shown[1], *shown[4::2])] == [
        *[False] * 4,
        *[True] * 2,
    ]
    assert shown[1].parts[0].content == (TextPart("a.png"), OLD_ATTACHMENT)


def make_results(*texts: str) -> list[ToolResult]:
    return [ToolResult(f"c{number}", (TextPart(text),)) for number, text in enumerate(texts)]


@settings(deadline=None)
@given(st.lists(LONG | LONG.map(lambda text: text.replace("x", "ü")), max_size=6), ROOMS)
def test_the_results_of_a_step_fill_half_of_the_room_at_most(texts, room):
    results = make_results(*texts)
    cut = cut_results(results, room)
    most = max(room // 2, 2000)
    whole = sum(len(text.encode()) for text in texts)
    assert [one.id for one in cut] == [one.id for one in results]
    if whole <= most:
        assert list(cut) == results
    else:
        notes = 150 * len(texts)
        assert sum(len(one.content[0].text.encode()) for one in cut) <= most + notes


def test_of_the_results_of_a_step_the_longest_are_cut_in_the_middle():
    short, long, longer = "a" * 100, "b" * 3000 + "end", "c" * 9000 + "end"
    first, second, third = (
        one.content[0].text for one in cut_results(make_results(short, long, longer), 8200)
    )
    assert first == short
    assert second.startswith("bbb") and second.endswith("bend")
    assert "1,003 bytes are left out here" in second
    assert "7,003 bytes are left out here" in third
