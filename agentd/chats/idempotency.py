"""The chats created with an ``Idempotency-Key`` that is still valid."""

from collections.abc import Iterable

from agentd.chats.state import IDEMPOTENCY_WINDOW, ChatSummary
from agentd.core.clock import Timestamp, format_iso, parse_iso


class IdempotencyIndex:
    """The chat that each key created, for as long as keys are remembered."""

    def __init__(self, known: Iterable[ChatSummary] = ()) -> None:
        self._chats: dict[str, tuple[int, Timestamp]] = {}
        keyed = [chat for chat in known if chat.once]
        for chat in sorted(keyed, key=lambda one: one.created_at):
            self.add(chat.once, chat.id, chat.created_at)

    def find_chat(self, key: str, now: Timestamp) -> int | None:
        """Return the id of the chat that this key created within the last day."""
        chat_id, at = self._chats.get(key, (None, now))
        return None if parse_iso(now) - parse_iso(at) > IDEMPOTENCY_WINDOW else chat_id

    def add(self, key: str, chat_id: int, at: Timestamp) -> None:
        """Remember one, newer than all before it, and forget those whose time is over."""
        self._chats.pop(key, None)
        self._chats[key] = chat_id, at
        horizon = format_iso(parse_iso(at) - IDEMPOTENCY_WINDOW)
        while self._chats[oldest := next(iter(self._chats))][1] < horizon:
            del self._chats[oldest]

    def remove(self, key: str) -> None:
        """Forget a key whose chat was never stored."""
        self._chats.pop(key, None)
