"""What a notification says, and which subscriptions are valid."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.chats.approval import Approval
from agentd.chats.records import Outcome
from agentd.chats.state import ChatSummary
from agentd.ui.push.model import (
    build_question_delivery,
    build_turn_delivery,
    check_browser_keys,
    decode_base64url,
    encode_base64url,
    has_finished,
)

NOW = "2026-07-15T12:00:00.000Z"
TEXTS = st.text(max_size=5000)
POINT = encode_base64url(b"\x04" + bytes(64))
SECRET = encode_base64url(bytes(16))


def make_chat(
    title: str = "Fix the build", outcome: Outcome | None = "completed", **more: object
) -> ChatSummary:
    chat = ChatSummary(
        id=7,
        title=title,
        created_at=NOW,
        updated_at=NOW,
        messages=12,
        cost=Decimal(0),
        waiting=0,
        ready=0,
        working=False,
        outcome=outcome,
        ready_since="",
        seq=1,
        size=1,
    )
    return msgspec.structs.replace(chat, **more)


def make_question(subject: str = "make clean", deadline: str = "") -> Approval:
    return Approval(3, "shell", "run_command", subject, NOW, deadline)


@given(TEXTS, TEXTS)
def test_a_payload_fits_into_the_record_that_every_service_takes(title: str, text: str) -> None:
    for made in (
        build_question_delivery(make_chat(title), make_question(text), NOW),
        build_turn_delivery(make_chat(title), text),
    ):
        assert len(msgspec.json.encode(made.notice)) <= 3900
        assert len(made.topic) <= 32


def test_a_question_is_kept_until_its_deadline_and_a_finished_turn_for_a_day() -> None:
    asked = make_question(deadline="2026-07-15T12:10:00.000Z")
    made = build_question_delivery(make_chat(), asked, NOW)
    assert (made.ttl, made.urgency, made.topic) == (600, "high", "q7-3")
    assert made.notice.body == "Run this command?\nmake clean"
    assert build_question_delivery(make_chat(), asked, "2026-07-15T13:00:00.000Z").ttl == 0
    assert build_turn_delivery(make_chat(), "Done.").ttl == 86_400


def test_only_what_is_allowed_or_denied_has_buttons_and_a_question_asks_for_words() -> None:
    asked = make_question("Which name shall it have?")
    assert build_question_delivery(make_chat(), asked, NOW).notice.answerable
    asked = msgspec.structs.replace(asked, kind="question", tool="ask_person")
    assert not build_question_delivery(make_chat(), asked, NOW).notice.answerable


def test_a_finished_turn_tells_the_reply_without_its_buttons_and_a_failure_why() -> None:
    assert build_turn_delivery(make_chat(), "All\n\ngreen.").notice.body == "All green."
    assert build_turn_delivery(make_chat(), "").notice.body == "The agent has finished."
    failed = build_turn_delivery(make_chat(outcome="failed"), "No key.")
    assert failed.notice.body == "The agent could not finish. No key."
    assert build_turn_delivery(make_chat(title=" "), "x").notice.title == "Chat 7"


def test_only_the_end_of_the_work_is_told() -> None:
    assert has_finished(make_chat())
    assert has_finished(make_chat(outcome="failed"))
    assert not has_finished(make_chat(outcome="stopped")), "somebody is there"
    assert not has_finished(make_chat(ready=1)), "the next prompt begins"
    assert not has_finished(make_chat(working=True))
    assert not has_finished(make_chat(asking=1)), "the question is told"


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [
        (SECRET, SECRET),
        (POINT, POINT),
        (encode_base64url(b"\x02" + bytes(64)), SECRET),
        ("%%%", SECRET),
        (POINT, "a"),
    ],
)
def test_keys_that_no_browser_gives_are_refused(p256dh: str, auth: str) -> None:
    check_browser_keys(POINT, SECRET)
    with pytest.raises(ValueError, match=r"p256dh|auth|base64url"):
        check_browser_keys(p256dh, auth)


@given(st.binary(max_size=100))
def test_base64url_is_read_with_and_without_padding(data: bytes) -> None:
    text = encode_base64url(data)
    assert decode_base64url(text) == data
    assert decode_base64url(text + "=" * (-len(text) % 4)) == data
