"""What a person says, and what is to be done about it: the machine alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.bots.conversation import (
    Ask,
    Begin,
    Choose,
    Decide,
    Instruction,
    Leave,
    Listen,
    Look,
    Say,
    ShowModels,
    ShowQueue,
    ShowStatus,
    Stop,
    TakeUp,
    instruction,
    keyboard,
    marks,
    question_keys,
)
from agentd.bots.memory import MOST_BUTTONS, Link, Memory
from agentd.bots.messenger import Attachment, Incoming

HERE, CHAT = 5, 17
NOW = "2026-01-10T00:00:00.000Z"


def told(text: str, *, linked: bool = True) -> Instruction:
    """What is to be done about a text."""
    memory = Memory(links={HERE: Link(CHAT)} if linked else {})
    return instruction(Incoming(1, HERE, 1, text=text), memory)


@pytest.mark.parametrize(
    ("text", "linked", "alone"),
    [
        ("do it", Ask(CHAT, "do it"), Begin("do it")),
        ("/new", Leave(), Leave()),
        ("/new tidy up", Begin("tidy up"), Begin("tidy up")),
        ("/NEW@the_bot a\nb", Begin("a\nb"), Begin("a\nb")),
        ("/stop", Stop(CHAT), None),
        ("/status", ShowStatus(CHAT), None),
        ("/queue", ShowQueue(CHAT), None),
        ("/model", ShowModels(CHAT), ShowModels(0)),
        ("/model opus", Choose(CHAT, "opus"), ShowModels(0)),
        ("/approve", Decide(CHAT, 0, True), None),
        ("/approve 9", Decide(CHAT, 9, True), None),
        ("/approve always", Decide(CHAT, 0, True, session=True), None),
        ("/deny", Decide(CHAT, 0, False), None),
        ("/deny always", Decide(CHAT, 0, False), None),
        ("/approve x", None, None),
        ("/approve 9999999999999999", None, None),
        ("/chat 3", TakeUp(3), TakeUp(3)),
        ("/chat x", None, None),
        ("/unknown", None, None),
        ("/etc/passwd is odd", Ask(CHAT, "/etc/passwd is odd"), Begin("/etc/passwd is odd")),
        ("  ", None, None),
    ],
)
def test_each_text_has_its_meaning(
    text: str, linked: Instruction | None, alone: Instruction | None
) -> None:
    for found, expected in [(told(text), linked), (told(text, linked=False), alone)]:
        if expected is None:
            assert isinstance(found, Say)
        else:
            assert found == expected


@given(st.text(), st.text(), st.booleans())
def test_nothing_that_is_said_or_pressed_breaks_it(text: str, data: str, linked: bool) -> None:
    memory = Memory(links={HERE: Link(CHAT)} if linked else {})
    instruction(Incoming(1, HERE, 1, text=text), memory)
    instruction(Incoming(1, HERE, 1, press="p", data=data), memory)


def test_voice_and_photos_are_known() -> None:
    voice, photo = Attachment("a", "voice", "v.ogg"), Attachment("b", "photo", "p.jpg")
    assert instruction(Incoming(1, HERE, 1, attachment=voice), Memory()) == Listen(voice)
    found = instruction(Incoming(1, HERE, 1, text="/stop", attachment=photo), Memory())
    assert found == Look(photo, "/stop")


def test_a_button_says_its_prompt_in_its_own_chat() -> None:
    memory = Memory(links={HERE: Link(99)})
    (row,) = keyboard("ok\n[[Yes|do go on]] [[No]]", CHAT, memory)
    assert [key.label for key in row] == ["Yes", "No"]
    pressed = [instruction(Incoming(1, HERE, 1, press="p", data=key.data), memory) for key in row]
    assert pressed == [Ask(CHAT, "do go on"), Ask(CHAT, "No")]


def test_old_buttons_are_forgotten_and_say_so() -> None:
    memory = Memory()
    (first,) = keyboard("x\n[[A|a]]", CHAT, memory)
    for _ in range(MOST_BUTTONS):
        keyboard("x\n[[B|b]]", CHAT, memory)
    assert len(memory.buttons) == MOST_BUTTONS
    found = instruction(Incoming(1, HERE, 1, press="p", data=first[0].data), memory)
    assert isinstance(found, Say)


@given(st.integers(1, 2**53 - 1), st.integers(1, 2**53 - 1), st.text(), st.integers(0, 2**53 - 1))
def test_what_a_button_carries_has_at_most_64_bytes(
    chat: int, number: int, label: str, last: int
) -> None:
    memory = Memory(last_button=last)
    keys = (*question_keys(chat, number), *keyboard(f"x\n[[{label}|p]] [[q]]", chat, memory))
    assert all(len(key.data.encode()) <= 64 and key.label for row in keys for key in row)


def test_questions_of_chats_of_others_are_not_answered() -> None:
    data = question_keys(CHAT, 3)[0][0].data
    press = Incoming(1, HERE, 1, press="p", data=data)
    assert isinstance(instruction(press, Memory(links={HERE: Link(CHAT + 1)})), Say)
    assert instruction(press, Memory(links={HERE: Link(CHAT)})) == Decide(CHAT, 3, True)


def test_marks_are_rows_at_the_end_alone() -> None:
    assert marks("[[no]] in the middle\nend") == []
    reply = "text\n[[a|1]] [[b]]\n[[c|]]"
    assert marks(reply) == [[("a", "1"), ("b", "b")], [("c", "c")]]


def test_an_old_offset_counts_no_more() -> None:
    """The messenger keeps updates for a day, and after a week counts from elsewhere."""
    memory = Memory()
    assert memory.next_offset(NOW) == 0
    memory.heard(41, "2026-01-09T00:00:00.000Z")
    assert memory.next_offset(NOW) == 42
    assert memory.next_offset("2026-01-12T00:00:00.000Z") == 0
    memory.belongs_to(7)
    assert memory.next_offset(NOW) == 0
