"""A conversation is made to fit by the stated rule, and stays one that suppliers take."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.agent.native.trimming import LEFT_OUT, Transcript, size, trimmed
from agentd.proxy.dialects.conversation import Message, Text, ToolCall, ToolResult
from agentd.proxy.dialects.turns import settled


def said(role, text: str) -> Message:
    return Message(role, (Text(text),))


def step(calls: list[str], number: int) -> tuple[Message, Message]:
    """A reply with calls, and what they brought."""
    ids = [f"c{number}.{index}" for index in range(len(calls))]
    asked = tuple(ToolCall(id_, "read_file", '{"path": "a"}') for id_ in ids)
    brought = tuple(ToolResult(id_, (Text(text),)) for id_, text in zip(ids, calls, strict=True))
    return Message("assistant", (Text("Looking."), *asked)), Message("user", brought)


LONG = st.integers(0, 3000).map(lambda length: "x" * length)
EXCHANGES = st.lists(st.tuples(LONG, LONG), max_size=5)
STEPS = st.lists(st.lists(LONG, min_size=1, max_size=3), max_size=6)


@st.composite
def transcripts(draw) -> Transcript:
    messages: list[Message] = []
    number = 0
    for prompt, reply in draw(EXCHANGES):
        messages.append(said("user", "earlier " + prompt))
        for calls in draw(st.lists(st.lists(LONG, min_size=1, max_size=2), max_size=2)):
            number += 1
            messages += step(calls, number)
        messages.append(said("assistant", "reply " + reply))
    at = len(messages)
    messages.append(said("user", "the prompt " + draw(LONG)))
    for calls in draw(STEPS):
        number += 1
        messages += step(calls, number)
    return Transcript(tuple(messages), at)


ROOMS = st.integers(-100, 30_000)


def texts(message: Message) -> list[str]:
    return [
        part.content[0].text if isinstance(part, ToolResult) else getattr(part, "text", "")
        for part in message.parts
    ]


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_the_prompt_stays_and_every_call_keeps_its_result(transcript, room):
    short = trimmed(transcript, room)
    assert short.messages[short.prompt] == transcript.messages[transcript.prompt]
    settled(short.messages)
    assert short.messages[0].role == "user"


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_it_fits_or_there_is_nothing_left_to_leave_out(transcript, room):
    short = trimmed(transcript, room)
    if size(short.messages) > max(room, 0):
        assert short.prompt == 0
        assert len(short.messages) <= 3
        for message in short.messages:
            for part, text in zip(message.parts, texts(message), strict=True):
                if isinstance(part, ToolResult):
                    assert len(text) <= len(LEFT_OUT)


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_what_fits_is_not_touched_and_trimming_twice_changes_nothing(transcript, room):
    if size(transcript.messages) <= room:
        assert trimmed(transcript, room) is transcript
    once = trimmed(transcript, room)
    assert trimmed(once, room) == once


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_what_stays_is_in_order_and_as_it_was_but_for_left_out_results(transcript, room):
    rest = iter(transcript.messages)
    for message in trimmed(transcript, room).messages:
        assert any(
            message.role == old.role
            and len(message.parts) == len(old.parts)
            and all(
                new in (was, LEFT_OUT) for new, was in zip(texts(message), texts(old), strict=True)
            )
            for old in rest
        )


@settings(deadline=None)
@given(transcripts(), ROOMS)
def test_the_latest_step_of_the_turn_is_always_there(transcript, room):
    steps = transcript.messages[transcript.prompt + 1 :]
    if steps:
        short = trimmed(transcript, room)
        assert short.messages[-2].parts == steps[-2].parts


def test_old_results_go_before_exchanges_and_the_latest_results_last():
    big = "y" * 4000
    transcript = Transcript(
        (
            said("user", "one"),
            said("assistant", "two " + big),
            said("user", "prompt"),
            *step([big, big], 1),
            *step([big], 2),
        ),
        2,
    )
    whole = size(transcript.messages)
    first = trimmed(transcript, whole - 1)
    assert [texts(message) for message in first.messages[3:]] == [
        ["Looking.", "", ""],
        [LEFT_OUT, LEFT_OUT],
        ["Looking.", ""],
        [big],
    ]
    assert len(first.messages) == len(transcript.messages)
    second = trimmed(transcript, 7000)
    assert texts(second.messages[0]) == ["prompt"]
    assert texts(second.messages[-1]) == [big]
    third = trimmed(transcript, 100)
    assert [texts(message)[0] for message in third.messages] == ["prompt", "Looking.", LEFT_OUT]
