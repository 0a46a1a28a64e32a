"""The roll-ups behind the analytics: what each chat's journal adds up to, kept beside it.

A roll-up is a cache that may be deleted at any time. It is made from the journal when somebody
asks, off the loop, and read on from where it stood; nothing is done when a record is appended.
One of an earlier life is believed only while the journal is the very file that it was made from,
untouched since; otherwise the journal is read anew. Nothing is synced.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec
from msgspec import Struct

from agentd.chats.fold import Summary
from agentd.chats.report import Book, By, Report, merged, ordered
from agentd.chats.tally import Tally, Totals
from agentd.disk import document
from agentd.disk.document import TEMPORARY, Stamp
from agentd.disk.layout import Layout
from agentd.disk.lines import Broken, Damage, read, seal, unseal
from agentd.errors import AgentdError
from agentd.events import ChatGone, ChatUpdate, Event

log = logging.getLogger(__name__)

FORMAT = 1
SAVE_EVERY = 1024
"""Lines that a roll-up may be ahead of its file while the daemon works."""
_LIMIT = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class RollUp(Struct, frozen=True):
    """What ``analytics/<chat>.json`` holds: the fold of the journal that had this stamp."""

    format: int
    chat: int
    journal: Stamp
    tally: Tally


_decoder = msgspec.json.Decoder(RollUp)


class _Known(Struct):
    """One chat's fold in memory, and the summary that it was brought up to."""

    tally: Tally
    saved: int
    """Lines that the file covers."""
    stamp: Stamp | None = None
    """The journal's, where the fold is of the whole of it."""
    seen: tuple[int, int] = (0, 0)
    """The summary's size and seq."""
    damage: str = ""


