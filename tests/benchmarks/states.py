"""State folders as a daemon would have left them, made fast through the store's own records.

No fsync and no daemon: a chat of 100,000 messages takes a few seconds.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from os.path import join

from agentd.auth.key import issue_key
from agentd.auth.key_store import KeyFile
from agentd.chats import checkpoint
from agentd.chats.index import write_index
from agentd.chats.model import Message, Prompt, Tokens
from agentd.chats.records import (
    ChatCreated,
    JournalEntry,
    MessageAdded,
    QueueAppended,
    QueueReplaced,
    RecordBody,
    TurnEnded,
    TurnStarted,
)
from agentd.chats.state import Chat, ChatSummary
from agentd.core.clock import Timestamp, format_iso
from agentd.core.ids import HighWaterMarks
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.document import make_folder
from agentd.storage.layout import Layout

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=100)
PROMPT = "Add a test for the empty cart, and make the total of an empty cart zero, please."
REPLY = (
    "Done. `Cart.total` now answers `Decimal(0)` for an empty cart, and"
    " `tests/test_cart.py` asserts it together with the rounding of single items.\n\n"
    "I ran the whole suite: 214 tests passed.\n[[Commit]] [[Undo|Undo the last change]]"
)


class Maker:
    """Makes one state folder: chats first, then ``finish``."""

    def __init__(self, folder: str, step: timedelta = STEP) -> None:
        self.layout = Layout(join(folder, "state"), join(folder, "config"))
        for path in (self.layout.state, self.layout.chats, self.layout.config):
            make_folder(path)
        self._chats: list[ChatSummary] = []
        self._prompts, self._messages, self._seq = count(1), count(1), 0
        self._said: Mapping[int, str] = {}
        self._place = count(1)
        self.moment = BEGAN
        """Of the last record; each is a ``step`` after the one before."""
        self._step = step

    def add_chat(
        self,
        messages: int,
        waiting: int = 0,
        title: str = "A chat to be measured",
        said: Mapping[int, str] | None = None,
        labels: tuple[str, ...] = (),
    ) -> Chat:
        """Add a chat of so many messages, with so many paused prompts in its queue.

        ``said`` has the texts of single messages by their place in the chat, from 1.
        """
        chat = Chat(len(self._chats) + 1)
        self._said, self._place = said or {}, count(1)
        os.mkdir(self.layout.get_chat_folder(chat.id), 0o700)
        with open(self.layout.get_journal_path(chat.id), "wb") as journal:
            for body in self._iter_chat_records(title, messages, waiting, labels):
                self._seq += 1
                entry = JournalEntry(chat.lines + 1, self._seq, self._now(), "key:benchmark", body)
                line = encode_checksummed(entry)
                journal.write(line)
                chat.apply(entry, len(line))
        if chat.lines > 1024:  # as the daemon leaves it when it has let go of a chat
            checkpoint.write(self.layout.get_checkpoint_path(chat.id), checkpoint.encode(chat))
        self._chats.append(chat.summarize())
        return chat

    def finish(self) -> str:
        """Write the index; the answer is a named key that is good here."""
        highest = HighWaterMarks(
            len(self._chats), next(self._prompts), next(self._messages), self._seq
        )
        write_index(self.layout.index, highest, self._chats)
        key, kept = issue_key("benchmark", format_iso(BEGAN))
        KeyFile(self.layout).add(kept)
        return key

    def _now(self) -> Timestamp:
        self.moment += self._step
        return format_iso(self.moment)

    def _iter_chat_records(
        self, title: str, messages: int, waiting: int, labels: tuple[str, ...]
    ) -> Iterator[RecordBody]:
        yield ChatCreated(title, labels=labels)
        for said in range(0, messages, 3):
            yield from self._iter_turn_records(min(3, messages - said))
        if waiting:
            now = format_iso(self.moment)
            yield QueueReplaced(
                tuple(Prompt(next(self._prompts), PROMPT, now, paused=True) for _ in range(waiting))
            )

    def _iter_turn_records(self, messages: int) -> Iterator[RecordBody]:
        """Yield a prompt, and then a tool's work and a reply as far as there may be messages."""
        prompt = Prompt(next(self._prompts), PROMPT, format_iso(self.moment))
        yield QueueAppended(prompt)
        yield TurnStarted(prompt.id, self._build_message("user", PROMPT), "offline")
        if messages > 1:
            yield MessageAdded(
                self._build_message("tool", "cart.py\n\n12 lines changed", tool="edit")
            )
        if messages > 2:
            yield MessageAdded(self._build_message("assistant", REPLY))
        yield TurnEnded("completed")

    def _build_message(self, role: str, text: str, tool: str = "") -> Message:
        paid = role == "assistant"
        return Message(
            next(self._messages),
            role,
            self._said.get(next(self._place), text),
            format_iso(self.moment),
            tool=tool,
            tokens=Tokens(2100, 160) if paid else Tokens(),
            cost=Decimal("0.0087") if paid else Decimal(0),
        )
