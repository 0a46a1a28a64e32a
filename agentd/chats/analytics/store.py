"""The roll-ups behind the analytics: what each chat's journal adds up to, kept beside it.

They are made from the journals when somebody asks, off the loop, and read on from where they
stood; nothing is done when a record is appended. What is not remembered when the first report is
asked for is read by processes of their own (``fold_ahead``).
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from msgspec import Struct

from agentd.chats.analytics.daily_totals import ChatDailyTotals, UsageTotals
from agentd.chats.analytics.events import AnalyticsProgress
from agentd.chats.analytics.fold_ahead import fold_ahead
from agentd.chats.analytics.fold_child import FoldJob
from agentd.chats.analytics.report import (
    AnalyticsReport,
    GroupBy,
    RowsByDay,
    merge_tables,
    sort_rows,
)
from agentd.chats.analytics.rollup import FORMAT, ChatRollup, fold_journal, load_rollup, save_rollup
from agentd.chats.events import ChatStateEvent
from agentd.chats.state import ChatSummary
from agentd.core.events import Event
from agentd.core.tasks import cancel_task
from agentd.storage import document
from agentd.storage.document import TEMPORARY_PREFIX, FileStamp
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

SAVE_EVERY = 1024
"""Lines that a roll-up may be ahead of its file while the daemon works."""


class _ChatFold(Struct):
    """A chat's fold in memory, and the summary that it was updated to."""

    tally: ChatDailyTotals
    saved: int
    """Lines that the file covers."""
    stamp: FileStamp | None = None
    """The journal's, where the fold is of the whole of it."""
    seen: tuple[int, int] = (0, 0)
    """The summary's size and seq."""
    damage: str = ""