class Analytics:
    """Answers what was said, used, spent and done; satisfies ``web.analytics.Reporting``.

    ``chats`` tells, once, every chat that counts (what is in the trash does not); from then on
    ``note`` is to be told what changes, so that no question looks at every chat.
    """

    def __init__(self, layout: Layout, chats: Callable[[], Iterable[Summary]]) -> None:
        self._layout = layout
        self._chats = chats
        self._thread = ThreadPoolExecutor(1, "analytics")
        self._changed: dict[int, Summary | None] | None = None
        """What changed since the last question; None before the first."""
        self._known: dict[int, _Known] = {}
        self._latest: dict[int, Summary] = {}
        self._labels: dict[int, tuple[str, ...]] = {}
        self._damaged: dict[int, str] = {}
        self._unread: dict[int, Summary | None] = {}
        """Chats that could not be read: each question tries again."""
        self._book = Book()

    def note(self, event: Event) -> None:
        """Remember which chat changed; this is all that a record costs."""
        if self._changed is None:
            return
        match event:
            case ChatUpdate(chat=chat):
                self._changed[chat.id] = None if chat.deleted_at else chat
            case ChatGone(chat=gone):
                self._changed[gone.id] = None

    async def report(self, by: By, first: str, last: str) -> Report:
        """The days from ``first`` to ``last``, such as ``2026-01-31``, both included."""
        loop = asyncio.get_running_loop()
        everything = self._changed is None
        changed = self._take()
        work = loop.run_in_executor(
            self._thread, self._report, changed, everything, (by, first, last)
        )
        return await asyncio.shield(work)  # what changed was taken: it is seen to, whoever leaves

    async def close(self) -> None:
        """Keep what is not in the files yet."""
        changed = {} if self._changed is None else self._take()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._save_all, changed)
        await asyncio.to_thread(self._thread.shutdown)

    def _take(self) -> dict[int, Summary | None]:
        changed, self._changed = self._changed, {}
        return {chat.id: chat for chat in self._chats()} if changed is None else changed

    # What follows is on the one thread.

    def _report(
        self, changed: dict[int, Summary | None], everything: bool, asked: tuple[By, str, str]
    ) -> Report:
        if everything:
            self._sweep(set(changed))
        self._refresh(changed)
        by, first, last = asked
        days = self._book.table("day", first, last, {})
        table = days if by == "day" else self._book.table(by, first, last, self._labels)
        rows = ordered(by, table)
        titles = {name: self._latest[int(name)].title for name, _ in rows} if by == "chat" else {}
        return Report(first, last, by, sum_of(days), rows, titles, dict(self._damaged))

    def _refresh(self, changed: dict[int, Summary | None]) -> None:
        """Bring the rows of these chats up to what their summaries cover."""
        unread, self._unread = self._unread, {}
        for number, chat in (unread | changed).items():
            self._damaged.pop(number, None)
            self._labels.pop(number, None)
            if chat is None:
                self._known.pop(number, None)
                self._latest.pop(number, None)
                self._book.drop(number)
                continue
            self._latest[number] = chat
            if chat.labels:
                self._labels[number] = chat.labels
            known = self._known.get(number)
            if known is None or known.seen != (chat.size, chat.seq):
                self._bring(chat, known)
            if damage := chat.damage or self._known[number].damage:
                self._damaged[number] = damage

    def _bring(self, chat: Summary, known: _Known | None) -> None:
        """One chat: read on from where its fold stands, or anew where that cannot be."""
        since = ""
        if known is None:
            known = self._stored(chat)
        elif known.tally.size < chat.size and not known.damage:
            since = known.tally.day
        else:  # it was put back from elsewhere, or could not be read
            known = _Known(Tally(), 0)
        path = self._layout.journal(chat.id)
        stamp = document.stamp(path)
        begun = known.tally.lines
        try:
            damage = fold(path, known.tally, chat.size)
            if damage and begun and known.tally.lines == begun:
                known, since = _Known(Tally(), 0), ""
                damage = fold(path, known.tally, chat.size)
            known.seen = chat.size, chat.seq
        except OSError as error:
            self._unread[chat.id] = chat
            damage = document.trouble(path, "read", error).message
        known.damage = chat.damage or damage
        known.stamp = stamp if stamp and stamp.size == known.tally.size else None
        self._known[chat.id] = known
        self._book.take(chat.id, known.tally.rows, since)
        if known.tally.lines - known.saved >= SAVE_EVERY:
            self._save(chat.id, known)

    def _stored(self, chat: Summary) -> _Known:
        """What the chat's file holds, if it can be believed; nothing otherwise."""
        path = self._layout.roll_up(chat.id)
        try:
            found = document.read(path, _LIMIT)
            if found:
                kept = _decoder.decode(unseal(found.data))
                if kept.format == FORMAT and kept.chat == chat.id and self._stands_on(kept):
                    return _Known(kept.tally, kept.tally.lines)
        except (AgentdError, Broken, msgspec.DecodeError) as error:
            log.info("%s is not used, the journal is read instead: %s", path, error)
        return _Known(Tally(), 0)

    def _stands_on(self, kept: RollUp) -> bool:
        return kept.journal == document.stamp(self._layout.journal(kept.chat))

    def _save_all(self, changed: dict[int, Summary | None]) -> None:
        """At the end: bring what is known up to date and into the files."""
        self._refresh(changed)
        for chat, known in self._known.items():
            if known.tally.lines > known.saved:
                self._save(chat, known)

    def _save(self, chat: int, known: _Known) -> None:
        """Write one file anew; a failure is only logged, for nothing is lost."""
        if known.stamp is None or known.damage:
            return
        path = self._layout.roll_up(chat)
        temporary = os.path.join(self._layout.analytics, f"{TEMPORARY}{chat}")
        try:
            with suppress(FileExistsError):
                os.mkdir(self._layout.analytics, 0o700)
            with open(os.open(temporary, _WRITE, 0o600), "wb") as file:
                file.write(seal(RollUp(FORMAT, chat, known.stamp, known.tally)))
            os.rename(temporary, path)
            known.saved = known.tally.lines
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error)

    def _sweep(self, chats: set[int]) -> None:
        """Remove the files of chats that are gone, and what was half written."""
        with suppress(OSError):
            for name in os.listdir(self._layout.analytics):
                chat = name.removesuffix(".json")
                if name.startswith(TEMPORARY) or (chat.isdecimal() and int(chat) not in chats):
                    os.unlink(os.path.join(self._layout.analytics, name))


def sum_of(days: dict[str, Totals]) -> Totals:
    """All of a table in one."""
    return merged({"": totals} for totals in days.values()).get("", Totals())


def fold(path: str, tally: Tally, end: int) -> str:
    """Read a journal on up to the byte ``end``; where and why it is not sound, or nothing.

    Blocking; raises ``OSError``.
    """
    with open(os.open(path, _READ), "rb") as file:
        file.seek(tally.size)
        while tally.size < end:
            data = file.read(min(_CHUNK, end - tally.size))
            if not data.endswith(b"\n"):
                data += file.readline()
            for step in read(data, tally.lines, tally.size):
                if isinstance(step, Damage):
                    return f"{path}:{step.line}: {step.reason}"
                tally.apply(*step)
            if not data:
                return f"{path}:{tally.lines}: it is shorter than it was"
    return ""
