"""The index: every chat at a glance in one file, so that a start opens only what changed.

It is a cache, believed only where a journal still has the size that it names.
"""

import logging

import msgspec
from msgspec import Struct

from agentd.chats.state import ChatSummary
from agentd.core.errors import AgentdError
from agentd.core.ids import HighWaterMarks
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import read_document, replace_document

log = logging.getLogger(__name__)

FORMAT = 3
_LIMIT = 256 * 1024 * 1024


class ChatIndex(Struct, frozen=True):
    """The contents of ``index.json``; ``highest`` are the marks when it was written."""

    format: int
    highest: HighWaterMarks
    chats: list[ChatSummary]


_decoder = msgspec.json.Decoder(ChatIndex)


def write_index(path: str, highest: HighWaterMarks, chats: list[ChatSummary]) -> None:
    """Store it. Blocking; raises ``Unavailable``."""
    replace_document(path, encode_checksummed(ChatIndex(FORMAT, highest, chats)))


def read_index(path: str) -> ChatIndex:
    """Return the stored index; an empty one when it is missing or invalid."""
    empty = ChatIndex(FORMAT, HighWaterMarks(), [])
    try:
        document = read_document(path, _LIMIT)
        if document is None:
            return empty
        found = _decoder.decode(decode_checksummed(document.data))
    except (AgentdError, ChecksumMismatch, msgspec.DecodeError) as error:
        log.warning("%s is not used, every chat is read instead: %s", path, error)
        return empty
    return found if found.format == FORMAT else empty
