"""Which chats were created with an ``Idempotency-Key`` that still counts."""

from collections.abc import Iterable

from agentd.chats.fold import ONCE_FOR, Summary
from agentd.clock import Timestamp, iso, parse_iso


class Created:
    """The chat that each key created, for as long as keys are remembered."""

    def __init__(self, known: Iterable[Summary] = ()) -> None:
        self._chats: dict[str, tuple[int, Timestamp]] = {}
        for chat in known:
            if chat.once:
                self.note(chat.once, chat.id, chat.created_at)

    def chat_of(self, key: str) -> int | None:
        """The id of the chat that this key created."""
        found = self._chats.get(key)
        return found and found[0]

    def note(self, key: str, chat_id: int, at: Timestamp) -> None:
        """Remember one, newer than all before it, and forget those whose time is over."""
        self._chats.pop(key, None)
        self._chats[key] = chat_id, at
        horizon = iso(parse_iso(at) - ONCE_FOR)
        while self._chats[oldest := next(iter(self._chats))][1] < horizon:
            del self._chats[oldest]

    def forget(self, key: str) -> None:
        """The chat of this key was not to be."""
        self._chats.pop(key, None)
