"""A key that created a chat counts for a day, and takes no memory after that."""

from datetime import timedelta

from agentd.chats.idempotency import IdempotencyIndex
from agentd.chats.state import Chat
from agentd.core.clock import format_iso, parse_iso

NOON = "2026-01-01T12:00:00.000Z"


def format_later(hours: float) -> str:
    return format_iso(parse_iso(NOON) + timedelta(hours=hours))


def test_a_key_is_known_for_a_day_and_then_forgotten():
    created = IdempotencyIndex()
    created.add("first", 1, NOON)
    assert created.find_chat("first", format_later(24)) == 1
    assert created.find_chat("first", format_later(24.01)) is None
    created.add("second", 2, format_later(24))
    created.add("third", 3, format_later(24.01))
    assert created.find_chat("first", NOON) is None  # it takes no memory any more
    assert created.find_chat("second", format_later(24.01)) == 2
    assert created.find_chat("third", format_later(24.01)) == 3


def test_a_key_that_is_used_again_counts_from_then_on():
    created = IdempotencyIndex()
    created.add("key", 1, NOON)
    created.add("other", 2, format_later(1))
    created.add("key", 3, format_later(25))
    created.add("last", 4, format_later(48))
    assert created.find_chat("key", format_later(48)) == 3
    assert created.find_chat("other", format_later(48)) is None


def test_a_chat_that_was_not_to_be_is_forgotten():
    created = IdempotencyIndex()
    created.add("key", 1, NOON)
    created.remove("key")
    created.remove("key")
    assert created.find_chat("key", NOON) is None


def test_keys_of_chats_that_were_there_at_start_are_known():
    chats = [
        Chat(7, created_at=NOON, created_once="key").summarize(),
        Chat(8, created_at=NOON).summarize(),
    ]
    assert IdempotencyIndex(chats).find_chat("key", NOON) == 7


def test_at_start_the_newest_chat_of_a_key_counts_wherever_the_others_are():
    newer = Chat(7, created_at=format_later(25), created_once="key").summarize()
    deleted = Chat(3, created_at=NOON, created_once="key").summarize()
    assert IdempotencyIndex([newer, deleted]).find_chat("key", format_later(26)) == 7
