"""The checkpoint of a chat: its fold up to some line, so that opening it reads little.

It is a cache. It may be missing, torn, or from another moment than the journal beside it (a
copy takes files one after another); it says on which byte and which line it stands, and counts
only where the journal agrees.
"""

import logging
import os

import msgspec
from msgspec import Struct

from agentd.chats.state import Chat
from agentd.core.errors import AgentdError
from agentd.storage import document
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed

log = logging.getLogger(__name__)

FORMAT = 5
_LIMIT = 256 * 1024 * 1024


class Checkpoint(Struct, frozen=True):
    """The contents of ``checkpoint.json``."""

    format: int
    chat: Chat


_decoder = msgspec.json.Decoder(Checkpoint)


def encode(chat: Chat) -> bytes:
    """Encode a checkpoint of this state."""
    return encode_checksummed(Checkpoint(FORMAT, chat))


def write(path: str, sealed: bytes) -> None:
    """Store it. A failure is only logged: the journal has it all."""
    try:
        document.replace_document(path, sealed)
    except AgentdError as error:
        log.warning("no checkpoint was written: %s", error)


def read(path: str, chat_id: int, journal: int) -> Chat | None:
    """Return the checkpointed state if it is valid and matches the open ``journal``."""
    chat = read_without_journal(path, chat_id)
    return chat if chat and _matches_journal(journal, chat) else None


def read_without_journal(path: str, chat_id: int) -> Chat | None:
    """Return a valid checkpointed state, even if the journal is gone."""
    try:
        stored = document.read_document(path, _LIMIT)
        if stored is None:
            return None
        found = _decoder.decode(decode_checksummed(stored.data))
    except (AgentdError, ChecksumMismatch, msgspec.DecodeError):
        return None
    return found.chat if found.format == FORMAT and found.chat.id == chat_id else None


def _matches_journal(journal: int, chat: Chat) -> bool:
    """Return True when the journal has the checkpoint's last line at its place."""
    tail = os.pread(journal, chat.size - chat.last_line, chat.last_line)
    try:
        line = decode_checksummed(tail)
    except ChecksumMismatch:
        return False
    begins = f'{{"n":{chat.lines},"seq":{chat.seq},"at":"{chat.updated_at}",'
    return line.startswith(begins.encode())
