"""The start of a turn's conversation: kept messages come first, then what happened since."""

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.native.compaction import apply_summary
from agentd.agent.engines.native.opening import (
    LONGEST_TOOL_NOTE,
    MOST_TOOL_NOTES,
    NO_RESULT,
    build_initial_messages,
    open_conversation,
)
from agentd.agent.engines.native.transcript_file import KeptTranscript
from agentd.agent.engines.native.trimming import trim
from agentd.chats.model import Message
from agentd.llm.conversation import ModelMessage as Said
from agentd.llm.conversation import TextPart, Thinking, ToolCall, ToolResult
from agentd.llm.dialects.message_order import normalize_messages

AT = "2026-01-01T00:00:00.000Z"
PROMPT = Said("user", (TextPart("first"),))
REPLY = Said("assistant", (Thinking("anthropic", "hm", "seal"), TextPart("done")))
CALLS = Said("assistant", (TextPart("I look."), ToolCall("c1", "shell", '{"command": "x"}')))


def make_history(*said: tuple[str, str]) -> tuple[Message, ...]:
    return tuple(
        Message(
            number,
            role.partition(":")[0],  # type: ignore[arg-type]
            text,
            AT,
            tool=role.partition(":")[2],
        )
        for number, (role, text) in enumerate(said, 1)
    )


def read_initial_messages(*said: tuple[str, str]) -> list[tuple[str, list[str]]]:
    transcript = build_initial_messages(TurnRequest(1, "now", history=make_history(*said)))
    assert transcript.prompt == len(transcript.messages) - 1
    return [
        (message.role, [part.text for part in message.parts if isinstance(part, TextPart)])
        for message in transcript.messages
    ]


def test_without_a_history_there_is_only_the_prompt():
    assert build_initial_messages(TurnRequest(1, "now")).messages == (
        Said("user", (TextPart("now"),)),
    )


def test_earlier_messages_alternate_and_begin_with_the_person():
    assert read_initial_messages(
        ("assistant", "lost beginning"),
        ("user", "a"),
        ("assistant", "b"),
        ("assistant", "c"),
        ("user", "d"),
        ("assistant", "e"),
    ) == [
        ("user", ["a"]),
        ("assistant", ["b", "c"]),
        ("user", ["d"]),
        ("assistant", ["e"]),
        ("user", ["now"]),
    ]


def test_earlier_tools_are_short_notes_beside_the_prompt_that_led_to_them():
    long = "x" * 5000
    (_, first), *_ = read_initial_messages(
        ("user", "a"), ("tool:read_file", "path=a\n→ 3 lines"), ("tool:shell", long),
        ("assistant", "b"),
    )  # fmt: skip
    cut = long[:LONGEST_TOOL_NOTE]
    assert first == ["a", f"[Tools were used: read_file: path=a → 3 lines; shell: {cut}]"]


def test_of_many_earlier_tools_the_latest_are_told():
    uses = [("tool:shell", f"n{number}") for number in range(100)]
    (_, first), *_ = read_initial_messages(("user", "a"), *uses, ("assistant", "b"))
    assert f"{100 - MOST_TOOL_NOTES} more, then shell: n88" in first[1]
    assert "n99]" in first[1]
    assert "n87" not in first[1]


def test_a_prompt_that_was_never_answered_belongs_to_this_one():
    assert read_initial_messages(("user", "a"), ("error", "It broke.")) == [
        ("user", ["a", "[The turn failed: It broke.]", "now"])
    ]


def make_transcript(*messages: Said, ended: bool = True, message: int = 1) -> KeptTranscript:
    return KeptTranscript(messages, "acme/large", message, 0, ended)


def request(prompt: str = "second", **more) -> TurnRequest:
    return TurnRequest(1, prompt, **{"model": "large", "supplier": "acme", "message": 9, **more})


def test_what_is_kept_comes_first_and_unchanged():
    opened = open_conversation(request(), make_transcript(PROMPT, REPLY))
    assert opened.messages == (PROMPT, REPLY, Said("user", (TextPart("second"),)))
    assert opened.prompt == 2


def test_without_anything_kept_the_history_is_told():
    past = make_history(("user", "a"), ("assistant", "b"))
    opened = open_conversation(request(history=past), KeptTranscript())
    assert [message.role for message in opened.messages] == ["user", "assistant", "user"]


def test_the_thinking_of_another_model_is_left_out():
    opened = open_conversation(request(model="small"), make_transcript(PROMPT, REPLY))
    assert opened.messages[1] == Said("assistant", (TextPart("done"),))


def test_a_prompt_sent_again_to_another_model_is_found_behind_thinking_that_is_left_out():
    alone = Said("assistant", (Thinking("anthropic", "hm", "seal"),))
    again = Said("user", (TextPart("again"),))
    kept = KeptTranscript((PROMPT, alone, PROMPT, again, CALLS), "acme/large", 9, 3, ended=False)
    opened = open_conversation(request("again", model="small"), kept)
    assert opened.messages[opened.prompt] == again


def test_calls_without_a_result_are_answered_and_the_stop_is_told():
    past = (
        Message(1, "user", "first", AT),
        Message(2, "tool", "The turn was stopped by a person.", AT, tool="stop"),
    )
    opened = open_conversation(request(history=past), make_transcript(PROMPT, CALLS, ended=False))
    assert opened.messages[2].parts == (ToolResult("c1", (TextPart(NO_RESULT),), True),)
    note, prompt = opened.messages[3].parts
    assert isinstance(note, TextPart) and "person stopped the turn" in note.text
    assert prompt == TextPart("second") and opened.prompt == 3
    normalize_messages(opened.messages)


def test_the_answers_to_open_calls_are_left_out_with_the_calls():
    opened = open_conversation(request(), make_transcript(PROMPT, CALLS, ended=False))
    shortest = trim(opened, 0)
    assert shortest.messages == opened.messages[-1:]
    normalize_messages(shortest.messages)
    summed_up = apply_summary(opened, "We began.", 1_000)
    normalize_messages(summed_up.messages)


def test_a_failure_is_told_with_its_reason_and_an_old_one_is_not():
    past = (Message(1, "error", "Old.", AT), Message(3, "error", "It broke.", AT))
    unended = make_transcript(PROMPT, ended=False, message=2)
    (note, _) = open_conversation(request(history=past), unended).messages[1].parts
    assert isinstance(note, TextPart) and "It broke." in note.text
    (note, _) = open_conversation(request(), unended).messages[1].parts
    assert isinstance(note, TextPart) and "was interrupted" in note.text


def test_what_other_engines_said_since_is_told_beside_the_prompt():
    missed = (Message(5, "user", "And you?", AT), Message(6, "assistant", "Me too.", AT))
    (news, _) = (
        open_conversation(request(missed=missed), make_transcript(PROMPT, REPLY)).messages[2].parts
    )
    assert isinstance(news, TextPart) and "User: And you?\n\nAssistant: Me too." in news.text


def test_a_prompt_that_is_sent_again_goes_on_where_it_was():
    again = request("first", message=1)
    assert open_conversation(again, make_transcript(PROMPT, ended=False)).messages == (PROMPT,)
    opened = open_conversation(again, make_transcript(PROMPT, CALLS, ended=False))
    assert opened.prompt == 0
    assert opened.messages[:2] == (PROMPT, CALLS)
    assert [type(part) for part in opened.messages[2].parts] == [ToolResult, TextPart]
    normalize_messages(opened.messages)
