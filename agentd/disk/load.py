"""Reading chats back: folding a journal, mending its torn end, and taking stock at start.

A torn last line (a write that never finished, so was never acknowledged) is kept aside and cut
off. Damage in the middle is never skipped: the chat is readable up to there, and read-only.
"""

import logging
import os
import re
import stat
import time
from contextlib import suppress

from msgspec import Struct

from agentd.chats.chat import LARGEST_ID
from agentd.chats.fold import Chat, Summary
from agentd.disk import checkpoint
from agentd.disk.document import make_folder, sweep, told, trouble
from agentd.disk.layout import Layout
from agentd.disk.lines import Damage, read
from agentd.errors import AgentdError, NotFound, Unavailable
from agentd.ids import Marks

log = logging.getLogger(__name__)

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
JOURNAL = "journal.jsonl"
_FOLDER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
"""The name of a chat's folder."""


def open_journal(layout: Layout, chat_id: int) -> int:
    """A chat's journal, open for reading; raises ``OSError``."""
    return os.open(layout.journal(chat_id), _READ)


class Loaded(Struct):
    """A chat as its files tell it."""

    chat: Chat
    checkpointed: int
    """Lines that the checkpoint covers; 0 without one."""


def load(
    layout: Layout,
    chat_id: int,
    *,
    mend: bool = False,
    end: int | None = None,
    path: str = "",
) -> Loaded:
    """Fold one chat's journal, up to the byte ``end`` where that is given. Blocking.

    The journal is at ``path``, or where that of a chat is. With ``mend`` a torn end is cut off;
    otherwise it counts as damage, for only a daemon that starts can know that nobody is writing.
    Raises ``NotFound`` without a journal, and ``Unavailable``, naming the file, when it cannot
    be read or holds no chat.
    """
    path = path or layout.journal(chat_id)
    try:
        fd = os.open(path, _READ)
        try:
            _refuse_wrong_kind(chat_id, path, fd)
            return _fold(layout, chat_id, path, fd, mend, end)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise NotFound(f"Chat {chat_id} not found") from None
    except OSError as error:
        why = trouble(path, "read", error).message
        raise Unavailable(f"Chat {chat_id} cannot be read", why) from error


