"""A chat's roll-up: what its journal adds up to, and the file in which that is remembered.

A roll-up is a cache that may be deleted at any time. One of an earlier life is believed only while
the journal is the very file that it was made from, untouched since. Nothing is synced.
"""

import logging
import os
from contextlib import suppress

import msgspec
from msgspec import Struct

from agentd.chats.analytics.daily_totals import ChatDailyTotals
from agentd.chats.journal_reader import JournalDamage, read_entries
from agentd.core.errors import AgentdError
from agentd.storage import document
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import TEMPORARY_PREFIX, FileStamp

log = logging.getLogger(__name__)

FORMAT = 1
_LIMIT = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class ChatRollup(Struct, frozen=True):
    """The contents of ``analytics/<chat>.json``: the fold of the journal that had this stamp."""

    format: int
    chat: int
    journal: FileStamp
    tally: ChatDailyTotals


_decoder = msgspec.json.Decoder(ChatRollup)


def load_rollup(path: str, chat: int, journal: str) -> ChatDailyTotals | None:
    """Return what a file remembers; None if it is not of the journal as it is now. Blocking."""
    try:
        found = document.read_document(path, _LIMIT)
        if found:
            kept = _decoder.decode(decode_checksummed(found.data))
            stamp = document.get_stamp(journal)
            if kept.format == FORMAT and kept.chat == chat and kept.journal == stamp:
                return kept.tally
    except (AgentdError, ChecksumMismatch, msgspec.DecodeError) as error:
        log.info("%s is not used, the journal is read instead: %s", path, error)
    return None


def save_rollup(path: str, rollup: ChatRollup) -> None:
    """Replace the file, and make its folder if need be. Blocking; raises ``OSError``."""
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f"{TEMPORARY_PREFIX}{rollup.chat}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    with open(os.open(temporary, _WRITE, 0o600), "wb") as file:
        file.write(encode_checksummed(rollup))
    os.rename(temporary, path)


def fold_journal(path: str, tally: ChatDailyTotals, end: int) -> str:
    """Read a journal on up to the byte ``end``; where and why it is not sound, or nothing.

    Blocking; raises ``OSError``.
    """
    with open(os.open(path, _READ), "rb") as file:
        file.seek(tally.size)
        while tally.size < end:
            data = file.read(min(_CHUNK, end - tally.size))
            if not data.endswith(b"\n"):
                data += file.readline()
            for step in read_entries(data, tally.lines, tally.size):
                if isinstance(step, JournalDamage):
                    return f"{path}:{step.line}: {step.reason}"
                tally.apply(*step)
            if not data:
                return f"{path}:{tally.lines}: it is shorter than it was"
    return ""
