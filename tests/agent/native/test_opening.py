"""What a model is told before it says anything."""

from agentd.agent.engine import Assignment
from agentd.agent.native.opening import (
    LONGEST_ADVICE,
    LONGEST_TOOL_NOTE,
    MOST_TOOL_NOTES,
    opening,
    system,
)
from agentd.agent.results import FileText
from agentd.chats.chat import Message
from agentd.proxy.dialects.conversation import Message as Said
from agentd.proxy.dialects.conversation import Text

AT = "2026-01-01T00:00:00.000Z"


def history(*said: tuple[str, str]) -> tuple[Message, ...]:
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


def begun(*said: tuple[str, str]) -> list[tuple[str, list[str]]]:
    transcript = opening(Assignment(1, "now", history=history(*said)))
    assert transcript.prompt == len(transcript.messages) - 1
    return [
        (message.role, [part.text for part in message.parts if isinstance(part, Text)])
        for message in transcript.messages
    ]


def test_without_a_history_there_is_only_the_prompt():
    assert opening(Assignment(1, "now")).messages == (Said("user", (Text("now"),)),)


def test_earlier_messages_alternate_and_begin_with_the_person():
    assert begun(
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
    (_, first), *_ = begun(
        ("user", "a"), ("tool:read_file", "path=a\n→ 3 lines"), ("tool:shell", long),
        ("assistant", "b"),
    )  # fmt: skip
    cut = long[:LONGEST_TOOL_NOTE]
    assert first == ["a", f"[Tools were used: read_file: path=a → 3 lines; shell: {cut}]"]


def test_of_many_earlier_tools_the_latest_are_told():
    uses = [("tool:shell", f"n{number}") for number in range(100)]
    (_, first), *_ = begun(("user", "a"), *uses, ("assistant", "b"))
    assert f"{100 - MOST_TOOL_NOTES} more, then shell: n88" in first[1]
    assert "n99]" in first[1]
    assert "n87" not in first[1]


def test_a_prompt_that_was_never_answered_belongs_to_this_one():
    assert begun(("user", "a"), ("error", "It broke.")) == [
        ("user", ["a", "[The turn failed: It broke.]", "now"])
    ]


def advice(text: str, total: int = 0) -> FileText:
    lines = tuple(text.split("\n"))
    return FileText("AGENTS.md", lines, 1, total or len(lines), len(text))


def test_the_system_prompt_holds_instructions_and_advice():
    prompt = system(Assignment(1, "", instructions=" Speak Dutch. "), advice("Use tabs."))
    assert "Speak Dutch." in prompt
    assert "<AGENTS.md>\nUse tabs.\n</AGENTS.md>" in prompt
    assert "Only the beginning" not in prompt


def test_long_advice_is_cut_and_says_so():
    prompt = system(Assignment(1, ""), advice("y" * 100_000))
    assert len(prompt) < LONGEST_ADVICE + 4000
    assert "Only the beginning" in prompt
    assert "Only the beginning" in system(Assignment(1, ""), advice("a", 900))


def test_the_date_is_told_only_when_it_is_given():
    assert system(Assignment(1, "")) == system(Assignment(1, ""))
    assert "202" not in system(Assignment(1, ""))
    assert "Today is 2026-01-01" in system(Assignment(1, ""), None, AT)