def _refuse_wrong_kind(chat_id: int, path: str, fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Unavailable(f"Chat {chat_id} cannot be read", f"{path} is not a regular file")


def _fold(layout: Layout, chat_id: int, path: str, fd: int, mend: bool, end: int | None) -> Loaded:
    chat = checkpoint.read(layout.checkpoint(chat_id), chat_id, fd) or Chat(chat_id)
    checkpointed = chat.lines
    with open(fd, "rb", closefd=False) as file:
        file.seek(chat.size)
        data = file.read(-1 if end is None else max(end - chat.size, 0))
    for step in read(data, chat.lines, chat.size):
        if not isinstance(step, Damage):
            chat.apply(*step)
        elif not (step.torn and mend and _cut(path, step)):
            chat.damage = f"{path}:{step.line}: {step.reason}"
            log.error("chat %d is read-only: %s", chat_id, chat.damage)
    if not chat.lines:
        reason = chat.damage or f"{path} holds no chat"
        raise Unavailable(f"Chat {chat_id} cannot be read", reason)
    return Loaded(chat, checkpointed)


def _cut(path: str, damage: Damage) -> bool:
    """Set a torn end aside and cut it off; False, and nothing is lost, when that cannot be done.

    Tried twice, for the chat is read-only until the next start otherwise.
    """
    try:
        torn = _set_end_aside(path, damage.offset)
    except OSError:
        try:
            torn = _set_end_aside(path, damage.offset)
        except OSError as error:
            log.error("an unfinished write stays: %s", trouble(path, "mend", error).message)
            return False
    log.warning(
        "%s:%d: an unfinished write of %d bytes was cut off and kept beside it",
        path, damage.line, torn,
    )  # fmt: skip
    return True


def _set_end_aside(path: str, offset: int) -> int:
    """Copy what follows a byte to a file beside, then cut it off; return how much that was."""
    aside = f"{path}.torn-{time.time_ns()}"
    with open(path, "r+b", opener=_for_update) as journal:
        journal.seek(offset)
        torn = journal.read()
        if torn:  # else an earlier try came that far
            copy = open(aside, "xb", opener=_private)  # noqa: SIM115 - to be removed where it fails
            try:
                with copy:
                    copy.write(torn)
                    copy.flush()
                    os.fsync(copy.fileno())
            except OSError:
                with suppress(OSError):
                    os.unlink(aside)
                raise
            journal.truncate(offset)
        os.fsync(journal.fileno())
    return len(torn)


def _for_update(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def take_stock(
    layout: Layout, known: dict[int, Summary], *, mend: bool
) -> tuple[dict[int, Summary], Marks]:
    """Every chat at a glance, and the highest ids met. Blocking; before anything is written.

    Deleted ones are among them. ``known`` is what the index told: a chat whose journal still has
    the size named there is not opened. What a crash left is mended, unless the folder cannot be
    written (``mend``).
    """
    chats: dict[int, Summary] = {}
    marks = Marks()
    for chat_id in _chat_ids(layout):
        summary = known.get(chat_id)
        if summary is None or summary.damage or _size(layout.journal(chat_id)) != summary.size:
            chat = _look_into(layout, chat_id, mend=mend)
            marks = marks.merged(Marks(chat_id))
            if chat is None:
                continue
            seen = Marks(chat_id, chat.highest_prompt, chat.highest_message, chat.seq)
            marks = marks.merged(seen)
            summary = chat.summary()
        chats[chat_id] = summary
    return chats, marks


def _chat_ids(layout: Layout) -> list[int]:
    with told(layout.chats, "read"):
        try:
            names = os.listdir(layout.chats)
        except FileNotFoundError:
            return []
    ids = (int(name) for name in names if _FOLDER.fullmatch(name))
    return sorted(chat_id for chat_id in ids if chat_id <= LARGEST_ID)


def _size(path: str) -> int:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return -1
    return info.st_size if stat.S_ISREG(info.st_mode) else -1


def _look_into(layout: Layout, chat_id: int, *, mend: bool) -> Chat | None:
    """Load a chat as a start finds it; None for a folder that holds none.

    Where the system fails, it gets a second chance: a failure that passes is not to cost a chat
    the whole life of the daemon.
    """
    with suppress(OSError):
        return _examine(layout, chat_id, mend=mend)
    try:
        return _examine(layout, chat_id, mend=mend)
    except OSError as error:
        why = trouble(layout.journal(chat_id), "read", error).message
        return _unreadable(chat_id, f"{why}; the next start tries again")


def _examine(layout: Layout, chat_id: int, *, mend: bool) -> Chat | None:
    """As ``_look_into``; raises ``OSError``."""
    if mend:
        _sweep(layout.chat(chat_id))
    try:
        return load(layout, chat_id, mend=mend).chat
    except AgentdError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        if _unborn(layout, chat_id) or _removed(layout, chat_id):
            if mend:
                _set_aside(layout, chat_id)
            return None
        if isinstance(error, NotFound):
            return _unreadable(chat_id, f"{layout.journal(chat_id)} is missing")
        return _unreadable(chat_id, error.details or error.message)


def _unreadable(chat_id: int, damage: str) -> Chat:
    log.error("chat %d cannot be read: %s", chat_id, damage)
    return Chat(chat_id, damage=damage)


def _sweep(folder: str) -> None:
    """Remove what a crash left half written; where that fails, it is in nobody's way."""
    try:
        if os.path.isdir(folder):
            sweep(folder)
    except AgentdError as error:
        log.warning("%s", error.message)


def _unborn(layout: Layout, chat_id: int) -> bool:
    """True for a chat that died before its first line: nobody was ever told of it; ``OSError``."""
    journal = _status(layout.journal(chat_id))
    empty = journal is None or (stat.S_ISREG(journal.st_mode) and journal.st_size == 0)
    return empty and _status(layout.checkpoint(chat_id)) is None


def _removed(layout: Layout, chat_id: int) -> bool:
    """True for what a copy has of a deleted chat that was removed while it was taken; ``OSError``.

    That is a checkpoint, which says that the chat was deleted, without a journal.
    """
    if _status(layout.journal(chat_id)):
        return False
    found = checkpoint.read_alone(layout.checkpoint(chat_id), chat_id)
    return found is not None and bool(found.deleted_at)


def _status(path: str) -> os.stat_result | None:
    """What the system tells of a file; None where there is none. Other failures are raised."""
    try:
        return os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _set_aside(layout: Layout, chat_id: int) -> None:
    """Move a folder that holds no chat out of the way; a failure is told, and harms nobody."""
    folder = layout.chat(chat_id)
    aside = os.path.join(layout.trash, f"{chat_id}.unborn-{time.time_ns()}")
    try:
        if not os.listdir(folder):
            os.rmdir(folder)
            return
        make_folder(layout.trash)
        os.rename(folder, aside)
    except (AgentdError, OSError) as error:
        log.error("%s holds no chat, and stays where it is: %s", folder, error)
    else:
        log.warning("%s holds no chat (any more); it is now %s", folder, aside)