class AnalyticsStore:
    """Reports messages, tokens, cost and turns; implements ``chats.analytics.api.AnalyticsSource``.

    ``chats`` returns every chat that counts (without the trash), for the first report; from then
    on ``on_event`` must be called with each change, so that no query reads every chat.
    """

    def __init__(
        self,
        layout: Layout,
        chats: Callable[[], Iterable[ChatSummary]],
        publish: Callable[[Event], None],
    ) -> None:
        self._layout = layout
        self._chats = chats
        self._publish = publish
        self._thread = ThreadPoolExecutor(1, "analytics")
        self._changed: dict[int, ChatSummary | None] | None = None
        """The chats changed since the last query; None before the first."""
        self._known: dict[int, _ChatFold] = {}
        self._latest: dict[int, ChatSummary] = {}
        self._labels: dict[int, tuple[str, ...]] = {}
        self._corrupt: dict[int, str] = {}
        self._unread: dict[int, ChatSummary | None] = {}
        """Chats that could not be read: each question tries again."""
        self._rows = RowsByDay()
        self._ahead: asyncio.Task[None] | None = None
        """Reads what is not remembered, once."""

    def on_chat_changed(self, event: ChatStateEvent) -> None:
        """Remember which chat changed; this is all that a record costs."""
        if self._changed is not None:
            chat = event.chat
            self._changed[chat.id] = None if chat.deleted_at else chat

    async def report(
        self, by: GroupBy, first: str, last: str, *, daily: bool = False
    ) -> AnalyticsReport:
        """Report on the days ``first`` to ``last``, such as ``2026-01-31``, inclusive.

        ``daily``: with the days of each row.
        """
        self._ahead = self._ahead or asyncio.create_task(self._fold_ahead())
        await asyncio.shield(self._ahead)
        loop = asyncio.get_running_loop()
        everything = self._changed is None
        changed = self._take_changes()
        work = loop.run_in_executor(
            self._thread, self._report, changed, everything, (by, first, last, daily)
        )
        return await asyncio.shield(work)  # completes even if the caller leaves

    async def close(self) -> None:
        """Keep what is not in the files yet."""
        if self._ahead:
            await cancel_task(self._ahead)
        changed = {} if self._changed is None else self._take_changes()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._save_all, changed)
        await asyncio.to_thread(self._thread.shutdown)

    async def _fold_ahead(self) -> None:
        """Have the journals read that no roll-up is known of."""
        find = asyncio.get_running_loop().run_in_executor(
            self._thread, self._list_unread, list(self._chats())
        )
        await fold_ahead(
            await find, lambda done, total: self._publish(AnalyticsProgress(done, total))
        )

    def _take_changes(self) -> dict[int, ChatSummary | None]:
        changed, self._changed = self._changed, {}
        return {chat.id: chat for chat in self._chats()} if changed is None else changed

    # What follows is on the one thread.

    def _list_unread(self, chats: list[ChatSummary]) -> list[FoldJob]:
        """List the chats without a file; one that is not believed is read by this process."""
        try:
            known = set(os.listdir(self._layout.analytics))
        except OSError:
            known = set()
        path_of = self._layout.get_chat_analytics_path
        jobs = (
            FoldJob(chat.id, self._layout.get_journal_path(chat.id), chat.size, path_of(chat.id))
            for chat in chats
        )
        return [job for job in jobs if os.path.basename(job.rollup) not in known]

    def _report(
        self,
        changed: dict[int, ChatSummary | None],
        everything: bool,
        asked: tuple[GroupBy, str, str, bool],
    ) -> AnalyticsReport:
        if everything:
            self._remove_stale_files(set(changed))
        self._refresh(changed)
        by, first, last, daily = asked
        days = self._rows.sum_by("day", first, last, {})
        table = days if by == "day" else self._rows.sum_by(by, first, last, self._labels)
        rows = sort_rows(by, table)
        titles = {name: self._latest[int(name)].title for name, _ in rows} if by == "chat" else {}
        return AnalyticsReport(
            first,
            last,
            by,
            sum_table(days),
            rows,
            titles,
            dict(self._corrupt),
            sort_rows("day", days),
            self._rows.list_days_by(by, first, last, self._labels) if daily else None,
        )

    def _refresh(self, changed: dict[int, ChatSummary | None]) -> None:
        """Bring the rows of these chats up to what their summaries cover."""
        unread, self._unread = self._unread, {}
        for number, chat in (unread | changed).items():
            self._corrupt.pop(number, None)
            self._labels.pop(number, None)
            if chat is None:
                self._known.pop(number, None)
                self._latest.pop(number, None)
                self._rows.remove_chat(number)
                continue
            self._latest[number] = chat
            if chat.labels:
                self._labels[number] = chat.labels
            known = self._known.get(number)
            if known is None or known.seen != (chat.size, chat.seq):
                self._update_chat(chat, known)
            if damage := chat.damage or self._known[number].damage:
                self._corrupt[number] = damage

    def _update_chat(self, chat: ChatSummary, known: _ChatFold | None) -> None:
        """Update one chat: continue from its fold, or start over if that is not possible."""
        since = ""
        if known is None:
            known = self._load_stored(chat)
        elif known.tally.size < chat.size and not known.damage:
            since = known.tally.day
        else:  # it was put back from elsewhere, or could not be read
            known = _ChatFold(ChatDailyTotals(), 0)
        path = self._layout.get_journal_path(chat.id)
        stamp = document.get_stamp(path)
        begun = known.tally.lines
        try:
            damage = fold_journal(path, known.tally, chat.size)
            if damage and begun and known.tally.lines == begun:
                known, since = _ChatFold(ChatDailyTotals(), 0), ""
                damage = fold_journal(path, known.tally, chat.size)
            known.seen = chat.size, chat.seq
        except OSError as error:
            self._unread[chat.id] = chat
            damage = document.explain_os_error(path, "read", error).message
        known.damage = chat.damage or damage
        known.stamp = stamp if stamp and stamp.size == known.tally.size else None
        self._known[chat.id] = known
        self._rows.set_rows(chat.id, known.tally.rows, since)
        if known.tally.lines - known.saved >= SAVE_EVERY:
            self._save(chat.id, known)

    def _load_stored(self, chat: ChatSummary) -> _ChatFold:
        """Load the chat's cache file if it matches the journal; start empty otherwise."""
        path = self._layout.get_chat_analytics_path(chat.id)
        tally = load_rollup(path, chat.id, self._layout.get_journal_path(chat.id))
        return _ChatFold(tally, tally.lines) if tally else _ChatFold(ChatDailyTotals(), 0)

    def _save_all(self, changed: dict[int, ChatSummary | None]) -> None:
        """Bring all totals up to date and write them, at the end."""
        self._refresh(changed)
        for chat, known in self._known.items():
            if known.tally.lines > known.saved:
                self._save(chat, known)

    def _save(self, chat: int, known: _ChatFold) -> None:
        """Rewrite one file; a failure is only logged, because nothing is lost."""
        if known.stamp is None or known.damage:
            return
        path = self._layout.get_chat_analytics_path(chat)
        try:
            save_rollup(path, ChatRollup(FORMAT, chat, known.stamp, known.tally))
            known.saved = known.tally.lines
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error)

    def _remove_stale_files(self, chats: set[int]) -> None:
        """Remove the files of chats that are gone, and what was half written."""
        with suppress(OSError):
            for name in os.listdir(self._layout.analytics):
                chat = name.removesuffix(".json")
                if name.startswith(TEMPORARY_PREFIX) or (
                    chat.isdecimal() and int(chat) not in chats
                ):
                    os.unlink(os.path.join(self._layout.analytics, name))


def sum_table(days: dict[str, UsageTotals]) -> UsageTotals:
    """Add up all rows of a table."""
    return merge_tables({"": totals} for totals in days.values()).get("", UsageTotals())
