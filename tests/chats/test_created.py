"""A key that created a chat counts for a day, and takes no memory after that."""

from datetime import timedelta

from agentd.chats.created import Created
from agentd.chats.fold import Chat
from agentd.clock import iso, parse_iso

NOON = "2026-01-01T12:00:00.000Z"


def later(hours: float) -> str:
    return iso(parse_iso(NOON) + timedelta(hours=hours))


def test_a_key_is_known_for_a_day_and_then_forgotten_when_another_comes():
    created = Created()
    created.note("first", 1, NOON)
    created.note("second", 2, later(24))
    assert created.chat_of("first") == 1
    created.note("third", 3, later(24.01))
    assert created.chat_of("first") is None
    assert (created.chat_of("second"), created.chat_of("third")) == (2, 3)


def test_a_key_that_is_used_anew_counts_from_then_on():
    created = Created()
    created.note("key", 1, NOON)
    created.note("other", 2, later(1))
    created.note("key", 3, later(25))
    created.note("last", 4, later(48))
    assert (created.chat_of("key"), created.chat_of("other")) == (3, None)


def test_a_chat_that_was_not_to_be_is_forgotten():
    created = Created()
    created.note("key", 1, NOON)
    created.forget("key")
    created.forget("key")
    assert created.chat_of("key") is None


def test_keys_of_chats_that_were_there_at_start_are_known():
    chat = Chat(7, created_at=NOON, created_once="key")
    assert Created([chat.summary(), Chat(8, created_at=NOON).summary()]).chat_of("key") == 7
