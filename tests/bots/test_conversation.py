"""The instructions that follow from a person's messages: the state machine alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.bots.conversation import (
    AdoptChat,
    AnswerApproval,
    AnswerInWords,
    AttachImage,
    BeginChat,
    ChooseAnswer,
    ChooseMode,
    ChooseModel,
    Instruction,
    LeaveChat,
    SendPrompt,
    SendText,
    ShowModels,
    ShowModes,
    ShowQueue,
    ShowStatus,
    StopChatTurn,
    TranscribeVoice,
    build_approval_keyboard,
    build_keyboard,
    find_answered,
    parse_buttons,
    parse_update,
)
from agentd.bots.messenger import Attachment, IncomingUpdate
from agentd.bots.state import MOST_BUTTONS, BotState, ChatLink
from agentd.chats.approval import Approval, ApprovalKind

HERE, CHAT = 5, 17
NOW = "2026-01-10T00:00:00.000Z"


def parse_text(text: str, *, linked: bool = True) -> Instruction:
    """Return the instruction that a text leads to."""
    memory = BotState(links={HERE: ChatLink(CHAT)} if linked else {})
    return parse_update(IncomingUpdate(1, HERE, 1, text=text), memory)


def make_question(number: int, kind: ApprovalKind = "shell", *choices: str) -> Approval:
    """Return an open question."""
    return Approval(number, kind, "tool", "Which?", NOW, choices=choices)


@pytest.mark.parametrize(
    ("text", "linked", "alone"),
    [
        ("do it", SendPrompt(CHAT, "do it"), BeginChat("do it")),
        ("/new", LeaveChat(), LeaveChat()),
        ("/new tidy up", BeginChat("tidy up"), BeginChat("tidy up")),
        ("/NEW@the_bot a\nb", BeginChat("a\nb"), BeginChat("a\nb")),
        ("/stop", StopChatTurn(CHAT), None),
        ("/status", ShowStatus(CHAT), None),
        ("/queue", ShowQueue(CHAT), None),
        ("/model", ShowModels(CHAT), ShowModels(0)),
        ("/model opus", ChooseModel(CHAT, "opus"), None),
        ("/mode", ShowModes(CHAT), None),
        ("/mode plan", ChooseMode(CHAT, "plan"), None),
        ("/mode Off", ChooseMode(CHAT, ""), None),
        ("/approve", AnswerApproval(CHAT, 0, True), None),
        ("/approve 9", AnswerApproval(CHAT, 9, True), None),
        ("/approve always", AnswerApproval(CHAT, 0, True, session=True), None),
        ("/deny", AnswerApproval(CHAT, 0, False), None),
        ("/deny always", AnswerApproval(CHAT, 0, False, True), None),
        ("/approve x", None, None),
        ("/approve 9999999999999999", None, None),
        ("/answer the  red\none", AnswerInWords(CHAT, "the  red\none"), None),
        ("/answer", None, None),
        ("/chat 3", AdoptChat(3), AdoptChat(3)),
        ("/chat x", None, None),
        ("/unknown", None, None),
        (
            "/etc/passwd is odd",
            SendPrompt(CHAT, "/etc/passwd is odd"),
            BeginChat("/etc/passwd is odd"),
        ),
        ("  ", None, None),
    ],
)
def test_each_text_has_its_meaning(
    text: str, linked: Instruction | None, alone: Instruction | None
) -> None:
    for found, expected in [(parse_text(text), linked), (parse_text(text, linked=False), alone)]:
        if expected is None:
            assert isinstance(found, SendText)
        else:
            assert found == expected


@given(st.text(), st.text(), st.booleans())
def test_nothing_that_is_said_or_pressed_breaks_it(text: str, data: str, linked: bool) -> None:
    memory = BotState(links={HERE: ChatLink(CHAT)} if linked else {})
    parse_update(IncomingUpdate(1, HERE, 1, text=text), memory)
    parse_update(IncomingUpdate(1, HERE, 1, press="p", data=data), memory)


def test_voice_and_photos_are_known() -> None:
    voice, photo = Attachment("a", "voice", "v.ogg"), Attachment("b", "photo", "p.jpg")
    assert parse_update(
        IncomingUpdate(1, HERE, 1, attachment=voice), BotState()
    ) == TranscribeVoice(voice)
    found = parse_update(IncomingUpdate(1, HERE, 1, text="/stop", attachment=photo), BotState())
    assert found == AttachImage(photo, "/stop")


def test_a_button_says_its_prompt_in_its_own_chat() -> None:
    memory = BotState(links={HERE: ChatLink(99)})
    (row,) = build_keyboard("ok\n[[Yes|do go on]] [[No]]", CHAT, memory)
    assert [key.label for key in row] == ["Yes", "No"]
    pressed = [
        parse_update(IncomingUpdate(1, HERE, 1, press="p", data=key.data), memory) for key in row
    ]
    assert pressed == [SendPrompt(CHAT, "do go on"), SendPrompt(CHAT, "No")]


def test_old_buttons_are_forgotten_and_say_so() -> None:
    memory = BotState()
    (first,) = build_keyboard("x\n[[A|a]]", CHAT, memory)
    for _ in range(MOST_BUTTONS):
        build_keyboard("x\n[[B|b]]", CHAT, memory)
    assert len(memory.buttons) == MOST_BUTTONS
    found = parse_update(IncomingUpdate(1, HERE, 1, press="p", data=first[0].data), memory)
    assert isinstance(found, SendText)


@given(st.integers(1, 2**53 - 1), st.integers(1, 2**53 - 1), st.text(), st.integers(0, 2**53 - 1))
def test_what_a_button_carries_has_at_most_64_bytes(
    chat: int, number: int, label: str, last: int
) -> None:
    memory = BotState(last_button=last)
    keys = (
        *build_approval_keyboard(chat, make_question(number)),
        *build_approval_keyboard(chat, make_question(number, "question", label, "b")),
        *build_keyboard(f"x\n[[{label}|p]] [[q]]", chat, memory),
    )
    assert all(len(key.data.encode()) <= 64 and key.label for row in keys for key in row)


def test_questions_of_chats_of_others_are_not_answered() -> None:
    data = build_approval_keyboard(CHAT, make_question(3))[0][0].data
    press = IncomingUpdate(1, HERE, 1, press="p", data=data)
    assert isinstance(parse_update(press, BotState(links={HERE: ChatLink(CHAT + 1)})), SendText)
    assert parse_update(press, BotState(links={HERE: ChatLink(CHAT)})) == AnswerApproval(
        CHAT, 3, True
    )


@pytest.mark.parametrize(
    ("asked", "labels"),
    [
        (make_question(3), ["Allow", "Deny", "Allow in this chat", "Deny in this chat"]),
        (make_question(3, "budget"), ["Allow", "Deny"]),
        (make_question(3, "question"), ["No answer"]),
        (
            make_question(3, "question", "red", "a\nb" * 99),
            ["red", f"{'a b' * 19}a …", "No answer"],
        ),
    ],
)
def test_each_kind_of_question_has_the_answers_that_it_takes(
    asked: Approval, labels: list[str]
) -> None:
    keys = [key for row in build_approval_keyboard(CHAT, asked) for key in row]
    assert [key.label for key in keys] == labels
    memory = BotState(links={HERE: ChatLink(CHAT)})
    pressed = [
        parse_update(IncomingUpdate(1, HERE, 1, press="p", data=k.data), memory) for k in keys
    ]
    if asked.kind == "question":
        assert pressed == [
            *(ChooseAnswer(CHAT, 3, place) for place in range(len(asked.choices))),
            AnswerApproval(CHAT, 3, False),
        ]
    else:
        assert pressed == [
            AnswerApproval(CHAT, 3, "Allow" in label, "in this chat" in label) for label in labels
        ]


@pytest.mark.parametrize(
    ("numbers", "text", "found"),
    [
        ([], "red", (0, "red")),
        ([4], "red", (4, "red")),
        ([4], "4", (4, "4")),
        ([4], "4 red ones", (4, "red ones")),
        ([4], "5 red ones", (4, "5 red ones")),
        ([4, 5], "5 red", (5, "red")),
        ([4, 5], "red", (0, "red")),
    ],
)
def test_words_answer_the_question_that_they_name_or_the_only_one(
    numbers: list[int], text: str, found: tuple[int, str]
) -> None:
    asked = [make_question(3), *(make_question(number, "question") for number in numbers)]
    question, words = find_answered(asked, text)
    assert (question.id if question else 0, words) == found


def test_marks_are_rows_at_the_end_alone() -> None:
    assert parse_buttons("[[no]] in the middle\nend") == []
    reply = "text\n[[a|1]] [[b]]\n[[c|]]"
    assert parse_buttons(reply) == [[("a", "1"), ("b", "b")], [("c", "c")]]


def test_an_old_offset_no_longer_counts() -> None:
    """The messenger keeps updates for a day, and after a week counts from elsewhere."""
    memory = BotState()
    assert memory.get_next_offset(NOW) == 0
    memory.mark_handled(41, "2026-01-09T00:00:00.000Z")
    assert memory.get_next_offset(NOW) == 42
    assert memory.get_next_offset("2026-01-12T00:00:00.000Z") == 0
    memory.use_account(7)
    assert memory.get_next_offset(NOW) == 0
