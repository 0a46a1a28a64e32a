"""The checkpoint of a chat: its fold up to some line, so that opening it reads little.

It is a cache. It may be missing, torn, or from another moment than the journal beside it (a
copy takes files one after another); it says on which byte and which line it stands, and counts
only where the journal agrees.
"""

import logging
import os

import msgspec
from msgspec import Struct

from agentd.chats.fold import Chat
from agentd.disk import document
from agentd.disk.lines import Broken, seal, unseal
from agentd.errors import AgentdError

log = logging.getLogger(__name__)

FORMAT = 4
_LIMIT = 256 * 1024 * 1024


class Checkpoint(Struct, frozen=True):
    """What ``checkpoint.json`` holds."""

    format: int
    chat: Chat


_decoder = msgspec.json.Decoder(Checkpoint)


def encode(chat: Chat) -> bytes:
    """The bytes of a checkpoint of this state."""
    return seal(Checkpoint(FORMAT, chat))


def write(path: str, sealed: bytes) -> None:
    """Store it. A failure is only logged: the journal has it all."""
    try:
        document.replace(path, sealed)
    except AgentdError as error:
        log.warning("no checkpoint was written: %s", error)


def read(path: str, chat_id: int, journal: int) -> Chat | None:
    """The checkpointed state, if there is a sound one that the open ``journal`` agrees with."""
    chat = read_alone(path, chat_id)
    return chat if chat and _stands_on(journal, chat) else None


def read_alone(path: str, chat_id: int) -> Chat | None:
    """The checkpointed state of a chat that may have no journal any more, if it is sound."""
    try:
        stored = document.read(path, _LIMIT)
        if stored is None:
            return None
        found = _decoder.decode(unseal(stored.data))
    except (AgentdError, Broken, msgspec.DecodeError):
        return None
    return found.chat if found.format == FORMAT and found.chat.id == chat_id else None


def _stands_on(journal: int, chat: Chat) -> bool:
    """True when the line that ends at the checkpoint's byte is the one it was taken at."""
    tail = os.pread(journal, chat.size - chat.last_line, chat.last_line)
    try:
        line = unseal(tail)
    except Broken:
        return False
    begins = f'{{"n":{chat.lines},"seq":{chat.seq},"at":"{chat.updated_at}",'
    return line.startswith(begins.encode())
