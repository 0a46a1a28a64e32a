"""The chats created with an ``Idempotency-Key`` that is still valid."""

from collections.abc import Iterable

from agentd.chats.state import IDEMPOTENCY_WINDOW, ChatSummary
from agentd.core.clock import Timestamp, format_iso, parse_iso


class IdempotencyIndex:
    """The chat that each key created, for as long as keys are remembered."""

    def __init__(self, known: Iterable[ChatSummary] = ()) -> None:
        self._chats: dict[str, tuple[int, Timestamp]] = {}
        for chat in known:
            if chat.once:
                self.add(chat.once, chat.id, chat.created_at)

    def find_chat(self, key: str) -> int | None:
        """Return the id of the chat that this key created."""
        found = self._chats.get(key)
        return found and found[0]

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
